import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import read

from turnguard.headless.readers import mini_swe_agent
from turnguard.transcript import head_of

AT = {"timestamp": 1700000000.25}
TOLD_AT = "1700000000.250"

SYSTEM, TASK = {"role": "system", "content": "s"}, {"role": "user", "content": "the task"}


def tool_call(call_id: str, command: str) -> dict[str, Any]:
    return {
        "function": {"arguments": json.dumps({"command": command}), "name": "bash"},
        "id": call_id,
        "type": "function",
    }


def asked(*calls: dict[str, Any], words: str | None = None) -> dict[str, Any]:
    actions = [{"command": "x", "tool_call_id": call["id"]} for call in calls]
    response = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
    return {
        "role": "assistant",
        "content": words,
        "tool_calls": calls,
        "extra": {"actions": actions, "response": response, **AT},
    }


def answered(call_id: str, words: str, code: int = 0, **extra: Any) -> dict[str, Any]:
    extra = {"raw_output": words, "returncode": code, "exception_info": "", **AT, **extra}
    return {"role": "tool", "content": words, "tool_call_id": call_id, "extra": extra}


def ended(status: str) -> dict[str, Any]:
    return {"role": "exit", "content": "", "extra": {"exit_status": status, "submission": ""}}


def told(folder: Path, messages: Sequence[Any], status: str = "") -> list[dict[str, Any]]:
    info = {"model_stats": {"api_calls": 1}, "config": {"agent": {}}, "mini_version": "2.4.6", "exit_status": status}
    document = {"info": info, "messages": [SYSTEM, TASK, *messages], "trajectory_format": "mini-swe-agent-1.1"}
    events, problems = read(folder, json.dumps(document, indent=2), "mini-swe-agent")
    assert problems == []
    assert events[0] == {"type": "turnStarted", "place": 2}
    return events[1:]


def call(call_id: str, command: str) -> dict[str, Any]:
    return {"name": "bash", "id": call_id, "args": {"command": command}}


def result(call_id: str, place: int, **result: Any) -> dict[str, Any]:
    return {"type": "toolResults", "results": [{"id": call_id, **result}], "place": place}


def test_a_run_with_tools(tmp_path: Path) -> None:
    messages = [
        asked(tool_call("a", "ls"), tool_call("b", "cat x"), words="Looking."),
        answered("a", "f"),
        answered("b", "no", 1),
        {"role": "user", "content": "no call", "extra": {"interrupt_type": "FormatError"}},
        asked(tool_call("c", "echo COMPLETE")),
        ended("Submitted"),
    ]
    at, model = {"at": TOLD_AT}, {"message": "3", "place": 3, "at": TOLD_AT}
    assert told(tmp_path, messages, "Submitted") == [
        {"type": "text", "delta": "Looking.", **model},
        {"type": "toolCalls", "calls": [call("a", "ls"), call("b", "cat x")], **model},
        {**result("a", 4, output="f", ok=True), **at},
        {**result("b", 5, error="no", ok=False), **at},
        {"type": "toolCalls", "calls": [call("c", "echo COMPLETE")], "message": "7", "place": 7, **at},
        {"type": "turnEnded", "place": 8},
    ]


def test_a_run_of_version_1(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\n<returncode>0</returncode></output>"},
        {"role": "assistant", "content": "two\n```bash\nls\n```\n```bash\npwd\n```"},
        {"role": "user", "content": "Please always provide EXACTLY ONE action"},
        {"role": "assistant", "content": "```bash\nsleep 99\n```"},
        {"role": "user", "content": "The last command <command>sleep 99</command> timed out and has been killed."},
        {"role": "assistant", "content": "```bash\nrm x\n```"},
        {"role": "user", "content": "Command not executed. The user rejected your command with: no"},
        {"role": "assistant", "content": "```bash\ncat x\n```"},
        {"role": "user", "content": "Observation: {'output': \"'returncode': 1\", 'returncode': 0, 'action': 'cat x'}"},
        {"role": "assistant", "content": "```bash\necho COMPLETE\n```"},
        {"role": "user", "content": ""},
    ]
    events = [event for event in told(tmp_path, messages, "LimitsExceeded") if event["type"] != "text"]
    assert [event["calls"][0]["args"]["command"] for event in events if event["type"] == "toolCalls"] == [
        *("ls", "sleep 99", "rm x", "cat x", "echo COMPLETE")
    ]
    results = [event["results"][0] for event in events if event["type"] == "toolResults"]
    assert [(result["id"], result.get("ok"), result.get("status")) for result in results] == [
        ("3.1", False, None),
        ("7.1", False, None),
        ("9.1", None, "cancelled"),
        ("11.1", True, None),
        ("13.1", None, None),
    ]
    assert [event["place"] for event in events if event["type"] == "userInput"] == [10]
    assert events[-1] == {"type": "turnEnded", "outcome": "failed"}


