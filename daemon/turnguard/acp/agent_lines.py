"""The agent's lines: what it tells, what it asks, and what it answers."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Raw

from turnguard.acp.connection import Connection, Handler, id_of
from turnguard.acp.messages import (
    SESSION_UPDATE,
    Initialized,
    Message,
    RequestId,
    UndecodedUpdate,
    may_answer,
    member,
    read,
    text,
    unread_id,
)
from turnguard.acp.outgoing import Out, with_request_id
from turnguard.acp.requests import CANCELLED_ELICITATION, CANCELLED_PERMISSION, Asked
from turnguard.acp.session import Session
from turnguard.acp.turn import origin_of
from turnguard_protocol.events import TurnOutcome

UNGUARDED = (
    "turnguard: version {version} of the Agent Client Protocol was agreed on; it passes unguarded, since only version "
    "1 is understood."
)


ANSWERED_UNREAD = frozenset({"prompt", "replay"})
"""Kinds of requests of which it is enough to know that they were answered."""


class AgentLines:
    """Takes them, one by one. `say` is told what is to be said on stderr."""

    __slots__ = ("_connection", "_handlers", "_say")

    def __init__(self, connection: Connection, say: Callable[[str], None]) -> None:
        self._connection = connection
        self._say = say
        self._handlers: Mapping[str | None, Handler] = {
            None: self._answers,
            SESSION_UPDATE: self._update,
            "session/request_permission": self._permission,
            "elicitation/create": self._elicitation,
            "fs/write_text_file": self._acts,
            "terminal/create": self._acts,
            "terminal/output": self._terminal_output,
            "$/cancel_request": self._cancel_request,
            "_qwencode/start_turn": self._begins,
            "_qwencode/end_turn": self._ends,
        }

    def take(self, message: Message, line: bytes, now: float) -> Out | None:
        """What becomes of a line; None: forward it unchanged."""
        handler = self._handlers.get(message.method)
        return None if handler is None else handler(message, line, now)

    def passes(self, message: Message) -> bool:
        """Whether a message is forwarded as it is, whatever the guards say: an update of a turn that nobody stops."""
        session = self._connection.known(message.params.session_id)
        return message.method == SESSION_UPDATE and session is not None and session.passes_updates

    def take_unread(self, line: bytes, now: float, *, is_whole: bool = True) -> Out | None:
        """What becomes of a line that cannot be read; None: forward it unchanged. `is_whole` False: it is the start.

        It may be the answer to a prompt. One that was stopped must not be answered twice.
        """
        if not may_answer(line):
            return None
        request_id, asked = unread_id(line), self._connection.asked
        if request_id is None and not is_whole:
            request_id = self._connection.only_asked()
        pending = None if request_id is None else asked.pending(request_id)
        if request_id is None or not (asked.is_answered(request_id) or (pending and pending.kind in ANSWERED_UNREAD)):
            return None
        return self._answers(Message(id=request_id, result=Raw(b"{}")), line, now)

    # --- what it tells ------------------------------------------------------------------------------------------------

    def _update(self, message: Message, line: bytes, now: float) -> Out | None:
        params = message.params
        session_id, update = params.session_id, params.update
        if update is None:
            return None
        session = None if session_id is None else self._connection.sessions.get(session_id)
        if session is None:
            session = self._session_by_chance(session_id, is_undecoded=type(update) is UndecodedUpdate)
            if session is None:
                return None
        out = session.update(update, line, now)
        return None if out is None else self._connection.settled(session, out)

    def _session_by_chance(self, session_id: str | None, *, is_undecoded: bool) -> Session | None:
        """The session of an update that names none we know.

        It is one that is just being forked; or the line could not be read, and only one session is at work.
        """
        connection = self._connection
        if is_undecoded:
            live = [session for session in connection.sessions.values() if session.turns.is_live]
            return live[0] if len(live) == 1 else None
        return connection.session(session_id) if session_id is not None and connection.asked.forks else None

    def _begins(self, message: Message, line: bytes, now: float) -> Out | None:
        params = member(Raw(line), "params")
        session_id, turn_id = message.params.session_id, text(member(params, "turnId"))
        if session_id is None or turn_id is None:
            return None
        session, origin = self._connection.session(session_id), origin_of(text(member(params, "source")))
        return self._connection.settled(session, session.agent_begins(turn_id, origin, line, now))

    def _ends(self, message: Message, line: bytes, now: float) -> Out | None:
        session, turn_id = self._session_of(message), text(member(Raw(line), "params", "turnId"))
        if session is None or turn_id is None:
            return None
        return self._connection.settled(session, session.agent_ends(turn_id, line, now))

    def _cancel_request(self, message: Message, line: bytes, now: float) -> Out | None:
        """The client was told already when turnguard answered the agent in its place."""
        request_id, open_requests = message.params.request_id, self._connection.open_requests
        if request_id is None:
            return None
        told_as = open_requests.told_as(request_id)
        if told_as is not None:
            out = Out()
            out.to_client.append(with_request_id(line, told_as))
            return out
        return Out() if open_requests.is_answered(request_id) else None

    # --- what it asks -------------------------------------------------------------------------------------------------

    def _permission(self, message: Message, line: bytes, now: float) -> Out | None:
        session, request_id, asked = self._session_of(message), id_of(message), message.params.tool_call
        if session is None:
            return self._of_nobody(request_id, CANCELLED_PERMISSION, line)
        if request_id is None or asked is None:
            return None
        return self._connection.settled(session, session.permission(request_id, asked, line, now))

    def _elicitation(self, message: Message, line: bytes, now: float) -> Out | None:
        session, request_id = self._session_of(message), id_of(message)
        if session is None:
            return self._of_nobody(request_id, CANCELLED_ELICITATION, line)
        return None if request_id is None else session.asks_person(request_id, CANCELLED_ELICITATION, line)

    def _of_nobody(self, request_id: RequestId | None, cancelled: Mapping[str, Any], line: bytes) -> Out | None:
        """Something is asked for no session that we know: for the one that is at work, where there is only one."""
        session = self._connection.only_at_work()
        return None if session is None or request_id is None else session.asks_person(request_id, cancelled, line)

    def _acts(self, message: Message, line: bytes, now: float) -> Out | None:
        session, request_id = self._session_of(message), id_of(message)
        return None if session is None or request_id is None else session.acts(request_id)

    def _terminal_output(self, message: Message, line: bytes, now: float) -> Out | None:
        """What a command came to is, for some agents, only in the client's answer to this."""
        session, request_id, terminal_id = self._session_of(message), id_of(message), message.params.terminal_id
        if session is not None and request_id is not None and terminal_id is not None:
            self._connection.terminal_outputs[request_id] = (session, terminal_id)
        return None

    def _session_of(self, message: Message) -> Session | None:
        return self._connection.known(message.params.session_id)

    # --- what it answers ----------------------------------------------------------------------------------------------

    def _answers(self, message: Message, line: bytes, now: float) -> Out | None:
        request_id, connection = id_of(message), self._connection
        if request_id is None:
            return None
        session = connection.waiting(request_id)
        if connection.asked.is_answered(request_id):
            session = connection.known(connection.asked.session_of(request_id))
            if session is None:
                return Out()
        if session is not None:
            return connection.settled(session, session.answered_late(request_id, now))
        asked = connection.asked.take(request_id)
        if asked is None:
            return None
        if asked.kind == "prompt":
            return self._prompt_answered(request_id, asked, message, line, now)
        return self._learn(request_id, asked, message, line, now)

    def _prompt_answered(
        self, request_id: RequestId, asked: Asked, message: Message, line: bytes, now: float
    ) -> Out | None:
        session = self._connection.known(asked.session_id)
        if session is None:
            return None
        outcome: TurnOutcome = "completed"
        if message.result is UNSET:
            outcome = "failed"
        elif text(member(message.result, "stopReason")) == "cancelled":
            outcome = "cancelled"
        return self._connection.settled(session, session.answered(request_id, outcome, line, now))

    def _learn(self, request_id: RequestId, asked: Asked, message: Message, line: bytes, now: float) -> Out | None:
        """Takes from an answer what there is to know; it is forwarded as it is, and hardly ever anything with it."""
        connection = self._connection
        match asked.kind:
            case "initialize":
                if message.result is not UNSET:
                    version = connection.agree(read(message.result, Initialized))
                    if connection.is_unguarded:
                        self._say(UNGUARDED.format(version=version))
            case "new" | "fork":
                session_id = text(member(message.result, "sessionId"))
                if session_id is not None:
                    connection.session(session_id, asked.cwd)
            case "replay":
                session = connection.known(asked.session_id)
                if session is not None:
                    session.turns.replay_ended(request_id)
            case "close":
                session = connection.known(asked.session_id)
                if session is not None and message.error is UNSET:
                    out = connection.settled(session, session.closed(line, now))
                    connection.drop(asked.session_id)
                    return out
            case "prompt" | "other":
                pass
        return None
