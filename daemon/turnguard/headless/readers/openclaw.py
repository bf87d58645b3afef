"""OpenClaw: a session's JSONL file, as the coding agent pi writes it, on which OpenClaw stands.

A line is an entry with a `message` of a user, the model (all calls of one message are in it) or a tool. Other entries
keep settings and state. The entries are a tree when somebody went back to an earlier one; here they come in the file's
order, in which they were made.

Messages that the gateway puts in as the model's, from the provider `openclaw`, are none.

Later versions have the entries in a database, `agents/*/agent/openclaw-agent.sqlite`, of which `headless.databases`
makes these lines, with one before each session that names it. `openclaw sessions export-trajectory` writes them as a
document, too.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.transcript import Format, Head, Kept, Told, UnreadableError, decoded
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

GATEWAY: Final = "openclaw"

UNREAD: Final = "unread"
"""The type of a line in place of what of a database cannot be read."""

ORIGINS: Final = (("[cron:", "cron"), ("Read HEARTBEAT.md ", "cron"))
"""How the words begin of prompts that nobody wrote."""

FAILED: Final = frozenset({"error", "failed"})
"""What `details.status` is of a call that failed, whatever `isError` says."""

RUNS_COMMANDS: Final = frozenset({"exec", "bash", "process"})
"""Tools of which only an exit code tells that what they ran went well."""


class Block(Struct):
    """A block of a message."""

    type: str = "text"
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Raw | UnsetType = UNSET


class Details(Struct):
    """What a tool tells besides, as far as it is looked at."""

    status: str | None = None
    exit_code: float | None = msgspec.field(default=None, name="exitCode")


class Message(Struct):
    """A message; which fields it has depends on the role."""

    role: str = ""
    content: str | list[Raw] | None = None
    provider: str | None = None
    stop_reason: str | None = msgspec.field(default=None, name="stopReason")
    tool_call_id: str | None = msgspec.field(default=None, name="toolCallId")
    tool_name: str | None = msgspec.field(default=None, name="toolName")
    is_error: bool | None = msgspec.field(default=None, name="isError")
    details: Raw | UnsetType = UNSET


class Entry(Struct):
    """A line. `database`: the session that it names comes from one; `why`: what of that cannot be read."""

    type: str = ""
    id: str | None = None
    timestamp: str | None = None
    message: Message | None = None
    database: bool | None = None
    why: str | None = None


_entry = msgspec.json.Decoder(Entry)
_block = msgspec.json.Decoder(Block)
_details = msgspec.json.Decoder(Details)


class Reader:
    """Reads a session's file, or the sessions of a database, whose places are the numbers of their entries."""

    def __init__(self) -> None:
        self._number = 0
        self._session: str | None = None

    def line(self, line: bytes) -> Iterator[Told]:
        """What an entry says."""
        self._number += 1
        entry = decoded(_entry, line)
        if entry.type == "session" and entry.database:
            self._number, self._session = 0, entry.id
        elif self._session is not None:
            yield from self._of_database(entry)
        else:
            yield from _told(entry, self._number)

    def _of_database(self, entry: Entry) -> Iterator[Told]:
        if entry.type == UNREAD:
            raise UnreadableError(entry.why or UNREAD, self._number)
        for told in _told(entry, self._number):
            message = None if told.message is None else f"{self._session} {told.message}"
            yield told._replace(session=self._session, place=self._number, message=message)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()


def _told(entry: Entry, number: int) -> Iterator[Told]:
    message = None
    if entry.message is not None and entry.message.role == "assistant":
        message = entry.id or str(number)  # entries of the first version have no ids
    for event in _events(entry):
        yield Told(event, message=message, at=entry.timestamp)


def _events(entry: Entry) -> Iterator[Event]:
    message = entry.message
    if entry.type == "compaction":
        yield Compacted()
    elif entry.type != "message" or message is None:
        return
    elif message.role == "user":
        yield TurnStarted(origin=_origin(_words(message)))
    elif message.role == "assistant" and message.provider != GATEWAY:
        yield from _of_model(message)
    elif message.role == "toolResult":
        yield ToolResults([_result(message)])


def _blocks(message: Message) -> list[Block]:
    content = message.content
    if isinstance(content, list):
        return [decoded(_block, bytes(each)) for each in content]
    return [Block(text=content)] if content else []


def _words(message: Message) -> str:
    return next((block.text for block in _blocks(message) if block.text), "")


def _origin(words: str) -> str:
    return next((origin for beginning, origin in ORIGINS if words.startswith(beginning)), "user")


def _of_model(message: Message) -> Iterator[Event]:
    calls: list[Call] = []
    for block in _blocks(message):
        if block.type == "toolCall":
            calls.append(Call(block.name, block.id, block.arguments))
        elif block.text:
            yield Text(block.text)
        elif block.thinking:
            yield Thought(description=block.thinking)
    if calls:
        yield ToolCalls(calls)
    if message.stop_reason == "aborted":
        yield TurnEnded("cancelled")
    elif message.stop_reason == "stop" and not calls:
        yield TurnEnded()


def _result(message: Message) -> Result:
    """An error is its words; everything else is a result as OpenClaw has it, whatever became of a command."""
    if message.is_error:
        said = "\n".join(block.text for block in _blocks(message) if block.text)
        return Result(message.tool_call_id, message.tool_name, error=written.text(said), ok=False)
    members: Mapping[str, object] = {"content": message.content, "details": message.details}
    said = Raw(msgspec.json.encode({name: value for name, value in members.items() if value is not UNSET}))
    return Result(message.tool_call_id, message.tool_name, output=said, ok=_succeeded(message))


def _succeeded(message: Message) -> bool | None:
    details = _details_of(message)
    if details.status in FAILED:
        return False
    if details.exit_code is not None:
        return details.exit_code == 0
    return None if message.is_error is None or message.tool_name in RUNS_COMMANDS else True


def _details_of(message: Message) -> Details:
    if not isinstance(message.details, Raw) or not bytes(message.details).startswith(b"{"):
        return Details()
    try:
        return _details.decode(message.details)
    except (msgspec.DecodeError, UnicodeError):  # members of another kind are a tool's own
        return Details()


def _recognises(head: Head) -> bool:
    if head.objects and head.objects[0].get("type") == "session" and head.objects[0].get("database") is True:
        return True
    kinds = [each.get("type") for each in head.objects]
    return "session" in kinds and any(
        each.get("type") == "message" and isinstance(each.get("message"), dict) for each in head.objects
    )


FORMAT = Format(
    "openclaw",
    _recognises,
    Reader,
    (
        Kept("OPENCLAW_STATE_DIR", ".openclaw", "agents/*/sessions/*.jsonl"),
        Kept("OPENCLAW_STATE_DIR", ".openclaw", "agents/*/agent/openclaw-agent.sqlite"),
        Kept(None, ".clawdbot", "agents/*/sessions/*.jsonl"),
    ),
)


# --- an export --------------------------------------------------------------------------------------------------------


class Branch(Struct):
    """The document: `session-branch.json`."""

    entries: list[Raw]


_branch = msgspec.json.Decoder(Branch)


def _read(document: bytes) -> Iterator[Told]:
    parts = Parts()
    for place, entry in parts.read(decoded(_branch, document).entries, _entry):
        yield from (told._replace(place=place) for told in _told(entry, place))
    parts.complain()


def _is_export(head: Head) -> bool:
    return outline(head.start) >= {".header.type", ".entries[].type", ".entries[].parentId"}


EXPORT = Format("openclaw-export", _is_export, lambda: Document(_read))
