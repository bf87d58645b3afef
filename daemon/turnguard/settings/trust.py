"""Which projects' files may loosen settings: those that a person trusted, by real path and by the bytes of the file.

The store believes only a file that nobody else can have written. Whatever is wrong with it, nothing is trusted then,
and the log says so.
"""

import contextlib
import functools
import logging
import os
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from turnguard.settings.places import PRIVATE_DIRECTORY, is_ours, state_dir, write_private
from turnguard.settings.regular_file import RefusedFileError, read_regular

MAX_STORE_BYTES = 1024 * 1024

LOCK_SECONDS = 5.0
"""A change takes milliseconds; a lock that is held for longer is not waited for."""

_LOCK_POLL_SECONDS = 0.02
_OTHERS_MAY_WRITE = 0o022

log = logging.getLogger(__name__)


class Trust(msgspec.Struct, frozen=True):
    """One project that is trusted.

    `directory`: its real path. `digest`: the SHA-256 of its settings file, in hexadecimal. `since`: when a person said
    so, as an ISO date and time in UTC.
    """

    directory: str
    digest: str
    since: str


class _Store(msgspec.Struct, frozen=True):
    """The file's contents."""

    trusted: list[Trust]


def is_trusted(directory: Path, digest: str) -> bool:
    """Whether a project is trusted with a settings file of this digest.

    Never by a path with a link in it: since the session began somebody has put it there, and it may lead to any project
    that is trusted.
    """
    real = _real(directory)
    if real != _text(directory):
        return False
    return any(each.directory == real and each.digest == digest for each in trusted())


def trusted() -> list[Trust]:
    """Every project that is trusted, with the file that it was trusted with, in the order of their paths."""
    path = store_file()
    try:
        contents = read_regular(path, MAX_STORE_BYTES)
        if contents is None:
            return []
        if not is_ours(contents.status):
            raise RefusedFileError("it belongs to somebody else")
        if os.name == "posix" and contents.status.st_mode & _OTHERS_MAY_WRITE:
            raise RefusedFileError("others may write it")
        return msgspec.json.decode(contents.data, type=_Store).trusted
    except (RefusedFileError, msgspec.DecodeError, UnicodeDecodeError) as error:
        _say_once(f"no project is trusted, since {path} cannot be used: {error}")
        return []


def trust(directory: Path, digest: str, now: datetime) -> None:
    """Trusts a project with a settings file of this digest, and no longer with another one. Raises OSError."""
    real = _real(directory)
    since = now.astimezone(UTC).isoformat(timespec="seconds")
    with _locked():
        others = [each for each in trusted() if each.directory != real]
        _write([*others, Trust(real, digest, since)])


def revoke(directory: Path) -> bool:
    """Takes trust in a project back; whether there was any. Raises OSError."""
    real = _real(directory)
    with _locked():
        before = trusted()
        others = [each for each in before if each.directory != real]
        if len(others) < len(before):
            _write(others)
    return len(others) < len(before)


def store_file() -> Path:
    """Where it is written down what is trusted."""
    return state_dir() / "trust.json"


def _real(directory: Path) -> str:
    """A directory's real path as the store has it."""
    return _text(os.path.realpath(directory))


def _text(path: str | Path) -> str:
    """A path as text, also where its name is no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _write(all_trusted: list[Trust]) -> None:
    store = _Store(sorted(all_trusted, key=lambda each: each.directory))
    write_private(store_file(), msgspec.json.format(msgspec.json.encode(store), indent=2) + b"\n")


@contextlib.contextmanager
def _locked() -> Generator[None]:
    """Keeps other changes out, in this process and in others. Raises TimeoutError."""
    path = store_file().with_suffix(".lock")
    path.parent.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is held by another turnguard")
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        # The system lets go of the lock with the file, also when the process dies.
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@functools.cache
def _say_once(what: str) -> None:
    log.warning("%s", what)
