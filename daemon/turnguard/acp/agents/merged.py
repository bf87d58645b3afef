"""A tool call as its agent has told it so far, over several messages."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import UNSET, Raw, UnsetType

from turnguard.acp.messages import UNREADABLE, Partial, ToolCall, member, members, plain, raw_of, text
from turnguard.acp.outgoing import json_of

MAX_HELD_BYTES = 64 * 1024
"""Of a member of a call that is longer its digest is held (arguments), or nothing (the rest)."""

MAX_WEIGHED_BYTES = 1024 * 1024
"""Of a result that is longer only the short members are looked at, of the others the digests: everything waits."""

MAX_WEIGHED_MEMBERS = 1_000

MAX_HELD_TEXT = 64 * 1024
"""Characters of a streamed output that are held; of what follows the digest."""

MAX_TERMINALS = 10
"""Terminals that one call is taken to run in."""

PENDING, IN_PROGRESS, COMPLETED, FAILED = "pending", "in_progress", "completed", "failed"
ENDS = frozenset({COMPLETED, FAILED, "cancelled"})
"""Statuses after which nothing of a call counts any more."""

TERMINAL = "terminal"
"""The type of an item of content that shows a terminal of the client."""

STREAM = "terminal_output_delta"
"""The member of `_meta` in which codex-acp (2) sends the output of a command, piece by piece."""

PARENTS = (("claudeCode", "parentToolUseId"), ("parentToolCallId",), ("subagentMeta", "parentToolCallId"))
"""Where in `_meta` a call of a subagent names the call that started it: claude-agent-acp, qwen-code."""


class ShownText(Partial):
    """What a block of content says, None where it is no text."""

    text: str | None = None


class Shown(Partial, kw_only=True):
    """An item of a call's content, as far as it is text or a terminal of the client."""

    kind: str | None = msgspec.field(default=None, name="type")
    content: ShownText | None = None
    terminal_id: str | None = None


_shown = msgspec.json.Decoder(list[Shown]).decode


class MergedCall:
    """One call. `first_title` is the title it was announced with, `input_content` the last content before its end.

    `texts` is what `content` says where it is nothing but texts and terminals, else None. `terminals` are the client's
    terminals it runs in, `streamed` is output that came in pieces.
    """

    __slots__ = (
        "content",
        "first_title",
        "id",
        "input_content",
        "locations",
        "meta",
        "name",
        "parent",
        "raw_input",
        "raw_output",
        "status",
        "streamed",
        "terminal_exit",
        "terminal_output",
        "terminals",
        "texts",
        "title",
        "tool_kind",
    )

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name: str | None = None
        self.first_title: str | None = None
        self.title: str | None = None
        self.tool_kind: str | None = None
        self.status: str | None = None
        self.parent: str | None = None
        self.meta: dict[str, Raw] = {}
        self.raw_input: Raw | UnsetType = UNSET
        self.raw_output: Raw | UnsetType = UNSET
        self.content: Raw | UnsetType = UNSET
        self.texts: Sequence[str] | None = None
        self.input_content: Raw | UnsetType = UNSET
        self.locations: Raw | UnsetType = UNSET
        self.terminals: frozenset[str] = frozenset()
        self.terminal_output: str | None = None
        self.terminal_exit: int | None = None
        self.streamed = Streamed()

    @property
    def has_ended(self) -> bool:
        """Whether its agent said that it is over."""
        return self.status in ENDS

    def merge(self, told: ToolCall, *, with_input: bool = True) -> None:
        """Takes in what a message tells; `with_input` False: all but the arguments."""
        self.name = told.name or self.name
        self.title = told.title or self.title
        self.first_title = self.first_title or told.title
        self.tool_kind = told.tool_kind or self.tool_kind
        self.status = told.status or self.status
        if is_given(told.meta):
            self._merge_meta(told.meta)
        if with_input and is_given(told.raw_input):
            self.raw_input = _held(told.raw_input)
        if is_given(told.raw_output):
            self.raw_output = _weighed(told.raw_output)
        if is_given(told.locations):
            self.locations = told.locations
        if is_given(told.content):
            self.content = told.content if _size(told.content) <= MAX_WEIGHED_BYTES else _text_content(told.content)
            self._look_into_content()
            if not self.has_ended:
                self.input_content = self.content

    def _merge_meta(self, meta: Raw | UnsetType) -> None:
        told = members(meta)
        self.meta.update(told)
        piece = text(member(told.get(STREAM, UNSET), "data"))
        if piece is not None:
            self.streamed.add(piece)
        for path in PARENTS:
            self.parent = self.parent or text(member(meta, *path))

    def _look_into_content(self) -> None:
        shown = _shown_of(self.content)
        self.texts = None if shown is None else _texts(shown)
        for terminal in _terminals(self.content) if shown is None else [item.terminal_id for item in shown]:
            if terminal is not None and len(self.terminals) < MAX_TERMINALS:
                self.terminals |= {terminal}

    def shrink(self) -> None:
        """Lets go of what would take much room until the call ends."""
        self.raw_output = UNSET
        for name in ("content", "input_content", "locations"):
            if _size(getattr(self, name)) > MAX_HELD_BYTES:
                setattr(self, name, UNSET)
        if self.content is UNSET:
            self.texts = None
        self.meta = {name: value for name, value in self.meta.items() if _size(value) <= MAX_HELD_BYTES}

    def meta_text(self, *path: str) -> str | None:
        """A string in `_meta`."""
        first = self.meta.get(path[0], UNSET)
        return text(member(first, *path[1:]))


