from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

from turnguard.headless.readers import claude

AT = "2026-03-01T10:00:00.000Z"


def line(kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a session file."""
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message["id"] = fields.pop("of", "m1")
    return {"parentUuid": None, "isSidechain": False, "sessionId": "s", "type": kind, "message": message, **fields}


def use(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, *, is_error: bool | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return block if is_error is None else {**block, "is_error": is_error}


SESSION: list[Line] = [
    {"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": "do it"},
    line("user", "do it", timestamp=AT),
    line("user", "be brief", isMeta=True),
    {"type": "api-request", "sessionId": "s", "message": {"role": "user"}},
    line("assistant", [{"type": "thinking", "thinking": "hm"}]),
    line("assistant", [{"type": "text", "text": "Both."}]),
    line("assistant", [use("c1", command="ls")]),
    line("user", [result("c1", "a\nb", is_error=False)]),
    line("assistant", [use("c2", "Read", file_path="a"), {"type": "server_tool_use", "id": "w", "name": "web_search"}]),
    line("user", [result("c2", [{"type": "text", "text": "no such file"}], is_error=True)], timestamp=AT),
    '{"type": "assistant", "message": {"id": "m1", "content": [{"type": "tool_use", "id"',
    {"type": "system", "subtype": "compact_boundary", "sessionId": "s"},
    line("user", "This session is being continued", isCompactSummary=True),
    line("assistant", [use("c3", "Task", prompt="look")], of="m2"),
    line("user", [{"type": "text", "text": "look"}], isSidechain=True, agentId="a1"),
    line("assistant", [use("s1", command="pwd")], of="m3", isSidechain=True, agentId="a1"),
    line("user", [result("s1", "/")], isSidechain=True, agentId="a1"),
    line("user", [result("c3", "seen")]),
    line("user", "<task-notification>it is over</task-notification>"),
    line("user", "<local-command-stdout>ok</local-command-stdout>"),
    line("user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
    line("user", [{"type": "image", "source": {}}, {"type": "text", "text": "and now?"}]),
    line("assistant", [{"type": "text", "text": "API Error: 400"}], of="m4", isApiErrorMessage=True),
]


def test_a_session_file(tmp_path: Path) -> None:
    told, problems = read(tmp_path, text_of(SESSION), "claude")

    assert told == [
        {"type": "turnStarted", "place": 2, "at": AT},
        {"type": "thought", "description": "hm", "message": "m1", "place": 5},
        {"type": "text", "delta": "Both.", "message": "m1", "place": 6},
        {"type": "toolCalls", "calls": [{"name": "Bash", "id": "c1", "args": {"command": "ls"}}]}
        | {"message": "m1", "place": 7},
        {"type": "toolResults", "results": [{"id": "c1", "output": "a\nb", "ok": True}], "place": 8},
        {"type": "toolCalls", "calls": [{"name": "Read", "id": "c2", "args": {"file_path": "a"}}]}
        | {"message": "m1", "place": 9},
        {
            "type": "toolResults",
            "results": [{"id": "c2", "ok": False, "error": [{"type": "text", "text": "no such file"}]}],
        }
        | {"place": 10, "at": AT},
        {"type": "compacted", "place": 12},
        {"type": "toolCalls", "calls": [{"name": "Task", "id": "c3", "args": {"prompt": "look"}}]}
        | {"message": "m2", "place": 14},
        {"type": "toolCalls", "calls": [{"name": "Bash", "id": "s1", "args": {"command": "pwd"}}]}
        | {"scope": "a1", "message": "m3", "place": 16},
        {"type": "toolResults", "results": [{"id": "s1", "output": "/", "ok": True}], "scope": "a1", "place": 17},
        {"type": "toolResults", "results": [{"id": "c3", "output": "seen", "ok": True}], "place": 18},
        {"type": "turnStarted", "origin": "notification", "place": 19},
        {"type": "turnEnded", "outcome": "cancelled", "place": 21},
        {"type": "turnStarted", "place": 22},
        {"type": "text", "delta": "API Error: 400", "message": "m4", "place": 23},
        {"type": "turnEnded", "outcome": "failed", "message": "m4", "place": 23},
    ]
    assert [(problem.line, problem.message) for problem in problems] == [(11, "not JSON")]


def test_a_subagent_of_older_versions_is_told_by_the_line_that_its_chain_begins_with(tmp_path: Path) -> None:
    lines = [
        line("user", "do it", uuid="u1"),
        line("user", "look here", uuid="r1", isSidechain=True),
        line("user", "look there", uuid="r2", isSidechain=True),
        line("assistant", [use("c1", command="ls")], of="m1", uuid="x1", parentUuid="r1", isSidechain=True),
        line("assistant", [use("c2", command="ls")], of="m2", uuid="y1", parentUuid="r2", isSidechain=True),
        line("user", [result("c1", "a")], uuid="x2", parentUuid="x1", isSidechain=True),
        line("assistant", [use("c3", command="ls")], of="m3", uuid="x3", parentUuid="x2", isSidechain=True),
    ]

    told, _ = read(tmp_path, text_of(lines), "claude")

    assert [(each["type"], each.get("scope")) for each in told] == [
        ("turnStarted", None),
        ("toolCalls", "r1"),
        ("toolCalls", "r2"),
        ("toolResults", "r1"),
        ("toolCalls", "r1"),
    ]


def test_a_compaction_of_older_versions_is_told_by_its_summary(tmp_path: Path) -> None:
    lines = [line("user", "This session is being continued", isCompactSummary=True), line("user", "go on")]

    told, _ = read(tmp_path, text_of(lines), "claude")

    assert [each["type"] for each in told] == ["compacted", "turnStarted"]


def test_an_error_of_a_subagent_does_not_end_the_turn(tmp_path: Path) -> None:
    lines = [
        line("user", "do it"),
        line(
            "assistant", [{"type": "text", "text": "API Error"}], isSidechain=True, agentId="a1", isApiErrorMessage=True
        ),
    ]

    told, _ = read(tmp_path, text_of(lines), "claude")

    assert [each["type"] for each in told] == ["turnStarted", "text"]


@pytest.mark.parametrize("kind", sorted(claude.SMALL_LINES))
def test_a_file_in_which_nothing_happened_is_a_session_of_no_turns(tmp_path: Path, kind: str) -> None:
    told, problems = read(tmp_path, text_of([{"type": kind}]), "claude")

    assert not told
    assert not problems


def stream(kind: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    """A line of the stream."""
    message = {} if content is None else {"message": {"id": fields.pop("of", "m1"), "content": content}}
    return {"duration_ms": 1, "type": kind, "session_id": "s", "parent_tool_use_id": None, **message, **fields}


INIT = stream("system", subtype="init", tools=["Bash"])


def test_the_stream(tmp_path: Path) -> None:
    lines: list[Line] = [
        "Some banner",
        INIT,
        stream("assistant", [use("c1", "Agent", prompt="look")], timestamp=AT),
        stream("user", [{"type": "text", "text": "look"}], parent_tool_use_id="c1"),
        stream("system", subtype="task_started"),
        stream("assistant", [use("s1", command="ls")], of="m2", parent_tool_use_id="c1"),
        stream("user", [result("s1", "a", is_error=False)], parent_tool_use_id="c1"),
        stream("user", [result("c1", [{"type": "text", "text": "a"}])]),
        stream("system", subtype="compact_boundary"),
        stream("user", "This session is being continued", isSynthetic=True),
        stream("stream_event", event={"type": "message_start"}),
        stream("assistant", [{"type": "text", "text": "Done."}], of="m3"),
        stream("result", subtype="success", is_error=False),
        INIT,
        stream("user", [{"type": "text", "text": "[Request interrupted by user]"}]),
        stream("result", subtype="error_during_execution", is_error=True),
        INIT,
        stream("result", subtype="success", is_error=True),
    ]

    told, problems = read(tmp_path, text_of(lines), "claude-stream")

    assert told == [
        {"type": "turnStarted", "place": 2},
        {"type": "toolCalls", "calls": [{"name": "Agent", "id": "c1", "args": {"prompt": "look"}}]}
        | {"message": "m1", "place": 3, "at": AT},
        {"type": "toolCalls", "calls": [{"name": "Bash", "id": "s1", "args": {"command": "ls"}}]}
        | {"scope": "c1", "message": "m2", "place": 6},
        {"type": "toolResults", "results": [{"id": "s1", "output": "a", "ok": True}]} | {"scope": "c1", "place": 7},
        {
            "type": "toolResults",
            "results": [{"id": "c1", "output": [{"type": "text", "text": "a"}], "ok": True}],
            "place": 8,
        },
        {"type": "compacted", "place": 9},
        {"type": "text", "delta": "Done.", "message": "m3", "place": 12},
        {"type": "turnEnded", "place": 13},
        {"type": "turnStarted", "place": 14},
        {"type": "turnEnded", "outcome": "cancelled", "place": 15},
        {"type": "turnStarted", "place": 17},
        {"type": "turnEnded", "outcome": "failed", "place": 18},
    ]
    assert [problem.line for problem in problems] == [1]


def test_what_is_done_after_a_turn_of_the_stream_is_a_turn(tmp_path: Path) -> None:
    lines = [INIT, stream("result"), stream("assistant", [use("c1")]), stream("result")]

    told, _ = read(tmp_path, text_of(lines), "claude-stream")

    assert [each["type"] for each in told] == ["turnStarted", "turnEnded", "turnStarted", "toolCalls", "turnEnded"]


def test_another_session_in_the_file_is_told_apart(tmp_path: Path) -> None:
    lines: list[Line] = [
        {"type": "summary", "summary": "x", "leafUuid": "u"},
        line("user", "do it"),
        line("user", "do that", sessionId="other"),
        line("assistant", [use("c1", command="ls")], sessionId="other"),
        line("assistant", [use("c1", command="ls")]),
    ]
    told, _ = read(tmp_path, text_of(lines), "claude")
    assert [each.get("session") for each in told] == [None, "other", "other", None]
