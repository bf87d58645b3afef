"""The guard: what it says of steps and batches, under which settings, and what it forgets when."""

import json
from typing import Any

import pytest

from tests.core.budget.build import STATES, batch, finish, guard, send, settings, shield, step
from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.budget.errors import (
    ConfigError,
    FallbackStateError,
    InitialStateError,
    MaxConsecutiveToolsError,
    ToolNameRequiredError,
    UnknownStateError,
)
from turnguard.core.budget.guard import LoopShieldGuard
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Fallback,
    Retry,
    StateChanged,
    StepFinished,
    Text,
    ToolCalls,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.settings import LoopShieldInForce
from turnguard_protocol.verdicts import Action, Finding

# At the end of a step


def test_a_trip_without_fallback_restricts_and_is_fresh_once_an_episode() -> None:
    budget = guard(2)
    assert step(budget, "a") == []
    assert budget.next_step() == ("auto", None, None)
    assert step(budget, "a", "b", "c") == [("restrict", "exhausted", 2, True)]
    assert budget.next_step() == ("none", None, None)
    assert step(budget, "a") == [("restrict", "exhausted", 5, False)]
    assert step(budget) == []
    assert step(budget, "a", "b") == [("restrict", "exhausted", 2, True)]


def test_a_finding_says_all_of_it() -> None:
    budget = guard(2, mode="repeated")
    send(budget, "x", "a", "a", "a")
    [finding] = budget.receive(StepFinished())
    assert finding == Finding(
        guard="loopShield",
        action=Action.RESTRICT,
        loop_type="tool_call_budget",
        reason="exhausted",
        tool="a",
        count=3,
        threshold=2,
        fresh=True,
        setting="loopShield.maxConsecutiveTools",
    )


def test_a_trip_with_fallback_moves_and_the_next_step_gets_its_tools() -> None:
    budget = guard(2, states=STATES, fallback_state="ESCALATION")
    assert budget.next_step() == ("auto", ["read", "grep"], "A")
    assert step(budget, "read", "read", "read") == [("restrict", "fallback", 2, True)]
    assert budget.next_step() == ("auto", ["ask_human"], "ESCALATION")
    assert step(budget, "ask_human") == []
    assert step(budget, "ask_human") == [("restrict", "exhausted", 2, True)]
    assert budget.next_step() == ("none", ["ask_human"], "ESCALATION")


def test_an_episode_that_ended_inside_its_step_restricts_nothing() -> None:
    budget = guard(2, mode="repeated")
    assert step(budget, "a", "a", "b") == [("warn", "exhausted", 2, True)]
    assert budget.next_step()[0] == "auto"
    assert step(budget, "c", "c", "d", "d") == [("warn", "exhausted", 5, True), ("restrict", "exhausted", 7, True)]


def test_a_text_only_step_clears_and_a_step_whose_calls_were_all_refused_does_not() -> None:
    budget = guard(2)
    step(budget, "a")
    assert send(budget, "b", refused=[0])[0] == []
    assert finish(budget) == []
    assert budget.slots_left() == 1
    budget.receive(Text(length=4))
    finish(budget)
    assert budget.slots_left() == 2


def test_a_batch_without_calls_is_none() -> None:
    budget = guard(2)
    step(budget, "a")
    assert step(budget) == []
    assert budget.slots_left() == 2
    exhausted = guard(0)
    assert exhausted.check(batch([])).findings == ()


def test_only_calls_that_run_count() -> None:
    budget = guard(3)
    send(budget, "a", "b", "c", refused=[0, 2])
    finish(budget)
    assert budget.slots_left() == 2


def test_the_batches_of_one_response_are_one_step() -> None:
    budget = guard(3)
    send(budget, "a")
    send(budget, "b", "c")
    assert finish(budget) == [("restrict", "exhausted", 3, True)]


# A batch that comes anyway


def test_a_batch_that_comes_anyway_runs_and_is_told_again() -> None:
    budget = guard(1)
    step(budget, "a")
    assert send(budget, "b", "c") == ([0, 1], [("restrict", "exhausted", 1, False)])
    assert finish(budget) == [("restrict", "exhausted", 3, False)]


