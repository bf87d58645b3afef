"""What `codex exec --json` prints: a line when something begins, changes or is over, with all of it so far.

A command is shown before it runs, and again with its output. Of a patch only the paths are shown, so it cannot be told
from another of the same files: each is taken for one of its own, which the item's id stands for. Prompts are not shown,
nor which calls belong to one response.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import written
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Told, decoded
from turnguard_protocol.events import (
    Call,
    Event,
    Result,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)

FAILED: Final = frozenset({"failed", "declined"})

SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh -l?c (['\"]?)(.*)\1", re.DOTALL)
"""How a command is handed to a shell; the quotes are there when it has more than one word."""


class _Message(Struct):
    message: str | None = None


class Item(Struct):
    """Something that the agent did, or does; which fields it has depends on `type`."""

    id: str = ""
    type: str = ""
    status: str | None = None
    text: str | None = None
    command: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: Raw | UnsetType = UNSET
    server: str | None = None
    tool: str | None = None
    arguments: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: _Message | None = None
    prompt: str | None = None
    receiver_thread_ids: list[str] | None = None
    agents_states: Raw | UnsetType = UNSET
    items: Raw | UnsetType = UNSET


class Line(Struct):
    """A line."""

    type: str = ""
    item: Item | None = None


_line = msgspec.json.Decoder(Line)
_encode = msgspec.json.Encoder().encode


class Reader:
    """Reads the stream."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._plans = 0

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        for event in self._events(decoded(_line, line)):
            yield Told(event)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()

    def _events(self, line: Line) -> Iterator[Event]:
        item = line.item
        if line.type == "turn.started":
            yield TurnStarted()
        elif line.type == "turn.completed":
            yield TurnEnded()
        elif line.type == "turn.failed":
            yield TurnEnded("failed")
        elif item is None:
            return
        elif item.type == "todo_list":
            yield from self._of_plan(line.type, item)
        elif line.type == "item.started":
            yield from self._begun(item)
        elif line.type == "item.completed":
            yield from self._over(item)

    def _begun(self, item: Item) -> Iterator[Event]:
        call = _call(item)
        if call is not None and item.id not in self._open:
            self._open.add(item.id)
            yield ToolCalls([call])

    def _over(self, item: Item) -> Iterator[Event]:
        if item.type == "agent_message":
            yield Text(item.text)
        elif item.type == "reasoning":
            yield Thought(description=item.text or "")
        else:
            yield from self._begun(item)  # of some things only the end is shown
            if item.id in self._open:
                self._open.remove(item.id)
                yield ToolResults([_result(item)])

    def _of_plan(self, kind: str, item: Item) -> Iterator[Event]:
        """The plan is one item, which changes with each call and is over with the turn."""
        if kind != "item.completed":
            self._plans += 1
            call_id = f"{item.id}.{self._plans}"
            yield ToolCalls([Call("update_plan", call_id, item.items)])
            yield ToolResults([Result(call_id, ok=True)])


def _call(item: Item) -> Call | None:
    """The call that an item is, None when it is none. Web searches run at the provider's."""
    if item.type == "command_execution":
        return Call("exec_command", item.id, _object(command=_command(item.command or "")))
    if item.type == "file_change":
        return Call("apply_patch", item.id, _object(changes=item.changes, item=item.id))
    if item.type == "mcp_tool_call":
        return Call(f"mcp__{item.server}__{item.tool}", item.id, item.arguments)
    if item.type == "collab_tool_call":
        return Call(item.tool, item.id, _object(prompt=item.prompt, receiver_thread_ids=item.receiver_thread_ids))
    return None


def _object(**members: object) -> Raw:
    return Raw(_encode({name: value for name, value in members.items() if value is not UNSET and value is not None}))


def _command(line: str) -> str:
    """The command that a shell was handed, so that it can be seen what it is about."""
    handed = SHELL.fullmatch(line)
    return line if handed is None else handed[2]


def _result(item: Item) -> Result:
    """What became of a call."""
    return result_of(item.id, _said(item), ok=item.status not in FAILED)


def _said(item: Item) -> Raw | UnsetType:
    if item.error is not None and item.error.message is not None:
        return written.text(item.error.message)
    if item.aggregated_output is not None:
        return written.text(item.aggregated_output)
    if written.is_given(item.result):
        return item.result
    return item.agents_states if item.type == "collab_tool_call" else written.NOTHING


def _recognises(head: Head) -> bool:
    return any(each.get("type") == "thread.started" and "thread_id" in each for each in head.objects)


FORMAT = Format("codex-exec", _recognises, Reader, is_live=True)
