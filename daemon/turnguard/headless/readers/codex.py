"""Codex: its rollout files, of three generations.

    since 2025-10   `{timestamp, type, payload}`: items of the Responses API (`response_item`), and events of Codex
                    (`event_msg`), which say again what items say
    before          the same items and nothing around them; the first line is about the session
    both            calls and their results are items of their own, paired by `call_id`; arguments are JSON in a string

A turn begins with the first of three signs, of which older versions do not write all: `task_started`, an item with
words of the user, the event `user_message`. More words of the user in a turn that was begun by `task_started` are
input, in others the next turn. Items of one response stand together without an id of it; usage is told once for each.

What a command came to stands in the text of its result, under a header that is never twice the same, and in newer
versions in an event that comes before. Web searches run at the provider's and are no calls.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import written
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Kept, Told, UnreadableError, decoded
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
    UserInput,
)

CONTEXT: Final = (
    *("<environment_context", "<user_instructions", "<turn_aborted", "<subagent_notification", "<user_shell_command"),
    *("<permissions instructions", "<skill", "<INSTRUCTIONS", "# AGENTS.md instructions", "<user_action"),
    *("<hook_prompt", "<collaboration_mode", "<model_switch", "<personality_spec", "<apps_instructions"),
)
"""How items of the user begin that Codex wrote itself."""

USER_KIND: Final = "user."
"""How the kinds of content begin that the user wrote, where an item names them."""

ABORTED: Final = re.compile(rb'["n]aborted by user(?: after [0-9.]++s)?"\Z')
"""How the result of a call ends, in JSON, that the user stopped."""

HEADER: Final = re.compile(
    r"(?:Chunk ID: .*\n)?(?:Exit code: (-?[0-9]+)\n)?(?:Wall time: .*\n)?(?:Process exited with code (-?[0-9]+)\n)?"
    r"(?:Process running with session ID .*\n)?(?:Original token count: .*\n)?(?:Total output lines: .*\n)?Output:\n?"
)
"""What stands above an output; a patch has two of them, one below the other."""

FAILED: Final = frozenset({"failed", "declined"})

PATCH: Final = "apply_patch"
PATCH_BEGINS: Final = b"*** Begin Patch"
PATCH_COMMAND: Final = re.compile(rf"\s*(?:cd [^&;\n]*&& *)?{PATCH}\b")

COMMAND_ENDS: Final = frozenset({"exec_command_end", "patch_apply_end"})
USAGE: Final = frozenset({"token_count", "token_usage_record"})


class Part(Struct):
    """A part of a message or of a result."""

    text: str | None = None


class _Passed(Struct):
    content_item_kinds: list[str] | None = None


class Item(Struct):
    """An item of the Responses API; which fields it has depends on `type`."""

    type: str = ""
    role: str | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    name: str | None = None
    call_id: str | None = None
    id: str | None = None
    arguments: Raw | UnsetType = UNSET
    input: str | None = None
    action: Raw | UnsetType = UNSET
    execution: str | None = None
    output: Raw | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    passed: _Passed | None = msgspec.field(default=None, name="internal_chat_message_metadata_passthrough")


class _Done(Struct):
    """Something that Codex did, as `item_completed` tells it."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    exit_code: int | None = None


class _Happened(Struct):
    """An event of Codex; which fields it has depends on its type."""

    item: _Done | None = None
    call_id: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    kind: str | None = None
    error: Raw | UnsetType = UNSET


class _About(Struct):
    """What the first line says of the session."""

    id: str | None = None
    source: Raw | UnsetType = UNSET


class _Command(Struct):
    """The arguments of a shell tool."""

    cmd: str | None = None
    command: str | list[str] | None = None


class _Type(Struct):
    type: str = ""


class _Kind(Struct):
    """Enough of a line to tell whether the rest has to be read."""

    type: str = ""
    timestamp: str | None = None
    payload: _Type | UnsetType = UNSET


class _OfItem(Struct):
    payload: Item


class _OfEvent(Struct):
    payload: _Happened


class _OfSession(Struct):
    payload: _About


class _OldOutput(Struct):
    """A result as JSON in a string, or as an object."""

    output: str | None = None
    content: str | None = None
    success: bool | None = None
    metadata: "_OldMetadata | None" = None


class _OldMetadata(Struct):
    exit_code: int | None = None


