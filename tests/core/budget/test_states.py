"""The machine: what each event does to state, counter and callbacks; steps, fallback, snapshots, construction."""

from typing import Any

import pytest

from tests.core.budget.build import STATES, heard
from turnguard.core.budget.errors import (
    BudgetError,
    FallbackStateError,
    GuardBlockedError,
    InitialStateError,
    MaxConsecutiveToolsError,
    SnapshotStateError,
    ToolNameRequiredError,
    UnknownStateError,
)
from turnguard.core.budget.shield import LoopShield
from turnguard.core.budget.states import Move, StateMachine


def test_a_step_with_several_calls_counts_each() -> None:
    machine, notices = one = heard(3)
    machine.step(["read", "grep"])
    assert (machine.shield.count, notices) == (2, [])
    machine.step(["read", "read", "read"])
    assert (machine.shield.count, one.loops) == (5, [(3, 3)])


def test_a_step_without_calls_breaks_the_run_and_ends_the_episode() -> None:
    one = heard(2)
    for _ in range(2):
        one.machine.step(["a", "b", "c"])
        assert one.machine.looping
        one.machine.step([])
        assert (one.machine.shield.count, one.machine.looping) == (0, False)
    assert one.loops == [(2, 2), (2, 2)]


def test_a_transition_moves_resets_and_is_told() -> None:
    one = heard(2)
    one.machine.step(["a", "a"])
    assert one.machine.transition("B") == [Move("A", "B")]
    assert (one.machine.state, one.machine.shield.count, one.machine.looping) == ("B", 0, False)
    assert one.notices == [(2, 2), ["A", "B"]]
    one.machine.step(["a", "a"])
    assert one.loops == [(2, 2), (2, 2)], "a new episode"


def test_a_transition_to_itself_is_one() -> None:
    one = heard(2)
    one.machine.step(["a"])
    one.machine.transition("A")
    assert (one.machine.shield.count, one.moves) == (0, [["A", "A"]])


def test_a_move_inside_a_group_is_a_transition() -> None:
    one = heard(2, states={"S:one": ["x"], "S:two:more": ["y"], "T": []}, initial="S:one")
    one.machine.step(["x"])
    one.machine.transition("S:two:more")
    assert (one.machine.shield.count, one.machine.group) == (0, "S")
    one.machine.transition("T")
    assert one.machine.group == "T"


def test_an_unknown_state_is_an_error_that_changes_nothing_and_asks_nobody() -> None:
    asked: list[str] = []
    one = heard(2, guard=lambda source, target, context: asked.append(target) is None)
    one.machine.step(["a", "a"])
    before = one.machine.shield.snapshot()
    with pytest.raises(UnknownStateError):
        one.machine.transition("NOPE")
    assert (one.machine.state, one.machine.shield.snapshot(), asked, one.moves) == ("A", before, [], [])


def test_a_guard_that_says_no_changes_nothing() -> None:
    one = heard(2, guard=lambda source, target, context: target != "B")
    one.machine.step(["a", "a"])
    with pytest.raises(GuardBlockedError):
        one.machine.transition("B")
    one.machine.step(["a"])
    assert (one.machine.state, one.machine.shield.count, one.notices) == ("A", 3, [(2, 2)])
    one.machine.transition("ESCALATION")
    assert one.machine.state == "ESCALATION"


@pytest.mark.parametrize("clear", ["reset", "begin"])
def test_reset_and_a_new_generation_clear_the_budget_and_keep_the_state(clear: str) -> None:
    one = heard(2)
    one.machine.transition("B")
    for _ in range(2):
        one.machine.step(["a", "a"])
        getattr(one.machine, clear)()
        assert (one.machine.state, one.machine.shield.count, one.machine.looping) == ("B", 0, False)
    assert one.loops == [(2, 2), (2, 2)]


def test_prepare_answers_the_tools_of_the_state_or_none_and_changes_nothing() -> None:
    machine = heard(1).machine
    assert machine.prepare() == machine.prepare() == ("auto", ["read", "grep"])
    machine.transition("B")
    machine.step(["edit"])
    assert machine.prepare() == machine.prepare() == ("none", ["edit"])


# The fallback


def test_a_trip_moves_to_the_fallback_clears_and_is_told_once() -> None:
    one = heard(2, fallback="ESCALATION")
    one.machine.step(["a"])
    one.machine.step(["a"])
    assert one.notices == [["A", "ESCALATION"], (2, 2)], "moved, cleared, then told: the move, then the loop"
    assert one.machine.shield.count == 0
    assert one.machine.prepare() == ("auto", ["ask_human"])


