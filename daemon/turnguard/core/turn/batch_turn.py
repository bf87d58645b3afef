"""The turn guard of Qwen Code's daemon: one look at each batch, before any of it runs.

For each model response, in this order:

1. a call whose id was already seen in the response is dropped: the provider sent the chunk twice;
2. a call that was already executed under the same id and key is a replay: it is answered with an error and not counted,
   and the second replay of one id in a prompt stops the turn;
3. all other calls are counted, then the cap is asked once, then the duplicate check. So a batch that crosses an
   explicit cap or the backstop is skipped whole, and the adaptive soft cap is exceeded by design.

Calls rejected for their parameters are counted as their results come; the third of one tool stops the turn.

A call that is re-keyed moves to its new key; then the cap and the duplicate check are asked as after a batch. It is no
replay: those are told when they come. A rejection that was counted stays with the name that the call had then.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from turnguard.core.bounds import MAX_INVALID_TOOLS, MAX_REMEMBERED_CALL_IDS
from turnguard.core.guard import NO_FINDINGS, PASS, Batch, Rekeying, Ruling, Seal
from turnguard.core.thresholds import (
    GLOBAL_DUPLICATE_THRESHOLD,
    INVALID_TOOL_PARAMS_THRESHOLD,
    REPLAYED_CALL_ID_THRESHOLD,
)
from turnguard.core.turn.cap import CapReason
from turnguard.core.turn.counter import CountedKey, read_key, write_key
from turnguard.core.turn.turn_guard import (
    GLOBAL_TOOL_CALL_DUPLICATE,
    TURN_TOOL_CALL_CAP,
    TurnGuard,
    counted_key,
)
from turnguard_protocol.events import (
    Call,
    Event,
    Fallback,
    Result,
    Retry,
    StepFinished,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

INVALID_TOOL_PARAMS_STAGNATION = "invalid_tool_params_stagnation"
REPLAYED_CALL_ID = "replayed_call_id"

INVALID_ERROR_TYPES = frozenset({"invalid_params", "unknown_tool"})
"""Upstream takes a call of an unknown tool, and one without a name, for one with invalid parameters."""


class DaemonToolLoopState:
    """What Qwen Code's daemon keeps: per prompt, except the executed ids, which survive prompts.

    `executed`: the key under which each call id was first executed. `open_ids`: those of them whose calls have no
    result yet. `replayed`: ids answered as replays in this prompt. `invalid`: rejected calls by raw tool name.
    """

    __slots__ = ("executed", "invalid", "open_ids", "replayed")

    def __init__(self) -> None:
        self.executed: dict[str, CountedKey | None] = NONE_EXECUTED
        self.start_prompt()

    def start_prompt(self) -> None:
        """Forgets all but the executed ids."""
        self.open_ids: set[str] | None = None
        self.replayed: set[str] | None = None
        self.invalid: dict[str, int] | None = None

    def is_replay(self, call_id: str | None, key: CountedKey | None) -> bool:
        """Whether this call was already executed, under this id and with this key."""
        return key is not None and call_id is not None and self.executed.get(call_id) == key

    def remember_executed(self, call_id: str | None, key: CountedKey | None) -> None:
        """Notes the id of a call that runs; an id keeps the key of its first call."""
        if call_id is None or call_id in self.executed:
            return
        if self.executed is NONE_EXECUTED:
            self.executed = {}
        elif len(self.executed) >= MAX_REMEMBERED_CALL_IDS:
            oldest = next(iter(self.executed))
            del self.executed[oldest]
            (self.open_ids or set()).discard(oldest)
        self.executed[call_id] = key
        self.open_ids = self.open_ids or set()
        self.open_ids.add(call_id)

    def rekey(self, call_id: str | None, before: CountedKey | None, now: CountedKey | None) -> None:
        """A call turns out to be another one: under its id, if it is the first that was executed under it."""
        if call_id is not None and call_id in self.executed and self.executed[call_id] == before:
            self.executed[call_id] = now

    def settle(self, result: Result) -> None:
        """A result came: its call was executed, or did not run after all and may come again under its id."""
        if self.open_ids is None or result.id not in self.open_ids:
            return
        self.open_ids.discard(result.id)
        if result.status == "notStarted":
            del self.executed[result.id]

    def forget_open_ids(self) -> None:
        """The response comes again, and with it the calls of it that have no result yet."""
        for call_id in self.open_ids or ():
            self.executed.pop(call_id, None)
        self.open_ids = None


NONE_EXECUTED: dict[str, CountedKey | None] = {}
"""Stands for no executed ids at all in sessions whose host sends none; never written to."""


class BatchTurnGuard(TurnGuard):
    """`DaemonToolLoopState` in the shape of a guard.

    `batch_keys`: the keys of the batch between its check and its commit, so that counter and state hold one copy.
    """

    __slots__ = ("batch_keys", "state")

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.state = DaemonToolLoopState()
        self.batch_keys: Sequence[CountedKey | None] = ()

    def check(self, batch: Batch) -> Ruling:
        """Judges the batch by the three steps at the head of this module."""
        self.batch_keys = [counted_key(call) for call in batch.calls]
        fresh, refused, replays = self._sift(batch.calls)
        finding, fit = self._second_replay(replays), len(fresh)
        if finding is None:
            finding, fit = self._record(batch.calls, fresh)
        if finding is not None and finding.action is Action.HALT:
            return Ruling([finding], frozenset(range(len(batch.calls))))
        if finding is None and not refused:
            return PASS
        findings = [self._replay_finding(call, Action.BLOCK, 1) for call in replays]
        return Ruling(findings if finding is None else [*findings, finding], frozenset([*refused, *fresh[fit:]]))

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Remembers the ids of the calls that run."""
        for index in admitted:
            self.state.remember_executed(batch.calls[index].id, self.batch_keys[index])
        self.batch_keys = ()

    def check_rekeyed(self, change: Rekeying) -> Sequence[Finding]:
        """Counts the call under its new key; what has to be said then, once."""
        before, now = counted_key(change.before), counted_key(change.now)
        self.state.rekey(change.now.id, before, now)
        if not self.counter.move(before, now, change.now.name):
            return NO_FINDINGS
        finding = self.check_cap() or check_global_duplicate(self)
        return NO_FINDINGS if finding is None else [finding]

    def receive(self, event: Event) -> Sequence[Finding]:
        """Counts rejected calls, and follows the turn."""
        if type(event) is ToolResults:
            return self._count_invalid(event)
        if type(event) is StepFinished:
            self.counter.commit()
            self.state.open_ids = None
        elif type(event) is TurnStarted:
            self.reset_turn()
            self.state.start_prompt()
        elif type(event) is Retry:
            self.counter.roll_back()
            self.state.forget_open_ids()
        elif type(event) is Fallback:
            self.state.forget_open_ids()
        return NO_FINDINGS

    def receive_late(self, event: ToolResults) -> None:
        """Hears which of the calls at hand when the turn stopped were never started."""
        for result in event.results:
            self.state.settle(result)

    def forgive(self, finding: Finding) -> None:
        """Clears what tripped: the loop type says which counter it was."""
        if finding.loop_type == TURN_TOOL_CALL_CAP:
            self.forgive_cap(CapReason(str(finding.reason)))
        elif finding.loop_type == INVALID_TOOL_PARAMS_STAGNATION:
            self.state.invalid = None
        elif finding.reason == REPLAYED_CALL_ID:
            self.state.replayed = None
        else:
            self.take_back_refused()
            self.counter.clear_repeats()

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        state = self.state
        return {
            **super().snapshot(),
            "executed": [[call_id, write_key(key)] for call_id, key in state.executed.items()],
            "openIds": sorted(state.open_ids or ()),
            "replayed": sorted(state.replayed or ()),
            "invalid": state.invalid or {},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        super().restore(state)
        own = self.state
        own.executed = {call_id: read_key(key) for call_id, key in state["executed"]} or NONE_EXECUTED
        own.open_ids, own.replayed = set(state["openIds"]) or None, set(state["replayed"]) or None
        own.invalid = state["invalid"] or None

    def _sift(self, calls: Sequence[Call]) -> tuple[list[int], list[int], list[Call]]:
        """The indexes of the calls to count, those of the others, and the replays among these."""
        fresh: list[int] = []
        refused: list[int] = []
        replays: list[Call] = []
        seen: set[str] = set()
        for index, call in enumerate(calls):
            if call.id in seen:
                refused.append(index)
                continue
            if call.id is not None:
                seen.add(call.id)
            if self.state.is_replay(call.id, self.batch_keys[index]):
                refused.append(index)
                replays.append(call)
            else:
                fresh.append(index)
        return fresh, refused, replays

    def _record(self, calls: Sequence[Call], fresh: Sequence[int]) -> tuple[Finding | None, int]:
        """Counts the calls at the indexes `fresh`: what is found, and how many of them fit."""
        keys = [self.batch_keys[index] for index in fresh]
        tools = [calls[index].name for index in fresh]
        self.refused_keys, self.refused_unseen = (), 0
        if self.settings.admission == "batch":
            finding = record_daemon_tool_calls(self, zip(keys, tools, strict=True))
        else:
            finding, fit = self._count_what_fits(keys, tools)
            if finding is not None:
                return finding, fit
            finding = check_global_duplicate(self)
        if finding is None:
            return None, len(fresh)
        self.refused_keys = keys
        return finding, 0

    def _count_what_fits(
        self, keys: Sequence[CountedKey | None], tools: Sequence[str | None]
    ) -> tuple[Finding | None, int]:
        """Counts call by call up to the first that does not fit under the cap."""
        for fit, key in enumerate(keys):
            self.counter.add(key, tools[fit])
            finding = self.check_cap()
            if finding is None:
                continue
            if self.may_admit_part(finding, fit + 1):
                self.refuse_rest([key], len(keys) - fit)
                return msgspec.structs.replace(finding, action=Action.BLOCK), fit
            self.refused_keys, self.refused_unseen = [key], len(keys) - fit - 1
            return finding, 0
        return None, len(keys)

    def _second_replay(self, replays: Sequence[Call]) -> Finding | None:
        """The finding that stops the turn when one of these was answered as a replay before; else notes them."""
        if not replays:
            return None
        replayed = self.state.replayed = self.state.replayed or set()
        for call in replays:
            if call.id in replayed:
                return self._replay_finding(call, Action.HALT, REPLAYED_CALL_ID_THRESHOLD)
        replayed.update(call.id for call in replays if call.id is not None)
        return None

    def _replay_finding(self, call: Call, action: Action, count: int) -> Finding:
        return Finding(
            guard=self.name,
            action=action,
            loop_type=GLOBAL_TOOL_CALL_DUPLICATE,
            reason=REPLAYED_CALL_ID,
            tool=call.name or UNSET,
            count=count,
            threshold=REPLAYED_CALL_ID_THRESHOLD,
            key_digest=self.digest(counted_key(call)),
        )

    def _count_invalid(self, event: ToolResults) -> Sequence[Finding]:
        for result in event.results:
            self.state.settle(result)
            is_of_no_call = result.name is None and result.key is None
            if result.error_type not in INVALID_ERROR_TYPES or result.status == "cancelled":
                continue
            if result.duplicate or is_of_no_call:
                continue
            tool = result.name or ""
            invalid = self.state.invalid = self.state.invalid or {}
            if tool not in invalid and len(invalid) >= MAX_INVALID_TOOLS:
                continue
            invalid[tool] = invalid.get(tool, 0) + 1
            if invalid[tool] >= INVALID_TOOL_PARAMS_THRESHOLD:
                return [
                    Finding(
                        guard=self.name,
                        action=Action.HALT,
                        loop_type=INVALID_TOOL_PARAMS_STAGNATION,
                        tool=tool or UNSET,
                        count=invalid[tool],
                        threshold=INVALID_TOOL_PARAMS_THRESHOLD,
                    )
                ]
        return NO_FINDINGS


def record_daemon_tool_calls(
    guard: BatchTurnGuard, calls: Iterable[tuple[CountedKey | None, str | None]]
) -> Finding | None:
    """Counts a whole batch, given as (key, tool), then asks the cap once and the duplicate check once."""
    for key, tool in calls:
        guard.counter.add(key, tool)
    return guard.check_cap() or check_global_duplicate(guard)


def check_global_duplicate(guard: BatchTurnGuard) -> Finding | None:
    """The finding that some call was made too often in the turn; only with `model.skipLoopDetection` false."""
    counter = guard.counter
    if guard.settings.skip_loop_detection or counter.max_repeat < GLOBAL_DUPLICATE_THRESHOLD:
        return None
    if counter.certain_repeat < GLOBAL_DUPLICATE_THRESHOLD:
        return None
    return guard.duplicate_finding(counter.max_repeat, counter.max_tool, counter.max_key)
