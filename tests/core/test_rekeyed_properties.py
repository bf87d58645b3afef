"""A turn whose calls come unknown and are re-keyed right after is the turn in which they came known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.build import in_force
from turnguard.core.session import SessionGuard
from turnguard.core.turn.turn_guard import TurnGuard
from turnguard_protocol.events import Call, CallRekeyed, Compacted, Event, Facts, Result, ToolCalls, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Verdict

Strategy = st.SearchStrategy[Any]

halted_by: Counter[str] = Counter()
found: Counter[str] = Counter()
"""Loops that the runs came to: of the turn guard's halts, and of all guards together."""

NAMES: dict[str, Facts | None] = {
    "read": Facts(read_like=True),
    "list": Facts(read_like=True),
    "shell": Facts(git_overview=True),
    "poll": Facts(poll=True),
    "task_list": None,
}

detection = {
    "enabled": True,
    "historySize": 8,
    "warningThreshold": 2,
    "criticalThreshold": 4,
    "postCompactionGuard": {"windowSize": 2},
}


def known(name: str, number: int, call_id: str) -> Call:
    """One of a few calls, all of which the guards tell apart."""
    return Call(name, call_id, key=f"{name} {number}", facts=NAMES[name], hint="create" if number else None)


def unknown(call: Call) -> Call:
    """The call before anything but its id is known."""
    return Call(None, call.id, key="", fidelity="none")


def told(call: Call) -> CallRekeyed:
    """What it is."""
    return CallRekeyed(call.id or "", call.name, key=call.key, hint=call.hint, facts=call.facts)


one_call: Strategy = st.tuples(st.sampled_from([*NAMES, "read", "read", "shell"]), st.integers(0, 2))
runs: Strategy = st.builds(lambda each, times: [each] * times, one_call, st.integers(1, 8))
pairs: Strategy = st.builds(lambda one, other, times: [one, other] * times, one_call, one_call, st.integers(2, 4))
circles: Strategy = st.builds(
    lambda name, other, times: [("poll", 0), *((name if number % 3 else other, number % 4) for number in range(times))],
    st.sampled_from([*NAMES]),
    st.sampled_from(["read", "list", "shell"]),
    st.integers(7, 10),
)
scripts: Strategy = st.lists(
    st.one_of(runs, pairs, circles, circles, st.lists(one_call, max_size=5)), min_size=1, max_size=6
).map(lambda parts: [call for part in parts for call in part])
turn_guard_settings: Strategy = st.builds(
    lambda kind, cap, explicit, skip: msgspec.structs.replace(
        in_force(turnguard={"turnGuard": kind, "progress": {"action": "off"}}, model={"skipLoopDetection": skip}),
        max_tool_calls_per_turn=cap,
        is_cap_explicit=explicit,
    ),
    st.sampled_from(["batch", "stream"]),
    st.sampled_from([4, 12, 100, 100]),
    st.booleans(),
    st.sampled_from([True, False, False]),
)
all_guards: Strategy = st.builds(
    lambda kind, progress: in_force(
        turnguard={"turnGuard": kind, "progress": {"action": progress}, "maxBlocksPerTurn": 2},
        tools={"loopDetection": detection},
        loopShield={"enabled": True, "maxConsecutiveTools": 3},
    ),
    st.sampled_from(["batch", "stream"]),
    st.sampled_from(["warn", "halt"]),
)
many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def turn_guard(guarded: SessionGuard) -> TurnGuard:
    return guarded._stack.turn_guard


def told_one_by_one(guarded: SessionGuard, batch: Sequence[Call]) -> tuple[Verdict, bool]:
    """The batch with nothing known of it, then call by call what it is; the last verdict up to a halt.

    Besides, whether that came at first sight.
    """
    verdict = guarded.record([ToolCalls([unknown(call) for call in batch])])
    is_at_first_sight = verdict.action is Action.HALT
    for call in batch:
        later = guarded.record([told(call)])
        verdict = verdict if verdict.action is Action.HALT else later
    return verdict, is_at_first_sight


