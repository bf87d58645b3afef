"""The way to the client: bytes that are written at once while the client reads, and wait for it while it does not."""

import os
import stat
import threading
from collections import deque

from turnguard.core.bounds import MAX_PENDING_OUTPUT_BYTES
from turnguard.service import background
from turnguard.service.ready import wait_writable


class Output:
    """Writes to a file descriptor without ever blocking the one who writes.

    What a pipe or socket does not take at once goes to a thread, in order. Where nothing can be written without
    blocking, as to a terminal or on Windows, all goes to the thread. `limit`: bytes that may wait before there is no
    room.
    """

    def __init__(self, fd: int, limit: int = MAX_PENDING_OUTPUT_BYTES) -> None:
        self._fd = fd
        self._limit = limit
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._has_thread = False
        self._is_broken = False
        mode = os.fstat(fd).st_mode
        is_channel = os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        self._is_direct = is_channel or stat.S_ISREG(mode)
        if is_channel:
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
            rest = memoryview(data)
            if self._is_direct and not self._waiting:
                rest = self._write_some(rest)
            if rest and not self._is_broken:
                self._leave_to_thread(rest)

    def wait_for_room(self, timeout: float | None) -> bool:
        """Whether the client takes what it is sent, or does so within so many seconds; None: waits until it does."""
        if self._waiting_bytes <= self._limit:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting_bytes <= self._limit or self._is_broken, timeout)

    def flush(self, timeout: float) -> bool:
        """Waits until all is written, at most so many seconds; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or self._is_broken, timeout)

    def _write_some(self, data: memoryview) -> memoryview:
        """Writes as much as goes without blocking; what is left. Nothing is copied, however small the steps."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except BlockingIOError:
            pass
        except OSError:
            self._is_broken = True
        return data

    def _leave_to_thread(self, data: memoryview) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._changed.notify_all()
        if not self._has_thread:
            self._has_thread = True
            background.start("output", self._write_waiting)

    def _write_waiting(self) -> None:
        while not self._is_broken:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                data = rest = self._waiting[0]
            while rest and not self._is_broken:
                if self._is_direct:
                    wait_writable(self._fd)
                rest = self._write_some(rest)
            with self._changed:
                self._waiting.popleft()
                self._waiting_bytes -= len(data)
                self._changed.notify_all()
