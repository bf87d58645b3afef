"""`--record FILE`: a transcript of what the guards heard, for `turnguard replay`.

Each line is the params of a `turnguard/record` request, in the identified form. Digests of arguments and results are
keyed with a salt that is nowhere written down, so that a short argument cannot be guessed from the file: within one
transcript equal things stay equal, and nothing can be compared with another. Names of tools, ids, and the program and
sub-command of shell calls are in the clear.
"""

import hmac
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from turnguard.core.identify import identify
from turnguard_protocol.events import Call, CallRekeyed, Event, Facts, Keys, Outcomes, Result, ToolCalls, ToolResults
from turnguard_protocol.methods import Record

SALT_BYTES = 32

_encode = msgspec.json.Encoder().encode


class Transcript:
    """Writes events as lines. `write` takes whole lines and must not raise; `salt` are random bytes of this file."""

    def __init__(self, write: Callable[[bytes], object], salt: bytes) -> None:
        self._write = write
        self._salt = salt

    def add(self, session_id: str, events: Sequence[Event]) -> None:
        """Writes what is told to the guards of a session at once. Events of the raw form are identified first."""
        told: list[Event] = []
        for event in events:
            told.append(self._sealed(identify(event)))
            if isinstance(event, ToolCalls):  # calls are the last that a request may tell
                self._line(session_id, told)
                told = []
        if told:
            self._line(session_id, told)

    def _line(self, session_id: str, told: list[Event]) -> None:
        self._write(_encode(Record(session_id=session_id, events=told)) + b"\n")

    def _sealed(self, event: Event) -> Event:
        if isinstance(event, ToolCalls):
            return ToolCalls([self._call(call) for call in event.calls], event.run_id)
        if isinstance(event, CallRekeyed):
            return msgspec.structs.replace(event, key=self._key(event.key), facts=self._facts(event.facts))
        if isinstance(event, ToolResults):
            return ToolResults([self._result(result) for result in event.results], event.run_id)
        return event

    def _call(self, call: Call) -> Call:
        return msgspec.structs.replace(call, key=self._key(call.key), facts=self._facts(call.facts))

    def _result(self, result: Result) -> Result:
        outcome = result.outcome
        if isinstance(outcome, Outcomes):
            outcome = Outcomes(*(self._seal(each) for each in (outcome.read, outcome.rolling, outcome.progress)))
        else:
            outcome = self._seal(outcome)
        return msgspec.structs.replace(result, key=self._key(result.key), outcome=outcome)

    def _key(self, key: str | Keys | None) -> str | Keys | None:
        return Keys(self._digest(key.turn), self._seal(key.rolling)) if isinstance(key, Keys) else self._seal(key)

    def _facts(self, facts: Facts | None) -> Facts | None:
        if facts is None or facts.target is None:
            return facts
        target = msgspec.structs.replace(facts.target, key=self._digest(facts.target.key))
        return msgspec.structs.replace(facts, target=target)

    def _seal(self, text: str | None) -> str | None:
        return None if text is None else self._digest(text)

    def _digest(self, text: str) -> str:
        return hmac.digest(self._salt, text.encode(errors="surrogatepass"), "sha256").hex() if text else text


def open_transcript(file: Path, say: Callable[[str], None]) -> Transcript:
    """A transcript at the end of a file, which only its owner can read. Raises OSError when it cannot be opened.

    `say` is called once should it not be writable some day.
    """
    fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    is_broken = False

    def write(line: bytes) -> None:
        nonlocal is_broken
        if is_broken:
            return
        try:
            os.write(fd, line)
        except OSError as error:
            is_broken = True
            say(f"turnguard: the transcript ends here, it cannot be written: {error.strerror}")

    return Transcript(write, secrets.token_bytes(SALT_BYTES))
