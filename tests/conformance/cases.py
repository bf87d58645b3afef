"""Cases: reading them from files, and saying where a replay differs from what a case expects."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from tests.conformance.forms import case_form

Op = dict[str, Any]
"""One event of a script: `op` names it."""

SHOWN_LENGTH = 160
"""Characters of a value that a mismatch shows."""


class Case(Struct):
    """One script, and what it leads to. `expect` has one entry per event.

    `config_error`: the config must be refused; a text says for what.
    """

    id: str
    suite: str
    config: dict[str, Any]
    events: list[Op]
    expect: list[Any]
    final: dict[str, Any] | None = None
    config_error: bool | str = False


class BrokenLineError(ValueError):
    """A line is not a case."""


class Mismatch(NamedTuple):
    """Where a replay differs: at an event by its index, or at `config` or `final`."""

    where: int | str
    expected: Any
    got: Any

    def __str__(self) -> str:
        where = f"event {self.where}" if isinstance(self.where, int) else self.where
        return f"{where}: expected {_shown(self.expected)}, got {_shown(self.got)}"


def read_cases(path: Path) -> Iterator[Case | BrokenLineError]:
    """The cases of a `.jsonl` or `.jsonl.gz` file, with an error in place of each line that is none."""
    try:
        with path.open("rb") as file, gzip.open(file) if path.suffix == ".gz" else file as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _case_of(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        yield BrokenLineError(f"{path}: cannot be read to its end: {error}")


def compare(case: Case, answers: Iterable[Any]) -> Iterator[Mismatch]:
    """Where the answers to the events of a case, in order, are not the expected ones."""
    for index, (expected, got) in enumerate(zip(case.expect, answers, strict=True)):
        if expected != got:
            yield Mismatch(index, expected, got)


def compare_final(case: Case, got: dict[str, Any]) -> Iterator[Mismatch]:
    """Where the counters after the last event are not the expected ones; those that `got` lacks are left out."""
    expected = {name: value for name, value in (case.final or {}).items() if name in got}
    if expected != {name: got[name] for name in expected}:
        yield Mismatch("final", expected, got)


def raw(value: Any) -> Raw:
    """A value as JSON text, lone surrogates escaped."""
    return Raw(json.dumps(value, separators=(",", ":")).encode())


def json_bytes(text: str) -> bytes:
    """JSON text as it stands."""
    return text.encode("utf-8", "surrogatepass")


def _case_of(line: bytes, place: str) -> Case | BrokenLineError:
    try:
        return msgspec.convert(case_form(json.loads(line, parse_float=_number)), Case)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return BrokenLineError(f"{place}: not a vector: {error}")


def _number(token: str) -> float | int:
    """A number that can be written again: what overflows to infinity stays a number too large for a double."""
    value = float(token)
    return value if isfinite(value) else int(f"{token[0] if token[0] == '-' else ''}1{'0' * 400}")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "…"
