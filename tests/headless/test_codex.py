import json
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

AT = "2026-03-01T10:00:00.000Z"


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "response_item", "payload": {"type": kind, **fields}}


def event(event_type: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "event_msg", "payload": {"type": event_type, **fields}}


def words(role: str, text: str, **fields: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}], **fields)


def call(call_id: str, command: str) -> dict[str, Any]:
    return item("function_call", name="exec_command", arguments=json.dumps({"cmd": command}), call_id=call_id)


def output(call_id: str, text: Any) -> dict[str, Any]:
    return item("function_call_output", call_id=call_id, output=text)


def told_call(call_id: str, command: str, message: str, place: int) -> dict[str, Any]:
    """What is told of `call`."""
    calls = [{"name": "exec_command", "id": call_id, "args": {"cmd": command}}]
    return {"type": "toolCalls", "calls": calls, "message": message, "place": place, "at": AT}


META = {"timestamp": AT, "type": "session_meta", "payload": {"id": "t", "cwd": "/p", "source": "exec"}}
USAGE = event("token_count", info=None)
STARTED, COMPLETE = event("task_started", turn_id="1"), event("task_complete", turn_id="1")
HEADER = "Chunk ID: 12ab\nWall time: 0.1 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n"


def test_a_rollout(tmp_path: Path) -> None:
    lines: list[Line] = [
        META,
        STARTED,
        words("developer", "<permissions instructions>"),
        words("user", "<environment_context>\n</environment_context>"),
        {"timestamp": AT, "type": "turn_context", "payload": {"summary": "none"}},
        words("user", "do it", internal_chat_message_metadata_passthrough={"content_item_kinds": ["user.text"]}),
        event("item_completed", item={"type": "UserMessage", "id": "u"}),
        item("reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x"),
        call("c1", "ls"),
        call("c2", "cat x"),
        output("c1", HEADER.format(0) + "a\n"),
        call("c3", "pwd"),
        {"timestamp": AT, "type": "token_usage_record", "payload": {}},
        '{"timestamp": "x", "type": "response_item", "payload": {"type": "function_call", "name"',
        event("item_completed", item={"type": "CommandExecution", "id": "c2", "exit_code": 1, "status": "failed"}),
        output("c2", "cat: x: no such file"),
        output("c3", HEADER.format(3)),
        item("web_search_call", action={"type": "search"}),
        words("user", "<subagent_notification>{}</subagent_notification>"),
        {
            "timestamp": AT,
            "type": "compacted",
            "payload": {"message": "", "replacement_history": [{"type": "message"}]},
        },
        event("context_compacted"),
        item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c4"),
        item(
            "custom_tool_call_output", call_id="c4", output=json.dumps({"output": "ok", "metadata": {"exit_code": 0}})
        ),
        words("user", "and hurry"),
        event("user_message", message="and hurry"),
        words("assistant", "Done."),
        event("agent_message", message="Done."),
        COMPLETE,
    ]

    told, problems = read(tmp_path, text_of(lines), "codex")

    assert told == [
        {"type": "turnStarted", "place": 2, "at": AT},
        {"type": "thought", "description": "hm", "message": "1", "place": 8, "at": AT},
        told_call("c1", "ls", "1", 9),
        told_call("c2", "cat x", "1", 10),
        {"type": "toolResults", "results": [{"id": "c1", "output": "a\n", "ok": True}], "place": 11, "at": AT},
        told_call("c3", "pwd", "2", 12),
        {"type": "toolResults", "results": [{"id": "c2", "error": "cat: x: no such file", "ok": False}]}
        | {"place": 16, "at": AT},
        {"type": "toolResults", "results": [{"id": "c3", "error": "", "ok": False}], "place": 17, "at": AT},
        {"type": "compacted", "place": 20, "at": AT},
        {"type": "toolCalls", "calls": [{"name": "apply_patch", "id": "c4", "args": {"input": "*** Begin Patch"}}]}
        | {"message": "3", "place": 22, "at": AT},
        {"type": "toolResults", "results": [{"id": "c4", "output": "ok", "ok": True}], "place": 23, "at": AT},
        {"type": "userInput", "place": 24, "at": AT},
        {"type": "text", "delta": "Done.", "message": "3", "place": 26, "at": AT},
        {"type": "turnEnded", "place": 28, "at": AT},
    ]
    assert [(problem.line, problem.message) for problem in problems] == [(14, "not JSON")]


