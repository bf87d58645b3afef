"""`--record FILE`: a transcript of what the guards heard, for `turnguard replay`, and sessions that write it.

Each line is the params of a `turnguard/record` request, in the identified form. Digests of arguments and results are
keyed with a salt that is nowhere written down, so that a short argument cannot be guessed from the file: within one
transcript equal things stay equal, and nothing can be compared with another. Names of tools, ids, and the program and
sub-command of shell calls are in the clear.
"""

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from turnguard.appended import append, open_to_append
from turnguard.core.guard import ALL_BUT_TEXT, Needs, Seal
from turnguard.core.identify import identify
from turnguard.sealing import Sealing
from turnguard.settings.places import install_salt, seal_of
from turnguard.settings.sourced import SourcedSession
from turnguard.settings.sources import Sources
from turnguard_protocol.events import Event, ToolCalls
from turnguard_protocol.methods import Record
from turnguard_protocol.verdicts import Verdict

SALT_BYTES = 32

_encode = msgspec.json.Encoder().encode


class Transcript:
    """Writes events as lines. `write` takes whole lines and must not raise; `salt` are random bytes of this file."""

    def __init__(self, write: Callable[[bytes], object], salt: bytes) -> None:
        self._write = write
        self._seal = Sealing(salt).event

    def add(self, session_id: str, events: Sequence[Event]) -> None:
        """Writes what is told to the guards of a session at once. Events of the raw form are identified first."""
        told: list[Event] = []
        for event in events:
            told.append(self._seal(identify(event)))
            if isinstance(event, ToolCalls):  # calls are the last that a request may tell
                self._line(session_id, told)
                told = []
        if told:
            self._line(session_id, told)

    def _line(self, session_id: str, told: list[Event]) -> None:
        self._write(_encode(Record(session_id=session_id, events=told)) + b"\n")


class RecordedSession(SourcedSession):
    """A session that writes down what its guards took. Raises SettingsError."""

    __slots__ = ("_transcript",)

    def __init__(
        self,
        session_id: str,
        sources: Sources,
        transcript: Transcript,
        *,
        directory: str | None = None,
        seal: Seal | None = None,
    ) -> None:
        super().__init__(session_id, sources, directory=directory, seal=seal)
        self._transcript = transcript

    @property
    def needs(self) -> Needs:
        """All there is but text, so that the transcript can be replayed under any settings."""
        return Needs.of_all([ALL_BUT_TEXT, super().needs])

    def record(self, events: Sequence[Event]) -> Verdict:
        """Answers as the guards do. Raises EventError, and then nothing is written."""
        verdict = super().record(events)
        self._transcript.add(self.session_id, events)
        return verdict


def sessions(sources: Sources, transcript: Transcript | None = None) -> Callable[[str, str | None], SourcedSession]:
    """Makes guarded sessions by their id and the directory they begin in. They raise SettingsError.

    `transcript`: where it is written what they hear.
    """
    seal = seal_of(install_salt())

    def session(session_id: str, cwd: str | None) -> SourcedSession:
        directory = sources.directory(cwd)
        if transcript is None:
            return SourcedSession(session_id, sources, directory=directory, seal=seal)
        return RecordedSession(session_id, sources, transcript, directory=directory, seal=seal)

    return session


def open_transcript(file: Path, say: Callable[[str], None]) -> Transcript:
    """A transcript at the end of a file, which only its owner can read. Raises OSError when it cannot be opened.

    It must be a regular file: lines are written while others wait. `say` is called once should it not be writable some
    day.
    """
    fd = open_to_append(file)
    is_broken = False

    def write(line: bytes) -> None:
        nonlocal is_broken
        if is_broken:
            return
        try:
            append(fd, line)
        except OSError as error:
            is_broken = True
            say(f"turnguard: the transcript ends here, it cannot be written: {error.strerror}")

    return Transcript(write, secrets.token_bytes(SALT_BYTES))
