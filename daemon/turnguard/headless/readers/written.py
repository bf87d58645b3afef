"""Values that formats write as text: arguments of a call as JSON in a string, results as a string."""

from typing import TypeGuard

import msgspec
from msgspec import Raw, UnsetType

from turnguard.transcript import UnreadableError, decoded

_raw = msgspec.json.Decoder(Raw)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

NONE = Raw(b"{}")
"""No arguments."""

NOTHING = Raw(b"null")
"""The result of a call of which it is only known how it went."""


def is_given(value: Raw | UnsetType) -> TypeGuard[Raw]:
    """Whether there is a value at all; null is none."""
    return isinstance(value, Raw) and bytes(value) != bytes(NOTHING)


def text(words: str) -> Raw:
    """A text as JSON."""
    return Raw(_encode(words))


def arguments(words: str) -> Raw:
    """The JSON that a text is, or the text itself where a model wrote something that is none."""
    if not words.strip():
        return NONE
    try:
        return decoded(_raw, words.encode())
    except UnreadableError:
        return text(words)


def string_of(value: Raw) -> str | None:
    """The text that a JSON value is, None when it is no string."""
    return decoded(_string, bytes(value)) if bytes(value)[:1] == b'"' else None
