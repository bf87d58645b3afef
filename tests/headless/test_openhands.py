import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import Line, read, text_of

from turnguard.headless.readers import openhands
from turnguard.transcript import head_of

AT = "2026-03-01T10:00:00.000000"

# --- version 1 --------------------------------------------------------------------------------------------------------


def new(kind: str, name: str, source: str = "agent", **fields: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": AT, "source": source, **fields, "kind": kind}


def said(name: str, source: str, words: str) -> dict[str, Any]:
    role = "user" if source == "user" else "assistant"
    return new("MessageEvent", name, source, llm_message={"role": role, "content": [{"type": "text", "text": words}]})


def acted(name: str, call_id: str, command: str, response: str, **fields: Any) -> dict[str, Any]:
    arguments = json.dumps({"command": command, "security_risk": "LOW", "summary": name})
    call = {"id": call_id, "name": "terminal", "arguments": arguments, "origin": "completion"}
    action = {"command": command, "kind": "TerminalAction"}
    known = {"thought": [], "action": action, "tool_name": "terminal", "tool_call_id": call_id, "tool_call": call}
    return new("ActionEvent", name, llm_response_id=response, **{**known, **fields})


def observed(name: str, call_id: str, words: str, tool: str = "terminal", **observation: Any) -> dict[str, Any]:
    observation = {"content": [{"type": "text", "text": words}], "is_error": False, **observation}
    return new("ObservationEvent", name, "environment", tool_name=tool, tool_call_id=call_id, observation=observation)


NEW = [
    new("SystemPromptEvent", "e0", tools=[]),
    said("e1", "user", "go"),
    acted("e2", "a", "ls", "r1", thought=[{"type": "text", "text": "Looking."}], reasoning_content="hm"),
    acted("e3", "b", "cat x", "r1"),
    observed("e4", "a", "f", exit_code=0),
    observed("e5", "b", "no", exit_code=1),
    new("Condensation", "e6", "environment", summary="s"),
    acted("e7", "c", "no json", "r2", action=None, tool_call={"id": "c", "name": "terminal", "arguments": "{"}),
    new("AgentErrorEvent", "e8", tool_name="terminal", tool_call_id="c", error="bad arguments"),
    acted("e9", "d", "rm x", "r3"),
    new("UserRejectObservation", "e10", "user", tool_name="terminal", tool_call_id="d", rejection_reason="no"),
    said("e11", "environment", "Your last response did not include a function call."),
    acted("e12", "f", "", "r4", tool_name="finish", action={"message": "done", "kind": "FinishAction"}),
    observed("e13", "f", "done", "finish"),
]


def call(call_id: str, command: str) -> dict[str, Any]:
    return {"name": "terminal", "id": call_id, "args": {"command": command, "kind": "TerminalAction"}}


def told_new(first: int, **more: Any) -> list[dict[str, Any]]:
    """What these tell; `first`: the place of the first."""
    at = [
        {"message": event.get("llm_response_id") or event["id"], "place": first + n, "at": AT, **more}
        for n, event in enumerate(NEW)
    ]
    seen, failed = [{"type": "text", "text": "f"}], [{"type": "text", "text": "no"}]
    finish = {"name": "finish", "id": "f", "args": {"message": "done", "kind": "FinishAction"}}
    done = [{"type": "text", "text": "done"}]
    return [
        {"type": "turnStarted", **at[1]},
        {"type": "thought", "description": "hm", **at[2]},
        {"type": "text", "delta": "Looking.", **at[2]},
        {"type": "toolCalls", "calls": [call("a", "ls")], **at[2]},
        {"type": "toolCalls", "calls": [call("b", "cat x")], **at[3]},
        {"type": "toolResults", "results": [{"id": "a", "output": seen, "ok": True}], **at[4]},
        {"type": "toolResults", "results": [{"id": "b", "error": failed, "ok": False}], **at[5]},
        {"type": "compacted", **at[6]},
        {"type": "toolCalls", "calls": [{"name": "terminal", "id": "c", "args": "{"}], **at[7]},
        {"type": "toolResults", "results": [{"id": "c", "error": "bad arguments", "ok": False}], **at[8]},
        {"type": "toolCalls", "calls": [call("d", "rm x")], **at[9]},
        {"type": "toolResults", "results": [{"id": "d", "status": "cancelled", "errorType": "denied"}], **at[10]},
        {"type": "toolCalls", "calls": [finish], **at[12]},
        {"type": "toolResults", "results": [{"id": "f", "output": done, "ok": True}], **at[13]},
        {"type": "turnEnded", **at[13]},
    ]


def test_events_of_the_sdk(tmp_path: Path) -> None:
    events, problems = read(tmp_path, text_of(NEW), "openhands")
    assert events == told_new(first=1)
    assert problems == []


def test_a_row_of_an_evaluation(tmp_path: Path) -> None:
    row = {"instance_id": "i", "test_result": {}, "instruction": "go", "history": NEW, "error": None}
    again = {**row, "instance_id": "j", "history": NEW[:4], "error": "RuntimeError: too many iterations"}
    events, problems = read(tmp_path, text_of([row, "{", again]), "openhands")
    expected = [{**event, "session": "i", "place": 1} for event in told_new(first=1)]
    expected += [{**event, "session": "j", "place": 3} for event in told_new(first=1)[:5]]
    expected += [{"type": "turnEnded", "outcome": "failed", "session": "j", "place": 3}]
    assert events == expected
    assert [problem.line for problem in problems] == [2]


@pytest.mark.parametrize(
    ("event", "ends"),
    [
        (new("InterruptEvent", "e", "user"), "cancelled"),
        (new("ConversationErrorEvent", "e", "environment", code="c", detail="d"), "failed"),
        (
            new("ConversationStateUpdateEvent", "e", "environment", key="execution_status", value="finished"),
            "completed",
        ),
        (new("ConversationStateUpdateEvent", "e", "environment", key="execution_status", value="stuck"), "failed"),
        (new("ConversationStateUpdateEvent", "e", "environment", key="agent_status", value="error"), "failed"),
        (new("ConversationStateUpdateEvent", "e", "environment", key="execution_status", value="running"), None),
        (new("ConversationStateUpdateEvent", "e", "environment", key="full_state", value={"x": 1}), None),
        (new("PauseEvent", "e", "user"), None),
    ],
)
def test_the_end_of_a_turn_of_the_sdk(tmp_path: Path, event: Any, ends: str | None) -> None:
    events, _ = read(tmp_path, text_of([said("e0", "user", "go"), event]), "openhands")
    assert [each.get("outcome", "completed") for each in events if each["type"] == "turnEnded"] == (
        [ends] if ends else []
    )


@pytest.mark.parametrize(
    ("tool", "observation", "ok"),
    [
        ("terminal", {"exit_code": 0}, True),
        ("terminal", {"exit_code": -1}, None),
        ("terminal", {"metadata": {"exit_code": 2}}, False),
        ("terminal", {}, None),
        ("file_editor", {}, True),
        ("file_editor", {"is_error": True}, False),
        ("file_editor", {"is_error": None}, None),
    ],
)
def test_whether_a_call_of_the_sdk_succeeded(tmp_path: Path, tool: str, observation: Any, ok: bool | None) -> None:
    events, _ = read(tmp_path, text_of([observed("e", "a", "x", tool, **observation)]), "openhands")
    assert events[0]["results"][0].get("ok") is ok


def test_a_call_behind_acp_is_told_once(tmp_path: Path) -> None:
    fields = {"tool_call_id": "a", "title": "ls", "tool_kind": "execute", "raw_input": {"command": "ls"}}
    done = {**fields, "tool_call_id": "b", "raw_input": None}
    lines: list[Line] = [
        new("ACPToolCallEvent", "e1", **fields, status="in_progress"),
        new("ACPToolCallEvent", "e2", **fields, status="failed", raw_output="no"),
        new("ACPToolCallEvent", "e3", **done, status="completed", raw_output={"x": 1}),
    ]
    events, _ = read(tmp_path, text_of(lines), "openhands")
    at = {"message": "e2", "place": 2, "at": AT}
    assert events == [
        {"type": "toolCalls", "calls": [{"name": "execute", "id": "a", "args": {"command": "ls"}}], **at},
        {"type": "toolResults", "results": [{"id": "a", "error": "no", "ok": False}], **at},
        {"type": "toolCalls", "calls": [{"name": "execute", "id": "b"}], **at, "message": "e3", "place": 3},
        {"type": "toolResults", "results": [{"id": "b", "output": {"x": 1}}], **at, "message": "e3", "place": 3},
    ]


def test_words_of_the_agent(tmp_path: Path) -> None:
    events, _ = read(tmp_path, text_of([said("e0", "user", "go"), said("e1", "agent", "Done.")]), "openhands")
    assert events[1] == {"type": "text", "delta": "Done.", "message": "e1", "place": 2, "at": AT}


# --- version 0 --------------------------------------------------------------------------------------------------------


def old(number: int, source: str, **fields: Any) -> dict[str, Any]:
    return {"id": number, "timestamp": AT, "source": source, "message": "", **fields}


def metadata(call_id: str, response: str, calls: dict[str, str]) -> dict[str, Any]:
    """`calls`: the commands of the response, by the id of the call."""
    tool_calls = [
        {
            "id": name,
            "type": "function",
            "function": {"name": "execute_bash", "arguments": json.dumps({"command": command})},
        }
        for name, command in calls.items()
    ]
    message = {"role": "assistant", "content": "", "tool_calls": tool_calls}
    model_response = {"id": response, "choices": [{"index": 0, "message": message}]}
    return {
        "tool_call_metadata": {
            "function_name": "execute_bash",
            "tool_call_id": call_id,
            "model_response": model_response,
        }
    }


BOTH = {"a": "ls", "b": "cat x"}
CONFIRMED = {"thought": "", "confirmation_state": "confirmed", "hidden": False, "security_risk": None}

OLD = [
    old(0, "environment", observation="agent_state_changed", content="", extras={"agent_state": "loading"}),
    old(1, "user", action="message", args={"content": "go", "wait_for_response": False}),
    old(2, "user", action="recall", args={"query": "go"}),
    old(3, "environment", cause=2, observation="recall", content="", extras={}),
    old(
        4,
        "agent",
        action="run",
        args={"command": "ls", **CONFIRMED, "thought": "Looking."},
        **metadata("a", "r1", BOTH),
    ),
    old(5, "agent", cause=4, observation="run", content="f", extras={"metadata": {"exit_code": 0}}, success=True),
    old(6, "agent", action="run", args={"command": "cat x", **CONFIRMED}, **metadata("b", "r1", BOTH)),
    old(7, "agent", cause=6, observation="run", content="no", extras={"metadata": {"exit_code": 1}}, success=False),
    old(8, "agent", action="delegate", args={"agent": "Browsing", "inputs": {"task": "t"}, **CONFIRMED}),
    old(9, "agent", action="browse", args={"url": "u", **CONFIRMED}),
    old(10, "agent", cause=9, observation="error", content="no net"),
    old(11, "agent", action="finish", args={"outputs": {}, **CONFIRMED}),
    old(12, "agent", cause=8, observation="delegate", content="", extras={"outputs": {"x": 1}}),
    old(13, "agent", action="condensation", args={"summary": "s"}),
    old(14, "agent", action="call_tool_mcp", args={"name": "fetch", "arguments": {"url": "u"}, **CONFIRMED}),
    old(15, "agent", cause=14, observation="mcp", content="page"),
    old(16, "agent", action="write", args={"path": "p", **CONFIRMED}),
    old(17, "agent", cause=16, observation="user_rejected", content="no"),
    old(18, "agent", action="message", args={"content": "Done.", "wait_for_response": True}),
    old(19, "agent", observation="agent_state_changed", content="", extras={"agent_state": "awaiting_user_input"}),
]


def told_old() -> list[dict[str, Any]]:
    at = [{"place": place, "at": AT} for place in range(1, len(OLD) + 1)]
    sub = {"scope": "event 9"}

    def calls(name: str, call_id: str, args: Any, message: str | None = None) -> dict[str, Any]:
        return {
            "type": "toolCalls",
            "calls": [{"name": name, "id": call_id, "args": args}],
            "message": message or call_id,
        }

    def result(call_id: str, **fields: Any) -> dict[str, Any]:
        return {"type": "toolResults", "results": [{"id": call_id, **fields}]}

    return [
        {"type": "turnStarted", **at[1]},
        {"type": "text", "delta": "Looking.", "message": "r1", **at[4]},
        {**calls("execute_bash", "a", {"command": "ls"}, "r1"), **at[4]},
        {**result("a", output="f", ok=True), **at[5]},
        {**calls("execute_bash", "b", {"command": "cat x"}, "r1"), **at[6]},
        {**result("b", error="no", ok=False), **at[7]},
        {**calls("delegate", "event 9", {"agent": "Browsing", "inputs": {"task": "t"}}), **at[8]},
        {**calls("browse", "event 10", {"url": "u"}), **sub, **at[9]},
        {**result("event 10", error="no net", ok=False), **sub, **at[10]},
        {**calls("finish", "event 12", {"outputs": {}}), **sub, **at[11]},
        {**result("event 9", output=""), **at[12]},
        {"type": "compacted", **at[13]},
        {**calls("fetch", "event 15", {"url": "u"}), **at[14]},
        {**result("event 15", output="page"), **at[15]},
        {**calls("write", "event 17", {"path": "p"}), **at[16]},
        {**result("event 17", status="cancelled", errorType="denied"), **at[17]},
        {"type": "text", "delta": "Done.", "message": "event 19", **at[18]},
        {"type": "turnEnded", **at[19]},
    ]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OLD),
        json.dumps(OLD, indent=1),
        json.dumps({"trajectory": OLD}, indent=1),
        text_of(OLD),
    ],
    ids=["in a line", "over lines", "as the server answers it", "an event a line"],
)
def test_events_of_version_0(tmp_path: Path, text: str) -> None:
    events, problems = read(tmp_path, text, "openhands")
    assert events == told_old()
    assert problems == []