@many
@given(turn_guard_settings, scripts, st.lists(st.integers(1, 7), min_size=1, max_size=9))
def test_the_turn_guard_counts_and_halts_as_if_calls_had_come_known(
    now: SettingsInForce, script: Any, sizes: Sequence[int]
) -> None:
    """The stream guard looks at calls one by one; streaks that a call known later was in the middle of are not seen."""
    at_once, later = SessionGuard("s", now), SessionGuard("s", now)
    calls = [known(name, variant, f"c{number}") for number, (name, variant) in enumerate(script)]
    for batch in batches(calls, sizes if now.turn_guard == "batch" else [1]):
        expected = at_once.record([ToolCalls(batch)])
        verdict, is_at_first_sight = told_one_by_one(later, batch)
        assert verdict.action is expected.action
        if is_at_first_sight:
            # Whatever the calls are: there are too many, or too many since others repeated themselves.
            assert verdict.findings[0].loop_type == "turn_tool_call_cap"
            return
        assert [each.loop_type for each in verdict.findings] == [each.loop_type for each in expected.findings]
        assert [each.reason for each in verdict.findings] == [each.reason for each in expected.findings]
        if expected.action is Action.HALT:
            halted_by.update([str(expected.findings[0].loop_type)])
            return
        assert verdict.totals == expected.totals
        assert turn_guard(later).counter.snapshot() == turn_guard(at_once).counter.snapshot()


def batches(calls: Sequence[Call], sizes: Sequence[int]) -> Iterator[list[Call]]:
    """The calls in batches of these sizes, over and over."""
    start = number = 0
    while start < len(calls):
        size = sizes[number % len(sizes)]
        yield list(calls[start : start + size])
        start, number = start + size, number + 1


def briefly(findings: Sequence[Finding]) -> list[tuple[object, ...]]:
    """What findings say, and of what."""
    return sorted((each.guard, each.action.value, str(each.loop_type), each.count, str(each.tool)) for each in findings)


def guards_of(guarded: SessionGuard) -> dict[str, Any]:
    """The state of all guards; what the stream guard keeps only while a call may be judged again left out."""
    state = guarded._stack.snapshot()
    state["turn"].pop("unsure", None)
    return state


@many
@given(all_guards, scripts, st.lists(st.sampled_from(["same", "same", "other"]), min_size=1, max_size=5), st.booleans())
def test_every_guard_ends_up_as_if_calls_had_come_known(
    now: SettingsInForce, script: Any, outcomes: Sequence[str], is_compacted: bool
) -> None:
    """Up to the first refusal: a call that is refused when it is re-keyed may have run, one never admitted did not."""
    at_once, later = SessionGuard("s", now), SessionGuard("s", now)
    for number, each in enumerate(script):
        name, variant = each
        call = known(name, variant, f"c{number}")
        if is_compacted and number == 3:
            at_once.record([Compacted()])
            later.record([Compacted()])
        expected = at_once.record([ToolCalls([call])])
        first = later.record([ToolCalls([unknown(call)])])
        verdict = later.record([told(call)])
        both = [*first.findings, *verdict.findings]
        found.update(str(finding.loop_type) for finding in expected.findings)
        assert briefly(both if first.action is not Action.HALT else first.findings) == briefly(expected.findings)
        assert verdict.admitted == expected.admitted
        if max(first.action, verdict.action, expected.action, key=list(Action).index) in (Action.BLOCK, Action.HALT):
            assert expected.action in (first.action, verdict.action)
            return
        result: list[Event] = [ToolResults([Result(call.id, outcome=outcomes[number % len(outcomes)], ok=True)])]
        assert later.record(result) == at_once.record(result)
        assert guards_of(later) == guards_of(at_once)


@pytest.fixture(scope="module", autouse=True)
def print_histogram() -> Iterator[None]:
    yield
    print("\nhalted by: " + ", ".join(f"{key} {count}" for key, count in halted_by.most_common()))
    print("found: " + ", ".join(f"{key} {count}" for key, count in found.most_common()))
    assert set(halted_by) >= {
        "turn_tool_call_cap",
        "global_tool_call_duplicate",
        "consecutive_identical_tool_calls",
        "alternating_tool_call_pattern",
    }
    assert set(found) >= {"generic_repeat", "ping_pong", "tool_call_budget"}
