import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.headless.build import settings
from tests.headless.reading import read

from turnguard.core.hint import call_class
from turnguard.headless.files import open_transcript
from turnguard.headless.readers import FORMATS
from turnguard.headless.replay import replay


def step(action: str, observation: str | None = "seen", response: str = "") -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": response, "state": "{}\n", "thought": ""}


def asked(action: str, name: str, arguments: str, **fields: Any) -> dict[str, Any]:
    """A message of the history, of version 1."""
    call = {"function": {"name": name, "arguments": arguments}, "id": "call_1", "type": "function"}
    return {"role": "assistant", "content": "", "action": action, "agent": "main", "tool_calls": [call], **fields}


def observed(content: Any) -> dict[str, Any]:
    return {
        "role": "tool",
        "content": content,
        "agent": "main",
        "message_type": "observation",
        "tool_call_ids": ["call_1"],
    }


def file(steps: Sequence[Any], history: Sequence[Any] = (), status: str | None = None) -> dict[str, Any]:
    return {"environment": "swe_main", "trajectory": steps, "history": history, "info": {"exit_status": status}}


def told(folder: Path, document: Any, indent: int | None = 2) -> list[dict[str, Any]]:
    events, problems = read(folder, json.dumps(document, indent=indent), "swe-agent")
    assert problems == []
    return events


def test_a_run(tmp_path: Path) -> None:
    steps = [
        step('find_file "a.py"\n', "Found 1", "Let us look."),
        step("edit 4:4\nx\nend_of_edit\n"),
        step("cd src && python a.py"),
        step("exit_cost", "Exited"),
        step("", None),
    ]
    assert told(tmp_path, file(steps, status="exit_cost")) == [
        {"type": "turnStarted", "place": 1},
        {"type": "text", "delta": "Let us look.", "message": "1", "place": 1},
        {
            "type": "toolCalls",
            "calls": [{"name": "find_file", "id": "1", "args": {"arguments": '"a.py"'}}],
            "message": "1",
            "place": 1,
        },
        {"type": "toolResults", "results": [{"id": "1", "output": "Found 1"}], "message": "1", "place": 1},
        {
            "type": "toolCalls",
            "calls": [{"name": "edit", "id": "2", "args": {"arguments": "4:4\nx\nend_of_edit"}}],
            "message": "2",
            "place": 2,
        },
        {"type": "toolResults", "results": [{"id": "2", "output": "seen"}], "message": "2", "place": 2},
        {
            "type": "toolCalls",
            "calls": [{"name": "bash", "id": "3", "args": {"command": "cd src && python a.py"}}],
            "message": "3",
            "place": 3,
        },
        {"type": "toolResults", "results": [{"id": "3", "output": "seen"}], "message": "3", "place": 3},
        {"type": "turnEnded", "outcome": "failed"},
    ]


@pytest.mark.parametrize(
    ("action", "name", "args", "hint", "kind"),
    [
        ("edit 1:2\nx\nend_of_edit\n", "edit", {"arguments": "1:2\nx\nend_of_edit"}, None, "edit"),
        ("create a.py", "create", {"arguments": "a.py"}, None, "edit"),
        ("submit", "submit", {}, None, "final"),
        ("open a.py 10", "open", {"arguments": "a.py 10"}, None, "other"),
        ("str_replace_editor view /a", "str_replace_editor", {"command": "view", "arguments": "/a"}, "view", "other"),
        (
            "str_replace_editor create /a --file_text 'x'",
            "str_replace_editor",
            {"command": "create", "arguments": "/a --file_text 'x'"},
            "create",
            "edit",
        ),
        ("cd /x && pytest -q\n", "bash", {"command": "cd /x && pytest -q"}, "pytest", "other"),
        ("sleep 5", "bash", {"command": "sleep 5"}, "sleep", "poll"),
    ],
)
def test_an_action_is_a_call_that_the_guards_understand(
    tmp_path: Path, action: str, name: str, args: Any, hint: str | None, kind: str
) -> None:
    events = told(tmp_path, file([step(action)]))
    assert events[1]["calls"] == [{"name": name, "id": "1", "args": args}]
    (turn,) = replay(open_transcript(tmp_path / "transcript", FORMATS), settings())
    assert turn.identities[0].hint == hint
    assert call_class(name, hint) == kind


def test_calls_are_named_as_the_model_did(tmp_path: Path) -> None:
    history = [
        asked("ls", "bash", '{"command":"ls demo"}', is_demo=True),
        asked("ls", "bash", '{"command":"ls"}'),
        observed("f"),
        asked("open a", "open", '{"path":"a"}'),
        asked("submit", "submit", "{}"),
    ]
    steps = [step("ls"), step("edit 1:1\n"), step("submit\n")]
    calls = [event["calls"][0] for event in told(tmp_path, file(steps, history)) if event["type"] == "toolCalls"]
    assert calls == [
        {"name": "bash", "id": "1", "args": {"command": "ls"}},
        {"name": "edit", "id": "2", "args": {"arguments": "1:1"}},
        {"name": "submit", "id": "3", "args": {}},
    ]


