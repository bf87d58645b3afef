"""Properties of a session that hold for any events, and the histogram of what the runs reached."""

from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.build import call, in_force
from turnguard.core.session import STRICTNESS, EventError, SessionGuard
from turnguard_protocol.events import (
    Compacted,
    Event,
    Fallback,
    Result,
    Retry,
    StateChanged,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Verdict

Strategy = st.SearchStrategy[Any]

seen_events: Counter[str] = Counter()
seen_actions: Counter[str] = Counter()
seen_loops: Counter[str] = Counter()

names: Strategy = st.sampled_from(["read_file", "grep", "run_shell_command", "task_list", "tool_call", None])
ids: Strategy = st.sampled_from([None, "i1", "i2", "i3", "i4"])
args: Strategy = st.sampled_from(
    [{}, {"n": 1}, {"n": 2}, {"command": "git status"}, {"name": "grep", "arguments": {"n": 1}}]
)
one_call: Strategy = st.builds(call, names, args, ids)
batches: Strategy = st.one_of(
    st.lists(one_call, max_size=6),
    st.builds(lambda each, count: [each] * count, one_call, st.integers(1, 7)),
)
one_result: Strategy = st.builds(
    Result,
    id=ids,
    name=names,
    ok=st.sampled_from([None, True, False, False]),
    error_type=st.sampled_from([None, "invalid_params", "execution", "execution"]),
    status=st.sampled_from(["done", "done", "done", "notStarted", "cancelled", "unknown"]),
    output=st.sampled_from([msgspec.Raw(b'"same"'), msgspec.Raw(b"1")]),
)
words: Strategy = st.sampled_from(["abcdefghij ", "- item\n", "```", "x" * 60, "Lorem ipsum dolor sit amet, "])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ToolCalls, batches),
    st.builds(ToolCalls, batches),
    st.builds(ToolCalls, batches),
    st.builds(ToolResults, st.lists(one_result, max_size=4)),
    st.builds(ToolResults, st.builds(lambda each, n: [each] * n, one_result, st.integers(1, 4))),
    st.builds(lambda word, n: Text(word * n), words, st.integers(1, 120)),
    st.builds(Thought, st.sampled_from(["", "s"]), st.just("d")),
    st.just(StepFinished()),
    st.builds(Retry, st.booleans()),
    st.just(Fallback()),
    st.just(Compacted()),
    st.just(StateChanged("s")),
    st.builds(UserInput, st.booleans()),
    st.builds(TurnStarted, st.none(), st.sampled_from(["user", "user", "cron"])),
    st.builds(TurnEnded),
)
failing_step: Strategy = st.builds(
    lambda count: [
        [ToolCalls([call("grep", {"n": 1})] * count)],
        [ToolResults([Result(name="grep", args=msgspec.Raw(b'{"n":1}'), ok=False, error_type="execution")] * count)],
        [StepFinished()],
    ],
    st.integers(1, 5),
)
rejected: Strategy = st.builds(
    lambda count: [[ToolResults([Result(name="grep", ok=False, error_type="invalid_params")] * count)]],
    st.integers(1, 3),
)
fragments: Strategy = st.one_of(
    *[st.just([[TurnStarted()]])] * 3,
    rejected,
    *[st.lists(st.lists(events, min_size=1, max_size=3), min_size=1, max_size=4)] * 4,
    st.builds(lambda step, times: step * times, failing_step, st.integers(1, 4)),
)
records: Strategy = st.lists(fragments, min_size=3, max_size=12).map(
    lambda parts: [record for part in parts for record in part]
)
overrides: Strategy = st.sampled_from([None] * 12 + ["continueOnce", "raiseCap", "disable", "enable"])
sections: Strategy = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries(
            {"maxToolCallsPerTurn": st.sampled_from([None, None, 0, 4, 9, 30]), "skipLoopDetection": st.booleans()}
        ),
        "turnguard": st.fixed_dictionaries(
            {
                "turnGuard": st.sampled_from(["batch", "stream"]),
                "repeatedFailures": st.sampled_from(["off", "shadow", "warn", "enforce"]),
            }
        ),
    }
)
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def note(record: list[Event], verdict: Verdict) -> None:
    seen_events.update(type(event).__name__ for event in record)
    seen_actions[verdict.action.value] += 1
    seen_loops.update(str(finding.loop_type) for finding in verdict.findings if finding.fresh)


def copied(guarded: SessionGuard, in_force_now: SettingsInForce) -> SessionGuard:
    """The same session after its state went through JSON."""
    restored = SessionGuard("s", in_force_now)
    restored.restore(msgspec.json.decode(msgspec.json.encode(guarded.snapshot())))
    return restored


