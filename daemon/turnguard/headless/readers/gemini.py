"""Gemini CLI: its chat logs, and what `gemini -p --output-format stream-json` prints.

    chat log    lines: a message, which is written again when its calls are over, with their results; `$set` of what is
                about the conversation, with all `messages` where the history was made anew. Before 2026 the file is one
                document with the `messages`.
    stream      a line for each call before it runs, and one for each result. All calls of a response come before all
                of their results. Results are what the user sees: of a file that was read, or written, nothing.

A command that failed has succeeded as a call. Of a log the code stands in the result; of a stream it is not known.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.core.hint import call_class
from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.transcript import Format, Head, Kept, Told, decoded
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

SHELL: Final = "run_shell_command"

NO_PROMPT: Final = (
    *("<session_context>", "<hook_context>", "<state_snapshot>"),
    *("System: Potential loop detected.", "System: Please continue.", "Please continue."),
)
"""How messages of the user begin that Gemini CLI wrote itself."""

MODEL: Final = ("gemini", "qwen")
"""The type of messages of the model, here and in the first versions of Qwen Code."""

COMPACTED: Final = "Got it. Thanks for the additional context!"
"""What the model is made to say below the summary, in a history that was compacted."""

PROCESS_GROUP: Final = re.compile(rb"(?:\\n)?Process Group PGID: [^\\\"]*+")
"""A line of a command's result, in JSON, that is never twice the same."""

EXIT_CODE: Final = re.compile(
    rb"\\nExit Code: (-?[0-9]+)(?:\\n(?:Signal|Background PIDs): [^\\\"]*+)*+(?:\\n</untrusted_context>)?\"\Z"
)


class Part(Struct):
    """A part of a message of Gemini's API."""

    text: str | None = None
    function_response: "Response | None" = msgspec.field(default=None, name="functionResponse")


class Response(Struct):
    """What a tool answered, with `output` or `error`."""

    response: Raw | UnsetType = UNSET


class Answer(Struct):
    """The members of a response that are known."""

    output: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_answer = msgspec.json.Decoder(Answer)

OK: Final[Mapping[str | None, bool]] = {"success": True, "error": False, "cancelled": False}


def answered(call_id: str | None, status: str | None, told: Raw | UnsetType, *, is_shell: bool) -> Result:
    """What became of a call, by the status and the response that an agent of this family keeps."""
    result = Result(call_id, ok=OK.get(status))
    output = error = UNSET
    if told is not UNSET:
        known = decoded(_answer, bytes(told)) if bytes(told).startswith(b"{") else Answer()
        output, error = known.output, known.error
        if output is UNSET and error is UNSET:
            output = told
    if is_shell and isinstance(output, Raw):
        output = without_process_group(output)
        code = EXIT_CODE.search(bytes(output))
        result.ok = result.ok and (code is None or int(code[1]) == 0)
    if is_shell and isinstance(error, Raw):
        error = without_process_group(error)
    if error is UNSET and result.ok is False:
        output, error = UNSET, output
    result.output, result.error = output, error
    if status == "cancelled":
        result.error_type = "cancelled"
    return result


def without_process_group(output: Raw) -> Raw:
    """A command's result without the number of its processes."""
    return Raw(PROCESS_GROUP.sub(b"", bytes(output))) if b"Process Group PGID" in bytes(output) else output


# --- chat logs --------------------------------------------------------------------------------------------------------


class Thinking(Struct):
    """A thought."""

    subject: str = ""
    description: str = ""


class ToolCall(Struct):
    """A call that is over."""

    id: str | None = None
    name: str | None = None
    args: Raw | UnsetType = UNSET
    result: list[Part] | None = None
    status: str | None = None


