"""The rules of the core client's guard, one test a rule, over the guard alone: no session, no latch."""

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import call, calls, in_force, raw, results
from turnguard.core import thresholds
from turnguard.core.guard import Batch, Ruling
from turnguard.core.identify import identify
from turnguard.core.turn import stream_turn
from turnguard.core.turn.counter import counted
from turnguard.core.turn.reads import ReadWindow
from turnguard.core.turn.stream_turn import LoopDetectionService, request_of
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Facts,
    Fallback,
    Keys,
    Result,
    Retry,
    StepFinished,
    Target,
    Text,
    Thought,
    ToolCalls,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.verdicts import Action, Finding

IDENTICAL = "consecutive_identical_tool_calls"
GIT = "shell_command_stagnation"
CAP = "turn_tool_call_cap"
DUPLICATE = "global_tool_call_duplicate"
ALTERNATING = "alternating_tool_call_pattern"
READ_LOOP = "read_file_loop"
STAGNATION = "action_stagnation"
CHANTING = "chanting_identical_sentences"
THOUGHTS = "repetitive_thoughts"

needs = LoopDetectionService.needs
OPEN = {"skipLoopDetection": False}


def guarded(**model: Any) -> LoopDetectionService:
    """A guard under these settings."""
    return LoopDetectionService(in_force(model=model, turnguard={"turnGuard": "stream"}), seal=lambda key: f"<{key}>")


def check(guard: LoopDetectionService, *asked: Call) -> Ruling:
    """Judges calls in the raw form as one batch."""
    event = identify(calls(*asked), needs)
    assert isinstance(event, ToolCalls)
    return guard.check(Batch(event.calls, None))


def ask(guard: LoopDetectionService, name: str | None = "tool", args: Any = None, call_id: str | None = None) -> Any:
    """The loop type that a call closes; None when it may run, "copy" when it is dropped."""
    ruling = check(guard, call(name, args, call_id))
    if ruling.findings:
        assert ruling.refused == {0}
        return ruling.findings[0].loop_type
    return "copy" if ruling.refused else None


def tell(guard: LoopDetectionService, event: Event) -> str | None:
    """The loop type that an event closes."""
    findings = guard.receive(identify(event, needs))
    return findings[0].loop_type if findings else None


def distinct(guard: LoopDetectionService, count: int, start: int = 0, name: str | None = None) -> list[Any]:
    """What is said to calls that are all different."""
    return [ask(guard, name or f"tool {n}", {"n": n}) for n in range(start, start + count)]


def poll(guard: LoopDetectionService, output: Any, number: int, args: Any = None) -> list[Any]:
    """What is said to a stateful read and to its result."""
    asked = ask(guard, "task_list", args, f"t{number}")
    return [asked, tell(guard, results(Result(id=f"t{number}", output=raw(output))))]


def git(guard: LoopDetectionService, count: int, start: int = 0) -> list[Any]:
    """What is said to overview commands that are all different."""
    return [ask(guard, "run_shell_command", {"command": f"git -C d{n} status"}) for n in range(start, start + count)]


# --- identical calls in a row -----------------------------------------------------------------------------------------


def test_the_fifth_identical_call_in_a_row_stops() -> None:
    guard = guarded()
    assert [ask(guard, args={"q": 1}) for _ in range(5)] == [None] * 4 + [IDENTICAL]


@pytest.mark.parametrize(
    "event",
    [Text("x"), Thought("s", "d"), StepFinished(), Compacted(), UserInput(), Fallback(), results(Result(name="x"))],
)
@pytest.mark.parametrize("model", [{}, OPEN])
def test_what_does_not_break_the_streak(event: Event, model: dict[str, Any]) -> None:
    guard = guarded(**model)
    for _ in range(4):
        assert ask(guard) is None
        assert tell(guard, event) is None
    assert ask(guard) == IDENTICAL


def test_another_call_breaks_the_streak() -> None:
    guard = guarded()
    assert [ask(guard, args=n == 4) for n in range(9)] == [None] * 9
    assert ask(guard, args=False) == IDENTICAL


def test_a_call_without_identity_is_never_identical() -> None:
    guard = guarded()
    for _ in range(20):
        assert not check(guard, Call("tool", key="k", fidelity="none")).findings
    assert guard.identical.length == 1


def test_an_identical_finding_says_which_call_and_names_no_setting() -> None:
    guard = guarded()
    for _ in range(4):
        ask(guard)
    (finding,) = check(guard, call("tool")).findings
    assert (finding.guard, finding.action, finding.tool) == ("turn", Action.HALT, "tool")
    assert (finding.count, finding.threshold) == (5, 5)
    key = request_of(identified(call("tool"))).key
    assert finding.key_digest == f"<{counted(key or '')}>"
    assert finding.setting is msgspec.UNSET


def identified(one: Call) -> Call:
    event = identify(calls(one), needs)
    assert isinstance(event, ToolCalls)
    return event.calls[0]


# --- stateful reads ---------------------------------------------------------------------------------------------------