class Streamed:
    """Text that comes in pieces: its beginning, and the digest of the rest."""

    __slots__ = ("head", "rest")

    def __init__(self) -> None:
        self.head = ""
        self.rest = None

    def add(self, piece: str) -> None:
        """Takes in the next piece."""
        room = MAX_HELD_TEXT - len(self.head)
        self.head += piece[:room]
        if len(piece) > room:
            self.rest = self.rest or sha256()
            self.rest.update(piece[room:].encode(errors="surrogatepass"))

    def text(self) -> str | None:
        """The text so far, None when there is none."""
        if self.rest is not None:
            return f"{self.head}\n{self.rest.hexdigest()}"
        return self.head or None


def is_given(raw: Raw | UnsetType) -> bool:
    """Whether a member is there and not null."""
    return isinstance(raw, Raw) and bytes(raw) != b"null"


def _shown_of(content: Raw | UnsetType) -> Sequence[Shown] | None:
    try:
        return _shown(content) if isinstance(content, Raw) else None
    except UNREADABLE:
        return None


def _texts(shown: Sequence[Shown]) -> Sequence[str] | None:
    texts: list[str] = []
    for item in shown:
        words = None if item.content is None else item.content.text
        if words is not None:
            texts.append(words)
        elif item.kind != TERMINAL:
            return None
    return texts


def _terminals(content: Raw | UnsetType) -> Iterator[str]:
    """The terminals that content names which cannot be read at once."""
    items = plain(content)
    for item in items if isinstance(items, list) else ():
        terminal = item.get("terminalId") if isinstance(item, dict) else None
        if isinstance(terminal, str):
            yield terminal


def _size(raw: Raw | UnsetType) -> int:
    return memoryview(raw).nbytes if isinstance(raw, Raw) else 0


def digest_of(raw: Raw | UnsetType) -> Raw | UnsetType:
    """What stands for a value of which nothing more is looked at: equal where the text is."""
    return raw_of({"sha256": sha256(bytes(raw)).hexdigest()}) if isinstance(raw, Raw) else raw


def _held(raw: Raw | UnsetType) -> Raw | UnsetType:
    """Arguments as they are held: of long ones their digest."""
    return digest_of(raw) if _size(raw) > MAX_HELD_BYTES else raw


def _text_content(raw: Raw | UnsetType) -> Raw:
    """The content of a call that shows the digest of some other."""
    shown = plain(digest_of(raw))
    return raw_of([{"type": "content", "content": {"type": "text", "text": str(shown)}}])


def _weighed(raw: Raw | UnsetType) -> Raw | UnsetType:
    """A result as it is looked at: of a long one the short members, and the digests of the others."""
    if not isinstance(raw, Raw) or _size(raw) <= MAX_WEIGHED_BYTES:
        return raw
    told: Mapping[str, Raw] = members(raw) if bytes(memoryview(raw)[:1]) == b"{" else {}
    if not 0 < len(told) <= MAX_WEIGHED_MEMBERS:
        return digest_of(raw)
    weighed = {name: value if _size(value) <= MAX_HELD_BYTES else digest_of(value) for name, value in told.items()}
    return json_of(weighed)
