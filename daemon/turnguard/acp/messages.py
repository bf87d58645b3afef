"""What is read of ACP messages: partial shapes of exactly what the guards look at.

A line is decoded once, by msgspec, and everything that nobody looks at is skipped. Where msgspec is stricter than the
clients and agents are (a lone surrogate, a member of another type than the protocol says), the line is read again the
slow way and members that do not fit count as absent; there a byte order mark and numbers that JSON does not have do no
harm. A line that cannot be read even so, or nests too deep, is not understood; if it looks like a tool call it is told
as one of which nothing is known, and if it looks like an answer, whose it may be can be asked for.

Nothing here is ever written again: lines are forwarded as they came.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.core.javascript import Json, NestingError, NotJsonError, parse, stringify

SESSION_UPDATE = "session/update"
REQUEST_PERMISSION = "session/request_permission"

TOOL_CALL = "tool_call"
TOOL_CALL_UPDATE = "tool_call_update"
TOOL_CALLS = frozenset({TOOL_CALL, TOOL_CALL_UPDATE})
"""Kinds of updates that tell of a call."""

USAGE_UPDATE = "usage_update"
MESSAGE_CHUNK = "agent_message_chunk"
THOUGHT_CHUNK = "agent_thought_chunk"
WORDS = frozenset({MESSAGE_CHUNK, THOUGHT_CHUNK})
"""Kinds of updates that tell what the model writes."""

RequestId = int | float | str
"""The id of a request; `1` and `"1"` are two."""


class Partial(Struct, rename="camel", gc=False):
    """The base of all shapes here: what is not declared is skipped."""


class ToolCall(Partial, kw_only=True):
    """What one message tells of a tool call. A member that is absent or null tells nothing new (protocol version 1).

    `tool_kind` is the protocol's `kind` (`read`, `edit`, `execute`, ...), `name` the tool's name where an agent gives
    it (unstable), `meta` is `_meta`. `raw_input` and the other raw members are JSON text.
    """

    name: str | None = None
    title: str | None = None
    tool_kind: str | None = msgspec.field(default=None, name="kind")
    status: str | None = None
    raw_input: Raw | UnsetType = UNSET
    raw_output: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    locations: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Update(ToolCall, kw_only=True):
    """The `update` of a `session/update`. `kind` is its `sessionUpdate`; only tool calls have an id."""

    kind: str = msgspec.field(default="", name="sessionUpdate")
    tool_call_id: str | None = None
    message_id: str | None = None


class UndecodedUpdate(Update, kw_only=True):
    """A line that looks like a tool call and could not be read; the id is that of the call where it is certain."""


class PermissionRequest(ToolCall, kw_only=True):
    """The `toolCall` of a `session/request_permission`."""

    tool_call_id: str = ""


class UndecodedRequest(PermissionRequest, kw_only=True):
    """A permission request that could not be read."""


class Params(Partial, kw_only=True):
    """The params of any request or notification, as far as they are looked at."""

    session_id: str | None = None
    update: Update | None = None
    tool_call: PermissionRequest | None = None
    terminal_id: str | None = None
    request_id: RequestId | None = None
    cwd: str | None = None


class Message(Partial, kw_only=True):
    """One message. A response has no `method`, a notification no `id` (UNSET; a `null` id is None)."""

    method: str | None = None
    id: RequestId | UnsetType | None = UNSET
    params: Params = msgspec.field(default_factory=Params)
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def is_response(self) -> bool:
        """Whether this answers a request."""
        return self.method is None and self.id is not UNSET


class AgentInfo(Partial):
    """Who the agent says it is."""

    name: str = ""
    version: str = ""


class Initialized(Partial, kw_only=True):
    """The result of `initialize`. `protocol_version` None: it names none."""

    protocol_version: int | None = None
    agent_info: AgentInfo | None = None


class ExitStatus(Partial):
    """How a command in a terminal of the client ended."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutput(Partial, kw_only=True):
    """The result of `terminal/output`."""

    output: str = ""
    exit_status: ExitStatus | None = None


S = TypeVar("S", bound=Struct)

