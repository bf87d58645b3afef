"""Requests of both sides that are not answered yet, and what turnguard answers in the place of either.

A request of the client that turnguard answered, be it by the agent's answer rewritten or in the agent's place, is
answered: whatever the agent sends under its id later goes nowhere. So it is with a request of the agent that turnguard
answered in the client's place; should the agent use its id again before the client has answered, the client is asked
under another one, so that a stale click allows nothing new and an answer to the new request is not taken for a stale
one. The agent's ids are its own: they often equal ids of the client, and say nothing about the client's requests.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from turnguard.acp.outgoing import RequestId, members_of

# --- the client's -----------------------------------------------------------------------------------------------------

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
    """All that the client of one connection makes."""

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


# --- the agent's ------------------------------------------------------------------------------------------------------


class Open(NamedTuple):
    """A request of the agent that waits for the client.

    `cancelled` and `rejected` are the results that answer it in the client's place. `tool_call_id`: the call that a
    permission is asked for. `told_as`: the id under which the client was asked, None for the agent's own.
    """

    session_id: str
    cancelled: Mapping[str, Any]
    rejected: Mapping[str, Any]
    tool_call_id: str | None = None
    told_as: str | None = None


class OpenRequests:
    """All that the agent of one connection makes and that can be answered in the client's place."""

    __slots__ = ("_answered", "_open", "_renamed")

    def __init__(self) -> None:
        self._open: dict[RequestId, Open] = {}
        self._answered: set[RequestId] = set()
        self._renamed: dict[str, RequestId] = {}

    def forwarded(self, request_id: RequestId, request: Open) -> None:
        """The request goes to the client."""
        self._open[request_id] = request
        if request.told_as is not None:
            self._renamed[request.told_as] = request_id

    def told_as(self, request_id: RequestId) -> str | None:
        """The id under which the client was asked for an open request, None for the agent's own."""
        request = self._open.get(request_id)
        return None if request is None else request.told_as

    def taken_back(self, told_as: RequestId) -> RequestId | None:
        """The id of the agent's request that the client answers under another; it is open no more."""
        request_id = self._renamed.pop(told_as, None) if isinstance(told_as, str) else None
        if request_id is not None:
            self._open.pop(request_id, None)
        return request_id

    def swallows(self, request_id: RequestId) -> bool:
        """Whether an answer of the client comes too late, since the agent was answered in its place."""
        if request_id in self._answered:
            self._answered.discard(request_id)
            return True
        self._open.pop(request_id, None)
        return False

    def is_answered(self, request_id: RequestId) -> bool:
        """Whether turnguard answered a request under this id and the client has not, since it was told so."""
        return request_id in self._answered

    def of(self, session_id: str, tool_call_id: str | None = None) -> list[tuple[RequestId, Open]]:
        """The open requests of a session, or its open permission requests for one call."""
        return [
            (request_id, request)
            for request_id, request in self._open.items()
            if request.session_id == session_id and tool_call_id in (None, request.tool_call_id)
        ]

    def take_over(self, request_id: RequestId) -> RequestId:
        """The agent is answered by turnguard; the client's answer will be a late one. The id that the client knows."""
        request = self._open.pop(request_id, None)
        told_as = request_id if request is None or request.told_as is None else request.told_as
        if isinstance(told_as, str):
            self._renamed.pop(told_as, None)
        self._answered.add(told_as)
        return told_as

    def forget(self, session_id: str) -> None:
        """The session is gone."""
        for request_id, request in self.of(session_id):
            del self._open[request_id]
            if request.told_as is not None:
                del self._renamed[request.told_as]


# --- answers in the client's place ------------------------------------------------------------------------------------

CANCELLED_PERMISSION: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""Nobody decided; agents take it for the end of the turn, or at least for a no."""

CANCELLED_ELICITATION: dict[str, Any] = {"action": "cancel"}

REJECTIONS = ("reject_once", "reject_always")
"""The kinds of option that say no, the one for this call only first."""


def rejection(line: bytes) -> dict[str, Any]:
    """The result that rejects the call of a `session/request_permission`, by what the request offers."""
    try:
        options = msgspec.json.decode(members_of(members_of(line)["params"])["options"], type=list[Raw])
        offered = [members_of(option) for option in options]
        ids = {_text(option["kind"]): _text(option["optionId"]) for option in reversed(offered)}
    except (KeyError, ValueError):
        return CANCELLED_PERMISSION
    for kind in REJECTIONS:
        if kind in ids:
            return {"outcome": {"outcome": "selected", "optionId": ids[kind]}}
    return CANCELLED_PERMISSION


def _text(raw: Raw) -> str:
    return msgspec.json.decode(raw, type=str)
