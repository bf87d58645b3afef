"""Bytes of a program's stdout in, what they tell out."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.e2e.agents.streaming import init, stream

from turnguard.headless import stream as stream_module
from turnguard.headless.exec import LIVE_FORMATS
from turnguard.headless.stream import Stream
from turnguard.transcript import HEAD_BYTES, HEAD_LINES, Told

AGENT = stream("make", "make test")


def read(data: bytes, *, name: str | None = None, cuts: Sequence[int] = ()) -> tuple[Stream, list[list[Told]]]:
    """All of it, in pieces that end at these places."""
    one = Stream(LIVE_FORMATS, name)
    places = [0, *sorted(cuts), len(data)]
    lines = [line for start, end in pairwise(places) for line in one.feed(data[start:end])]
    return one, [line for line in [*lines, *one.end()] if line]


def names(lines: list[list[Told]]) -> list[list[str]]:
    return [[type(told.event).__name__ for told in line] for line in lines]


WHOLE = [["TurnStarted"], ["ToolCalls"], ["ToolResults"], ["ToolCalls"], ["ToolResults"]]


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"a banner\n",
        b"{ of another kind\n" * 3,
        b'{"level":"info"}\n' * (HEAD_LINES - 1),
        b"\xff\x00\n\n",
        b"\xef\xbb\xbf",
    ],
)
def test_it_is_recognised_after_whatever_comes_first(before: bytes) -> None:
    one, lines = read(before + AGENT)
    assert (one.name, names(lines), one.is_unknown) == ("claude-stream", WHOLE, False)


@pytest.mark.parametrize(
    "data", [b"", b"words", b"y\n" * HEAD_BYTES, b"\x00" * (HEAD_BYTES + 1), b'{"a":1}\n' * HEAD_LINES]
)
def test_something_else_is_unknown(data: bytes) -> None:
    one, lines = read(data)
    assert (one.name, lines, one.is_unknown, one.unread) == (None, [], True, 0)


@pytest.mark.parametrize("data", [b"y\n" * HEAD_BYTES, b"\x00" * (HEAD_BYTES + 1), b'{"a":1}\n' * HEAD_LINES])
def test_it_gives_up_before_the_end(data: bytes) -> None:
    one = Stream(LIVE_FORMATS)
    assert list(one.feed(data)) == []
    assert one.is_unknown
    assert list(one.feed(AGENT)) == []
    assert list(one.end()) == []


def test_a_first_line_may_be_long() -> None:
    long = b'{"type":"hello","text":"%b"}\n' % (b"x" * 2 * HEAD_BYTES)
    one, lines = read(long + AGENT, cuts=range(0, len(long), 65536))
    assert one.is_unknown
    assert lines == []
    long = init().replace(b'"cwd"', b'"x":"%b","cwd"' % (b"x" * 2 * HEAD_BYTES))
    one, lines = read(long + AGENT, cuts=range(0, len(long), 65536))
    assert (one.name, one.is_unknown) == ("claude-stream", False)


def test_a_format_that_is_named_is_taken_from_the_first_line() -> None:
    without = AGENT.partition(b"\n")[2]
    assert names(read(without)[1]) == []
    assert names(read(without, name="claude-stream")[1])[1:] == WHOLE[2:]


def test_the_last_line_need_not_end() -> None:
    assert names(read(AGENT[:-1])[1]) == WHOLE


def test_lines_that_are_none_of_the_stream_pass_uncounted() -> None:
    one, lines = read(AGENT.replace(b"\n", b"\nnpm warn\n\n   \n[1, 2]\n"))
    assert (names(lines), one.unread) == (WHOLE, 0)


def test_lines_that_cannot_be_read_are_counted() -> None:
    first, rest = AGENT.split(b"\n", 1)
    one, lines = read(first + b'\n{"type": \n{"type":"user","message":5}\n' + rest)
    assert (names(lines), one.unread, one.first_unread) == (WHOLE, 2, (2, "not JSON"))


@pytest.mark.parametrize("cuts", [(), range(0, 3000, 7)])
def test_a_line_that_is_too_long_is_counted(monkeypatch: pytest.MonkeyPatch, cuts: Sequence[int]) -> None:
    monkeypatch.setattr(stream_module, "MAX_LINE", 500)
    first, rest = AGENT.split(b"\n", 1)
    one, lines = read(first + b'\n{"long":"' + b"x" * 1000 + b'"}\n' + rest, cuts=cuts)
    assert (names(lines), one.unread, one.first_unread) == (WHOLE, 1, (2, "too long"))
    assert one._pieces == []  # pyright: ignore[reportPrivateUsage]


def test_nothing_is_kept_of_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "MAX_LINE", 500)
    one = Stream(LIVE_FORMATS, "claude-stream")
    for _ in range(100):
        assert list(one.feed(b"x" * 100)) == []
        assert sum(map(len, one._pieces)) <= 500  # pyright: ignore[reportPrivateUsage]


PLACES = st.lists(st.integers(0, len(AGENT)), max_size=20)


@given(PLACES, st.sampled_from([b"", b"words\n", b"\xff\n"]))
def test_where_blocks_end_makes_no_difference(cuts: list[int], before: bytes) -> None:
    assert read(before + AGENT, cuts=cuts)[1] == read(before + AGENT)[1]


@given(st.binary(max_size=200), PLACES)
def test_no_bytes_are_too_strange(data: bytes, cuts: list[int]) -> None:
    read(data, cuts=[min(cut, len(data)) for cut in cuts])
    read(data, name="claude-stream", cuts=[min(cut, len(data)) for cut in cuts])
