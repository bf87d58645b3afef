"""What is generated from the table of settings: `python -m turnguard.settings.reference schema|page|vscode [FILE]`.

Without a file it is printed, with one it is written there. Of a page only what stands between the two marks is ours.
"""

import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from turnguard.arguments import Parser
from turnguard.settings.described import default_of, listed, literal, sentence, stricter
from turnguard.settings.schema import Schema, indented, settings_schema, value_schema
from turnguard.settings.table import ROWS, Row
from turnguard.settings.vscode import contribution

BEGIN = "<!-- From here on made by: python -m turnguard.settings.reference page docs/settings.md -->"
END = "<!-- Up to here. -->"

WHOSE = {
    "model": "names of Qwen Code",
    "tools": "names of OpenClaw",
    "agents": "names of OpenClaw",
    "loopShield": "names of loopShield",
    "turnguard": "names of our own",
}
"""Where the names of a section come from."""


def schema_text() -> str:
    """The JSON Schema of settings files."""
    return indented(settings_schema())


def vscode_text() -> str:
    """The contribution of a VS Code extension."""
    return indented(contribution())


def page_text() -> str:
    """The settings one by one, in Markdown, between the two marks."""
    sections = groupby(ROWS, key=lambda row: row.name.partition(".")[0])
    parts = [part for section, rows in sections for part in (f"## `{section}`: {WHOSE[section]}", *map(_entry, rows))]
    return "\n\n".join([BEGIN, *parts, END]) + "\n"


def with_page(text: str) -> str:
    """A page with the part between the marks made anew. Raises ValueError unless both are there, once and in order."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(f"{END}\n")
    if not (begin and end) or BEGIN in rest:
        raise ValueError(f"Expected one line {BEGIN!r}, and one line {END!r} below it")
    return before + page_text() + after


def takes(schema: Schema) -> str:
    """Which values a schema admits, in words."""
    match schema:
        case {"enum": words}:
            return listed([literal(word) for word in words], "or")
        case {"type": "boolean"}:
            return "`true` or `false`"
        case {"type": "integer", "minimum": minimum}:
            return f"an integer of {minimum} or more" if minimum >= 0 else "an integer"
        case {"type": "string"}:
            return "a string that is not empty" if "minLength" in schema else "a string"
        case {"type": "array", "items": items}:
            return f"a list; each entry: {takes(items)}"
        case {"type": "object", "properties": properties}:
            return f"an object of {listed([f'`{name}`' for name in properties], 'and')}"
        case {"type": "object", "additionalProperties": values}:
            return f"an object; for each name: {takes(values)}"
        case _:
            raise TypeError(f"no words are known for {schema}")


def _entry(row: Row) -> str:
    lines = [
        f"### `{row.name}`",
        "",
        sentence(row.description),
        "",
        f"- takes: {takes(value_schema(row.name))}",
        f"- default: {default_of(row)}",
        f"- stricter: {stricter(row)}",
        f"- variable: `{row.variable}`",
    ]
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {"schema": schema_text, "page": page_text, "vscode": vscode_text}


def main(argv: Iterable[str] | None = None) -> None:
    """Prints or writes one part."""
    parser = Parser(prog="python -m turnguard.settings.reference", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("file", type=Path, nargs="?")
    arguments = parser.parse_args(None if argv is None else list(argv))
    text = PARTS[arguments.part]()
    file: Path | None = arguments.file
    if file is None:
        sys.stdout.write(text)
    else:
        file.write_text(with_page(file.read_text("utf-8")) if arguments.part == "page" else text, "utf-8")


if __name__ == "__main__":
    main()
