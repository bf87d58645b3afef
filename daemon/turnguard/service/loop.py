"""The service over stdio: bytes in from the client, bytes out to it, and when to stop.

The main thread reads, answers and writes. Three others mostly sleep: one tells of changed sessions a few times a
second, one ends the daemon when the client's process ends, one writes while the client does not read (see `Output`).
"""

import gc
import logging
import os
import select
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

from turnguard.framing import FrameReader, FramingError
from turnguard.service import client_process
from turnguard.service.dispatch import Dispatcher
from turnguard.service.errors import RequestError
from turnguard.service.output import Output
from turnguard.service.sessions import Sessions

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
"""At the most so much is read, answered, and its answers written, at once."""

CHANGE_SECONDS = 0.2
"""A session's `turnguard/didChangeSession` comes no faster."""

FLUSH_SECONDS = 2.0
"""So long the daemon waits at its end for the client to take what was written."""

STOP_CHECK_SECONDS = 0.5
"""While the client does not read, the daemon looks so often whether it has to stop."""


class Stop(BaseException):
    """A signal asks the daemon to end; raised only while it waits for input, so nothing is cut in the middle."""


def serve() -> int:
    """Serves one client on stdin and stdout until it leaves. Returns the exit code: 0 after `shutdown` and `exit`."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="turnguard: %(levelname)s: %(message)s")
    if os.isatty(0):
        sys.stderr.write("turnguard: waiting for an editor to speak JSON-RPC (LSP frames) on stdin; Ctrl-C ends it.\n")
    try:
        fd_in, fd_out = _take_stdio()
    except OSError:
        sys.stderr.write("turnguard: expected stdin and stdout to be open\n")
        return 2
    loop = Loop(fd_in, Output(fd_out), Dispatcher(Sessions()))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, loop.stop)
    _settle_memory()
    return loop.run()


def _take_stdio() -> tuple[int, int]:
    """Private copies of stdin and stdout; what prints or starts a child from now on cannot touch the stream."""
    fd_in, fd_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nothing, 1)
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
        self._watched: int | None = None

    def run(self) -> int:
        """Serves until the end; the exit code."""
        threading.Thread(target=self._tell_changes, name="changes", daemon=True).start()
        try:
            code = self._read_all()
        except Stop:
            code = 1
        with self._turn:
            self._dispatcher.tell_changes()
            self._output.write(self._dispatcher.take_frames())
        self._output.flush(FLUSH_SECONDS)
        return code

    def stop(self, signal_number: int, frame: FrameType | None) -> None:
        """Handles a signal: ends the daemon where it waits, or once it has answered what it is at."""
        self._has_to_stop = True
        if self._is_waiting:
            self._is_waiting = False
            raise Stop

    def _read_all(self) -> int:
        reader = FrameReader()
        while not self._has_to_stop and not self._output.is_broken:
            if not self._output.wait_for_room(STOP_CHECK_SECONDS):
                continue
            data = self._read()
            if not data:
                if reader.is_inside_frame:
                    log.warning("stdin ended inside a message")
                break
            reader.receive(data)
            code = self._answer(reader)
            if code is not None:
                return code
        return 1

    def _read(self) -> bytes:
        self._is_waiting = True
        try:
            return os.read(self._fd_in, READ_BYTES)
        except BlockingIOError:  # stdin and stdout are one socket, which Output made non-blocking
            select.select((self._fd_in,), (), ())
            return os.read(self._fd_in, READ_BYTES)
        except OSError:
            return b""
        finally:
            self._is_waiting = False

    def _answer(self, reader: FrameReader) -> int | None:
        """Answers every whole message received; the exit code if that was the last of them."""
        dispatcher = self._dispatcher
        with self._turn:
            code = None
            try:
                while dispatcher.exit_code is None and (body := reader.next_body()) is not None:
                    dispatcher.handle(body)
                code = dispatcher.exit_code
            except FramingError as error:
                log.warning("closing the stream: %s", error.message)
                dispatcher.fail(None, RequestError(error.code, error.message))
                code = 1
            self._output.write(dispatcher.take_frames())
        if dispatcher.has_changes and not self._has_changes.is_set():
            self._has_changes.set()
        if self._watched is None and dispatcher.client_process is not None:
            self._watched = dispatcher.client_process
            client_process.watch(self._watched, self._end_with_client)
        return code

    def _tell_changes(self) -> None:
        """What changes while this sleeps is told once, in its last state."""
        while True:
            self._has_changes.wait()
            time.sleep(CHANGE_SECONDS)
            with self._turn:
                self._has_changes.clear()
                self._dispatcher.tell_changes()
                self._output.write(self._dispatcher.take_frames())

    def _end_with_client(self) -> NoReturn:
        log.warning("the client's process has ended")
        self._output.flush(FLUSH_SECONDS)
        os._exit(1)