def test_the_rest_of_the_step_that_trips_is_not_carried_into_the_fallback() -> None:
    machine = heard(2, fallback="ESCALATION").machine
    machine.step(["a", "b", "c", "d", "e"])
    assert (machine.state, machine.shield.count, machine.looping) == ("ESCALATION", 0, False)


def test_calls_registered_one_by_one_count_in_the_state_at_hand() -> None:
    one = heard(1, fallback="ESCALATION")
    for _ in range(3):
        one.machine.register("a")
    assert (one.machine.shield.count, one.machine.looping) == (2, True)
    assert one.notices == [["A", "ESCALATION"], (1, 1), (1, 1)]


def test_a_second_trip_in_the_fallback_has_nowhere_to_go() -> None:
    one = heard(2, fallback="ESCALATION")
    for _ in range(5):
        one.machine.step(["a"])
    assert (one.machine.state, one.machine.shield.count) == ("ESCALATION", 3)
    assert one.machine.prepare() == ("none", ["ask_human"])
    assert (one.moves, one.loops) == ([["A", "ESCALATION"]], [(2, 2), (2, 2)])
    one.machine.step([])
    assert one.machine.prepare() == ("auto", ["ask_human"])


def test_a_fallback_that_is_the_state_at_hand_is_none() -> None:
    one = heard(2, fallback="A")
    one.machine.step(["a", "a", "a"])
    assert (one.machine.prepare()[0], one.notices) == ("none", [(2, 2)])
    one.machine.transition("B")
    one.machine.step(["a", "a"])
    assert (one.machine.state, one.moves) == ("A", [["A", "B"], ["B", "A"]])


def test_a_fallback_state_without_tools_leaves_only_text() -> None:
    machine = heard(1, fallback="Z", states={"A": ["t"], "Z": []}).machine
    machine.step(["t"])
    assert machine.prepare() == ("auto", [])


def test_the_fallback_does_not_ask_the_guard() -> None:
    asked: list[str] = []
    one = heard(1, fallback="ESCALATION", guard=lambda source, target, context: asked.append(target) is not None)
    one.machine.step(["a"])
    assert (one.machine.state, asked) == ("ESCALATION", [])


def test_a_budget_that_is_off_has_no_loop_and_no_fallback() -> None:
    one = heard(1, "repeated", enabled=False, fallback="ESCALATION")
    one.machine.step(["a", None, "a"])
    one.machine.register(None)
    assert (one.machine.state, one.machine.shield.count, one.notices) == ("A", 0, [])
    assert one.machine.prepare()[0] == "auto"
    one.machine.transition("B")
    assert one.machine.state == "B"


def test_repeated_moves_to_the_fallback_too() -> None:
    one = heard(2, "repeated", fallback="ESCALATION")
    one.machine.step(["a", "b", "b", "b"])
    assert (one.machine.state, one.machine.shield.count, one.loops) == ("ESCALATION", 0, [(3, 2)])


# Steps


def test_a_tool_that_moves_the_machine_leaves_the_calls_of_its_step_behind() -> None:
    one = heard(2, fallback="ESCALATION")
    one.machine.step(["read"])
    one.machine.step(["read", "read", "read"], during="B")
    assert (one.machine.state, one.machine.shield.count, one.notices) == ("B", 0, [["A", "B"]])


def test_so_does_one_that_moved_it_before_the_step_is_told() -> None:
    machine = heard(2).machine
    admitted = machine.epoch
    machine.transition("B")
    machine.step(["read", "read"], since=admitted)
    assert machine.shield.count == 0
    machine.step(["edit"], since=machine.epoch)
    assert machine.shield.count == 1


def test_a_step_whose_move_fails_does_not_take_effect() -> None:
    one = heard(2, guard=lambda source, target, context: False)
    one.machine.step(["a"])
    for during, error in (("B", GuardBlockedError), ("NOPE", UnknownStateError)):
        with pytest.raises(error):
            one.machine.step(["a"], during=during)
        with pytest.raises(error):
            one.machine.step([], during=during)
    assert (one.machine.state, one.machine.shield.count, one.machine.steps, one.notices) == ("A", 1, 1, [])


@pytest.mark.parametrize("calls", [["a", None], [None, "a"], ["a", ""]])
@pytest.mark.parametrize("during", [None, "B", "NOPE"])
def test_a_step_with_a_call_without_a_name_does_not_take_effect(calls: list[str | None], during: str | None) -> None:
    asked: list[str] = []
    one = heard(2, "repeated", fallback="ESCALATION", guard=lambda source, target, context: not asked.append(target))
    one.machine.step(["a"])
    with pytest.raises(ToolNameRequiredError):
        one.machine.step(calls, during=during)
    assert (one.machine.state, one.machine.shield.count, one.machine.steps) == ("A", 1, 1)
    assert (one.notices, asked) == ([], [])


