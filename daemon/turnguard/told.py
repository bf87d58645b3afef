"""What turnguard says besides the protocol: on stderr, and in the file of `--log`. Nobody ever waits for it.

A client may not read stderr, and then a pipe is full one day; so the writing has a thread of its own, and what is too
much is dropped.
"""

import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Full, Queue

from turnguard.appended import append, open_to_append

STDERR = 2

MAX_WAITING = 1_000
"""Lines that wait to be written."""

END_SECONDS = 0.5
"""How long the last of them are waited for."""


class Told:
    """Says lines and logs them, from `start` on.

    Raises OSError when the file cannot be opened, or is no regular one; it is appended to.
    """

    def __init__(self, log: Path | None = None) -> None:
        self._log = None if log is None else open_to_append(log)
        self._lines: Queue[tuple[int, bytes] | None] = Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._write, name="told", daemon=True)

    def start(self) -> None:
        """Starts the thread, which writes also what waits already."""
        self._thread.start()

    def say(self, words: str) -> None:
        """Says a line on stderr, and logs it."""
        self._put(STDERR, words)
        self.note(words)

    def note(self, words: str) -> None:
        """Logs a line, with the time."""
        if self._log is not None:
            self._put(self._log, f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {words}")

    def end(self, seconds: float = END_SECONDS) -> None:
        """Waits a little for what was not written yet."""
        with suppress(Full):
            self._lines.put_nowait(None)
        self._thread.join(seconds)

    def _put(self, fd: int, words: str) -> None:
        with suppress(Full):
            self._lines.put_nowait((fd, words.encode("utf-8", "backslashreplace") + b"\n"))

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError):
                append(*line)
