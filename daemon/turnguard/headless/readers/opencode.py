"""opencode: what `opencode run --format json` prints, and what `opencode export` writes.

Both tell parts of messages. A part that is a call has its result in it: the stream shows a call only when it has run,
and nothing of what subagents do, whose sessions are exported for themselves.

    stream    a line for each part that is over
    export    one document: the messages of a session, each with its parts

A turn is over with a step that has another reason than calls, unless it was the one that compacted: then the agent goes
on by itself.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Told, decoded
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Result,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)

GOES_ON: Final = frozenset({None, "tool-calls", "unknown"})
"""Reasons for the end of a step after which the turn goes on."""

ABORTED: Final = "MessageAbortedError"


class Metadata(Struct):
    """What is known besides: of a command that ran its code, of words that they follow a compaction."""

    exit: int | None = None
    compaction_continue: bool | None = None


class State(Struct):
    """How far a call is: `pending`, `running`, `completed`, `error`."""

    status: str | None = None
    input: Raw | UnsetType = UNSET
    output: str | None = None
    error: str | None = None
    metadata: Metadata | None = None


class Part(Struct):
    """A part of a message; which fields it has depends on `type`."""

    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    tool: str | None = None
    call_id: str | None = msgspec.field(default=None, name="callID")
    state: State | None = None
    reason: str | None = None
    metadata: Metadata | None = None
    message_id: str | None = msgspec.field(default=None, name="messageID")


class _Error(Struct):
    name: str | None = None


class Steps:
    """Which response of the model a part belongs to: older versions put several into one message."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._steps = 0

    def of(self, message: str | None, part: Part) -> str | None:
        """An id of the response."""
        if message != self._message:
            self._message, self._steps = message, 0
        self._steps += part.type == "step-start"
        return message if message is None or self._steps < 2 else f"{message}.{self._steps}"


def _of_part(part: Part) -> Iterator[Event]:
    """What a part of the model's message says."""
    if part.type == "text" and part.text and not part.synthetic:
        yield Text(part.text)
    elif part.type == "reasoning" and part.text:
        yield Thought(description=part.text)
    elif part.type == "tool" and part.state is not None:
        yield ToolCalls([Call(part.tool, part.call_id, part.state.input)])
        result = _result(part.call_id, part.state)
        if result is not None:
            yield ToolResults([result])


def _result(call_id: str | None, state: State) -> Result | None:
    """What became of a call, None where it is not over."""
    if state.status == "completed":
        output = UNSET if state.output is None else written.text(state.output)
        return result_of(call_id, output, ok=not (state.metadata is not None and state.metadata.exit))
    if state.status == "error":
        return result_of(call_id, UNSET if state.error is None else written.text(state.error), ok=False)
    return None


def _time(milliseconds: float | None) -> str | None:
    """A time as other agents write it."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


# --- the stream -------------------------------------------------------------------------------------------------------


class Line(Struct):
    """A line of the stream."""

    type: str = ""
    timestamp: float | None = None
    session: str | None = msgspec.field(default=None, name="sessionID")
    part: Part | None = None
    error: _Error | None = None


_line = msgspec.json.Decoder(Line)


class StreamReader:
    """Reads the stream. Whether a turn is over shows in what comes next, so it is told at the end."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_last_step = False
        self._steps = Steps()

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        told = decoded(_line, line)
        message = None if told.part is None else self._steps.of(told.part.message_id, told.part)
        for event in self._events(told):
            yield Told(event, message=message, at=_time(told.timestamp))

    def end(self) -> Iterator[Told]:
        """The end of the turn, if there was one."""
        if self._is_open and self._is_last_step:
            yield Told(TurnEnded())

    def _events(self, line: Line) -> Iterator[Event]:
        if not self._is_open:
            self._is_open = True
            yield TurnStarted()
        if line.type == "error":
            self._is_open = False
            yield _failed(line.error)
        elif line.part is not None:
            part = line.part
            self._is_last_step = part.type == "step-finish" and part.reason not in GOES_ON
            if part.metadata is not None and part.metadata.compaction_continue:
                yield Compacted()
            yield from _of_part(part)


def _failed(error: _Error | None) -> TurnEnded:
    return TurnEnded("cancelled" if error is not None and error.name == ABORTED else "failed")


def _is_stream(head: Head) -> bool:
    return any(
        isinstance(each.get("sessionID"), str) and ("part" in each or "error" in each) and "type" in each
        for each in head.objects
    )


# --- the export -------------------------------------------------------------------------------------------------------


class _Times(Struct):
    created: float | None = None


class _About(Struct):
    """What is said of a session, or of a message."""

    id: str | None = None
    parent_id: str | None = msgspec.field(default=None, name="parentID")
    role: str | None = None
    time: _Times | None = None
    finish: str | None = None
    error: _Error | None = None
    summary: Raw | UnsetType = UNSET


class _Message(Struct):
    info: _About
    parts: list[Part] = []


class _Export(Struct):
    info: _About
    messages: list[Raw] = []


_export = msgspec.json.Decoder(_Export)
_message = msgspec.json.Decoder(_Message)


def _of_export(document: bytes) -> Iterator[Told]:
    export = decoded(_export, document)
    scope = export.info.id if export.info.parent_id is not None else None
    parts = Parts()
    for place, message in parts.read(export.messages, _message):
        about = message.info
        at = None if about.time is None else _time(about.time.created)
        for event, response in _of_message(message):
            yield Told(event, scope, response, place=place, at=at)
    parts.complain()


def _of_message(message: _Message) -> Iterator[tuple[Event, str | None]]:
    """What a message says, each with the response that it is of."""
    about = message.info
    if about.role == "user":
        if any(part.type == "compaction" for part in message.parts):
            yield Compacted(), None
        elif any(not part.synthetic for part in message.parts) or not message.parts:
            yield TurnStarted(), None
        return
    if about.summary is not UNSET and bytes(about.summary) == b"true":  # what was left of the messages before
        return
    steps = Steps()
    for part in message.parts:
        response = steps.of(about.id, part)
        for event in _of_part(part):
            yield event, response
    if about.error is not None:
        yield _failed(about.error), None
    elif about.finish not in GOES_ON and not any(part.type == "tool" for part in message.parts):
        yield TurnEnded(), None


def _is_export(head: Head) -> bool:
    return {".info.id", ".messages[].info", ".messages[].parts"} <= outline(head.start)


def new_export_reader() -> Document:
    """A reader of an export."""
    return Document(_of_export)


STREAM = Format("opencode-stream", _is_stream, StreamReader, is_live=True)

FORMAT = Format("opencode", _is_export, new_export_reader)
