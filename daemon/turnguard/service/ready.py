"""Waiting for one file descriptor, whatever its number: `select.select` takes none above 1,023.

On Windows pipes cannot be waited for; there all of them count as ready and open.
"""

import select
import sys


def wait_readable(fd: int) -> None:
    """Waits until there is something to read, be it the end."""
    if sys.platform != "win32":
        _poll(fd, select.POLLIN, None)


def wait_writable(fd: int, seconds: float | None = None) -> bool:
    """Whether it takes bytes, or is broken, now or within so many seconds."""
    return sys.platform == "win32" or bool(_poll(fd, select.POLLOUT, seconds))


def is_hung_up(fd: int) -> bool:
    """Whether the other end is closed, though there may still be something to read."""
    return sys.platform != "win32" and bool(_poll(fd, getattr(select, "POLLRDHUP", 0), 0))


def _poll(fd: int, events: int, seconds: float | None) -> int:
    """Those of the events that there are; a closed end counts always."""
    poll = select.poll()
    poll.register(fd, events)
    found = poll.poll(None if seconds is None else seconds * 1_000)
    return found[0][1] if found else 0
