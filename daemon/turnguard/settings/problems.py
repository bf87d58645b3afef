"""What is wrong in a source of settings: collected while it is read, and put in words; what was perhaps meant."""

import math
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any

import msgspec
from msgspec import UNSET

from turnguard.harmless import harmless
from turnguard.settings.described import listed
from turnguard.settings.table import ROWS
from turnguard_protocol.settings import SettingsProblem

MAX_PROBLEMS = 50
"""Of one source. Nobody reads more, and looking for names that are near takes its time."""

MAX_SHOWN = 60
"""Characters of a value, or of a name, that a problem repeats."""

MIN_LIKENESS = 0.6
"""From here on a name is near another: difflib's own default, where 1 is equal."""

NOTHING: Any = UNSET
"""No value is shown: a problem is not about a value."""

_SPELLINGS = [(spelling, row.name) for row in ROWS for spelling in (row.name, row.name.rpartition(".")[2])]

_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


class Problems:
    """The problems of one source, in the order in which they were found, and no more than are read."""

    def __init__(self, origin: str, source: str, *, has_lines: bool = True) -> None:
        self.origin = origin
        self.source = source
        self.has_lines = has_lines
        self.found: list[SettingsProblem] = []
        self._more = 0

    def add(self, path: str, message: str, *, line: int = 0, value: Any = NOTHING) -> None:
        """Adds one. `line` 0: no line. A value that is long, or not finite, is not repeated."""
        if len(self.found) == MAX_PROBLEMS:
            self._more += 1
            return
        self.found.append(
            SettingsProblem(
                origin=self.origin,
                source=self.source,
                line=line if line and self.has_lines else UNSET,
                path=path,
                value=value if is_short(value) else UNSET,
                message=message,
            )
        )

    @property
    def is_full(self) -> bool:
        """Whether a further one is only counted."""
        return len(self.found) == MAX_PROBLEMS

    @property
    def all(self) -> list[SettingsProblem]:
        """All of them; those that were only counted as one, at the end."""
        if not self._more:
            return self.found
        message = f"and {self._more} more; they are shown when these are gone"
        return [*self.found, SettingsProblem(origin=self.origin, source=self.source, path="$", message=message)]


def describe(problem: SettingsProblem) -> str:
    """A problem as a line for people. Nothing in it can steer a terminal, whatever a file holds."""
    place = problem.source if problem.line is UNSET else f"{problem.source}:{problem.line}"
    if problem.value is not UNSET:
        what = f"{problem.path} is {shown(problem.value)}; {problem.message}"
    elif problem.path == "$":
        what = problem.message
    else:
        what = f"{problem.path}: {problem.message}"
    return harmless(f"{place}: {what}")


def brief(value: Any) -> str:
    """A value as JSON writes it; of a long one the beginning."""
    text = shown(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def shown(value: Any) -> str:
    """A value as JSON writes it."""
    return msgspec.json.encode(value).decode()


def is_short(value: Any) -> bool:
    """Whether a value can be repeated in a line."""
    if value is NOTHING or (isinstance(value, float) and not math.isfinite(value)):
        return False
    return len(shown(value)) <= MAX_SHOWN


def member(path: str, name: str) -> str:
    """The path of a member: `$.tools`, and `$["a b"]` for what is no plain name."""
    if len(name) > MAX_SHOWN:
        name = f"{name[:MAX_SHOWN]}..."
    return f"{path}.{name}" if _PLAIN_NAME.fullmatch(name) else f"{path}[{shown(name)}]"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most like a name, in whatever case; None where none is near."""
    return _nearest(name, ((each, each) for each in candidates))[1]


def nearest_setting(name: str) -> str | None:
    """The setting that is most like a name, with its sections or without them; None where none is near."""
    return _nearest(name, _SPELLINGS)[1]


def nearest_here(name: str, names: Iterable[str]) -> str:
    """What to write where a name is none: one of the `names` that may stand there, or a setting from elsewhere."""
    names = list(names)
    likeness, here = _nearest(name, ((each, each) for each in names))
    likeness_elsewhere, elsewhere = _nearest(name, _SPELLINGS)
    if here is not None and likeness >= likeness_elsewhere:
        return f'did you mean "{here}"?'
    if elsewhere is not None:
        return f"did you mean {elsewhere}, which a file has as {_nested(elsewhere)}?"
    return f"allowed here: {listed(names, 'and')}"


def _nearest(name: str, spellings: Iterable[tuple[str, str]]) -> tuple[float, str | None]:
    """Of pairs of a spelling and what it stands for: the likeness of the best spelling, and what that stands for."""
    best: tuple[float, str | None] = (0.0, None)
    for spelling, meant in spellings if len(name) <= MAX_SHOWN else ():
        likeness = SequenceMatcher(None, name.casefold(), spelling.casefold(), autojunk=False).ratio()
        if likeness >= MIN_LIKENESS and likeness > best[0]:
            best = (likeness, meant)
    return best


def _nested(name: str) -> str:
    """How a file has a setting: `{"model": {"skipLoopDetection": ...}}`."""
    parts = name.split(".")
    return "".join(f'{{"{part}": ' for part in parts) + "..." + "}" * len(parts)
