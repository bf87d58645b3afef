"""What both turn guards have in common: the key counter, the cap, and the way past the cap."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from turnguard.core.guard import Guard, Seal
from turnguard.core.identity import repeat_key_of
from turnguard.core.thresholds import GLOBAL_DUPLICATE_THRESHOLD
from turnguard.core.turn.cap import UNRAISED, CapReason, Raises, cap_reason, limit_of
from turnguard.core.turn.counter import CountedKey, KeyCounter, counted, doubtful, read_key, without_doubt, write_key
from turnguard_protocol.events import Call
from turnguard_protocol.settings import MAX_SAFE_INTEGER, SettingsInForce
from turnguard_protocol.verdicts import Action, Cap, Finding

MAX_RAISE = MAX_SAFE_INTEGER // 2
"""Calls by which a cap can be raised in all, so that it stays a number that every client can read."""

TURN_TOOL_CALL_CAP = "turn_tool_call_cap"
GLOBAL_TOOL_CALL_DUPLICATE = "global_tool_call_duplicate"


def turn_key(call: Call) -> str | None:
    """The repeat key of an identified call; None when it is never identical to another."""
    if call.fidelity == "none":
        return None
    return repeat_key_of(call.key)


class TurnGuard(Guard):
    """Counts the calls of a turn and halts it past its cap.

    `refused_keys`: the keys of refused calls that were counted. `refused_unseen`: how many more calls were refused with
    them, uncounted.
    """

    __slots__ = ("counter", "raises", "refused_keys", "refused_unseen")

    name = "turn"

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.counter = KeyCounter()
        self.raises: Raises | None = None
        self.refused_keys: Sequence[CountedKey | None] = ()
        self.refused_unseen = 0

    def reset_turn(self) -> None:
        """A new turn: nothing counted, nothing raised."""
        self.counter.reset()
        self.raises = None
        self.refused_keys, self.refused_unseen = (), 0

    def check_cap(self) -> Finding | None:
        """The finding of the cap on what is counted so far."""
        cap = self.settings.max_tool_calls_per_turn
        counter, raises = self.counter, self.raises or UNRAISED
        repeat = counter.max_repeat if counter.max_repeat < GLOBAL_DUPLICATE_THRESHOLD else counter.certain_repeat
        reason = cap_reason(counter.total, repeat, cap, self.settings.is_cap_explicit, raises)
        if reason is None or cap is None:
            return None
        finding = Finding(
            guard=self.name,
            action=Action.HALT,
            loop_type=TURN_TOOL_CALL_CAP,
            reason=reason,
            count=counter.total,
            threshold=limit_of(reason, cap, raises),
            setting="model.maxToolCallsPerTurn",
        )
        if reason is CapReason.STUCK:
            finding.tool = counter.max_tool or UNSET
            finding.key_digest = self.digest(counter.max_key)
        return finding

    def duplicate_finding(self, count: int, tool: str | None, key: CountedKey | None) -> Finding:
        """The finding that one call was made too often in the turn."""
        return Finding(
            guard=self.name,
            action=Action.HALT,
            loop_type=GLOBAL_TOOL_CALL_DUPLICATE,
            tool=tool or UNSET,
            count=count,
            threshold=GLOBAL_DUPLICATE_THRESHOLD,
            key_digest=self.digest(key),
            setting="model.skipLoopDetection",
        )

    def digest(self, key: CountedKey | None) -> str | UnsetType:
        """The identity of a call in the form that may leave the process."""
        return UNSET if key is None or self.seal is None else self.seal(str(without_doubt(key)))

    def cap_in_force(self) -> Cap:
        """The cap as it holds now, raises included."""
        cap = self.settings.max_tool_calls_per_turn
        is_explicit = self.settings.is_cap_explicit
        reason = CapReason.EXPLICIT_CAP if is_explicit else CapReason.STUCK
        return Cap(None if cap is None else limit_of(reason, cap, self.raises or UNRAISED), is_explicit)

    def forgive_cap(self, reason: CapReason) -> None:
        """Lets the turn go on after the cap halted it: the batch that was refused may come again, once."""
        refused = len(self.refused_keys) + self.refused_unseen
        self.take_back_refused()
        cap = self.settings.max_tool_calls_per_turn
        if reason is CapReason.STUCK:
            self.counter.clear_repeats()
        elif cap is not None:
            limit = limit_of(reason, cap, self.raises or UNRAISED)
            self.raise_cap(reason, max(0, self.counter.total + refused - limit))

    def raise_cap(self, reason: CapReason, calls: int) -> None:
        """Moves one part of the cap up by `calls`, for this turn."""
        raises = self.raises or UNRAISED
        raised = min(getattr(raises, reason.value) + calls, MAX_RAISE)
        self.raises = msgspec.structs.replace(raises, **{reason.value: raised})

    def take_back_refused(self) -> None:
        """Uncounts the batch that tripped the guard, since it never ran."""
        self.counter.take_back(self.refused_keys)
        self.refused_keys, self.refused_unseen = (), 0

    def take_back(self, calls: Sequence[Call]) -> None:
        """Uncounts calls that something else refused, unless it did so, too."""
        if not self.refused_keys:
            self.counter.take_back([self.counted_key(call) for call in calls])

    def counted_key(self, call: Call) -> CountedKey | None:
        """The key under which it counts a call."""
        return counted_key(call)

    def may_admit_part(self, finding: Finding, calls: int) -> bool:
        """Whether the batch is not to be refused whole for this finding: the calls that still fit may run.

        `calls`: how many of the batch are counted, with the one that does not fit.
        """
        return self.settings.admission == "call" and finding.loop_type == TURN_TOOL_CALL_CAP and calls > 1

    def refuse_rest(self, unfit: Sequence[CountedKey | None], refused: int) -> None:
        """Uncounts the calls that do not fit; `refused` is how many calls are refused with them."""
        self.counter.take_back(unfit)
        self.refused_keys, self.refused_unseen = (), refused

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        return {
            "counter": self.counter.snapshot(),
            "raises": None if self.raises is None else msgspec.to_builtins(self.raises),
            "refusedUnseen": self.refused_unseen,
            "refusedKeys": [write_key(key) for key in self.refused_keys],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.counter.restore(state["counter"])
        self.raises = msgspec.convert(state["raises"], Raises | None)
        self.refused_unseen = state["refusedUnseen"]
        self.refused_keys = [read_key(key) for key in state["refusedKeys"]]


def counted_key(call: Call) -> CountedKey | None:
    """The form in which the counter holds the key of a call."""
    key = turn_key(call)
    if key is None:
        return None
    return doubtful(counted(key)) if call.fidelity == "low" else counted(key)