def test_a_frozen_poll_stops_at_the_fifth_call() -> None:
    guard = guarded()
    said = [poll(guard, "same", n)[0] for n in range(5)]
    assert said == [None] * 4 + [IDENTICAL]


def test_a_poll_that_changes_goes_on_and_its_streak_restarts_at_one() -> None:
    guard = guarded(maxToolCallsPerTurn=0)
    for number in range(5):
        assert poll(guard, number, number)[0] is None
    assert guard.identical.length == 1
    assert [poll(guard, "frozen", n)[0] for n in range(5, 13)] == [None] * 7 + [IDENTICAL]


def test_one_change_in_the_window_buys_another_round() -> None:
    guard = guarded()
    said = [poll(guard, "a" if n == 0 else "b", n)[0] for n in range(9)]
    assert said == [None] * 8 + [IDENTICAL]


def test_a_poll_without_results_stops_at_the_fifth_call() -> None:
    guard = guarded()
    assert [ask(guard, "task_list") for _ in range(5)] == [None] * 4 + [IDENTICAL]


def test_every_round_needs_results_of_its_own() -> None:
    guard = guarded()
    for number in range(5):
        assert poll(guard, number, number)[0] is None
    assert [ask(guard, "task_list") for _ in range(4)] == [None] * 3 + [IDENTICAL]


def test_results_of_another_streak_prove_nothing() -> None:
    guard = guarded()
    for number in range(4):
        poll(guard, number, number)
    ask(guard, "other")
    for _ in range(4):
        ask(guard, "task_list")
    assert ask(guard, "task_list") == IDENTICAL


def test_results_of_another_tool_prove_nothing() -> None:
    guard = guarded()
    for number in range(4):
        ask(guard, "cron_list", None, f"c{number}")
        tell(guard, results(Result(id=f"c{number}", output=raw(number))))
    assert ask(guard, "cron_list") == IDENTICAL
    assert guard.reads is None


def test_the_call_that_trips_awaits_its_result_too() -> None:
    guard = guarded()
    for number in range(5):
        ask(guard, "task_list", None, f"t{number}")
    assert guard.reads is not None
    assert list(guard.reads.pending) == ["t0", "t1", "t2", "t3", "t4"]


def test_results_may_come_by_tool_and_arguments() -> None:
    guard = guarded()
    for number in range(4):
        ask(guard, "task_list", {"f": 1})
        tell(guard, results(Result(name="task_list", args=raw({"f": 1}), output=raw(number))))
    assert ask(guard, "task_list", {"f": 1}) is None


def test_with_the_gate_open_the_sixth_equal_result_stops_when_it_comes() -> None:
    guard = guarded(**OPEN)
    for number in range(5):
        assert poll(guard, "same", number) == [None, None]
        assert distinct(guard, 2, number * 10) == [None, None]
    ask(guard, "task_list", None, "last")
    findings = guard.receive(identify(results(Result(id="last", output=raw("same"))), needs))
    (finding,) = findings
    assert (finding.loop_type, finding.tool) == (DUPLICATE, "task_list")
    assert (finding.count, finding.threshold, finding.setting) == (6, 6, "model.skipLoopDetection")
    assert finding.key_digest is not msgspec.UNSET


def test_with_the_gate_closed_equal_results_only_raise_the_repeat_signal() -> None:
    guard = guarded()
    for number in range(6):
        assert poll(guard, "same", number) == [None, None]
        distinct(guard, 1, number)
    assert (guard.counter.max_repeat, guard.counter.max_tool) == (6, "task_list")
    poll(guard, "new", 7)
    assert guard.counter.max_repeat == 6
    assert distinct(guard, 100 - guard.counter.total, 1000) == [None] * (100 - 13)
    assert ask(guard, "one more") == CAP


def test_of_several_results_the_first_that_trips_stops() -> None:
    guard = guarded(**OPEN)
    six = [Result(name="task_list", key="k", outcome="o") for _ in range(7)]
    (finding,) = guard.receive(results(*six))
    assert finding.count == 6
    assert guard.counter.max_repeat == 6


def test_a_changed_result_is_progress_for_the_same_tool_streak() -> None:
    guard = guarded(**OPEN)
    for number in range(7):
        assert ask(guard, "task_list", {"n": number}) is None
    tell(guard, results(Result(name="task_list", key="k", outcome="a")))
    assert guard.heuristics is not None
    assert guard.heuristics.same_tool.length == 7
    tell(guard, results(Result(name="task_list", key="k", outcome="b")))
    assert guard.heuristics.same_tool.length == 1


def test_a_stateful_read_inside_an_envelope_is_one() -> None:
    guard = guarded()
    for number in range(4):
        ask(guard, "tool_call", {"name": "Task_List", "arguments": {}}, f"t{number}")
        tell(guard, results(Result(id=f"t{number}", output=raw(number))))
    assert ask(guard, "task_list", {}) is None
    assert guard.counter.counts == {}


