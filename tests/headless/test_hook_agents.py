"""What each agent says in its hooks, and the form in which it is answered."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from turnguard.headless.hooks.agents import AGENTS, BY_NAME, agent_of
from turnguard.headless.hooks.call import Answer, Heard, Input, Moment, heard
from turnguard_protocol.events import (
    Call,
    Compacted,
    Result,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)

BASH = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
ARGS = Raw(b'{"command":"ls"}')

CLAUDE = {"session_id": "s", "transcript_path": "/t", "cwd": "/w", "prompt_id": "p", "permission_mode": "default"}
CODEX = {"session_id": "s", "turn_id": "u", "transcript_path": "/t", "cwd": "/w", "model": "m"}
GEMINI = {"session_id": "s", "transcript_path": "/t", "cwd": "/w", "timestamp": "2026-01-01T00:00:00.000Z"}
QWEN = {**GEMINI, "permission_mode": "yolo", "prompt_id": "s########0"}
VSCODE = {"sessionId": "s", "transcript_path": "/t", "cwd": "/w", "timestamp": "2026-01-01T00:00:00.000Z"}


def given(members: dict[str, Any]) -> Input:
    return msgspec.json.decode(json.dumps(members, separators=(",", ":")).encode(), type=Input)


def hear(name: str, members: dict[str, Any]) -> Heard | None:
    return heard(BY_NAME[name], given(members))


CASES: list[tuple[str, dict[str, Any], Moment, tuple[object, ...]]] = [
    ("claude", {**CLAUDE, "hook_event_name": "UserPromptSubmit", "prompt": "Go."}, "prompt", (TurnStarted("p"),)),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "UserPromptSubmit", "prompt": "<task-notification>\n<task-id>"},
        "again",
        (),
    ),
    (
        "codex",
        {**CODEX, "hook_event_name": "UserPromptSubmit", "prompt": "<task-notification>\n<task-id>"},
        "again",
        (),
    ),
    ("claude", {**CLAUDE, "hook_event_name": "PreToolUse", **BASH}, "before", (ToolCalls([Call("Bash", "t1", ARGS)]),)),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "PostToolUse", **BASH, "tool_response": {"stdout": "a", "stderr": "b", "n": 1}},
        "after",
        (ToolResults([Result("t1", "Bash", output=Raw(b'["a","b"]'), ok=True)]),),
    ),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "PostToolUse", **BASH, "tool_response": {"type": "text", "stdout": "a"}},
        "after",
        (ToolResults([Result("t1", "Bash", output=Raw(b'{"type":"text","stdout":"a"}'), ok=True)]),),
    ),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "PostToolUse", **BASH, "tool_response": {"stdout": {"a": 1}}},
        "after",
        (ToolResults([Result("t1", "Bash", output=Raw(b'{"stdout":{"a":1}}'), ok=True)]),),
    ),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "PostToolUseFailure", **BASH, "error": "no", "is_interrupt": False},
        "failed",
        (ToolResults([Result("t1", "Bash", error=Raw(b'"no"'), ok=False, error_type="execution")]),),
    ),
    (
        "claude",
        {**CLAUDE, "hook_event_name": "PostToolUseFailure", **BASH, "error": "no", "is_interrupt": True},
        "failed",
        (ToolResults([Result("t1", "Bash", error=Raw(b'"no"'), ok=False, error_type="cancelled")]),),
    ),
    ("claude", {**CLAUDE, "hook_event_name": "PreCompact", "trigger": "auto"}, "compacted", (Compacted(),)),
    ("claude", {**CLAUDE, "hook_event_name": "Stop"}, "ended", (TurnEnded(),)),
    ("claude", {**CLAUDE, "hook_event_name": "SessionEnd", "reason": "other"}, "ended", (TurnEnded(),)),
    ("codex", {**CODEX, "hook_event_name": "UserPromptSubmit", "prompt": "Go."}, "prompt", (TurnStarted("u"),)),
    ("codex", {**CODEX, "hook_event_name": "PreToolUse", **BASH}, "before", (ToolCalls([Call("Bash", "t1", ARGS)]),)),
    (
        "codex",
        {**CODEX, "hook_event_name": "PostToolUse", **BASH, "tool_response": "a\n"},
        "after",
        (ToolResults([Result("t1", "Bash", output=Raw(b'"a\\n"'))]),),
    ),
    ("gemini", {**GEMINI, "hook_event_name": "BeforeAgent", "prompt": "Go."}, "prompt", (TurnStarted(),)),
    (
        "gemini",
        {**GEMINI, "hook_event_name": "BeforeTool", "tool_name": "ls", "tool_input": {"command": "ls"}},
        "before",
        (ToolCalls([Call("ls", None, ARGS)]),),
    ),
    (
        "gemini",
        {
            **GEMINI,
            "hook_event_name": "AfterTool",
            "tool_name": "ls",
            "tool_input": {"command": "ls"},
            "tool_response": {"llmContent": "Output: a\nProcess Group PGID: 7\n</x>", "returnDisplay": "a"},
        },
        "after",
        (ToolResults([Result(None, "ls", ARGS, output=Raw(b'"Output: a\\n</x>"'))]),),
    ),
    ("gemini", {**GEMINI, "hook_event_name": "AfterAgent", "prompt": "Go."}, "ended", (TurnEnded(),)),
    ("qwen", {**QWEN, "hook_event_name": "UserPromptSubmit", "prompt": "Go."}, "prompt", (TurnStarted("s########0"),)),
    ("qwen", {**QWEN, "hook_event_name": "UserPromptSubmit", "prompt": ""}, "again", ()),
    (
        "qwen",
        {**QWEN, "hook_event_name": "PreToolUse", **BASH, "tool_call_id": "c1"},
        "before",
        (ToolCalls([Call("Bash", "t1", ARGS)]),),
    ),
    ("vscode", {**VSCODE, "hookEventName": "UserPromptSubmit", "prompt": "Go."}, "prompt", (TurnStarted(),)),
    ("vscode", {**VSCODE, "hookEventName": "PreToolUse", **BASH}, "before", (ToolCalls([Call("Bash", "t1", ARGS)]),)),
]


@pytest.mark.parametrize(("name", "members", "moment", "events"), CASES)
def test_what_is_heard(name: str, members: dict[str, Any], moment: Moment, events: tuple[object, ...]) -> None:
    what = hear(name, members)
    assert what is not None
    assert (what.session_id, what.moment, what.scope, what.cwd) == ("s", moment, None, "/w")
    if moment == "prompt":
        events = (*events, StepFinished())
    assert what.events == events


@pytest.mark.parametrize(("name", "members"), [case[:2] for case in CASES if case[1].get("hook_event_name") != "Stop"])
def test_who_says_it_is_told_by_what_is_said(name: str, members: dict[str, Any]) -> None:
    if members.get("hook_event_name") == "SessionEnd":
        return
    assert agent_of(given(members)).name == name
    assert agent_of(given(members), "claude").name == name
    assert agent_of(given(members), name).name == name


def test_a_name_other_than_claude_holds() -> None:
    assert agent_of(given({**CLAUDE, "hook_event_name": "PreToolUse"}), "qwen").name == "qwen"


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("gemini", {**GEMINI, "hook_event_name": "PreCompress", "trigger": "auto"}),
        ("claude", {**CLAUDE, "hook_event_name": "SubagentStop", "agent_id": "a"}),
        ("codex", {**CODEX, "hook_event_name": "UserPromptSubmit", "agent_id": "a", "prompt": "Go."}),
        ("claude", {"hook_event_name": "PreToolUse", **BASH}),
        ("claude", {**CLAUDE, **BASH}),
    ],
)
def test_what_is_not_heard(name: str, members: dict[str, Any]) -> None:
    assert hear(name, members) is None


def test_a_subagent_is_a_scope() -> None:
    what = hear("claude", {**CLAUDE, "hook_event_name": "PreToolUse", **BASH, "agent_id": "a7", "agent_type": "x"})
    assert what is not None
    assert what.scope == "a7"


# --- answers ----------------------------------------------------------------------------------------------------------

DENY = {"permissionDecision": "deny", "permissionDecisionReason": "R"}
PRE = {"hookEventName": "PreToolUse"}
POST = {"hookEventName": "PostToolUse"}
STOP = {"continue": False, "stopReason": "S"}
HALT = Answer(refusal="R", stop="S", person="P")

ANSWERS: list[tuple[str, str, Moment, Answer, dict[str, Any]]] = [
    ("claude", "PreToolUse", "before", HALT, {**STOP, "systemMessage": "P", "hookSpecificOutput": {**PRE, **DENY}}),
    ("claude", "PreToolUse", "before", Answer(refusal="R"), {"hookSpecificOutput": {**PRE, **DENY}}),
    (
        "claude",
        "PreToolUse",
        "before",
        Answer(context="C"),
        {"hookSpecificOutput": {**PRE, "additionalContext": "C"}},
    ),
    ("claude", "PostToolUse", "after", Answer(stop="S"), STOP),
    ("claude", "UserPromptSubmit", "prompt", Answer(person="P"), {"systemMessage": "P"}),
    ("claude", "UserPromptSubmit", "again", Answer(stop="S"), STOP),
    ("codex", "UserPromptSubmit", "again", Answer(stop="S"), {}),
    ("codex", "PreToolUse", "before", HALT, {"systemMessage": "P", "hookSpecificOutput": {**PRE, **DENY}}),
    ("codex", "PostToolUse", "after", Answer(stop="S"), {}),
    ("codex", "PostToolUse", "after", Answer(context="C"), {"hookSpecificOutput": {**POST, "additionalContext": "C"}}),
    ("gemini", "BeforeTool", "before", HALT, {"decision": "deny", "reason": "R", **STOP, "systemMessage": "P"}),
    ("gemini", "BeforeTool", "before", Answer(refusal="R"), {"decision": "deny", "reason": "R"}),
    ("gemini", "AfterTool", "after", Answer(stop="S"), STOP),
    (
        "gemini",
        "AfterTool",
        "after",
        Answer(context="C"),
        {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "C"}},
    ),
    ("qwen", "PreToolUse", "before", HALT, {"systemMessage": "P", "hookSpecificOutput": {**PRE, **DENY}}),
    ("qwen", "PostToolUse", "after", Answer(stop="S"), {}),
    ("qwen", "UserPromptSubmit", "again", Answer(stop="S"), {"decision": "block", "reason": "S"}),
    ("vscode", "PreToolUse", "before", HALT, {**STOP, "systemMessage": "P", "hookSpecificOutput": {**PRE, **DENY}}),
]


@pytest.mark.parametrize(("name", "event", "moment", "answer", "told"), ANSWERS)
def test_the_form_of_an_answer(name: str, event: str, moment: Moment, answer: Answer, told: dict[str, Any]) -> None:
    assert BY_NAME[name].answer(Heard("s", moment, event), answer) == told


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_nothing_to_say_is_no_answer(agent: Any) -> None:
    for name, moment in agent.moments.items():
        assert agent.answer(Heard("s", moment, name), Answer()) == {}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_what_is_configured_is_what_is_heard(agent: Any) -> None:
    assert set(agent.place.events) == set(agent.moments)
    assert set(agent.place.with_matcher) <= set(agent.moments)
