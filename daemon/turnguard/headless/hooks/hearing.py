"""One call of a hook from its input to its answer: the session is read, told what was heard, and written again.

Nothing that goes wrong here stops an agent. What cannot be understood is not answered; a session that cannot be read or
taken up starts anew; one that cannot be written counts for nothing. Each of it is said.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import msgspec

from turnguard import __version__
from turnguard.headless.hooks import words
from turnguard.headless.hooks.agents import agent_of
from turnguard.headless.hooks.call import NOTHING, Agent, Answer, Heard, Input, heard
from turnguard.headless.hooks.session import KeptSession
from turnguard.headless.hooks.store import Entry, Store, StoreError
from turnguard.headless.hooks.turn import Turn, Waiting
from turnguard.headless.ids import CallIds
from turnguard.sealing import Sealing
from turnguard.settings.regular_file import RefusedFileError
from turnguard.settings.sources import Sources
from turnguard.transcript import decoded

FORM: Final = f"{__version__} 2"
"""What a snapshot says of its form: another version of turnguard may count otherwise."""

NAME_CHARACTERS: Final = 32
"""Of the digest that is the name of a session's file."""

_input = msgspec.json.Decoder(Input)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Say = Callable[[str], object]
"""Writes a line for whoever looks for the reasons of things."""


class Hearing(NamedTuple):
    """What a process that is a hook works with.

    `salt`: that of this installation, for names and digests; it may raise OSError, or RefusedFileError.
    """

    store: Store
    sources: Sources
    salt: Callable[[], bytes]
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
        try:
            sealing = Sealing(self.salt())
            with self.store.opened(sealing.text(f"{agent.name}\n{what.session_id}")[:NAME_CHARACTERS]) as entry:
                return self._heard(agent, what, entry, sealing)
        except (StoreError, RefusedFileError, OSError) as error:
            return self._unkept(what, NOTHING, error)

    def _unkept(self, what: Heard, answer: Answer, error: Exception) -> Answer:
        """The answer where nothing can be kept of it."""
        problem = f"turnguard cannot keep this session, so that it guards nothing: {error}"
        self.say(problem)
        # The one moment that comes once a turn: there is no place to note that it was said.
        return _with_person(answer, problem) if what.moment == "prompt" else answer

    def _heard(self, agent: Agent, what: Heard, entry: Entry, sealing: Sealing) -> Answer:
        kept, problem = _kept(entry)
        if kept is None and problem is None and what.moment in ("again", "compacted", "ended"):
            return NOTHING
        try:
            turn = self._turn(agent, what, kept, sealing)
            answer = turn.answer()
        except Exception as error:
            if kept is None:
                raise
            kept, problem = None, f"what was kept of this session could not be taken up ({type(error).__name__})"
            turn = self._turn(agent, what, None, sealing)
            answer = turn.answer()
        try:
            entry.write(_encode({"form": FORM, **turn.state()}))
        except StoreError as error:
            return self._unkept(what, answer, error)
        if kept is None and what.moment != "prompt":
            problem = problem or "nothing was kept of this session"
        if problem is not None:
            self.say(f"turnguard: {problem}; {words.ANEW}")
            answer = _with_person(answer, f"turnguard: {problem}; {words.ANEW}.")
        return answer

    def _turn(self, agent: Agent, what: Heard, kept: dict[str, Any] | None, sealing: Sealing) -> Turn:
        # A turn goes by the directory that it began in, however often the agent changes its own.
        directory: str | None = (
            kept["cwd"] if kept is not None and what.moment != "prompt" else self.sources.directory(what.cwd)
        )
        session = KeptSession(what.session_id, self.sources, directory=directory)
        waiting, ids = Waiting(), CallIds()
        if kept is not None:
            session.restore(kept["session"])
            waiting = msgspec.convert(kept["waiting"], Waiting)
            ids = msgspec.convert(kept["ids"], CallIds)
        return Turn(agent, what, session, waiting, ids, sealing)


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
