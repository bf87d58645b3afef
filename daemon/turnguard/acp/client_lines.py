"""The client's lines: what it asks, what it answers, and what it takes back."""

from collections.abc import Mapping

from msgspec import UNSET, Raw

from turnguard.acp.ask import choice_of
from turnguard.acp.connection import Connection, Handler, id_of
from turnguard.acp.control import METHODS, ControlError, announces_notifications, answer
from turnguard.acp.messages import Message, RequestId
from turnguard.acp.outgoing import Out, failure, members_of, response, whole, with_id
from turnguard.acp.requests import KINDS, Asked
from turnguard.acp.session import Session

EVEN_UNGUARDED = METHODS | {"initialize"}
"""What is understood of a client in any case; its next handshake may come to another version."""


class ClientLines:
    """Takes them, one by one."""

    __slots__ = ("_connection", "_handlers")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._handlers: Mapping[str | None, Handler] = {
            None: self._answers,
            "initialize": self._initialize,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/close": self._cancel,
            "session/load": self._replay,
            "session/resume": self._replay,
            "$/cancel_request": self._cancel_request,
            **dict.fromkeys(METHODS, self._control),
        }

    def take(self, message: Message, line: bytes, now: float) -> Out | None:
        """What becomes of a line; None: forward it unchanged."""
        if self._connection.is_unguarded and message.method not in EVEN_UNGUARDED:
            return None
        return self._handlers.get(message.method, self._other)(message, line, now)

    def _note(self, message: Message) -> RequestId | None:
        """Remembers a request. Returns its id; None when it can get no answer, as a notification or under `null`."""
        request_id = id_of(message)
        if request_id is not None:
            kind = KINDS.get(message.method or "", "other")
            self._connection.asked.sent(request_id, Asked(kind, message.params.session_id, message.params.cwd))
        return request_id

    def _other(self, message: Message, line: bytes, now: float) -> Out | None:
        """Anything of which only the answer may tell something."""
        self._note(message)
        return None

    def _initialize(self, message: Message, line: bytes, now: float) -> Out | None:
        self._note(message)
        self._connection.handshake(wants_notifications=announces_notifications(line))
        return None

    def _replay(self, message: Message, line: bytes, now: float) -> Out | None:
        request_id, session_id = self._note(message), message.params.session_id
        if request_id is not None and session_id is not None:
            self._connection.session(session_id, message.params.cwd).turns.replay_began(request_id)
        return None

    def _prompt(self, message: Message, line: bytes, now: float) -> Out | None:
        request_id, session_id = self._note(message), message.params.session_id
        if request_id is None or session_id is None:
            return None
        session = self._connection.session(session_id)
        return self._connection.settled(session, session.prompt(request_id, line, now))

    def _cancel(self, message: Message, line: bytes, now: float) -> Out | None:
        """The user ends what a session does; agents take the end of a session for it, too."""
        self._note(message)
        session = self._connection.known(message.params.session_id)
        return None if session is None else self._with_line(session, session.user_cancels(), line)

    def _cancel_request(self, message: Message, line: bytes, now: float) -> Out | None:
        request_id = message.params.request_id
        asked = None if request_id is None else self._connection.asked.pending(request_id)
        session = None if asked is None else self._connection.known(asked.session_id)
        if request_id is None or session is None:
            return None
        session.turns.replays.taken_back(request_id)
        if session.is_holding(request_id):
            return self._connection.settled(session, session.user_cancels(request_id))
        return self._with_line(session, session.user_cancels(request_id), line)

    def _with_line(self, session: Session, out: Out, line: bytes) -> Out | None:
        """What goes out besides a line that is forwarded."""
        self._connection.settle(session, out)
        if out.is_empty:
            return None
        out.to_agent.insert(0, whole(line))
        return out

    def _answers(self, message: Message, line: bytes, now: float) -> Out | None:
        request_id, connection = id_of(message), self._connection
        if request_id is None:
            return None
        if isinstance(request_id, str) and request_id in connection.questions:
            session = connection.known(connection.questions[request_id])
            if session is None or session.question_id != request_id:
                return Out()
            return connection.settled(session, session.choose(choice_of(line), now))
        terminal = connection.terminal_outputs.pop(request_id, None)
        if terminal is not None and isinstance(message.result, Raw):
            session, terminal_id = terminal
            session.turns.calls.terminal(terminal_id, message.result)
        renamed = connection.open_requests.taken_back(request_id)
        if renamed is not None:
            out = Out()
            out.to_agent.append(with_id(line, renamed))
            return out
        return Out() if connection.open_requests.swallows(request_id) else None

    def _control(self, message: Message, line: bytes, now: float) -> Out | None:
        """Requests to turnguard itself, from the client's side only; they are not forwarded."""
        out = Out()
        if message.id is UNSET:
            return out
        try:
            params = bytes(members_of(line).get("params", Raw(b"")))
            result = answer(message.method or "", params, self._connection)
        except ControlError as error:
            out.to_client.append(failure(message.id, error.code, error.message, error.data))
        else:
            out.to_client.append(response(message.id, result))
        self._connection.look_again(out, now)
        return out