def test_in_repeated_another_tool_that_comes_anyway_ends_the_episode() -> None:
    budget = guard(2, mode="repeated")
    step(budget, "a", "a")
    assert step(budget, "b") == []
    assert budget.next_step()[0] == "auto"


def test_a_budget_of_zero_restricts_before_anything_ran() -> None:
    budget = guard(0)
    assert budget.next_step()[0] == "none"
    assert send(budget, "a") == ([0], [("restrict", "exhausted", 0, False)])
    assert finish(budget) == [("restrict", "exhausted", 1, True)]


# Admission by the call


def test_of_four_parallel_calls_with_two_slots_left_two_run() -> None:
    budget = guard(3, "call")
    step(budget, "x")
    assert budget.slots_left() == 2
    assert send(budget, "a", "b", "c", "d") == ([0, 1], [("block", "exhausted", 3, True)])
    assert budget.slots_left() == 0
    assert finish(budget) == [("restrict", "exhausted", 3, True)]


def test_what_fits_is_not_talked_about() -> None:
    assert send(guard(2, "call"), "a", "b") == ([0, 1], [])


def test_the_calls_of_the_open_step_take_slots_too() -> None:
    budget = guard(2, "call")
    send(budget, "a")
    assert budget.slots_left() == 1
    assert send(budget, "b", "c") == ([0], [("block", "exhausted", 2, True)])


def test_the_refusal_is_fresh_once_an_episode() -> None:
    budget = guard(1, "call")
    assert send(budget, "a", "b")[1] == [("block", "exhausted", 1, True)]
    assert send(budget, "c")[1] == [("block", "exhausted", 1, False)]
    finish(budget)
    assert send(budget, "d") == ([], [("block", "exhausted", 1, False)])
    assert finish(budget) == [("restrict", "exhausted", 1, False)], "refused calls are not counted"
    finish(budget)
    assert send(budget, "a", "b")[1] == [("block", "exhausted", 1, True)]


def test_with_a_budget_of_zero_no_call_is_ever_admitted() -> None:
    budget = guard(0, "call")
    assert send(budget, "a") == ([], [("block", "exhausted", 0, True)])
    assert finish(budget) == [("restrict", "exhausted", 0, False)]
    assert send(budget, "a")[1] == [("block", "exhausted", 0, False)]
    for clear in (StepFinished(), TurnStarted(), StateChanged("any")):
        finish(budget)
        budget.receive(clear)
        assert send(budget, "a")[1] == [("block", "exhausted", 0, True)], "every clearing ends the episode"


def test_repeated_admits_calls_as_if_each_were_a_step() -> None:
    budget = guard(2, "call", mode="repeated")
    assert send(budget, "a", "b", "b", "b", "a") == ([0, 1, 2], [("block", "exhausted", 3, True)])
    budget = guard(3, "call", mode="repeated")
    step(budget, "a", "a", "b")
    assert budget.slots_left() == 2


def test_a_step_that_trips_the_fallback_stops_at_the_budget_of_the_state_it_left() -> None:
    budget = guard(2, "call", states=STATES, fallback_state="ESCALATION")
    assert send(budget, "a", "b", "c") == ([0, 1], [("block", "exhausted", 2, True)])
    assert finish(budget) == [("restrict", "fallback", 2, True)]
    assert send(budget, "x", "y", "z") == ([0, 1], [("block", "exhausted", 2, True)]), "a new episode"


# What else happens


def test_calls_belong_to_the_state_in_force_when_they_were_sent() -> None:
    budget = guard(2, states=STATES)
    step(budget, "read")
    send(budget, "read", "grep")
    assert budget.receive(StateChanged("B")) == ()
    assert finish(budget) == []
    assert (budget.next_step(), budget.slots_left()) == (("auto", ["edit"], "B"), 2)
    send(budget, "edit")
    budget.receive(StateChanged("B"))
    send(budget, "edit")
    finish(budget)
    assert budget.slots_left() == 1, "a batch sent after the move counts"


def test_without_states_every_move_of_the_host_clears() -> None:
    budget = guard(2)
    step(budget, "a", "a")
    budget.validate(StateChanged("whatever"))
    budget.receive(StateChanged("whatever"))
    assert (budget.next_step(), budget.slots_left()) == (("auto", None, None), 2)


