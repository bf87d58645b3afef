"""A recording says what the guards would have heard."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.acp.play import (
    Guard,
    Play,
    chunk,
    error_of,
    notification,
    permission,
    prompt,
    request,
    result_of,
    session_update,
)
from turnguard.acp import recording
from turnguard.transcript import Head, Told, UnreadableError, head_of
from turnguard_protocol.events import Event, ToolResults, TurnEnded

CLIENT, AGENT = "c2a", "a2c"

Message = tuple[str, Any]


def hello(name: str = "an agent", version: int = 1) -> list[Message]:
    result = {"protocolVersion": version, "agentInfo": {"name": name, "version": "9"}, "agentCapabilities": {}}
    return [
        (CLIENT, request(0, "initialize", {"protocolVersion": version, "clientCapabilities": {}})),
        (AGENT, result_of(0, result)),
        (CLIENT, request(1, "session/new", {"cwd": "/p", "mcpServers": []})),
        (AGENT, result_of(1, {"sessionId": "s"})),
    ]


def call(call_id: str, output: Any = "same", session_id: str = "s") -> list[Message]:
    rest = {"title": "Looking", "name": "look", "kind": "read", "status": "in_progress", "rawInput": {"path": "a"}}
    return [
        (AGENT, session_update(session_id, "tool_call", toolCallId=call_id, **rest)),
        (
            AGENT,
            session_update(session_id, "tool_call_update", toolCallId=call_id, status="completed", rawOutput=output),
        ),
    ]


def ended(request_id: Any, reason: str = "end_turn") -> Message:
    return AGENT, result_of(request_id, {"stopReason": reason})


CALLS = [*call("a"), *call("b", "other")]
TURN: list[Message] = [*hello(), (CLIENT, prompt(2)), *CALLS, (AGENT, chunk("Done.")), ended(2)]


def read(lines: Iterable[str]) -> tuple[list[Told], list[tuple[int, str]]]:
    """What lines tell, each with the number of its line as place, and which could not be read."""
    reader, told, unread = recording.FORMAT.reader(), list[Told](), list[tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        try:
            told += [each._replace(place=number) for each in reader.line(f"{line}\n".encode())]
        except UnreadableError as error:
            unread.append((number, error.message))
    return [*told, *reader.end()], unread


def recorded(messages: Iterable[Message]) -> list[str]:
    return [json.dumps({"dir": side, "t": 0.5 * at, "msg": message}) for at, (side, message) in enumerate(messages)]


def alone(messages: Iterable[Message], *sides: str) -> list[str]:
    """The messages themselves, of one side or both."""
    return [json.dumps(message) for side, message in messages if side in (sides or (CLIENT, AGENT))]


def told_of(lines: Iterable[str]) -> list[tuple[str | None, Event]]:
    told, unread = read(lines)
    assert unread == []
    return [(each.session, each.event) for each in told]


def kinds(lines: Iterable[str]) -> list[str]:
    return [kind for _, event in told_of(lines) if (kind := type(event).__name__) not in ("Text", "StepFinished")]


def test_a_recorded_turn() -> None:
    told, unread = read(recorded(TURN))
    assert unread == []
    said = [
        (type(each.event).__name__, each.session, each.place, each.at, each.scope, each.message)
        for each in told
        if type(each.event).__name__ != "StepFinished"
    ]
    assert said == [
        ("TurnStarted", "s", 5, "2.0", None, None),
        ("ToolCalls", "s", 6, "2.5", None, None),
        ("ToolResults", "s", 7, "3.0", None, None),
        ("ToolCalls", "s", 8, "3.5", None, None),
        ("ToolResults", "s", 9, "4.0", None, None),
        ("Text", "s", 10, "4.5", None, None),
        ("TurnEnded", "s", 11, "5.0", None, None),
    ]


def test_it_is_what_guards_hear() -> None:
    play, messages = Play(), [*TURN, (CLIENT, prompt(3)), *call("a"), (AGENT, error_of(3, -32603))]
    guards: dict[str, Guard] = play.guards
    for side, message in messages:
        (play.client if side == CLIENT else play.agent)(message)
    assert list(map(essence, untexted(event for _, event in told_of(recorded(messages))))) == list(
        map(essence, untexted(guards["s"].events))
    )


def untexted(events: Iterable[Event]) -> list[Event]:
    """All but words, which these guards do not want."""
    return [event for event in events if type(event).__name__ != "Text"]


def essence(event: Event) -> Any:
    """An event without the identities that only some guards want."""
    plain = json.loads(msgspec.json.encode(event))
    for result in plain.get("results", ()):
        result["outcome"] = result["outcome"]["progress"]
    for each in plain.get("calls", ()):
        each["key"] = each["key"]["turn"]
        each.pop("facts", None)
    return plain


def test_messages_alone_say_the_same() -> None:
    assert told_of(alone(TURN)) == told_of(recorded(TURN))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (permission(2, "c"), result_of(2, {"outcome": {"outcome": "selected", "optionId": "yes"}})),
        (request(2, "fs/read_text_file", {"sessionId": "s", "path": "p"}), result_of(2, {"content": "x"})),
        (request(2, "fs/write_text_file", {"sessionId": "s", "path": "p", "content": "x"}), result_of(2, None)),
        (request(2, "terminal/output", {"sessionId": "s", "terminalId": "t"}), error_of(2, -32002)),
    ],
)
def test_both_sides_may_use_one_id(asked: Any, answer: Any) -> None:
    messages = [*hello(), (CLIENT, prompt(2)), *call("a"), (AGENT, asked), (CLIENT, answer), *call("b"), ended(2)]
    assert told_of(alone(messages)) == told_of(recorded(messages))


@pytest.mark.parametrize("is_agent_first", [True, False])
def test_an_answer_goes_to_who_asked_for_such_a_thing(*, is_agent_first: bool) -> None:
    """The output of a terminal is a call's result, and here the client has asked something under the same id."""
    shown = {"title": "ls", "kind": "execute", "content": [{"type": "terminal", "terminalId": "t"}]}
    output = {"output": "f", "truncated": False, "exitStatus": {"exitCode": 0}}
    answers = [(AGENT, result_of(9, {})), (CLIENT, result_of(9, output))]
    messages = [
        *hello(),
        (CLIENT, prompt(2)),
        (AGENT, session_update("s", "tool_call", toolCallId="a", status="in_progress", rawInput={"x": 1}, **shown)),
        (AGENT, request(9, "terminal/output", {"sessionId": "s", "terminalId": "t"})),
        (CLIENT, request(9, "session/set_mode", {"sessionId": "s", "modeId": "m"})),
        *(answers if is_agent_first else reversed(answers)),
        (AGENT, session_update("s", "tool_call_update", toolCallId="a", status="completed")),
        ended(2),
    ]
    told = told_of(recorded(messages))
    results = [result for _, event in told if isinstance(event, ToolResults) for result in event.results]
    assert [(result.ok, result.outcome is not None) for result in results] == [(True, True)]
    assert told_of(alone(messages)) == told


