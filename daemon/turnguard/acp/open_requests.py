"""Requests of the agent that the client has not answered yet, and those that turnguard answered in its place.

The agent's ids are its own: they often equal ids of the client, and say nothing about the client's requests.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from turnguard.acp.outgoing import RequestId


class Open(NamedTuple):
    """A request of the agent that waits for the client.

    `cancelled` and `rejected` are the results that answer it in the client's place. `tool_call_id`: the call that a
    permission is asked for.
    """

    session_id: str
    cancelled: Mapping[str, Any]
    rejected: Mapping[str, Any]
    tool_call_id: str | None = None


class OpenRequests:
    """All of one connection."""

    __slots__ = ("_answered", "_open")

    def __init__(self) -> None:
        self._open: dict[RequestId, Open] = {}
        self._answered: set[RequestId] = set()

    def forwarded(self, request_id: RequestId, request: Open) -> None:
        """The request went to the client."""
        self._open[request_id] = request

    def swallows(self, request_id: RequestId) -> bool:
        """Whether an answer of the client comes too late, since the agent was answered in its place.

        Should an agent use such an id again, the first answer counts as the late one: a stale click must not allow
        something new.
        """
        if request_id in self._answered:
            self._answered.discard(request_id)
            return True
        self._open.pop(request_id, None)
        return False

    def is_answered(self, request_id: RequestId) -> bool:
        """Whether turnguard answered this request and the client has not: it was told already that it need not."""
        return request_id in self._answered

    def of(self, session_id: str, tool_call_id: str | None = None) -> list[tuple[RequestId, Open]]:
        """The open requests of a session, or its open permission requests for one call."""
        return [
            (request_id, request)
            for request_id, request in self._open.items()
            if request.session_id == session_id and tool_call_id in (None, request.tool_call_id)
        ]

    def take_over(self, request_id: RequestId) -> None:
        """The agent is answered by turnguard; the client's answer will be a late one."""
        self._open.pop(request_id, None)
        self._answered.add(request_id)

    def forget(self, session_id: str) -> None:
        """The session is gone."""
        for request_id, _ in self.of(session_id):
            del self._open[request_id]
