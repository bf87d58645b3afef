"""What the commands print: lines, coloured where a person reads them, and safe to show whatever a repository wrote."""

import sys
from typing import IO

import msgspec
from rich.console import Console
from rich.text import Text

from turnguard.harmless import harmless
from turnguard.settings.table import Value

FINE, REFUSED, MISUSE = 0, 1, 2
"""Exit codes: all is well; there are problems, or it was not done; the arguments or the surroundings do not fit."""

QUIET, BOLD, WARNING = "dim", "bold", "yellow"
"""Styles of parts of a line."""


class _Console(Console):
    """A console that leaves to `cli.main` what there is to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Raises BrokenPipeError; it is called where that was caught."""
        raise BrokenPipeError


def print_json(document: bytes) -> None:
    """Prints a line of JSON, in UTF-8 whatever the locale says: escapes of other encodings would not be JSON."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # a stream that stands for stdout
        sys.stdout.write(f"{document.decode()}\n")
    else:
        binary.write(document + b"\n")


def console(stream: IO[str] | None = None) -> Console:
    """A console for stdout or another stream. It colours only on a terminal, and not there when NO_COLOR is set."""
    stream = sys.stdout if stream is None else stream
    return _Console(file=stream, force_terminal=is_terminal(stream), soft_wrap=True, highlight=False, emoji=False)


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a stream is a terminal; None is one that was closed before turnguard began."""
    return stream is not None and stream.isatty()


def line(*parts: str | tuple[str, str], indent: int = 0) -> Text:
    """A line of parts, each with a style or without. Of what it is given nothing can steer a terminal."""
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(" " * indent, *((harmless(text), style) for text, style in styled))


def shown(value: Value) -> str:
    """The whole of a setting's value, as JSON."""
    return "not set" if value is None else msgspec.json.encode(value).decode()
