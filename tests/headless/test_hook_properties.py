"""However hooks come, a session that is kept between processes answers as one guard would that hears them all."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.headless.hook_calls import Hooks, after, before, context, failed, is_refused, is_stopped, prompt, said

from turnguard.core.identify import identify
from turnguard.core.scope import of_scope
from turnguard.headless.hooks.agents import BY_NAME
from turnguard.headless.hooks.call import Heard, Input, heard
from turnguard.settings.sourced import SourcedSession
from turnguard.settings.sources import Sources
from turnguard_protocol.verdicts import Action, Verdict

SETTINGS = [
    (),
    ("model.maxToolCallsPerTurn=5",),
    ("tools.loopDetection.enabled=true", "tools.loopDetection.warningThreshold=2"),
    ("turnguard.repeatedFailures=enforce", "turnguard.progress.action=warn"),
    ("turnguard.shadow=true", "model.maxToolCallsPerTurn=3"),
    ("turnguard.turnGuard=stream", "turnguard.progress.action=off"),
    ("turnguard.admission=call", "turnguard.maxStepsPerTurn=6"),
]

CLAUDE = BY_NAME["claude"]

scopes = st.sampled_from([None, None, "a"])
steps = st.one_of(
    st.tuples(st.just("call"), scopes, st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("call"), scopes, st.just(0), st.just(0)),
    st.tuples(st.just("open"), scopes, st.integers(0, 2), st.just(0)),
    st.tuples(st.just("close"), st.none(), st.integers(0, 9), st.integers(0, 2)),
    st.tuples(st.sampled_from(["prompt", "PreCompact", "Stop", "SessionEnd"]), st.none(), st.just(0), st.just(0)),
)


def calls(story: list[tuple[str, str | None, int, int]]) -> list[dict[str, Any]]:
    """The calls of hooks that a story comes to."""
    made: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for number, (what, agent, which, how) in enumerate(story):
        command = f"cat {which}"
        if what in ("call", "open"):
            made.append(before(number, command, agent=agent))
            waiting.append({"call": number, "command": command, "agent": agent})
        if what == "call":
            made.append(after(output=f"out {how}", **waiting.pop()))
        elif what == "close" and waiting:
            call = waiting.pop(which % len(waiting))
            made.append(failed(**call) if how == 2 else after(output=f"out {how}", **call))
        elif what == "prompt":
            made.append(prompt(turn=f"p{number}"))
        elif what not in ("open", "close"):
            made.append(said(what))
    return made


class One:
    """One session that hears everything, in one process and unsealed."""

    def __init__(self, assignments: tuple[str, ...]) -> None:
        self._session = SourcedSession("s", Sources("hook", environ={}, assignments=assignments), directory="/nowhere")

    def hear(self, members: dict[str, Any]) -> tuple[Heard, Verdict]:
        what = heard(CLAUDE, msgspec.convert(members | raw(members), Input))
        assert what is not None
        events = [of_scope(identify(event, self._session.needs), what.scope) for event in what.events]
        return what, self._session.record(events)


def raw(members: dict[str, Any]) -> dict[str, Any]:
    names = ("prompt", "tool_input", "tool_response", "error")
    return {name: msgspec.Raw(msgspec.json.encode(members[name])) for name in names if name in members}


@pytest.mark.parametrize("assignments", SETTINGS, ids=lambda each: ",".join(each) or "default")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.lists(steps, min_size=5, max_size=40))
def test_many_processes_answer_as_one(
    assignments: tuple[str, ...],
    story: list[tuple[str, str | None, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("XDG_CONFIG_HOME", directory)
        monkeypatch.setenv("XDG_STATE_HOME", directory)
        hooks, one = Hooks(Path(directory, "sessions"), *assignments), One(assignments)
        for members in [prompt(turn="first"), *calls(story)]:
            answer = hooks.hear(members)
            what, verdict = one.hear(members)
            is_halt = verdict.action is Action.HALT
            is_at_call = what.moment in ("before", "after", "failed")
            assert is_stopped(answer) == (is_halt and is_at_call)
            blocked = verdict.action is Action.BLOCK and 0 not in verdict.admitted
            assert is_refused(answer) == (what.moment == "before" and (is_halt or blocked))
            if is_refused(answer):
                assert answer["hookSpecificOutput"]["permissionDecisionReason"] == verdict.model_message
            is_fresh = any(finding.fresh for finding in verdict.findings)
            if verdict.action is Action.WARN and is_fresh and is_at_call:
                assert context(answer) == verdict.model_message
            elif not is_refused(answer):
                assert context(answer) is None
