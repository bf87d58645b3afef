"""Sources of settings that nobody waits for long: a file may lie where the system itself hangs, and lines must pass.

Files are looked at by a thread of its own. It is given `PATIENCE`; what it finds later holds from then on, and until
then what was found before, or in a directory that is new what holds without a project.
"""

from contextlib import suppress
from threading import Thread

from turnguard.settings.sources import LOOK_SECONDS, MAX_DIRECTORIES, Found, Sources

PATIENCE = 0.25
"""Seconds that a line waits for a look at the files; one look takes some 50 microseconds."""


class UnhurriedSources(Sources):
    """Takes what `Sources` takes. The first look, when it is made, is waited for."""

    _looking: Thread | None = None
    _seen: dict[str | None, tuple[float, Found]] | None = None

    def found(self, cwd: str | None, *, now: bool = False) -> Found:
        """What holds in a directory, as far as that is known within `PATIENCE`."""
        if self._seen is None:
            self._seen = {None: (self._clock(), super().found(None))}
        known = self._seen.get(cwd)
        if known is not None and not now and self._clock() - known[0] < LOOK_SECONDS:
            return known[1]
        if self._looking is None or not self._looking.is_alive():
            self._looking = Thread(target=self._look, args=(cwd, self._seen), name="settings", daemon=True)
            with suppress(RuntimeError):  # no more threads are allowed
                self._looking.start()
                self._looking.join(PATIENCE)
        return self._seen.get(cwd, self._seen[None])[1]

    def _look(self, cwd: str | None, seen: dict[str | None, tuple[float, Found]]) -> None:
        found = super().found(cwd, now=True)
        if len(seen) >= MAX_DIRECTORIES and cwd not in seen:
            for each in [each for each in seen if each is not None]:
                del seen[each]
        seen[cwd] = (self._clock(), found)
