"""What is kept of sessions between processes: a file a session, which is read, changed and written under a lock.

A file is written beside and put in its place, so a process that is killed leaves what was there. It is not forced to
the disk: after a crash of the machine it may be broken, and then the session starts anew. Files that nobody has used
for a week are thrown away.
"""

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from turnguard.headless.hooks.lock import BusyError, locked
from turnguard.settings.places import PRIVATE_DIRECTORY
from turnguard.settings.regular_file import RefusedFileError, read_regular

MAX_BYTES: Final = 64 * 1024 * 1024
"""More is no snapshot of ours."""

KEEP_SECONDS: Final = 7 * 24 * 3600
SWEEP_SECONDS: Final = 24 * 3600
"""How often it is looked for files to throw away."""

SNAPSHOT, LOCK, NEW = ".json", ".lock", ".new"
SWEPT: Final = "swept"

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class StoreError(Exception):
    """Nothing can be kept. Its text says why, for people."""


class Entry:
    """A session's file while it is locked. `data`: what it holds, None: nothing. `problem`: why it was not read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.data: bytes | None = None
        self.problem: str | None = None
        try:
            contents = read_regular(file, MAX_BYTES)
        except RefusedFileError as error:
            self.problem = str(error)
        else:
            self.data = None if contents is None else contents.data

    def write(self, data: bytes) -> None:
        """Puts this in the place of what was there. Raises StoreError."""
        new = self._file.with_suffix(NEW)
        try:
            descriptor = os.open(new, _NEW_FILE, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            new.replace(self._file)
        except OSError as error:
            raise StoreError(_why(error)) from error


class Store:
    """The files of all sessions, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def opened(self, name: str) -> Generator[Entry]:
        """A session's file, for this process alone. Raises StoreError."""
        file = self._directory / f"{name}{SNAPSHOT}"
        with contextlib.ExitStack() as held:
            try:
                for each in (self._directory.parent, self._directory):
                    each.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
                held.enter_context(locked(file.with_suffix(LOCK)))
            except BusyError:
                raise StoreError("another process has held it for too long") from None
            except OSError as error:
                raise StoreError(_why(error)) from error
            yield Entry(file)

    def sweep(self) -> None:
        """Throws away what nobody has used for a week; once a day, for it looks at every file."""
        now, mark = time.time(), self._directory / SWEPT
        with contextlib.suppress(OSError):
            if mark.exists() and 0 <= now - mark.stat().st_mtime < SWEEP_SECONDS:
                return
            mark.touch(0o600)
            for file in self._directory.glob(f"*{LOCK}"):
                self._drop(file.with_suffix(SNAPSHOT), now - KEEP_SECONDS)

    def _drop(self, file: Path, before: float) -> None:
        """Throws the files of a session away, unless they were used since."""
        files = file, file.with_suffix(NEW), file.with_suffix(LOCK)
        with contextlib.suppress(OSError, BusyError):
            if any(each.stat().st_mtime >= before for each in files if each.exists()):
                return
            with locked(files[-1], seconds=0):
                for each in files:
                    each.unlink(missing_ok=True)


def _why(error: OSError) -> str:
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
