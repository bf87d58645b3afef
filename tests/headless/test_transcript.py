"""A line is decoded once, and one that nobody reads may be anything."""

import msgspec
import pytest
from msgspec import Struct

from turnguard.transcript import UnreadableError, decoded_where


class Kind(Struct):
    type: str = ""


class Line(Kind):
    message: int = 0


whole, kind = msgspec.json.Decoder(Line), msgspec.json.Decoder(Kind)


def read(data: bytes) -> Line | None:
    return decoded_where(lambda line: line.type == "read", whole, kind, data)


def test_a_line_that_is_read() -> None:
    assert read(b'{"type":"read","message":1}') == Line("read", 1)


@pytest.mark.parametrize("data", [b'{"type":"other","message":1}', b'{"type":"other","message":"text"}', b"{}"])
def test_a_line_that_nobody_reads(data: bytes) -> None:
    assert read(data) is None


def test_a_line_that_is_read_must_fit() -> None:
    with pytest.raises(UnreadableError, match=r"Expected `int`, got `str` - at `\$.message`"):
        read(b'{"message":"text","type":"read"}')


@pytest.mark.parametrize(("data", "message"), [(b"{", "not JSON"), (b'{"type":1,"message":"text"}', r"at `\$.type`")])
def test_a_line_of_which_the_kind_cannot_be_told(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        read(data)
