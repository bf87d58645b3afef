"""The step at hand: which calls are open, and which call a result belongs to."""

from collections.abc import Iterable
from typing import Any

import msgspec

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard_protocol.events import Call, Result, ToolResults


class OpenStep:
    """The calls of one step in order, over all its batches.

    `waiting` holds the positions of calls that were admitted and have no result yet. `batch_start` is the position at
    which the last batch begins, `has_results` whether any result of the step came.
    """

    __slots__ = ("batch_start", "calls", "has_results", "waiting")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.waiting: dict[int, None] = {}
        self.batch_start = 0
        self.has_results = False

    def add_batch(self, calls: list[Call], admitted: Iterable[int]) -> None:
        """Opens the admitted calls of a batch."""
        if len(self.calls) > MAX_OPEN_CALLS:
            self.calls, self.waiting = [], {}
        self.batch_start = len(self.calls)
        self.calls += calls
        self.waiting.update(dict.fromkeys(self.batch_start + index for index in admitted))

    def may_start(self) -> list[int]:
        """The indexes of the last batch whose calls were admitted and have no result yet."""
        return [position - self.batch_start for position in self.waiting if position >= self.batch_start]

    def pair(self, event: ToolResults) -> ToolResults:
        """The same results, each with the name and key of its call where one of the open calls fits."""
        self.has_results = True
        ids = {self.calls[position].id: position for position in self.waiting} if len(event.results) > 1 else None
        return ToolResults([self._pair(result, ids) for result in event.results], event.run_id)

    def _pair(self, result: Result, ids: dict[str | None, int] | None) -> Result:
        position = self._position(result, ids)
        if position is None:
            return result
        self.waiting.pop(position, None)
        call = self.calls[position]
        if result.name is not None and result.key is not None:
            return result
        return msgspec.structs.replace(result, name=call.name, key=call.key)

    def _position(self, result: Result, ids: dict[str | None, int] | None) -> int | None:
        if result.id is None:
            same = (n for n in self.waiting if self.calls[n].name == result.name and self.calls[n].key == result.key)
            return next(same, None)
        if ids is not None:
            return ids.get(result.id)
        return next((n for n in self.waiting if self.calls[n].id == result.id), None)

    def snapshot(self) -> dict[str, Any]:
        """The step as plain JSON-like values."""
        return {
            "calls": msgspec.to_builtins(self.calls),
            "waiting": list(self.waiting),
            "batchStart": self.batch_start,
            "hasResults": self.has_results,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "OpenStep":
        """The step that `snapshot` gave."""
        step = cls()
        step.calls = msgspec.convert(state["calls"], list[Call])
        step.waiting = dict.fromkeys(state["waiting"])
        step.batch_start, step.has_results = state["batchStart"], state["hasResults"]
        return step
