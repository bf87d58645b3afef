"""The recorded turns written as transcripts, and what `turnguard replay` says of them."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.corpus.play import Played, Setting, key_of, outcomes
from tests.corpus.turns import RecordedTurn
from turnguard_protocol.events import Call, Event, ToolCalls, TurnStarted
from turnguard_protocol.methods import Record
from turnguard_protocol.settings import Settings


def replay(turns: Sequence[RecordedTurn], setting: Setting) -> list[Played]:
    """What the command says of turns under a setting, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "turns.jsonl")
        file.write_bytes(b"".join(lines(turns)))
        sets = [f"--set={name}={value}" for name, value in assignments(setting.settings)]
        argv = [sys.executable, "-m", "turnguard", "replay", str(file), "--json", *sets]
        ran = subprocess.run(argv, stdout=subprocess.PIPE, check=True)
    rows = {row["session"]: row for row in map(msgspec.json.decode, ran.stdout.splitlines())}
    return [_played(setting, turn, rows[turn.id]) for turn in turns]


def lines(turns: Sequence[RecordedTurn]) -> Iterator[bytes]:
    """A transcript in turnguard's own form, with a session for each turn."""
    for turn in turns:
        events: list[Event] = [TurnStarted()]
        for step in turn.steps:
            calls = [Call(name=call.tool, key=key_of(call), hint=call.hint) for call in step]
            yield msgspec.json.encode(Record(session_id=turn.id, events=[*events, ToolCalls(calls)])) + b"\n"
            events = outcomes(step)
        yield msgspec.json.encode(Record(session_id=turn.id, events=events)) + b"\n"


def assignments(settings: Settings) -> Iterator[tuple[str, str]]:
    """Settings as `--set` takes them."""
    return _flat("", msgspec.to_builtins(settings))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif value is not None:
            yield f"{prefix}{name}", value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _played(setting: Setting, turn: RecordedTurn, row: Mapping[str, Any]) -> Played:
    """As the daemon would have it, where a turn is over with its halt and a warning comes before that."""
    halt, warning = row["halt"], row["warning"]
    if halt is not None and warning is not None and warning["call"] >= halt["call"]:
        warning = None
    return Played(setting.name, turn, halt and halt["call"], halt and halt["loopType"], warning and warning["call"])
