"""What an agent started, and what that started: to be ended with it when its turn could not be ended otherwise.

A process is held by a descriptor, not by its id, which another could have by then. Linux only: nowhere else it can be
said safely whose child a process is; there nothing is found.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class _Entry(NamedTuple):
    """Of /proc/ID/stat: the parent's id, and when the process began, in ticks since the machine did."""

    parent: int
    began: int


class _Held(NamedTuple):
    """A process, and when it began."""

    fd: int
    began: int


class Descendants:
    """Processes below one, as they were found. That one must not have been waited for when they are looked for."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._held: dict[int, _Held] = {}

    def look(self) -> None:
        """Finds those that are there now; those found before are kept, wherever they belong by now."""
        if sys.platform != "linux":
            return
        entries = _entries()
        known = {pid for pid, held in self._held.items() if pid in entries and entries[pid].began == held.began}
        below = fresh = {self._pid, *known}
        while fresh:
            fresh = {pid for pid, entry in entries.items() if entry.parent in below} - below
            below = below | fresh
        for pid in below - {self._pid} - known:
            self._hold(pid, entries[pid].began)

    def kill(self) -> None:
        """Kills them and forgets them."""
        if sys.platform == "linux":
            for held in self._held.values():
                with suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(held.fd, signal.SIGKILL)
                os.close(held.fd)
        self._held.clear()

    def _hold(self, pid: int, began: int) -> None:
        if sys.platform == "linux":
            try:
                fd = os.pidfd_open(pid)
            except OSError:  # it has ended, or a sandbox does not allow it
                return
            entry = _entry(pid)
            if entry is None or entry.began != began or pid in self._held:
                os.close(fd)
            else:
                self._held[pid] = _Held(fd, began)


def _entries() -> dict[int, _Entry]:
    found = {int(each.name): _entry(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()}
    return {pid: entry for pid, entry in found.items() if entry is not None}


def _entry(pid: int) -> _Entry | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # a name may hold anything, brackets too
    return _Entry(int(fields[1]), int(fields[19]))
