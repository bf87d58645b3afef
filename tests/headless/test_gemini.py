import json
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

AT = "2026-03-01T10:00:00.000Z"
HEAD = {"sessionId": "s", "projectHash": "h", "startTime": AT, "lastUpdated": AT, "kind": "main"}
TOUCHED = {"$set": {"lastUpdated": AT}}


def message(message_id: str, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"id": message_id, "timestamp": AT, "type": kind, "content": content, **fields}


def user(message_id: str, text: str) -> dict[str, Any]:
    return message(message_id, "user", [{"text": text}])


def call(call_id: str, name: str, *, status: str = "success", response: Any = None, **args: Any) -> dict[str, Any]:
    part = {"functionResponse": {"id": call_id, "name": name, "response": response}}
    return {"id": call_id, "name": name, "args": args, "result": [part], "status": status, "resultDisplay": "shown"}


CALLS = [
    call("c1", "run_shell_command", command="ls", response={"output": "Output: a\nProcess Group PGID: 77"}),
    call("c2", "read_file", path="x", status="error", response={"error": "File not found."}),
]
RESPONSES = message("u2", "user", [CALLS[0]["result"][0], CALLS[1]["result"][0]])
THOUGHTS = [{"subject": "Look", "description": "at it", "timestamp": AT}]
FIRST = message("g1", "gemini", "Both.", thoughts=THOUGHTS)

OF_CALLS: list[dict[str, Any]] = [
    {"type": "thought", "subject": "Look", "description": "at it"},
    {"type": "text", "delta": "Both."},
    {
        "type": "toolCalls",
        "calls": [
            {"name": "run_shell_command", "id": "c1", "args": {"command": "ls"}},
            {"name": "read_file", "id": "c2", "args": {"path": "x"}},
        ],
    },
    {
        "type": "toolResults",
        "results": [
            {"id": "c1", "output": "Output: a", "ok": True},
            {"id": "c2", "error": "File not found.", "ok": False},
        ],
    },
]


def test_a_chat_log(tmp_path: Path) -> None:
    lines: list[Line] = [
        HEAD,
        {"$set": {"messages": [user("u0", "<session_context>")], "lastUpdated": AT}},
        user("u1", "do it"),
        TOUCHED,
        FIRST,
        '{"id":"g1","timestamp":"2026-03-01T10:00:00.000Z","type":"gemini","toolCa',
        FIRST | {"toolCalls": CALLS},
        RESPONSES,
        FIRST | {"toolCalls": CALLS, "tokens": {"input": 1}},
        user("u3", "System: Potential loop detected. Details: ..."),
        message("i1", "info", "Request cancelled."),
        {"$rewindTo": "u3"},
        user("u4", "once more"),
        message("g2", "gemini", "No."),
    ]

    told, problems = read(tmp_path, text_of(lines), "gemini")

    places = [5, 5, 7, 7]
    assert told == [
        {"type": "turnStarted", "place": 3, "at": AT},
        *({**event, "message": "g1", "place": place, "at": AT} for event, place in zip(OF_CALLS, places, strict=True)),
        {"type": "turnStarted", "place": 13, "at": AT},
        {"type": "text", "delta": "No.", "message": "g2", "place": 14, "at": AT},
    ]
    assert [(problem.line, problem.message) for problem in problems] == [(6, "not JSON")]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_chat_log_that_is_one_document(tmp_path: Path, indent: int | None) -> None:
    messages = [
        message("u1", "user", "do it"),
        FIRST | {"toolCalls": CALLS},
        {"id": 3},
        message("e", "error", "[API Error]"),
    ]
    document = HEAD | {"messages": messages}

    told, problems = read(tmp_path, json.dumps(document, indent=indent) + "\n", "gemini")

    assert told == [
        {"type": "turnStarted", "place": 1, "at": AT},
        *({**event, "message": "g1", "place": 2, "at": AT} for event in OF_CALLS),
    ]
    assert [(problem.line, problem.message) for problem in problems] == [
        (3, "Expected `str | null`, got `int` - at `$.id`")
    ]


def test_a_history_that_is_written_down_again_tells_nothing_twice(tmp_path: Path) -> None:
    again = [user("u1", "do it"), message("g1", "gemini", [{"functionCall": {"id": "c1"}}]), user("u9", "do it")]
    lines = [HEAD, user("u1", "do it"), FIRST | {"toolCalls": CALLS}, HEAD, {"$set": {"messages": again}}, *again]

    told, _ = read(tmp_path, text_of(lines), "gemini")

    assert [each["type"] for each in told] == ["turnStarted", "thought", "text", "toolCalls", "toolResults"]


def test_a_history_that_was_compacted_is_told_once(tmp_path: Path) -> None:
    summary = [
        user("u8", "<state_snapshot>"),
        message("g8", "gemini", [{"text": "Got it. Thanks for the additional context!"}]),
    ]
    lines = [
        HEAD,
        user("u1", "do it"),
        {"$set": {"messages": summary}},
        {"$set": {"messages": [*summary, user("u9", "a")]}},
    ]

    told, _ = read(tmp_path, text_of(lines), "gemini")

    assert [(each["type"], each["place"]) for each in told] == [("turnStarted", 2), ("compacted", 3)]