def test_an_event_of_a_list_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    events, problems = read(tmp_path, json.dumps([OLD[1], {**OLD[4], "id": "x"}, OLD[18]], indent=1), "openhands")
    assert [(event["type"], event["place"]) for event in events] == [("turnStarted", 1), ("text", 3)]
    assert [problem.line for problem in problems] == [2]


@pytest.mark.parametrize(
    ("state", "ends"),
    [
        ("finished", ["completed"]),
        ("awaiting_user_input", ["completed"]),
        ("stopped", ["cancelled"]),
        ("rejected", ["failed"]),
        ("error", ["failed"]),
        ("running", []),
    ],
)
def test_the_end_of_a_turn_of_version_0(tmp_path: Path, state: str, ends: list[str]) -> None:
    event = old(2, "environment", observation="agent_state_changed", content="", extras={"agent_state": state})
    events, _ = read(tmp_path, text_of([OLD[1], event]), "openhands")
    assert [event.get("outcome", "completed") for event in events[1:]] == ends


def test_arguments_are_those_that_the_model_wrote(tmp_path: Path) -> None:
    args = {"command": "ls -l", **CONFIRMED}
    without = metadata("b", "r2", {})
    unnamed: dict[str, Any] = {
        "tool_call_metadata": {**metadata("a", "r3", BOTH)["tool_call_metadata"], "function_name": ""}
    }
    lines: list[Line] = [
        OLD[1],
        old(2, "agent", action="run", args=args, **metadata("a", "r1", {"a": "ls"})),
        old(3, "agent", action="run", args=args, **without),
        old(4, "agent", action="run", args=args, **unnamed),
        old(5, "agent", action="run", args=args),
    ]
    events, _ = read(tmp_path, text_of(lines), "openhands")
    assert [(event["calls"][0]["name"], event["calls"][0]["args"]["command"]) for event in events[1:]] == [
        ("execute_bash", "ls"),
        ("execute_bash", "ls -l"),
        ("run", "ls -l"),
        ("run", "ls -l"),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"extras": {"metadata": {"exit_code": -1}}, "success": False}, {"output": "x"}),  # it still runs
        ({"extras": {"metadata": {"exit_code": 0}}, "success": True}, {"output": "x", "ok": True}),
        ({"extras": {"metadata": {"exit_code": 2}}, "success": False}, {"error": "x", "ok": False}),
        ({"extras": {}, "success": False}, {"error": "x", "ok": False}),
        ({"observation": "browse", "extras": {"url": "u", "error": True}}, {"error": "x", "ok": False}),
        ({"observation": "browse", "extras": {"url": "u", "error": False}}, {"output": "x"}),
        ({"observation": "mcp", "extras": {"name": "n", "error": "said"}}, {"output": "x"}),
        ({"observation": "error", "extras": {"error_id": ""}}, {"error": "x", "ok": False}),
        (
            {"observation": "error", "extras": {"error_id": "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED_STOPPED"}},
            {"status": "notStarted"},
        ),
        (
            {"observation": "error", "extras": {"error_id": "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED"}},
            {"status": "notStarted"},
        ),
    ],
)
def test_what_became_of_an_action(tmp_path: Path, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    action = old(0, "agent", action="run", args={"command": "ls", **CONFIRMED})
    observation = old(1, "agent", cause=0, **{"observation": "run", "content": "x", **fields})
    events, problems = read(tmp_path, text_of([action, observation]), "openhands")
    assert problems == []
    assert events[-1]["results"] == [{"id": "event 1", **expected}]


@pytest.mark.parametrize("names_its_call", [True, False])
def test_what_a_delegate_came_to_has_no_cause(tmp_path: Path, names_its_call: bool) -> None:
    """OpenHands writes it when the delegate has ended, and not as the answer to an action."""
    of_delegate = metadata("d", "r1", {"d": "x"}) if names_its_call else {}
    lines: list[Line] = [
        OLD[1],
        old(2, "agent", action="delegate", args={"agent": "Browsing", "inputs": {}, **CONFIRMED}, **of_delegate),
        old(3, "agent", action="delegate", args={"agent": "Reading", "inputs": {}, **CONFIRMED}),
        old(4, "agent", action="run", args={"command": "ls", **CONFIRMED}),
        old(5, "agent", observation="delegate", content="inner", extras={"outputs": {}}),
        old(6, "agent", action="run", args={"command": "ls", **CONFIRMED}),
        old(7, "agent", observation="delegate", content="outer", extras={"outputs": {}}, **of_delegate),
        old(8, "agent", action="finish", args={"outputs": {}, **CONFIRMED}),
    ]
    events, _ = read(tmp_path, text_of(lines), "openhands")
    outer = "d" if names_its_call else "event 2"
    assert [(event["type"], event.get("scope")) for event in events[1:]] == [
        ("toolCalls", None),
        ("toolCalls", outer),
        ("toolCalls", "event 3"),
        ("toolResults", outer),
        ("toolCalls", outer),
        ("toolResults", None),
        ("toolCalls", None),
        ("turnEnded", None),
    ]
    assert [event["results"][0]["output"] for event in events if event["type"] == "toolResults"] == ["inner", "outer"]


def test_a_response_in_which_a_call_has_no_name_is_read(tmp_path: Path) -> None:
    called = metadata("a", "r1", {"a": "ls"})
    for choice in called["tool_call_metadata"]["model_response"]["choices"]:
        for each in choice["message"]["tool_calls"]:
            each["function"]["name"] = None
    action = old(2, "agent", action="run", args={"command": "ls -l", **CONFIRMED}, **called)
    events, problems = read(tmp_path, text_of([OLD[1], action]), "openhands")
    assert problems == []
    assert events[-1]["calls"] == [{"name": "execute_bash", "id": "a", "args": {"command": "ls"}}]


def test_what_only_looks_like_a_call_or_a_prompt(tmp_path: Path) -> None:
    lines: list[Line] = [
        old(0, "agent", action="message", args={"content": "Hello."}),
        old(1, "user", action="run", args={"command": "ls"}),
        old(2, "agent", action="change_agent_state", args={"agent_state": "finished"}),
        old(3, "agent", action="run", args={"command": "ls"}),
        old(4, "agent", observation="null", content=""),
        old(5, "agent", cause=3, observation="run", content="f", success=True),
    ]
    events, _ = read(tmp_path, text_of(lines), "openhands")
    assert [(event["type"], event["place"]) for event in events] == [("text", 1), ("toolCalls", 4), ("toolResults", 6)]
    assert events[2]["results"] == [{"id": "event 4", "output": "f"}]


def test_what_is_nested_too_deep_is_told(tmp_path: Path) -> None:
    lines: list[Line] = [OLD[1], json.dumps(OLD[4]).replace('"ls"', "[" * 400_000 + "]" * 400_000, 1), OLD[16]]
    events, problems = read(tmp_path, text_of(lines), "openhands")
    assert [event["place"] for event in events] == [1, 3]
    assert [(problem.line, problem.message) for problem in problems] == [(2, "nested too deep")]
    events, problems = read(
        tmp_path, f"[{','.join(line if isinstance(line, str) else json.dumps(line) for line in lines)}]", "openhands"
    )
    assert events == []
    assert [problem.message for problem in problems] == ["nested too deep"]


def test_a_row_without_an_end_is_completed(tmp_path: Path) -> None:
    row = {"instance_id": "i", "history": OLD[:6], "error": None}
    events, _ = read(tmp_path, text_of([row]), "openhands")
    assert events[-1] == {"type": "turnEnded", "session": "i", "place": 1}
    assert [event["type"] for event in events].count("turnEnded") == 1


@pytest.mark.parametrize(
    "value",
    [
        {"id": "1", "source": "agent", "timestamp": AT},
        {"id": "1", "source": "agent", "kind": "x"},
        {"history": [{"action": "run"}, {"observation": "run"}]},
        {"instruction": "x", "history": [{"action": "run"}]},
        [{"action": "run", "source": "agent"}],
    ],
)
def test_what_is_none_of_its_files(value: Any) -> None:
    assert not openhands.FORMAT.recognises(head_of([json.dumps(value).encode()]))


def test_finishing_ends_a_turn(tmp_path: Path) -> None:
    lines: list[Line] = [OLD[1], old(2, "agent", action="finish", args={"final_thought": "x", **CONFIRMED})]
    events, _ = read(tmp_path, text_of(lines), "openhands")
    assert [event["type"] for event in events] == ["turnStarted", "toolCalls", "turnEnded"]


OLDEST = [
    {"content": "the issue", "wait_for_response": False, "action": "message", "action_risk": None},
    {"command": "ls", "thought": "Look.", "keep_prompt": True, "action": "run", "is_confirmed": "confirmed"},
    {"content": "f", "command_id": -1, "command": "ls", "exit_code": 0, "observation": "run"},
    {"code": "print(1)", "thought": "", "action": "run_ipython", "kernel_init_code": "x"},
    {"content": "1", "code": "print(1)", "observation": "run_ipython"},
    {"outputs": {}, "thought": "", "action": "finish"},
]


def oldest(history: Sequence[Any]) -> str:
    return text_of([{"issue": {}, "instruction": "the issue", "history": history, "error": None}])


@pytest.mark.parametrize("history", [OLDEST, [OLDEST[:1], OLDEST[1:3], OLDEST[3:5], OLDEST[5:]]], ids=["flat", "pairs"])
def test_a_row_of_the_oldest(tmp_path: Path, history: Any) -> None:
    events, problems = read(tmp_path, oldest(history), "openhands")
    assert problems == []
    where = {"session": "conversation 1", "place": 1}

    def calls(name: str, call_id: str, args: Any) -> dict[str, Any]:
        return {
            "type": "toolCalls",
            "calls": [{"name": name, "id": call_id, "args": args}],
            "message": call_id,
            **where,
        }

    assert events == [
        {"type": "turnStarted", **where},
        {"type": "text", "delta": "Look.", "message": "event 2", **where},
        calls("run", "event 2", {"command": "ls"}),
        {"type": "toolResults", "results": [{"id": "event 2", "output": "f", "ok": True}], **where},
        calls("run_ipython", "event 4", {"code": "print(1)"}),
        {"type": "toolResults", "results": [{"id": "event 4", "output": "1"}], **where},
        calls("finish", "event 6", {"outputs": {}}),
        {"type": "turnEnded", **where},
    ]
