"""The rolling history: the latest calls of a session, over all its runs, oldest first."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from turnguard.core.turn.counter import CountedKey, read_key, write_key

FORGIVEN = "forgiven:"
"""Begins the arguments of calls that count against nobody any more, and still stand between others."""


class Record(Struct, gc=False):
    """A call that ran, or an outcome that no call in the history waits for.

    `run`: trimmed; None: no run. `args`: the hash of the arguments; None, only while an outcome looks for its call, or
    a call for its identity: it is known by `call_id` alone. `step`: the step in which the call was
    recorded. `result`: the hash of the outcome; None: there is none yet. `unknown_tool`: the outcome says that there is
    no tool of this name.
    """

    run: str | None
    tool: str
    args: CountedKey | None
    call_id: str | None
    step: int
    result: CountedKey | None = None
    unknown_tool: str | None = None

    def awaits(self, outcome: "Record") -> bool:
        """Whether this call has no outcome yet and the given one is its own."""
        return (
            self.result is None
            and self.run == outcome.run
            and (outcome.call_id is None or self.call_id == outcome.call_id)
            and (outcome.args is None or (self.tool == outcome.tool and self.args == outcome.args))
        )

    def written(self) -> list[Any]:
        """The record as plain values."""
        args, result = write_key(self.args), write_key(self.result)
        return [self.run, self.tool, args, self.call_id, self.step, result, self.unknown_tool]

    @classmethod
    def read(cls, written: Sequence[Any]) -> "Record":
        """The record that `written` gave."""
        run, tool, args, call_id, step, result, unknown_tool = written
        return cls(run, tool, read_key(args), call_id, step, read_key(result), unknown_tool)


class RollingHistory:
    """At most so many records as the size that each recording names; it is trimmed at no other time."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[Record] = []

    def of_run(self, run: str | None) -> list[Record]:
        """The records of a run; None: those that belong to no run."""
        return [record for record in self.records if record.run == run]

    def append(self, record: Record, size: int) -> None:
        """Records a call, or an outcome as a record of its own."""
        if self.records and self.records[-1].tool == record.tool:
            record.tool = self.records[-1].tool  # one string for all: a session holds little else
        self.records.append(record)
        self._trim(size)

    def settle(self, outcome: Record, size: int) -> bool:
        """Gives an outcome to the latest call that waits for it; False when there is none."""
        for record in reversed(self.records):
            if record.awaits(outcome):
                record.result, record.unknown_tool = outcome.result, outcome.unknown_tool
                self._trim(size)
                return True
        return False

    def find(self, call_id: str | None, tool: str, args: CountedKey) -> Record | None:
        """The latest record of the call of an id, as it was told."""
        return next(
            (each for each in reversed(self.records) if (each.call_id, each.tool, each.args) == (call_id, tool, args)),
            None,
        )

    def remove(self, record: Record) -> None:
        """The record of a call that is none of those that count."""
        self.records = [each for each in self.records if each is not record]

    def take_back(self, step: int) -> None:
        """The calls of a step that have no outcome never ran."""
        self.records = [record for record in self.records if record.step != step or record.result is not None]

    def forgive(self, run: str | None, tool: str, args: CountedKey, *, is_unknown_tool: bool) -> None:
        """No outcome so far counts against a call any more, nor, if asked, against its tool as an unknown one."""
        for record in self.of_run(run):
            if record.tool != tool or record.result is None:
                continue
            if is_unknown_tool:
                record.unknown_tool = None
            if record.args == args:
                record.args = f"{FORGIVEN}{args}"

    def _trim(self, size: int) -> None:
        excess = len(self.records) - size
        if excess > 0:
            del self.records[:excess]
