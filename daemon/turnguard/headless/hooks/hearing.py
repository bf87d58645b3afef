"""One call of a hook from its input to its answer: the session is read, told what was heard, and written again.

Nothing that goes wrong here stops an agent. What cannot be understood is not answered; a session that cannot be read or
taken up starts anew; one that cannot be written counts for nothing. Each of it is said.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import msgspec

from turnguard import __version__
from turnguard.core.guard import InvalidEventError
from turnguard.core.identify import identify
from turnguard.core.scope import of_scope
from turnguard.headless.hooks import words
from turnguard.headless.hooks.agents import agent_of
from turnguard.headless.hooks.call import NOTHING, Agent, Answer, Heard, Input, heard
from turnguard.headless.hooks.session import KeptSession
from turnguard.headless.hooks.store import Entry, Store, StoreError
from turnguard.sealing import Sealing
from turnguard.settings.sources import Sources
from turnguard.transcript import UnreadableError, decoded
from turnguard_protocol.events import Call, Event, ToolCalls
from turnguard_protocol.verdicts import Action, Verdict

FORM: Final = f"{__version__} 1"
"""What a snapshot says of its form: another version of turnguard may count otherwise."""

NAME_CHARACTERS: Final = 32
"""Of the digest that is the name of a session's file."""

REFUSALS: Final = (Action.HALT, Action.BLOCK, Action.RESTRICT)

_input = msgspec.json.Decoder(Input)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Say = Callable[[str], object]
"""Writes a line for whoever looks for the reasons of things."""


class Hearing(NamedTuple):
    """What a process that is a hook works with. `salt`: of this installation, for names and digests."""

    store: Store
    sources: Sources
    salt: bytes
    say: Say

    def answer(self, data: bytes, named: str | None = None) -> bytes:
        """The answer to an input, which is nothing where there is nothing to say. Raises UnreadableError."""
        given = decoded(_input, data)
        agent = agent_of(given, named)
        what = heard(agent, given)
        if what is None:
            return b""
        told = agent.answer(what, self._answer(agent, what))
        return _encode(told) if told else b""

    def _answer(self, agent: Agent, what: Heard) -> Answer:
        if what.moment == "prompt":
            self.store.sweep()
        name = Sealing(self.salt).text(f"{agent.name}\n{what.session_id}")[:NAME_CHARACTERS]
        try:
            with self.store.opened(name) as entry:
                return self._heard(agent, what, entry)
        except StoreError as error:
            problem = f"turnguard cannot keep this session, so that it guards nothing: {error}"
            self.say(problem)
            # The one moment that comes once a turn: there is no place to note that it was said.
            return NOTHING._replace(person=problem) if what.moment == "prompt" else NOTHING

    def _heard(self, agent: Agent, what: Heard, entry: Entry) -> Answer:
        kept, problem = _kept(entry)
        if kept is None and problem is None and what.moment in ("again", "compacted", "ended"):
            return NOTHING
        try:
            turn = self._turn(agent, what, kept)
            answer = turn.answer()
        except Exception as error:
            if kept is None:
                raise
            kept, problem = None, f"what was kept of this session could not be taken up ({type(error).__name__})"
            turn = self._turn(agent, what, None)
            answer = turn.answer()
        entry.write(_encode(turn.state()))
        if kept is None and what.moment != "prompt":
            problem = problem or "nothing was kept of this session"
        if problem is not None:
            self.say(f"turnguard: {problem}; {words.ANEW}")
            answer = _with_person(answer, f"turnguard: {problem}; {words.ANEW}.")
        return answer

    def _turn(self, agent: Agent, what: Heard, kept: dict[str, Any] | None) -> "_Turn":
        # A turn goes by the directory that it began in, however often the agent changes its own.
        cwd = kept["cwd"] if kept is not None and what.moment != "prompt" else what.cwd
        session = KeptSession(what.session_id, self.sources, cwd=cwd)
        waiting = _Waiting()
        if kept is not None:
            session.restore(kept["session"])
            waiting = msgspec.convert(kept["waiting"], _Waiting)
        return _Turn(agent, what, session, waiting, Sealing(self.salt))


class _Waiting(msgspec.Struct):
    """Words that wait for a moment at which they can be told: the model, and the person.

    What a hook of a subagent tells the person, agents do not show, nor all that comes with the end of a turn.
    """

    context: str | None = None
    person: list[str] = []


class _Turn:
    """A session while it hears one thing."""

    def __init__(self, agent: Agent, what: Heard, session: KeptSession, waiting: _Waiting, sealing: Sealing) -> None:
        self._agent = agent
        self._what = what
        self._session = session
        self._waiting = waiting
        self._seal = sealing.event

    def state(self) -> dict[str, Any]:
        """What is to be kept."""
        return {
            "form": FORM,
            "cwd": self._session.cwd,
            "waiting": self._waiting,
            "session": self._session.snapshot(),
        }

    def answer(self) -> Answer:
        """Tells the guards, and answers as they say."""
        what = self._what
        if what.moment == "prompt":
            self._waiting.context = None
        verdict = self._session.record([self._sealed(event) for event in what.events])
        findings = verdict.findings
        self._waiting.person += [*(verdict.notices or ()), *filter(None, [words.for_person(verdict)])]
        is_halt = verdict.action is Action.HALT
        is_shown = what.scope is None and not (is_halt and what.moment != "before" and not self._agent.shows_after)
        person = self._all_for_person() if is_shown or what.moment == "prompt" else None
        if what.moment in ("prompt", "compacted", "ended"):
            return Answer(person=person)
        if is_halt:
            refusal = verdict.model_message or words.STOPPED if what.moment == "before" else None
            return Answer(refusal, words.stop_reason(findings[0], verdict.totals), person=person)
        if what.moment == "before" and self._is_refused(verdict):
            return Answer(verdict.model_message or words.STOPPED, person=person)
        if verdict.action is Action.WARN and words.fresh(verdict):
            self._waiting.context = verdict.model_message or None
        return Answer(context=self._told_now(), person=person)

    def _is_refused(self, verdict: Verdict) -> bool:
        if verdict.action is Action.RESTRICT:
            return not self._session.may_use(self._what.tool)
        return verdict.action is Action.BLOCK and 0 not in verdict.admitted

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
        return self._seal(of_scope(identified, self._what.scope))


def _unknown(event: Event) -> Event:
    """The event without arguments and outcomes."""
    if isinstance(event, ToolCalls):
        return ToolCalls([Call(call.name, call.id, fidelity="none") for call in event.calls])
    return event


def _kept(entry: Entry) -> tuple[dict[str, Any] | None, str | None]:
    """What was kept of a session, and why it could not be read."""
    if entry.problem is not None:
        return None, f"what was kept of this session was not read: {entry.problem}"
    if entry.data is None:
        return None, None
    try:
        state = _decode(entry.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, "what was kept of this session is broken"
    if not isinstance(state, dict):
        return None, "what was kept of this session is broken"
    known = cast("dict[str, Any]", state)
    if known.get("form") != FORM:
        return None, "what was kept of this session is of another version of turnguard"
    return known, None


def _with_person(answer: Answer, words_: str) -> Answer:
    return answer._replace(person=words_ if answer.person is None else f"{answer.person}\n{words_}")


__all__ = ["Hearing", "UnreadableError"]