_kind = msgspec.json.Decoder(_Kind)
_item = msgspec.json.Decoder(Item)
_of_item = msgspec.json.Decoder(_OfItem)
_of_event = msgspec.json.Decoder(_OfEvent)
_of_session = msgspec.json.Decoder(_OfSession)
_command = msgspec.json.Decoder(_Command)
_old_output = msgspec.json.Decoder(_OldOutput)

ITEMS: Final = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
    | {"local_shell_call", "tool_search_call", "tool_search_output"}
)
EVENTS: Final = frozenset(
    {"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted", "user_message", "item_completed"}
    | COMMAND_ENDS
)


class Reader:
    """Reads a rollout."""

    def __init__(self) -> None:
        self._is_first = True
        self._scope: str | None = None
        self._is_open = False
        self._is_told = False
        self._is_quiet = False
        self._answers = 0
        self._is_answered = False
        self._has_usage = False
        self._open: set[str] = set()
        self._ends: dict[str, bool] = {}

    def line(self, line: bytes) -> Iterator[Told]:
        """What a line says."""
        kind = decoded(_kind, line)
        for event in self._events(kind, line):
            message = f"{self._answers}" if isinstance(event, ToolCalls | Text | Thought) else None
            yield Told(event, self._scope, message, at=kind.timestamp)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()

    def _events(self, kind: _Kind, line: bytes) -> Iterable[Event]:
        if kind.payload is UNSET:
            return self._of_item(decoded(_item, line)) if kind.type in ITEMS else ()
        within = kind.payload.type
        if kind.type in USAGE or within in USAGE:
            self._has_usage = self._is_answered = True
        elif kind.type == "response_item" and within in ITEMS:
            return self._of_item(decoded(_of_item, line).payload)
        elif kind.type == "event_msg" and within in EVENTS:
            return self._of_event(within, decoded(_of_event, line).payload)
        elif kind.type == "compacted":
            return (Compacted(),)
        elif kind.type == "turn_context":  # older versions write one for each request
            self._is_answered = True
        elif kind.type == "session_meta" and self._is_first:
            self._is_first = False
            self._scope = _subagent(decoded(_of_session, line).payload)
        return ()

    # --- items --------------------------------------------------------------------------------------------------------

    def _of_item(self, item: Item) -> Iterator[Event]:
        if item.type == "message":
            yield from self._of_message(item)
        elif item.type == "reasoning":
            self._model_acts()
            for part in item.summary or ():
                if part.text:
                    yield Thought(description=part.text)
        elif item.type.endswith("_output"):
            if not self._has_usage:
                self._is_answered = True
            yield self._result(item)
        elif item.execution != "server":
            self._model_acts()
            call = _call(item)
            if call.id is not None:
                self._open.add(call.id)
            yield ToolCalls([call])

    def _of_message(self, item: Item) -> Iterator[Event]:
        parts = [Part(item.content)] if isinstance(item.content, str) else item.content or ()
        if item.role == "assistant":
            self._model_acts()
            for part in parts:
                if part.text:
                    yield Text(part.text)
        elif item.role == "user" and _is_prompt(item, parts):
            yield from self._user_speaks()

    def _model_acts(self) -> None:
        self._is_quiet = False
        if self._is_answered:
            self._answers += 1
            self._is_answered = False

    def _result(self, item: Item) -> ToolResults:
        call_id = item.call_id or item.id
        self._open.discard(call_id or "")
        ended = self._ends.pop(call_id or "", None)
        told = item.tools if item.output is UNSET else item.output
        words, ok = (told, None) if told is UNSET else _output(told)
        ok = ended if ok is None else ok
        if words is UNSET or ABORTED.search(bytes(words)) is None:
            return ToolResults([result_of(call_id, words, ok=ok)])
        result = result_of(call_id, words, ok=False)
        result.error_type = "cancelled"
        return ToolResults([result])

    # --- turns --------------------------------------------------------------------------------------------------------

    def _of_event(self, kind: str, event: _Happened) -> Iterator[Event]:
        if kind in ("task_started", "turn_started"):
            if not self._is_quiet:
                yield TurnStarted()
            self._is_open = self._is_told = self._is_quiet = True
        elif kind == "user_message":
            if event.kind in (None, "plain"):
                yield from self._user_speaks()
        elif kind in ("task_complete", "turn_complete"):
            yield from self._turn_ends(TurnEnded("failed" if written.is_given(event.error) else "completed"))
        elif kind == "turn_aborted":
            yield from self._turn_ends(TurnEnded("cancelled"))
        elif kind in COMMAND_ENDS:
            success = event.success if event.exit_code is None else event.exit_code == 0
            self._note_end(event.call_id, success)
        elif event.item is not None and event.item.type != "UserMessage":
            done = event.item
            success = done.exit_code == 0 if done.exit_code is not None else _succeeded(done.status)
            self._note_end(done.id, success)

    def _note_end(self, call_id: str | None, success: bool | None) -> None:
        if call_id is not None and success is not None and call_id in self._open:
            self._ends[call_id] = success

    def _user_speaks(self) -> Iterator[Event]:
        if not self._is_quiet:
            yield UserInput() if self._is_told else TurnStarted()
        self._is_open = self._is_quiet = True

    def _turn_ends(self, event: TurnEnded) -> Iterator[Event]:
        if self._is_open:
            yield event
        self._is_open = self._is_quiet = self._is_told = False
        self._is_answered = True


