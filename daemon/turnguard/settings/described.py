"""A setting in words, for the schema, the reference page and VS Code alike; in Markdown, without a full stop."""

from collections.abc import Sequence

import msgspec

from turnguard.core.thresholds import DEFAULT_MAX_TOOL_CALLS_PER_TURN
from turnguard.settings.table import Row, Value


def sentence(text: str) -> str:
    """A row's description as a sentence."""
    return f"{text[0].upper()}{text[1:]}."


def default_of(row: Row) -> str:
    """The default, and that of faces which differ: `"warn"`; `"halt"` in acp and exec."""
    words = [literal(row.default)]
    for other in dict.fromkeys(value for _, value in row.by_face):
        faces = [face for face, value in row.by_face if value == other]
        words.append(f"{literal(other)} in {listed(faces, 'and')}")
    return "; ".join(words)


def stricter(row: Row) -> str:
    """Which values are stricter than the one in force, so that a project or a workspace may set them."""
    match row.tightens:
        case "lower":
            return "a lower number" if row.default is not None else "a lower number, or any while none is set"
        case "higher":
            return "a higher number"
        case "true" | "false":
            return f"`{row.tightens}`"
        case "later":
            return f"a later one of {listed([literal(word) for word in row.words], 'and')}"
        case "cap":
            any_number = "any while that is 0 or less"
            if row.default is None:
                any_number = f"{DEFAULT_MAX_TOOL_CALLS_PER_TURN} while none is set; {any_number}"
            return f"1 or more, and at most what is in force ({any_number})"
        case "never":
            return "nothing is"


def literal(value: Value) -> str:
    """A value as JSON writes it."""
    return "not set" if value is None else f"`{msgspec.json.encode(value).decode()}`"


def listed(words: Sequence[str], conjunction: str) -> str:
    """Words one after the other: `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last
