import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.core.bounds import MAX_FRAME_BYTES, MAX_HEADER_BYTES
from turnguard.framing import INVALID_REQUEST, PARSE_ERROR, FrameReader, FramingError, frame

HEADERS = st.sampled_from(
    [
        b"Content-Length: %d\r\n\r\n",
        b"content-length:%d\r\n\r\n",
        b"CONTENT-LENGTH:   %d  \n\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\nContent-Type: x\n\n",
        b"Content-Length: %d\r\nContent-Length: %d\r\n\r\n",
        b"\r\nContent-Length: %d\r\n\r\n",
    ]
)
BODIES = st.binary(max_size=300) | st.sampled_from([b"", b"\r\n\r\n", b"Content-Length: 5\r\n\r\nhello", b"\n\n"])


def bodies_of(reader: FrameReader, pieces: list[bytes]) -> list[bytes]:
    bodies: list[bytes] = []
    for piece in pieces:
        reader.receive(piece)
        while (body := reader.next_body()) is not None:
            bodies.append(body)
    return bodies


def split(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(n % (len(data) + 1) for n in at), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(st.lists(st.tuples(HEADERS, BODIES), max_size=6), st.lists(st.integers(min_value=0), max_size=12))
def test_any_split_gives_the_same_bodies(messages: list[tuple[bytes, bytes]], at: list[int]) -> None:
    data = b"".join(header.replace(b"%d", b"%d" % len(body)) + body for header, body in messages)
    reader = FrameReader()
    assert bodies_of(reader, split(data, at)) == [body for _, body in messages]
    assert not reader.is_inside_frame


@given(st.lists(BODIES, min_size=1, max_size=4))
def test_one_byte_at_a_time(bodies: list[bytes]) -> None:
    data = b"".join(map(frame, bodies))
    assert bodies_of(FrameReader(), [data[n : n + 1] for n in range(len(data))]) == bodies


@given(BODIES, st.integers(min_value=1))
def test_the_end_inside_a_frame_is_seen(body: bytes, cut: int) -> None:
    data = frame(body)
    reader = FrameReader()
    bodies_of(reader, [data[: cut % len(data)]])
    assert reader.is_inside_frame == (cut % len(data) > 0)


@pytest.mark.parametrize(
    ("data", "code", "word"),
    [
        (b"Content-Length: 99999999999999\r\n\r\n", INVALID_REQUEST, "at most"),
        (b"Content-Length: %d\r\n\r\n" % (MAX_FRAME_BYTES + 1), INVALID_REQUEST, "at most"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", INVALID_REQUEST, "at most"),
        (b"X: " + b"y" * MAX_HEADER_BYTES + b"\r\n\r\n", INVALID_REQUEST, "headers"),
        (b"y" * (MAX_HEADER_BYTES + 1), INVALID_REQUEST, "headers"),
        (b"Content-Type: x\r\n\r\n{}", PARSE_ERROR, "Content-Length"),
        (b"\r\n\r\n{}", PARSE_ERROR, "Content-Length"),
        (b"Content-Length: -5\r\n\r\n", PARSE_ERROR, "digits"),
        (b"Content-Length: 5_0\r\n\r\n", PARSE_ERROR, "digits"),
        (b"Content-Length: +5\r\n\r\n", PARSE_ERROR, "digits"),
        (b"Content-Length:\r\n\r\n", PARSE_ERROR, "digits"),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", PARSE_ERROR, "different"),
        (b'{"jsonrpc": "2.0"}\n\n', PARSE_ERROR, "Content-Length"),
        (b"hello\r\n\r\n", PARSE_ERROR, "Name: value"),
    ],
)
@pytest.mark.parametrize("is_split", [False, True])
def test_lost_framing_is_fatal_and_stays_so(data: bytes, code: int, word: str, is_split: bool) -> None:
    reader = FrameReader()
    pieces = [data[n : n + 1] for n in range(len(data))] if is_split else [data]
    with pytest.raises(FramingError, match=word) as caught:
        bodies_of(reader, pieces)
    assert caught.value.code == code
    with pytest.raises(FramingError):
        bodies_of(reader, [frame(b"{}")])


def test_bodies_before_lost_framing_still_come() -> None:
    reader = FrameReader()
    reader.receive(frame(b"{}") + b"hello\r\n\r\n")
    assert reader.next_body() == b"{}"
    with pytest.raises(FramingError):
        reader.next_body()


def seconds_to_read(size: int) -> float:
    data = frame(b"x" * size)
    pieces = [data[n : n + 64] for n in range(0, len(data), 64)]
    best = 1e9
    for _ in range(3):
        start = time.process_time()
        assert len(bodies_of(FrameReader(), pieces)) == 1
        best = min(best, time.process_time() - start)
    return best


def test_the_work_is_linear_in_the_bytes() -> None:
    assert seconds_to_read(1_600_000) < 16 * 4 * seconds_to_read(100_000)
