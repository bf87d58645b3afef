import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from tests.headless.reading import read

from turnguard.headless.readers import cline
from turnguard.transcript import head_of

DETAILS = "<environment_details>\n# Current Time\n1:00\n</environment_details>"
ROO_DETAILS = "<environment_details>\n# Current Mode\n<slug>code</slug>\n</environment_details>"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*texts: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(each) if isinstance(each, str) else each for each in texts], **fields}


def model(*blocks: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**user(*blocks, **fields), "role": "assistant"}


def use(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments, "call_id": call_id}


def result(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


NO_SUCCESS = "Command execution was not successful, inspect the cause and adjust as needed."
"""What Roo Code writes before an exit code that is not 0."""


TASK = user("<task>\ngo\n</task>", DETAILS)


def told(folder: Path, messages: Sequence[Any], name: str = "cline") -> list[dict[str, Any]]:
    """What messages after the task tell."""
    events, problems = read(folder, json.dumps([TASK, *messages]), name)
    assert problems == []
    assert events[0] == {"type": "turnStarted", "place": 1}
    return events[1:]


def calls(place: int, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "toolCalls", "calls": list(calls), "message": f"{place}", "place": place, **more}


def results(place: int, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "toolResults", "results": list(results), "place": place, **more}


def words(place: int, delta: str) -> dict[str, Any]:
    return {"type": "text", "delta": delta, "message": f"{place}", "place": place}


# --- calls as XML -----------------------------------------------------------------------------------------------------


def test_a_task_with_calls_as_xml(tmp_path: Path) -> None:
    thought = "<thinking><read_file><path>no</path></read_file></thinking>"
    run = f"{thought}\n<execute_command>\n<command>ls</command>\n</execute_command>"
    parameters = "<path>a</path>\n<content>\n<p>x</p>\n</content>\n<task_progress>- [x] a</task_progress>"
    write = f"<write_to_file>\n{parameters}\n</write_to_file>"
    messages = [
        model(run, ts=1700000000000.0),
        user(
            "[execute_command for 'ls'] Result:\nCommand executed.",
            "\n# TODO LIST UPDATE REQUIRED",
            DETAILS,
            ts=1700000000001,
        ),
        model(write),
        user(
            "[write_to_file for 'a'] Result:",
            "The tool execution failed with the following error:\n<error>\nno</error>",
            DETAILS,
        ),
        model("I am done."),
        user("[ERROR] You did not use a tool in your previous response!", DETAILS),
        model("<attempt_completion>\n<result>Done.</result>\n</attempt_completion>"),
    ]
    at = {"at": "1700000000000"}
    assert told(tmp_path, messages) == [
        {**words(2, run), **at},
        calls(2, {"name": "execute_command", "id": "2.1", "args": {"command": "ls"}}, **at),
        results(3, {"id": "2.1", "output": "Command executed."}, at="1700000000001"),
        words(4, write),
        calls(4, {"name": "write_to_file", "id": "4.1", "args": {"path": "a", "content": "<p>x</p>"}}),
        results(
            5,
            {
                "id": "4.1",
                "error": "The tool execution failed with the following error:\n<error>\nno</error>",
                "ok": False,
            },
        ),
        words(6, "I am done."),
        words(8, "<attempt_completion>\n<result>Done.</result>\n</attempt_completion>"),
        calls(8, {"name": "attempt_completion", "id": "8.1", "args": {"result": "Done."}}),
        {"type": "turnEnded"},
    ]


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ("f", {"output": "f"}),
        ("The user denied this operation.", {"status": "cancelled", "errorType": "denied"}),
        ("Tool [read_file] was not executed because a tool has already been used.", {"status": "notStarted"}),
        ("[ERROR] no", {"error": "[ERROR] no", "ok": False}),
        ("Command executed.\nOutput:\nx", {"output": "Command executed.\nOutput:\nx"}),
        ("Command failed with exit code 1.\nOutput:\nx", {"ok": False}),
        ("Command executed in terminal. Exit code: 0\nOutput:\nx", {"ok": True}),
        ("Command executed in terminal. Exit code: 1\nOutput:\nx", {"ok": False}),
        ("Command executed in terminal within working directory '/p'. Exit code: -1\nOutput:\nx", {"ok": False}),
        (
            f"Command executed in terminal within working directory '/p'. {NO_SUCCESS}\nExit code: 1\nOutput:",
            {"ok": False},
        ),
        (f"Command executed in '/p'. {NO_SUCCESS}\nExit code: 2\n\nOutput (9.0KB) persisted.", {"ok": False}),
        ("Command executed in '/p'. Exit code: 0\n\nOutput (9.0KB) persisted. Artifact ID: x", {"ok": True}),
        ("Command executed in '/p'. Process terminated by signal SIGKILL\nOutput:\n", {"ok": False}),
        ("Command executed in '/p'. Exit code: <undefined, notify user>\nOutput:\nExit code: 1", {"output": ANY}),
        ("Command executed.\nExit code: 1", {"output": ANY}),
        ("The command was terminated after exceeding a user-configured 5s timeout. Do not", {"ok": False}),
        ("The command was cancelled by the user.", {"ok": False}),
        ("Command failed to execute in terminal due to a shell integration error.", {"ok": False}),
        ("Working directory '/q' does not exist.", {"ok": False}),
        ('{"status":"error","message":"The tool execution failed","error":"x"}', {"ok": False}),
        ('{"status":"denied","feedback":"no"}', {"status": "cancelled", "errorType": "denied"}),
        ("x\nCommand executed in terminal. Exit code: 1", {"output": "x\nCommand executed in terminal. Exit code: 1"}),
    ],
)
def test_what_a_result_says(tmp_path: Path, said: str, fields: dict[str, Any]) -> None:
    for messages in (
        [model("<list_files>\n<path>a</path>\n</list_files>"), user(f"[list_files for 'a'] Result:\n{said}", DETAILS)],
        [model(use("2.1", "list_files", path="a")), user(result("2.1", said), DETAILS)],
    ):
        (found,) = [event for event in told(tmp_path, messages) if event["type"] == "toolResults"]
        assert found["results"][0].items() >= {"id": "2.1", **fields}.items()


