"""A daemon to talk to in raw messages, and what to wait for."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from turnguard.client import Connection
from turnguard.framing import frame

SERVE = (sys.executable, "-m", "turnguard", "serve")
DEADLINE = 20.0
"""Seconds after which something will not happen any more, on a slow machine."""


def body(method: str, params: object = None, request_id: object = None) -> bytes:
    """The body of a request, or of a notification without an id."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps({name: value for name, value in message.items() if value is not None}).encode()


class Daemon(Connection):
    """The real process. Answers are looked for in order; notifications are kept aside in `told`."""

    def __init__(
        self,
        argv: Sequence[str] = SERVE,
        *,
        process_id: int | None = None,
        is_initialized: bool = True,
        stderr: int | IO[Any] | None = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(argv, stderr=stderr, env=env)
        self.told: list[Any] = []
        if is_initialized:
            assert "result" in self.ask("initialize", {"processId": process_id, "capabilities": {}}, "initialize")

    def hear(self) -> Any:
        """The next answer."""
        while True:
            message = json.loads(self.receive(DEADLINE))
            if "method" not in message:
                return message
            self.told.append(message)

    def say(self, message: bytes) -> Any:
        """The next answer after a body of ours."""
        self.send(frame(message))
        return self.hear()

    def ask(self, method: str, params: object = None, request_id: object = 1) -> Any:
        """The answer to a request."""
        answer = self.say(body(method, params, request_id))
        assert answer["id"] == request_id
        return answer

    def tell(self, method: str, params: object = None) -> None:
        """Sends a notification."""
        self.send(frame(body(method, params)))

    def record(self, session_id: str, *events: object, request_id: object = 1) -> Any:
        """The answer to a record."""
        return self.ask("turnguard/record", {"sessionId": session_id, "events": events}, request_id)

    def total(self, session_id: str) -> int:
        """How many calls a session has seen; that it has is the proof that it is there."""
        answer = self.ask("turnguard/status", {"sessionId": session_id})
        return int(answer["result"]["totals"]["toolCalls"])

    def is_silent(self) -> bool:
        """Whether nothing comes before the answer to a request made now."""
        return self.ask("turnguard/listSessions", None, "still there?")["id"] == "still there?"

    def raw(self, timeout: float = DEADLINE) -> bytes:
        """All bytes until the process closes its stdout."""
        assert self.process.stdout is not None
        pieces: list[bytes] = []
        deadline = time.monotonic() + timeout
        while True:
            ready, _, _ = select.select((self.process.stdout,), (), (), max(0.0, deadline - time.monotonic()))
            assert ready, "the process has not closed its stdout in time"
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)

    def exit_code(self, timeout: float = DEADLINE) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(timeout)


def fails(answer: Any, code: int) -> Any:
    """The `data` of an answer that is an error of this code."""
    assert "result" not in answer
    assert answer["error"]["code"] == code
    return answer["error"].get("data")


def wait_until(condition: Callable[[], bool], timeout: float = DEADLINE) -> None:
    """Looks again and again until something holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        select.select((), (), (), 0.01)


def call(name: str | None = "read_file", **args: object) -> dict[str, object]:
    """A call with arguments."""
    return {"name": name, "args": args}


def calls(*batch: object) -> dict[str, object]:
    """A batch."""
    return {"type": "toolCalls", "calls": batch}
