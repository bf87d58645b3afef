"""The loopShield guard: a budget of consecutive tool calls, asked between steps.

The budget is an admission budget between steps, not a lock inside one. What it has to say it says when a step closes:
the action is `restrict`, and `next_step` tells what the next model request may use. A batch that comes although the
budget is used up is therefore let through and counted, as upstream does, and `restrict` is said again; a host that does
not want that asks for admission by the call. Then each call is admitted as if it were a step of its own: calls past the
budget are refused, in order, and of four parallel calls with two slots left two run.

A call counts when it was admitted, whatever became of it afterwards: a loop of calls that all fail or are all denied is
one. A step whose calls were all refused counts nothing, and is no text-only step.

A call of the open step that is re-keyed counts under its new name. One of a step that is closed was counted.
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.budget.errors import ToolNameRequiredError, UnknownStateError
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard.core.budget.states import Move, StateMachine
from turnguard.core.guard import NO_FINDINGS, PASS, Batch, Guard, Rekeying, Ruling, Seal
from turnguard_protocol.events import (
    CallRekeyed,
    Event,
    Fallback,
    Retry,
    StateChanged,
    StepFinished,
    ToolCalls,
    TurnStarted,
)
from turnguard_protocol.settings import LoopShieldInForce, SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

TOOL_CALL_BUDGET = "tool_call_budget"
FALLBACK = "fallback"
"""The budget is used up and the machine moved: the next step gets the fallback state's tools."""

EXHAUSTED = "exhausted"
"""The budget is used up and there is nowhere to go: the next step gets no tools."""

ONLY_STATE = ""
"""The state of a budget without states: each `stateChanged` is a move from it to itself."""


def machine_of(shield: LoopShieldInForce | None, *, shadow: bool = False) -> StateMachine:
    """The machine that settings describe; in shadow it has no fallback to move to, since nothing is to change.

    Raises ConfigError, whose `setting` is the one at fault.
    """
    if shield is None:
        return StateMachine({ONLY_STATE: ()}, ONLY_STATE)
    states = shield.states or {ONLY_STATE: []}
    return StateMachine(
        states,
        next(iter(states)) if shield.initial_state is None else shield.initial_state,
        shield=LoopShield(shield.max_consecutive_tools, shield.mode, enabled=shield.enabled),
        fallback=None if shadow else shield.fallback_state,
    )