# --- calls as blocks --------------------------------------------------------------------------------------------------


def test_a_task_with_calls_as_blocks(tmp_path: Path) -> None:
    messages = [
        model(
            {"type": "thinking", "thinking": "hm"},
            "Looking.",
            use("a", "read_file", path="x", task_progress="- a"),
            use("b", "list_files"),
        ),
        user("[list_files for '.'] Result:\nf", "[read_file for 'x'] Result:\ny", DETAILS),
        model(use("c", "execute_command", command="ls")),
        user(result("c", [text("no")], is_error=True), DETAILS),
        model(use("d", "use_subagents", prompt_1="p")),
        user("[subagents] Result:\nTotal: 1", DETAILS),
    ]
    assert told(tmp_path, messages) == [
        {"type": "thought", "description": "hm", "message": "2", "place": 2},
        words(2, "Looking."),
        calls(
            2, {"name": "read_file", "id": "a", "args": {"path": "x"}}, {"name": "list_files", "id": "b", "args": {}}
        ),
        results(3, {"id": "b", "output": "f"}, {"id": "a", "output": "y"}),
        calls(4, {"name": "execute_command", "id": "c", "args": {"command": "ls"}}),
        results(5, {"id": "c", "error": [text("no")], "ok": False}),
        calls(6, {"name": "use_subagents", "id": "d", "args": {"prompt_1": "p"}}),
        results(7, {"id": "d", "output": "Total: 1"}),
    ]


HEADERS = ["x", "x for 'a\nb'", "x for 'a'] and 'b'", "x for 'a' in '*.ts'", "x completed"]


@pytest.mark.parametrize("header", HEADERS)
def test_a_result_may_say_nothing(tmp_path: Path, header: str) -> None:
    events = told(tmp_path, [model(use("a", "x")), user(f"[{header}] Result:", DETAILS)])
    assert events[1:] == [results(3, {"id": "a", "output": ""})]


@pytest.mark.parametrize("header", HEADERS)
def test_how_a_result_begins(tmp_path: Path, header: str) -> None:
    answer = user(f"[{header}] Result:\nf", "[x for 'no result", DETAILS)
    assert told(tmp_path, [model(use("a", "x")), answer])[1:] == [results(3, {"id": "a", "output": "f"})]


def test_arguments_may_be_anything(tmp_path: Path) -> None:
    call = {**use("a", "x"), "input": ["{"]}
    assert told(tmp_path, [model(call)]) == [calls(2, {"name": "x", "id": "a", "args": ["{"]})]


# --- what a person says -----------------------------------------------------------------------------------------------

