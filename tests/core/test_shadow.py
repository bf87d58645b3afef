"""turnguard.shadow: everything is reported, nothing is stopped."""

import pytest
from msgspec import UNSET

from tests.build import call, calls, distinct, in_force, results, same, session
from tests.core.trips import STATES, TRIPS, Trip, ran, rolling, shield
from turnguard_protocol.events import Result, StateChanged, StepFinished, ToolCalls, TurnStarted
from turnguard_protocol.verdicts import Action


@pytest.mark.parametrize("trip", TRIPS, ids=lambda trip: trip.id)
class TestEveryTrip:
    """What is told of a turn that trips a rule, and what is done, which is nothing."""

    def test_every_call_runs_and_no_turn_ends(self, trip: Trip) -> None:
        guarded, _ = trip.play(shadow=True)
        guarded.record([StepFinished()])
        for event in (*trip.events, trip.again):
            verdict = guarded.record([event])
            assert verdict.action is Action.ALLOW
            assert verdict.model_message is UNSET
            if type(event) is ToolCalls:
                assert verdict.admitted == list(range(len(event.calls)))
        assert guarded.status().state == "running"
        assert guarded.prepare_step().tool_choice == "auto"

    def test_what_was_found_is_told_as_it_would_be_otherwise(self, trip: Trip) -> None:
        """The turn is no other one up to here, since nothing was refused before its last event but copies."""
        _, watched = trip.play(shadow=True)
        _, enforced = trip.play()
        findings = {(finding.loop_type, finding.action, finding.reason) for finding in watched.findings}
        assert findings >= {(finding.loop_type, finding.action, finding.reason) for finding in enforced.findings}
        assert watched.findings[0].action is trip.action

    def test_it_is_news_once(self, trip: Trip) -> None:
        guarded, verdict = trip.play(shadow=True)
        told = verdict.findings[0]
        assert told.fresh or trip.action is Action.WARN
        for event in trip.events[-3:]:
            again = [f for f in guarded.record([event]).findings if f.action is told.action and f.guard == told.guard]
            assert not [f for f in again if f.fresh and (f.reason, f.tool) == (told.reason, told.tool)]


def test_the_summary_lists_what_would_have_happened() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 2}, turnguard={"shadow": True})
    guarded.record([distinct(3)])
    guarded.record([distinct(3, 3)])
    summary = guarded.close()
    assert summary is not None
    assert [(finding.loop_type, finding.action) for finding in summary.findings] == [
        ("turn_tool_call_cap", Action.HALT)
    ]
    assert summary.totals.tool_calls == 6


def test_a_new_turn_tells_it_anew() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 2}, turnguard={"shadow": True})
    for turn in "ab":
        verdict = guarded.record([TurnStarted(turn), distinct(3)])
        assert [finding.fresh for finding in verdict.findings] == [True]


def test_the_strictest_is_told_first_though_it_decides_nothing() -> None:
    sections = {**rolling(), "model": {"maxToolCallsPerTurn": 3}, "turnguard": {"shadow": True}}
    guarded = session(**sections)
    for event in ran(3):
        guarded.record([event])
    verdict = guarded.record([calls(call("read"), call("read", {"n": 1}))])
    assert [finding.action for finding in verdict.findings] == [Action.HALT, Action.BLOCK]
    assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0, 1])


def test_a_budget_that_is_used_up_leaves_the_next_step_its_tools() -> None:
    guarded = session(**shield(), turnguard={"shadow": True})
    guarded.record([distinct(3)])
    step = guarded.prepare_step()
    assert (step.tool_choice, step.active_tools) == ("auto", None)
    assert [finding.action for finding in guarded.record([]).findings] == [Action.RESTRICT]


def test_a_budget_that_is_used_up_does_not_take_the_tools_of_a_state_away() -> None:
    guarded = session(**shield(**STATES), turnguard={"shadow": True})
    guarded.record([distinct(3)])
    step = guarded.prepare_step()
    assert (step.tool_choice, step.active_tools, step.state) == ("auto", ["read"], "A")
    guarded.record([StateChanged("B")])
    assert guarded.prepare_step().active_tools == ["ask"]


def test_a_turn_that_goes_on_past_an_invalid_call_is_told_of_later_ones_too() -> None:
    guarded = session(turnguard={"shadow": True})
    invalid = results(Result(name="a", error_type="invalid_params"))
    counts = [finding.count for _ in range(5) for finding in guarded.record([invalid]).findings]
    assert counts == [3, 4, 5]


def test_switched_on_in_the_middle_a_halted_turn_goes_on() -> None:
    """What holds from now on holds from the next event on."""
    guarded = session(model={"maxToolCallsPerTurn": 3})
    assert guarded.record([distinct(4)]).action is Action.HALT
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 3}, turnguard={"shadow": True}))
    verdict = guarded.record([distinct(2, 5)])
    assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0, 1])


def test_switched_off_in_the_middle_the_guards_act_on_what_they_have_seen() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3}, turnguard={"shadow": True})
    guarded.record([distinct(9)])
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 3}))
    assert guarded.record([distinct(1, 9)]).action is Action.HALT


def test_overrides_work_as_otherwise() -> None:
    guarded = session(model={"skipLoopDetection": False}, turnguard={"shadow": True})
    guarded.record([same(6)])
    guarded.override("continueOnce")
    assert guarded.record([same(5)]).findings == []
    guarded.override("disable")
    assert guarded.record([same(9)]).findings == []
    assert guarded.status().state == "disabled"


def test_copies_are_still_copies() -> None:
    """A call that the provider sent twice is refused without a finding; in shadow even it may run."""
    guarded = session(turnguard={"shadow": True})
    assert guarded.record([calls(call("a", {}, "i"), call("a", {}, "i"))]).admitted == [0, 1]
