from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

THREAD = {"type": "thread.started", "thread_id": "t"}
TURN = {"type": "turn.started"}


def started(kind: str, item_id: str = "item_1", **fields: Any) -> dict[str, Any]:
    return {"type": "item.started", "item": {"id": item_id, "type": kind, "status": "in_progress", **fields}}


def completed(kind: str, item_id: str = "item_1", **fields: Any) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": item_id, "type": kind, "status": "completed"} | fields}


def command(line: str) -> dict[str, Any]:
    return {"command": line, "aggregated_output": "", "exit_code": None}


def test_the_stream(tmp_path: Path) -> None:
    ls, cat = "/bin/bash -lc ls", "/bin/bash -lc 'cat x'"
    lines: list[Line] = [
        THREAD,
        completed("error", "item_0", message="no metadata of the model"),
        TURN,
        completed("reasoning", text="hm"),
        started("command_execution", "item_2", **command(ls)),
        started("command_execution", "item_3", **command(cat)),
        {"type": "item.updated", "item": {"id": "item_3", "type": "command_execution", "command": cat}},
        completed("command_execution", "item_3", **command(cat) | {"exit_code": 1, "status": "failed"}),
        completed("command_execution", "item_2", **command(ls) | {"aggregated_output": "a\n", "exit_code": 0}),
        '{"type":"item.started","item":{"id":"item_4","type":"comm',
        completed("agent_message", "item_4", text="Done."),
        {"type": "turn.completed", "usage": {}},
        TURN,
        {"type": "error", "message": "Reconnecting... 1/5"},
        {"type": "turn.failed", "error": {"message": "400"}},
    ]

    told, problems = read(tmp_path, text_of(lines), "codex-exec")

    assert told == [
        {"type": "turnStarted", "place": 3},
        {"type": "thought", "description": "hm", "place": 4},
        {
            "type": "toolCalls",
            "calls": [{"name": "exec_command", "id": "item_2", "args": {"command": "ls"}}],
            "place": 5,
        },
        {
            "type": "toolCalls",
            "calls": [{"name": "exec_command", "id": "item_3", "args": {"command": "cat x"}}],
            "place": 6,
        },
        {"type": "toolResults", "results": [{"id": "item_3", "ok": False, "error": ""}], "place": 8},
        {"type": "toolResults", "results": [{"id": "item_2", "ok": True, "output": "a\n"}], "place": 9},
        {"type": "text", "delta": "Done.", "place": 11},
        {"type": "turnEnded", "place": 12},
        {"type": "turnStarted", "place": 13},
        {"type": "turnEnded", "outcome": "failed", "place": 15},
    ]
    assert [(problem.line, problem.message) for problem in problems] == [(10, "not JSON")]


@pytest.mark.parametrize(
    ("fields", "call", "result"),
    [
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {"a": 1}}
            | {"result": {"content": [{"type": "text", "text": "x"}]}, "error": None},
            {"name": "mcp__s__t", "args": {"a": 1}},
            {"ok": True, "output": {"content": [{"type": "text", "text": "x"}]}},
        ),
        (
            {"type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": None, "result": None}
            | {"error": {"message": "no"}, "status": "failed"},
            {"name": "mcp__s__t", "args": None},
            {"ok": False, "error": "no"},
        ),
        (
            {"type": "collab_tool_call", "tool": "wait", "receiver_thread_ids": ["r"], "prompt": None}
            | {"agents_states": {"r": {"status": "running"}}},
            {"name": "wait", "args": {"receiver_thread_ids": ["r"]}},
            {"ok": True, "output": {"r": {"status": "running"}}},
        ),
        (
            {"type": "command_execution", "command": "rm -rf x", "aggregated_output": "", "status": "declined"},
            {"name": "exec_command", "args": {"command": "rm -rf x"}},
            {"ok": False, "error": ""},
        ),
    ],
)
def test_a_call_of_which_only_the_end_is_shown(
    tmp_path: Path, fields: dict[str, Any], call: dict[str, Any], result: dict[str, Any]
) -> None:
    line = completed(**{"kind": fields["type"], **{key: value for key, value in fields.items() if key != "type"}})

    told, _ = read(tmp_path, text_of([THREAD, line]), "codex-exec")

    assert told == [
        {"type": "toolCalls", "calls": [{"id": "item_1", **call}], "place": 2},
        {"type": "toolResults", "results": [{"id": "item_1", **result}], "place": 2},
    ]


@pytest.mark.parametrize(
    ("status", "result"), [("completed", {"ok": True, "output": None}), ("failed", {"ok": False, "error": None})]
)
def test_two_patches_of_a_file_are_never_taken_for_one(tmp_path: Path, status: str, result: dict[str, Any]) -> None:
    changes = [{"path": "/p/a", "kind": "update"}]
    lines = [THREAD, started("file_change", changes=changes), completed("file_change", changes=changes, status=status)]

    told, _ = read(tmp_path, text_of(lines), "codex-exec")

    assert told == [
        {"type": "toolCalls", "place": 2}
        | {"calls": [{"name": "apply_patch", "id": "item_1", "args": {"changes": changes, "item": "item_1"}}]},
        {"type": "toolResults", "results": [{"id": "item_1", **result}], "place": 3},
    ]


def test_a_plan_is_a_call_each_time_it_changes(tmp_path: Path) -> None:
    first, second = [{"text": "a", "completed": False}], [{"text": "a", "completed": True}]
    lines = [
        THREAD,
        started("todo_list", items=first),
        {"type": "item.updated", "item": {"id": "item_1", "type": "todo_list", "items": second}},
        completed("todo_list", items=second),
    ]

    told, _ = read(tmp_path, text_of(lines), "codex-exec")

    assert told == [
        {"type": "toolCalls", "calls": [{"name": "update_plan", "id": "item_1.1", "args": first}], "place": 2},
        {"type": "toolResults", "results": [{"id": "item_1.1", "ok": True}], "place": 2},
        {"type": "toolCalls", "calls": [{"name": "update_plan", "id": "item_1.2", "args": second}], "place": 3},
        {"type": "toolResults", "results": [{"id": "item_1.2", "ok": True}], "place": 3},
    ]


@pytest.mark.parametrize(
    ("line", "handed"),
    [
        ("/bin/bash -lc 'git status'", "git status"),
        ("bash -c \"echo 'x'\"", "echo 'x'"),
        ("/usr/bin/zsh -lc ls", "ls"),
        ("/bin/bash -lc 'printf \"%s\"\nls'", 'printf "%s"\nls'),
        ("python -c 'print(1)'", "python -c 'print(1)'"),
        ("bash script.sh", "bash script.sh"),
    ],
)
def test_a_command_is_what_the_shell_was_handed(tmp_path: Path, line: str, handed: str) -> None:
    told, _ = read(tmp_path, text_of([THREAD, started("command_execution", **command(line))]), "codex-exec")

    assert told[0]["calls"][0]["args"] == {"command": handed}