def test_cancellations_tell_nothing() -> None:
    cancel = notification("$/cancel_request", {"requestId": 2})
    for side in (CLIENT, AGENT):
        messages = [*TURN[:5], (side, cancel), *TURN[5:]]
        assert told_of(alone(messages)) == told_of(recorded(messages)) == told_of(recorded(TURN))


def test_history_does_not_count() -> None:
    load = [(CLIENT, request(3, "session/load", {"sessionId": "s"})), *call("h"), (AGENT, result_of(3, {}))]
    assert kinds(recorded([*hello(), *load])) == []


def test_sessions_are_told_apart() -> None:
    second = [(CLIENT, request(5, "session/new", {"cwd": "/p"})), (AGENT, result_of(5, {"sessionId": "t"}))]
    messages = [*TURN, *second, (CLIENT, prompt(6, "t")), *call("a", session_id="t"), ended(6)]
    assert [session for session, event in told_of(recorded(messages)) if type(event).__name__ == "TurnStarted"] == [
        "s",
        "t",
    ]


@pytest.mark.parametrize(("name", "tool"), [("gemini-cli", "run_shell_command"), ("an agent", "execute")])
def test_the_agents_table_reads_its_calls(name: str, tool: str) -> None:
    rest = {"title": "ls", "kind": "execute", "status": "in_progress"}
    update = session_update("s", "tool_call", toolCallId="run_shell_command__1", **rest)
    messages = [*hello(name), (CLIENT, prompt(2)), (AGENT, update), ended(2)]
    for lines in (recorded(messages), alone(messages), alone(messages, AGENT)):
        assert [call.name for _, event in told_of(lines) for call in getattr(event, "calls", ())] == [tool]


def test_a_turn_without_an_end_gets_none() -> None:
    running = [*hello("claude"), (CLIENT, prompt(2)), *call("a")]
    assert kinds(recorded(running)) == ["TurnStarted", "ToolCalls", "ToolResults"]
    assert kinds(alone(running, AGENT)) == ["TurnStarted", "ToolCalls", "ToolResults"]


