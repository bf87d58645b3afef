"""Sources of settings that nobody waits for long: a file may lie where the system itself hangs, and lines must pass.

Files are looked at by a thread of its own. It is given `PATIENCE`; what it finds later holds from then on, and until
then what was found before, or in a directory that is new what holds without a project. Where the name of a directory
leads has to be found out in time, or it is taken as it stands: a link in it then leads to no trust.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from turnguard.settings.sources import LOOK_SECONDS, MAX_DIRECTORIES, Found, Sources

PATIENCE = 0.25
"""Seconds that a line waits for a look at the files; one look takes some 50 microseconds."""


class UnhurriedSources(Sources):
    """Takes what `Sources` takes. The first look, when it is made, is waited for."""

    _looking: Thread | None = None
    _seen: dict[str | None, tuple[float, Found]] | None = None

    def directory(self, cwd: str | None) -> str | None:
        """Where a session runs, as far as that is known within `PATIENCE`; else the name it was given."""
        known: list[str | None] = []
        if cwd is not None:
            self._look(lambda: known.append(Sources.directory(self, cwd)))
        return known[0] if known else cwd

    def found(self, directory: str | None, *, now: bool = False) -> Found:
        """What holds in a directory, as far as that is known within `PATIENCE`."""
        if self._seen is None:
            self._seen = {None: (self._clock(), super().found(None))}
        known = self._seen.get(directory)
        if known is not None and not now and self._clock() - known[0] < LOOK_SECONDS:
            return known[1]
        seen = self._seen
        self._look(lambda: self._find(directory, seen))
        return seen.get(directory, seen[None])[1]

    def _look(self, look: Callable[[], None]) -> None:
        """Has something looked up by a thread, if the one before is not still at it, and waits a little."""
        if self._looking is not None and self._looking.is_alive():
            return
        self._looking = Thread(target=look, name="settings", daemon=True)
        with suppress(RuntimeError):  # no more threads are allowed
            self._looking.start()
            self._looking.join(PATIENCE)

    def _find(self, directory: str | None, seen: dict[str | None, tuple[float, Found]]) -> None:
        found = super().found(directory, now=True)
        if len(seen) >= MAX_DIRECTORIES and directory not in seen:
            for each in [each for each in seen if each is not None]:
                del seen[each]
        seen[directory] = (self._clock(), found)
