"""What the history of a run says about a call before it runs: four counts, each a walk back from the newest record."""

from collections.abc import Sequence

from msgspec import Struct

from turnguard.core.rolling.records import Record
from turnguard.core.turn.counter import CountedKey

History = Sequence[Record]
"""The records of one run, oldest first."""


class Streak(Struct, frozen=True, gc=False):
    """How often the newest outcome of a call came in a row, and which it is; None: none came yet."""

    count: int = 0
    result: CountedKey | None = None


class Alternation(Struct, frozen=True, gc=False):
    """Two calls that take turns, the next one included in the count.

    `tool`, `args`: of the call that came last. `is_frozen`: each of the two always had the same outcome.
    """

    count: int
    tool: str
    args: CountedKey | None
    is_frozen: bool


def unknown_streak(history: History, tool: str) -> int:
    """How often in a row, up to the newest record, the tool was not available under one and the same name.

    Arguments do not matter. Any other record ends the streak, also of this tool.
    """
    name = history[-1].unknown_tool if history else None
    if name is None:
        return 0
    count = 0
    for record in reversed(history):
        if record.tool != tool or record.unknown_tool != name:
            break
        count += 1
    return count


def of_call(history: History, tool: str, args: CountedKey) -> History:
    """The records of one call, with an outcome or without."""
    return [record for record in history if record.args == args and record.tool == tool]


def no_progress_streak(of_call: History) -> Streak:
    """How often in a row a call had its newest outcome, by all its records; those without outcome are skipped."""
    count, newest = 0, None
    for record in reversed(of_call):
        if record.result is None:
            continue
        if newest is None:
            newest = record.result
        elif record.result != newest:
            break
        count += 1
    return Streak(count, newest)


def alternation(history: History, tool: str, args: CountedKey) -> Alternation | None:
    """The tail of the history in which this call and the one that came last take turns, None when there is no such.

    The call about to run must be the turn of the other one: the nearest older record that is not the newest call again.
    """
    if len(history) < 2 or not _is(history[-2], tool, args) or _is(history[-1], tool, args):
        return None
    last = history[-1]
    outcomes: tuple[set[CountedKey | None], set[CountedKey | None]] = (set(), set())
    count = 0
    for record in reversed(history):
        is_other = count % 2
        if not (_is(record, tool, args) if is_other else _is(record, last.tool, last.args)):
            break
        outcomes[is_other].add(record.result)
        count += 1
    is_frozen = all(len(seen) == 1 and None not in seen for seen in outcomes)
    return Alternation(count + 1, last.tool, last.args, is_frozen)


def _is(record: Record, tool: str, args: CountedKey | None) -> bool:
    return record.args == args and record.tool == tool
