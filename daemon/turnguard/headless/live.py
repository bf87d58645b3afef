"""The guards over an agent that runs: what its stream tells goes in as it comes, verdicts come out.

    a call       is a batch of its own, told at once
    a step       of a scope is over before a call or words of another message; where the stream does not say the
                 message, before a call that comes after a result
    a result     is told with the end of its step; where the stream does not say the message, at once, or while other
                 calls of its scope run, together with theirs
    a turn       begins and ends as the stream says, or else with its first call; calls still open have no outcome

What subagents say in words is left out: it would close the step of the conversation above them. A call whose id came
before is another one: what a stream shows does run.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from turnguard.core.guard import ALL_BUT_TEXT
from turnguard.core.identify import identify
from turnguard.core.scope import of_scope, scoped
from turnguard.headless.ids import CallIds
from turnguard.prose import without_prose
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Event,
    Result,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Verdict

BEGINNING: Final[Sequence[Event]] = (TurnStarted(), StepFinished())
"""A turn. By the second of them the guards know that the ends of steps will be told, so calls one by one are none."""


class Guards(Protocol):
    """The guards of one conversation."""

    def record(self, events: Sequence[Event], /) -> Verdict:
        """Applies events in order and answers one verdict over all of them. Raises InvalidEventError."""
        ...


GuardsFor = Callable[[str | None], Guards]
"""Makes the guards of a conversation, from the name that the stream gives it."""


class Live:
    """An agent while it runs. Nothing here decides anything: verdicts are those of the guards.

    `calls`: how many the turn at hand has shown, those of subagents too.
    """

    def __init__(self, guards_for: GuardsFor) -> None:
        self._guards_for = guards_for
        self._conversations: dict[str | None, _Conversation] = {}
        self.calls = 0

    @property
    def is_running(self) -> bool:
        """Whether a call was shown of which the result was not."""
        return any(each.is_running for each in self._conversations.values())

    def hear(self, told: Told) -> Verdict | None:
        """Takes what the stream tells; None when it is nothing to the guards. Raises InvalidEventError."""
        conversation = self._conversations.get(told.session)
        if conversation is None:
            conversation = self._conversations[told.session] = _Conversation(self._guards_for(told.session))
        if isinstance(told.event, TurnStarted):
            self.calls = 0
        elif isinstance(told.event, ToolCalls):
            self.calls += len(told.event.calls)
        return conversation.hear(told._replace(event=without_prose(told.event)))


class _Scope:
    """The step at hand of one agent, be it a subagent: its message, calls without a result, results not told yet."""

    __slots__ = ("has_calls", "held", "is_answered", "message", "running")

    def __init__(self, message: str | None) -> None:
        self.message = message
        self.running: dict[str | None, Call] = {}
        self.held: list[Result] = []
        self.has_calls = self.is_answered = False


class _Conversation:
    """One conversation, with its subagents."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._ids = CallIds()
        self._scopes: dict[str | None, _Scope] = {}
        self._is_in_turn = False

    @property
    def is_running(self) -> bool:
        return any(scope.running for scope in self._scopes.values())

    def hear(self, told: Told) -> Verdict | None:
        event = self._ids.told(told.event, told.scope)
        if isinstance(event, ToolCalls):
            events = self._calls(event, told)
        elif isinstance(event, ToolResults):
            events = self._results(event, told.scope)
        elif isinstance(event, TurnStarted | TurnEnded):
            self._is_in_turn = isinstance(event, TurnStarted)
            events = [held for name in self._scopes for held in self._held(name)]
            events += [event, *BEGINNING[1:]] if self._is_in_turn else [event]
            self._scopes.clear()
        elif isinstance(event, Text | Thought):
            events = self._words(event, told.message) if told.scope is None else []
        elif isinstance(event, CallRekeyed) and told.scope is not None:
            events = [self._rekeyed(event, told.scope)]
        else:
            events = [event]
        return self._guards.record(events) if events else None

    def _calls(self, event: ToolCalls, told: Told) -> list[Event]:
        scope = self._scopes.get(told.scope)
        events: list[Event] = [] if self._is_in_turn else [*BEGINNING]
        self._is_in_turn = True
        if scope is not None and (told.message != scope.message or (told.message is None and scope.held)):
            events += self._closed(told.scope, scope)
            scope = None
        if scope is None:
            scope = self._scopes[told.scope] = _Scope(told.message)
        identified = _of(event, told.scope)
        for number, call in enumerate(identified.calls if isinstance(identified, ToolCalls) else event.calls):
            scope.running[call.id or f"{len(scope.running)}.{number}"] = call
        scope.has_calls, scope.is_answered = True, False
        return [*events, identified]

    def _words(self, event: Text | Thought, message: str | None) -> list[Event]:
        scope = self._scopes.get(None)
        is_others = scope is None or (scope.message is not None and scope.message == message)
        return [event] if is_others else [*self._held(None), event]

    def _results(self, event: ToolResults, name: str | None) -> list[Event]:
        scope = self._scopes.setdefault(name, _Scope(None))
        identified = _of(event, name, lambda result: scope.running.get(result.id))
        results = identified.results if isinstance(identified, ToolResults) else event.results
        for result in results:
            scope.running.pop(result.id, None)
        scope.held += results
        return [] if scope.running or scope.message is not None else self._held(name)

    def _held(self, name: str | None) -> list[Event]:
        """The results of a scope that were not told yet."""
        scope = self._scopes[name]
        if not scope.held:
            return []
        held, scope.held, scope.is_answered = scope.held, [], True
        return [ToolResults(held) if name is None else ToolResults(held, name)]

    def _closed(self, name: str | None, scope: _Scope) -> list[Event]:
        """The end of a scope's step. The guards see it themselves before a call that comes after a result."""
        events = self._held(name)
        is_others = any(other.running for other in self._scopes.values() if other is not scope)
        if scope.has_calls and not scope.is_answered and not is_others:
            events.append(StepFinished())
        return events

    def _rekeyed(self, event: CallRekeyed, name: str) -> Event:
        known = self._scopes[name].running.get(event.id) if name in self._scopes else None
        named = event if event.name is not None or known is None else msgspec.structs.replace(event, name=known.name)
        identified = identify(named)
        if not isinstance(identified, CallRekeyed):
            return event
        return msgspec.structs.replace(identified, key=scoped(identified.key, name))


def _of(event: Event, scope: str | None, call_of: Callable[[Result], Call | None] = lambda _: None) -> Event:
    """The event as one of a subagent's, which needs its identities; one of the agent itself as it is."""
    return event if scope is None else of_scope(identify(event, ALL_BUT_TEXT, call_of), scope)
