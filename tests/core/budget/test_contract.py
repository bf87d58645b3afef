"""The adversarial cases that the loopShield page lists, in its order, by the machine and by the guard."""

import pytest

from tests.core.budget.build import STATES, guard, heard, send, step
from turnguard.core.budget.errors import ToolNameRequiredError
from turnguard_protocol.events import Call, StateChanged, StepFinished, ToolCalls


def test_1_a_step_with_multiple_tool_calls_counts_each_call() -> None:
    machine = heard(5).machine
    machine.step(["a", "b", "c"])
    assert machine.shield.count == 3
    budget = guard(5)
    step(budget, "a", "b", "c")
    assert budget.slots_left() == 2


def test_2_a_text_only_step_resets_the_counter() -> None:
    machine = heard(3).machine
    machine.step(["a", "b"])
    machine.step([])
    assert machine.shield.count == 0
    budget = guard(3)
    step(budget, "a", "b")
    step(budget)
    assert budget.slots_left() == 3


def test_3_a_transition_does_not_carry_the_previous_states_calls_into_the_new_budget() -> None:
    machine = heard(2).machine
    machine.step(["a"])
    machine.step(["b", "c", "d"], during="B")
    assert (machine.shield.count, machine.looping) == (0, False)
    budget = guard(2, states=STATES)
    step(budget, "a")
    send(budget, "b", "c", "d")
    budget.receive(StateChanged("B"))
    assert budget.receive(StepFinished()) == []
    assert budget.slots_left() == 2


def test_4_on_loop_fires_once_per_episode() -> None:
    one = heard(2)
    one.machine.step(["a", "b", "c"])
    one.machine.step(["d"])
    assert one.loops == [(2, 2)]
    budget = guard(2)
    assert [fresh for _, _, _, fresh in step(budget, "a", "b", "c") + step(budget, "d")] == [True, False]


def test_5_repeated_without_a_tool_name_throws() -> None:
    with pytest.raises(ToolNameRequiredError):
        heard(2, "repeated").machine.register(None)
    with pytest.raises(ToolNameRequiredError):
        guard(2, mode="repeated").validate(ToolCalls([Call(None)]))


def test_6_a_fallback_state_activates_its_tools_and_resets_the_shield() -> None:
    machine = heard(2, fallback="ESCALATION").machine
    machine.step(["a", "b"])
    assert (machine.prepare(), machine.shield.count) == (("auto", ["ask_human"]), 0)
    budget = guard(2, states=STATES, fallback_state="ESCALATION")
    step(budget, "a", "b")
    assert (budget.next_step(), budget.slots_left()) == (("auto", ["ask_human"], "ESCALATION"), 2)
