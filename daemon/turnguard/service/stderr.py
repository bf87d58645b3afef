"""What the daemon says to those who read logs. It never waits for them: what stderr does not take is dropped."""

import logging
import os
import select
import sys

from turnguard.service.ready import wait_writable

MAX_MESSAGE_BYTES = 16 * 1024
"""Of a longer message the middle is left out."""

_STDERR = 2
_PIECE_BYTES = 512 if sys.platform == "win32" else select.PIPE_BUF
"""Where a pipe takes anything at all, it takes so much without blocking."""


class StderrHandler(logging.Handler):
    """Writes log records to stderr, and how many before them were not written."""

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record, or counts it."""
        text = self.format(record)
        if self._dropped:
            text = f"turnguard: nobody read stderr, messages not written: {self._dropped}\n{text}"
        self._dropped = 0 if say(text) else self._dropped + 1


def say(text: str) -> bool:
    """Writes a line as far as stderr takes it; whether it took it."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > MAX_MESSAGE_BYTES:
        half = MAX_MESSAGE_BYTES // 2
        data = data[:half] + b"\n[...]\n" + data[-half:]
    data += b"\n"
    try:
        for at in range(0, len(data), _PIECE_BYTES):
            if not wait_writable(_STDERR, 0):
                return False
            os.write(_STDERR, data[at : at + _PIECE_BYTES])
    except OSError:
        return False
    return True