def play(guarded: SessionGuard, record: list[Event], action: Any) -> Verdict:
    if action is not None:
        guarded.override(action, calls=3)
    verdict = guarded.record(record)
    note(record, verdict)
    return verdict


@many
@given(sections, records)
def test_admitted_fits_the_batch_and_the_strictest_finding_decides(given_sections: Any, script: Any) -> None:
    guarded = SessionGuard("s", in_force(**given_sections))
    for record in script:
        verdict = play(guarded, record, None)
        ranks = [STRICTNESS[finding.action] for finding in verdict.findings]
        assert ranks == sorted(ranks, reverse=True)
        assert STRICTNESS[verdict.action] == max(ranks, default=0)
        assert len(set(verdict.admitted)) == len(verdict.admitted)
        assert verdict.admitted == sorted(verdict.admitted)
        if verdict.action is Action.HALT:
            assert verdict.admitted == []
        if type(record[-1]) is ToolCalls:
            assert set(verdict.admitted) <= set(range(len(record[-1].calls)))
            if verdict.action in (Action.ALLOW, Action.WARN) and all(each.id is None for each in record[-1].calls):
                assert verdict.admitted == list(range(len(record[-1].calls)))


@many
@given(sections, records)
def test_a_halt_is_repeated_until_a_turn_starts(given_sections: Any, script: Any) -> None:
    guarded = SessionGuard("s", in_force(**given_sections))
    halt: Verdict | None = None
    for record in script:
        verdict = play(guarded, record, None)
        if any(type(event) is TurnStarted for event in record):
            halt = None
        if halt is not None:
            assert verdict.action is Action.HALT
            assert [f.loop_type for f in verdict.findings] == [f.loop_type for f in halt.findings]
            assert not any(finding.fresh for finding in verdict.findings)
            assert verdict.totals == halt.totals
        elif verdict.action is Action.HALT:
            halt = verdict


@many
@given(sections, records, st.lists(overrides, min_size=8, max_size=40))
def test_snapshot_and_restore_change_no_later_verdict(given_sections: Any, script: Any, actions: Any) -> None:
    now = in_force(**given_sections)
    guarded, restored = SessionGuard("s", now), SessionGuard("s", now)
    for record, action in zip(script, cycle(actions), strict=False):
        restored = copied(restored, now)
        assert play(guarded, record, action) == play(restored, record, action)
        assert guarded.status() == restored.status()


@many
@given(sections, records, st.lists(overrides, min_size=8, max_size=40))
def test_a_record_that_fails_changes_nothing(given_sections: Any, script: Any, actions: Any) -> None:
    guarded = SessionGuard("s", in_force(**given_sections))
    bad = ToolCalls([call(), msgspec.structs.replace(call(), args=msgspec.Raw(b"{"))])
    for record, action in zip(script, cycle(actions), strict=False):
        before = guarded.snapshot()
        with pytest.raises(EventError):
            guarded.record([TurnStarted(), *record, bad])
        assert guarded.snapshot() == before
        play(guarded, record, action)


@many
@given(st.integers(1, 30), st.sampled_from(["batch", "stream"]), records)
def test_no_turn_runs_more_calls_than_an_explicit_cap(cap: int, kind: str, script: Any) -> None:
    guarded = SessionGuard("s", in_force(model={"maxToolCallsPerTurn": cap}, turnguard={"turnGuard": kind}))
    ran: Counter[str] = Counter()
    retried: set[str] = set()
    for record in script:
        verdict = play(guarded, record, None)
        if any(type(event) in (Retry, TurnStarted) for event in record):
            retried.add(verdict.turn_id)
        if type(record[-1]) is ToolCalls:
            ran[verdict.turn_id] += len(verdict.admitted)
    # a retried response's calls are taken back, so its turn may run them twice
    assert all(count <= cap for turn, count in ran.items() if turn not in retried)


@pytest.fixture(scope="module", autouse=True)
def print_histogram() -> Iterator[None]:
    yield
    for name, histogram in (("events", seen_events), ("actions", seen_actions), ("loops", seen_loops)):
        print(f"\n{name}: " + ", ".join(f"{key} {count}" for key, count in histogram.most_common()))
    assert len(seen_events) == len(Event.__args__), "some kind of event was never played"
    # restrict belongs to loopShield's budgets
    assert set(seen_actions) == {"allow", "warn", "block", "halt"}
    assert {"turn_tool_call_cap", "global_tool_call_duplicate", "invalid_tool_params_stagnation"} <= set(seen_loops)