def test_a_new_turn_clears_and_keeps_the_state() -> None:
    budget = guard(2, states=STATES)
    budget.receive(StateChanged("B"))
    step(budget, "a", "a")
    send(budget, "a")
    budget.receive(TurnStarted())
    assert (budget.next_step(), budget.slots_left()) == (("auto", ["edit"], "B"), 2)
    assert step(budget, "a", "a") == [("restrict", "exhausted", 2, True)]


@pytest.mark.parametrize("again", [Retry(), Retry(continuation=True), Fallback()])
def test_a_response_that_comes_again_takes_its_calls_back(again: Event) -> None:
    budget = guard(2)
    step(budget, "a")
    send(budget, "b", "c")
    budget.receive(again)
    assert budget.slots_left() == 1
    assert step(budget, "b") == [("restrict", "exhausted", 2, True)]


@pytest.mark.parametrize("event", [Compacted(), TurnEnded()])
def test_other_events_change_nothing(event: Event) -> None:
    budget = guard(2)
    send(budget, "a")
    before = budget.snapshot()
    assert budget.receive(event) == ()
    assert budget.snapshot() == before


def test_forgiving_clears_the_budget_and_the_episode_and_keeps_the_state() -> None:
    for admission in ("batch", "call"):
        budget = guard(2, admission, states=STATES)
        budget.receive(StateChanged("B"))
        step(budget, "a", "a")
        _, findings = send(budget, "a")
        assert findings
        [finding] = budget.receive(StepFinished())
        budget.forgive(finding)
        assert (budget.next_step(), budget.slots_left()) == (("auto", ["edit"], "B"), 2)
        assert send(budget, "a", "a") == ([0, 1], [])
        assert finish(budget) == [("restrict", "exhausted", 2, True)]


def test_forgiving_inside_a_step_leaves_all_slots() -> None:
    budget = guard(2, "call")
    send(budget, "a", "b", "c")
    budget.forgive(budget.check(batch(["c"])).findings[0])
    assert budget.slots_left() == 2
    assert send(budget, "c", "d", "e")[1] == [("block", "exhausted", 2, True)]


def test_a_step_without_end_is_bounded() -> None:
    budget = guard(5)
    for _ in range(3):
        send(budget, *["a"] * MAX_OPEN_CALLS)
    assert len(budget.calls or ()) == MAX_OPEN_CALLS
    assert finish(budget) == [("restrict", "exhausted", 5, True)]


# Settings


def test_without_a_shield_it_is_silent() -> None:
    for budget in (LoopShieldGuard(settings(None)), guard(1, enabled=False), guard(0, "call", enabled=False)):
        assert send(budget, "a", None) == ([0, 1], [])
        assert finish(budget) == []
        assert (budget.slots_left(), budget.next_step()) == (None, ("auto", None, None))


def test_declared_states_hold_even_while_the_shield_is_off() -> None:
    budget = guard(1, enabled=False, states=STATES, fallback_state="ESCALATION")
    step(budget, "a", "a")
    budget.receive(StateChanged("B"))
    assert budget.next_step() == ("auto", ["edit"], "B")


def test_the_initial_state_is_the_one_that_is_set_else_the_first() -> None:
    assert guard(states=STATES).next_step()[2] == "A"
    assert guard(states=STATES, initial_state="B").next_step()[2] == "B"


WRONG: list[tuple[LoopShieldInForce, type[ConfigError], str]] = [
    (shield(states=STATES, initial_state="N"), InitialStateError, "loopShield.initialState"),
    (shield(initial_state="A"), InitialStateError, "loopShield.initialState"),
    (shield(states=STATES, fallback_state="N"), FallbackStateError, "loopShield.fallbackState"),
    (shield(fallback_state="A"), FallbackStateError, "loopShield.fallbackState"),
    (shield(0, states=STATES, fallback_state="B"), MaxConsecutiveToolsError, "loopShield.maxConsecutiveTools"),
    (shield(-1), MaxConsecutiveToolsError, "loopShield.maxConsecutiveTools"),
]


