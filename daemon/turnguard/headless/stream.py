"""The stdout of a program that may be an agent: bytes in, what they tell out, a list for each line.

The format is recognised from the first lines that are JSON; lines that are none are a banner, or something of a tool's,
and nothing to the guards. A line that cannot be read is counted, and so is one that is too long to be looked at.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from turnguard.transcript import HEAD_BYTES, HEAD_LINES, Format, Reader, Told, UnreadableError, head_of

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of a line that is looked at; agents cut the output of tools far below."""

OBJECT: Final = b"{"
"""How each line of every stream begins."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Stream:
    """Reads one stream. `format`: once it is known; `is_unknown`: it will never be.

    `unread`: how many lines could not be read; `first_unread`: the number of the first, and why.
    """

    def __init__(self, formats: Sequence[Format], name: str | None = None) -> None:
        """`formats`: those that are tried; `name`: the one that it is said to be."""
        self.format: Format | None = next((each for each in formats if each.name == name), None)
        self.is_unknown = False
        self.unread = 0
        self.first_unread: tuple[int, str] | None = None
        self._formats = formats
        self._reader: Reader | None = None if self.format is None else self.format.reader()
        self._first: list[bytes] = []
        self._seen = 0
        self._number = 0
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def name(self) -> str | None:
        """What its format is called; None while it is not known."""
        return None if self.format is None else self.format.name

    def feed(self, block: bytes) -> Iterator[list[Told]]:
        """What the lines tell that this block completes."""
        if self.is_unknown:
            return
        *ends, rest = block.split(b"\n")
        self._seen += len(block)
        for end in ends:
            yield from self._line(self._completed(end))
            if self.is_unknown:
                return
        if rest:
            self._keep(rest)
        if self._reader is None and self._seen > HEAD_BYTES and not self._is_amid_object():
            self._give_up()

    def end(self) -> Iterator[list[Told]]:
        """What the last line tells, which nothing ended, and what can be said only now."""
        if self.is_unknown:
            return
        if self._size:
            yield from self._line(self._completed(b""))
        if self._reader is None:
            self._give_up()
            return
        try:
            yield list(self._reader.end())
        except UnreadableError as error:
            self._note(error)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_LINE:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def _completed(self, end: bytes) -> bytes | None:
        """The line that ends so; None when it is too long."""
        if not self._size:
            return end if len(end) <= MAX_LINE else None
        self._keep(end)
        line = b"".join(self._pieces) if self._size <= MAX_LINE else None
        self._pieces, self._size = [], 0
        return line

    def _is_amid_object(self) -> bool:
        return bool(self._pieces) and self._pieces[0].lstrip()[:1] == OBJECT

    def _line(self, line: bytes | None) -> Iterator[list[Told]]:
        self._number += 1
        if line is None:
            self._note(UnreadableError("too long"))
            return
        if self._number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line[:1] != OBJECT and line.lstrip()[:1] != OBJECT:
            return
        if self._reader is not None:
            yield self._read(self._reader, line)
            return
        self._first.append(line)
        self._recognise()
        if self._reader is not None:
            first, self._first = self._first, []
            for each in first:
                yield self._read(self._reader, each)

    def _recognise(self) -> None:
        head = head_of(self._first)
        self.format = next((each for each in self._formats if each.recognises(head)), None)
        if self.format is not None:
            self._reader = self.format.reader()
        elif len(self._first) >= HEAD_LINES or self._seen > HEAD_BYTES:
            self._give_up()

    def _read(self, reader: Reader, line: bytes) -> list[Told]:
        told: list[Told] = []
        try:
            told.extend(reader.line(line))
        except UnreadableError as error:
            self._note(error)
        return told

    def _note(self, error: UnreadableError) -> None:
        self.unread += 1
        self.first_unread = self.first_unread or (self._number, error.message)

    def _give_up(self) -> None:
        self.is_unknown = True
        self._first, self._pieces = [], []
