"""The canonical form of a JSON value: two values are the same to OpenClaw when this text is.

It is JavaScript's JSON with sorted keys, except that a number that is not finite stands for the string of its name.
"""

import math
from hashlib import sha256
from typing import cast

from msgspec import Raw

from turnguard.core.javascript import Json, NestingError, number_text, parse, restringify, stringify

_OUTLINE = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE_EXPONENT = b"0e000"
_LONG_NUMBER = b"0" * 209
_STRING = b'"'


def canonical(value: object) -> bytes:
    """The canonical form of JSON text (bytes or msgspec.Raw) or of a plain value, in UTF-8.

    Raises NotJsonError or NestingError (both ValueError), and TypeError for a value that JSON does not have.
    """
    if isinstance(value, bytes | Raw):
        text = bytes(value)
        if text.startswith(_STRING) or not may_overflow(text):
            return restringify(text, sort_keys=True)
        value = parse(text)
    try:
        return stringify(_without_overflow(cast("Json", value)), sort_keys=True).encode()
    except RecursionError:
        raise NestingError from None


def may_overflow(text: bytes) -> bool:
    """Whether JSON text may hold a number too large for a double. When in doubt: True.

    Without an exponent of three digits and with fewer than 209 digits in a row a number is below 1e308. In an outline,
    all digits made one digit and no plus sign left, that is a search for two substrings, which costs next to nothing.
    """
    outline = text.translate(_OUTLINE, b"+")
    return _LONG_NUMBER in outline or _LARGE_EXPONENT in outline


def plain(value: object) -> Json:
    """A value as JSON.parse gives it, from JSON text or as it is."""
    return parse(bytes(value)) if isinstance(value, bytes | Raw) else cast("Json", value)


def number_word(number: float) -> str:
    """A number as JavaScript's String() writes it."""
    return overflow_name(number) or number_text(number)


def overflow_name(number: float) -> str | None:
    """JavaScript's name of a number that is not finite, None for any other. An int counts as the nearest double."""
    try:
        number = float(number)
    except OverflowError:
        number = math.inf if number > 0 else -math.inf
    if math.isfinite(number):
        return None
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def digest(text: bytes) -> str:
    """The 64 hex digits that stand for a text."""
    return sha256(text).hexdigest()


def _without_overflow(value: Json) -> Json:
    """The same value with the name of each number that is not finite in its place."""
    if isinstance(value, bool) or not isinstance(value, int | float | list | dict):
        return value
    if isinstance(value, dict):
        return dict(zip(value, map(_without_overflow, value.values()), strict=True))
    if isinstance(value, list):
        return list(map(_without_overflow, value))
    return overflow_name(value) or value
