"""A small blocking client of the service: for the demo, the tests and the benchmarks, and to show how little it takes.

    with Client.spawn() as client:
        client.open_session(session_id="s")
        verdict = client.record("s", [ToolCalls([Call("read_file", args=Raw(b'{"path": "a"}'))])])

One thread, no asyncio: whatever waits, waits with a deadline. On Windows pipes cannot be waited for; there a deadline
holds only until the daemon falls silent.
"""

import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.framing import FrameReader, frame
from turnguard_protocol.events import Event
from turnguard_protocol.methods import (
    CloseSession,
    GetStatus,
    InitializationOptions,
    OpenSession,
    Override,
    PrepareStep,
)
from turnguard_protocol.settings import Settings
from turnguard_protocol.verdicts import NextStep, OverrideAction, SessionStatus, TurnSummary, Verdict

TIMEOUT_SECONDS = 30.0
"""How long an answer may take."""

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 64 * 1024


class ClientError(Exception):
    """The daemon answered a request with an error: JSON-RPC's code, message and data (None when there is none)."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class _ErrorObject(Struct):
    code: int
    message: str
    data: Any = None


class _Incoming(Struct):
    """Any message of the daemon: an answer has an `id`, a notification a `method`."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"null")
    result: Raw | UnsetType = UNSET
    error: _ErrorObject | None = None


_decode_incoming = msgspec.json.Decoder(_Incoming).decode


class Notification(Struct):
    """What the daemon told unasked."""

    method: str
    params: Any


class Connection:
    """A child process that speaks frames on its stdin and stdout."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, stderr: int | IO[Any] | None = None
    ) -> None:
        pipe = subprocess.PIPE
        # The caller says what to run; there is no shell.
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=stderr, env=env, bufsize=0)  # noqa: S603
        self._stdin = cast("IO[bytes]", self.process.stdin)
        self._stdout = cast("IO[bytes]", self.process.stdout)
        self._reader = FrameReader()
        self._bodies: deque[bytes] = deque()
        self._can_wait = os.name == "posix"
        if self._can_wait:
            os.set_blocking(self._stdin.fileno(), False)

    def send(self, data: bytes, timeout: float = TIMEOUT_SECONDS) -> None:
        """Writes bytes, and reads what comes meanwhile, so that a daemon that waits for us to read goes on.

        Raises TimeoutError, and BrokenPipeError when the process has ended.
        """
        deadline = time.monotonic() + timeout
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._stdin.fileno(), rest[:_WRITE_BYTES]) :]
            except BlockingIOError:
                if self._wait(deadline, for_writing=True):
                    self._read()

    def receive(self, timeout: float = TIMEOUT_SECONDS) -> bytes:
        """The next body. Raises TimeoutError, and EOFError when the process has closed its stdout."""
        deadline = time.monotonic() + timeout
        while not self._bodies:
            self._wait(deadline)
            if not self._read():
                raise EOFError("the daemon has closed its stdout")
        return self._bodies.popleft()

    def close_stdin(self) -> None:
        """Lets the process see the end of its input."""
        self._stdin.close()

    def close(self) -> None:
        """Ends the process if it has not ended by itself."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._stdin.close()
        self._stdout.close()

    def _wait(self, deadline: float, *, for_writing: bool = False) -> bool:
        """Waits until the process has written, or takes more; whether it has written. Raises TimeoutError."""
        if not self._can_wait:
            return not for_writing
        poll = select.poll()  # takes a file descriptor of any number, as select.select does not
        poll.register(self._stdout, select.POLLIN)
        if for_writing:
            poll.register(self._stdin, select.POLLOUT)
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1_000)
        if not ready:
            raise TimeoutError("the daemon did not answer in time")
        return any(fd == self._stdout.fileno() for fd, _ in ready)

    def _read(self) -> bool:
        """Takes what the process has written; False at the end."""
        data = os.read(self._stdout.fileno(), _READ_BYTES)
        self._reader.receive(data)
        while (body := self._reader.next_body()) is not None:
            self._bodies.append(body)
        return bool(data)