class Message(Struct):
    """A message of the conversation; `type` is `user`, `gemini`, or of what is only shown."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw | UnsetType = UNSET
    thoughts: list[Thinking] | None = None
    calls: list[ToolCall] | None = msgspec.field(default=None, name="toolCalls")


class _Set(Struct):
    messages: list[Message] | None = None


class Line(Message):
    """A line: a message, or a change."""

    kind: str | None = None
    session: str | None = msgspec.field(default=None, name="sessionId")
    messages: list[Raw] | None = None
    set: _Set | None = msgspec.field(default=None, name="$set")


_line = msgspec.json.Decoder(Line)
_message = msgspec.json.Decoder(Message)
_parts = msgspec.json.Decoder(list[Part])


class Reader:
    """Reads chat logs, those that are one document too."""

    def __init__(self) -> None:
        self._scope: str | None = None
        self._said: dict[str, set[str]] = {}
        self._document: Document | None = None
        self._is_first = True

    def line(self, line: bytes) -> Iterable[Told]:
        """What a line says."""
        if self._is_first:
            self._is_first = False
            self._document = Document(self._told) if line.strip() == b"{" else None
        return self._told(line) if self._document is None else self._document.line(line)

    def end(self) -> Iterable[Told]:
        """What a document says."""
        return () if self._document is None else self._document.end()

    def _told(self, data: bytes) -> Iterator[Told]:
        line = decoded(_line, data)
        if line.session is not None:
            self._scope = line.session if line.kind == "subagent" else None
        if line.set is not None and line.set.messages is not None:
            yield from self._anew(line.set.messages)
        elif line.messages is not None:
            parts = Parts()
            for place, message in parts.read(line.messages, _message):
                for told in self._of_message(message):
                    yield told._replace(place=place)
            parts.complain()
        elif line.type:
            yield from self._of_message(line)

    def _of_message(self, message: Message) -> Iterator[Told]:
        message_id = message.id or f"{len(self._said)}"
        is_new = message_id not in self._said
        said = self._said.setdefault(message_id, set())
        if message.type == "user":
            if is_new and self._scope is None and _is_prompt(message.content):
                yield Told(TurnStarted(), at=message.timestamp)
        elif message.type in MODEL:
            # What a message says more later is of another response: calls are written down when all of one are over.
            of = f"{message_id}.{len(said)}" if said else message_id
            for event in (*(_words(message) if is_new else ()), *_calls(message, said)):
                yield Told(event, self._scope, of, at=message.timestamp)

    def _anew(self, messages: list[Message]) -> Iterator[Told]:
        """The history was made anew: it was compacted, or is only written down again, perhaps with other ids."""
        for message in messages:
            is_new = message.id is not None and message.id not in self._said
            if is_new and message.type in MODEL and _text(message.content) == COMPACTED:
                yield Told(Compacted(), self._scope)
            if message.id is not None:
                self._said.setdefault(message.id, set())


def _words(message: Message) -> Iterator[Event]:
    for thought in message.thoughts or ():
        yield Thought(thought.subject, thought.description)
    words = _text(message.content)
    if words:
        yield Text(words)


def _calls(message: Message, said: set[str]) -> Iterator[Event]:
    calls = [call for call in message.calls or () if call.id is None or call.id not in said]
    said |= {call.id for call in calls if call.id is not None}
    if calls:
        yield ToolCalls([Call(call.name, call.id, call.args) for call in calls])
        yield ToolResults([_result(call) for call in calls])


def _text(content: Raw | UnsetType) -> str | None:
    """The text of a message; None when it is none of the user's or the model's own, but results."""
    if content is UNSET:
        return None
    data = bytes(content)
    if data.startswith(b"["):
        parts = decoded(_parts, data)
        return None if any(part.function_response for part in parts) else "".join(part.text or "" for part in parts)
    return written.string_of(content)


def _is_prompt(content: Raw | UnsetType) -> bool:
    words = _text(content)
    return words is not None and not words.lstrip().startswith(NO_PROMPT)


def _result(call: ToolCall) -> Result:
    response = next((part.function_response for part in call.result or () if part.function_response), None)
    told = UNSET if response is None else response.response
    return answered(call.id, call.status, told, is_shell=call.name == SHELL)


# --- the stream -------------------------------------------------------------------------------------------------------


class _Error(Struct):
    message: str | None = None


class StreamLine(Struct):
    """A line of the stream; which fields it has depends on `type`."""

    type: str = ""
    timestamp: str | None = None
    role: str | None = None
    content: str | None = None
    tool_id: str | None = None
    tool_name: str | None = None
    parameters: Raw | UnsetType = UNSET
    status: str | None = None
    output: str | None = None
    error: _Error | None = None


_stream_line = msgspec.json.Decoder(StreamLine)


class StreamReader:
    """Reads the stream. `message` counts the responses, from 1."""

    def __init__(self) -> None:
        self._responses = 0
        self._is_answered = False
        self._names: dict[str | None, str] = {}

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        told = decoded(_stream_line, line)
        for event in self._events(told):
            message = f"{self._responses}" if isinstance(event, ToolCalls | Text) else None
            yield Told(event, message=message, at=told.timestamp)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()

    def _events(self, line: StreamLine) -> Iterator[Event]:
        if line.type == "init":
            self._is_answered = True
            yield TurnStarted()
        elif line.type == "result":
            yield TurnEnded("failed" if line.status == "error" else "completed")
        elif line.type == "tool_result":
            self._is_answered = True
            yield ToolResults([self._result(line)])
        elif line.type == "tool_use":
            self._model_acts()
            self._names[line.tool_id] = line.tool_name or ""
            yield ToolCalls([Call(line.tool_name, line.tool_id, line.parameters)])
        elif line.type == "message" and line.role == "assistant":
            self._model_acts()
            yield Text(line.content)

    def _model_acts(self) -> None:
        if self._is_answered:
            self._responses += 1
            self._is_answered = False

    def _result(self, line: StreamLine) -> Result:
        name = self._names.pop(line.tool_id, "")
        if line.status == "error":
            return Result(line.tool_id, ok=False, error=written.text((line.error and line.error.message) or ""))
        result = Result(line.tool_id, ok=None if name == SHELL else True)
        if line.output:
            result.output = written.text(line.output)
        elif call_class(name, None) == "edit":
            result.output = written.NOTHING
        return result


def _is_stream(head: Head) -> bool:
    return any(each.get("type") == "init" and {"session_id", "model"} <= each.keys() for each in head.objects)


def _is_log(head: Head) -> bool:
    if any({"sessionId", "projectHash"} <= each.keys() for each in head.objects):
        return True
    return {".sessionId", ".projectHash", ".startTime"} <= outline(head.start)


STREAM = Format("gemini-stream", _is_stream, StreamReader, is_live=True)

FORMAT = Format(
    "gemini",
    _is_log,
    Reader,
    (
        Kept("GEMINI_CLI_HOME", ".gemini", "tmp/*/chats/**/*.jsonl", ".gemini"),
        Kept("GEMINI_CLI_HOME", ".gemini", "tmp/*/chats/*.json", ".gemini"),
    ),
)