def test_once_usage_was_told_only_it_parts_responses(tmp_path: Path) -> None:
    lines = [
        *(META, STARTED, call("c1", "a"), USAGE, output("c1", "")),
        *(call("c2", "b"), output("c2", ""), call("c3", "c"), USAGE, output("c3", ""), call("c4", "d")),
    ]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [each["message"] for each in told if each["type"] == "toolCalls"] == ["0", "1", "1", "2"]


def test_older_versions_part_responses_by_the_context_that_they_write_for_each_request(tmp_path: Path) -> None:
    context = {"timestamp": AT, "type": "turn_context", "payload": {}}

    told, _ = read(tmp_path, text_of([META, call("c1", "a"), context, call("c2", "b"), call("c3", "c")]), "codex")

    assert [each["message"] for each in told] == ["0", "1", "1"]


def test_a_rollout_without_events_has_a_turn_for_each_prompt(tmp_path: Path) -> None:
    """As version 0.30 wrote it: nothing stands around an item, and a result is JSON in a string."""

    def bare(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, **fields}

    def prompt(text: str) -> dict[str, Any]:
        return bare("message", role="user", content=[{"type": "input_text", "text": text}])

    failed = json.dumps({"output": "no\n", "metadata": {"exit_code": 2, "duration_seconds": 0.1}})
    lines = [
        {"id": "t", "timestamp": AT, "instructions": None, "git": {"branch": "main"}},
        {"record_type": "state"},
        prompt("<user_instructions>be brief</user_instructions>"),
        prompt("<environment_context></environment_context>"),
        prompt("do it"),
        bare("reasoning", summary=[], content=None),
        bare("function_call", name="shell", arguments='{"command":["ls"]}', call_id="c1"),
        {"record_type": "state"},
        bare("function_call_output", call_id="c1", output=failed),
        bare("local_shell_call", id="c2", call_id=None, status="completed", action={"type": "exec", "command": ["ls"]}),
        bare("function_call_output", call_id="c2", output={"content": "a", "success": True}),
        prompt("once more"),
        bare("message", role="assistant", content=[{"type": "output_text", "text": "No."}]),
    ]

    told, problems = read(tmp_path, text_of(lines), "codex")

    assert told == [
        {"type": "turnStarted", "place": 5},
        {
            "type": "toolCalls",
            "calls": [{"name": "shell", "id": "c1", "args": {"command": ["ls"]}}],
            "message": "0",
            "place": 7,
        },
        {"type": "toolResults", "results": [{"id": "c1", "error": "no\n", "ok": False}], "place": 9},
        {
            "type": "toolCalls",
            "calls": [{"name": "local_shell", "id": "c2", "args": {"type": "exec", "command": ["ls"]}}],
        }
        | {"message": "1", "place": 10},
        {"type": "toolResults", "results": [{"id": "c2", "output": "a", "ok": True}], "place": 11},
        {"type": "turnStarted", "place": 12},
        {"type": "text", "delta": "No.", "message": "2", "place": 13},
    ]
    assert not problems


def test_words_of_the_user_are_told_once_where_an_event_says_them_again(tmp_path: Path) -> None:
    context = event("user_message", message="<environment_context>", kind="environment_context")
    again = event("user_message", message="a", kind="plain")
    lines = [META, context, words("user", "a"), again, words("assistant", "b"), again, words("assistant", "c")]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [(each["type"], each["place"]) for each in told] == [
        *(("turnStarted", 3), ("text", 5)),
        *(("turnStarted", 6), ("text", 7)),
    ]


def test_a_turn_begins_with_the_first_of_its_signs(tmp_path: Path) -> None:
    lines = [META, words("user", "a"), STARTED, words("assistant", "b"), COMPLETE, words("user", "c")]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [(each["type"], each["place"]) for each in told] == [
        *(("turnStarted", 2), ("text", 4), ("turnEnded", 5)),
        ("turnStarted", 6),
    ]


def test_words_that_codex_wrote_are_known_by_their_kind(tmp_path: Path) -> None:
    kinds = {"content_item_kinds": ["environments.something_new"]}
    lines = [META, words("user", "Hi.", internal_chat_message_metadata_passthrough=kinds), words("user", "Hi.")]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [each["place"] for each in told] == [3]


