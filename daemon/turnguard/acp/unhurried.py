"""Sources of settings that nobody waits for long: a file may lie where the system itself hangs, and lines must pass.

Files are looked at by a thread of its own. It is given `PATIENCE`; what it finds later holds from then on, and until
then what was found before, or in a directory that is new what holds without a project.
"""

from contextlib import suppress
from threading import Thread
from typing import NamedTuple

from turnguard.settings.places import real_directory
from turnguard.settings.sources import LOOK_SECONDS, MAX_DIRECTORIES, Found, Sources

PATIENCE = 0.25
"""Seconds that a line waits for a look at the files; one look takes some 50 microseconds."""


class _Seen(NamedTuple):
    """What was found in a directory, when, and where its name leads."""

    at: float
    found: Found
    real: str | None


class UnhurriedSources(Sources):
    """Takes what `Sources` takes. The first look, when it is made, is waited for."""

    _looking: Thread | None = None
    _seen: "dict[str | None, _Seen] | None" = None

    def found(self, directory: str | None, *, now: bool = False) -> Found:
        """What holds in a directory, as far as that is known within `PATIENCE`.

        `directory`: as an editor names it; where that leads is asked once, by the thread too.
        """
        if self._seen is None:
            self._seen = {None: _Seen(self._clock(), super().found(None), None)}
        known = self._seen.get(directory)
        if known is not None and not now and self._clock() - known.at < LOOK_SECONDS:
            return known.found
        if self._looking is None or not self._looking.is_alive():
            self._looking = Thread(target=self._look, args=(directory, self._seen), name="settings", daemon=True)
            with suppress(RuntimeError):  # no more threads are allowed
                self._looking.start()
                self._looking.join(PATIENCE)
        return self._seen.get(directory, self._seen[None]).found

    def _look(self, directory: str | None, seen: dict[str | None, _Seen]) -> None:
        known = seen.get(directory)
        real = known.real if known is not None else None if directory is None else real_directory(directory)
        found = super().found(real, now=True)
        if len(seen) >= MAX_DIRECTORIES and directory not in seen:
            for each in [each for each in seen if each is not None]:
                del seen[each]
        seen[directory] = _Seen(self._clock(), found, real)
