"""The turn guard of Qwen Code's core client: one look at each call, as the response streams in.

Two tiers. The first is always on: identical calls in a row, then git inspection in a row, then the cap. The second, the
heuristics, runs while `model.skipLoopDetection` is false, and only on what the first let pass; while it is true they
keep no state at all. A call counts in the detectors it reached.

| event | total | key repeats | streaks | requests, alternation | same tool, read window | words | read results |
| --- | --- | --- | --- | --- | --- | --- | --- |
| finished | committed | – | – | – | – | – | – |
| retry | back to committed | cleared, committed ones too | cleared | cleared | – | cleared, or continued | counts |
| fallback | – | – | – | cleared | – | cleared | – |
| new turn | 0 | cleared | cleared | cleared | cleared | cleared | cleared |

Every one of them ends the response: its call ids are forgotten. Nothing in the table touches an open code fence.

A call that is re-keyed moves to its new key wherever keys are counted. What goes by the order of calls (streaks,
alternation, the read window) sees it as what it is now only if no call came after it and it came with less than full
fidelity; else it stays there as what it was. A stateful read that is re-keyed awaits its result under the new key.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.guard import NO_FINDINGS, PASS, Batch, Needs, Rekeying, Ruling, Seal
from turnguard.core.identity import is_read_like
from turnguard.core.thresholds import (
    GLOBAL_DUPLICATE_THRESHOLD,
    SHELL_COMMAND_STAGNATION_THRESHOLD,
    TOOL_CALL_LOOP_THRESHOLD,
)
from turnguard.core.turn.cap import CapReason
from turnguard.core.turn.counter import CountedKey, counted
from turnguard.core.turn.heuristics import Heuristics, Order
from turnguard.core.turn.reads import STATEFUL_READ_TOOL, StatefulReads, fingerprint_of
from turnguard.core.turn.repeats import Loop, Request, Streak
from turnguard.core.turn.turn_guard import GLOBAL_TOOL_CALL_DUPLICATE, TURN_TOOL_CALL_CAP, TurnGuard, turn_key
from turnguard_protocol.events import (
    Call,
    Event,
    Fallback,
    Result,
    Retry,
    StepFinished,
    Text,
    Thought,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

CONSECUTIVE_IDENTICAL_TOOL_CALLS = "consecutive_identical_tool_calls"
SHELL_COMMAND_STAGNATION = "shell_command_stagnation"

NOTHING_REPORTED: list[str] = []
"""Stands for the reports of a session without any; never written to."""


class Unsure(Struct):
    """The latest call, which came with less than full fidelity, and what the order of the calls before it said."""

    call_id: str
    identical: Streak
    git_streak: int
    streak_results: int
    streak_unchanged: int
    order: Order | None


class LoopDetectionService(TurnGuard):
    """Qwen Code's `LoopDetectionService` in the shape of a guard.

    `reported`: every loop type that fired in this session, in order; one call can fire several and is halted for the
    last. `response_ids`: the call ids of the response at hand. `unsure`: the latest call while it may be re-keyed and
    judged again.
    """

    __slots__ = (
        "git_streak",
        "heuristics",
        "identical",
        "is_disabled",
        "reads",
        "reported",
        "response_ids",
        "unsure",
    )

    needs = Needs(facts=True, read=True, text=True)

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.is_disabled = False
        self.identical = Streak()
        self.git_streak = 0
        self.reads: StatefulReads | None = None
        self.heuristics: Heuristics | None = None
        self.response_ids: dict[str, None] | None = None
        self.reported = NOTHING_REPORTED
        self.unsure: Unsure | None = None

    def configure(self, settings: SettingsInForce) -> None:
        """Takes other settings from the next event on; a gate that closes takes its state along."""
        super().configure(settings)
        if settings.skip_loop_detection:
            self.heuristics = None

    def disable_for_session(self) -> None:
        """Looks at no call, text or result any more, not even after a reset."""
        self.is_disabled = True

    def check(self, batch: Batch) -> Ruling:
        """Judges the calls one by one; the first that trips a detector refuses the whole batch."""
        copies: list[int] = []
        counted_keys: list[CountedKey | None] = []
        self.refused_keys, self.refused_unseen = (), 0
        for index, call in enumerate(batch.calls):
            if self._is_copy(call):
                copies.append(index)
                continue
            if self.is_disabled:
                continue
            request, total = request_of(call), self.counter.total
            self.unsure = None if call.fidelity == "full" or call.id is None else self._before(call.id)
            finding = self._check_call(request, call.id)
            if self.counter.total > total:
                counted_keys.append(request.repeat_key)
            if finding is not None and self.may_admit_part(finding, len(counted_keys)):
                self.refuse_rest(counted_keys[-1:], len(batch.calls) - index)
                rest = range(index, len(batch.calls))
                return Ruling([msgspec.structs.replace(finding, action=Action.BLOCK)], frozenset([*copies, *rest]))
            if finding is not None:
                self.refused_keys, self.refused_unseen = counted_keys, len(batch.calls) - index - 1
                return Ruling([finding], frozenset(range(len(batch.calls))))
        return Ruling(refused=frozenset(copies)) if copies else PASS

    def check_rekeyed(self, change: Rekeying) -> Sequence[Finding]:
        """Counts the call under its new key, and judges it again where its place among the calls is known."""
        if self.is_disabled:
            return NO_FINDINGS
        before, now = request_of(change.before), request_of(change.now)
        if before == now:
            return NO_FINDINGS
        self._await_result_of(change.now.id, before, now)
        has_moved = self.counter.move(before.repeat_key, now.repeat_key, now.name)
        unsure = self.unsure if self.unsure is not None and self.unsure.call_id == change.now.id else None
        finding = None
        if unsure is not None:
            finding = self._check_order(unsure, now)
        if finding is None and has_moved:
            finding = self.check_cap()
        if finding is not None:
            return [self._report(finding)]
        if self.heuristics is None:
            return NO_FINDINGS
        loops = self.heuristics.check_rekeyed(before, now, None if unsure is None else unsure.order)
        for loop in loops:
            finding = self._report_heuristic(loop)
        return NO_FINDINGS if finding is None else [finding]

    def receive(self, event: Event) -> Sequence[Finding]:
        """Reads text and thoughts, records results, and follows the turn."""
        finding = None
        if type(event) is Text:
            finding = self._check_text(event)
        elif type(event) is Thought:
            finding = self._check_thought(event)
        elif type(event) is ToolResults:
            finding = self._record_results(event)
        elif type(event) is StepFinished:
            self.counter.commit()
            self.response_ids = None
        elif type(event) is Retry:
            self._retry(event)
        elif type(event) is Fallback:
            self._fall_back()
        elif type(event) is TurnStarted:
            self._reset()
        return NO_FINDINGS if finding is None else [finding]

    def forgive(self, finding: Finding) -> None:
        """Clears what tripped. Stuck and duplicate are one signal, that a call repeats, wherever it is counted."""
        loop_type = finding.loop_type
        self.unsure = None
        if loop_type == TURN_TOOL_CALL_CAP:
            self._forgive_cap(CapReason(str(finding.reason)))
            return
        self.take_back_refused()
        if loop_type == CONSECUTIVE_IDENTICAL_TOOL_CALLS:
            self.identical.clear()
        elif loop_type == SHELL_COMMAND_STAGNATION:
            self.git_streak = 0
        elif loop_type == GLOBAL_TOOL_CALL_DUPLICATE:
            self.counter.clear_repeats()
            self._forget_repeats()
        elif self.heuristics is not None:
            self.heuristics.forgive(loop_type)

    def take_back_refused(self) -> None:
        """Uncounts the calls of the batch that tripped the guard, and lets them come again under their ids."""
        super().take_back_refused()
        self.response_ids = None

    def take_back(self, calls: Sequence[Call]) -> None:
        """Uncounts them, and lets them come again under their ids."""
        if not self.is_disabled:
            super().take_back(calls)
        self.response_ids = None

    def counted_key(self, call: Call) -> CountedKey | None:
        """That of the call as the detectors see it."""
        return request_of(call).repeat_key

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values. With the gate open it holds text the model wrote."""
        return {
            **super().snapshot(),
            "isDisabled": self.is_disabled,
            "identical": msgspec.to_builtins(self.identical),
            "gitStreak": self.git_streak,
            "reads": msgspec.to_builtins(self.reads),
            "heuristics": None if self.heuristics is None else self.heuristics.snapshot(),
            "responseIds": list(self.response_ids or ()),
            "reported": self.reported,
            "unsure": msgspec.to_builtins(self.unsure),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        super().restore(state)
        self.is_disabled = state["isDisabled"]
        self.identical = msgspec.convert(state["identical"], Streak)
        self.git_streak = state["gitStreak"]
        self.reads = msgspec.convert(state["reads"], StatefulReads | None)
        heuristics = state["heuristics"]
        self.heuristics = None if heuristics is None else Heuristics.restored(heuristics)
        self.response_ids = dict.fromkeys(state["responseIds"]) or None
        self.reported = state["reported"] or NOTHING_REPORTED
        self.unsure = msgspec.convert(state["unsure"], Unsure | None)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _is_copy(self, call: Call) -> bool:
        """Whether the provider sent this call of the response before; else notes its id."""
        if call.id is None:
            return False
        ids = self.response_ids = self.response_ids or {}
        if call.id in ids:
            return True
        if len(ids) >= MAX_OPEN_CALLS:
            del ids[next(iter(ids))]
        ids[call.id] = None
        return False

    def _check_call(self, request: Request, call_id: str | None) -> Finding | None:
        if request.is_stateful_read:
            self.reads = self.reads or StatefulReads()
            self.reads.expect(call_id, request.key)
        finding = self._check_always_on_safeties(request)
        if finding is not None:
            return self._report(finding)
        if self.settings.skip_loop_detection:
            return None
        self.heuristics = self.heuristics or Heuristics()
        finding = None
        for loop in self.heuristics.check_call(request):
            finding = self._report_heuristic(loop)
        return finding

    def _before(self, call_id: str) -> Unsure:
        """What the order of the calls says before one that may be judged again."""
        reads = self.reads or StatefulReads()
        return Unsure(
            call_id,
            Streak(self.identical.of, self.identical.length),
            self.git_streak,
            reads.streak_results,
            reads.streak_unchanged,
            None if self.settings.skip_loop_detection else (self.heuristics or Heuristics()).order(),
        )

    def _await_result_of(self, call_id: str | None, before: Request, now: Request) -> None:
        """A stateful read that became another one, or none, or was none."""
        is_awaited = not before.is_stateful_read
        if before.is_stateful_read and self.reads is not None and call_id is not None:
            is_awaited = self.reads.forget(call_id)
        if is_awaited and now.is_stateful_read:
            self.reads = self.reads or StatefulReads()
            self.reads.expect(call_id, now.key)

    def _check_order(self, unsure: Unsure, now: Request) -> Finding | None:
        """Puts the latest call as it is now in its own place in the streaks."""
        self.identical = Streak(unsure.identical.of, unsure.identical.length)
        self.git_streak = unsure.git_streak
        if self.reads is not None:
            self.reads.streak_results, self.reads.streak_unchanged = unsure.streak_results, unsure.streak_unchanged
        loop = self._check_identical(now) or self._check_git_inspection(now)
        return None if loop is None else self._finding(loop)

    def _check_always_on_safeties(self, request: Request) -> Finding | None:
        self.counter.add(request.repeat_key, request.name)
        loop = self._check_identical(request) or self._check_git_inspection(request)
        if loop is not None:
            # Upstream counts the key of a call before the streaks and the total after them.
            self.counter.total -= 1
            return self._finding(loop)
        return self.check_cap()

    def _check_identical(self, request: Request) -> Loop | None:
        length = self.identical.add(request.key)
        if length == 1 and self.reads is not None:
            self.reads.start_streak()
        if length < TOOL_CALL_LOOP_THRESHOLD:
            return None
        if request.is_stateful_read and self.reads is not None and self.reads.proves_change(length):
            self.identical.length = 1
            self.reads.start_streak()
            return None
        return Loop(CONSECUTIVE_IDENTICAL_TOOL_CALLS, length, TOOL_CALL_LOOP_THRESHOLD, request.name, request.key)

    def _check_git_inspection(self, request: Request) -> Loop | None:
        self.git_streak = self.git_streak + 1 if request.is_git_overview else 0
        if self.git_streak < SHELL_COMMAND_STAGNATION_THRESHOLD:
            return None
        return Loop(SHELL_COMMAND_STAGNATION, self.git_streak, SHELL_COMMAND_STAGNATION_THRESHOLD, request.name)

    # --- words and results --------------------------------------------------------------------------------------------

    def _check_text(self, event: Text) -> Finding | None:
        """Reads a piece of text; of the identified form only the length is known, which tells nothing."""
        if event.delta is None or not self._watches_words():
            return None
        self.heuristics = self.heuristics or Heuristics()
        loop = self.heuristics.text.add_delta(event.delta)
        return None if loop is None else self._report_heuristic(loop)

    def _check_thought(self, event: Thought) -> Finding | None:
        if event.length is not None or not self._watches_words():
            return None
        self.heuristics = self.heuristics or Heuristics()
        loop = self.heuristics.check_thought(event.subject, event.description)
        return None if loop is None else self._report_heuristic(loop)

    def _watches_words(self) -> bool:
        return not self.settings.skip_loop_detection and not self.is_disabled

    def _record_results(self, event: ToolResults) -> Finding | None:
        if self.is_disabled:
            return None
        for result in event.results:
            loop = self._record_result(result)
            if loop is not None:
                return self._report_heuristic(loop)
        return None

    def _record_result(self, result: Result) -> Loop | None:
        """Records a result of a stateful read; a loop when it came too often in a row and the gate is open."""
        reads = self.reads or StatefulReads()
        key, fingerprint = reads.key_of(result), fingerprint_of(result)
        if key is None or fingerprint is None:
            return None
        self.reads = reads
        count, is_new = reads.record(key, fingerprint, in_streak=key == self.identical.of)
        self.counter.note_repeat(count, counted(key), STATEFUL_READ_TOOL)
        if is_new and self.heuristics is not None:
            self.heuristics.note_progress(STATEFUL_READ_TOOL)
        if self.settings.skip_loop_detection or count < GLOBAL_DUPLICATE_THRESHOLD:
            return None
        return Loop(GLOBAL_TOOL_CALL_DUPLICATE, count, GLOBAL_DUPLICATE_THRESHOLD, STATEFUL_READ_TOOL, key)

    # --- the turn -----------------------------------------------------------------------------------------------------

    def _retry(self, event: Retry) -> None:
        self.counter.roll_back()
        self._clear_streaks()
        self.response_ids = None
        if self.reads is not None:
            self.reads.forget_counts()
        if self.heuristics is not None:
            self.heuristics.retry(is_continuation=event.continuation)

    def _fall_back(self) -> None:
        self.response_ids = self.unsure = None
        if self.heuristics is not None:
            self.heuristics.retry(is_continuation=False)

    def _reset(self) -> None:
        self.reset_turn()
        self._clear_streaks()
        self.reads = self.response_ids = None
        if self.heuristics is not None:
            self.heuristics.reset()

    def _clear_streaks(self) -> None:
        self.unsure = None
        self.identical.clear()
        self.git_streak = 0

    def _forgive_cap(self, reason: CapReason) -> None:
        self.forgive_cap(reason)
        if reason is CapReason.STUCK:
            self._forget_repeats()

    def _forget_repeats(self) -> None:
        """Forgets that calls and results repeat where the key counter does not know it."""
        if self.reads is not None:
            self.reads.forget_counts()
        if self.heuristics is not None:
            self.heuristics.forgive(GLOBAL_TOOL_CALL_DUPLICATE)

    # --- findings -----------------------------------------------------------------------------------------------------

    def _report_heuristic(self, loop: Loop) -> Finding:
        finding = self._finding(loop)
        finding.setting = "model.skipLoopDetection"
        return self._report(finding)

    def _report(self, finding: Finding) -> Finding:
        self.reported = [*self.reported, finding.loop_type]
        return finding

    def _finding(self, loop: Loop) -> Finding:
        return Finding(
            guard=self.name,
            action=Action.HALT,
            loop_type=loop.loop_type,
            tool=loop.tool or UNSET,
            paired_tool=loop.paired_tool or UNSET,
            count=loop.count,
            threshold=loop.threshold,
            key_digest=self.digest(None if loop.key is None else counted(loop.key)),
        )


def request_of(call: Call) -> Request:
    """The call as the detectors see it. Without facts its name alone tells whether it reads."""
    facts, key = call.facts, turn_key(call)
    name = call.name or ""
    if facts is None:
        return Request(name, key, is_read_like(name))
    if facts.target is not None:
        name, key = facts.target.name, None if key is None else facts.target.key
    return Request(name, key, facts.read_like, facts.git_overview)
