import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from tests.headless.build import settings
from tests.headless.reading import Line, read, text_of

from turnguard.core.identify import identify
from turnguard.headless.files import open_transcript
from turnguard.headless.readers import FORMATS, own
from turnguard.headless.replay import replay
from turnguard.headless.replayed import Turn
from turnguard.recording import Transcript
from turnguard.transcript import head_of
from turnguard_protocol.events import Call, Event, Result, StepFinished, ToolCalls, ToolResults, TurnEnded, TurnStarted


def record(session: str, *events: dict[str, Any]) -> Line:
    return {"sessionId": session, "events": list(events)}


def test_events_pass_as_they_are(tmp_path: Path) -> None:
    calls = {"type": "toolCalls", "runId": "sub", "calls": [{"name": "bash", "id": "1", "key": "k", "hint": "ls"}]}
    results = {"type": "toolResults", "results": [{"id": "1", "outcome": {"progress": "p"}, "ok": True}]}
    lines: list[Line] = [
        record("s", {"type": "turnStarted", "origin": "cron"}, calls),
        record("t", {"type": "turnStarted"}),
        '{"sessionId": "s", "events": [{"type": "nothing known"}]}',
        record("s", results, {"type": "stepFinished"}),
    ]
    told, problems = read(tmp_path, text_of(lines), "turnguard")
    assert told == [
        {"type": "turnStarted", "origin": "cron", "session": "s", "place": 1},
        {**calls, "session": "s", "place": 1},
        {"type": "turnStarted", "session": "t", "place": 2},
        {**results, "session": "s", "place": 4},
        {"type": "stepFinished", "session": "s", "place": 4},
    ]
    assert [(problem.line, problem.message) for problem in problems] == [
        (3, "a value that is not known here - at `$.events[0].type`")
    ]


def step(number: int) -> list[Event]:
    """The same call with the same result."""
    call = Call("bash", f"{number}", Raw(b'{"command":"ls"}'))
    return [ToolCalls([call]), ToolResults([Result(f"{number}", output=Raw(b'"f"'), ok=True)]), StepFinished()]


def test_what_was_recorded_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "transcript"
    with path.open("wb") as file:
        transcript = Transcript(file.write, b"salt")
        for session in ("s", "t"):
            for event in (TurnStarted(), *(each for number in range(6) for each in step(number)), TurnEnded()):
                transcript.add(session, [identify(event)])
    turns = list(replay(open_transcript(path, FORMATS), settings()))
    assert [(turn.session, turn.calls, turn.outcome) for turn in turns] == [
        ("s", 6, "completed"),
        ("t", 6, "completed"),
    ]
    assert [_halt(turn) for turn in turns] == [6, 6]


def _halt(turn: Turn) -> int | None:
    return None if turn.halt is None else turn.halt.call


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        (record("s"), True),
        ({"sessionId": "s", "type": "user", "message": {"role": "user"}}, False),
        ({"sessionId": 1, "events": []}, False),
        ({"events": []}, False),
        ({"sessionId": "s", "events": {}}, False),
    ],
)
def test_how_it_is_recognised(line: Any, is_ours: bool) -> None:
    assert own.FORMAT.recognises(head_of([json.dumps(line).encode()])) is is_ours
