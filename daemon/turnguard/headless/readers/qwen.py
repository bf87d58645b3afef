"""Qwen Code: its chat logs, and what `qwen -p --output-format stream-json` prints.

chat log    lines like those of Claude Code, with messages of Gemini's API: a line holds a whole message of the
            model, and a line of `tool_result` each result. A turn begins with a line of the user's, whose `subtype`
            says who else it came from. A subagent has a file of its own.
stream      that of Claude Code, with a whole message in a line. Words of the user are reports of subagents.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import claude, gemini
from turnguard.transcript import Format, Head, Kept, Told, decoded_where
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnStarted,
    UserInput,
)

ORIGINS: Final = {
    None: "user",
    "notification": "notification",
    "cron": "cron",
    "goal_runtime": "goal",
}
"""By the subtype of a line of the user's; lines of other subtypes begin no turn."""

IN_TURN: Final = "mid_turn_user_message"


class FunctionCall(Struct):
    """A call."""

    id: str | None = None
    name: str | None = None
    args: Raw | UnsetType = UNSET


class FunctionResponse(Struct):
    """A result."""

    id: str | None = None
    name: str | None = None
    response: Raw | UnsetType = UNSET


class Part(Struct):
    """A part of a message; which field it has says what it is."""

    text: str | None = None
    thought: bool | None = None
    call: FunctionCall | None = msgspec.field(default=None, name="functionCall")
    response: FunctionResponse | None = msgspec.field(default=None, name="functionResponse")


class Message(Struct):
    """A message of Gemini's API."""

    parts: list[Part] | None = None


class _Status(Struct):
    status: str | None = None


class Line(Struct):
    """A line."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    is_sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    message: Message | None = None
    result: _Status | None = msgspec.field(default=None, name="toolCallResult")


class _Kind(Struct):
    """Enough of a line to tell whether the rest has to be read."""

    type: str = ""
    subtype: str | None = None


_line = msgspec.json.Decoder(Line)
_kind = msgspec.json.Decoder(_Kind)

READ: Final = frozenset({"user", "assistant", "tool_result"})
COMPACTION: Final = "chat_compression"


def _is_read(line: Line | _Kind) -> bool:
    return line.type in READ or line.subtype == COMPACTION


class Reader:
    """Reads chat logs."""

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        told = decoded_where(_is_read, _line, _kind, line)
        if told is None:
            return
        scope = told.agent_id if told.is_sidechain else None
        for event in _events(told, scope):
            yield Told(event, scope, told.uuid, at=told.timestamp)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()


def _events(line: Line, scope: str | None) -> Iterator[Event]:
    parts = (line.message and line.message.parts) or []
    if line.subtype == COMPACTION:
        yield Compacted()
    elif line.type == "assistant":
        yield from _of_model(parts)
    elif line.type == "tool_result":
        status = None if line.result is None else line.result.status
        results = [
            gemini.answered(each.id, status, each.response, is_shell=each.name == gemini.SHELL)
            for part in parts
            if (each := part.response) is not None
        ]
        if results:
            yield ToolResults(results)
    elif line.subtype == IN_TURN:
        yield UserInput()
    elif line.subtype in ORIGINS and scope is None:
        yield TurnStarted(origin=ORIGINS[line.subtype])


def _of_model(parts: list[Part]) -> Iterator[Event]:
    for part in parts:
        if part.text:
            yield Thought(description=part.text) if part.thought else Text(part.text)
    calls = [Call(each.name, each.id, each.args) for part in parts if (each := part.call) is not None]
    if calls:
        yield ToolCalls(calls)


class StreamReader(claude.StreamReader):
    """Reads the stream."""

    def heard(self, words: str) -> Iterator[Event]:
        """A subagent in the background is over: the agent is told, and goes on."""
        self.is_open = True
        yield TurnStarted(origin="notification")


def _is_log(head: Head) -> bool:
    return any(
        "sessionId" in each and isinstance(message := each.get("message"), dict) and "parts" in message
        for each in head.objects
    )


def _is_stream(head: Head) -> bool:
    return any(claude.is_init(each) and "qwen_code_version" in each for each in head.objects)


STREAM = Format("qwen-stream", _is_stream, StreamReader, is_live=True)

FORMAT = Format(
    "qwen",
    _is_log,
    Reader,
    tuple(
        Kept(variable, ".qwen", pattern)
        for variable in ("QWEN_RUNTIME_DIR", "QWEN_HOME")
        for pattern in ("projects/*/chats/*.jsonl", "projects/*/subagents/**/*.jsonl", "tmp/*/chats/*.json*")
    ),
)
