"""OpenClaw's loop detection as a guard: it warns of calls that go round in circles, and vetoes them one by one.

A batch is checked against the history as it is: calls next to each other do not see each other. A call that is vetoed
is not recorded, so the evidence stays and the same call is vetoed again, every time with the same count, until other
calls have pushed the evidence out. A warning is news when its count enters another ten.

What is admitted is recorded, whether or not loops are looked for, unless `enabled` is explicitly false; outcomes are
recorded even then. So loop detection that is switched on in the middle of a session knows what came before.

A call that is re-keyed is checked as if it came now, against the history without its own record. Then that record takes
the new identity where it stands; one whose identity was not known is recorded now, with its outcome if that came first.
A veto takes the record out, as if the call had not been admitted, unless it has its outcome: then it did run.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec import UNSET, UnsetType

from turnguard.core.guard import NO_FINDINGS, PASS, Batch, Guard, Needs, Rekeying, Ruling, Seal
from turnguard.core.rolling.calls import (
    AwaitedCalls,
    args_of,
    args_of_call,
    is_poll,
    outcome_of,
    run_of,
    unknown_tool_of,
)
from turnguard.core.rolling.config import SECTION, limits_of
from turnguard.core.rolling.detectors import UNKNOWN_TOOL_REPEAT, Loop, detect
from turnguard.core.rolling.identity import rolling_tool_name
from turnguard.core.rolling.records import Record, RollingHistory
from turnguard.core.thresholds import LOOP_WARNING_BUCKET_SIZE, MAX_LOOP_WARNING_KEYS
from turnguard.core.turn.counter import CountedKey, read_key, write_key
from turnguard_protocol.events import Call, Event, Fallback, Result, Retry, StepFinished, ToolResults, TurnStarted
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

Veto = tuple[str, str | None, str, CountedKey]
"""Loop type, run, tool and arguments of a call that was vetoed."""


class WarningBuckets:
    """Which ten the count of each warning was in when it was last reported. Buckets are never reset."""

    __slots__ = ("reported",)

    def __init__(self) -> None:
        self.reported: dict[str, int] = {}

    def is_news(self, key: str, count: int) -> bool:
        """Whether a warning has entered another ten; then it counts as reported."""
        bucket = count // LOOP_WARNING_BUCKET_SIZE
        if bucket <= self.reported.get(key, 0):
            return False
        if key not in self.reported and len(self.reported) >= MAX_LOOP_WARNING_KEYS:
            del self.reported[next(iter(self.reported))]
        self.reported[key] = bucket
        return True


class RollingHistoryGuard(Guard):
    """The history, the detectors and the rate of the warnings in the shape of a guard.

    `unrecorded`: calls of the step that are not in the history, whose answers must not get in either. `unkeyed`: the
    records of calls of the turn that may get their identity later, by id; no more of them than the history holds.
    `turn_id`, `last_run_id`: the run of results that name none is the turn; where its id is not known, it is the run of
    the last batch. `step` numbers the steps, for a retry. `vetoed`: what was vetoed in this turn, in the
    last batch in which something was.
    """

    __slots__ = ("buckets", "history", "last_run_id", "step", "turn_id", "unkeyed", "unrecorded", "vetoed")

    name = "loopDetection"
    needs = Needs(facts=True, rolling=True)

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.history = RollingHistory()
        self.buckets = WarningBuckets()
        self.unrecorded = AwaitedCalls()
        self.unkeyed: dict[str, Record] = {}
        self.turn_id: str | None = None
        self.last_run_id: str | None = None
        self.step = 0
        self.vetoed: Sequence[Veto] = ()

    def check(self, batch: Batch) -> Ruling:
        """Asks the detectors about each call."""
        limits = limits_of(self.settings)
        if limits.enabled is not True:
            return PASS
        run = run_of(batch.run_id)
        history = self.history.of_run(run)
        findings: list[Finding] = []
        refused: dict[int, Veto] = {}
        for index, call in enumerate(batch.calls):
            args, tool = args_of_call(call), rolling_tool_name(call.name or "")
            loop = None if args is None else detect(history, tool, args, is_poll(call), limits)
            if args is None or loop is None:
                continue
            findings.append(self._finding(loop, call, args, batch.run_id))
            if loop.is_critical:
                refused[index] = (loop.loop_type, run, tool, args)
        if refused:
            self.vetoed = tuple(refused.values())
        return Ruling(findings, frozenset(refused)) if findings else PASS

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Records the calls that run."""
        self.last_run_id = batch.run_id
        limits, run, may_run = limits_of(self.settings), run_of(batch.run_id), set(admitted)
        for index, call in enumerate(batch.calls):
            args = args_of_call(call)
            if args is None and call.id is not None and index in may_run and limits.enabled is not False:
                record = Record(run, rolling_tool_name(call.name or ""), None, call.id, self.step)
                self._await_identity(call.id, record, limits.history_size)
            elif args is None or index not in may_run:
                self.unrecorded.add(call)
            elif limits.enabled is not False:
                record = Record(run, rolling_tool_name(call.name or ""), args, call.id, self.step)
                self.history.append(record, limits.history_size)

    def check_rekeyed(self, change: Rekeying) -> Sequence[Finding]:
        """Asks the detectors about the call as it is now."""
        call = change.now
        record, args, tool = self._record_of(change.before), args_of_call(call), rolling_tool_name(call.name or "")
        if record is None or args is None or (record.tool, record.args) == (tool, args):
            return NO_FINDINGS
        others = [each for each in self.history.of_run(record.run) if each is not record]
        loop = detect(others, tool, args, is_poll(call), limits_of(self.settings))
        if loop is None:
            return NO_FINDINGS
        if loop.is_critical:
            self.vetoed = ((loop.loop_type, record.run, tool, args),)
        return [self._finding(loop, call, args, record.run)]

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Gives the call's record its new identity, unless the call was vetoed before it had an outcome."""
        record, call = self._record_of(change.before), change.now
        if record is None:
            return
        args, size = args_of_call(call), limits_of(self.settings).history_size
        is_in_history = record.args is not None
        if args is None or not (is_admitted or record.result is not None):
            self.history.remove(record)
            self.unkeyed.pop(call.id or "", None)
            if args is None and call.id is not None:
                record.args = None
                self._await_identity(call.id, record, size)
            else:
                self.unrecorded.add(call)
            return
        record.tool, record.args = rolling_tool_name(call.name or ""), args
        if not is_in_history:
            del self.unkeyed[record.call_id or ""]
            self.history.append(record, size)

    def receive(self, event: Event) -> Sequence[Finding]:
        """Records outcomes, and follows the turn."""
        if type(event) is ToolResults:
            self._record(event)
        elif type(event) is StepFinished:
            self.step += 1
            self.unrecorded.clear()
        elif type(event) is Retry or type(event) is Fallback:  # either way the response comes again, its calls too
            self.history.take_back(self.step)
            self.unkeyed = {
                call_id: record
                for call_id, record in self.unkeyed.items()
                if record.step != self.step or record.result is not None
            }
            self.unrecorded.clear()
        elif type(event) is TurnStarted:
            self.turn_id = event.turn_id or None
            self.unrecorded.clear()
            self.unkeyed.clear()
            self.vetoed = ()
        return NO_FINDINGS

    def receive_late(self, event: ToolResults) -> None:
        """Records outcomes."""
        self._record(event)

    def forgive(self, finding: Finding) -> None:
        """Drops the evidence that the vetoed call had against it in its run.

        Without a seal a finding does not say which arguments: then every call of the tool that was vetoed with it in
        that batch is meant.
        """
        meant = (finding.loop_type, finding.tool, finding.key_digest)
        run = None if finding.run_id is UNSET else run_of(finding.run_id)
        for loop_type, vetoed_run, tool, args in self.vetoed:
            if vetoed_run == run and (loop_type, tool, self._digest(args)) == meant:
                self.history.forgive(run, tool, args, is_unknown_tool=loop_type == UNKNOWN_TOOL_REPEAT)

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        return {
            "history": [record.written() for record in self.history.records],
            "buckets": list(self.buckets.reported.items()),
            "unrecorded": self.unrecorded.written(),
            "unkeyed": [[call_id, record.written()] for call_id, record in self.unkeyed.items()],
            "turnId": self.turn_id,
            "lastRunId": self.last_run_id,
            "step": self.step,
            "vetoed": [[loop_type, run, tool, write_key(args)] for loop_type, run, tool, args in self.vetoed],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.history.records = [Record.read(written) for written in state["history"]]
        self.buckets.reported = dict(state["buckets"])
        self.unrecorded = AwaitedCalls.read(state["unrecorded"])
        self.unkeyed = {call_id: Record.read(written) for call_id, written in state["unkeyed"]}
        self.turn_id, self.last_run_id, self.step = state["turnId"], state["lastRunId"], state["step"]
        self.vetoed = tuple(
            (loop_type, run, tool, key)
            for loop_type, run, tool, args in state["vetoed"]
            if (key := read_key(args)) is not None
        )

    def _record(self, event: ToolResults) -> None:
        run_id = event.run_id
        if run_id is UNSET:
            run_id = self.turn_id or self.last_run_id
        run = run_of(run_id)
        for result in event.results:
            if not result.duplicate:
                self._record_outcome(result, run)

    def _record_outcome(self, result: Result, run: str | None) -> None:
        """Settles a call with its outcome, or records an outcome that no call waits for."""
        outcome, args = outcome_of(result), args_of(result.key)
        if outcome is None or (args is None and result.id is None):
            return
        tool, size = rolling_tool_name(result.name or ""), limits_of(self.settings).history_size
        record = Record(run, tool, args, result.id, self.step, outcome, unknown_tool_of(result))
        unkeyed = self.unkeyed.get(result.id) if result.id is not None else None
        if unkeyed is not None:
            unkeyed.result, unkeyed.unknown_tool = record.result, record.unknown_tool
            return
        if not self.history.settle(record, size) and not self.unrecorded.take(result) and args is not None:
            self.history.append(record, size)

    def _await_identity(self, call_id: str, record: Record, size: int) -> None:
        self.unkeyed.pop(call_id, None)
        if len(self.unkeyed) >= size:
            del self.unkeyed[next(iter(self.unkeyed))]
        self.unkeyed[call_id] = record

    def _record_of(self, call: Call) -> Record | None:
        """The record of a call that was admitted, in the history or beside it."""
        args = args_of_call(call)
        if args is None:
            return self.unkeyed.get(call.id or "")
        return self.history.find(call.id, rolling_tool_name(call.name or ""), args)

    def _finding(self, loop: Loop, call: Call, args: CountedKey, run_id: str | None) -> Finding:
        key = repr((run_id or None, loop.loop_type, loop.about))
        is_news = loop.is_critical or self.buckets.is_news(sha256(key.encode()).hexdigest(), loop.count)
        return Finding(
            guard=self.name,
            action=Action.BLOCK if loop.is_critical else Action.WARN,
            loop_type=loop.loop_type,
            reason="critical" if loop.is_critical else "warning",
            tool=rolling_tool_name(call.name or ""),
            paired_tool=loop.paired_tool or UNSET,
            count=loop.count,
            threshold=loop.threshold,
            fresh=is_news,
            run_id=run_id or UNSET,
            key_digest=self._digest(args),
            setting=f"{SECTION}.{loop.setting}",
        )

    def _digest(self, args: CountedKey) -> str | UnsetType:
        """The identity of a call in the form that may leave the process."""
        return UNSET if self.seal is None else self.seal(str(args))
