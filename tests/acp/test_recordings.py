import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acp.play import CALLS_TO_HALT, notification, prompt, request, result_of, session_update
from tests.acp.recordings import main

CANCELLED = result_of(1, {"stopReason": "cancelled"})
HANDSHAKE = [
    ("c2a", request("i", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})),
    ("a2c", result_of("i", {"protocolVersion": 1, "agentInfo": {"name": "an agent", "version": "9"}})),
    ("c2a", prompt(1)),
]


def call(number: int, path: str) -> list[tuple[str, Any]]:
    begun = {"toolCallId": str(number), "title": "Looking", "name": "look", "rawInput": {"path": path}}
    ended = {"toolCallId": str(number), "status": "completed", "rawOutput": f"what is in {path}"}
    return [
        ("a2c", session_update("s", "tool_call", **begun)),
        ("a2c", session_update("s", "tool_call_update", **ended)),
    ]


LOOP = [line for number in range(CALLS_TO_HALT) for line in call(number, "a")]
PROGRESS = [line for number in range(CALLS_TO_HALT) for line in call(number, f"file {number}")]


def played(folder: Path, name: str, messages: Sequence[tuple[str, Any]]) -> int:
    with gzip.open(folder / f"{name}.jsonl.gz", "wt") as recording:
        for number, (direction, message) in enumerate(messages):
            recording.write(json.dumps({"dir": direction, "t": number / 10, "msg": message}) + "\n")
    return main([str(folder)])


def test_a_run_that_passes_as_it_came_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(tmp_path, "agent-poll", [*HANDSHAKE, *PROGRESS, ("a2c", CANCELLED)]) == 0
    assert "| agent-poll | 16 | 6 | unchanged (as it must) |  |  |  |" in capsys.readouterr().out


def test_a_run_that_must_pass_and_is_changed_is_a_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(tmp_path, "agent-poll", [*HANDSHAKE, *LOOP, ("a2c", CANCELLED)]) == 1
    assert "(WRONG)" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["claude101-task", "codex-load", "codex-perm", "codex-permreject"])
def test_runs_that_repeat_nevertheless_need_not_pass_as_they_came(tmp_path: Path, name: str) -> None:
    assert played(tmp_path, name, [*HANDSHAKE, *LOOP, ("a2c", CANCELLED)]) == 0


def test_a_loop_that_is_halted_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(tmp_path, "agent-same", [*HANDSHAKE, *LOOP, ("a2c", CANCELLED)]) == 0
    out = capsys.readouterr().out
    assert "call 4, the next had begun (progress, line 12, 1.1 s)" in out
    assert "call 5, the next had begun (progress, line 14, 1.3 s)" in out
    assert "max_turn_requests, by agent 0.2 s later" in out


def test_a_recording_that_ends_before_the_answer_gets_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(tmp_path, "agent-same", [*HANDSHAKE, *LOOP]) == 0
    assert "max_turn_requests, by turnguard 15.0 s later" in capsys.readouterr().out


def test_a_loop_that_is_not_halted_is_a_violation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert played(tmp_path, "agent-same", [*HANDSHAKE, *PROGRESS, ("a2c", CANCELLED)]) == 1
    assert "agent-same: a loop was not halted" in capsys.readouterr().out


def test_an_agent_that_stops_itself_need_not_be_halted(tmp_path: Path) -> None:
    assert played(tmp_path, "gemini-same", [*HANDSHAKE, *PROGRESS, ("a2c", CANCELLED)]) == 0


def test_a_message_that_is_lost_is_a_violation(tmp_path: Path) -> None:
    status = [("c2a", request(7, "_turnguard/status", {})), ("c2a", notification("x", {}))]
    assert played(tmp_path, "agent-edit", [*HANDSHAKE, *status]) == 1


def test_a_folder_without_recordings_is_a_mistake(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1
    assert main([]) == 2
