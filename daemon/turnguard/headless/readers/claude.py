"""Claude Code: its session files, and what `claude -p --output-format stream-json --verbose` prints.

Both are lines with messages of Anthropic's API. A message may take several lines, one for each block, all with the
message's id; the results of tools come in lines of `user`. What tells the two apart:

                     session file                                   stream-json
    a turn begins    a `user` line with words of the user           `system` `init`
    a turn ends      at the next one                                `result`
    a subagent       `isSidechain`, by `agentId` or else the line   `parent_tool_use_id`
                     that its chain of `parentUuid` begins with
    a compaction     `system` `compact_boundary`, before 2.0 the    `system` `compact_boundary`
                     summary alone
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Kept, Told, decoded_where
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)

INTERRUPTED: Final = "[Request interrupted by user"
"""How the line begins that Claude Code writes when the user stops a turn."""

NO_PROMPT: Final = ("<local-command-", "<bash-input>", "<bash-stdout>", "<system-reminder>", "Caveat: ")
"""How lines of `user` begin that nobody meant for the model to work on."""

NOTIFICATION: Final = "<task-notification>"

SMALL_LINES: Final = ("file-history-snapshot", "last-prompt", "queue-operation", "summary")
"""Types of lines that a session file may begin with, or have alone where nothing happened."""


class Block(Struct):
    """A block of a message; which fields it has depends on `type`."""

    type: str = "text"
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET
    is_error: bool | None = None


class Message(Struct):
    """A message of Anthropic's API."""

    id: str | None = None
    content: str | list[Block] | None = None


class Line(Struct):
    """A line of either format; lines of other types have none of these fields."""

    type: str = ""
    subtype: str | None = None
    message: Message | None = None
    timestamp: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = msgspec.field(default=None, name="parentUuid")
    parent_tool_use_id: str | None = None
    is_sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    is_meta: bool | None = msgspec.field(default=None, name="isMeta")
    is_compact_summary: bool | None = msgspec.field(default=None, name="isCompactSummary")
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    session_id: str | None = msgspec.field(default=None, name="sessionId")
    is_api_error: bool | None = msgspec.field(default=None, name="isApiErrorMessage")
    is_error: bool | None = None


class _Kind(Struct):
    """Enough of a line to tell whether the rest has to be read."""

    type: str = ""


_line = msgspec.json.Decoder(Line)
_kind = msgspec.json.Decoder(_Kind)

READ: Final = frozenset({"user", "assistant", "system", "result"})


def _is_read(line: Line | _Kind) -> bool:
    return line.type in READ


class _Lines:
    """What the two formats have in common."""

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        told = decoded_where(_is_read, _line, _kind, line)
        if told is None:
            return
        scope = self.scope(told)
        session = self.session(told)
        message = told.message.id if told.type == "assistant" and told.message is not None else None
        for event in self.events(told, scope):
            yield Told(event, scope, message, session, at=told.timestamp)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()

    def scope(self, line: Line) -> str | None:
        """Whose a line is."""
        raise NotImplementedError

    def session(self, line: Line) -> str | None:
        """Which session a line belongs to, where a file can hold several."""
        return None

    def events(self, line: Line, scope: str | None) -> Iterator[Event]:
        """What a line says, and how the turn goes on."""
        raise NotImplementedError


class SessionReader(_Lines):
    """Reads session files."""

    def __init__(self) -> None:
        self._roots: dict[str, str] = {}
        self._compacted: set[str | None] = set()
        self._first: str | None = None

    def session(self, line: Line) -> str | None:
        """None for the session that the file begins with: nearly all files hold no other."""
        if self._first is None:
            self._first = line.session_id
        return None if line.session_id == self._first else line.session_id

    def scope(self, line: Line) -> str | None:
        """The subagent's id, or the line that its chain began with."""
        if not line.is_sidechain:
            return None
        if line.agent_id is not None:
            return line.agent_id
        root = self._roots.get(line.parent_uuid or "", line.uuid or "")
        if line.uuid is not None:
            self._roots[line.uuid] = root
        return root

    def events(self, line: Line, scope: str | None) -> Iterator[Event]:
        """A turn begins with words of the user, and ends when the user or an error of the API stops it."""
        if line.subtype == "compact_boundary":
            self._compacted.add(line.session_id)
            yield Compacted()
        elif line.is_compact_summary:  # older versions have nothing before it
            if line.session_id not in self._compacted:
                yield Compacted()
            self._compacted.discard(line.session_id)
        elif line.type == "assistant":
            yield from of_model(line)
            if line.is_api_error and scope is None:
                yield TurnEnded("failed")
        elif line.type == "user":
            results, words = of_user(line)
            yield from results
            if words is not None and scope is None and not line.is_meta:
                yield from _of_words(words)


