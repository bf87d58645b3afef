"""Transcripts that are one JSON document: the lines are put together, and read when there are no more.

Such a file is recognised by its outline, the paths of the members that its beginning shows, written as jq writes them:
`.info.version`, `.messages[].role`, of a document that is a list `[].role`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Raw

from turnguard.transcript import Told, UnreadableError, decoded

T = TypeVar("T")

MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""A longer document is not read, since all of it has to be held."""

MAX_DEPTH = 6
"""Members that are deeper in the document are no part of its outline."""

_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?|[{}\[\]"]', re.DOTALL)
"""A string with what tells that it is a member's name, a bracket, or the quote that begins a string without an end."""


class Document:
    """A reader of a document. `read` gets all of it, and tells what it says; it may raise UnreadableError."""

    def __init__(self, read: Callable[[bytes], Iterable[Told]]) -> None:
        self._read = read
        self._lines: list[bytes] = []
        self._size = 0

    def line(self, line: bytes) -> Iterable[Told]:
        """Nothing yet."""
        self._size += len(line)
        if self._size > MAX_DOCUMENT_BYTES:
            self._lines.clear()
        else:
            self._lines.append(line)
        return ()

    def end(self) -> Iterable[Told]:
        """All of it. Raises UnreadableError when it is longer than `MAX_DOCUMENT_BYTES`."""
        if self._size > MAX_DOCUMENT_BYTES:
            raise UnreadableError(f"a document of more than {MAX_DOCUMENT_BYTES // 1024**2} MB")
        document, self._lines = b"".join(self._lines), []
        return self._read(document)


class Parts:
    """The parts of a document, each read for itself: one that cannot be read does not hide the others."""

    def __init__(self) -> None:
        self._unread = 0
        self._first: UnreadableError | None = None

    def read(self, parts: Sequence[Raw], decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[int, T]]:
        """The parts that can be read, each with its number, from 1."""
        for place, part in enumerate(parts, 1):
            try:
                yield place, decoded(decoder, bytes(part))
            except UnreadableError as error:
                self.note(error, place)

    def note(self, error: UnreadableError, place: int) -> None:
        """A part could not be read."""
        self._unread += 1
        self._first = self._first or UnreadableError(error.message, place)

    def complain(self) -> None:
        """Raises UnreadableError when there was a part that could not be read; to be called after all were."""
        if self._first is None:
            return
        more = "" if self._unread == 1 else f"; {self._unread - 1} more of its parts cannot be read"
        raise UnreadableError(self._first.message + more, self._first.place)


@lru_cache(maxsize=2)
def outline(start: bytes) -> frozenset[str]:
    """The paths of the members and lists that the beginning of a document shows, down to `MAX_DEPTH`."""
    if start.lstrip()[:1] not in (b"{", b"["):
        return frozenset()
    paths: set[str] = set()
    around: list[str] = []
    path = ""
    for token in _TOKEN.finditer(start):
        if token[2] is not None:
            if 0 < len(around) <= MAX_DEPTH:
                path = f"{around[-1]}.{token[1].decode(errors='replace')}"
                paths.add(path)
            continue
        mark = token[0]
        if mark == b'"':
            break
        if mark == b"[":
            if len(around) < MAX_DEPTH:
                path += "[]"
                paths.add(path)
            around.append(path)
        elif mark == b"{":
            around.append(path)
        elif mark in (b"]", b"}"):
            if around:
                around.pop()
            path = around[-1] if around else ""
    return frozenset(paths)