class Client:
    """A session of the protocol with one daemon. `notifications` are those received so far, oldest first."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.notifications: list[Notification] = []
        self._answers: dict[int | str, _Incoming] = {}
        self._last_id = 0

    @classmethod
    def spawn(
        cls,
        settings: Settings | Mapping[str, Any] | None = None,
        argv: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> Self:
        """Starts a daemon and initializes it. `settings` are the user's; `argv` starts another than our own."""
        client = cls(Connection(argv or (sys.executable, "-m", "turnguard", "serve"), env, stderr))
        try:
            client.initialize(settings)
        except BaseException:
            client.connection.close()
            raise
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def initialize(self, settings: Settings | Mapping[str, Any] | None = None) -> Any:
        """Introduces this process as the client; the daemon's answer."""
        options = {"settings": settings} if isinstance(settings, Mapping) else InitializationOptions(settings)
        params = {"processId": os.getpid(), "rootUri": None, "capabilities": {}, "initializationOptions": options}
        result = self.request("initialize", params)
        self.notify("initialized", {})
        return result

    def request(self, method: str, params: Any = UNSET, timeout: float = TIMEOUT_SECONDS) -> Any:
        """Sends a request and waits for its answer, decoded as plain JSON values. Raises ClientError."""
        return self._request(method, params, Any, timeout)

    def notify(self, method: str, params: Any = UNSET) -> None:
        """Sends a notification."""
        self.connection.send(frame(_encode(method, params)))

    def pipeline(self, method: str, all_params: Sequence[Any], timeout: float = TIMEOUT_SECONDS) -> list[Any]:
        """Sends a request for each of the params before it waits for the first answer; the answers in that order."""
        ids = range(self._last_id + 1, self._last_id + 1 + len(all_params))
        self._last_id += len(all_params)
        frames = [frame(_encode(method, params, n)) for n, params in zip(ids, all_params, strict=True)]
        self.connection.send(b"".join(frames), timeout)
        return [self._answer(n, Any, timeout) for n in ids]

    def wait_notification(self, method: str, timeout: float = TIMEOUT_SECONDS) -> Any:
        """The params of the oldest notification of this method, which is taken out of `notifications`."""
        deadline = time.monotonic() + timeout
        while True:
            for index, notification in enumerate(self.notifications):
                if notification.method == method:
                    return self.notifications.pop(index).params
            self._take(max(0.0, deadline - time.monotonic()))

    def shutdown(self, timeout: float = TIMEOUT_SECONDS) -> int:
        """Ends the daemon as LSP has it; its exit code."""
        self.request("shutdown", timeout=timeout)
        self.notify("exit")
        self.connection.close_stdin()
        return self.connection.process.wait(timeout)

    def open_session(
        self,
        session_id: str | None = None,
        *,
        agent_id: str | None = None,
        cwd: str | None = None,
        settings: Settings | None = None,
        workspace_settings: Settings | None = None,
    ) -> SessionStatus:
        """`turnguard/openSession`."""
        params = OpenSession(session_id, agent_id, cwd, settings, workspace_settings)
        return self._request("turnguard/openSession", params, SessionStatus)

    def record(self, session_id: str, events: Sequence[Event | Mapping[str, Any]]) -> Verdict:
        """`turnguard/record`; events as Structs or as JSON objects."""
        return self._request("turnguard/record", {"sessionId": session_id, "events": events}, Verdict)

    def prepare_step(self, session_id: str) -> NextStep:
        """`turnguard/prepareStep`."""
        return self._request("turnguard/prepareStep", PrepareStep(session_id), NextStep)

    def override(
        self, session_id: str, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None
    ) -> SessionStatus:
        """`turnguard/override`."""
        return self._request("turnguard/override", Override(session_id, action, turn_id, calls), SessionStatus)

    def status(self, session_id: str) -> SessionStatus:
        """`turnguard/status`."""
        return self._request("turnguard/status", GetStatus(session_id), SessionStatus)

    def close_session(self, session_id: str) -> TurnSummary | None:
        """`turnguard/closeSession`."""
        return self._request("turnguard/closeSession", CloseSession(session_id), TurnSummary | None)

    def _request(self, method: str, params: Any, kind: Any, timeout: float = TIMEOUT_SECONDS) -> Any:
        self._last_id += 1
        self.connection.send(frame(_encode(method, params, self._last_id)), timeout)
        return self._answer(self._last_id, kind, timeout)

    def _answer(self, request_id: int | str, kind: Any, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        while (answer := self._answers.pop(request_id, None)) is None:
            self._take(max(0.0, deadline - time.monotonic()))
        if answer.error is not None:
            raise ClientError(answer.error.code, answer.error.message, answer.error.data)
        return msgspec.json.decode(b"null" if answer.result is UNSET else answer.result, type=kind)

    def _take(self, timeout: float) -> None:
        """Takes the next message of the daemon, answer or notification."""
        incoming = _decode_incoming(self.connection.receive(timeout))
        if incoming.method is not None:
            self.notifications.append(Notification(incoming.method, msgspec.json.decode(incoming.params)))
        elif incoming.id is not None:
            self._answers[incoming.id] = incoming
        elif incoming.error is not None:  # of something that we sent and that was not even a request
            raise ClientError(incoming.error.code, incoming.error.message, incoming.error.data)


def _encode(method: str, params: Any, request_id: int | None = None) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return msgspec.json.encode(
        {name: value for name, value in message.items() if value is not UNSET and value is not None}
    )