def test_calls_that_come_into_a_message_later_are_of_another_response(tmp_path: Path) -> None:
    more = call("c3", "glob", pattern="*", response={"output": "x"})
    lines = [HEAD, user("u1", "do it"), FIRST | {"toolCalls": CALLS}, FIRST | {"toolCalls": [*CALLS, more]}]

    told, _ = read(tmp_path, text_of(lines), "gemini")

    assert [each["message"] for each in told if each["type"] == "toolCalls"] == ["g1", "g1.2"]


def test_a_subagent_has_a_file_of_its_own(tmp_path: Path) -> None:
    lines = [HEAD | {"sessionId": "sub", "kind": "subagent"}, user("u1", "look"), FIRST | {"toolCalls": CALLS}]

    told, _ = read(tmp_path, text_of(lines), "gemini")

    assert [(each["type"], each["scope"]) for each in told] == [
        ("thought", "sub"),
        ("text", "sub"),
        ("toolCalls", "sub"),
        ("toolResults", "sub"),
    ]


WRAPPED = "<untrusted_context>\nOutput: no\nExit Code: 2\nBackground PIDs: 1, 2{}\n</untrusted_context>"
SHELL = "run_shell_command"


@pytest.mark.parametrize(
    ("name", "status", "response", "expected"),
    [
        (SHELL, "success", {"output": WRAPPED.format("\nProcess Group PGID: 9")}, {"error": WRAPPED.format("")}),
        (SHELL, "success", {"output": "Exit Code: 2\nand more"}, {"output": "Exit Code: 2\nand more"}),
        ("grep", "success", {"output": "a\nExit Code: 2"}, {"output": "a\nExit Code: 2"}),
        ("grep", "success", {"matches": 0}, {"output": {"matches": 0}}),
        ("grep", "cancelled", {"error": "[Cancelled]"}, {"error": "[Cancelled]", "errorType": "cancelled"}),
        ("grep", "success", None, {"output": None}),
    ],
)
def test_what_became_of_a_call(tmp_path: Path, name: str, status: str, response: Any, expected: dict[str, Any]) -> None:
    lines = [HEAD, message("g1", "gemini", "", toolCalls=[call("c", name, status=status, response=response)])]

    result = read(tmp_path, text_of(lines), "gemini")[0][-1]["results"][0]

    assert result == {"id": "c", "ok": "error" not in expected, **expected}


def test_a_call_without_an_answer_has_an_unknown_outcome(tmp_path: Path) -> None:
    lines = [HEAD, message("g1", "gemini", "", toolCalls=[call("c", "grep") | {"result": None}])]

    assert read(tmp_path, text_of(lines), "gemini")[0][-1]["results"] == [{"id": "c", "ok": True}]


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": AT, **fields}


def use(call_id: str, name: str, **parameters: Any) -> dict[str, Any]:
    return line("tool_use", tool_id=call_id, tool_name=name, parameters=parameters)


def used(call_id: str, status: str = "success", **fields: Any) -> dict[str, Any]:
    return line("tool_result", tool_id=call_id, status=status, **fields)


def test_the_stream(tmp_path: Path) -> None:
    lines: list[Line] = [
        "Loaded cached credentials.",
        line("init", session_id="s", model="m"),
        line("message", role="user", content="do it"),
        line("message", role="assistant", content="Bo", delta=True),
        use("c1", "run_shell_command", command="ls"),
        use("c2", "read_file", path="x"),
        used("c1", output="a"),
        used("c2", "error", output="shown", error={"type": "file_not_found", "message": "no such file"}),
        line("error", severity="warning", message="Loop detected"),
        use("c3", "write_file", path="y"),
        used("c3"),
        use("c4", "read_file", path="y"),
        used("c4", output=""),
        line("result", status="success", stats={}),
        line("init", session_id="s", model="m"),
        line("message", role="assistant", content="No."),
        line("result", status="error", error={"message": "400"}),
    ]

    told, problems = read(tmp_path, text_of(lines), "gemini-stream")

    assert [{key: value for key, value in each.items() if key != "at"} for each in told] == [
        {"type": "turnStarted", "place": 2},
        {"type": "text", "delta": "Bo", "message": "1", "place": 4},
        {"type": "toolCalls", "calls": [{"name": "run_shell_command", "id": "c1", "args": {"command": "ls"}}]}
        | {"message": "1", "place": 5},
        {"type": "toolCalls", "calls": [{"name": "read_file", "id": "c2", "args": {"path": "x"}}]}
        | {"message": "1", "place": 6},
        {"type": "toolResults", "results": [{"id": "c1", "output": "a"}], "place": 7},
        {"type": "toolResults", "results": [{"id": "c2", "ok": False, "error": "no such file"}], "place": 8},
        {"type": "toolCalls", "calls": [{"name": "write_file", "id": "c3", "args": {"path": "y"}}]}
        | {"message": "2", "place": 10},
        {"type": "toolResults", "results": [{"id": "c3", "output": None, "ok": True}], "place": 11},
        {"type": "toolCalls", "calls": [{"name": "read_file", "id": "c4", "args": {"path": "y"}}]}
        | {"message": "3", "place": 12},
        {"type": "toolResults", "results": [{"id": "c4", "ok": True}], "place": 13},
        {"type": "turnEnded", "place": 14},
        {"type": "turnStarted", "place": 15},
        {"type": "text", "delta": "No.", "message": "4", "place": 16},
        {"type": "turnEnded", "outcome": "failed", "place": 17},
    ]
    assert [problem.line for problem in problems] == [1]
