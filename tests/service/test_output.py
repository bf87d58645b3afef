import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from turnguard.service.output import Output

MIB = 1024 * 1024


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The reading and the writing end."""
    if request.param == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


def read(fd: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size:
        pieces.append(os.read(fd, size))
        size -= len(pieces[-1])
    return b"".join(pieces)


def test_what_is_taken_is_written_at_once(ends: tuple[int, int]) -> None:
    output = Output(ends[1])
    output.write(b"a")
    output.write(b"")
    output.write(b"b")
    assert read(ends[0], 2) == b"ab"


def test_pitfall_22_a_reader_who_does_not_read_holds_up_nobody(ends: tuple[int, int]) -> None:
    output = Output(ends[1], limit=MIB)
    pieces = [bytes([n]) * 100_000 for n in range(30)]
    start = time.monotonic()
    for piece in pieces:
        output.write(piece)
    assert time.monotonic() - start < 5
    assert not output.wait_for_room(0.01)
    assert not output.flush(0.01)
    assert read(ends[0], 3_000_000) == b"".join(pieces)
    assert output.wait_for_room(5)
    assert output.flush(5)
    output.write(b"direct again")
    assert read(ends[0], 12) == b"direct again"


def test_nothing_is_copied_however_small_the_steps(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 16 * 1024
    written: list[object] = []
    write = os.write

    def note(fd: int, piece: memoryview) -> int:
        written.append(piece.obj)
        return write(fd, piece[:5_000])

    monkeypatch.setattr(os, "write", note)
    output = Output(ends[1])
    output.write(data)
    assert read(ends[0], len(data)) == data
    assert output.flush(5)
    assert len(written) >= len(data) // 5_000
    assert all(piece is data for piece in written)


def test_a_reader_who_has_gone_is_noticed(ends: tuple[int, int]) -> None:
    output = Output(ends[1], limit=MIB)
    output.write(b"x" * 3 * MIB)
    os.close(ends[0])
    assert output.wait_for_room(5)
    assert output.flush(5)
    assert output.is_broken
    output.write(b"into the void")


def test_everything_arrives_once_from_several_threads(ends: tuple[int, int]) -> None:
    output = Output(ends[1])

    def write(letter: bytes) -> None:
        for _ in range(200):
            output.write(letter * 1_000)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    data = read(ends[0], 600_000)
    for thread in threads:
        thread.join()
    blocks = [data[n : n + 1_000] for n in range(0, len(data), 1_000)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert [data.count(letter) for letter in (b"a", b"b", b"c")] == [200_000] * 3
