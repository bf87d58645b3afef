"""A program's stdout on its way to turnguard's: byte for byte, as it comes, waiting for whoever reads.

A thread of its own reads and writes, so that a reader who does not read holds up nothing else. When the reader is gone
the program's pipe is closed: its next write fails, as it would without turnguard. When the program has ended, all that
it wrote is delivered; what it left running is heard until it is silent.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from turnguard.headless.watching import Watching
from turnguard.process import PIPE_BYTES, Waker

SILENT_SECONDS: Final = 1.0
"""After its end: how long what a program left running is waited for when it says nothing."""

LEFT_SECONDS: Final = 10.0
"""After its end: how long it is heard at most."""

GONE: Final = select.POLLERR | select.POLLHUP
"""What says of a descriptor that nobody reads it any more."""


class Passing(threading.Thread):
    """Passes what comes from `source`, which it closes, to `sink`. Each block is looked at after it has passed.

    `is_over`: nothing passes any more. `failure`: why the sink could not be written, unless its reader is gone.
    """

    def __init__(self, source: int, sink: int, watching: Watching, wake: Callable[[], None]) -> None:
        """`wake` is called, from the thread, at the end and when the watching has something to say."""
        super().__init__(name="passing", daemon=True)
        self.is_over = False
        self.failure: OSError | None = None
        self._source = source
        self._sink = sink
        self._watching = watching
        self._wake = wake
        self._waker = Waker()
        self._program_ended_at: float | None = None
        self._owed: int | None = None
        self._is_cut = False

    def program_ended(self) -> None:
        """The program has ended; what it left running may hold its stdout for ever."""
        if self._program_ended_at is None:
            self._program_ended_at = monotonic()
            self._waker.wake()

    def cut(self) -> None:
        """Nothing more is to pass than what is being written."""
        self._is_cut = True
        self._waker.wake()

    def run(self) -> None:
        """Passes everything."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._waker.fd, select.POLLIN)
        with suppress(OSError):
            poll.register(self._sink, 0)
        try:
            while self._may_read(poll):
                block = os.read(self._source, PIPE_BYTES)
                if not block or not self._write(block):
                    break
                if self._owed is not None:
                    self._owed -= len(block)
                self._look(block)
        finally:
            os.close(self._source)
            self._watching.end()
            self.is_over = True
            self._wake()

    def _look(self, block: bytes) -> None:
        if not self._watching.is_over:
            self._watching.see(block)
            if self._watching.is_over or self._watching.seen:
                self._wake()

    def _may_read(self, poll: select.poll) -> bool:
        """Waits for something to read. False: there is nothing more to do here."""
        while not self._is_cut:
            ready = dict(poll.poll(self._patience()))
            if ready.get(self._sink, 0) & GONE:
                return False
            if ready.get(self._sink, 0) & select.POLLNVAL:  # this system cannot tell of what it is
                poll.unregister(self._sink)
            if self._waker.fd in ready:
                self._waker.take()
                self._owed = self._owed if self._program_ended_at is None else self._in_pipe()
            if self._source in ready:
                return not self._is_heard_out()
            if not ready:
                return False
        return False

    def _patience(self) -> float | None:
        return None if self._program_ended_at is None else SILENT_SECONDS * 1000

    def _is_heard_out(self) -> bool:
        """Whether all that the program wrote has passed, and what it left running has been heard long enough."""
        if self._program_ended_at is None or self._owed is None or self._owed > 0:
            return False
        return monotonic() - self._program_ended_at > LEFT_SECONDS

    def _in_pipe(self) -> int:
        """How many bytes wait to be read."""
        if sys.platform == "win32":
            return 0
        import fcntl
        import struct
        import termios

        return int(struct.unpack("i", fcntl.ioctl(self._source, termios.FIONREAD, b"\0\0\0\0"))[0])

    def _write(self, block: bytes) -> bool:
        """Writes all of it; False when it cannot be."""
        view = memoryview(block)
        while view:
            try:
                view = view[os.write(self._sink, view) :]
            except BlockingIOError:  # somebody who shares it made it so
                waiting = select.poll()
                waiting.register(self._sink, select.POLLOUT)
                waiting.poll()
            except BrokenPipeError:
                return False
            except OSError as error:
                self.failure = error
                return False
        return True
