"""One pipe's way out: what is to be written stands in one queue, in the order in which it was decided.

Bytes come from two sides. The pump that owns the pipe *forwards* what it read and writes it itself, waiting as long as
the reader makes it wait: that is the back-pressure. Everybody else *injects* whole lines and leaves the writing to a
thread of the outlet's own: who injects must go on reading, or an agent that does not read while it writes would block.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from turnguard.acp.pump import wait_for

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""What may wait for a reader that does not read; who adds more than that has to wait with it."""


class Outlet:
    """Writes to a file descriptor, which it owns. `name`: of its thread.

    `forward`, `inject` and `source_ended` belong under the lock that makes decisions; the others must not be called
    under it, since they wait.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._queue: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._put_bytes = 0
        self._gone_bytes = 0
        self._late: list[bytes] = []
        self._late_bytes = 0
        self._is_amid_line = False
        self._has_source = True
        self._bell: SimpleQueue[None] | None = None
        self._is_shut = False

    @property
    def is_shut(self) -> bool:
        """Whether nothing is written any more, since nobody reads there or since it was closed."""
        return self._is_shut

    @property
    def is_waiting(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._queue)

    @property
    def gone_bytes(self) -> int:
        """How much was taken out of the queue to be written."""
        return self._gone_bytes

    # --- decided ------------------------------------------------------------------------------------------------------

    def forward(self, block: bytes) -> None:
        """Adds bytes of the source. They need not end with a line; what is injected then waits until one ends."""
        self._put(block)
        self._is_amid_line = not block.endswith(b"\n")
        if self._late and not self._is_amid_line:
            self._inject_late()

    def inject(self, lines: Sequence[bytes]) -> None:
        """Adds whole lines, in order."""
        if self._is_amid_line:
            if self._has_source:
                self._wait_for_line(lines)
                return
            self._put(b"\n")
            self._is_amid_line = False
        for line in lines:
            self._put(line)

    def source_ended(self) -> None:
        """The source has no more to say; a line that it began is the end of its own."""
        self._has_source = False
        if self._late:
            self._inject_late()

    def _wait_for_line(self, lines: Sequence[bytes]) -> None:
        """Of a line that does not end, a reader gets nothing else; what would be too much to keep is lost."""
        for line in lines:
            if self._late_bytes + len(line) <= MAX_WAITING_BYTES:
                self._late.append(line)
                self._late_bytes += len(line)

    def _inject_late(self) -> None:
        late, self._late, self._late_bytes = self._late, [], 0
        self.inject(late)

    def _put(self, block: bytes) -> None:
        if not self._is_shut:
            self._queue.append(block)
            self._put_bytes += len(block)

    # --- written ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes all that waits, and returns when it was written, by whomever."""
        with self._writing:
            self._write_all()

    def leave(self) -> None:
        """Has written what was injected, without waiting; unless there is too much of it."""
        if not self._queue:
            return
        if self._put_bytes - self._gone_bytes > MAX_WAITING_BYTES:
            self.flush()
            return
        self.ring()

    def ring(self) -> None:
        """Has written what was injected, without waiting in any case."""
        if self._bell is None:
            self._bell = SimpleQueue()
            threading.Thread(target=self._write_injected, args=(self._bell,), name=self._name, daemon=True).start()
        self._bell.put(None)

    def close(self) -> None:
        """Writes all that waits, and closes."""
        with self._writing:
            self._write_all()
            self._shut()

    def close_now(self) -> bool:
        """Closes without waiting for anything, unless somebody is just writing; whether it is closed."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            self._shut()
        finally:
            self._writing.release()
        return True

    def _write_injected(self, bell: SimpleQueue[None]) -> None:
        while not self._is_shut:
            bell.get()
            self.flush()

    def _write_all(self) -> None:
        while self._queue:
            block = self._queue.popleft()
            self._gone_bytes += len(block)
            if self._is_shut:
                continue
            try:
                written = self._write(block)
                while written < len(block):
                    written += self._write(memoryview(block)[written:])
            except OSError:  # EPIPE, and EIO of a terminal that is gone
                self._shut()

    def _write(self, block: bytes | memoryview) -> int:
        """Writes some of it, waiting also where the descriptor itself does not. How much. Raises OSError."""
        while True:
            try:
                return os.write(self._fd, block)
            except BlockingIOError:
                wait_for(self._fd, select.POLLOUT)

    def _shut(self) -> None:
        if not self._is_shut:
            self._is_shut = True
            self._queue.clear()
            with suppress(OSError):
                os.close(self._fd)
