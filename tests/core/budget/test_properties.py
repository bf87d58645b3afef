"""Properties that hold for any script, checked against a plain account of what was registered."""

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.core.budget.build import STATES, guard
from turnguard.core.budget.errors import GuardBlockedError, ToolNameRequiredError
from turnguard.core.budget.shield import LoopShield
from turnguard.core.budget.states import StateMachine
from turnguard.core.guard import Batch
from turnguard_protocol.events import Call, StepFinished

tools = st.sampled_from(["a", "b", "c"])
states = st.sampled_from(list(STATES))


class Budget(RuleBasedStateMachine):
    """Any events. `counted`: the tools of the calls that count towards the budget at hand; `is_open`: an episode is."""

    @initialize(
        max_allowed=st.integers(1, 4),
        mode=st.sampled_from(["consecutive", "repeated"]),
        fallback=st.sampled_from([None, "ESCALATION", "A"]),
    )
    def build(self, max_allowed: int, mode: Any, fallback: str | None) -> None:
        self.max_allowed, self.mode, self.fallback = max_allowed, mode, fallback
        self.allows = True
        self.loops: list[int] = []
        self.moves: list[tuple[str, str]] = []
        self.machine = StateMachine(
            STATES,
            "A",
            shield=LoopShield(max_allowed, mode),
            fallback=fallback,
            guard=lambda source, target, context: self.allows,
            on_transition=lambda source, target: self.moves.append((source, target)),
            on_loop=lambda trip: self.loops.append(trip.consecutive_tools),
        )
        self.expected_loops: list[int] = []
        self.expected_moves: list[tuple[str, str]] = []
        self.start_over("A")

    def start_over(self, state: str) -> None:
        self.state = state
        self.counted: list[str] = []
        self.is_open = False

    def arrive(self, state: str) -> None:
        self.expected_moves.append((self.state, state))
        self.start_over(state)

    def count(self) -> int:
        if self.mode == "consecutive":
            return len(self.counted)
        return len(list(takewhile(lambda tool: tool == self.counted[-1], reversed(self.counted))))

    def account(self, tool: str) -> bool:
        """Adds a call to the account, and says whether it moves the machine."""
        self.counted.append(tool)
        was_open, self.is_open = self.is_open, self.count() >= self.max_allowed
        if self.is_open and not was_open:
            self.expected_loops.append(len(self.counted))
        if self.is_open and self.fallback is not None and self.state != self.fallback:
            self.arrive(self.fallback)
            return True
        return False

    @rule(calls=st.lists(tools, min_size=1, max_size=6))
    def step(self, calls: list[str]) -> None:
        self.machine.step(calls)
        for tool in calls:
            if self.account(tool):
                break

    @rule(tool=tools)
    def register(self, tool: str) -> None:
        self.machine.register(tool)
        self.account(tool)

    @rule()
    def text_only(self) -> None:
        self.machine.step([])
        self.start_over(self.state)

    @rule(state=states, calls=st.lists(tools, max_size=3))
    def move_during(self, state: str, calls: list[str]) -> None:
        self.machine.step(calls, during=state)
        self.arrive(state)

    @rule(state=states)
    def move(self, state: str) -> None:
        self.machine.transition(state)
        self.arrive(state)

    @rule(state=states, calls=st.lists(tools, max_size=3))
    def denied(self, state: str, calls: list[str]) -> None:
        self.allows = False
        with pytest.raises(GuardBlockedError):
            self.machine.transition(state)
        with pytest.raises(GuardBlockedError):
            self.machine.step(calls, during=state)
        self.allows = True

    @rule(calls=st.lists(tools, max_size=3), during=st.one_of(st.none(), states))
    def nameless(self, calls: list[str], during: str | None) -> None:
        if self.mode == "repeated":
            with pytest.raises(ToolNameRequiredError):
                self.machine.step([*calls, None], during=during)

    @rule(how=st.sampled_from(["reset", "begin", "restore"]))
    def clear(self, how: str) -> None:
        if how == "restore":
            self.machine.restore(self.machine.snapshot())
        else:
            getattr(self.machine, how)()
        self.start_over(self.state)

    @invariant()
    def agrees_with_the_account(self) -> None:
        shield = self.machine.shield
        assert self.machine.state == self.state
        assert (shield.run, shield.count) == (len(self.counted), self.count())
        assert self.moves == self.expected_moves
        assert self.loops == self.expected_loops

    @invariant()
    def prepare_follows_the_count(self) -> None:
        shield = self.machine.shield
        choice, allowed = self.machine.prepare()
        assert (choice == "none") == (shield.count >= self.max_allowed) == shield.fired
        assert allowed == STATES[self.state]

    @invariant()
    def a_budget_with_somewhere_to_go_is_never_left_used_up(self) -> None:
        assert self.fallback in (None, self.state) or not self.machine.looping

    @invariant()
    def in_consecutive_mode_a_trip_comes_at_the_exact_call(self) -> None:
        assert self.mode == "repeated" or set(self.loops) <= {self.max_allowed}


TestBudget = Budget.TestCase
TestBudget.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@given(
    max_allowed=st.integers(0, 6),
    mode=st.sampled_from(["consecutive", "repeated"]),
    steps=st.lists(st.lists(st.lists(tools, max_size=5), min_size=1, max_size=3), max_size=8),
)
def test_admission_by_the_call_never_lets_the_count_pass_the_budget(
    max_allowed: int, mode: Any, steps: list[list[list[str]]]
) -> None:
    budget = guard(max_allowed, "call", mode=mode)
    for batches in steps:
        for each in batches:
            batch = Batch([Call(tool) for tool in each], None)
            slots = budget.slots_left()
            refused = budget.check(batch).refused
            admitted = [index for index in range(len(each)) if index not in refused]
            budget.commit(batch, admitted)
            assert admitted == list(range(len(admitted))), "in order"
            assert len(admitted) >= min(slots or 0, len(each)), "slots that are left are good for any call"
            assert mode == "repeated" or len(admitted) == min(slots or 0, len(each))
        budget.receive(StepFinished())
        assert budget.machine.shield.count <= max_allowed
