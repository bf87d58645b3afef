"""The way to the client: bytes that are written at once while the client reads, and wait for it while it does not."""

import os
import select
import stat
import threading
from collections import deque

from turnguard.core.bounds import MAX_PENDING_OUTPUT_BYTES


class Output:
    """Writes to a file descriptor without ever blocking the one who writes.

    What a pipe or socket does not take at once goes to a thread, in order. Where nothing can be written without
    blocking, as on Windows, all goes to the thread. `limit`: bytes that may wait before `has_room` is False.
    """

    def __init__(self, fd: int, limit: int = MAX_PENDING_OUTPUT_BYTES) -> None:
        self._fd = fd
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_direct = os.name == "posix"
        self._is_broken = False
        mode = os.fstat(fd).st_mode
        if self._is_direct and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            os.set_blocking(fd, False)

    @property
    def is_broken(self) -> bool:
        """Whether the client has closed its end; what is written then is lost."""
        return self._is_broken

    def write(self, data: bytes) -> None:
        """Sends bytes, whole and in order; any thread may call it."""
        if not data:
            return
        with self._changed:
            if self._is_direct and not self._waiting:
                data = self._write_some(data)
            if data and not self._is_broken:
                self._leave_to_thread(data)

    def wait_for_room(self, timeout: float) -> bool:
        """Whether the client takes what it is sent, or does so within so many seconds."""
        if self._waiting_bytes <= self._limit:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting_bytes <= self._limit or self._is_broken, timeout)

    def flush(self, timeout: float) -> bool:
        """Waits until all is written, at most so many seconds; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or self._is_broken, timeout)

    def _write_some(self, data: bytes) -> bytes:
        """Writes as much as goes without blocking; what is left."""
        written = 0
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, memoryview(data)[written:])
        except BlockingIOError:
            pass
        except OSError:
            self._is_broken = True
        return data[written:]

    def _leave_to_thread(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_waiting, name="output", daemon=True)
            self._thread.start()

    def _write_waiting(self) -> None:
        while not self._is_broken:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                data = rest = self._waiting[0]
            while rest and not self._is_broken:
                if self._is_direct:
                    select.select((), (self._fd,), ())
                rest = self._write_some(rest)
            with self._changed:
                self._waiting.popleft()
                self._waiting_bytes -= len(data)
                self._changed.notify_all()
