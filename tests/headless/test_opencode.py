import json
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

MS, AT = 1772359200123, "2026-03-01T10:00:00.123+00:00"


def tool(call_id: str, name: str, status: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": name, "callID": call_id, "state": {"status": status, **state}}


LS = tool("c1", "bash", "completed", input={"command": "ls"}, output="a", metadata={"exit": 0, "output": "a"})
CAT = tool("c2", "bash", "completed", input={"command": "cat x"}, output="no", metadata={"exit": 1})
READ = tool("c3", "read", "error", input={"filePath": "x"}, error="File not found")
STEP = {"type": "step-start", "snapshot": "1"}


def finish(reason: str) -> dict[str, Any]:
    return {"type": "step-finish", "reason": reason, "cost": 0}


def called(call_id: str, name: str, **args: Any) -> dict[str, Any]:
    return {"type": "toolCalls", "calls": [{"name": name, "id": call_id, "args": args}]}


OF_CALLS: list[dict[str, Any]] = [
    called("c1", "bash", command="ls"),
    {"type": "toolResults", "results": [{"id": "c1", "output": "a", "ok": True}]},
    called("c2", "bash", command="cat x"),
    {"type": "toolResults", "results": [{"id": "c2", "error": "no", "ok": False}]},
    called("c3", "read", filePath="x"),
    {"type": "toolResults", "results": [{"id": "c3", "error": "File not found", "ok": False}]},
]


def line(message_id: str, part: dict[str, Any]) -> dict[str, Any]:
    kind = {"tool": "tool_use"}.get(part["type"], part["type"].replace("-", "_"))
    return {
        "type": kind,
        "timestamp": MS,
        "sessionID": "s",
        "part": {**part, "messageID": message_id, "sessionID": "s"},
    }


GOES_ON = {
    "type": "text",
    "text": "Continue if you have next steps",
    "synthetic": True,
    "metadata": {"compaction_continue": True},
}


def test_the_stream(tmp_path: Path) -> None:
    lines: list[Line] = [
        "warning: something",
        line("m1", STEP),
        line("m1", {"type": "reasoning", "text": "hm"}),
        *(line("m1", part) for part in (LS, CAT, READ)),
        '{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"type":"tool","to',
        line("m1", finish("tool-calls")),
        line("m2", {"type": "text", "text": "<summary>"}),
        line("m2", finish("stop")),
        line("m3", GOES_ON),
        line("m4", STEP),
        line("m4", {"type": "text", "text": "Done."}),
        line("m4", finish("stop")),
    ]

    told, problems = read(tmp_path, text_of(lines), "opencode-stream")

    places = [4, 4, 5, 5, 6, 6]
    assert told == [
        {"type": "turnStarted", "message": "m1", "place": 2, "at": AT},
        {"type": "thought", "description": "hm", "message": "m1", "place": 3, "at": AT},
        *({**event, "message": "m1", "place": place, "at": AT} for event, place in zip(OF_CALLS, places, strict=True)),
        {"type": "text", "delta": "<summary>", "message": "m2", "place": 9, "at": AT},
        {"type": "compacted", "message": "m3", "place": 11, "at": AT},
        {"type": "text", "delta": "Done.", "message": "m4", "place": 13, "at": AT},
        {"type": "turnEnded"},
    ]
    assert [problem.line for problem in problems] == [1, 7]


@pytest.mark.parametrize(("name", "outcome"), [("MessageAbortedError", "cancelled"), ("APIError", "failed")])
def test_an_error_ends_the_turn_of_the_stream(tmp_path: Path, name: str, outcome: str) -> None:
    error = {"type": "error", "timestamp": MS, "sessionID": "s", "error": {"name": name, "data": {}}}

    told, _ = read(tmp_path, text_of([error]), "opencode-stream")

    assert told == [
        {"type": "turnStarted", "at": AT, "place": 1},
        {"type": "turnEnded", "outcome": outcome, "at": AT, "place": 1},
    ]


def test_a_stream_that_breaks_off_has_a_turn_without_an_end(tmp_path: Path) -> None:
    told, _ = read(tmp_path, text_of([line("m1", LS), line("m1", finish("tool-calls"))]), "opencode-stream")

    assert [each["type"] for each in told] == ["turnStarted", "toolCalls", "toolResults"]


def message(message_id: str, role: str, *parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"info": {"id": message_id, "role": role, "time": {"created": MS}, **fields}, "parts": list(parts)}


def export(*messages: Any, indent: int | None = 2, **about: Any) -> str:
    return json.dumps({"info": {"id": "s", "version": "1.18", **about}, "messages": messages}, indent=indent)


PROMPT = {"type": "text", "text": "do it"}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_export(tmp_path: Path, indent: int | None) -> None:
    document = export(
        message("u1", "user", PROMPT, {"type": "text", "text": "file", "synthetic": True}, summary={"diffs": []}),
        message(
            "a1", "assistant", STEP, {"type": "reasoning", "text": "hm"}, LS, CAT, READ, finish("stop"), finish="stop"
        ),
        message("u2", "user", {"type": "compaction", "auto": True}),
        message("a2", "assistant", {"type": "text", "text": "<summary>"}, finish="stop", summary=True),
        message("u3", "user", GOES_ON),
        {"info": {"id": "a3", "role": "assistant"}, "parts": "none"},
        message("a4", "assistant", {"type": "text", "text": "Done."}, finish="stop"),
        message("u4", "user", PROMPT),
        message("a5", "assistant", tool("c4", "bash", "running", input={"command": "sleep 9"})),
        message("u5", "user", PROMPT),
        message("a6", "assistant", error={"name": "MessageAbortedError"}),
        message("u6", "user", PROMPT),
        message("a7", "assistant", error={"name": "APIError"}),
        indent=indent,
    )

    told, problems = read(tmp_path, document, "opencode")

    assert [{key: value for key, value in each.items() if key != "at"} for each in told] == [
        {"type": "turnStarted", "place": 1},
        {"type": "thought", "description": "hm", "message": "a1", "place": 2},
        *({**event, "message": "a1", "place": 2} for event in OF_CALLS),
        {"type": "compacted", "place": 3},
        {"type": "text", "delta": "Done.", "message": "a4", "place": 7},
        {"type": "turnEnded", "place": 7},
        {"type": "turnStarted", "place": 8},
        {**called("c4", "bash", command="sleep 9"), "message": "a5", "place": 9},
        {"type": "turnStarted", "place": 10},
        {"type": "turnEnded", "outcome": "cancelled", "place": 11},
        {"type": "turnStarted", "place": 12},
        {"type": "turnEnded", "outcome": "failed", "place": 13},
    ]
    assert {each["at"] for each in told} == {AT}
    assert [(problem.line, problem.message) for problem in problems] == [
        (6, "Expected `array`, got `str` - at `$.parts`")
    ]


def test_each_step_of_a_message_is_a_response(tmp_path: Path) -> None:
    """As older versions wrote them."""
    parts = (STEP, LS, CAT, finish("tool-calls"), STEP, READ)
    lines = [line("m1", part) for part in parts]

    for text, name in ((text_of(lines), "opencode-stream"), (export(message("m1", "assistant", *parts)), "opencode")):
        told, _ = read(tmp_path, text, name)
        assert [each["message"] for each in told if each["type"] == "toolCalls"] == ["m1", "m1", "m1.2"]


def test_a_session_with_a_parent_is_one_of_a_subagent(tmp_path: Path) -> None:
    document = export(message("u1", "user", PROMPT), message("a1", "assistant", LS), parentID="p")

    told, _ = read(tmp_path, document, "opencode")

    assert {each["scope"] for each in told} == {"s"}


def test_an_export_that_was_cut_off_cannot_be_read(tmp_path: Path) -> None:
    told, problems = read(tmp_path, export(message("u1", "user", PROMPT))[:-20], "opencode")

    assert not told
    assert [(problem.line, problem.message) for problem in problems] == [(None, "not JSON")]
