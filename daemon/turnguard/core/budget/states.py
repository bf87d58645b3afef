"""StateMachine: states with their tools, and a budget that starts anew with every move.

A budget that is used up moves the machine to its fallback state, whose tools the next step gets; without one, or in the
fallback state itself, the next step gets none. Nothing inside a step is stopped: four parallel calls with two slots
left all run, and the step after them is refused.

A step's calls belong to the state in force when the step was admitted. So calls of a step during which the machine
moved count nowhere, and after the call that trips the fallback the rest of its step does not count either.

Everything happens before anybody hears of it: the machine moves, the counter is cleared, then `on_transition` and then
`on_loop` are called, so that a callback may raise or use the machine. Source: the loopShield page (seed 001) and, where
it is silent, reactive-fsm 1.4.0.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, cast

from msgspec import Struct

from turnguard.core.budget.errors import (
    FallbackStateError,
    GuardAsyncError,
    GuardBlockedError,
    InitialStateError,
    MaxConsecutiveToolsError,
    SnapshotStateError,
    StaleTransitionError,
    UnknownStateError,
)
from turnguard.core.budget.picture import mermaid
from turnguard.core.budget.shield import LoopShield, Trip

Context = dict[str, Any]
Answer = bool | Awaitable[bool]
TransitionGuard = Callable[[str, str, Context], Answer]
"""Whether the machine may move: from, to, context."""


class Move(Struct, frozen=True, gc=False):
    """The machine moved; a move from a state to itself is one too."""

    source: str
    target: str


Notice = Move | Trip
"""What happened, in the order in which callbacks hear of it."""


class Ticket(Struct, frozen=True, gc=False):
    """A move that was asked for. `answer`: the guard's, perhaps yet to come; `epoch`: where the machine stood then."""

    target: str
    epoch: int
    answer: Answer