# --- git inspection ---------------------------------------------------------------------------------------------------


def test_the_eighth_git_overview_in_a_row_stops() -> None:
    guard = guarded()
    assert git(guard, 8) == [None] * 7 + [GIT]
    (finding,) = check(guard, call("run_shell_command", {"command": "git diff"})).findings
    assert (finding.tool, finding.count, finding.threshold) == ("run_shell_command", 9, 8)
    assert (finding.setting, finding.key_digest) == (msgspec.UNSET, msgspec.UNSET)


@pytest.mark.parametrize("breaker", [("run_shell_command", {"command": "ls"}), ("edit", {})])
def test_any_other_call_breaks_the_git_streak(breaker: tuple[str, Any]) -> None:
    guard = guarded()
    git(guard, 7)
    assert ask(guard, *breaker) is None
    assert git(guard, 8, 7) == [None] * 7 + [GIT]


def test_the_identical_streak_comes_before_the_git_streak() -> None:
    guard = guarded()
    git(guard, 3)
    for _ in range(4):
        assert ask(guard, "run_shell_command", {"command": "git diff"}) is None
    assert ask(guard, "run_shell_command", {"command": "git diff"}) == IDENTICAL
    assert guard.git_streak == 7


# --- the cap ----------------------------------------------------------------------------------------------------------


def test_an_explicit_cap_stops_the_call_past_it() -> None:
    guard = guarded(maxToolCallsPerTurn=3)
    assert distinct(guard, 4) == [None] * 3 + [CAP]
    assert guard.counter.total == 4
    (finding,) = check(guard, call("x")).findings
    assert (finding.reason, finding.setting) == ("explicit_cap", "model.maxToolCallsPerTurn")


def test_without_a_cap_there_is_none() -> None:
    assert set(distinct(guarded(maxToolCallsPerTurn=0), 1200)) == {None}


def test_a_turn_that_repeats_a_call_six_times_is_stopped_past_the_soft_cap_by_any_call() -> None:
    guard = guarded()
    for number in range(6):
        ask(guard, "again")
        distinct(guard, 1, number)
    assert set(distinct(guard, 88, 100)) == {None}
    (finding,) = check(guard, call("whatever")).findings
    assert (finding.loop_type, finding.reason, finding.tool, finding.count) == (CAP, "stuck", "again", 101)


def test_a_call_that_trips_a_streak_is_counted_by_its_key_only() -> None:
    guard = guarded()
    for _ in range(5):
        ask(guard)
    assert (guard.counter.total, guard.counter.max_repeat) == (4, 5)
    guard = guarded()
    git(guard, 8)
    assert (guard.counter.total, len(guard.counter.counts)) == (7, 8)


def test_a_streak_comes_before_the_cap() -> None:
    guard = guarded(maxToolCallsPerTurn=4)
    for _ in range(4):
        ask(guard)
    assert ask(guard) == IDENTICAL


# --- envelopes, names and keys ----------------------------------------------------------------------------------------


def test_an_envelope_counts_as_the_call_inside_it() -> None:
    guard = guarded()
    for _ in range(2):
        ask(guard, "edit", {"a": 1})
        ask(guard, "replace", {"a": 1})
    (finding,) = check(guard, call("tool_call", {"name": "Replace", "arguments": {"a": 1}})).findings
    assert (finding.loop_type, finding.tool) == (IDENTICAL, "replace")
    assert len(guard.counter.counts) == 1


def test_an_envelope_without_identity_stays_without() -> None:
    one = Call("tool_call", key="k", fidelity="none", facts=Facts(target=Target("edit", "t")))
    assert request_of(one) == stream_turn.Request("edit", None)


def test_a_missing_name_is_the_empty_one() -> None:
    guard = guarded(**OPEN)
    said = [ask(guard, None, {"n": n}) for n in range(8)]
    assert said == [None] * 7 + [STAGNATION]


def test_an_envelope_is_read_like_and_git_overview_as_its_inside_is() -> None:
    inside = {"name": "Read_File", "arguments": {}}
    assert request_of(identified(call("tool_call", inside))).is_read
    overview = {"name": "run_shell_command", "arguments": {"command": "git status"}}
    assert request_of(identified(call("tool_call", overview))).is_git_overview


def test_a_key_made_elsewhere_counts_as_it_is_and_the_name_tells_a_read() -> None:
    assert request_of(Call("read_file", key=Keys("turn", "rolling"))) == stream_turn.Request("read_file", "turn", True)
    assert request_of(Call("edit", key="k")) == stream_turn.Request("edit", "k", False)
    assert not request_of(Call("read_file", key="k", facts=Facts(poll=True))).is_read


# --- the gate and the heuristics --------------------------------------------------------------------------------------


def test_with_the_gate_closed_the_heuristics_keep_no_state_at_all() -> None:
    guard = guarded(maxToolCallsPerTurn=0)
    for _ in range(30):
        for name in ("a", "b"):
            assert ask(guard, name) is None
    assert tell(guard, Text("x" * 100)) is None
    assert [tell(guard, Thought()) for _ in range(3)] == [None] * 3
    assert guard.heuristics is None


