"""Lines of a file that comes in pieces."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.headless.lines import MARK, Pieces, lines_of

PIECES = st.lists(st.text("a\n\r", max_size=6).map(str.encode))


def failing(*pieces: bytes) -> Iterator[bytes]:
    yield from pieces
    raise EOFError("cut off")


@given(PIECES)
def test_lines_are_those_of_the_whole(pieces: list[bytes]) -> None:
    lines = list(lines_of(pieces, 1_000))
    assert b"".join(line or b"" for line in lines) == b"".join(pieces)
    assert all((line or b"").count(b"\n") == 1 for line in lines[:-1])


@given(PIECES)
def test_of_a_line_that_is_too_long_there_is_only_the_place(pieces: list[bytes]) -> None:
    lines = lines_of(pieces, 1_000)
    assert list(lines_of(pieces, 3)) == [line if line is not None and len(line) <= 3 else None for line in lines]


@pytest.mark.parametrize("pieces", [[MARK + b"a\n"], [MARK[:1], MARK[1:], b"a\n"], [b"a\n"], [MARK + b"a", b"\n"]])
def test_a_mark_at_the_beginning_is_no_part_of_it(pieces: list[bytes]) -> None:
    assert list(lines_of(pieces, 1_000)) == [b"a\n"]


def test_a_file_that_is_shorter_than_a_mark() -> None:
    assert list(lines_of([b"a"], 1_000)) == [b"a"]
    assert list(lines_of([], 1_000)) == []


def test_what_came_before_a_failure_is_told() -> None:
    told: list[bytes | None] = []
    with pytest.raises(EOFError):
        for line in lines_of(failing(b"a\nb", b"c"), 1_000):
            told.append(line)  # noqa: PERF402 - a list would be lost with the failure
    assert told == [b"a\n", b"bc"]


def test_the_head_is_told_again() -> None:
    pieces = Pieces(iter([b"ab", b"cd", b"ef"]))
    assert pieces.head(3) == b"abcd"
    assert list(pieces) == [b"ab", b"cd", b"ef"]


def test_a_failure_within_the_head_comes_when_its_bytes_were_told() -> None:
    pieces = Pieces(failing(b"ab"))
    assert pieces.head(100) == b"ab"
    told = iter(pieces)
    assert next(told) == b"ab"
    with pytest.raises(EOFError):
        next(told)


def test_a_failure_before_anything_is_a_failure() -> None:
    with pytest.raises(EOFError):
        Pieces(failing()).head(100)