class StateMachine:
    """The machine. `states`: the tools of each state; `snapshot`: what an earlier one gave, to start from its state.

    `guard` is asked before each move but the fallback's; it gets the machine's own copy of `context`. `epoch` counts
    the moves, `steps` the steps registered since the generation began.

    Raises InitialStateError, SnapshotStateError, FallbackStateError, and MaxConsecutiveToolsError for a budget of 0
    with a fallback: it would be used up in the fallback state too.
    """

    __slots__ = (
        "_first_context",
        "context",
        "epoch",
        "fallback",
        "guard",
        "initial",
        "on_loop",
        "on_transition",
        "shield",
        "state",
        "states",
        "steps",
    )

    def __init__(
        self,
        states: Mapping[str, Sequence[str]],
        initial: str,
        *,
        shield: LoopShield | None = None,
        fallback: str | None = None,
        guard: TransitionGuard | None = None,
        on_transition: Callable[[str, str], object] | None = None,
        on_loop: Callable[[Trip], object] | None = None,
        context: Mapping[str, Any] | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        self.states = dict(states)
        self.initial = initial
        self.state = initial
        self.shield = shield or LoopShield(0, enabled=False)
        self.fallback = fallback
        self.guard = guard
        self.on_transition = on_transition
        self.on_loop = on_loop
        self.epoch = self.steps = 0
        self._first_context = dict(context or {})
        self.context: Context = dict(self._first_context)
        if initial not in states:
            raise InitialStateError(f"The initial state {initial!r} is none of the states")
        if snapshot is not None:
            self.restore(snapshot)
        if fallback is not None and fallback not in states:
            raise FallbackStateError(f"The fallback state {fallback!r} is none of the states")
        if fallback is not None and shield is not None and shield.max_allowed == 0:
            raise MaxConsecutiveToolsError("A budget of 0 leaves the fallback state none either: expected 1 or more")

    @property
    def group(self) -> str:
        """The state's group: what stands before the first colon of its name."""
        return self.state.partition(":")[0]

    @property
    def looping(self) -> bool:
        """Whether the budget is used up."""
        return self.shield.looping

    def prepare(self) -> tuple[Literal["auto", "none"], Sequence[str]]:
        """What the next step may do with tools, and the tools of the state. Changes nothing."""
        return "none" if self.looping else "auto", self.states[self.state]

    def register(self, tool: str | None) -> list[Notice]:
        """Counts one call in the state at hand, for hosts that know of no steps. Raises ToolNameRequiredError."""
        return self._tell(self._count(tool))

    def step(
        self,
        calls: Sequence[str | None],
        *,
        during: str | None = None,
        since: int | None = None,
        index: int | None = None,
    ) -> list[Notice]:
        """Registers a completed step, by the tools of its calls; one without calls breaks the run.

        `during`: a tool of the step moves the machine there. `since`: the `epoch` when the step was admitted, for
        tools that moved the machine themselves. `index`: the step's place in its generation; one that was registered
        is not registered again. Raises ToolNameRequiredError and all that `transition` raises; then nothing of the
        step takes effect.
        """
        if index is not None and index < self.steps:
            return []
        self.shield.require_names(calls)
        notices: list[Notice] = [] if during is None else [self._transit(during)]
        self.steps = (self.steps if index is None else index) + 1
        if not calls:
            self.shield.clear()
        elif during is None and since in (None, self.epoch):
            notices = self._count_all(calls)
        return self._tell(notices)

    def observe(self, history: Sequence[Sequence[str | None]]) -> list[Notice]:
        """Registers those steps of a generation's history that are new; a shorter history is another generation's.

        Raises ToolNameRequiredError; then none of them takes effect.
        """
        seen = self.steps if len(history) >= self.steps else 0
        for calls in history[seen:]:
            self.shield.require_names(calls)
        if seen < self.steps:
            self.begin()
        return [notice for calls in history[seen:] for notice in self.step(calls)]

    def transition(self, target: str) -> list[Notice]:
        """Moves, if the guard lets it.

        Raises UnknownStateError before the guard is asked, GuardBlockedError, GuardAsyncError, StaleTransitionError.
        """
        return self._tell([self._transit(target)])

    async def transition_async(self, target: str) -> list[Notice]:
        """Moves, if the guard lets it, however long it thinks. Raises what `transition` does, GuardAsyncError apart."""
        ticket = self.request(target)
        answer = ticket.answer
        return self.commit(ticket, allowed=await answer if isinstance(answer, Awaitable) else answer)

    def request(self, target: str) -> Ticket:
        """The first half of a move: asks the guard. Raises UnknownStateError before it does."""
        if target not in self.states:
            raise UnknownStateError(target)
        epoch = self.epoch
        return Ticket(target, epoch, True if self.guard is None else self.guard(self.state, target, self.context))

    def commit(self, ticket: Ticket, *, allowed: bool) -> list[Notice]:
        """The second half of a move. Raises StaleTransitionError when another came between, GuardBlockedError."""
        return self._tell([self._commit(ticket, allowed=allowed)])

    def reset(self) -> None:
        """Clears the budget."""
        self.shield.clear()

    def begin(self) -> None:
        """A new generation: a budget of its own, its steps numbered from 0. The state stays."""
        self.shield.clear()
        self.steps = 0

    def snapshot(self) -> dict[str, Any]:
        """The state; counts and context are not part of it."""
        return {"state": self.state}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Starts from the state of a snapshot with nothing counted; no move. Raises SnapshotStateError."""
        state = snapshot.get("state")
        if not isinstance(state, str) or state not in self.states:
            raise SnapshotStateError(f"The snapshot's state {state!r} is none of the states")
        self.state = state
        self.epoch += 1
        self.context = dict(self._first_context)
        self.begin()

    def to_mermaid(self) -> str:
        """A picture of all states with their tools, as a Mermaid state diagram."""
        return mermaid(self.states, self.initial, self.fallback if self.shield.enabled else None)

    def _transit(self, target: str) -> Move:
        ticket = self.request(target)
        answer = ticket.answer
        if not isinstance(answer, Awaitable):
            return self._commit(ticket, allowed=answer)
        if isinstance(answer, Coroutine):
            cast("Coroutine[Any, Any, bool]", answer).close()
        raise GuardAsyncError("The guard answers asynchronously: expected an asynchronous transition")

    def _commit(self, ticket: Ticket, *, allowed: bool) -> Move:
        if ticket.epoch != self.epoch:
            raise StaleTransitionError(f"The machine moved before the move to {ticket.target!r} was allowed")
        if not allowed:
            raise GuardBlockedError(f"The guard does not allow the move from {self.state!r} to {ticket.target!r}")
        return self._move(ticket.target)

    def _move(self, target: str) -> Move:
        move = Move(self.state, target)
        self.state = target
        self.epoch += 1
        self.shield.clear()
        return move

    def _count_all(self, calls: Sequence[str | None]) -> list[Notice]:
        """Counts the calls of a step, up to one that moves the machine: the rest belongs to the state it left."""
        notices: list[Notice] = []
        epoch = self.epoch
        for tool in calls:
            notices += self._count(tool)
            if self.epoch != epoch:
                break
        return notices

    def _count(self, tool: str | None) -> list[Notice]:
        notices: list[Notice] = []
        trip = self.shield.register(tool)
        if self.looping and self.fallback is not None and self.fallback != self.state:
            notices.append(self._move(self.fallback))
        if trip is not None:
            notices.append(trip)
        return notices

    def _tell(self, notices: list[Notice]) -> list[Notice]:
        """Calls the callbacks in order, each of them even if one before it raises."""
        if notices:
            with ExitStack() as calls:
                for notice in reversed(notices):
                    calls.callback(self._call, notice)
        return notices

    def _call(self, notice: Notice) -> None:
        if isinstance(notice, Move):
            if self.on_transition is not None:
                self.on_transition(notice.source, notice.target)
        elif self.on_loop is not None:
            self.on_loop(notice)