def test_when_several_fire_all_are_reported_and_the_last_is_named() -> None:
    guard = guarded(**OPEN)
    for number in range(5):
        ask(guard, "tool", {"k": 1})
        if number < 2:
            ask(guard, "tool", {"n": number})
    assert ask(guard, "tool", {"k": 1}) == STAGNATION
    assert guard.reported == [DUPLICATE, STAGNATION]


def test_a_heuristic_finding_names_the_setting_of_the_gate() -> None:
    guard = guarded(**OPEN)
    for _ in range(2):
        ask(guard, "a")
        ask(guard, "b")
    ask(guard, "a")
    (finding,) = check(guard, call("b")).findings
    assert (finding.loop_type, finding.setting) == (ALTERNATING, "model.skipLoopDetection")
    assert (finding.guard, finding.action) == ("turn", Action.HALT)
    assert (finding.tool, finding.paired_tool) == ("b", "a")


def test_the_heuristics_do_not_see_what_the_always_on_tier_stopped() -> None:
    guard = guarded(**OPEN)
    for _ in range(5):
        ask(guard)
    assert guard.heuristics is not None
    assert guard.heuristics.same_tool.length == 4
    assert guard.reported == [IDENTICAL]


def test_text_and_thoughts_stop() -> None:
    guard = guarded(**OPEN)
    assert tell(guard, Text("x" * 58)) is None
    assert tell(guard, Text("x")) == CHANTING
    guard = guarded(**OPEN)
    assert [tell(guard, Thought("s", "d")) for _ in range(3)] == [None, None, THOUGHTS]
    assert guard.reported == [THOUGHTS]


def test_a_call_clears_the_words_before_it() -> None:
    guard = guarded(**OPEN)
    tell(guard, Text("x" * 58))
    ask(guard)
    assert tell(guard, Text("x" * 58)) is None


def test_words_that_were_identified_tell_nothing() -> None:
    guard = guarded(**OPEN)
    assert [tell(guard, Thought(length=0)) for _ in range(4)] == [None] * 4
    assert [tell(guard, Text(length=9)) for _ in range(4)] == [None] * 4
    assert guard.heuristics is None


def test_a_gate_that_opens_in_the_turn_opens_on_empty_heuristics() -> None:
    guard = guarded()
    opened = in_force(model=OPEN, turnguard={"turnGuard": "stream"})
    distinct(guard, 7, name="tool")
    guard.configure(opened)
    assert distinct(guard, 8, 7, name="tool") == [None] * 7 + [STAGNATION]


def test_a_gate_that_closes_takes_the_state_of_the_heuristics_along() -> None:
    guard = guarded(**OPEN)
    opened = guard.settings
    distinct(guard, 7, name="tool")
    guard.configure(in_force(turnguard={"turnGuard": "stream"}))
    assert guard.heuristics is None
    assert guard.counter.total == 7
    assert distinct(guard, 3, 7, name="tool") == [None] * 3
    guard.configure(opened)
    assert distinct(guard, 8, 10, name="tool") == [None] * 7 + [STAGNATION]


def test_a_change_of_other_settings_leaves_an_open_gate_alone() -> None:
    guard = guarded(**OPEN)
    distinct(guard, 7, name="tool")
    guard.configure(in_force(model=OPEN | {"maxToolCallsPerTurn": 50}, turnguard={"turnGuard": "stream"}))
    assert distinct(guard, 1, 7, name="tool") == [STAGNATION]


# --- copies -----------------------------------------------------------------------------------------------------------


def test_a_call_whose_id_was_seen_in_the_response_is_dropped_without_a_word() -> None:
    guard = guarded(maxToolCallsPerTurn=2)
    assert check(guard, call("a", None, "i"), call("a", None, "i"), call("b", None, "j")).refused == {1}
    assert ask(guard, "c", None, "i") == "copy"
    assert guard.counter.total == 2
    assert ask(guard, "c", None, "k") == CAP


@pytest.mark.parametrize("event", [StepFinished(), Retry(), Retry(True), Fallback(), TurnStarted()])
def test_ids_are_forgotten_with_the_response(event: Event) -> None:
    guard = guarded()
    ask(guard, "a", None, "i")
    tell(guard, event)
    assert ask(guard, "b", None, "i") is None


@pytest.mark.parametrize("event", [Text("x"), Thought(), Compacted(), results(Result(id="i", output=raw(1)))])
def test_ids_are_not_forgotten_within_it(event: Event) -> None:
    guard = guarded(**OPEN)
    ask(guard, "a", None, "i")
    tell(guard, event)
    assert ask(guard, "b", None, "i") == "copy"


def test_calls_without_an_id_are_no_copies() -> None:
    assert check(guarded(), call("a"), call("a")).refused == frozenset()