DONE = model(use("a", "attempt_completion", result="x"))
PLAN = model(use("a", "plan_mode_respond", response="x"))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [DONE, user("[attempt_completion] Result:\n<feedback>\nmore\n</feedback>")],
            ["toolResults", "turnEnded", "turnStarted"],
        ),
        ([DONE, user(result("a", "<feedback>\nmore\n</feedback>"))], ["toolResults", "turnEnded", "turnStarted"]),
        ([DONE, user(result("a", "The user is content"))], ["toolResults", "turnEnded"]),
        (
            [PLAN, user("[plan_mode_respond] Result:\n<user_message>\nyes\n</user_message>")],
            ["toolResults", "turnStarted"],
        ),
        (
            [PLAN, user("[TASK RESUMPTION] x", "New message to respond to:\n<user_message>\nb\n</user_message>")],
            ["turnStarted"],
        ),
        ([PLAN, user("[TASK RESUMPTION] x", "(The user did not provide a new message.)", DETAILS)], []),
        (
            [model(use("a", "x")), user("[x] Result:\nThe user denied this operation.\n<feedback>\nno\n</feedback>")],
            ["toolResults", "userInput"],
        ),
        ([model(use("a", "x")), user("[x] Result:\n<user_message>in a file</user_message>")], ["toolResults"]),
        ([user("<user_message>\nmore\n</user_message>", DETAILS)], ["turnStarted"]),
        ([model("I think."), user("<user_message>\nmore\n</user_message>")], ["text", "turnStarted"]),
        ([model("I think."), user("more", DETAILS)], ["text"]),
    ],
)
def test_what_a_person_says(tmp_path: Path, messages: Any, expected: list[str]) -> None:
    assert [event["type"] for event in told(tmp_path, messages) if event["type"] != "toolCalls"] == expected


def test_a_message_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    events, problems = read(tmp_path, json.dumps([TASK, {"role": 7}, model(use("a", "x"))], indent=1), "cline")
    assert [(event["type"], event["place"]) for event in events] == [("turnStarted", 1), ("toolCalls", 3)]
    assert [problem.line for problem in problems] == [2]


def test_the_first_message_is_a_prompt_whatever_it_is(tmp_path: Path) -> None:
    events, _ = read(tmp_path, json.dumps([user("go", DETAILS), user("go", DETAILS)]), "cline")
    assert [(event["type"], event["place"]) for event in events] == [("turnStarted", 1)]


# --- Cline's command line ---------------------------------------------------------------------------------------------


def ran(name: str, **fields: Any) -> dict[str, Any]:
    return {"query": name, "success": True, **fields}


def test_a_session_of_the_command_line(tmp_path: Path) -> None:
    messages = [
        user('<user_input mode="act">go</user_input>'),
        model(use("a", "run_commands", commands=["cd x", "pytest -q"]), use("b", "read_files", files=["x"])),
        user(
            result(
                "a",
                [ran("cd x", result=""), ran("pytest -q", result="no", error="exit 1", success=False)],
                name="run_commands",
            )
        ),
        user(result("b", [ran("x", result="y")], name="read_files")),
        model(use("c", "no_such_tool")),
        user(result("c", '{"error":"rejected"}')),
        model("Done."),
        user('<user_input mode="act">more</user_input>'),
    ]
    document = {"version": 1, "agent": "lead", "sessionId": "s", "origin": {"source": "cli"}, "messages": messages}
    events, problems = read(tmp_path, json.dumps(document, indent=2), "cline")
    assert problems == []
    commands = {"name": "run_commands", "id": "a", "args": {"commands": ["cd x", "pytest -q"]}, "hint": "pytest"}
    assert events == [
        {"type": "turnStarted", "place": 1},
        calls(2, commands, {"name": "read_files", "id": "b", "args": {"files": ["x"]}}),
        results(3, {"id": "a", "error": "\nno", "ok": False}),
        results(4, {"id": "b", "output": "y", "ok": True}),
        calls(5, {"name": "no_such_tool", "id": "c", "args": {}}),
        results(6, {"id": "c", "error": '{"error":"rejected"}', "ok": False}),
        words(7, "Done."),
        {"type": "turnEnded", "place": 8},
        {"type": "turnStarted", "place": 8},
    ]


# --- Roo Code ---------------------------------------------------------------------------------------------------------


