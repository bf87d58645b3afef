"""The turn at hand: what a session keeps of it besides what the guards keep."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from turnguard.core.bounds import MAX_LISTED_FINDINGS, MAX_OPEN_CALLS
from turnguard.core.guard import Rekeying
from turnguard.core.limits import TurnLimits
from turnguard.core.step import OpenStep
from turnguard_protocol.events import Call, Result, ToolResults, TurnOutcome, TurnStarted
from turnguard_protocol.settings import MAX_SAFE_INTEGER
from turnguard_protocol.verdicts import Action, AppliedOverride, Finding, OverrideAction, Totals, TurnSummary


class Turn:
    """One turn: from a user prompt to the agent's final answer.

    `outcome` None: it is open. `halt`: the findings that halted it. `held`: what `prepareStep` found and the next
    record answers. `refusals`: the findings for which something was refused last. `findings`: the fresh ones so far.
    `origin` says who started it. `closed`: the last step that closed while results of it were awaited, for late ones.
    `is_prepared`: `prepareStep` closed the last step, and no other was opened since. `tells_steps`: the host began it
    with the end of a step, by which it says that it tells the ends of all steps; None before its first event.
    `unsettled`: the calls of the turn that came with less than full fidelity, by id; they can be re-keyed however many
    steps later, at most `MAX_OPEN_CALLS` of them, the latest.
    """

    __slots__ = (
        "closed",
        "findings",
        "halt",
        "held",
        "is_prepared",
        "limits",
        "origin",
        "outcome",
        "overrides",
        "refusals",
        "step",
        "steps",
        "tells_steps",
        "turn_id",
        "unsettled",
    )

    def __init__(self, turn_id: str, origin: str) -> None:
        self.turn_id = turn_id
        self.origin = origin
        self.outcome: TurnOutcome | None = None
        self.steps = 0
        self.step: OpenStep | None = None
        self.closed: OpenStep | None = None
        self.is_prepared = False
        self.tells_steps: bool | None = None
        self.halt: Sequence[Finding] = ()
        self.held: Sequence[Finding] = ()
        self.refusals: Sequence[Finding] = ()
        self.findings: Sequence[Finding] = ()
        self.overrides: Sequence[AppliedOverride] = ()
        self.limits: TurnLimits | None = None
        self.unsettled: dict[str, Call] | None = None

    def started(self) -> TurnStarted:
        """The event that guards hear at its start, and later ones when they are made."""
        return TurnStarted(self.turn_id, self.origin)

    def open_step(self) -> OpenStep:
        """Begins another step."""
        self.step = OpenStep()
        self.steps += 1
        self.is_prepared = False
        return self.step

    def close_step(self) -> None:
        """The step at hand is over; who its late results belong to is still known."""
        if self.step is not None and self.step.waiting:
            self.closed = self.step
        self.step = None

    def call_of(self, result: Result) -> Call | None:
        """The call that a result names by its id."""
        call = None if self.step is None else self.step.call_of(result)
        return self.closed.call_of(result) if call is None and self.closed is not None else call

    def note_unsettled(self, calls: Sequence[Call]) -> None:
        """Remembers those calls of a batch of which not all is known."""
        for call in calls:
            if call.fidelity != "full" and call.id is not None:
                unsettled = self.unsettled = self.unsettled or {}
                unsettled.pop(call.id, None)
                if len(unsettled) >= MAX_OPEN_CALLS:
                    del unsettled[next(iter(unsettled))]
                unsettled[call.id] = call

    def find(self, call_id: str) -> Call | None:
        """The call of this id, of those that can still be re-keyed.

        One that came with full fidelity can until its step is closed, or the next one, where results were awaited.
        """
        for step in (self.step, self.closed):
            call = None if step is None else step.find(call_id)
            if call is not None:
                return call
        return None if self.unsettled is None else self.unsettled.get(call_id)

    def rekey(self, change: Rekeying, *, is_admitted: bool = True) -> None:
        """The call is another one now; where it was not admitted, it may not start any more."""
        now, call_id = change.now, change.now.id or ""
        for step in (self.step, self.closed):
            if step is not None and step.rekey(call_id, now, is_admitted=is_admitted):
                break
        if self.unsettled is not None and call_id in self.unsettled:
            self.unsettled[call_id] = now

    def pair(self, event: ToolResults) -> ToolResults:
        """The same results, each with the name and key of its call where that is known."""
        if self.step is not None:
            event = self.step.pair(event)
        if self.closed is not None and any(result.key is None for result in event.results):
            return self.closed.pair(event, only_unknown=True)
        return event

    def limit(self) -> TurnLimits:
        """The limits of this turn over all guards."""
        self.limits = self.limits or TurnLimits()
        return self.limits

    def last_finding(self) -> Finding | UnsetType:
        """What halted the turn, as it was told; else the latest that was told of it."""
        told = [finding for finding in self.findings if not self.halt or finding.action is Action.HALT]
        latest = told[-1:] or self.halt
        return latest[0] if latest else UNSET

    def is_said(self, finding: Finding) -> bool:
        """Whether the same was said in this turn before."""
        return any(_what(finding) == _what(said) for said in self.findings)

    def note(self, found: Sequence[Finding]) -> None:
        """Lists what is new among these, as far as the list goes."""
        told = [finding for finding in found if finding.fresh]
        if told:
            self.findings = [*self.findings, *told]
        if len(self.findings) > MAX_LISTED_FINDINGS:  # the first ones, and the last
            self.findings = [*self.findings[: MAX_LISTED_FINDINGS - 1], self.findings[-1]]

    def note_override(self, action: OverrideAction, raised: int) -> None:
        """Lists an override; raises of the cap are one, by all their calls."""
        before: dict[OverrideAction, int | UnsetType] = {each.action: each.calls for each in self.overrides}
        calls_before = before.get(action, UNSET)
        raised += 0 if calls_before is UNSET else calls_before
        before[action] = min(raised, MAX_SAFE_INTEGER) or UNSET
        self.overrides = [AppliedOverride(each, calls) for each, calls in before.items()]

    def abandon_response(self) -> None:
        """The response comes again: its calls that have no result never ran, and it is no step more."""
        if self.step is None:
            return
        if self.step.has_results:
            self.step.abandon()
        else:
            self.step = None
            self.steps -= 1

    def lift(self) -> None:
        """Lifts the halt, with nothing forgiven."""
        self.halt = self.held = self.refusals = ()
        if self.step is not None:
            self.step.is_refused = False

    def go_on(self) -> None:
        """Lifts the halt; a batch that was refused with it is as if it had not come."""
        if not self.halt:
            return
        self.halt, self.outcome = (), None
        if self.step is None:
            return
        if self.step.is_refused or not self.step.calls:
            self.steps -= 1
        self.step.is_refused = False
        if not self.step.calls:
            self.step = None

    def summary(self, totals: Totals) -> TurnSummary:
        """What the turn came to."""
        return TurnSummary(
            turn_id=self.turn_id, outcome=self.outcome or "completed", totals=totals, findings=list(self.findings)
        )

    def snapshot(self) -> dict[str, Any]:
        """The turn as plain JSON-like values."""
        return {
            "turnId": self.turn_id,
            "origin": self.origin,
            "outcome": self.outcome,
            "steps": self.steps,
            "step": None if self.step is None else self.step.snapshot(),
            "closed": None if self.closed is None else self.closed.snapshot(),
            "isPrepared": self.is_prepared,
            "tellsSteps": self.tells_steps,
            "findings": msgspec.to_builtins([list(each) for each in self._findings()]),
            "overrides": msgspec.to_builtins(list(self.overrides)),
            "limits": None if self.limits is None else self.limits.snapshot(),
            "unsettled": msgspec.to_builtins(list((self.unsettled or {}).values())),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Turn":
        """The turn that `snapshot` gave."""
        turn = cls(state["turnId"], state["origin"])
        turn.outcome, turn.steps, turn.is_prepared = state["outcome"], state["steps"], state["isPrepared"]
        turn.tells_steps = state["tellsSteps"]
        turn.step = None if state["step"] is None else OpenStep.restored(state["step"])
        turn.closed = None if state["closed"] is None else OpenStep.restored(state["closed"])
        findings = msgspec.convert(state["findings"], list[list[Finding]])
        turn.halt, turn.held, turn.refusals, turn.findings = findings
        turn.overrides = msgspec.convert(state["overrides"], list[AppliedOverride])
        if state["limits"] is not None:
            turn.limit().restore(state["limits"])
        unsettled = msgspec.convert(state["unsettled"], list[Call])
        turn.unsettled = {call.id: call for call in unsettled if call.id is not None} or None
        return turn

    def _findings(self) -> tuple[Sequence[Finding], ...]:
        return self.halt, self.held, self.refusals, self.findings


def _what(finding: Finding) -> tuple[object, ...]:
    return finding.guard, finding.action, finding.loop_type, finding.reason, finding.tool
