"""`--record FILE`: the guards of a session, with all they are told written down for `turnguard replay`."""

from collections.abc import Sequence

from turnguard.acp.turn import Guarded
from turnguard.core.guard import ALL_BUT_TEXT, Needs
from turnguard.recording import Transcript
from turnguard_protocol.events import Event
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import OverrideAction, SessionStatus, Verdict


class RecordedGuard:
    """Answers as the guards of a session do."""

    def __init__(self, transcript: Transcript, session_id: str, guard: Guarded) -> None:
        self._transcript = transcript
        self._session_id = session_id
        self._guard = guard

    @property
    def needs(self) -> Needs:
        """All there is but text, so that the transcript can be replayed under any settings."""
        return Needs.of_all([ALL_BUT_TEXT, self._guard.needs])

    def record(self, events: Sequence[Event]) -> Verdict:
        """Writes the events down, then tells them."""
        self._transcript.add(self._session_id, events)
        return self._guard.record(events)

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """As the guards do."""
        self._guard.override(action, turn_id=turn_id, calls=calls)

    def status(self) -> SessionStatus:
        """As the guards do."""
        return self._guard.status()

    def report(self) -> SettingsReport:
        """As the guards do."""
        return self._guard.report()
