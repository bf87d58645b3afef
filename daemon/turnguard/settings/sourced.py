"""A guarded session of a face whose client sends no settings: files, the environment and the command line hold."""

from collections.abc import Sequence

from turnguard.core.guard import Seal
from turnguard.settings.guarded import GuardedSession, in_force_of
from turnguard.settings.sources import Sources, reported
from turnguard_protocol.events import Event
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import Verdict


class SourcedSession(GuardedSession):
    """A session that looks for itself whether its sources have changed. Raises SettingsError.

    `directory`: where it runs, as `Sources.directory` gave it when the session began, and as it stays.
    """

    __slots__ = ("_directory", "_found", "_sources")

    def __init__(
        self,
        session_id: str,
        sources: Sources,
        *,
        agent_id: str | None = None,
        directory: str | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._sources = sources
        self._directory = directory
        self._found = sources.found(directory)
        settings = in_force_of(sources.merged(self._found, agent_id=agent_id), self._found)
        super().__init__(session_id, settings, agent_id=agent_id, cwd=directory, seal=seal)

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events under what the sources say by now, and answers one verdict. Raises EventError."""
        found = self._sources.found(self._directory)
        if found is not self._found:
            self._found = found
            self.take(in_force_of(self._sources.merged(found, agent_id=self.agent_id), found))
        return super().record(events)

    def report(self) -> SettingsReport:
        """What holds, as a person reads it."""
        found = self._sources.found(self._directory, now=True)
        return reported(self._sources.merged(found, agent_id=self.agent_id), found)
