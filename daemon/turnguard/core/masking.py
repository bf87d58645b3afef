"""What a result says once the parts that change from run to run are taken out; rules: our progress guard.

A command that is run again prints other times, addresses and process ids and has still shown nothing new. Each mask is
one regular expression without nested repetition, so that a long output costs time in proportion to its length.
"""

import re
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Raw, UnsetType

from turnguard.core.javascript import Json, parse, stringify, utf8

_ESCAPE_SEQUENCE = r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)|[ -/]*+[0-~])"
"""ECMA-48: CSI; OSC, DCS, SOS, PM and APC with their text, which BEL ends too; all others."""

_VOLATILE_LINE = r"(?m:^)(?:Chunk ID|Wall time|Original token count|Total output lines|Duration|real|user|sys)\b.*+"
"""Headers that Codex puts above an output, and what `time` prints below it."""

_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]++|,[0-9]{3}(?![0-9]))?+"
"""A comma begins a fraction only before three digits, as loggers write them; else it separates a value."""

_DURATION = r"[0-9](?<!\w.)[0-9]*+(?:\.[0-9]++)?+ ?+(?:ms|s|secs?|seconds|m|min|minutes)\b"

_LINE_OF_SHELL = r"sh: (?:(?<=\bbash: )|(?<=\bzsh: )|(?<=\bdash: )|(?<=\bsh: ))(-c: )?+line [0-9]++(?=:)"

MASKS = tuple(
    (re.compile(core), re.compile(pattern), replacement)
    for core, pattern, replacement in (
        ("\x1b", _ESCAPE_SEQUENCE, ""),
        ("", _VOLATILE_LINE, ""),
        (":[0-9]{2}:", rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME}(?:Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?+", "<ts>"),
        (":[0-9]{2}:", _TIME, "<t>"),
        ("-[0-9a-fA-F]{4}-", r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "<uuid>"),
        ("", r"0x[0-9a-fA-F]{6,}+", "<ptr>"),
        ("", _DURATION, "<dur>"),
        ("", _LINE_OF_SHELL, r"sh: \1line <n>"),
        ("", r"pid(?<![A-Za-z]...)[ :=]++[0-9]++", "pid <n>"),
        ("", r"PID(?<![A-Za-z]...)[ :=]++[0-9]++", "pid <n>"),
    )
)
"""In the order in which they apply: a date and time is one `<ts>` and not a date before a `<t>`.

Patterns begin with what is rare, and look back for what must stand before it; where that is not possible, the first of
the two is a part of every match that is found fast, which spares most texts the search for the whole.
"""


_BLANKS = re.compile("  ++")


def masked(text: str) -> str:
    """The text with its volatile parts masked, runs of blanks and tabs made one blank, and the ends trimmed."""
    for core, pattern, replacement in MASKS:
        if core.search(text):
            text = pattern.sub(replacement, text)
    return _BLANKS.sub(" ", text.replace("\t", " ")).strip()


def progress_outcome(output: Raw | UnsetType, error: Raw | UnsetType) -> str:
    """The identity of a result for the progress guard: 64 hex digits, the SHA-256 of its masked text.

    Both are JSON text and either may be absent; with both the error follows the output, as in a terminal.
    Raises NotJsonError or NestingError.
    """
    pieces = [piece for part in (output, error) if isinstance(part, Raw) for piece in _texts(parse(bytes(part)))]
    return sha256(utf8(masked("\n".join(pieces)))).hexdigest()


def _texts(result: Json) -> Iterator[str]:
    """The texts that a result is made of, in order; what is no text stands there as the digest of its canonical JSON.

    Text is: a string; an object with a string `text` and no `type`, or a `type` that ends in `text` (`text`,
    `output_text`). A list is its items, and an object with `content` (a result of MCP, of a model's API, a block of
    ACP) is what that holds; what lies beside it (`isError`, the id of the call) does not count. null is no text.
    """
    pending = _blocks(result)
    while pending:
        block = pending.pop()
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and (text := _text_of(block)) is not None:
            yield text
        elif isinstance(block, dict) and isinstance(content := block.get("content"), str | list | dict):
            pending += _blocks(content)
        elif block is not None:
            yield sha256(stringify(block, sort_keys=True).encode()).hexdigest()


def _blocks(value: Json) -> list[Json]:
    """The blocks of a result, last first: the one to look at next is at the end."""
    return value[::-1] if isinstance(value, list) else [value]


def _text_of(block: dict[str, Json]) -> str | None:
    text, kind = block.get("text"), block.get("type", "text")
    return text if isinstance(text, str) and isinstance(kind, str) and kind.endswith("text") else None