def test_prompts_that_wait_begin_nothing_at_the_end() -> None:
    assert kinds(recorded([*hello(), (CLIENT, prompt(2)), (CLIENT, prompt(3)), *call("a")])) == [
        *("TurnStarted", "UserInput", "ToolCalls", "ToolResults")
    ]


def test_an_agent_alone() -> None:
    shown = (AGENT, session_update("s", "user_message_chunk", content={"type": "text", "text": "more"}))
    messages = [*TURN, (AGENT, session_update("s", "available_commands_update")), (CLIENT, prompt(3))]
    messages += [shown, shown, *call("c"), ended(3, "cancelled"), shown, *call("d"), shown, *call("e")]
    assert kinds(alone(messages, AGENT)) == [
        *("TurnStarted", "ToolCalls", "ToolResults", "ToolCalls", "ToolResults", "TurnEnded"),
        *("TurnStarted", "ToolCalls", "ToolResults", "TurnEnded"),
        *("TurnStarted", "ToolCalls", "ToolResults", "TurnEnded"),
        *("TurnStarted", "ToolCalls", "ToolResults"),
    ]
    outcomes = [event.outcome for _, event in told_of(alone(messages, AGENT)) if isinstance(event, TurnEnded)]
    assert outcomes == ["completed", "cancelled", "completed"]


def test_an_agent_alone_may_ask_before_it_calls() -> None:
    rest = {"title": "Looking", "name": "look", "kind": "read", "rawInput": {"path": "a"}}
    asked = [
        (AGENT, permission(7, "a", **rest)),
        (AGENT, request(8, "fs/read_text_file", {"sessionId": "s", "path": "p"})),
    ]
    assert kinds(alone([*hello(), asked[1]], AGENT)) == []
    assert kinds(alone([*hello(), asked[0]], AGENT)) == ["TurnStarted", "ToolCalls"]
    assert kinds(alone([*hello(), asked[1], asked[0], *call("a"), ended(2)], AGENT)) == [
        *("TurnStarted", "ToolCalls", "ToolResults", "TurnEnded")
    ]


def test_what_cannot_be_read_is_left_out() -> None:
    lines = recorded(TURN)
    lines[5:5] = ["{", json.dumps({"dir": AGENT, "t": 1, "raw": "words"}), json.dumps({"dir": "sideways", "msg": {}})]
    told, unread = read(lines)
    assert [each.event for each in told] == [event for _, event in told_of(recorded(TURN))]
    assert unread == [
        (6, "not JSON"),
        (7, "no message that can be read"),
        (8, "a value that is not known here - at `$.dir`"),
    ]


def test_a_later_version_is_said_not_to_be_read() -> None:
    told, unread = read(recorded([*hello(version=2), *TURN[4:]]))
    assert told == []
    assert [line for line, _ in unread] == [2]
    assert "passes unguarded" in unread[0][1]


def test_control_is_answered_by_nobody() -> None:
    control = [(CLIENT, request(7, f"_turnguard/{name}", {"sessionId": "s"})) for name in ("status", "settings")]
    control.append((CLIENT, request(8, "_turnguard/override", {"sessionId": "s", "action": "disable"})))
    messages = [*TURN[:5], *control, *TURN[5:]]
    assert told_of(recorded(messages)) == told_of(recorded(TURN))


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        (recorded(TURN)[0], True),
        (recorded(TURN)[5], True),
        *((line, True) for line in alone(TURN)[:1] + alone(TURN)[4:6] + alone(TURN)[-1:]),
        ('{"dir": "c2a", "msg": {"method": "session/prompt"}}', False),
        ('{"dir": "c2a", "raw": "x"}', False),
        (json.dumps(request(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})), False),
        (json.dumps(request(0, "initialize", {"processId": 1, "capabilities": {}})), False),
        (json.dumps(request(0, "initialize", None)), False),
        (json.dumps(result_of(0, {"capabilities": {}})), False),
        (json.dumps(result_of(0, None)), False),
        ('{"method": "session/prompt"}', False),
    ],
)
def test_how_it_is_recognised(line: str, is_ours: bool) -> None:
    assert recording.FORMAT.recognises(head_of([line.encode()])) is is_ours


def test_nothing_is_recognised_in_nothing() -> None:
    assert not recording.FORMAT.recognises(Head([], b""))