def _call(item: Item) -> Call:
    call_id = item.call_id or item.id
    if item.type == "local_shell_call":
        return Call("local_shell", call_id, item.action)
    if item.type == "tool_search_call":
        return Call("tool_search", call_id, item.arguments)
    if item.type == "custom_tool_call":
        return Call(item.name, call_id, Raw(b'{"input":%b}' % bytes(written.text(item.input or ""))))
    words = None if item.arguments is UNSET else written.string_of(item.arguments)
    arguments = item.arguments if words is None else written.arguments(words)
    return Call(PATCH if _is_patch(arguments) else item.name, call_id, arguments)


def _is_patch(arguments: Raw | UnsetType) -> bool:
    if arguments is UNSET or PATCH_BEGINS not in bytes(arguments):
        return False
    try:
        told = decoded(_command, bytes(arguments))
    except UnreadableError:
        return False
    command = told.cmd or told.command or ""
    if not isinstance(command, str):  # `[bash, -lc, ...]`, or `[apply_patch, ...]`
        command = command[0] if command[0] == PATCH else command[-1]
    return PATCH_COMMAND.match(command) is not None


def _output(told: Raw) -> tuple[Raw, bool | None]:
    """What a result says without what stands around it, and whether that says that its command succeeded."""
    words = written.string_of(told)
    if words is None or words.startswith('{"output":'):
        old = _old(told if words is None else words.encode())
        if old is None:
            return told, None
        code = old.metadata and old.metadata.exit_code
        return written.text(old.output or old.content or ""), old.success if code is None else code == 0
    code = None
    while (header := HEADER.match(words)) is not None:
        words = words[header.end() :]
        code = header[1] or header[2] or code
    return written.text(words), None if code is None else int(code) == 0


def _old(told: Raw | bytes) -> _OldOutput | None:
    if not bytes(told).startswith(b"{"):
        return None
    try:
        old = decoded(_old_output, bytes(told))
    except UnreadableError:
        return None
    return None if old.output is None and old.content is None else old


def _succeeded(status: str | None) -> bool | None:
    return True if status == "completed" else False if status in FAILED else None


def _is_prompt(item: Item, parts: list[Part] | tuple[()]) -> bool:
    kinds = None if item.passed is None else item.passed.content_item_kinds
    if kinds is not None:
        return any(kind.startswith(USER_KIND) for kind in kinds)
    return any(part.text is None or not part.text.lstrip().startswith(CONTEXT) for part in parts)


def _subagent(about: _About) -> str | None:
    """The id of the session where it is one of a subagent's."""
    is_subagent = about.source is not UNSET and bytes(about.source).startswith(b'{"subagent"')
    return about.id if is_subagent else None


def _recognises(head: Head) -> bool:
    return any(_is_new(each) or _is_old(each) for each in head.objects)


def _is_new(line: Mapping[str, Any]) -> bool:
    kinds = ("session_meta", "response_item", "turn_context", "event_msg")
    return line.get("type") in kinds and isinstance(line.get("payload"), dict)


def _is_old(line: Mapping[str, Any]) -> bool:
    return line.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= line.keys()


FORMAT = Format(
    "codex",
    _recognises,
    Reader,
    (
        Kept("CODEX_HOME", ".codex", "sessions/**/*.jsonl"),
        Kept("CODEX_HOME", ".codex", "archived_sessions/**/*.jsonl"),
    ),
)
