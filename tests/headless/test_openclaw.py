import json
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

from turnguard.headless.readers import openclaw
from turnguard.transcript import head_of

AT = "2026-03-01T10:00:00.000Z"
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": AT, "cwd": "/p"}


def entry(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": name, "parentId": None, "timestamp": AT, **fields}


def message(name: str, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return entry("message", name, message={"role": role, "content": content, **fields})


def call(call_id: str, command: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "exec", "arguments": {"command": command}, "partialJson": "{"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(name: str, call_id: str, words: str, *, is_error: bool = False, **fields: Any) -> dict[str, Any]:
    fields = {"toolCallId": call_id, "toolName": "exec", "isError": is_error, **fields}
    return message(name, "toolResult", [text(words)], **fields)


ENTRIES: list[Line] = [
    entry("model_change", "e1", provider="p", modelId="m"),
    message("e2", "user", "go"),
    message(
        "e3", "assistant", [{"type": "thinking", "thinking": "hm"}, text("Looking."), call("a", "ls"), call("b", "x")]
    ),
    result("e4", "a", "f", details={"status": "completed", "exitCode": 0}),
    result("e5", "b", "no", details={"status": "completed", "exitCode": 1}),
    entry("compaction", "e6", summary="s", tokensBefore=5),
    message("e7", "assistant", [call("c", "y")], stopReason="toolUse"),
    result("e8", "c", "Validation failed", is_error=True),
    message("e9", "assistant", [text("Sent.")], provider="openclaw", stopReason="stop"),
    message("e10", "assistant", [text("Done.")], provider="p", stopReason="stop"),
    message("e11", "user", [text("[cron:1 daily] look")]),
    message("e12", "assistant", [], stopReason="aborted"),
]


def told(first: int) -> list[dict[str, Any]]:
    """What the entries tell; `first`: the place of the first of them."""
    at = [{"place": first + number, "at": AT} for number in range(len(ENTRIES))]
    failed = {"content": [text("no")], "details": {"status": "completed", "exitCode": 1}}
    done = {"content": [text("f")], "details": {"status": "completed", "exitCode": 0}}
    calls = [
        {"name": "exec", "id": name, "args": {"command": command}}
        for name, command in (("a", "ls"), ("b", "x"), ("c", "y"))
    ]
    return [
        {"type": "turnStarted", **at[1]},
        {"type": "thought", "description": "hm", "message": "e3", **at[2]},
        {"type": "text", "delta": "Looking.", "message": "e3", **at[2]},
        {"type": "toolCalls", "calls": calls[:2], "message": "e3", **at[2]},
        {"type": "toolResults", "results": [{"id": "a", "name": "exec", "output": done, "ok": True}], **at[3]},
        {"type": "toolResults", "results": [{"id": "b", "name": "exec", "output": failed, "ok": False}], **at[4]},
        {"type": "compacted", **at[5]},
        {"type": "toolCalls", "calls": calls[2:], "message": "e7", **at[6]},
        {
            "type": "toolResults",
            "results": [{"id": "c", "name": "exec", "error": "Validation failed", "ok": False}],
            **at[7],
        },
        {"type": "text", "delta": "Done.", "message": "e10", **at[9]},
        {"type": "turnEnded", "message": "e10", **at[9]},
        {"type": "turnStarted", "origin": "cron", **at[10]},
        {"type": "turnEnded", "outcome": "cancelled", "message": "e12", **at[11]},
    ]


def test_a_session(tmp_path: Path) -> None:
    events, problems = read(tmp_path, text_of([HEADER, *ENTRIES]), "openclaw")
    assert events == told(first=2)
    assert problems == []


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    broken: list[Line] = ['{"type": "message", "mess', {"type": "message", "message": {"role": 7}}]
    lines: list[Line] = [HEADER, message("e1", "user", "go"), *broken, message("e2", "assistant", [call("a", "ls")])]
    events, problems = read(tmp_path, text_of(lines), "openclaw")
    assert [event["type"] for event in events] == ["turnStarted", "toolCalls"]
    assert [problem.line for problem in problems] == [3, 4]


def test_an_export(tmp_path: Path) -> None:
    document = {"header": HEADER, "leafId": "e12", "entries": ENTRIES}
    events, problems = read(tmp_path, json.dumps(document, indent=1), "openclaw-export")
    assert events == told(first=1)
    assert problems == []


@pytest.mark.parametrize(
    ("tool", "fields", "ok"),
    [
        ("read", {"isError": False}, True),
        ("read", {"isError": False, "details": {"status": "error"}}, False),
        ("read", {"isError": False, "details": {"status": 7}}, True),
        ("read", {"isError": False, "details": "text"}, True),
        ("read", {}, None),
        ("exec", {"isError": False, "details": {"status": "running"}}, None),
        ("exec", {"isError": False, "details": {"status": "completed", "exitCode": 0}}, True),
        ("exec", {"isError": False, "details": {"status": "failed"}}, False),
    ],
)
def test_whether_a_call_succeeded(tmp_path: Path, tool: str, fields: dict[str, Any], ok: bool | None) -> None:
    lines: list[Line] = [HEADER, message("e", "toolResult", [text("x")], toolCallId="a", toolName=tool, **fields)]
    events, _ = read(tmp_path, text_of(lines), "openclaw")
    assert events[0]["results"][0].get("ok") is ok


def test_entries_of_the_first_version_have_no_ids(tmp_path: Path) -> None:
    lines: list[Line] = [
        {"type": "session", "id": "s", "timestamp": AT, "cwd": "/p"},
        {"type": "message", "timestamp": AT, "message": {"role": "assistant", "content": [call("a", "ls")]}},
        {"type": "message", "timestamp": AT, "message": {"role": "assistant", "content": [call("b", "ls")]}},
    ]
    events, _ = read(tmp_path, text_of(lines), "openclaw")
    assert [event["message"] for event in events] == ["2", "3"]


def test_only_an_answer_without_calls_ends_a_turn(tmp_path: Path) -> None:
    for reason in ("length", "error", "toolUse"):
        events, _ = read(
            tmp_path, text_of([HEADER, message("e", "assistant", [text("x")], stopReason=reason)]), "openclaw"
        )
        assert [event["type"] for event in events] == ["text"]
    events, _ = read(
        tmp_path, text_of([HEADER, message("e", "assistant", [call("a", "ls")], stopReason="stop")]), "openclaw"
    )
    assert [event["type"] for event in events] == ["toolCalls"]


def test_other_entries_say_nothing(tmp_path: Path) -> None:
    kept = {"role": "assistant", "content": [call("a", "ls")]}
    lines: list[Line] = [
        HEADER,
        message("e1", "bashExecution", None, command="ls"),
        entry("custom", "e2", message=kept),
    ]
    events, problems = read(tmp_path, text_of(lines), "openclaw")
    assert (events, problems) == ([], [])


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER],
        [HEADER, {"type": "agent_start"}, {"type": "message_start", "message": {"role": "user", "content": "x"}}],
        [HEADER, {"type": "message", "text": "x"}],
        [message("e", "user", "go")],
    ],
)
def test_what_is_no_session(lines: list[Any]) -> None:
    assert not openclaw.FORMAT.recognises(head_of([json.dumps(line).encode() for line in lines]))
