"""A turn while it hears one thing: what the guards say of it, and what is answered.

verdict     before a call                   at any other moment
halt        refused, and the turn is over   the turn is over
block       refused                         -
restrict    refused, unless the tool is     -
            one of those that are left
warn        told the model, where an agent has a place for it then, else at the next such moment
"""

from typing import Any

import msgspec

from turnguard.core.guard import InvalidEventError
from turnguard.core.identify import identify
from turnguard.core.scope import of_scope
from turnguard.headless.hooks import words
from turnguard.headless.hooks.call import Agent, Answer, Heard
from turnguard.headless.hooks.session import KeptSession
from turnguard.headless.ids import CallIds
from turnguard.headless.words import fresh, notices_of
from turnguard.sealing import Sealing
from turnguard_protocol.events import Call, Event, ToolCalls
from turnguard_protocol.verdicts import Action, Verdict


class Waiting(msgspec.Struct):
    """Words that wait for a moment at which they can be told: the model, and the person.

    What a hook of a subagent tells the person, agents do not show, nor all that comes with the end of a turn.
    """

    context: str | None = None
    person: list[str] = []


class Turn:
    """A session while it hears one thing. `ids`: those of the calls before."""

    def __init__(
        self, agent: Agent, what: Heard, session: KeptSession, waiting: Waiting, ids: CallIds, sealing: Sealing
    ) -> None:
        self._agent = agent
        self._what = what
        self._session = session
        self._waiting = waiting
        self._ids = ids
        self._seal = sealing.event

    def state(self) -> dict[str, Any]:
        """What is to be kept."""
        return {
            "cwd": self._session.cwd,
            "waiting": self._waiting,
            "ids": self._ids,
            "session": self._session.snapshot(),
        }

    def answer(self) -> Answer:
        """Tells the guards, and answers as they say."""
        what = self._what
        if what.moment == "prompt":
            self._waiting.context = None
            self._ids.forget()
        verdict = self._session.record([self._sealed(event) for event in what.events])
        is_halt = verdict.action is Action.HALT
        is_refused = what.moment == "before" and self._is_refused(verdict)
        told = words.for_person(verdict, is_refused=is_refused)
        self._waiting.person += [*notices_of(verdict), *([] if told is None else [told])]
        is_shown = what.scope is None and not (is_halt and what.moment != "before" and not self._agent.shows_after)
        person = self._all_for_person() if is_shown or what.moment == "prompt" else None
        if what.moment in ("prompt", "compacted", "ended"):
            return Answer(person=person)
        refusal = verdict.model_message or words.STOPPED if is_refused else None
        if is_halt:
            return Answer(refusal, words.stop_reason(verdict.findings[0], verdict.totals), person=person)
        if is_refused:
            return Answer(refusal, person=person)
        if verdict.action in (Action.WARN, Action.RESTRICT) and fresh(verdict):
            self._waiting.context = verdict.model_message or None
        return Answer(context=self._told_now(), person=person)

    def _is_refused(self, verdict: Verdict) -> bool:
        if verdict.action is Action.RESTRICT:
            return not self._session.may_use(self._what.tool)
        return verdict.action is Action.HALT or (verdict.action is Action.BLOCK and 0 not in verdict.admitted)

    def _told_now(self) -> str | None:
        """The words that wait, if the model can be told now."""
        if self._what.moment == "again" or (self._what.moment == "before" and not self._agent.hears_before):
            return None
        context, self._waiting.context = self._waiting.context, None
        return context

    def _all_for_person(self) -> str | None:
        told, self._waiting.person = self._waiting.person, []
        return "\n".join(told) or None

    def _sealed(self, event: Event) -> Event:
        try:
            identified = identify(event, self._session.needs)
        except InvalidEventError:  # nobody can tell what it is: it counts, and is like no other
            identified = identify(_unknown(event), self._session.needs)
        scope = self._what.scope
        return self._seal(self._ids.told(of_scope(identified, scope), scope))


def _unknown(event: Event) -> Event:
    """The event without arguments and outcomes."""
    if isinstance(event, ToolCalls):
        return ToolCalls([Call(call.name, call.id, fidelity="none") for call in event.calls])
    return event
