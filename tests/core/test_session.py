"""Turns, steps, the latch, `admitted` and the overrides."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec import UNSET, Raw

from tests.build import call, calls, distinct, in_force, results, same, session
from turnguard.core.session import EventError, SessionGuard, StaleTurnError
from turnguard_protocol.events import (
    Compacted,
    Event,
    Result,
    Retry,
    StateChanged,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    TurnEnded,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.verdicts import Action, OverrideAction

CAP_3 = {"maxToolCallsPerTurn": 3}


def halted() -> SessionGuard:
    guarded = session(model=CAP_3)
    assert guarded.record([TurnStarted("t"), distinct(4)]).action is Action.HALT
    return guarded


# --- turns ---


def test_the_first_event_opens_a_turn() -> None:
    guarded = session()
    assert guarded.status().state == "idle"
    assert guarded.record([distinct(1)]).turn_id == "turn-1"
    assert guarded.status().state == "running"


@pytest.mark.parametrize("event", [StepFinished(), TurnEnded(), Text("x"), Thought("x"), UserInput(), Compacted()])
def test_every_event_is_taken_as_the_first(event: Event) -> None:
    verdict = session().record([event])
    assert (verdict.action, verdict.admitted) == (Action.ALLOW, [])


def test_a_record_without_events_is_answered() -> None:
    assert session().record([]).action is Action.ALLOW


def test_the_hosts_turn_id_is_used_and_a_new_turn_ends_the_open_one() -> None:
    guarded = session()
    assert guarded.record([TurnStarted("mine"), distinct(2)]).turn_id == "mine"
    verdict = guarded.record([TurnStarted(), distinct(1)])
    assert (verdict.turn_id, verdict.totals.tool_calls) == ("turn-2", 1)


def test_after_the_end_late_results_change_nothing_and_calls_open_a_new_turn() -> None:
    guarded = session()
    guarded.record([TurnStarted("a"), calls(call(call_id="i"))])
    guarded.record([TurnEnded("cancelled")])
    assert guarded.status().state == "idle"
    assert guarded.record([results(Result("i"))]).turn_id == "a"
    assert guarded.record([TurnEnded(), StepFinished()]).turn_id == "a"
    assert guarded.status().state == "idle"
    assert guarded.record([distinct(1)]).turn_id == "turn-2"


def test_closing_sums_the_turn_up() -> None:
    assert session().close() is None
    guarded = halted()
    summary = guarded.close()
    assert summary is not None
    assert (summary.turn_id, summary.outcome, summary.totals.tool_calls) == ("t", "completed", 4)
    assert [finding.loop_type for finding in summary.findings] == ["turn_tool_call_cap"]
    guarded = session()
    guarded.record([distinct(1)])
    guarded.record([TurnEnded("failed")])
    summary = guarded.close()
    assert summary is not None
    assert summary.outcome == "failed"


# --- steps and what may start ---


def test_steps_are_counted_once_a_response() -> None:
    guarded = session()
    guarded.record([Thought("think"), Text("hello"), distinct(2)])
    assert guarded.status().totals.steps == 1
    guarded.record([results(Result(name="read_file", args=Raw(b'{"n":0}')))])
    guarded.record([Text("next")])
    assert guarded.status().totals.steps == 2
    guarded.record([StepFinished()])
    guarded.record([distinct(1, 5)])
    assert guarded.status().totals.steps == 3
    guarded.record([distinct(1, 6)])
    assert guarded.status().totals.steps == 4


def test_a_stream_response_in_several_batches_is_one_step() -> None:
    guarded = session(turnguard={"turnGuard": "stream"})
    guarded.record([distinct(1)])
    guarded.record([distinct(1, 1)])
    assert guarded.status().totals.steps == 1


@pytest.mark.parametrize("opener", [distinct(1, 1), Text("next")])
def test_calls_or_text_after_results_finish_the_step(opener: Event) -> None:
    guarded = session()
    guarded.record([calls(call(args={"n": 0}, call_id="i"))])
    guarded.record([results(Result("i"))])
    guarded.record([opener])
    assert guarded.record([Retry()]).totals.tool_calls == 1


def test_calls_after_calls_do_not_finish_the_step() -> None:
    guarded = session()
    guarded.record([distinct(1)])
    guarded.record([distinct(1, 1)])
    assert guarded.record([Retry()]).totals.tool_calls == 0


def test_prepare_step_finishes_the_step() -> None:
    guarded = session()
    guarded.record([distinct(1)])
    step = guarded.prepare_step()
    assert (step.tool_choice, step.active_tools, step.state) == ("auto", None, None)
    assert guarded.record([Retry()]).totals.tool_calls == 1


def test_a_halted_turn_gets_no_tools_for_its_next_step() -> None:
    assert halted().prepare_step().tool_choice == "none"
    assert session().prepare_step().tool_choice == "auto"


def test_admitted_on_results_lists_what_may_still_start() -> None:
    guarded = session()
    batch = calls(call(call_id="a"), call("grep", {"q": 1}), call("ls", {"p": 2}, "c"))
    assert guarded.record([batch]).admitted == [0, 1, 2]
    assert guarded.record([results(Result("c"))]).admitted == [0, 1]
    assert guarded.record([results(Result(name="grep", args=Raw(b'{"q":1.0}')))]).admitted == [0]
    assert guarded.record([results(Result("unknown"))]).admitted == [0]
    assert guarded.record([StepFinished()]).admitted == []


def test_results_of_one_event_are_paired_each_with_its_own_call() -> None:
    guarded = session()
    guarded.record([calls(call("a", {}), call("a", {}), call("b", {}, "i"))])
    paired = results(Result(name="a"), Result("i"))
    assert guarded.record([paired]).admitted == [1]


def test_the_findings_of_a_step_closed_by_prepare_step_come_with_the_next_record() -> None:
    guarded = session(turnguard={"repeatedFailures": "warn"})
    for _ in range(2):
        guarded.record([same(4)])
        failed = Result(name="grep", args=Raw(b'{"q":1}'), ok=False, error_type="execution")
        guarded.record([results(*[failed] * 4)])
        guarded.prepare_step()
    verdict = guarded.record([Text("x")])
    assert [finding.loop_type for finding in verdict.findings] == ["repeated_tool_execution_failure"]
    assert guarded.record([Text("y")]).findings == []


# --- the latch ---


@pytest.mark.parametrize(
    "event",
    [distinct(1, 9), results(Result("x")), Text("x"), StepFinished(), Retry(), UserInput(), StateChanged("s"), calls()],
)
def test_a_halted_turn_answers_the_same_halt_to_everything(event: Event) -> None:
    guarded = halted()
    first = guarded.status().totals
    verdict = guarded.record([event])
    assert (verdict.action, verdict.admitted, verdict.totals) == (Action.HALT, [], first)
    assert [finding.fresh for finding in verdict.findings] == [False]
    assert verdict.user_message is not UNSET
    assert guarded.status().state == "halted"


def test_the_halt_outlives_the_end_of_its_turn_but_not_the_next_start() -> None:
    guarded = halted()
    assert guarded.record([TurnEnded()]).action is Action.HALT
    assert guarded.record([distinct(1)]).action is Action.HALT
    assert guarded.record([TurnStarted(), distinct(1)]).action is Action.ALLOW


def test_what_follows_a_halt_in_the_same_record_is_not_applied() -> None:
    guarded = session(turnguard={"turnGuard": "stream"})
    chant = Text("abcdefghij " * 200)
    guarded.configure(in_force(turnguard={"turnGuard": "stream"}, model={"skipLoopDetection": False}))
    verdict = guarded.record([chant, distinct(2)])
    assert (verdict.action, verdict.totals.tool_calls) == (Action.HALT, 0)


def test_a_turn_that_starts_in_the_same_record_answers_for_itself() -> None:
    guarded = session()
    guarded.record([results(*[Result(name="a", error_type="invalid_params")] * 2)])
    third = results(Result(name="a", error_type="invalid_params"))
    verdict = guarded.record([third, TurnStarted("new"), distinct(1)])
    assert (verdict.action, verdict.turn_id, verdict.findings) == (Action.ALLOW, "new", [])
    assert guarded.status().state == "running"


# --- bad input ---


def deep(levels: int) -> Raw:
    return Raw(b"[" * levels + b"]" * levels)


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (ToolCalls([call(), msgspec.structs.replace(call(), args=deep(600))]), "$.events[1].calls[1].args"),
        (results(Result("i", name="a", args=deep(600))), "$.events[1].results[0].args"),
        (ToolCalls([msgspec.structs.replace(call(), args=Raw(b"{nonsense}"))]), "$.events[1].calls[0].args"),
    ],
)
def test_an_event_that_cannot_be_identified_leaves_everything_as_it_was(event: Event, path: str) -> None:
    guarded = session()
    guarded.record([distinct(2)])
    before = guarded.snapshot()
    with pytest.raises(EventError) as caught:
        guarded.record([TurnStarted(), event])
    assert caught.value.path == path
    assert "x" * 10 not in caught.value.message
    assert guarded.snapshot() == before


def test_an_output_that_cannot_be_identified_names_its_field() -> None:
    guarded = session(turnguard={"turnGuard": "stream"})
    with pytest.raises(EventError) as caught:
        guarded.record([results(Result("i", error=deep(600)))])
    assert caught.value.path == "$.events[0].results[0].error"


# --- overrides ---

Trip = Callable[[], SessionGuard]


def trip_explicit() -> SessionGuard:
    return halted()


def trip_stuck() -> SessionGuard:
    guarded = session()
    guarded.record([same(6)])
    guarded.record([distinct(94)])
    guarded.record([distinct(4, 100)])
    return guarded


def trip_backstop() -> SessionGuard:
    guarded = session()
    guarded.record([distinct(1000)])
    guarded.record([distinct(4, 1000)])
    return guarded


def trip_duplicate() -> SessionGuard:
    guarded = session(model={"skipLoopDetection": False})
    guarded.record([same(2)])
    guarded.record([same(4)])
    return guarded


def trip_replay() -> SessionGuard:
    guarded = session()
    for _ in range(3):
        guarded.record([calls(call("a", {}, "i"))])
    return guarded


def trip_invalid() -> SessionGuard:
    guarded = session()
    guarded.record([results(*[Result(name="a", error_type="invalid_params")] * 3)])
    return guarded


def trip_identical() -> SessionGuard:
    guarded = session(turnguard={"turnGuard": "stream"})
    for _ in range(5):
        guarded.record([same(1)])
    return guarded


def trip_failures() -> SessionGuard:
    guarded = session(turnguard={"repeatedFailures": "enforce"})
    failed = Result(name="grep", args=Raw(b'{"q":1}'), ok=False, error_type="execution")
    for _ in range(3):
        guarded.record([same(4)])
        guarded.record([results(*[failed] * 4), StepFinished()])
    return guarded


TRIPS: dict[str, tuple[Trip, Event]] = {
    "explicit_cap": (trip_explicit, distinct(4)),
    "stuck": (trip_stuck, distinct(4, 100)),
    "backstop": (trip_backstop, distinct(4, 1000)),
    "global_tool_call_duplicate": (trip_duplicate, same(4)),
    "replayed_call_id": (trip_replay, distinct(1)),
    "invalid_tool_params_stagnation": (trip_invalid, results(Result(name="a", error_type="invalid_params"))),
    "consecutive_identical_tool_calls": (trip_identical, same(1)),
    "repeated_tool_execution_failure": (trip_failures, same(4)),
}


@pytest.mark.parametrize("action", ["continueOnce", "raiseCap", "disable"])
@pytest.mark.parametrize("name", TRIPS)
def test_every_override_gets_past_every_halt_at_the_next_event(name: str, action: OverrideAction) -> None:
    trip, again = TRIPS[name]
    guarded = trip()
    assert guarded.status().state == "halted"
    guarded.override(action)
    assert guarded.status().state == ("disabled" if action == "disable" else "running")
    assert guarded.status().overrides[-1].action == action
    assert guarded.record([again]).action is Action.ALLOW


@pytest.mark.parametrize(
    ("name", "fits", "one_more"),
    [
        ("explicit_cap", distinct(4), distinct(1, 50)),
        ("backstop", distinct(4, 1000), distinct(1, 5000)),
        ("global_tool_call_duplicate", same(5), same(1)),
        ("invalid_tool_params_stagnation", results(*[Result(name="a", error_type="invalid_params")] * 2), None),
        ("consecutive_identical_tool_calls", same(4), same(1)),
    ],
)
def test_continue_once_clears_the_counter_that_tripped_once(name: str, fits: Event, one_more: Event | None) -> None:
    guarded = TRIPS[name][0]()
    guarded.override("continueOnce")
    assert guarded.record([fits]).action is Action.ALLOW
    assert guarded.record([one_more or results(Result(name="a", error_type="invalid_params"))]).action is Action.HALT


def test_continue_once_clears_only_what_tripped() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 7, "skipLoopDetection": False})
    guarded.record([same(5)])
    guarded.record([distinct(3)])
    guarded.override("continueOnce")
    assert guarded.status().totals.max_key_repeat == 5
    verdict = guarded.record([same(1)])
    assert verdict.findings[0].loop_type == "global_tool_call_duplicate"


def test_raise_cap_adds_what_is_asked_for_and_the_refused_batch_does_not_count() -> None:
    guarded = halted()
    guarded.override("raiseCap", calls=2)
    status = guarded.status()
    assert (status.cap.value, status.cap.explicit, status.totals.tool_calls) == (5, True, 0)
    assert guarded.record([distinct(5)]).action is Action.ALLOW
    verdict = guarded.record([distinct(1, 5)])
    assert (verdict.action, verdict.findings[0].threshold) == (Action.HALT, 5)
    assert "raised to 5" in str(verdict.user_message)


def test_raise_cap_adds_the_caps_own_value_by_default_and_holds_for_the_turn() -> None:
    guarded = halted()
    guarded.override("raiseCap")
    assert guarded.status().cap.value == 6
    guarded.record([TurnStarted()])
    assert guarded.status().cap.value == 3
    assert guarded.status().overrides == []


def test_raise_cap_before_any_halt_raises_the_cap_that_holds() -> None:
    guarded = session()
    guarded.record([same(6)])
    guarded.override("raiseCap", calls=50)
    assert guarded.status().cap.value == 150
    assert guarded.record([distinct(144)]).action is Action.ALLOW
    assert guarded.record([distinct(1, 900)]).findings[0].reason == "stuck"


def test_without_a_cap_or_a_turn_there_is_nothing_to_raise_or_continue() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 0})
    guarded.override("raiseCap")
    guarded.record([distinct(1)])
    guarded.override("raiseCap")
    guarded.override("continueOnce")
    assert guarded.status().overrides == []
    assert guarded.status().cap.value is None


def test_a_click_on_a_stale_notification_changes_nothing() -> None:
    guarded = halted()
    with pytest.raises(StaleTurnError) as caught:
        guarded.override("continueOnce", turn_id="old")
    assert caught.value.turn_id == "t"
    assert guarded.status().state == "halted"
    guarded.override("continueOnce", turn_id="t")
    assert guarded.status().state == "running"


def test_continue_once_goes_on_with_a_turn_the_host_has_ended() -> None:
    guarded = halted()
    guarded.record([TurnEnded()])
    guarded.override("continueOnce")
    verdict = guarded.record([distinct(1)])
    assert (verdict.turn_id, verdict.totals.tool_calls) == ("t", 1)


def test_disabled_everything_passes_and_enabled_the_counters_are_fresh() -> None:
    guarded = halted()
    guarded.override("disable")
    assert guarded.record([distinct(50)]).admitted == list(range(50))
    assert guarded.record([TurnStarted(), distinct(50)]).action is Action.ALLOW
    assert guarded.status().state == "disabled"
    guarded.override("enable")
    assert guarded.status().totals.tool_calls == 0
    assert guarded.record([distinct(3)]).action is Action.ALLOW
    assert guarded.record([distinct(1, 3)]).action is Action.HALT


# --- settings ---


def test_settings_hold_from_the_next_event_and_counts_stay() -> None:
    guarded = session()
    guarded.record([distinct(5)])
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 5}))
    assert guarded.status().totals.tool_calls == 5
    assert guarded.record([distinct(1, 5)]).action is Action.HALT


def test_another_turn_guard_starts_anew() -> None:
    guarded = session()
    guarded.record([same(4)])
    guarded.configure(in_force(turnguard={"turnGuard": "stream"}))
    assert guarded.record([same(4)]).action is Action.ALLOW
    assert guarded.record([same(1)]).action is Action.HALT


def test_a_verdict_carries_sealed_digests_only() -> None:
    sealed: list[str] = []

    def seal(key: str) -> str:
        sealed.append(key)
        return "sealed"

    guarded = SessionGuard("s", in_force(model={"skipLoopDetection": False}), seal=seal)
    verdict = guarded.record([same(6)])
    assert verdict.findings[0].key_digest == "sealed"
    assert len(sealed) == 1