_message: Callable[[bytes], Message] = msgspec.json.Decoder(Message).decode
_entries: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
_members: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for text that it does not take."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"

MAX_SLOW_BYTES = 4 * 1024 * 1024
"""A longer line is not read the slow way, which takes up to a sixth of a second for each MB while everything waits."""


def decode(line: bytes) -> Message | None:
    """The message of a line, None when it is none that can be read, or a batch of them. Never raises."""
    try:
        return _message(line)
    except UNREADABLE:
        return None if is_batch(line) else _slowly(line.removeprefix(BYTE_ORDER_MARK))


def decode_at_once(line: bytes) -> Message | None:
    """The message of a line that needs not be read the slow way, None for any other."""
    try:
        return _message(line)
    except UNREADABLE:
        return None


def is_batch(line: bytes) -> bool:
    """Whether a line is a JSON-RPC batch: version 1 of ACP does not know them, but they pass like everything else."""
    return line[:1] == b"[" or (line[:1] in _BEFORE_BATCH and line.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"[")


_BEFORE_BATCH = (b" ", b"\t", b"\r", BYTE_ORDER_MARK[:1])


def entries(line: bytes) -> Sequence[bytes]:
    """The messages of a batch, each as a line of its own; none when the line is no batch."""
    if not is_batch(line):
        return ()
    line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return [bytes(entry) for entry in _entries(line)]
    except UNREADABLE:
        return ()


def read(raw: Raw | UnsetType, shape: type[S]) -> S:
    """A result as one of the shapes above; members that do not fit, or a result that does not, count as absent."""
    if isinstance(raw, Raw):
        try:
            return msgspec.json.decode(raw, type=shape)
        except UNREADABLE:
            value = _parsed(bytes(raw))
            if isinstance(value, dict):
                return _fitting(value, shape)
    return shape()


def members(raw: Raw | UnsetType) -> Mapping[str, Raw]:
    """The members of a JSON object, each as its text; none for anything else."""
    if not isinstance(raw, Raw):
        return {}
    try:
        return _members(raw)
    except UNREADABLE:
        value = _parsed(bytes(raw))
        return {name: raw_of(member) for name, member in value.items()} if isinstance(value, dict) else {}


def member(raw: Raw | UnsetType, *path: str) -> Raw | UnsetType:
    """What stands at the end of a path of members; UNSET when some part of the way is not there."""
    for name in path:
        raw = members(raw).get(name, UNSET)
    return raw


def plain(raw: Raw | UnsetType) -> Json:
    """A value as JavaScript reads it; None where it is absent or cannot be read."""
    return _parsed(bytes(raw)) if isinstance(raw, Raw) else None


def text(raw: Raw | UnsetType) -> str | None:
    """A value that is a string with something in it."""
    value = plain(raw) if isinstance(raw, Raw) and bytes(memoryview(raw)[:1]) == b'"' else None
    return value if isinstance(value, str) and value else None


def raw_of(value: Json) -> Raw:
    """A plain value as JSON text. A lone surrogate stays one, and one that nests too deep is written as Python does."""
    try:
        return Raw(stringify(value, sort_keys=False).encode())
    except NestingError:
        return Raw(json.dumps(value, separators=(",", ":")).encode())


# --- the slow way -----------------------------------------------------------------------------------------------------

_LOOKS_LIKE_CALL = re.compile(rb'"(tool_call|tool_call_update|session/request_permission)"')
_SESSION_ID = re.compile(rb'"sessionId"\s*+:\s*+"([^"\\]*+)"')
_CALL_ID = re.compile(rb'"toolCallId"\s*+:\s*+"([^"\\]*+)"')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_FLAT = rb"""(?:[^{}\[\]"]|"(?:[^"\\]|\\.)*+")*?"""
_REQUEST_ID = rb""""id"\s*+:\s*+(-?[0-9]++(?![.eE0-9])|"(?:[^"\\]|\\.)*+")"""
_ID_BEFORE = re.compile(rb"\s*+\{" + _FLAT + _REQUEST_ID, re.DOTALL)
_ID_BEHIND = re.compile(rb"[}\]]\s*+," + _FLAT + _REQUEST_ID + _FLAT + rb"\}\s*+\Z", re.DOTALL)
_ANSWERS = re.compile(rb'"(?:result|error)"\s*+:')
_METHOD = re.compile(rb'"method"\s*+:')
_HEAD, _TAIL = 4096, 512
"""Bytes at both ends of a line in which its id is looked for."""