def test_roo_code(tmp_path: Path) -> None:
    messages = [
        user("<task>\ngo\n</task>", ROO_DETAILS),
        model("<read_file>\n<args>\n<file><path>x</path></file>\n</args>\n</read_file>"),
        user("[read_file for 'x'] Result:", "<files><file><path>x</path></file></files>", ROO_DETAILS),
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        user("the story so far", isSummary=True),
        user(isTruncationMarker=True),
    ]
    events, problems = read(tmp_path, json.dumps(messages), "roo")
    assert problems == []
    assert events == [
        {"type": "turnStarted", "place": 1},
        words(2, "<read_file>\n<args>\n<file><path>x</path></file>\n</args>\n</read_file>"),
        calls(2, {"name": "read_file", "id": "2.1", "args": {"args": "<file><path>x</path></file>"}}),
        results(3, {"id": "2.1", "output": "<files><file><path>x</path></file></files>"}),
        {"type": "compacted", "place": 5},
        {"type": "compacted", "place": 6},
    ]


@pytest.mark.parametrize(
    ("output", "fields"),
    [
        ("f", {"output": "f"}),
        ([{"type": "text", "text": "f"}], {"output": "f"}),
        ([{"type": "text", "value": "f"}], {"output": [{"type": "text", "value": "f"}]}),
        (None, {"output": None}),
        ({"type": "text", "value": "[ERROR] no"}, {"error": "[ERROR] no", "ok": False}),
        ({"type": "text", "value": f"Command executed in '/p'. {NO_SUCCESS}\nExit code: 1\nOutput:\n"}, {"ok": False}),
    ],
)
def test_a_result_of_version_2_of_roo_code_as_it_may_be_written(tmp_path: Path, output: Any, fields: Any) -> None:
    messages = [
        {"role": "user", "content": "<user_message>\ngo\n</user_message>"},
        model({"type": "tool-call", "toolCallId": "a", "toolName": "x", "input": {}}),
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "toolName": "x", "output": output}]},
        {"type": "reasoning", "encrypted_content": "x", "summary": [{"type": "summary_text", "text": "s"}]},
    ]
    events, problems = read(tmp_path, json.dumps({"version": 2, "messages": messages}), "roo")
    assert problems == []
    assert events[-1]["results"][0].items() >= {"id": "a", **fields}.items()


def test_version_2_of_roo_code(tmp_path: Path) -> None:
    def called(call_id: str, name: str) -> dict[str, Any]:
        return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": {"path": "x"}}

    def became(call_id: str, kind: str, value: Any) -> dict[str, Any]:
        return {"type": "tool-result", "toolCallId": call_id, "toolName": "x", "output": {"type": kind, "value": value}}

    answers = [
        became("a", "text", "f"),
        became("b", "error-text", "no"),
        became("c", "json", {"x": 1}),
        became("z", "text", ""),
    ]
    messages = [
        {"role": "user", "content": "<user_message>\ngo\n</user_message>"},
        model(
            {"type": "reasoning", "text": "hm"}, called("a", "read_file"), called("b", "list_files"), called("c", "x")
        ),
        {"role": "tool", "content": answers},
    ]
    events, problems = read(tmp_path, json.dumps({"version": 2, "messages": messages}), "roo")
    assert problems == []
    arguments = {"args": {"path": "x"}}
    assert events == [
        {"type": "turnStarted", "place": 1},
        {"type": "thought", "description": "hm", "message": "2", "place": 2},
        calls(
            2,
            {"name": "read_file", "id": "a", **arguments},
            {"name": "list_files", "id": "b", **arguments},
            {"name": "x", "id": "c", **arguments},
        ),
        results(
            3,
            {"id": "a", "output": "f"},
            {"id": "b", "error": "no", "ok": False},
            {"id": "c", "output": {"x": 1}},
        ),
    ]


# --- which file is whose ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ([TASK], {"cline"}),
        ([user("<task>go</task>", ROO_DETAILS)], {"cline", "roo"}),
        ([{"role": "user", "content": "go"}], set[str]()),
        ([{"role": "user", "content": "<slug>"}], set[str]()),
        ({"role": "<task>"}, set[str]()),
        ({"sessionId": "s", "messages": [TASK]}, set[str]()),
        ({"version": 2, "messages": [TASK]}, {"roo"}),
        ({"version": 2, "messages": [user("go")]}, set[str]()),
    ],
)
def test_which_file_is_whose(document: Any, names: set[str]) -> None:
    head = head_of([json.dumps(document).encode()])
    assert {format_.name for format_ in (cline.FORMAT, cline.ROO) if format_.recognises(head)} == names
