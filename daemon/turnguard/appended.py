"""Files that lines are appended to, which a person named: a log, a transcript. Writing them must never be waited for.

So they are regular files. A pipe is read by somebody who may stop, and a terminal or a socket is another's; and what is
written to the standard streams is the protocol's.
"""

import errno
import os
import stat
from pathlib import Path

OF_THE_PROTOCOL = (0, 1)
"""Stdin and stdout."""


def open_to_append(file: Path) -> int:
    """A descriptor at the end of a file, which only its owner can read when it is made here.

    Raises OSError when it cannot be opened, or is no regular file, or is what stdin or stdout lead to.
    """
    if file.exists() and not file.is_file():
        raise _refused("it is not a regular file", file)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)  # for a pipe that is put there now
    fd = os.open(file, flags, 0o600)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _refused("it is not a regular file", file)
        if any(_is_same(found, stream) for stream in OF_THE_PROTOCOL):
            raise _refused("it is what stdin or stdout lead to", file)
    except OSError:
        os.close(fd)
        raise
    return fd


def append(fd: int, data: bytes) -> None:
    """Writes all of it. Raises OSError."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def _refused(why: str, file: Path) -> OSError:
    return OSError(errno.EINVAL, why, str(file))


def _is_same(found: os.stat_result, stream: int) -> bool:
    try:
        return os.path.samestat(found, os.fstat(stream))
    except OSError:  # it is closed
        return False