def test_only_so_many_ids_of_a_response_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_turn, "MAX_OPEN_CALLS", 2)
    guard = guarded()
    for call_id in "abc":
        ask(guard, "t", {"id": call_id}, call_id)
    assert [ask(guard, "x", {"id": call_id}, call_id) for call_id in "ca"] == ["copy", None]


def test_copies_are_dropped_while_disabled_too() -> None:
    guard = guarded()
    guard.disable_for_session()
    assert [ask(guard, "a", None, "i") for _ in range(2)] == [None, "copy"]


# --- batches ----------------------------------------------------------------------------------------------------------


def test_the_first_call_of_a_batch_that_trips_refuses_all_of_it_and_the_rest_is_not_looked_at() -> None:
    guard = guarded(maxToolCallsPerTurn=2)
    ruling = check(guard, *(call(f"t{n}") for n in range(5)))
    assert ruling.refused == {0, 1, 2, 3, 4}
    assert [finding.loop_type for finding in ruling.findings] == [CAP]
    assert guard.counter.total == 3


def test_an_empty_batch_changes_nothing() -> None:
    guard = guarded(maxToolCallsPerTurn=1)
    assert check(guard) == Ruling()
    assert guard.counter.total == 0


# --- the turn: what each event clears ---------------------------------------------------------------------------------


def busy(**model: Any) -> LoopDetectionService:
    """A guard that holds something everywhere: two calls committed, more on top of them."""
    guard = guarded(**(OPEN | model))
    ask(guard, "edit")
    poll(guard, "s", 0)
    tell(guard, StepFinished())
    ask(guard, "edit", None, "i")
    poll(guard, "s", 1)
    ask(guard, "task_list", {"other": 1}, "open")
    ask(guard, "read_file")
    for n in range(3):
        ask(guard, "run_shell_command", {"command": "git diff"}, f"git {n}")
    tell(guard, Text("a ``` b"))
    tell(guard, Thought("s", "d"))
    return guard


def state_of(guard: LoopDetectionService) -> dict[str, Any]:
    """The state by the columns of the table at the head of the module."""
    heuristics, state = guard.heuristics, guard.reads
    assert heuristics is not None
    return {
        "total": guard.counter.total,
        "committed": guard.counter.committed,
        "key repeats": (len(guard.counter.counts), guard.counter.max_repeat),
        "identical": guard.identical.length,
        "git": guard.git_streak,
        "requests": len(heuristics.requests.counts),
        "alternation": len(heuristics.alternation.calls),
        "same tool": heuristics.same_tool.length,
        "reads": (heuristics.read_window.recent.bit_count(), heuristics.read_window.is_cold),
        "text": heuristics.text.text,
        "thoughts": heuristics.thoughts.length,
        "in code": heuristics.text.in_code,
        "counts": None if state is None else [last.count for last in state.last.values()],
        "fingerprints": None if state is None else len(state.last),
        "pending": None if state is None else list(state.pending),
        "ids": len(guard.response_ids or ()),
    }


BUSY = {
    "total": 9,
    "committed": 2,
    "key repeats": (3, 3),
    "identical": 3,
    "git": 3,
    "requests": 3,
    "alternation": 6,
    "same tool": 3,
    "reads": (1, False),
    "text": "s d",
    "thoughts": 1,
    "in code": True,
    "counts": [2],
    "fingerprints": 1,
    "pending": ["open"],
    "ids": 6,
}

RETRY = {
    "total": 2,
    "key repeats": (0, 0),
    "identical": 0,
    "git": 0,
    "requests": 0,
    "alternation": 0,
    "counts": [0],
    "ids": 0,
}
WORDS = {"text": "", "thoughts": 0}
RESET = (
    RETRY
    | WORDS
    | {"total": 0, "committed": 0, "same tool": 0, "reads": (0, True)}
    | {"counts": None, "fingerprints": None, "pending": None}
)


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        (StepFinished(), {"committed": 9, "ids": 0}),
        (Retry(), RETRY | WORDS),
        (Retry(True), RETRY),
        (Fallback(), WORDS | {"requests": 0, "alternation": 0, "ids": 0}),
        (TurnStarted(), RESET),
        (Compacted(), {}),
        (UserInput(), {}),
    ],
)
def test_what_each_event_clears_and_what_it_keeps(event: Event, changed: dict[str, Any]) -> None:
    guard = busy()
    assert state_of(guard) == BUSY
    tell(guard, event)
    assert state_of(guard) == BUSY | changed


def test_a_retry_forgets_committed_repeats_and_keeps_committed_calls() -> None:
    guard = guarded(maxToolCallsPerTurn=4)
    ask(guard, "a")
    ask(guard, "b")
    tell(guard, StepFinished())
    distinct(guard, 2)
    tell(guard, Retry())
    assert guard.counter.max_repeat == 0
    assert distinct(guard, 3) == [None, None, CAP]


def test_a_fallback_rolls_nothing_of_the_always_on_tier_back() -> None:
    guard = guarded(maxToolCallsPerTurn=4)
    distinct(guard, 2)
    tell(guard, Fallback())
    assert distinct(guard, 3) == [None, None, CAP]


