"""What a result says once the parts that change from run to run are taken out; rules: our progress guard.

A command that is run again prints other times, addresses and process ids and has still shown nothing new. The masks
apply one after the other, each without nested repetition, so that a long output costs time in proportion to its length:

    escape sequences of terminals                             nothing
    whole lines that begin as those of `_VOLATILE` do         empty ones
    dates with times, then times                              <ts>, <t>
    UUIDs, addresses, durations                               <uuid>, <ptr>, <dur>
    line numbers in errors of shells, process ids             line <n>, pid <n>
    tabs, and runs of blanks                                  one blank

Nearly every pattern begins with one character and looks back for what must stand before it: such a character is
searched for ten times as fast as one of a set, and most of the time there is nothing else to do.
"""

import re
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Raw, UnsetType

from turnguard.core.javascript import Json, parse, stringify, utf8

# --- masks ------------------------------------------------------------------------------------------------------------

_ESCAPE = "\x1b"
_ESCAPE_SEQUENCE = re.compile(rf"{_ESCAPE}(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)|[ -/]*+[0-~])")
"""ECMA-48: CSI; OSC, DCS, SOS, PM and APC with their text, which BEL ends too; all others."""

_VOLATILE = r"(?:Chunk ID|Wall time|Original token count|Total output lines|Duration|real|user|sys)\b.*+"
"""Headers that Codex puts above an output, and what `time` prints below it."""

_FIRST_LINE, _LATER_LINE = re.compile(_VOLATILE), re.compile(rf"\n{_VOLATILE}")


class _Reaching:
    """A mask whose matches reach back `behind` characters before the one that is searched for.

    `pattern` begins with that character, and begins to look back right after it; `whole` is the same from the start on.
    """

    def __init__(self, behind: str, width: int, mark: str, rest: str, replacement: str) -> None:
        self._pattern = re.compile(rf"{mark}(?<={behind}{mark}){rest}")
        self._whole = re.compile(rf"{behind}{mark}{rest}")
        self._width = width
        self._replacement = replacement

    def apply(self, text: str) -> str:
        pieces = self._pattern.split(text)
        if len(pieces) == 1:
            return text
        last, width = pieces.pop(), self._width
        if min(map(len, pieces)) < width:  # what it reaches back for is a part of the match before
            return self._whole.sub(self._replacement, text)
        return self._replacement.join([*(piece[:-width] for piece in pieces), last])


_CLOCK = r"[0-9]{2}:[0-9]{2}(?:\.[0-9]++|,[0-9]{3}(?![0-9]))?+"
"""A comma begins a fraction only before three digits, as loggers write them; else it separates a value."""

_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?+"

_TIMES_AND_IDS = (
    _Reaching(r"[0-9]{4}", 4, "-", rf"[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:{_CLOCK}{_ZONE}", "<ts>"),
    _Reaching(r"[0-9]{2}", 2, ":", _CLOCK, "<t>"),
    _Reaching(r"[0-9a-fA-F]{8}", 8, "-", r"[0-9a-fA-F]{4}(?:-[0-9a-fA-F]{4}){2}-[0-9a-fA-F]{12}", "<uuid>"),
)
"""In this order: a date and time is one `<ts>` and not a date before a `<t>`."""

_POINTER = re.compile(r"0x[0-9a-fA-F]{6,}+")

_UNIT = r" ?+(?:ms|s|secs?|seconds|m|min|minutes)\b"
_DURATION = re.compile(rf"[0-9](?<!\w.)[0-9]*+(?:\.[0-9]++)?+{_UNIT}")
_ENDS_AS_DURATION = re.compile(f"0{_UNIT}".encode())
_ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_ONE_DIGIT_AND_UNIT = bytes.maketrans(b"123456789m", b"000000000s")

_AFTER_DURATION = (
    (
        re.compile(r"sh: (?:(?<=\bbash: )|(?<=\bzsh: )|(?<=\bdash: )|(?<=\bsh: ))(-c: )?+line [0-9]++(?=:)"),
        r"sh: \1line <n>",
    ),
    (re.compile(r"pid(?<![A-Za-z]...)[ :=]++[0-9]++"), "pid <n>"),
    (re.compile(r"PID(?<![A-Za-z]...)[ :=]++[0-9]++"), "pid <n>"),
)

_BLANKS = re.compile("  ++")


def masked(text: str) -> str:
    """The text with its volatile parts masked, runs of blanks and tabs made one blank, and the ends trimmed."""
    if _ESCAPE in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    first = _FIRST_LINE.match(text)
    text = _LATER_LINE.sub("\n", text if first is None else text[first.end() :])
    for mask in _TIMES_AND_IDS:
        text = mask.apply(text)
    text = _without_durations(_POINTER.sub("<ptr>", text))
    for pattern, replacement in _AFTER_DURATION:
        text = pattern.sub(replacement, text)
    return _BLANKS.sub(" ", text.replace("\t", " ")).strip()


def _without_durations(text: str) -> str:
    """The text with durations masked. Any digit may begin one, so a unit behind a digit is searched for first.

    That is done where all digits are one, and what is not ASCII is no letter: one is found wherever there is one.
    """
    outline = text.encode("ascii", "replace")
    if b"0s" not in outline.translate(_ONE_DIGIT_AND_UNIT, b" "):
        return text
    found = _ENDS_AS_DURATION.search(outline.translate(_ONE_DIGIT))
    if found is None:
        return text
    line = text.rfind("\n", 0, found.start()) + 1
    return text[:line] + _DURATION.sub("<dur>", text[line:])


# --- results ----------------------------------------------------------------------------------------------------------


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