class LoopShieldGuard(Guard):
    """A `StateMachine` in the shape of a guard.

    `calls`: the tools of the open step's calls that run, sent in the state at hand; None: the step has no calls so
    far, or the machine moved since. `is_refusal_told`: it was said in this episode that calls are refused. Declared
    states hold, with their tools, even while the shield is off. Raises ConfigError.
    """

    __slots__ = ("calls", "is_refusal_told", "machine")

    name = "loopShield"

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.machine = machine_of(settings.loop_shield, shadow=settings.shadow)
        self._forget_step()

    def configure(self, settings: SettingsInForce) -> None:
        """Takes other settings from the next event on. The state stays if it still is one, and with it the counts."""
        is_same = (settings.loop_shield, settings.shadow) == (self.settings.loop_shield, self.settings.shadow)
        super().configure(settings)
        if is_same:
            return
        held, self.machine = self.machine, machine_of(settings.loop_shield, shadow=settings.shadow)
        if held.state not in self.machine.states:
            self._forget_step()
            return
        self.machine.restore(held.snapshot())
        self.machine.shield.restore(held.shield.snapshot())
        if self.calls is not None and self.machine.shield.mode == "repeated":
            self.calls = [tool for tool in self.calls if tool]

    def validate(self, event: Event) -> None:
        """Raises ToolNameRequiredError or UnknownStateError, with a path from the event, when it cannot be taken."""
        shield = self.machine.shield
        if type(event) is ToolCalls and shield.enabled and shield.mode == "repeated":
            for index, call in enumerate(event.calls):
                if not call.name:
                    raise ToolNameRequiredError(f".calls[{index}].name")
        elif type(event) is CallRekeyed and shield.enabled and shield.mode == "repeated" and event.name == "":
            raise ToolNameRequiredError(".name")
        elif type(event) is StateChanged and self._target(event) not in self.machine.states:
            raise UnknownStateError(event.state, ".state")

    def check(self, batch: Batch) -> Ruling:
        """Refuses what does not fit, with admission by the call; else says again that the budget is used up."""
        shield = self.settings.loop_shield
        if shield is not None and shield.admission == "call":
            return self._admit_what_fits(batch)
        return Ruling([self._still_exhausted()]) if self.machine.looping and batch.calls else PASS

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Notes the calls that run, until their step closes."""
        if not batch.calls or not self.machine.shield.enabled:
            return
        if self.calls is None:
            self.calls = []
        self.calls += [batch.calls[index].name for index in admitted]
        del self.calls[:-MAX_OPEN_CALLS]

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Notes the call's new name; where several of the step had the old one, the last of them is taken for it."""
        before, calls = change.before.name, self.calls or []
        if change.is_in_step and before in calls:
            calls[len(calls) - 1 - calls[::-1].index(before)] = change.now.name

    def receive(self, event: Event) -> Sequence[Finding]:
        """Registers steps as they close, and follows the turn and the host's state machine."""
        if type(event) is StepFinished:
            return self._finish_step()
        if type(event) is StateChanged:
            self.machine.transition(self._target(event))
            self._forget_step()
        elif type(event) is TurnStarted:
            self.machine.begin()
            self._forget_step()
        elif type(event) is Retry or type(event) is Fallback:
            self.calls = None
        return NO_FINDINGS

    def forgive(self, finding: Finding) -> None:
        """Clears the budget, the calls of the open step included: the next one starts with all of it."""
        self.machine.reset()
        self._forget_step()

    def slots_left(self) -> int | None:
        """How many more calls are sure to fit, whatever tools they are of; None: any number."""
        if not self.machine.shield.enabled:
            return None
        ahead = self._ahead()
        return max(0, ahead.max_allowed - ahead.count)

    def next_step(self) -> tuple[Literal["auto", "none"], list[str] | None, str | None]:
        """What the next model request may use: the choice, the tools (None: all) and the state (None: no states)."""
        choice, tools = self.machine.prepare()
        return (choice, list(tools), self.machine.state) if self._has_states() else (choice, None, None)

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        return {
            **self.machine.snapshot(),
            "shield": self.machine.shield.snapshot(),
            "calls": None if self.calls is None else list(self.calls),
            "isRefusalTold": self.is_refusal_told,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave, or upstream's form of one, `{"state"}`, with nothing counted."""
        self.machine.restore(state)
        self._forget_step()
        if "shield" in state:
            self.machine.shield.restore(state["shield"])
            self.calls, self.is_refusal_told = state["calls"], state["isRefusalTold"]

    def _forget_step(self) -> None:
        """The open step's calls belong to a budget that is gone."""
        self.calls: list[str | None] | None = None
        self.is_refusal_told = False

    def _has_states(self) -> bool:
        return self.settings.loop_shield is not None and bool(self.settings.loop_shield.states)

    def _target(self, event: StateChanged) -> str:
        return event.state if self._has_states() else ONLY_STATE

    def _ahead(self) -> LoopShield:
        """The budget as it will be when the open step closes, were nobody to move."""
        return self.machine.shield.ahead(self.calls or ())

    def _admit_what_fits(self, batch: Batch) -> Ruling:
        ahead = self._ahead()
        refused: list[int] = []
        for index, call in enumerate(batch.calls):
            if ahead.looping:
                refused.append(index)
            else:
                ahead.register(call.name)
        if not refused:
            return PASS
        is_fresh, self.is_refusal_told = not self.is_refusal_told, True
        finding = self._finding(Action.BLOCK, EXHAUSTED, ahead.run, batch.calls[refused[0]].name, fresh=is_fresh)
        return Ruling([finding], frozenset(refused))

    def _finish_step(self) -> Sequence[Finding]:
        calls, self.calls = self.calls, None
        if calls is None:
            self.is_refusal_told = False
        notices = [] if calls == [] else self.machine.step(calls or ())
        trips = [notice for notice in notices if isinstance(notice, Trip)]
        has_moved = any(isinstance(notice, Move) for notice in notices)
        if has_moved:
            self.is_refusal_told = False
        elif self.machine.looping and not trips:
            return [self._still_exhausted()]
        # In `repeated` mode another tool can end an episode inside the step: only the last one may still be open.
        held = trips[-1] if trips and (has_moved or self.machine.looping) else None
        reason = FALLBACK if has_moved or self._would_move() else EXHAUSTED
        return [
            self._finding(
                Action.RESTRICT if trip is held else Action.WARN, reason, trip.consecutive_tools, trip.tool, fresh=True
            )
            for trip in trips
        ]

    def _would_move(self) -> bool:
        """Whether this budget, used up, would move to its fallback state if turnguard did not only watch."""
        shield = self.settings.loop_shield
        fallback = None if shield is None else shield.fallback_state
        return self.settings.shadow and fallback is not None and fallback != self.machine.state

    def _still_exhausted(self) -> Finding:
        shield = self.machine.shield
        return self._finding(Action.RESTRICT, EXHAUSTED, shield.run, shield.last, fresh=False)

    def _finding(self, action: Action, reason: str, count: int, tool: str | None, *, fresh: bool) -> Finding:
        return Finding(
            guard=self.name,
            action=action,
            loop_type=TOOL_CALL_BUDGET,
            reason=reason,
            tool=tool or UNSET,
            count=count,
            threshold=self.machine.shield.max_allowed,
            fresh=fresh,
            setting="loopShield.maxConsecutiveTools",
        )
