"""Claude Code: its session files, and what `claude -p --output-format stream-json --verbose` prints.

Both are lines with messages of Anthropic's API. A message may take several lines, one for each block, all with the
message's id; the results of tools come in lines of `user`. What tells the two apart:

                     session file                                   stream-json
    a turn begins    a `user` line with words of the user           `system` `init`
    a turn ends      at the next one                                `result`
    a subagent       `isSidechain`, by `agentId` or else the line   `parent_tool_use_id`
                     that its chain of `parentUuid` begins with
    a compaction     `system` `compact_boundary`                    the same
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

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

INTERRUPTED: Final = "[Request interrupted by user"
"""How the line begins that Claude Code writes when the user stops a turn."""

NO_PROMPT: Final = ("<local-command-", "<bash-input>", "<bash-stdout>", "<system-reminder>", "Caveat: ")
"""How lines of `user` begin that nobody meant for the model to work on."""

NOTIFICATION: Final = "<task-notification>"


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
    session: str | None = msgspec.field(default=None, name="session_id")
    parent_tool_use_id: str | None = None
    is_sidechain: bool | None = msgspec.field(default=None, name="isSidechain")
    is_meta: bool | None = msgspec.field(default=None, name="isMeta")
    is_compact_summary: bool | None = msgspec.field(default=None, name="isCompactSummary")
    agent_id: str | None = msgspec.field(default=None, name="agentId")
    is_error: bool | None = None


class _Kind(Struct):
    """Enough of a line to tell whether the rest has to be read."""

    type: str = ""


_line = msgspec.json.Decoder(Line)
_kind = msgspec.json.Decoder(_Kind)

READ: Final = frozenset({"user", "assistant", "system", "result"})


class Reader:
    """Reads lines of either format."""

    def __init__(self) -> None:
        self._roots: dict[str, str] = {}

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        if decoded(_kind, line).type in READ:
            yield from self._told(decoded(_line, line))

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()

    def _told(self, line: Line) -> Iterator[Told]:
        scope = self._scope(line)
        message = None if line.message is None else line.message.id
        for event in self._events(line, scope):
            yield Told(event, scope, message, at=line.timestamp)

    def _scope(self, line: Line) -> str | None:
        if line.parent_tool_use_id is not None or not line.is_sidechain:
            return line.parent_tool_use_id
        if line.agent_id is not None:
            return line.agent_id
        root = self._roots.get(line.parent_uuid or "", line.uuid or "")
        if line.uuid is not None:
            self._roots[line.uuid] = root
        return root

    def _events(self, line: Line, scope: str | None) -> Iterator[Event]:
        if line.type == "system":
            if line.subtype == "init":
                yield TurnStarted()
            elif line.subtype == "compact_boundary":
                yield Compacted()
        elif line.type == "result":
            yield TurnEnded("failed" if line.is_error else "completed")
        elif line.message is not None:
            blocks = line.message.content or []
            blocks = [Block(text=blocks)] if isinstance(blocks, str) else blocks
            yield from _of_model(blocks) if line.type == "assistant" else _of_user(line, blocks, scope)


def _of_model(blocks: list[Block]) -> Iterator[Event]:
    for block in blocks:
        if block.type == "text" and block.text:
            yield Text(block.text)
        elif block.type == "thinking" and block.thinking:
            yield Thought(description=block.thinking)
    # A `server_tool_use` ran at the provider's: it has its result in the same message, and nobody can stop it.
    calls = [Call(block.name, block.id, block.input) for block in blocks if block.type == "tool_use"]
    if calls:
        yield ToolCalls(calls)


def _of_user(line: Line, blocks: list[Block], scope: str | None) -> Iterator[Event]:
    results = [_result(block) for block in blocks if block.type == "tool_result"]
    if results:
        yield ToolResults(results)
    elif line.is_meta or line.is_compact_summary or scope is not None:
        return
    elif words := next((block.text for block in blocks if block.text), None) or ("" if blocks else None):
        yield from _of_words(words)


def _of_words(words: str) -> Iterator[Event]:
    if words.startswith(INTERRUPTED):
        yield TurnEnded("cancelled")
    elif words.startswith(NOTIFICATION):
        yield TurnStarted(origin="notification")
    elif not words.startswith(NO_PROMPT):
        yield TurnStarted()


def _result(block: Block) -> Result:
    result = Result(block.tool_use_id, ok=not block.is_error)
    if block.is_error:
        result.error = block.content
    else:
        result.output = block.content
    return result


def _is_stream(head: Head) -> bool:
    return any(
        each.get("type") == "system" and each.get("subtype") == "init" and "session_id" in each for each in head.objects
    )


def _is_session(head: Head) -> bool:
    return any(
        each.get("type") in ("user", "assistant") and "sessionId" in each and isinstance(each.get("message"), dict)
        for each in head.objects
    )


STREAM = Format("claude-stream", _is_stream, Reader, is_live=True)

FORMAT = Format("claude", _is_session, Reader, (Kept("CLAUDE_CONFIG_DIR", ".claude", "projects/**/*.jsonl"),))
