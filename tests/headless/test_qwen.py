from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

AT = "2026-03-01T10:00:00.000Z"


def line(uuid: str, kind: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    role = "model" if kind == "assistant" else "user"
    message = {"message": {"role": role, "parts": list(parts)}} if parts else {}
    return {"uuid": uuid, "parentUuid": None, "sessionId": "s", "timestamp": AT, "type": kind, **message, **fields}


def call(call_id: str, name: str, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": args}}


def result(uuid: str, call_id: str, name: str, status: str, **response: Any) -> dict[str, Any]:
    part = {"functionResponse": {"id": call_id, "name": name, "response": response}}
    return line(uuid, "tool_result", part, toolCallResult={"callId": call_id, "status": status, "resultDisplay": "x"})


def test_a_chat_log(tmp_path: Path) -> None:
    lines: list[Line] = [
        line("u1", "user", {"text": "do it"}, provenance="real_user"),
        line("y1", "system", subtype="ui_telemetry", systemPayload={"uiEvent": {"function_args": "secret"}}),
        line(
            *("a1", "assistant", {"text": "hm", "thought": True}, {"text": "Both."}),
            *(call("c1", "run_shell_command", command="ls"), call("c2", "read_file", path="x")),
        ),
        result("r1", "c1", "run_shell_command", "success", output="Output: a\nProcess Group PGID: 7"),
        '{"uuid":"r2","type":"tool_result","mess',
        result("r3", "c2", "read_file", "error", error="no such file"),
        line("u2", "user", {"text": "and hurry"}, subtype="mid_turn_user_message"),
        line("y2", "system", subtype="chat_compression", systemPayload={"compressedHistory": [{"role": "user"}]}),
        line("u3", "user", {"text": "it is over"}, subtype="notification", provenance="system"),
        line("u4", "user", {"text": "hourly"}, subtype="cron"),
        line("u5", "user", {"text": "go on"}, subtype="goal_runtime"),
        line("u6", "user", {"text": "?"}, subtype="something_new"),
        line("a2", "assistant", call("c3", "run_shell_command", command="sleep 9")),
        result("r4", "c3", "run_shell_command", "cancelled", error="[Operation Cancelled]"),
    ]

    told, problems = read(tmp_path, text_of(lines), "qwen")

    assert [{key: value for key, value in each.items() if key != "at"} for each in told] == [
        {"type": "turnStarted", "message": "u1", "place": 1},
        {"type": "thought", "description": "hm", "message": "a1", "place": 3},
        {"type": "text", "delta": "Both.", "message": "a1", "place": 3},
        {
            "type": "toolCalls",
            "calls": [
                {"name": "run_shell_command", "id": "c1", "args": {"command": "ls"}},
                {"name": "read_file", "id": "c2", "args": {"path": "x"}},
            ],
            "message": "a1",
            "place": 3,
        },
        {
            "type": "toolResults",
            "results": [{"id": "c1", "output": "Output: a", "ok": True}],
            "message": "r1",
            "place": 4,
        },
        {
            "type": "toolResults",
            "results": [{"id": "c2", "error": "no such file", "ok": False}],
            "message": "r3",
            "place": 6,
        },
        {"type": "userInput", "message": "u2", "place": 7},
        {"type": "compacted", "message": "y2", "place": 8},
        {"type": "turnStarted", "origin": "notification", "message": "u3", "place": 9},
        {"type": "turnStarted", "origin": "cron", "message": "u4", "place": 10},
        {"type": "turnStarted", "origin": "goal", "message": "u5", "place": 11},
        {"type": "toolCalls", "calls": [{"name": "run_shell_command", "id": "c3", "args": {"command": "sleep 9"}}]}
        | {"message": "a2", "place": 13},
        {"type": "toolResults", "message": "r4", "place": 14}
        | {"results": [{"id": "c3", "error": "[Operation Cancelled]", "errorType": "cancelled", "ok": False}]},
    ]
    assert {each["at"] for each in told} == {AT}
    assert [(problem.line, problem.message) for problem in problems] == [(5, "not JSON")]


def test_a_subagent_has_a_file_of_its_own(tmp_path: Path) -> None:
    mine = {"agentId": "general-1", "isSidechain": True}
    lines = [
        line("u1", "user", {"text": "look"}, **mine),
        line("a1", "assistant", call("c1", "read_file", path="x"), **mine),
        result("r1", "c1", "read_file", "success", output="a") | mine,
    ]

    told, _ = read(tmp_path, text_of(lines), "qwen")

    assert [(each["type"], each["scope"]) for each in told] == [
        ("toolCalls", "general-1"),
        ("toolResults", "general-1"),
    ]


def stream(kind: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    message = {} if content is None else {"message": {"id": "m1", "content": content}}
    return {"type": kind, "uuid": "x", "session_id": "s", "parent_tool_use_id": None, **message, **fields}


INIT = stream("system", subtype="init", qwen_code_version="0.24.4")


def test_the_stream(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "agent", "input": {"prompt": "look"}}
    lines: list[Line] = [
        INIT,
        stream("stream_event", event={"type": "goal_state"}),
        stream("assistant", [use]),
        stream("user", [{"type": "text", "text": "look"}], parent_tool_use_id="c1"),
        stream("user", [{"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "no"}]),
        "{",
        stream("user", [{"type": "text", "text": "Background agent failed."}]),
        stream("result", subtype="error_during_execution", is_error=True),
    ]

    told, problems = read(tmp_path, text_of(lines), "qwen-stream")

    assert told == [
        {"type": "turnStarted", "place": 1},
        {
            "type": "toolCalls",
            "calls": [{"name": "agent", "id": "c1", "args": {"prompt": "look"}}],
            "message": "m1",
            "place": 3,
        },
        {"type": "toolResults", "results": [{"id": "c1", "error": "no", "ok": False}], "place": 5},
        {"type": "turnStarted", "origin": "notification", "place": 7},
        {"type": "turnEnded", "outcome": "failed", "place": 8},
    ]
    assert [problem.line for problem in problems] == [6]


@pytest.mark.parametrize(
    ("version", "name"), [("qwen_code_version", "qwen-stream"), ("claude_code_version", "claude-stream")]
)
def test_the_stream_is_told_from_the_one_that_it_is_like(tmp_path: Path, version: str, name: str) -> None:
    told, _ = read(tmp_path, text_of([stream("system", subtype="init") | {version: "1"}]), name)

    assert [each["type"] for each in told] == ["turnStarted"]
