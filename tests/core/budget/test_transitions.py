"""Guards that take their time, the context they see, and callbacks that misbehave."""

import asyncio
from typing import Any

import pytest

from tests.core.budget.build import STATES, heard
from turnguard.core.budget.errors import (
    GuardAsyncError,
    GuardBlockedError,
    StaleTransitionError,
    UnknownStateError,
)
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard.core.budget.states import Context, StateMachine


async def allow(source: str, target: str, context: Context) -> bool:
    await asyncio.sleep(0)
    return True


async def deny(source: str, target: str, context: Context) -> bool:
    return False


def test_a_synchronous_transition_with_an_asynchronous_guard_changes_nothing() -> None:
    one = heard(2, guard=allow)
    one.machine.step(["a", "a"])
    with pytest.raises(GuardAsyncError):
        one.machine.transition("B")
    with pytest.raises(GuardAsyncError):
        one.machine.step(["a"], during="B")
    assert (one.machine.state, one.machine.shield.count, one.notices) == ("A", 2, [(2, 2)])


def test_an_asynchronous_transition_waits_for_the_guard() -> None:
    one = heard(2, guard=allow)
    one.machine.step(["a", "a"])
    asyncio.run(one.machine.transition_async("B"))
    assert (one.machine.state, one.machine.shield.count, one.moves) == ("B", 0, [["A", "B"]])


def test_an_asynchronous_transition_that_is_denied_changes_nothing() -> None:
    one = heard(2, guard=deny)
    one.machine.step(["a", "a"])
    with pytest.raises(GuardBlockedError):
        asyncio.run(one.machine.transition_async("B"))
    assert (one.machine.state, one.machine.shield.count, one.moves) == ("A", 2, [])


def test_an_asynchronous_transition_takes_a_synchronous_guard_and_none_too() -> None:
    for guard in (None, lambda source, target, context: True):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        machine = heard(guard=guard).machine
        asyncio.run(machine.transition_async("B"))
        assert machine.state == "B"


def test_an_asynchronous_transition_to_an_unknown_state_asks_nobody() -> None:
    asked: list[str] = []
    machine = heard(guard=lambda source, target, context: not asked.append(target)).machine
    with pytest.raises(UnknownStateError):
        asyncio.run(machine.transition_async("NOPE"))
    assert asked == []


def test_the_fallback_does_not_wait_for_an_asynchronous_guard() -> None:
    machine = heard(1, fallback="ESCALATION", guard=deny).machine
    machine.step(["a"])
    assert machine.state == "ESCALATION"


def test_a_fallback_trip_makes_the_transition_in_flight_stale() -> None:
    async def play() -> None:
        one = heard(1, fallback="ESCALATION", guard=allow)
        flight = asyncio.ensure_future(one.machine.transition_async("B"))
        await asyncio.sleep(0)
        one.machine.step(["a"])
        with pytest.raises(StaleTransitionError):
            await flight
        assert (one.machine.state, one.moves) == ("ESCALATION", [["A", "ESCALATION"]])

    asyncio.run(play())


def test_of_two_transitions_in_flight_the_first_to_be_answered_wins() -> None:
    async def play() -> None:
        one = heard(guard=allow)
        outcomes = await asyncio.gather(
            one.machine.transition_async("B"), one.machine.transition_async("ESCALATION"), return_exceptions=True
        )
        assert isinstance(outcomes[1], StaleTransitionError)
        assert (one.machine.state, one.moves) == ("B", [["A", "B"]])

    asyncio.run(play())


@pytest.mark.parametrize("between", [lambda m: m.transition("A"), lambda m: m.restore({"state": "A"})])  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
def test_a_machine_that_came_back_to_its_state_has_moved(between: Any) -> None:
    machine = heard().machine
    ticket = machine.request("B")
    between(machine)
    with pytest.raises(StaleTransitionError):
        machine.commit(ticket, allowed=True)
    assert machine.state == "A"


def test_a_ticket_is_good_once_and_a_host_may_answer_it_itself() -> None:
    machine = heard().machine
    ticket = machine.request("B")
    with pytest.raises(GuardBlockedError):
        machine.commit(ticket, allowed=False)
    machine.commit(ticket, allowed=True)
    with pytest.raises(StaleTransitionError):
        machine.commit(ticket, allowed=True)
    assert machine.state == "B"


def test_the_guard_sees_from_to_and_a_shallow_copy_of_the_context() -> None:
    asked: list[tuple[str, str]] = []

    def guard(source: str, target: str, context: Context) -> bool:
        asked.append((source, target))
        context["moves"] = context.get("moves", 0) + 1
        context["shared"].append(target)
        return True

    given: dict[str, Any] = {"shared": []}
    machine = StateMachine(STATES, "A", guard=guard, context=given)
    machine.transition("B")
    machine.context["moves"] += 10
    machine.transition("A")
    assert asked == [("A", "B"), ("B", "A")]
    assert (machine.context["moves"], given) == (12, {"shared": ["B", "A"]})
    assert "context" not in machine.snapshot()
    machine.restore({"state": "A"})
    assert machine.context == given, "a restored machine starts from the context it was built with"


def test_a_guard_that_raises_changes_nothing() -> None:
    def guard(source: str, target: str, context: Context) -> bool:
        raise RuntimeError("no answer")

    machine = heard(guard=guard).machine
    machine.step(["a"])
    with pytest.raises(RuntimeError):
        machine.transition("B")
    assert (machine.state, machine.shield.count) == ("A", 1)


def test_callbacks_that_raise_find_everything_done_and_do_not_silence_each_other() -> None:
    seen: list[tuple[str, int]] = []

    def note(*_: object) -> None:
        seen.append((machine.state, machine.shield.count))
        raise RuntimeError("host")

    machine = StateMachine(STATES, "A", shield=LoopShield(2), fallback="ESCALATION", on_transition=note, on_loop=note)
    with pytest.raises(RuntimeError):
        machine.step(["a", "a", "a"], index=0)
    assert seen == [("ESCALATION", 0), ("ESCALATION", 0)]
    assert machine.step(["a", "a", "a"], index=0) == [], "the step was registered"


def test_a_callback_that_raises_does_not_lose_the_rest_of_the_step() -> None:
    def note(trip: Trip) -> None:
        raise RuntimeError("host")

    machine = StateMachine(STATES, "A", shield=LoopShield(1), on_loop=note)
    with pytest.raises(RuntimeError):
        machine.step(["a", "a", "a"])
    assert machine.shield.count == 3


def test_a_callback_may_move_the_machine() -> None:
    machine = StateMachine(STATES, "A", shield=LoopShield(2), on_loop=lambda trip: machine.transition("B"))
    machine.step(["a", "a", "a"])
    assert (machine.state, machine.shield.count) == ("B", 0)