def test_commands_of_the_text_mode(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "content": "x", "extra": {"actions": [{"command": "ls"}, {"command": "pwd"}]}},
        {"role": "user", "content": "f", "extra": {"returncode": 0}},
        {"role": "user", "content": "/", "extra": {"returncode": 2}},
    ]
    assert told(tmp_path, messages)[1:] == [
        {"type": "toolCalls", "calls": [call("3.1", "ls"), call("3.2", "pwd")], "message": "3", "place": 3},
        result("3.1", 4, output="f", ok=True),
        result("3.2", 5, error="/", ok=False),
    ]


def test_the_responses_api(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "function_call", "call_id": "b", "name": "bash", "arguments": '{"command": "pwd"}'},
    ]
    messages = [
        {"object": "response", "output": output, "extra": {"actions": [{"command": "ls", "tool_call_id": "a"}]}},
        {"type": "function_call_output", "call_id": "a", "output": "f", "extra": {"returncode": 0}},
        {
            "type": "function_call_output",
            "call_id": "b",
            "output": "",
            "extra": {"returncode": -1, "exception_info": "action was not executed"},
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "x"}],
            "extra": {"interrupt_type": "FormatError"},
        },
    ]
    assert told(tmp_path, messages) == [
        {"type": "toolCalls", "calls": [call("a", "ls"), call("b", "pwd")], "place": 3},
        result("a", 4, output="f", ok=True),
        result("b", 5, status="notStarted"),
    ]


@pytest.mark.parametrize(
    ("kind", "told_as"),
    [("UserInterruption", "userInput"), ("UserRejection", "userInput"), ("UserNewTask", "turnStarted")],
)
def test_what_the_user_says_later(tmp_path: Path, kind: str, told_as: str) -> None:
    message = {"role": "user", "content": "stop that", "extra": {"interrupt_type": kind}}
    assert told(tmp_path, [message]) == [{"type": told_as, "place": 3}]


def test_commands_of_the_user_are_no_calls(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "User command: \n```bash\nls\n```", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "user", "content": "f", "extra": {"returncode": 0}},
        answered("z", "of no call"),
    ]
    assert told(tmp_path, messages) == []


def test_words_in_blocks(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "Look\n```bash"}, {"type": "image"}, {"type": "text", "text": "ls\n```"}]
    events = told(tmp_path, [{"role": "assistant", "content": blocks}])
    assert events[0]["delta"] == "Look\n```bash\nls\n```"
    assert events[1]["calls"] == [call("3.1", "ls")]


@pytest.mark.parametrize("code", ["0", "1"])
def test_a_command_is_run_only_once(tmp_path: Path, code: str) -> None:
    messages = [
        {"role": "assistant", "content": "```bash\nls\n```"},
        {"role": "user", "content": f"<returncode>{code}</returncode>"},
        {"role": "user", "content": "<returncode>7</returncode>"},
    ]
    assert [event["place"] for event in told(tmp_path, messages) if event["type"] == "toolResults"] == [4]


@pytest.mark.parametrize(
    ("document", "is_ours"),
    [
        ({"info": {"mini_version": "1"}, "messages": [{"role": "user"}]}, True),
        ({"messages": [{"role": "user"}], "trajectory_format": "mini-swe-agent-1"}, True),
        ({"info": {"id": "ses_1"}, "messages": [{"info": {"role": "user"}}]}, False),
        ({"info": {"id": "ses_1"}, "messages": [{"role": "user"}]}, False),
        ({"info": {"mini_version": "1"}, "messages": []}, False),
    ],
)
def test_how_it_is_recognised(document: Any, is_ours: bool) -> None:
    assert mini_swe_agent.FORMAT.recognises(head_of([json.dumps(document).encode()])) is is_ours


def test_a_message_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    messages = [SYSTEM, TASK, {"role": "assistant", "content": {}}, asked(tool_call("a", "ls"))]
    document = {"info": {"mini_version": "2"}, "messages": messages}
    events, problems = read(tmp_path, json.dumps(document), "mini-swe-agent")
    assert [(event["type"], event["place"]) for event in events] == [("turnStarted", 2), ("toolCalls", 4)]
    assert [problem.line for problem in problems] == [3]
