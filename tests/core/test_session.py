"""Turns, steps, the latch, `admitted` and the overrides."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from tests.build import call, calls, distinct, in_force, results, same, session
from tests.core.trips import READ, REFUSALS, Trip, ran, replayed, rolling, shield
from turnguard.core.session import STRICTNESS, EventError, SessionGuard, StaleTurnError
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
from turnguard_protocol.verdicts import Action, AppliedOverride, OverrideAction, Verdict

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
    assert (summary.turn_id, summary.outcome, summary.totals.tool_calls) == ("t", "cancelled", 4)
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


def budget(**more: Any) -> SessionGuard:
    """A session with a budget of two calls in a row, and its states."""
    return session(**shield(**{"states": {"A": ["read"], "B": ["ask"]}, **more}))


def looping(guarded: SessionGuard) -> bool:
    return guarded.prepare_step().tool_choice == "none"


def test_a_step_closed_by_prepare_step_is_not_closed_again_by_the_hosts_own_word() -> None:
    """It would be a second step, without calls, which breaks the run of calls that the budget counts."""
    guarded = budget()
    guarded.record([distinct(2)])
    assert looping(guarded)
    guarded.record([StepFinished()])
    assert looping(guarded)
    guarded.record([StepFinished()])
    assert not looping(guarded), "a step of its own, without calls or a word"


def test_a_step_that_the_host_closed_before_prepare_step_may_be_followed_by_one_without_calls() -> None:
    guarded = budget()
    guarded.record([distinct(2)])
    guarded.record([StepFinished()])
    assert looping(guarded)
    guarded.record([StepFinished()])
    assert not looping(guarded)


@pytest.mark.parametrize("words", [[Text("x")], [Thought("x")], [Text("x"), Text("y")]])
def test_a_step_of_words_breaks_the_run_however_it_is_closed(words: list[Event]) -> None:
    for closing in ([StepFinished()], []):
        guarded = budget()
        guarded.record([distinct(2), StepFinished()])
        assert looping(guarded)
        guarded.record([*words, *closing])
        guarded.prepare_step()
        assert not looping(guarded)


def test_prepare_step_twice_closes_one_step() -> None:
    guarded = budget()
    guarded.record([distinct(2)])
    assert looping(guarded)
    assert looping(guarded)
    assert guarded.record([StepFinished()]).totals.steps == 1
    assert looping(guarded)


def test_a_halt_that_prepare_step_finds_is_answered_with_the_next_record_and_stays() -> None:
    guarded = session(turnguard={"progress": {"action": "halt"}})
    for event in ran(5)[:-1]:
        guarded.record([event])
    assert guarded.prepare_step().tool_choice == "none"
    assert guarded.status().state == "halted"
    verdict = guarded.record([READ])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])
    assert [finding.fresh for finding in verdict.findings] == [True]
    assert [finding.fresh for finding in guarded.record([READ]).findings] == [False]


@pytest.mark.parametrize("action", ["continueOnce", "raiseCap", "disable"])
def test_a_halt_that_prepare_step_finds_can_be_passed_before_it_was_answered(action: OverrideAction) -> None:
    guarded = session(turnguard={"progress": {"action": "halt"}})
    for event in ran(5)[:-1]:
        guarded.record([event])
    guarded.prepare_step()
    guarded.override(action)
    assert guarded.prepare_step().tool_choice == "auto"
    assert guarded.record([READ]).action is Action.ALLOW


def test_a_disabled_session_gets_all_its_tools() -> None:
    guarded = budget()
    guarded.record([distinct(2)])
    assert looping(guarded)
    guarded.override("disable")
    assert not looping(guarded)


# --- the host's state machine ---


@pytest.mark.parametrize("state", ["idle", "running", "halted", "disabled", "ended"])
def test_a_move_of_the_hosts_state_machine_is_always_heard(state: str) -> None:
    guarded = session(**shield(states={"A": ["read"], "B": ["ask"]}), model=CAP_3)
    if state != "idle":
        guarded.record([distinct(4 if state == "halted" else 1)])
    if state == "disabled":
        guarded.override("disable")
    if state == "ended":
        guarded.record([TurnEnded()])
    else:
        assert guarded.status().state == state
    assert guarded.status().budget_state == "A"
    guarded.record([StateChanged("B")])
    assert guarded.status().budget_state == "B"
    assert guarded.prepare_step().active_tools == ["ask"]
    guarded.override("enable")
    guarded.record([TurnStarted(), distinct(1)])
    assert guarded.status().budget_state == "B"


def test_enabled_again_the_machine_is_where_it_was_with_nothing_counted() -> None:
    guarded = budget()
    guarded.record([StateChanged("B"), distinct(2)])
    assert looping(guarded)
    guarded.override("disable")
    guarded.override("enable")
    assert not looping(guarded)
    assert guarded.status().budget_state == "B"


def test_without_states_a_move_is_any_move() -> None:
    guarded = session(**shield())
    guarded.record([distinct(2), StepFinished()])
    assert looping(guarded)
    guarded.record([StateChanged("anything")])
    assert not looping(guarded)
    assert guarded.status().budget_state is UNSET


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


NAMELESS = calls(call("a"), call(None))
TOO_DEEP = ToolCalls([msgspec.structs.replace(call(), args=deep(600))])


@pytest.mark.parametrize(
    ("more", "event", "path"),
    [
        ({"mode": "repeated"}, NAMELESS, "$.events[3].calls[1].name"),
        ({"mode": "repeated"}, calls(call("")), "$.events[3].calls[0].name"),
        ({}, StateChanged("C"), "$.events[3].state"),
        ({"enabled": False}, StateChanged("C"), "$.events[3].state"),
        ({"mode": "repeated"}, TOO_DEEP, "$.events[3].calls[0].args"),
    ],
)
def test_what_a_budget_cannot_take_leaves_everything_as_it_was(more: Any, event: Event, path: str) -> None:
    guarded = budget(**more)
    guarded.record([calls(call("a", {}, "i"))])
    before = guarded.snapshot()
    with pytest.raises(EventError) as caught:
        guarded.record([results(Result("i")), StateChanged("B"), TurnStarted(), event])
    assert caught.value.path == path
    assert guarded.snapshot() == before
    assert guarded.record([results(Result("i"))]).action is Action.ALLOW


def test_an_event_behind_one_that_cannot_be_taken_is_not_looked_at() -> None:
    with pytest.raises(EventError) as caught:
        budget().record([StateChanged("C"), TOO_DEEP])
    assert caught.value.path == "$.events[0].state"


@pytest.mark.parametrize("more", [{}, {"mode": "repeated", "enabled": False}])
def test_where_names_do_not_matter_a_call_without_one_is_taken(more: Any) -> None:
    assert budget(**more).record([NAMELESS]).admitted == [0, 1]


def test_a_disabled_session_takes_calls_without_a_name() -> None:
    guarded = budget(mode="repeated")
    guarded.override("disable")
    assert guarded.record([NAMELESS]).admitted == [0, 1]


def test_an_output_that_cannot_be_identified_names_its_field() -> None:
    guarded = session(turnguard={"turnGuard": "stream"})
    with pytest.raises(EventError) as caught:
        guarded.record([results(Result("i", error=deep(600)))])
    assert caught.value.path == "$.events[0].results[0].error"


# --- overrides ---

HALTS_OF_OTHERS = [trip for trip in REFUSALS if trip.action is Action.HALT and trip.loop_type != "turn_tool_call_cap"]
OVERRIDES = ["continueOnce", "raiseCap", "disable"]


def state_of(trip: Trip) -> str:
    return "halted" if trip.action is Action.HALT else "running"


def strictness(verdict: Verdict) -> int:
    return STRICTNESS[verdict.action]


@pytest.mark.parametrize("trip", REFUSALS, ids=lambda trip: trip.id)
class TestEveryRefusal:
    """Every reason of every guard for which something does not run, and the ways past it."""

    def test_without_an_override_it_stands(self, trip: Trip) -> None:
        guarded, verdict = trip.play()
        assert (verdict.action, guarded.status().state) == (trip.action, state_of(trip))
        assert guarded.record([trip.again]).action is trip.stays

    @pytest.mark.parametrize("action", OVERRIDES)
    def test_every_override_gets_past_it_at_the_next_event(self, trip: Trip, action: OverrideAction) -> None:
        guarded, _ = trip.play()
        guarded.override(action, turn_id="t")
        assert guarded.status().state == ("disabled" if action == "disable" else "running")
        assert guarded.status().overrides[-1].action == action
        verdict = guarded.record([trip.again])
        assert (verdict.action, verdict.turn_id) == (Action.ALLOW, "t")
        if type(trip.again) is ToolCalls:
            assert verdict.admitted == list(range(len(trip.again.calls)))

    def test_a_new_turn_gets_past_every_halt(self, trip: Trip) -> None:
        guarded, _ = trip.play()
        verdict = guarded.record([TurnStarted()])
        assert (verdict.action, verdict.findings, guarded.status().state) == (Action.ALLOW, [], "running")

    @pytest.mark.parametrize("action", ["continueOnce", "raiseCap"])
    def test_the_way_past_it_survives_a_snapshot(self, trip: Trip, action: OverrideAction) -> None:
        guarded, _ = trip.play()
        restored = session(**trip.settings)
        restored.restore(msgspec.json.decode(msgspec.json.encode(guarded.snapshot())))
        for each in (guarded, restored):
            each.override(action)
        assert restored.record([trip.again]) == guarded.record([trip.again])

    def test_the_halt_is_still_there_after_its_turn_has_ended_and_can_still_be_passed(self, trip: Trip) -> None:
        guarded, _ = trip.play()
        if trip.action is Action.HALT:
            assert guarded.record([TurnEnded()]).action is Action.HALT
            guarded.override("continueOnce")
            assert guarded.record([trip.again]).action is Action.ALLOW


@pytest.mark.parametrize("trip", HALTS_OF_OTHERS, ids=lambda trip: trip.id)
def test_raise_cap_after_a_halt_of_another_guard_acts_as_continue_once(trip: Trip) -> None:
    guarded, _ = trip.play()
    before = guarded.status().cap
    guarded.override("raiseCap", calls=7)
    assert guarded.status().cap == before
    assert guarded.status().overrides == [AppliedOverride("raiseCap")]


INVALID = results(Result(name="edit", error_type="invalid_params"))
TRIP_OF = {trip.id: trip for trip in REFUSALS}


@pytest.mark.parametrize(
    ("name", "fits", "one_more"),
    [
        ("turn_tool_call_cap explicit_cap halt", [distinct(4)], [distinct(1, 50)]),
        ("turn_tool_call_cap backstop halt", [distinct(4, 1000)], [distinct(1, 5000)]),
        ("global_tool_call_duplicate halt", [same(5)], [same(1)]),
        ("invalid_tool_params_stagnation halt", [INVALID] * 2, [INVALID]),
        ("consecutive_identical_tool_calls halt stream", [same(4)], [same(1)]),
        ("generic_repeat critical block rolling", ran(2), [*ran(1), READ]),
        ("compaction_loop_persisted halt", ran(9), [Compacted(), *ran(3)]),
        ("tool_call_budget exhausted restrict", [distinct(2, 5)], [StepFinished()]),
        ("tool_call_budget exhausted block", [distinct(2, 5)], [distinct(1, 9)]),
        ("no_new_evidence call halt", ran(3), ran(2)),
        ("max_blocks_per_turn halt rolling", ran(2), [*ran(1), READ, READ]),
        ("max_blocks_per_turn halt", replayed("d", "e"), replayed("f")),
        ("max_steps_per_turn halt", ran(1, "c"), [READ]),
    ],
)
def test_continue_once_clears_the_counter_that_tripped_once(
    name: str, fits: Sequence[Event], one_more: Sequence[Event]
) -> None:
    """It trips again when the same comes together once more, and not before."""
    trip = TRIP_OF[name]
    guarded, _ = trip.play()
    guarded.override("continueOnce")
    # a copy is refused and a repetition warned of in any case
    assert all(strictness(guarded.record([event])) <= STRICTNESS[Action.BLOCK] for event in fits)
    assert guarded.status().state == "running"
    last = [guarded.record([event]) for event in one_more][-1]
    assert last.action is trip.action


@pytest.mark.parametrize("is_sealed", [False, True])
def test_what_was_blocked_can_be_passed_also_when_other_calls_came_since(is_sealed: bool) -> None:
    """A person takes longer to answer than a model to do something else."""
    guarded = SessionGuard("s", in_force(**rolling()), seal=str if is_sealed else None)
    for event in ran(3):
        guarded.record([event])
    assert guarded.record([READ]).action is Action.BLOCK
    for event in ran(2, "other"):
        guarded.record([event])
    assert guarded.record([READ, StepFinished()]).action is Action.BLOCK
    for event in ran(1, "third"):
        guarded.record([event])
    guarded.override("continueOnce")
    assert guarded.record([READ]).action is Action.ALLOW


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
    assert "for this turn it was 5" in str(verdict.user_message)


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
