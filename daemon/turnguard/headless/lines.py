"""The lines of a file that comes in pieces, none of which is held when it is longer than it may be."""

import io
from collections.abc import Iterable, Iterator

MARK = b"\xef\xbb\xbf"
"""What some programs on Windows begin a file of UTF-8 with."""


def lines_of(pieces: Iterable[bytes], most: int) -> Iterator[bytes | None]:
    """The lines, each with its line feed; None for one of more than `most` bytes.

    What the pieces raise is raised when the last line before it was told, though it may be cut off.
    """
    open_line: list[bytes] = []
    size = 0

    def line() -> bytes | None:
        return b"".join(open_line) if size <= most else None

    try:
        for piece in without_mark(pieces):
            for part in io.BytesIO(piece):
                if not size and part.endswith(b"\n"):
                    yield part if len(part) <= most else None
                    continue
                size += len(part)
                if size <= most:
                    open_line.append(part)
                else:
                    open_line.clear()
                if part.endswith(b"\n"):
                    yield line()
                    open_line.clear()
                    size = 0
    except Exception as error:
        failure: Exception | None = error
    else:
        failure = None
    if size:
        yield line()
    if failure is not None:
        raise failure


def without_mark(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same pieces without the mark that the first may begin with; it may be cut in two."""
    begun: bytes | None = b""
    for piece in pieces:
        if begun is None:
            yield piece
            continue
        begun += piece
        if len(begun) >= len(MARK):
            yield begun.removeprefix(MARK)
            begun = None
    if begun:
        yield begun.removeprefix(MARK)


class Pieces:
    """The pieces of a file, of which the first can be looked at before all are told, once."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._begun: list[bytes] = []
        self._failure: Exception | None = None

    def head(self, size: int) -> bytes:
        """The first bytes, at least so many where there are. Raises what reading raises, if there is nothing before."""
        found = 0
        try:
            while found < size and (piece := next(self._pieces, b"")):
                self._begun.append(piece)
                found += len(piece)
        except Exception as error:
            if not self._begun:
                raise
            self._failure = error
        return b"".join(self._begun)

    def __iter__(self) -> Iterator[bytes]:
        """All pieces. Raises what reading raises."""
        while self._begun:
            yield self._begun.pop(0)
        if self._failure is not None:
            raise self._failure
        yield from self._pieces