class StreamReader(_Lines):
    """Reads the stream. What the user says in it begins no turn: `init` did, or what was done after the last one."""

    def __init__(self) -> None:
        self.is_open = False

    def scope(self, line: Line) -> str | None:
        """The call that started the subagent."""
        return line.parent_tool_use_id

    def events(self, line: Line, scope: str | None) -> Iterator[Event]:
        """A turn goes from `init`, or what comes first, to `result` or the user's interruption."""
        if line.type == "system":
            if line.subtype == "init":
                self.is_open = True
                yield TurnStarted()
            elif line.subtype == "compact_boundary":
                yield Compacted()
        elif line.type == "result":
            yield from self._ended("failed" if line.is_error else "completed")
        else:
            results, words = of_user(line) if line.type == "user" else (list(of_model(line)), None)
            if results and not self.is_open:
                self.is_open = True
                yield TurnStarted()
            yield from results
            if words is not None and scope is None:
                yield from self.heard(words)

    def heard(self, words: str) -> Iterator[Event]:
        """What words mean that are told as the user's."""
        if words.startswith(INTERRUPTED):
            yield from self._ended("cancelled")

    def _ended(self, outcome: TurnOutcome) -> Iterator[Event]:
        if self.is_open:
            self.is_open = False
            yield TurnEnded(outcome)


def of_model(line: Line) -> Iterator[Event]:
    """What the model says and calls."""
    blocks = _blocks(line)
    for block in blocks:
        if block.type == "text" and block.text:
            yield Text(block.text)
        elif block.type == "thinking" and block.thinking:
            yield Thought(description=block.thinking)
    # A `server_tool_use` ran at the provider's: it has its result in the same message, and nobody can stop it.
    calls = [Call(block.name, block.id, block.input) for block in blocks if block.type == "tool_use"]
    if calls:
        yield ToolCalls(calls)


def of_user(line: Line) -> tuple[list[Event], str | None]:
    """The results in a line of the user's, and its words where there are none."""
    blocks = _blocks(line)
    results = [
        result_of(block.tool_use_id, block.content, ok=not block.is_error)
        for block in blocks
        if block.type == "tool_result"
    ]
    if results:
        return [ToolResults(results)], None
    return [], next((block.text for block in blocks if block.text), "" if blocks else None)


def _blocks(line: Line) -> list[Block]:
    content = None if line.message is None else line.message.content
    return [Block(text=content)] if isinstance(content, str) else content or []


def _of_words(words: str) -> Iterator[Event]:
    if words.startswith(INTERRUPTED):
        yield TurnEnded("cancelled")
    elif words.startswith(NOTIFICATION):
        yield TurnStarted(origin="notification")
    elif not words.startswith(NO_PROMPT):
        yield TurnStarted()


def _is_stream(head: Head) -> bool:
    return any(is_init(each) for each in head.objects)


def is_init(line: Mapping[str, Any]) -> bool:
    """Whether a line is the one that a stream of this format begins with."""
    return line.get("type") == "system" and line.get("subtype") == "init" and "session_id" in line


def _is_session(head: Head) -> bool:
    return any(_is_of_session(each) for each in head.objects)


def _is_of_session(line: Mapping[str, Any]) -> bool:
    message = line.get("message")
    if isinstance(message, dict):
        return "sessionId" in line and "content" in message
    return {"sessionId", "parentUuid"} <= line.keys() or line.get("type") in SMALL_LINES


STREAM = Format("claude-stream", _is_stream, StreamReader, is_live=True)

FORMAT = Format(
    "claude",
    _is_session,
    SessionReader,
    (
        Kept("CLAUDE_CONFIG_DIR", ".claude", "projects/**/*.jsonl"),
        Kept(None, ".config/claude", "projects/**/*.jsonl"),
    ),
)