def test_a_streak_that_ends_inside_its_step_was_an_episode() -> None:
    one = heard(2, "repeated")
    one.machine.step(["a", "a", "b"])
    assert (one.machine.shield.count, one.machine.prepare()[0], one.loops) == (1, "auto", [(2, 2)])


def test_a_step_told_twice_counts_once() -> None:
    machine = heard(9).machine
    machine.step(["a", "a"], index=0)
    assert machine.step(["a", "a"], index=0) == []
    machine.step(["a"], index=1)
    machine.step([], index=0)
    assert machine.shield.count == 3
    machine.begin()
    machine.step(["a"], index=0)
    assert machine.shield.count == 1


def test_a_history_is_registered_as_far_as_it_is_new_and_a_shorter_one_is_another_generation() -> None:
    machine = heard(9).machine
    machine.observe([["a"]])
    machine.observe([["a"], ["b", "c"]])
    machine.observe([["a"], ["b", "c"]])
    assert machine.shield.count == 3
    machine.observe([["x"]])
    assert machine.shield.count == 1
    machine.observe([])
    assert (machine.shield.count, machine.steps) == (0, 0)


def test_a_history_with_a_call_without_a_name_is_not_registered_at_all() -> None:
    machine = heard(9, "repeated").machine
    machine.observe([["a"], ["a"], ["a"]])
    for history in ([["b"], [None]], [["a"]] * 4 + [[None]]):
        with pytest.raises(ToolNameRequiredError):
            machine.observe(history)
        assert (machine.shield.count, machine.steps) == (3, 3)


# Snapshots and construction


def test_a_snapshot_is_the_state_and_nothing_else() -> None:
    machine = heard(2).machine
    machine.transition("B")
    machine.step(["a"])
    assert machine.snapshot() == {"state": "B"}


def test_restoring_takes_the_state_and_nothing_counted_and_is_no_move() -> None:
    one = heard(2)
    one.machine.step(["a", "a"], index=0)
    one.machine.restore({"state": "B", "other": 1})
    assert (one.machine.state, one.machine.shield.count, one.machine.steps, one.moves) == ("B", 0, 0, [])
    one.machine.step(["a", "a"])
    assert one.loops == [(2, 2), (2, 2)]


@pytest.mark.parametrize("snapshot", [{"state": "NOPE"}, {}, {"state": None}, {"state": ["A"]}])
def test_a_snapshot_of_an_unknown_state_is_refused(snapshot: dict[str, Any]) -> None:
    machine = heard(2).machine
    machine.step(["a"])
    with pytest.raises(SnapshotStateError):
        machine.restore(snapshot)
    assert (machine.state, machine.shield.count) == ("A", 1)


def test_a_machine_starts_from_a_snapshot() -> None:
    machine = StateMachine(STATES, "A", snapshot={"state": "B"})
    assert (machine.state, machine.initial, machine.prepare()) == ("B", "A", ("auto", ["edit"]))


CONFIG_ERRORS: list[tuple[dict[str, Any], type[BudgetError], str]] = [
    ({"initial": "N", "snapshot": {"state": "N"}, "fallback": "N"}, InitialStateError, "initial_state"),
    ({"initial": "A", "snapshot": {"state": "N"}, "fallback": "N"}, SnapshotStateError, "snapshot_state"),
    ({"initial": "A", "fallback": "N"}, FallbackStateError, "fallback_state"),
    ({"initial": "A", "fallback": "N", "shield": LoopShield(2, enabled=False)}, FallbackStateError, "fallback_state"),
    ({"initial": "A", "fallback": "N", "shield": LoopShield(0)}, FallbackStateError, "fallback_state"),
    ({"initial": "A", "fallback": "B", "shield": LoopShield(0)}, MaxConsecutiveToolsError, "max_consecutive_tools"),
]


@pytest.mark.parametrize(("config", "error", "code"), CONFIG_ERRORS)
def test_what_cannot_be_built(config: dict[str, Any], error: type[BudgetError], code: str) -> None:
    with pytest.raises(error) as caught:
        StateMachine(STATES, **config)
    assert caught.value.code == code


def test_a_fallback_without_a_shield_is_no_budget_of_zero() -> None:
    assert StateMachine(STATES, "A", fallback="B").prepare() == ("auto", ["read", "grep"])