def test_a_message_of_the_history_that_cannot_be_read_costs_a_name(tmp_path: Path) -> None:
    history = [asked("ls", "list", "{}"), {**asked("pwd", "bash", "{}"), "role": 7}]
    steps = [step("ls"), step("pwd"), step("ls")]
    calls = [event["calls"][0] for event in told(tmp_path, file(steps, history)) if event["type"] == "toolCalls"]
    assert [call["name"] for call in calls] == ["list", "bash", "bash"]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("submitted", "completed"), ("submitted (exit_cost)", "completed"), ("exit_context", "failed"), ("", None)],
)
def test_how_a_run_ends(tmp_path: Path, status: str, outcome: str | None) -> None:
    ends = [event.get("outcome", "completed") for event in told(tmp_path, file([step("")], [], status))[1:]]
    assert ends == ([] if outcome is None else [outcome])


@pytest.mark.parametrize(
    ("arguments", "told_as"),
    [
        ('{"command":"ls"}', {"command": "ls"}),
        ({"command": "ls"}, {"command": "ls"}),
        ("", {}),
        ('{"command', '{"command'),
    ],
)
def test_arguments_may_be_a_text(tmp_path: Path, arguments: Any, told_as: Any) -> None:
    events = told(tmp_path, file([step("ls")], [asked("ls", "bash", arguments)]))
    assert events[1]["calls"] == [{"name": "bash", "id": "1", "args": told_as}]


def test_a_message_may_hold_several_calls(tmp_path: Path) -> None:
    message = asked("ls", "bash", "{}")
    events = told(tmp_path, file([step("ls")], [{**message, "tool_calls": message["tool_calls"] * 2}]))
    assert [call["id"] for call in events[1]["calls"]] == ["1", "1.2"]
    assert [result["id"] for result in events[2]["results"]] == ["1", "1.2"]


def test_a_demonstration_has_a_history_only(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "the issue", "agent": "main", "message_type": "observation"},
        asked("ls", "bash", '{"command":"ls"}'),
        observed([{"type": "text", "text": "f"}]),
        {"role": "assistant", "content": "x", "action": "submit\n", "agent": "main"},
        {"role": "user", "content": "submitted", "agent": "main"},
        {"role": "assistant", "content": "x", "action": "exit_cost", "agent": "main"},
        asked("ls", "bash", "{}", message_type="demonstration"),
    ]
    assert told(tmp_path, {"history": history}) == [
        {"type": "turnStarted", "place": 1},
        {
            "type": "toolCalls",
            "calls": [{"name": "bash", "id": "3", "args": {"command": "ls"}}],
            "message": "3",
            "place": 3,
        },
        {"type": "toolResults", "results": [{"id": "3", "output": [{"type": "text", "text": "f"}]}], "place": 4},
        {"type": "toolCalls", "calls": [{"name": "submit", "id": "5", "args": {}}], "message": "5", "place": 5},
        {"type": "toolResults", "results": [{"id": "5", "output": "submitted"}], "place": 6},
    ]


def test_every_attempt_is_a_session(tmp_path: Path) -> None:
    first, second = file([step("ls")], status="exit_context"), file([step("submit")], status="submitted")
    events = told(tmp_path, {"attempts": [first, second], **second})
    assert [(event["session"], event["type"], event.get("outcome")) for event in events] == [
        ("attempt 1", "turnStarted", None),
        ("attempt 1", "toolCalls", None),
        ("attempt 1", "toolResults", None),
        ("attempt 1", "turnEnded", "failed"),
        ("attempt 2", "turnStarted", None),
        ("attempt 2", "toolCalls", None),
        ("attempt 2", "toolResults", None),
        ("attempt 2", "turnEnded", None),
    ]


def test_a_step_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    document = file([step("ls"), {**step("ls"), "observation": 7}, {**step("ls"), "response": []}, step("pwd")])
    events, problems = read(tmp_path, json.dumps(document), "swe-agent")
    assert [event["place"] for event in events if event["type"] == "toolCalls"] == [1, 4]
    assert [(problem.line, problem.message) for problem in problems] == [
        (2, "Expected `str | null`, got `int` - at `$.observation`; 1 more of its parts cannot be read")
    ]


def test_a_document_that_is_cut_off_cannot_be_read(tmp_path: Path) -> None:
    events, problems = read(tmp_path, json.dumps(file([step("ls")]))[:-20], "swe-agent")
    assert events == []
    assert [(problem.line, problem.message) for problem in problems] == [(None, "not JSON")]