def test_after_a_fallback_duplicates_begin_anew_while_the_cap_remembers() -> None:
    guard = guarded(**OPEN)
    for number in range(5):
        ask(guard, "again")
        distinct(guard, 2, 2 * number)
    tell(guard, Fallback())
    assert ask(guard, "again") is None
    assert guard.counter.max_repeat == 6


def test_a_raised_cap_is_back_where_it_was_in_the_next_turn() -> None:
    guard = guarded(maxToolCallsPerTurn=1)
    (finding,) = check(guard, call("a"), call("b")).findings
    guard.forgive(finding)
    assert guard.raises is not None
    tell(guard, TurnStarted())
    assert (guard.raises, guard.refused_keys) == (None, ())
    assert distinct(guard, 2) == [None, CAP]


# --- disabled ---------------------------------------------------------------------------------------------------------


def test_a_disabled_guard_looks_at_nothing_not_even_after_a_reset() -> None:
    guard = guarded(**OPEN)
    guard.disable_for_session()
    for _ in range(2):
        assert [ask(guard, "task_list", None, f"t{n}") for n in range(10)] == [None] * 10
        assert tell(guard, results(*(Result(name="task_list", key="k", outcome="o") for _ in range(9)))) is None
        assert tell(guard, Text("x" * 100)) is None
        assert [tell(guard, Thought()) for _ in range(4)] == [None] * 4
        assert (guard.counter.total, guard.counter.max_repeat, guard.identical.length) == (0, 0, 0)
        assert (guard.reads, guard.heuristics) == (None, None)
        tell(guard, TurnStarted())
    assert guard.is_disabled


def test_retry_and_finished_still_work_while_disabled() -> None:
    guard = guarded()
    distinct(guard, 3)
    guard.disable_for_session()
    tell(guard, Retry())
    assert guard.counter.total == 0
    guard = guarded()
    distinct(guard, 3)
    guard.disable_for_session()
    tell(guard, StepFinished())
    tell(guard, Retry())
    assert (guard.counter.total, guard.counter.counts) == (3, {})


# --- forgiving --------------------------------------------------------------------------------------------------------


def closing(guard: LoopDetectionService, event: Event) -> Finding:
    """The finding that an event is the first of its kind to cause."""
    for _ in range(2000):
        for finding in guard.receive(event):
            return finding
    raise AssertionError("it never trips")


def test_a_forgiven_streak_begins_anew() -> None:
    guard = guarded()
    for _ in range(4):
        ask(guard)
    (finding,) = check(guard, call("tool")).findings
    guard.forgive(finding)
    assert [ask(guard) for _ in range(5)] == [None] * 4 + [IDENTICAL]


def test_a_forgiven_git_streak_begins_anew() -> None:
    guard = guarded()
    git(guard, 7)
    (finding,) = check(guard, call("run_shell_command", {"command": "git diff"})).findings
    guard.forgive(finding)
    assert git(guard, 8, 8) == [None] * 7 + [GIT]


@pytest.mark.parametrize("cap", [3, None])
def test_after_a_forgiven_cap_the_refused_batch_may_come_again_once(cap: int | None) -> None:
    guard = guarded() if cap is None else guarded(maxToolCallsPerTurn=cap)
    limit = cap or thresholds.DEFAULT_MAX_TOOL_CALLS_PER_TURN * thresholds.ADAPTIVE_CAP_HARD_MULTIPLIER
    distinct(guard, limit - 1)
    batch = [call(f"b{n}", None, f"id {n}") for n in range(5)]
    (finding,) = check(guard, *batch).findings
    guard.forgive(finding)
    assert guard.counter.total == limit - 1
    assert check(guard, *batch) == Ruling()
    assert ask(guard, "one more") == CAP


def test_a_forgiven_stuck_turn_forgets_every_repeat_of_calls_and_results() -> None:
    guard = guarded()
    for number in range(6):
        poll(guard, "same", number)
        ask(guard, "again")
        distinct(guard, 1, number)
    distinct(guard, 82, 100)
    (finding,) = check(guard, call("again")).findings
    assert finding.reason == "stuck"
    guard.forgive(finding)
    assert (guard.counter.total, guard.counter.max_repeat) == (100, 0)
    for number in range(5):
        assert poll(guard, "same", 100 + number)[0] is None
        assert distinct(guard, 1, 200 + number) == [None]
        assert ask(guard, "again") is None
    assert guard.counter.max_repeat == 5
    poll(guard, "same", 200)
    assert ask(guard, "whatever") == CAP


def test_a_forgiven_duplicate_is_counted_from_nothing_again() -> None:
    guard = guarded(**OPEN)
    said: list[Any] = []
    for number in range(5):
        ask(guard, "again")
        distinct(guard, 2, 2 * number)
    (finding,) = check(guard, call("again")).findings
    guard.forgive(finding)
    for number in range(6):
        said.append(ask(guard, "again"))
        distinct(guard, 2, 100 + 2 * number)
    assert said == [None] * 5 + [DUPLICATE]
    assert guard.counter.max_repeat == 6


