"""A lock that processes take one after the other, and that is gone with the process that holds it."""

import contextlib
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

LOCK_SECONDS: Final = 10.0
"""How long it is waited for. Agents wait at least 30 seconds for a hook."""

PAUSE_SECONDS: Final = 0.002
MAX_PAUSE_SECONDS: Final = 0.02

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class BusyError(Exception):
    """Another process holds the lock, and goes on holding it."""


@contextlib.contextmanager
def locked(file: Path, *, seconds: float = LOCK_SECONDS) -> Generator[None]:
    """Holds the lock that is a file, which is made where it is missing. Raises BusyError, or OSError."""
    until = time.monotonic() + seconds
    pause = PAUSE_SECONDS
    while (descriptor := _taken(file)) is None:
        if time.monotonic() >= until:
            raise BusyError
        time.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def _taken(file: Path) -> int | None:
    """The lock's descriptor; None where another process holds it, or has just thrown the file away."""
    descriptor = os.open(file, _FLAGS, 0o600)
    try:
        if _lock(descriptor) and _is_still(file, descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_still(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
