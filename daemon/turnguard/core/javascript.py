"""What JavaScript does with JSON, numbers and white space, as far as the guards need it.

Qwen Code, OpenClaw and loopShield are JavaScript, and they name a tool call by hashing JSON that JavaScript wrote.
To name it alike we write that text byte for byte. Rules: ECMA-262 (JSON.parse, SerializeJSONProperty, QuoteJSONString,
Number::toString, OrdinaryOwnPropertyKeys, WhiteSpace and LineTerminator).

Everything here is pure. Two ways lead to the same text: ``stringify(parse(text))``, which is plain and slow, and
``restringify(text)``, which lets msgspec do the work wherever msgspec and JavaScript agree, and is many times faster.
"""

import json
import re
from collections.abc import Iterable
from gc import is_tracked
from itertools import chain, filterfalse
from typing import NoReturn, TypeAlias, cast

import msgspec

from turnguard.core.bounds import MAX_NESTING

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A parsed JSON value. Strings may hold lone surrogates, floats may be infinite."""

WHITE_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What ``\\s`` matches and ``trim`` removes. Python's own set has U+001C-1F and U+0085 as well, and lacks U+FEFF."""

_MAX_ARRAY_INDEX = 2**32 - 2
_MAX_SAFE_INTEGER = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJsonError(ValueError):
    """The text is not JSON. The message tells the place, never the text: arguments must not leak into logs."""


class NestingError(ValueError):
    """The value nests deeper than ``bounds.MAX_NESTING``; ``[]`` is 1 deep. JavaScript's own limit is its stack."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {MAX_NESTING} levels")


def number_text(number: float) -> str:
    """Write a number as JSON.stringify does: the shortest decimal that reads back as the same double.

    An int counts as the double nearest to it. NaN and the infinities, and ints too big for a double, are ``null``.
    """
    if isinstance(number, int):
        if -_MAX_SAFE_INTEGER <= number <= _MAX_SAFE_INTEGER:
            return str(number)
        try:
            number = float(number)
        except OverflowError:
            return "null"
    if number - number != 0:  # NaN or infinite
        return "null"
    if number == 0:
        return "0"  # minus zero too
    sign = "-" if number < 0 else ""
    digits, point = _shortest_digits(abs(number))
    return sign + _place_point(digits, point)


def _shortest_digits(number: float) -> tuple[str, int]:
    """Return (digits, point) with number = 0.digits * 10**point, without zeros at either end of digits."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(digits) - len(fraction)
    return digits.rstrip("0"), point


def _place_point(digits: str, point: int) -> str:
    """Lay out 0.digits * 10**point: plain between 1e-6 and 1e21, else with an exponent (Number::toString)."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def trim(text: str) -> str:
    """Return text without JavaScript's white space at both ends (String.prototype.trim)."""
    return text.strip(WHITE_SPACE)