def unread_id(line: bytes) -> RequestId | None:
    """The id of a line that cannot be read, where it is certain: it stands before or behind all that is nested."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    found = _ID_BEFORE.match(line[:_HEAD]) or _ID_BEHIND.search(line[-_TAIL:])
    if found is None:
        return None
    try:
        return json.loads(found[1])
    except ValueError:
        return None


def may_answer(line: bytes) -> bool:
    """Whether a line that cannot be read, or its beginning, looks like an answer to a request."""
    return _ANSWERS.search(line[:_HEAD]) is not None and _METHOD.search(line[:_HEAD]) is None


def _slowly(line: bytes) -> Message | None:
    if len(line) > MAX_SLOW_BYTES:
        try:
            return _message(_SURROGATE.sub(rb"\\ufffd", line))
        except UNREADABLE:
            return _undecoded(line)
    value = _parsed(line)
    if value is None:
        value = _parsed_leniently(line)
    return _fitting(value, Message) if isinstance(value, dict) else _undecoded(line)


def _parsed_leniently(text: bytes) -> Json:
    """As Python reads it: with numbers that JSON does not have (`NaN`), which count as null, and nested deeper."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _parsed(text: bytes) -> Json:
    try:
        return parse(text)
    except (NotJsonError, NestingError, ValueError):
        return None


def _undecoded(line: bytes) -> Message | None:
    """The call that a line looks like, when it looks like one.

    Arguments may hold members that are called like those of the protocol. So an id is certain only when there is one in
    the line; else the line counts as a call of its own when it announces one. What asks for a permission, under an id
    that is certain, can be answered.
    """
    looks = _LOOKS_LIKE_CALL.search(line)
    if looks is None:
        return None
    session, calls = _SESSION_ID.search(line), set(_CALL_ID.findall(line))
    call_id = calls.pop().decode(errors="replace") if len(calls) == 1 else None
    session_id = None if session is None else session[1].decode(errors="replace")
    request_id = unread_id(line) if looks[1] == REQUEST_PERMISSION.encode() else None
    if request_id is not None:
        asked = UndecodedRequest(tool_call_id=call_id or "")
        return Message(method=REQUEST_PERMISSION, id=request_id, params=Params(session_id=session_id, tool_call=asked))
    kind = TOOL_CALL_UPDATE if looks[1] == TOOL_CALL_UPDATE.encode() else TOOL_CALL
    update = UndecodedUpdate(kind=kind, tool_call_id=call_id)
    return Message(method=SESSION_UPDATE, params=Params(session_id=session_id, update=update))


def _fitting(value: Mapping[str, Json], shape: type[S]) -> S:
    """The members of an object that fit a shape."""
    fields: dict[str, object] = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name in value:
            member = _fit(value[field.encode_name], field.type)
            if member is UNSET and field.name == "tool_call_id":
                member = _number_as_id(value[field.encode_name])
            if member is not UNSET:
                fields[field.name] = member
    return shape(**fields)


def _number_as_id(value: Json) -> object:
    """Some agents number their calls, which the protocol does not allow; the number's text stands for it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return bytes(raw_of(value)).decode() if is_number else UNSET


def _fit(value: Json, wanted: object) -> object:
    """A value as a field wants it, UNSET when it does not fit."""
    options = getattr(wanted, "__args__", (wanted,))
    if Raw in options:
        return raw_of(value)
    for option in options:
        if isinstance(value, dict) and isinstance(option, type) and issubclass(option, Struct):
            return _fitting(value, option)
        if option is int and isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
            return int(value)
        if isinstance(option, type) and option in (str, float) and isinstance(value, option):
            return value
    return None if value is None and type(None) in options else UNSET
