"""The step at hand: which calls are open, and which call a result belongs to."""

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import msgspec

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.identity import repeat_key_of
from turnguard_protocol.events import Call, Result, ToolResults

NONE_BLOCKED: frozenset[int] = frozenset()
"""One for all steps, since Python makes each empty set anew."""


class OpenStep:
    """The calls of one step in order, over all its batches.

    `waiting` holds the positions of calls that were admitted and have no result yet; `by_id` where the admitted call of
    an id is, settled or not; `by_call` the same of waiting calls by name and key, made when a result without an id
    asks. `batch_start` is the position at which the last batch begins, `has_results` whether any result came,
    `is_refused` whether a batch that counted as a step of its own was refused with a halt, and so is not among them.
    `blocked` holds the positions of calls that were admitted and refused when they were re-keyed: should one run all
    the same, its result is its own.
    """

    __slots__ = ("batch_start", "blocked", "by_call", "by_id", "calls", "has_results", "is_refused", "waiting")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.waiting: dict[int, None] = {}
        self.by_id: dict[str, int] = {}
        self.by_call: dict[tuple[str | None, str], list[int]] | None = None
        self.batch_start = 0
        self.blocked = NONE_BLOCKED
        self.has_results = False
        self.is_refused = False

    def add_batch(self, calls: list[Call], admitted: Iterable[int]) -> None:
        """Opens the admitted calls of a batch."""
        if len(self.calls) > MAX_OPEN_CALLS:
            self.calls, self.waiting, self.by_id, self.blocked = [], {}, {}, NONE_BLOCKED
        self.by_call = None
        start = self.batch_start = len(self.calls)
        self.calls += calls
        for index in admitted:
            self._await(start + index)

    def abandon(self) -> None:
        """The calls that have no result never ran; a result under one of their ids belongs to a later call."""
        self.by_id = {call_id: place for call_id, place in self.by_id.items() if place not in self.waiting}
        self.waiting, self.by_call = {}, None

    def may_start(self) -> list[int]:
        """The indexes of the last batch whose calls are admitted and have no result yet."""
        start = self.batch_start
        # The latest are last, so that a long step whose results never come costs nothing here.
        latest = takewhile(start.__le__, reversed(self.waiting))
        return [position - start for position in latest if position not in self.blocked][::-1]

    def find(self, call_id: str) -> Call | None:
        """The call of this id, admitted or not; of several the one that a result under the id would belong to."""
        position = self._find(call_id)
        return None if position is None else self.calls[position]

    def rekey(self, call_id: str, now: Call, *, is_admitted: bool) -> bool:
        """Puts `now` in the place of the call of this id, so that its result comes with its new name and key.

        False when none of the calls has this id.
        """
        position = self._find(call_id)
        if position is None:
            return False
        self.calls[position], self.by_call = now, None
        if not is_admitted:
            self.blocked |= {position}
        return True

    def _find(self, call_id: str) -> int | None:
        position = self.by_id.get(call_id)
        if position is not None:
            return position
        return next((place for place in reversed(range(len(self.calls))) if self.calls[place].id == call_id), None)

    def call_of(self, result: Result) -> Call | None:
        """The open call that a result names by its id."""
        position = None if result.id is None else self.by_id.get(result.id)
        return None if position is None else self.calls[position]

    def pair(self, event: ToolResults, *, only_unknown: bool = False) -> ToolResults:
        """The same results, each with the name and key of its call where one of these calls fits.

        With `only_unknown` those that have a key stay as they are.
        """
        self.has_results = True
        paired = [result if only_unknown and result.key is not None else self._pair(result) for result in event.results]
        return ToolResults(paired, event.run_id)

    def _pair(self, result: Result) -> Result:
        position = self._position(result)
        if position is None:
            return result
        call = self.calls[position]
        is_again = position not in self.waiting
        self.waiting.pop(position, None)
        if result.name is not None and result.key is not None and not is_again:
            return result
        duplicate = result.duplicate or is_again
        return msgspec.structs.replace(result, name=call.name, key=call.key, duplicate=duplicate)

    def _position(self, result: Result) -> int | None:
        """Where the call of a result is; of one without an id the first equal call that has no result yet."""
        if result.id is not None:
            return self.by_id.get(result.id)
        if result.key is None:
            return None
        if self.by_call is None:
            self.by_call = {}
            for position in reversed(self.waiting):
                self.by_call.setdefault(_identity(self.calls[position]), []).append(position)
        positions = self.by_call.get(_identity(result), [])
        while positions and positions[-1] not in self.waiting:
            positions.pop()
        return positions[-1] if positions else None

    def _await(self, position: int) -> None:
        self.waiting[position] = None
        call_id = self.calls[position].id
        if call_id is not None and self.by_id.get(call_id) not in self.waiting:
            self.by_id[call_id] = position

    def snapshot(self) -> dict[str, Any]:
        """The step as plain JSON-like values."""
        return {
            "calls": msgspec.to_builtins(self.calls),
            "waiting": list(self.waiting),
            "byId": dict(self.by_id),
            "batchStart": self.batch_start,
            "blocked": sorted(self.blocked),
            "hasResults": self.has_results,
            "isRefused": self.is_refused,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "OpenStep":
        """The step that `snapshot` gave."""
        step = cls()
        step.calls = msgspec.convert(state["calls"], list[Call])
        step.batch_start, step.has_results = state["batchStart"], state["hasResults"]
        step.is_refused, step.blocked = state["isRefused"], frozenset(state["blocked"])
        step.waiting, step.by_id = dict.fromkeys(state["waiting"]), dict(state["byId"])
        return step


def _identity(item: Call | Result) -> tuple[str | None, str]:
    """What a result without an id has in common with its call."""
    return item.name, repeat_key_of(item.key) or ""
