"""The service over stdio: bytes in from the client, bytes out to it, and when to stop.

The main thread reads, answers and writes. Three others mostly sleep: one tells of changed sessions a few times a
second, one ends the daemon when the client's process ends, one writes while the client does not read (see `Output`).
"""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

from turnguard.framing import FrameReader, FramingError
from turnguard.service import background, client_process
from turnguard.service.dispatch import Dispatcher
from turnguard.service.errors import RequestError
from turnguard.service.output import Output
from turnguard.service.ready import is_hung_up, wait_readable
from turnguard.service.sessions import Sessions
from turnguard.service.stderr import StderrHandler, say
from turnguard.settings.sources import Sources

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
"""At the most so much is read at once."""

PORTION_BYTES = 64 * 1024
PORTION_SECONDS = 0.1
"""Once there are so many bytes of answers, or so much time went by, they are written before the next message is begun.

So output that waits is longer than its limit by a portion and an answer at the most.
"""

CHANGE_SECONDS = 0.2
"""A session's `turnguard/didChangeSession` comes no faster."""

FLUSH_SECONDS = 2.0
"""So long the daemon waits at its end for the client to take what was written."""

STOP_CHECK_SECONDS = 0.5
"""While the client does not read, the daemon looks so often whether it has to stop."""

LEFT_SECONDS = 1.5
"""Once the client has closed stdin, what it had sent is answered for so long, unless it was read already."""

_MISUSE = 2


class Stop(BaseException):
    """A signal asks the daemon to end; raised only while it waits for input, so nothing is cut in the middle."""


def serve(sources: Sources | None = None) -> int:
    """Serves one client on stdin and stdout until it leaves. Returns the exit code: 0 after `shutdown` and `exit`.

    `sources`: of settings; what is wrong in them is said, and the rest holds.
    """
    logging.raiseExceptions = False  # it would tell of failures to log on stderr, and wait for it
    logging.basicConfig(
        handlers=[StderrHandler()], level=logging.WARNING, format="turnguard: %(levelname)s: %(message)s"
    )
    for fd, name in ((0, "stdin"), (1, "stdout")):
        if not _is_usable(fd):
            say(f"turnguard: expected {name} to be open for {'reading' if fd == 0 else 'writing'}")
            return _MISUSE
    if os.isatty(0):
        say("turnguard: waiting for an editor to speak JSON-RPC (LSP frames) on stdin; Ctrl-C ends it.")
    fd_in, fd_out = _take_stdio()
    sessions = Sessions(sources=sources)
    for complaint in sessions.complaints():
        log.error("%s", complaint.removeprefix("turnguard: "))
    loop = Loop(fd_in, Output(fd_out), Dispatcher(sessions))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, loop.stop)
    _settle_memory()
    return loop.run()


def _is_usable(fd: int) -> bool:
    """Whether stdin can be read, or stdout written. A directory as stdin is refused by Python itself."""
    try:
        os.fstat(fd)
        if sys.platform == "win32":
            return True
        wrong = os.O_WRONLY if fd == 0 else os.O_RDONLY
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != wrong
    except OSError:
        return False


def _take_stdio() -> tuple[int, int]:
    """Private copies of stdin and stdout; what prints or starts a child from now on cannot touch the stream."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing == 2:  # started without a stderr
        nothing = os.dup(nothing)
    fd_in, fd_out = os.dup(0), os.dup(1)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return fd_in, fd_out


def _settle_memory() -> None:
    """Keeps the collector away from what lives forever; sessions hold next to nothing that it has to look at."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class Loop:
    """Reads from a file descriptor and answers to an output until the client leaves or a signal comes."""

    def __init__(self, fd_in: int, output: Output, dispatcher: Dispatcher) -> None:
        self._fd_in = fd_in
        self._output = output
        self._dispatcher = dispatcher
        self._turn = threading.Lock()  # held by whoever answers or tells, until the frames are with the output
        self._has_changes = threading.Event()
        self._is_waiting = False
        self._has_to_stop = False
        self._exit_code: int | None = None
        self._closed_at: float | None = None
        self._watched: int | None = None

    def run(self) -> int:
        """Serves until the end; the exit code."""
        background.start("changes", self._tell_changes)
        with contextlib.suppress(Stop):
            self._answer_all()
        with self._turn:
            self._dispatcher.tell_changes()
            self._output.write(self._dispatcher.take_frames())
        self._output.flush(FLUSH_SECONDS)
        return 1 if self._exit_code is None else self._exit_code

    def stop(self, signal_number: int, frame: FrameType | None) -> None:
        """Handles a signal: ends the daemon where it waits, or once it has answered what it is at."""
        self._has_to_stop = True
        if self._is_waiting:
            self._is_waiting = False
            raise Stop

    def _answer_all(self) -> None:
        reader = FrameReader()
        has_more = False
        while self._exit_code is None and not self._has_to_stop and not self._output.is_broken:
            has_room = self._output.wait_for_room(STOP_CHECK_SECONDS)
            if (has_more or not has_room) and self._is_left():
                log.warning("stdin ended before everything was answered")
                break
            if not has_room:
                continue
            if not has_more:
                data = self._read()
                if not data:
                    if reader.is_inside_frame:
                        log.warning("stdin ended inside a message")
                    break
                reader.receive(data)
            has_more = self._answer(reader)

    def _is_left(self) -> bool:
        """Whether the client has closed stdin, and that a while ago."""
        now = time.monotonic()
        if self._closed_at is None and is_hung_up(self._fd_in):
            self._closed_at = now
        return self._closed_at is not None and now - self._closed_at > LEFT_SECONDS

    def _read(self) -> bytes:
        self._is_waiting = True
        try:
            return os.read(self._fd_in, READ_BYTES)
        except BlockingIOError:  # stdin and stdout are one socket, which Output made non-blocking
            wait_readable(self._fd_in)
            return os.read(self._fd_in, READ_BYTES)
        except OSError:
            return b""
        finally:
            self._is_waiting = False

    def _answer(self, reader: FrameReader) -> bool:
        """Answers the messages received, or a portion of them; whether there may be more."""
        dispatcher, until = self._dispatcher, time.monotonic() + PORTION_SECONDS
        has_more = False
        with self._turn:
            try:
                while not has_more and dispatcher.exit_code is None and (body := reader.next_body()) is not None:
                    dispatcher.handle(body)
                    has_more = self._has_to_stop or dispatcher.waiting_bytes > PORTION_BYTES or time.monotonic() > until
                self._exit_code = dispatcher.exit_code
            except FramingError as error:
                log.warning("closing the stream: %s", error.message)
                dispatcher.fail(None, RequestError(error.code, error.message))
                self._exit_code = 1
            self._output.write(dispatcher.take_frames())
        if dispatcher.has_changes and not self._has_changes.is_set():
            self._has_changes.set()
        if self._watched is None and dispatcher.client_process is not None:
            self._watched = dispatcher.client_process
            client_process.watch(self._watched, self._end_with_client)
        return has_more

    def _tell_changes(self) -> None:
        """What changes while this sleeps is told once, in its last state."""
        while True:
            self._has_changes.wait()
            time.sleep(CHANGE_SECONDS)
            self._output.wait_for_room(None)
            with self._turn:
                self._has_changes.clear()
                self._dispatcher.tell_changes()
                self._output.write(self._dispatcher.take_frames())

    def _end_with_client(self) -> NoReturn:
        log.warning("the client's process has ended")
        self._output.flush(FLUSH_SECONDS)
        os._exit(1)
