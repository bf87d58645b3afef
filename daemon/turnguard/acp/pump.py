"""One direction: blocks are read, their lines are looked at, and the same bytes are written.

A line is held until it is whole, so that another can stand in for it; one that gets too long for that streams through.
`\\n` ends a line, and nothing else does: a `\\r` before it belongs to the line, and the last line may lack it.
"""

import os
import select
from collections.abc import Sequence
from io import BytesIO
from typing import Protocol

OBSERVED_BYTES = 64 * 1024 * 1024
"""A longer line passes unread; the longest limits of SDKs are 32 and 50 MiB."""

BLOCK_BYTES = 256 * 1024
"""How much is read at once."""


def read_block(fd: int) -> bytes:
    """What there is to read, none at the end, waiting for it also where the descriptor itself does not.

    Whoever shares the pipe may have set that it does not (`O_NONBLOCK`), and would be hurt by a change. Raises OSError.
    """
    while True:
        try:
            return os.read(fd, BLOCK_BYTES)
        except BlockingIOError:
            wait_for(fd, select.POLLIN)


def wait_for(fd: int, event: int) -> None:
    """Waits until a descriptor can be read (POLLIN) or written to (POLLOUT), or its other side is gone."""
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


class Way(Protocol):
    """What a pump is for."""

    def decide(self, lines: Sequence[bytes], whole: bytes) -> None:
        """Forwards lines, or what stands in for some of them. `whole` is all of them, joined."""
        ...

    def pass_unread(self, block: bytes, *, is_first: bool) -> None:
        """Forwards a part of a line that is too long to be looked at."""
        ...

    @property
    def is_shut(self) -> bool:
        """Whether nobody is there any more to forward to."""
        ...


class Pump:
    """Reads a file descriptor, which it owns, to its end.

    `reads` counts what was read, and while it waits for more `is_reading` is true. `is_open`: the source is not closed.
    """

    def __init__(self, fd: int, way: Way, *, observed_bytes: int = OBSERVED_BYTES) -> None:
        self.reads = 0
        self.is_reading = False
        self.is_open = True
        self._fd = fd
        self._way = way
        self._observed_bytes = observed_bytes
        self._kept: bytes | bytearray = b""
        self._is_streaming = False

    @property
    def fd(self) -> int:
        """The file descriptor; it is open while the pump reads."""
        return self._fd

    def run(self) -> None:
        """Pumps until the source ends or nobody takes it any more, and closes the source."""
        try:
            while block := self._read():
                self.take(block)
                if self._way.is_shut:
                    return
            self.end()
        finally:
            self.is_open = False
            os.close(self._fd)

    def _read(self) -> bytes:
        self.is_reading = True
        try:
            block = read_block(self._fd)
        except OSError:  # EIO of a terminal that is gone
            return b""
        self.is_reading = False
        self.reads += 1
        return block

    def take(self, block: bytes) -> None:
        """Forwards what is whole."""
        if self._is_streaming:
            block = self._stream_on(block)
        end = block.rfind(b"\n") + 1
        if not end:
            self._keep(block)
            return
        whole = block if end == len(block) else block[:end]
        if self._kept:
            whole, self._kept = b"".join((self._kept, whole)), b""
        self._decide(whole)
        if end < len(block):
            self._keep(block[end:])

    def end(self) -> None:
        """Forwards the last line, if it was not ended."""
        if self._kept:
            whole, self._kept = bytes(self._kept), b""
            self._decide(whole)

    def _decide(self, whole: bytes) -> None:
        is_one = whole.find(b"\n") in (len(whole) - 1, -1)
        self._way.decide((whole,) if is_one else BytesIO(whole).readlines(), whole)

    def _keep(self, block: bytes) -> None:
        """Keeps what is not whole. Most lines come in two pieces at the most, of which none is copied here."""
        if self._kept:
            self._kept = self._kept if isinstance(self._kept, bytearray) else bytearray(self._kept)
            self._kept += block
        else:
            self._kept = block
        if len(self._kept) > self._observed_bytes:
            self._is_streaming = True
            start, self._kept = self._kept, b""
            for at in range(0, len(start), BLOCK_BYTES):
                self._way.pass_unread(bytes(start[at : at + BLOCK_BYTES]), is_first=at == 0)

    def _stream_on(self, block: bytes) -> bytes:
        """Forwards what belongs to the long line, and returns the rest."""
        end = block.find(b"\n") + 1
        if not end:
            self._way.pass_unread(block, is_first=False)
            return b""
        self._is_streaming = False
        self._way.pass_unread(block[:end], is_first=False)
        return block[end:]