def test_a_forgiven_duplicate_result_is_counted_from_nothing_again() -> None:
    guard = guarded(**OPEN)
    event = results(Result(name="task_list", key="k", outcome="o"))
    guard.forgive(closing(guard, event))
    assert [tell(guard, event) for _ in range(6)] == [None] * 5 + [DUPLICATE]


def test_a_forgiven_heuristic_begins_anew_and_the_others_go_on() -> None:
    guard = guarded(**OPEN)
    distinct(guard, 7, name="edit")
    (finding,) = check(guard, call("edit", {"n": 7})).findings
    guard.forgive(finding)
    assert finding.loop_type == STAGNATION
    assert guard.heuristics is not None
    assert len(guard.heuristics.requests.counts) == 8
    assert distinct(guard, 8, 8, name="edit") == [None] * 7 + [STAGNATION]


@pytest.mark.parametrize(
    ("event", "forgotten"),
    [
        (Text("x" * 7), lambda guard: guard.heuristics.text.text == ""),
        (Thought("s", "d"), lambda guard: guard.heuristics.thoughts.length == 0),
    ],
)
def test_forgiven_words_begin_anew(event: Event, forgotten: Callable[[LoopDetectionService], bool]) -> None:
    guard = guarded(**OPEN)
    distinct(guard, 3)
    first = closing(guard, event)
    guard.forgive(first)
    assert forgotten(guard)
    assert guard.counter.total == 3
    assert closing(guard, event).loop_type == first.loop_type


def test_a_finding_is_forgiven_though_the_gate_was_closed_since() -> None:
    guard = guarded(**OPEN)
    finding = closing(guard, Text("x" * 7))
    guard.configure(in_force(turnguard={"turnGuard": "stream"}))
    guard.forgive(finding)
    assert guard.heuristics is None


@pytest.mark.parametrize("name", ["tool", "task_list"])
def test_forgiving_uncounts_the_calls_of_the_refused_batch_that_were_counted(name: str) -> None:
    guard = guarded()
    ask(guard, "first", None, "f")
    (finding,) = check(guard, call("a", None, "a"), *(call(name, None, f"{n}") for n in range(7))).findings
    assert (finding.loop_type, guard.counter.total) == (IDENTICAL, 6)
    guard.forgive(finding)
    assert guard.counter.total == 1
    assert ask(guard, "a", None, "a") is None


def test_only_the_last_batch_is_taken_back() -> None:
    guard = guarded(**OPEN)
    distinct(guard, 7, name="edit")
    (finding,) = check(guard, call("edit", {"n": 7})).findings
    guard.forgive(finding)
    guard.forgive(closing(guard, Text("x" * 7)))
    assert guard.counter.total == 7
    check(guard, *(call("other") for _ in range(8)))
    ask(guard, "something else")
    total = guard.counter.total
    guard.forgive(closing(guard, Text("x" * 7)))
    assert guard.counter.total == total


def test_a_raised_cap_lets_the_refused_ids_come_again() -> None:
    guard = guarded(maxToolCallsPerTurn=1)
    ask(guard, "a", None, "a")
    check(guard, call("b", None, "b"))
    guard.take_back_refused()
    assert ask(guard, "b", None, "b") == CAP


# --- snapshots --------------------------------------------------------------------------------------------------------


def written(guard: LoopDetectionService) -> Any:
    """A snapshot as a file would hold it."""
    return json.loads(json.dumps(guard.snapshot()))


def restored(guard: LoopDetectionService) -> LoopDetectionService:
    other = LoopDetectionService(guard.settings, guard.seal)
    other.restore(written(guard))
    return other


def test_a_snapshot_holds_the_whole_state() -> None:
    guard = busy(maxToolCallsPerTurn=9)
    (finding,) = check(guard, call("x"), call("y")).findings
    guard.raise_cap(stream_turn.CapReason(str(finding.reason)), 2)
    guard.disable_for_session()
    other = restored(guard)
    assert other.snapshot() == guard.snapshot()
    assert state_of(other) == state_of(guard)
    assert (other.is_disabled, other.refused_unseen, other.reported) == (True, 1, [CAP])
    assert other.cap_in_force() == guard.cap_in_force()


@pytest.mark.parametrize("thought", ["😀", "".join(map(str, range(1000, 1050)))[:199] + "😀"])
def test_a_snapshot_may_hold_half_a_character(thought: str) -> None:
    guard = guarded(**OPEN)
    tell(guard, Thought(thought, thought))
    assert restored(guard).snapshot() == guard.snapshot()
    assert [tell(restored(guard), Thought(thought, thought)), tell(guard, Thought(thought, thought))] == [None, None]
    assert tell(restored(guard), Thought(thought, thought)) == THOUGHTS


