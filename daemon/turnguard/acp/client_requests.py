"""Requests of the client that the agent has not answered, and those that it answers too late.

A request that turnguard answered, be it by the agent's answer rewritten or in the agent's place, is answered: whatever
the agent sends under its id later goes nowhere.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from turnguard.acp.outgoing import RequestId

MAX_ANSWERED = 10_000
"""Ids that are remembered as answered by turnguard; the oldest are forgotten first."""

Kind = Literal["initialize", "new", "replay", "fork", "prompt", "close", "other"]

KINDS: dict[str, Kind] = {
    "initialize": "initialize",
    "session/new": "new",
    "session/load": "replay",
    "session/resume": "replay",
    "session/fork": "fork",
    "session/prompt": "prompt",
    "session/close": "close",
    "session/delete": "close",
}


class Asked(NamedTuple):
    """A request of the client: what it means here, which session it names, and where that session is to be."""

    kind: Kind
    session_id: str | None = None
    cwd: str | None = None


class ClientRequests:
    """All of one connection."""

    __slots__ = ("_answered", "_pending", "forks")

    def __init__(self) -> None:
        self._pending: dict[RequestId, Asked] = {}
        self._answered: dict[RequestId, str | None] = {}
        self.forks = 0
        """How many sessions are being forked, whose ids are not known yet."""

    def sent(self, request_id: RequestId, asked: Asked) -> None:
        """The client asks. An id that it uses again is a new request's."""
        self._answered.pop(request_id, None)
        self._pending[request_id] = asked
        self.forks += asked.kind == "fork"

    def pending(self, request_id: RequestId) -> Asked | None:
        """The open request under an id."""
        return self._pending.get(request_id)

    def all_pending(self) -> Sequence[tuple[RequestId, Asked]]:
        """All open requests, by their ids."""
        return list(self._pending.items())

    def take(self, request_id: RequestId) -> Asked | None:
        """The open request that the agent answers; None when the client did not ask, or was answered already."""
        asked = self._pending.pop(request_id, None)
        if asked is not None:
            self.forks -= asked.kind == "fork"
        return asked

    def is_answered(self, request_id: RequestId) -> bool:
        """Whether turnguard answered it."""
        return request_id in self._answered

    def session_of(self, request_id: RequestId) -> str | None:
        """The session that an answered request named."""
        return self._answered.get(request_id)

    def answered(self, request_id: RequestId, session_id: str | None) -> None:
        """Turnguard answers it."""
        self.take(request_id)
        self._answered[request_id] = session_id
        if len(self._answered) > MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
