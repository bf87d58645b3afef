"""Who answers a message: the sessions a turnguard request, pygls everything that is LSP, and this file the rest.

Bodies go in, frames come out, in order: the answer of a request, then what it caused to be told, then the next.
"""

import logging
import secrets
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from msgspec import Struct

from turnguard.framing import frame
from turnguard.service.envelope import (
    NOT_A_REQUEST,
    REQUEST_TYPES,
    ErrorObject,
    Failure,
    Message,
    Notification,
    Reply,
    decode_request,
    encode,
    is_utf8,
    params_of,
    parse_message,
)
from turnguard.service.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    MessageId,
    RequestError,
    describe_fault,
)
from turnguard.service.lsp import LanguageServerSide
from turnguard.service.sessions import Notice, Sessions

log = logging.getLogger(__name__)

Handler = Callable[[Any], Any]
"""Takes the params of a request and gives its result. Raises RequestError; anything else is the daemon's own fault."""

_LOG_ERROR = 1  # MessageType.Error of LSP


class Phase(Enum):
    """Where in its life the connection is."""

    NEW = "new"
    RUNNING = "running"
    SHUT_DOWN = "shut down"


class Dispatcher:
    """Answers the messages of one client.

    `exit_code` is None until the client said `exit`. `client_process` is the process whose end ends the daemon.
    `waiting_bytes`: how long what waits in `take_frames` is.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.exit_code: int | None = None
        self.waiting_bytes = 0
        self.handlers: dict[str, Handler] = {
            "turnguard/openSession": sessions.open,
            "turnguard/record": sessions.record,
            "turnguard/prepareStep": sessions.prepare_step,
            "turnguard/override": sessions.override,
            "turnguard/status": sessions.status,
            "turnguard/listSessions": sessions.list_all,
            "turnguard/settings": sessions.settings,
            "turnguard/closeSession": sessions.close,
        }
        self._method_of: dict[type[Struct], str] = {kind: method for method, kind in REQUEST_TYPES.items()}
        self._sessions = sessions
        self._phase = Phase.NEW
        self._frames: list[bytes] = []
        self._lsp = LanguageServerSide(self._send_body, sessions.configure, sessions.complaints())

    @property
    def client_process(self) -> int | None:
        """`processId` of `initialize`, once that was answered."""
        return self._lsp.client_process

    @property
    def has_changes(self) -> bool:
        """Whether `tell_changes` may have something to tell."""
        return bool(self._sessions.changed)

    def handle(self, body: bytes) -> None:
        """Takes one message; what it is answered waits in `take_frames`."""
        if self._phase is Phase.RUNNING and (body.isascii() or is_utf8(body)):
            try:
                request = decode_request(body)
            except NOT_A_REQUEST:
                pass
            else:
                self._answer(request.id, self._method_of[type(request)], request.params)
                return
        try:
            message = parse_message(body)
            if message is not None:
                self._route(message)
        except RequestError as error:
            self.fail(error.request_id, error)
        except Exception as fault:
            self._fail_by_fault(None, fault)

    def take_frames(self) -> bytes:
        """What is to be sent to the client now."""
        data = b"".join(self._frames)
        self._frames.clear()
        self.waiting_bytes = 0
        return data

    def tell_changes(self) -> None:
        """Tells the client of the sessions that have changed since the last time."""
        try:
            self._tell(self._sessions.take_changes())
        except Exception as fault:
            self._log_fault(fault)

    def fail(self, request_id: MessageId | None, error: RequestError) -> None:
        """Answers a request with an error; `request_id` None when it is not known which."""
        self._send(Failure(request_id, ErrorObject(error.code, error.message, error.data)))

    def _route(self, message: Message) -> None:
        if message.id is None:
            try:
                self._take_notification(message)
            except Exception as fault:
                self._log_fault(fault)
            return
        try:
            self._check_phase(message.method)
            if message.method in self.handlers:
                self._answer(message.id, message.method, params_of(message))
            elif self._lsp.answers(message.method):
                self._lsp.request(message)
                self._phase = Phase.SHUT_DOWN if message.method == "shutdown" else Phase.RUNNING
            else:
                data = {"method": message.method}
                raise RequestError(METHOD_NOT_FOUND, "Unknown method: expected one that `initialize` announced", data)
        except RequestError as error:
            self.fail(message.id, error)
        except Exception as fault:
            self._fail_by_fault(message.id, fault)

    def _take_notification(self, message: Message) -> None:
        if message.method == "exit":
            self.exit_code = 0 if self._phase is Phase.SHUT_DOWN else 1
        elif message.method in self.handlers:
            log.info("ignored %s: it came as a notification and is a request", message.method)
        elif self._phase is Phase.RUNNING:
            self._lsp.notification(message)

    def _check_phase(self, method: str) -> None:
        if self._phase is Phase.SHUT_DOWN:
            raise RequestError(INVALID_REQUEST, "Expected `exit` and nothing else after `shutdown`")
        if self._phase is Phase.NEW and method != "initialize":
            raise RequestError(NOT_INITIALIZED, "Expected `initialize` before any other request")
        if self._phase is Phase.RUNNING and method == "initialize":
            raise RequestError(INVALID_REQUEST, "Expected `initialize` only once")

    def _answer(self, request_id: MessageId, method: str, params: Any) -> None:
        try:
            self._send(Reply(request_id, self.handlers[method](params)))
        except RequestError as error:
            self.fail(request_id, error)
        except Exception as fault:
            self._fail_by_fault(request_id, fault)
        if self._sessions.notices:
            notices, self._sessions.notices = self._sessions.notices, []
            self._tell(notices)

    def _tell(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            try:
                self._notify(notice.method, notice.params)
            except Exception as fault:
                self._log_fault(fault)

    def _fail_by_fault(self, request_id: MessageId | None, fault: Exception) -> None:
        """Answers for a fault of our own; the client gets a number under which the log tells where it was."""
        error_id = self._log_fault(fault)
        message = f"turnguard had an internal error; its log on stderr has it as {error_id}"
        self.fail(request_id, RequestError(INTERNAL_ERROR, message, {"errorId": error_id}))
        self._notify("window/logMessage", {"type": _LOG_ERROR, "message": message})

    def _log_fault(self, fault: Exception) -> str:
        error_id = secrets.token_hex(4)
        log.error("internal error %s\n%s", error_id, describe_fault(fault))
        return error_id

    def _notify(self, method: str, params: Any) -> None:
        self._send(Notification(method, params))

    def _send(self, message: Reply | Failure | Notification) -> None:
        self._send_body(encode(message))

    def _send_body(self, body: bytes) -> None:
        self._frames.append(frame(body))
        self.waiting_bytes += len(body)