@pytest.mark.parametrize(("loop_shield", "error", "setting"), WRONG)
def test_settings_that_do_not_fit(loop_shield: LoopShieldInForce, error: type[ConfigError], setting: str) -> None:
    with pytest.raises(error) as caught:
        LoopShieldGuard(settings(loop_shield))
    assert caught.value.setting == setting


def test_other_settings_keep_state_and_counts() -> None:
    budget = guard(3, states=STATES)
    budget.receive(StateChanged("B"))
    step(budget, "a")
    send(budget, "a")
    budget.configure(settings(shield(2, states=STATES)))
    assert budget.slots_left() == 0
    assert finish(budget) == [("restrict", "exhausted", 2, True)]
    budget.configure(settings(shield(2, states=STATES, fallback_state="ESCALATION")))
    step(budget, "a")
    assert budget.next_step()[2] == "ESCALATION", "the first call that finds the budget still used up moves"


def test_the_same_settings_change_nothing() -> None:
    budget = guard(2)
    machine = budget.machine
    budget.configure(settings(shield(2)))
    assert budget.machine is machine


def test_a_state_that_is_gone_starts_anew_at_the_initial_one() -> None:
    budget = guard(2, states=STATES)
    budget.receive(StateChanged("B"))
    step(budget, "a")
    send(budget, "a")
    budget.configure(settings(shield(2, states={"X": ["x"]})))
    assert (budget.next_step(), budget.slots_left()) == (("auto", ["x"], "X"), 2)


def test_a_shield_that_was_off_counted_nothing() -> None:
    budget = guard(2)
    step(budget, "a")
    budget.configure(settings(shield(2, enabled=False)))
    step(budget, "a")
    budget.configure(settings(shield(2)))
    assert budget.slots_left() == 2


def test_when_repeated_comes_into_force_calls_without_a_name_are_forgotten() -> None:
    budget = guard(2)
    send(budget, None, "a", None, "a")
    budget.configure(settings(shield(2, mode="repeated")))
    assert finish(budget) == [("restrict", "exhausted", 2, True)]


# Before anything is applied


def test_a_call_without_a_name_is_refused_in_repeated_mode() -> None:
    for missing in (None, ""):
        with pytest.raises(ToolNameRequiredError) as caught:
            guard(mode="repeated").validate(ToolCalls([Call("a"), Call(missing)]))
        assert caught.value.path == ".calls[1].name"
        guard().validate(ToolCalls([Call(missing)]))
        guard(mode="repeated", enabled=False).validate(ToolCalls([Call(missing)]))
    guard(mode="repeated").validate(ToolCalls([Call("a")]))


def test_an_unknown_state_is_refused() -> None:
    budget = guard(states=STATES)
    with pytest.raises(UnknownStateError) as caught:
        budget.validate(StateChanged("NOPE"))
    assert caught.value.path == ".state"
    assert str(caught.value) == "Expected one of the declared states, got 'NOPE' - at `.state`"
    budget.validate(StateChanged("B"))
    LoopShieldGuard(settings(None)).validate(StateChanged("NOPE"))


# Snapshots


def test_a_snapshot_changes_no_later_word() -> None:
    def play(budget: LoopShieldGuard) -> list[Any]:
        return [send(budget, "a", "b"), finish(budget), send(budget, "b"), finish(budget), budget.next_step()]

    for admission in ("batch", "call"):
        one, other = (guard(3, admission, mode="repeated", states=STATES) for _ in range(2))
        one.receive(StateChanged("B"))
        step(one, "x", "b")
        send(one, "b")
        send(one, "b", "b", "b")
        other.restore(json.loads(json.dumps(one.snapshot())))
        assert other.snapshot() == one.snapshot()
        assert play(other) == play(one)


def test_a_snapshot_shares_nothing_with_the_guard() -> None:
    budget = guard(5)
    send(budget, "a")
    before = budget.snapshot()
    send(budget, "b")
    assert before["calls"] == ["a"]


def test_upstreams_snapshot_is_taken_with_nothing_counted() -> None:
    budget = guard(2, states=STATES)
    step(budget, "a")
    send(budget, "a")
    budget.restore({"state": "B"})
    assert (budget.next_step(), budget.slots_left()) == (("auto", ["edit"], "B"), 2)