def test_a_turn_that_the_user_stops(tmp_path: Path) -> None:
    lines = [
        *(META, STARTED, words("user", "do it"), call("c1", "sleep 20")),
        *(output("c1", "Wall time: 2.0 seconds\naborted by user"), words("user", "<turn_aborted>\n</turn_aborted>")),
        *(event("turn_aborted", reason="interrupted"), STARTED, event("task_complete", error={"message": "400"})),
    ]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [{**each, "at": None} for each in told] == [
        {"type": "turnStarted", "place": 2, "at": None},
        {**told_call("c1", "sleep 20", "0", 4), "at": None},
        {"type": "toolResults", "place": 5, "at": None}
        | {
            "results": [
                {"id": "c1", "ok": False, "error": "Wall time: 2.0 seconds\naborted by user", "errorType": "cancelled"}
            ]
        },
        {"type": "turnEnded", "outcome": "cancelled", "place": 7, "at": None},
        {"type": "turnStarted", "place": 8, "at": None},
        {"type": "turnEnded", "outcome": "failed", "place": 9, "at": None},
    ]


def test_a_subagent_has_a_file_of_its_own(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
    mine = {**META, "payload": {"id": "t2", "source": source}}

    told, _ = read(tmp_path, text_of([mine, META, STARTED, call("c1", "ls"), COMPLETE]), "codex")

    assert {each["scope"] for each in told} == {"t2"}


@pytest.mark.parametrize("text", ["aborted by user after 0.1s", "Wall time: 2.0 seconds\naborted by user"])
def test_a_call_that_the_user_stops_has_failed(tmp_path: Path, text: str) -> None:
    told, _ = read(tmp_path, text_of([META, output("c1", text), output("c2", f"{text}, it says")]), "codex")

    assert [each["results"][0] for each in told] == [
        {"id": "c1", "ok": False, "error": text, "errorType": "cancelled"},
        {"id": "c2", "output": f"{text}, it says"},
    ]


@pytest.mark.parametrize(
    ("text", "told", "ok"),
    [
        ("Exit code: 0\nWall time: 1 seconds\nTotal output lines: 2\nOutput:\na\nb", "a\nb", True),
        ("Wall time: 0.0 seconds\nOutput:\nExit code: 1\nWall time: 0 seconds\nOutput:\nno", "no", False),
        ("Chunk ID: 1\nWall time: 9 seconds\nProcess running with session ID 7\nOutput:\n..", "..", None),
        ("no header", "no header", None),
        ('{"output":"cut', '{"output":"cut', None),
        ([{"type": "input_text", "text": "a"}], [{"type": "input_text", "text": "a"}], None),
    ],
)
def test_what_a_result_says_stands_below_its_header(tmp_path: Path, text: Any, told: Any, ok: bool | None) -> None:
    each = read(tmp_path, text_of([META, output("c1", text)]), "codex")[0][0]["results"][0]

    assert each.get("output", each.get("error")) == told
    assert each.get("ok") is ok
    assert ("error" in each) is (ok is False)


PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"cmd": PATCH}, "apply_patch"),
        ({"workdir": "/p", "command": ["bash", "-lc", f"cd /p && {PATCH}"]}, "apply_patch"),
        ({"command": ["apply_patch", "*** Begin Patch"]}, "apply_patch"),
        ({"cmd": f"cat <<'EOF' > note\n{PATCH}"}, "exec_command"),
        ({"cmd": 3, "why": "*** Begin Patch"}, "exec_command"),
        ("*** Begin Patch", "exec_command"),
    ],
)
def test_a_command_that_is_a_patch_is_one(tmp_path: Path, arguments: Any, name: str) -> None:
    lines = [META, item("function_call", name="exec_command", call_id="c", arguments=json.dumps(arguments))]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert told[0]["calls"] == [{"name": name, "id": "c", "args": arguments}]


def test_arguments_that_are_no_json_are_a_text(tmp_path: Path) -> None:
    lines = [META, *(item("function_call", name="f", call_id="c", arguments=text) for text in ('{"a', "", '{"a":1}'))]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [each["calls"][0]["args"] for each in told] == ['{"a', {}, {"a": 1}]


def test_a_search_for_tools_is_a_call_where_codex_does_it_itself(tmp_path: Path) -> None:
    lines = [
        META,
        item("tool_search_call", call_id="c1", execution="client", arguments={"query": "q"}),
        item("tool_search_output", call_id="c1", execution="client", tools=[]),
        item("tool_search_call", call_id=None, execution="server", arguments={"query": "q"}),
    ]

    told, _ = read(tmp_path, text_of(lines), "codex")

    assert [each["type"] for each in told] == ["toolCalls", "toolResults"]
    assert told[0]["calls"] == [{"name": "tool_search", "id": "c1", "args": {"query": "q"}}]
    assert told[1]["results"] == [{"id": "c1", "output": []}]
