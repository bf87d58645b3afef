"""Calls that repeat: in a row, or in pairs. What detectors are told of a call, and what they say of a loop."""

from msgspec import Struct

from turnguard.core.thresholds import ALTERNATING_PATTERN_CYCLES
from turnguard.core.turn.counter import CountedKey, counted
from turnguard.core.turn.reads import STATEFUL_READ_TOOL


class Request(Struct, frozen=True, gc=False):
    """A call as the detectors see it: an envelope is the call inside it, a missing name is the empty one.

    `key` None: the call is never identical to another.
    """

    name: str
    key: str | None
    is_read: bool = False
    is_git_overview: bool = False

    @property
    def is_stateful_read(self) -> bool:
        """Whether the call is judged by its results."""
        return self.name == STATEFUL_READ_TOOL

    @property
    def repeat_key(self) -> CountedKey | None:
        """The key of a call that counts as a repeat when it comes again."""
        return None if self.is_stateful_read or self.key is None else counted(self.key)


class Loop(Struct, frozen=True, gc=False):
    """What a detector saw; a finding without the guard's own part."""

    loop_type: str
    count: int
    threshold: int
    tool: str = ""
    key: str | None = None
    paired_tool: str = ""


class Streak(Struct):
    """How often the same thing came in a row: a key, a tool's name, a thought."""

    of: str | None = None
    length: int = 0

    def add(self, thing: str | None) -> int:
        """The length of the streak that this one continues or begins. None is never the same as another."""
        self.length = self.length + 1 if thing is not None and thing == self.of else 1
        self.of = thing
        return self.length

    def clear(self) -> None:
        """Forgets the streak."""
        self.of, self.length = None, 0


class Alternation(Struct):
    """The last calls, as (key, tool): a pair of different calls may come so many times in a row. Longer cycles pass."""

    calls: list[tuple[str | None, str]] = []

    def add(self, request: Request) -> str | None:
        """The tool of the other call of the pair when the last calls are one pair over and over, else None."""
        self.calls.append((request.key, request.name))
        del self.calls[: -2 * ALTERNATING_PATTERN_CYCLES]
        keys = [key for key, _ in self.calls]
        pair = keys[:2]
        if None in pair or len(set(pair)) < 2 or keys != pair * ALTERNATING_PATTERN_CYCLES:
            return None
        return self.calls[0][1]

    def clear(self) -> None:
        """Forgets the last calls."""
        self.calls.clear()