def test_a_snapshot_of_nothing_is_nothing() -> None:
    other = restored(guarded())
    assert (other.reads, other.heuristics, other.response_ids, other.is_disabled) == (None, None, None, False)
    assert other.reported == []


def test_reports_of_two_sessions_share_nothing() -> None:
    guard = guarded(maxToolCallsPerTurn=1)
    distinct(guard, 2)
    assert (guard.reported, guarded().reported) == ([CAP], [])


def test_a_snapshot_does_not_change_with_what_follows() -> None:
    guard = busy()
    snapshot = guard.snapshot()
    before = json.dumps(snapshot)
    poll(guard, "s", 5)
    ask(guard, "edit", {"more": 1}, "more")
    tell(guard, Text("``` more"))
    tell(guard, Text("more" * 20))
    assert json.dumps(snapshot) == before


ASKED = st.builds(
    lambda name, n, call_id: call(name, {"n": n}, call_id),
    st.sampled_from(["edit", "replace", "read_file", "list_x", "task_list"]),
    st.integers(0, 1),
    st.sampled_from([None, "i", "j", "k"]),
)
SHELL = st.builds(lambda command: call("run_shell_command", {"command": command}), st.sampled_from(["ls", "git diff"]))
ENVELOPE = st.builds(lambda name: call("tool_call", {"name": name}), st.sampled_from(["Edit", "task_list"]))
RESULTS = st.builds(
    lambda call_id, output: results(Result(id=call_id, output=raw(output))),
    st.sampled_from(["i", "j", "k"]),
    st.sampled_from(["s", "t"]),
)
NAMED_RESULTS = st.builds(
    lambda n, output: results(Result(name="task_list", args=raw({"n": n}), output=raw(output))),
    st.integers(0, 1),
    st.sampled_from(["s", "s", "t"]),
)
BATCHES = st.builds(lambda batch: calls(*batch), st.lists(st.one_of(ASKED, SHELL, ENVELOPE), max_size=4))
WORDS_TOLD = st.sampled_from([Text("abc " * 6), Text("```"), Text("- x"), Text("😀" * 9), Thought("s", "d"), Thought()])
TURN = st.sampled_from([StepFinished(), Retry(), Retry(True), Fallback(), TurnStarted()])
SCRIPTS = st.lists(st.one_of(BATCHES, BATCHES, BATCHES, RESULTS, NAMED_RESULTS, WORDS_TOLD, TURN), max_size=60)
MODELS = st.sampled_from([{}, OPEN, OPEN | {"maxToolCallsPerTurn": 7}, {"maxToolCallsPerTurn": 4}])


def findings_of(guard: LoopDetectionService, event: Event) -> list[Finding]:
    event = identify(event, needs)
    if isinstance(event, ToolCalls):
        return list(guard.check(Batch(event.calls, None)).findings)
    return list(guard.receive(event))


@given(MODELS, SCRIPTS)
def test_a_restored_guard_goes_on_as_the_first_one(model: dict[str, Any], script: list[Event]) -> None:
    guard = other = guarded(**model)
    for event in script:
        found = findings_of(guard, event)
        assert findings_of(other, event) == found if other is not guard else True
        for finding in found:
            guard.forgive(finding)
            if other is not guard:
                other.forgive(finding)
        other = restored(guard)
        assert other.snapshot() == guard.snapshot()


@given(MODELS, SCRIPTS)
def test_a_batch_is_judged_as_its_calls_one_by_one(model: dict[str, Any], script: list[Event]) -> None:
    whole, parts = guarded(**model), guarded(**model)
    for event in script:
        found = findings_of(whole, event)
        each = [calls(one) for one in event.calls] if isinstance(event, ToolCalls) else [event]
        said = (finding for one in each for finding in findings_of(parts, one))
        assert list(islice(said, 1)) == found
        if found:
            return
        assert parts.snapshot() == whole.snapshot()


@given(st.sampled_from([{}, {"maxToolCallsPerTurn": 4}]), SCRIPTS)
def test_nothing_opens_the_gate_by_itself(model: dict[str, Any], script: list[Event]) -> None:
    guard = guarded(**model)
    for event in script:
        for finding in findings_of(guard, event):
            assert finding.loop_type in {IDENTICAL, GIT, CAP}
            guard.forgive(finding)
        assert guard.heuristics is None


@given(SCRIPTS)
def test_a_forgiven_call_passes_when_every_detector_it_trips_has_forgiven_once(script: list[Event]) -> None:
    guard = guarded(**OPEN)
    for event in script:
        for one in [calls(one) for one in event.calls] if isinstance(event, ToolCalls) else [event]:
            forgiven: list[str] = []
            while found := findings_of(guard, one):
                forgiven.append(found[0].loop_type)
                guard.forgive(found[0])
                assert len(forgiven) == len(set(forgiven))


def test_the_read_window_of_a_new_turn_is_cold() -> None:
    guard = busy()
    tell(guard, TurnStarted())
    assert guard.heuristics is not None
    assert guard.heuristics.read_window == ReadWindow()