def utf8(text: str) -> bytes:
    """Encode a string as Node's hashes and buffers do: a lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def parse(text: bytes | str) -> Json:
    """Read JSON as JSON.parse does: every number becomes a float; 1e400 is infinite; the last of equal keys wins and
    takes the place of the first; ``__proto__`` is a key like any other; escaped lone surrogates are kept.

    Bytes are UTF-8; bytes that are not become U+FFFD, as they do on the way into any JavaScript string.
    Raises NotJsonError and NestingError.
    """
    if isinstance(text, bytes):
        string = _string(text)
        if string is not None:
            return string
        text = text.decode(errors="replace")
    try:
        value = cast("Json", _READER.decode(text))
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not JSON at character {error.pos}") from None
    except RecursionError:
        raise NestingError from None
    if isinstance(value, list | dict):
        _check_nesting(value, text.count("[") + text.count("{"))
    return value


def _string(text: bytes) -> str | None:
    """The string that JSON text is; None where it is something else, or must be read the plain way."""
    if not text.startswith(_QUOTE_MARK):
        return None
    try:
        return _STRING_READER.decode(text)
    except msgspec.DecodeError:  # as in `restringify`
        return None


_QUOTE_MARK = b'"'
_STRING_READER = msgspec.json.Decoder(str)


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"not JSON: {name}")


_READER = json.JSONDecoder(parse_int=float, parse_constant=_refuse_constant)


def _check_nesting(value: Json, brackets: int) -> None:
    """Raise NestingError when a value, read from JSON with so many opening brackets at the most, nests too deep."""
    if brackets <= MAX_NESTING:
        return
    level = [value]
    for _ in range(MAX_NESTING):
        # Python's collector tracks every list, and of the dicts those that may hold a container: the rest are leaves,
        # and not to look into them makes this three times faster than asking each value for its type.
        holders = cast("list[dict[str, Json] | list[Json]]", list(filter(is_tracked, level)))
        if not holders:
            return
        level = list(chain.from_iterable(item.values() if isinstance(item, dict) else item for item in holders))
    if any(isinstance(item, dict | list) for item in level):
        raise NestingError


def stringify(value: object, *, sort_keys: bool) -> str:
    """Write a value as JSON.stringify does. The result always encodes to UTF-8.

    The value is made of None, bool, int, float, str, list, tuple and dict with str keys; anything else is a TypeError.
    sort_keys False writes an object in the order in which JavaScript enumerates it: array indexes ("0" to "4294967294",
    no leading zero) by value, then the other keys as they were inserted. True sorts those others by UTF-16 code unit,
    at every level. A lone surrogate is written as lowercase ``\\udxxx``. Raises NestingError.
    """
    parts: list[str] = []
    try:
        _write(value, MAX_NESTING, sort_keys, parts)
    except RecursionError:
        raise NestingError from None
    return "".join(parts)


def _write(value: object, levels: int, sort_keys: bool, parts: list[str]) -> None:
    """Append the text of value to parts; levels is how many levels of nesting are left."""
    if isinstance(value, str):
        parts.append(_quote(value))
    elif value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int | float):
        parts.append(number_text(value))
    elif levels == 0:
        raise NestingError
    elif isinstance(value, dict):
        members = cast("dict[str, object]", value)
        separator = "{"
        for key in _key_order(members, sort_keys):
            parts.append(f"{separator}{_quote(key)}:")
            _write(members[key], levels - 1, sort_keys, parts)
            separator = ","
        parts.append("}" if members else "{}")
    elif isinstance(value, list | tuple):
        items = cast("list[object]", value)
        separator = "["
        for item in items:
            parts.append(separator)
            _write(item, levels - 1, sort_keys, parts)
            separator = ","
        parts.append("]" if items else "[]")
    else:
        raise TypeError(f"not a JSON value: {type(value).__name__}")


_write_string = json.JSONEncoder(ensure_ascii=False).encode


def _quote(text: str) -> str:
    """Quote a string as JSON.stringify does (QuoteJSONString)."""
    quoted = _write_string(text)
    if text.isascii() or not _SURROGATE.search(quoted):
        return quoted
    paired = quoted.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", paired)


def _key_order(keys: Iterable[str], sort_keys: bool) -> list[str]:
    """Return the keys as JavaScript enumerates them (OrdinaryOwnPropertyKeys), sorted first if asked for."""
    indexes = sorted(filter(_is_array_index, keys), key=int)
    names = list(filterfalse(_is_array_index, keys))
    if sort_keys:
        names.sort(key=_utf16_order)
    return indexes + names


def _is_array_index(key: str) -> bool:
    if not (key.isascii() and key.isdigit()) or len(key) > len(str(_MAX_ARRAY_INDEX)):
        return False
    return (key == "0" or key[0] != "0") and int(key) <= _MAX_ARRAY_INDEX


def _utf16_order(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def restringify(text: bytes, *, sort_keys: bool) -> bytes:
    """Return ``stringify(parse(text), sort_keys=sort_keys)`` in UTF-8, by way of msgspec where that gives the same.

    Raises NotJsonError and NestingError, and never more or less often than the plain way.
    """
    string = _string(text)
    if string is not None:
        is_as_written = b"\\" not in text and text.endswith(_QUOTE_MARK)
        return text if is_as_written else _PLAIN_WRITER.encode(string)
    try:
        value = _FAST_READER.decode(text)
        written = (_SORTED_WRITER if sort_keys else _PLAIN_WRITER).encode(value)
    except (msgspec.DecodeError, RecursionError):
        # A lone surrogate, an integer of thousands of digits, bytes that are not UTF-8; or no JSON: parse rejects it.
        return stringify(parse(text), sort_keys=sort_keys).encode()
    _check_nesting(value, written.count(b"[") + written.count(b"{"))
    if _is_javascript(written):
        return written
    return stringify(parse(text), sort_keys=sort_keys).encode()


def _read_float(text: str) -> int | float | msgspec.Raw:
    """Read a number with a fraction or exponent into what msgspec writes as JavaScript would.

    msgspec writes 1.0 as 1.0 and changes to exponents earlier, so only 1e-4 <= |number| < 1e15 can be left to it.
    """
    number = float(text)
    if 1e-4 <= number < 1e15 or -1e15 < number <= -1e-4:
        return int(number) if number.is_integer() else number
    return msgspec.Raw(number_text(number).encode())


_FAST_READER = msgspec.json.Decoder(float_hook=_read_float)
_SORTED_WRITER = msgspec.json.Encoder(order="sorted")
_PLAIN_WRITER = msgspec.json.Encoder()

# The three ways in which msgspec's text can differ from JavaScript's are looked for in that text, all digits made one
# digit and all lead bytes of interest one byte, so that each search is a plain substring search. (Regular expressions
# cost 25 times as much; speed matters here, since every argument of every call passes.)
_OUTLINE = bytes.maketrans(b"123456789\xf1\xf2\xf3\xf4\xef", b"000000000\xf0\xf0\xf0\xf0\xee")
_LONG_NUMBER = b"0" * 16  # 2**53 has 16 digits
_LONG_INTEGERS = tuple(before + _LONG_NUMBER for before in (b":", b",", b"[", b"-"))
_KEY_ENDS_IN_DIGIT = b'0":'
_INDEX_KEY = re.compile(rb'"0{1,10}":')
_ASTRAL = b"\xf0"  # begins U+10000 and above, which UTF-16 sorts first ...
_PRIVATE_AND_UP = b"\xee"  # ... of these, U+E000 to U+FFFF, and msgspec last


def _is_javascript(written: bytes) -> bool:
    """Tell whether msgspec's text is surely what JavaScript writes. When in doubt: False."""
    outline = written.translate(_OUTLINE)
    if _LONG_NUMBER in outline and _has_long_integer(outline):
        return False
    if _KEY_ENDS_IN_DIGIT in outline and _INDEX_KEY.search(outline):
        return False
    return _ASTRAL not in outline or _PRIVATE_AND_UP not in outline


def _has_long_integer(outline: bytes) -> bool:
    return outline.startswith(_LONG_NUMBER) or any(integer in outline for integer in _LONG_INTEGERS)
