"""SessionGuard: one session's turns, and the latch that keeps a halted turn halted.

Events go in, a verdict comes out: the strictest finding decides, all are listed, and `admitted` says which calls may
run. A halt is answered to every record until a new turn or an override.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from turnguard.core.guard import Batch, Seal
from turnguard.core.identify import IdentityError, identify
from turnguard.core.messages import model_message, user_message
from turnguard.core.stack import GuardStack, halts
from turnguard.core.step import OpenStep
from turnguard.core.turn.cap import CapReason
from turnguard.core.turn.turn_guard import TURN_TOOL_CALL_CAP
from turnguard_protocol.events import (
    Event,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import (
    Action,
    AppliedOverride,
    Finding,
    NextStep,
    OverrideAction,
    SessionState,
    SessionStatus,
    Totals,
    TurnSummary,
    Verdict,
)

STRICTNESS = {action: rank for rank, action in enumerate(Action)}
"""Actions from mildest to strictest: the order in which the vocabulary declares them."""

MAX_LISTED_FINDINGS = 100
"""Fresh findings of a turn that its summary lists; later ones were told when they came."""


class EventError(ValueError):
    """An event cannot be taken, and nothing of the record was applied. `path` is where, from `$`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{message} - at `{path}`")
        self.path = path
        self.message = message


class StaleTurnError(ValueError):
    """An override was meant for another turn than the current one, which is `turn_id`."""

    def __init__(self, turn_id: str | None) -> None:
        super().__init__(f"The current turn is {turn_id!r}")
        self.turn_id = turn_id


class Turn:
    """One turn: from a user prompt to the agent's final answer.

    `outcome` None: it is open. `halt`: the findings that halted it. `held`: what `prepareStep` found and the next
    record answers.
    """

    __slots__ = ("findings", "halt", "held", "outcome", "overrides", "step", "steps", "turn_id")

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self.outcome: TurnOutcome | None = None
        self.steps = 0
        self.step: OpenStep | None = None
        self.halt: Sequence[Finding] = ()
        self.held: Sequence[Finding] = ()
        self.findings: Sequence[Finding] = ()
        self.overrides: Sequence[AppliedOverride] = ()

    def snapshot(self) -> dict[str, Any]:
        """The turn as plain JSON-like values."""
        step = self.step
        return {
            "turnId": self.turn_id,
            "outcome": self.outcome,
            "steps": self.steps,
            "step": None if step is None else step.snapshot(),
            "findings": [msgspec.to_builtins(list(each)) for each in (self.halt, self.held, self.findings)],
            "overrides": msgspec.to_builtins(list(self.overrides)),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Turn":
        """The turn that `snapshot` gave."""
        turn = cls(state["turnId"])
        turn.outcome, turn.steps = state["outcome"], state["steps"]
        turn.step = None if state["step"] is None else OpenStep.restored(state["step"])
        turn.halt, turn.held, turn.findings = (msgspec.convert(each, list[Finding]) for each in state["findings"])
        turn.overrides = msgspec.convert(state["overrides"], list[AppliedOverride])
        return turn


class SessionGuard:
    """Guards one conversation with one agent.

    `seal` turns the keys of calls into the digests that verdicts carry; without one they carry none.
    """

    __slots__ = ("_is_disabled", "_settings", "_stack", "_turn", "_turns", "agent_id", "cwd", "session_id")

    def __init__(
        self,
        session_id: str,
        settings: SettingsInForce,
        *,
        agent_id: str | None = None,
        cwd: str | None = None,
        seal: Seal | None = None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.cwd = cwd
        self._settings = settings
        self._stack = GuardStack(settings, seal)
        self._is_disabled = False
        self._turn: Turn | None = None
        self._turns = 0

    def configure(self, settings: SettingsInForce) -> None:
        """Puts other settings in force from the next event on; guards that stay keep their counts."""
        self._settings = settings
        self._stack = self._stack.configured(settings)

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events in order and answers one verdict over all of them.

        Raises EventError when an event cannot be identified; then none of them was applied.
        """
        identified = [self._identify(index, event) for index, event in enumerate(events)]
        found: list[Finding] = []
        if self._turn is not None and self._turn.held:
            found += self._turn.held
            self._turn.held = ()
        for event in identified:
            self._apply(event, found)
        return self._verdict(found)

    def prepare_step(self) -> NextStep:
        """Closes the step at hand and says what the next model request may use.

        What closing the step found is answered with the next record.
        """
        turn = self._turn
        if turn is not None and not turn.halt:
            found = [*turn.held, *self._finish_step(turn)]
            turn.held = found
            if halts(found):
                turn.halt = found
        is_over = turn is not None and turn.halt
        return NextStep(tool_choice="none" if is_over else "auto", active_tools=None, state=None)

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Gets past a halt, or switches all guards of the session off or on, at once.

        `calls`: by how many calls `raiseCap` raises; None: by the cap's value. Raises StaleTurnError when `turn_id` is
        given and is not the current turn.
        """
        turn = self._turn
        current = None if turn is None else turn.turn_id
        if turn_id is not None and turn_id != current:
            raise StaleTurnError(current)
        if action == "disable" or action == "enable":
            self._switch(off=action == "disable")
        elif turn is not None:
            raised = self._raise_by(calls) if action == "raiseCap" else 0
            if raised or turn.halt:
                self._go_on(turn, raised)
                turn.overrides = [*turn.overrides, AppliedOverride(action, raised or UNSET)]

    def close(self) -> TurnSummary | None:
        """Ends the open turn and sums the last one up; None when there never was one."""
        turn = self._turn
        if turn is None:
            return None
        self._end_turn(turn, "completed")
        outcome = turn.outcome or "completed"
        return TurnSummary(turn_id=turn.turn_id, outcome=outcome, totals=self._totals(), findings=list(turn.findings))

    def status(self) -> SessionStatus:
        """How the session stands."""
        turn = self._turn
        overrides = list(turn.overrides) if turn is not None else []
        if self._is_disabled:
            overrides.append(AppliedOverride("disable"))
        return SessionStatus(
            session_id=self.session_id,
            agent_id=self.agent_id or UNSET,
            cwd=self.cwd or UNSET,
            turn_id=UNSET if turn is None else turn.turn_id,
            state=self._state(),
            totals=self._totals(),
            cap=self._stack.turn_guard.cap_in_force(),
            last_finding=turn.findings[-1] if turn is not None and turn.findings else UNSET,
            overrides=overrides,
        )

    def _identify(self, index: int, event: Event) -> Event:
        try:
            return identify(event, self._stack.needs)
        except IdentityError as error:
            raise EventError(f"$.events[{index}]{error.path}", error.message) from error

    def _apply(self, event: Event, found: list[Finding]) -> None:
        turn = self._turn
        if type(event) is TurnStarted:
            found.clear()
            self._start_turn(event)
        elif turn is not None and self._only_completes_history(turn, event, found):
            self._apply_late(turn, event)
        else:
            if turn is None or turn.outcome is not None:
                turn = self._start_turn(TurnStarted())
            found += self._apply_in(turn, event)

    def _only_completes_history(self, turn: Turn, event: Event, found: Sequence[Finding]) -> bool:
        """Whether the event comes after a halt, or belongs to a turn that has ended."""
        if turn.halt or halts(found):
            return True
        return turn.outcome is not None and type(event) in (ToolResults, StepFinished, TurnEnded)

    def _apply_late(self, turn: Turn, event: Event) -> None:
        if type(event) is TurnEnded and turn.outcome is None:
            turn.outcome = event.outcome
        elif type(event) is ToolResults and not self._is_disabled:
            self._stack.tell_late(event if turn.step is None else turn.step.pair(event))

    def _apply_in(self, turn: Turn, event: Event) -> Sequence[Finding]:
        """Applies an event to an open turn."""
        kind = type(event)
        if type(event) is TurnEnded:
            self._end_turn(turn, event.outcome)
            return ()
        if type(event) is StepFinished:
            return self._finish_step(turn, event)
        found: list[Finding] = []
        if kind is ToolCalls or kind is Text or kind is Thought:
            if turn.step is not None and turn.step.has_results and kind is not Thought:
                found += self._finish_step(turn)
            if turn.step is None:
                turn.step = OpenStep()
                turn.steps += 1
        if halts(found):
            return found
        if type(event) is ToolCalls:
            return found + self._judge(turn, event)
        if type(event) is ToolResults and turn.step is not None:
            event = turn.step.pair(event)
        return found + self._tell(event)

    def _judge(self, turn: Turn, event: ToolCalls) -> list[Finding]:
        step = turn.step = turn.step or OpenStep()
        if step.calls and self._settings.turn_guard == "batch":
            turn.steps += 1
        findings: list[Finding] = []
        admitted = list(range(len(event.calls)))
        if not self._is_disabled:
            run_id = turn.turn_id if event.run_id is UNSET else event.run_id
            findings, admitted = self._stack.judge(Batch(event.calls, run_id))
        step.add_batch(event.calls, admitted)
        return findings

    def _tell(self, event: Event) -> list[Finding]:
        return [] if self._is_disabled else self._stack.tell(event)

    def _finish_step(self, turn: Turn, event: StepFinished | None = None) -> list[Finding]:
        """Closes the step at hand; without an event of the host's own only if there is one."""
        if turn.step is None and event is None:
            return []
        turn.step = None
        return self._tell(event or StepFinished())

    def _start_turn(self, event: TurnStarted) -> Turn:
        if self._turn is not None:
            self._end_turn(self._turn, "completed")
        self._turns += 1
        turn = self._turn = Turn(event.turn_id or f"turn-{self._turns}")
        self._tell(event)
        return turn

    def _end_turn(self, turn: Turn, outcome: TurnOutcome) -> None:
        if turn.outcome is not None:
            return
        if not turn.halt:
            self._finish_step(turn)
            self._tell(TurnEnded(outcome))
        turn.outcome = outcome

    def _switch(self, *, off: bool) -> None:
        """Stops all guards and lifts a halt, or starts them with fresh counters."""
        if self._is_disabled == off:
            return
        self._is_disabled = off
        if self._turn is not None:
            self._turn.halt = self._turn.held = ()
        if not off:
            self._stack = GuardStack(self._settings, self._stack.turn_guard.seal)

    def _raise_by(self, calls: int | None) -> int:
        """By how many calls the cap is raised; 0 where there is no cap to raise."""
        cap = self._settings.max_tool_calls_per_turn
        return 0 if cap is None else calls or cap

    def _go_on(self, turn: Turn, raised: int) -> None:
        """Lifts the halt. Each guard that halted forgives; the cap is raised instead where `raised` says so."""
        turn_guard = self._stack.turn_guard
        reason = CapReason.EXPLICIT_CAP if self._settings.is_cap_explicit else CapReason.STUCK
        for finding in turn.halt:
            if finding.loop_type == TURN_TOOL_CALL_CAP and raised:
                reason = CapReason(str(finding.reason))
                turn_guard.take_back_refused()
            elif finding.action is Action.HALT:
                self._stack.forgive(finding)
        if raised:
            turn_guard.raise_cap(reason, raised)
        if turn.halt:
            turn.halt, turn.outcome = (), None

    def _verdict(self, found: list[Finding]) -> Verdict:
        turn = self._turn
        if turn is None:
            return Verdict(action=Action.ALLOW, turn_id="", findings=[], admitted=[], totals=self._totals())
        findings = self._latch(turn, found)
        verdict = Verdict(
            action=findings[0].action if findings else Action.ALLOW,
            turn_id=turn.turn_id,
            findings=findings,
            admitted=[] if turn.halt or turn.step is None else turn.step.may_start(),
            totals=self._totals(),
        )
        if findings and STRICTNESS[verdict.action] >= STRICTNESS[Action.WARN]:
            verdict.user_message = user_message(findings[0], self._settings, verdict.totals)
            verdict.model_message = model_message(findings[0], verdict.totals)
        return verdict

    def _latch(self, turn: Turn, found: list[Finding]) -> list[Finding]:
        """The findings to answer, strictest first; a halt among them is kept to be repeated."""
        if turn.halt and not halts(found):
            return list(turn.halt)
        found.sort(key=lambda finding: STRICTNESS[finding.action], reverse=True)
        told = [finding for finding in found if finding.fresh]
        turn.findings = [*turn.findings, *told][:MAX_LISTED_FINDINGS] if told else turn.findings
        if halts(found):
            turn.halt = [msgspec.structs.replace(finding, fresh=False) for finding in found]
        return found

    def _state(self) -> SessionState:
        if self._is_disabled:
            return "disabled"
        if self._turn is None:
            return "idle"
        if self._turn.halt:
            return "halted"
        return "running" if self._turn.outcome is None else "idle"

    def _totals(self) -> Totals:
        counter = self._stack.turn_guard.counter
        steps = 0 if self._turn is None else self._turn.steps
        return Totals(counter.total, steps, len(counter.counts), counter.max_repeat, counter.max_tool or UNSET)

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values; what `restore` takes."""
        turn = self._turn
        return {
            "turns": self._turns,
            "isDisabled": self._is_disabled,
            "turn": None if turn is None else turn.snapshot(),
            "guards": self._stack.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave under the same settings."""
        self._turns, self._is_disabled = state["turns"], state["isDisabled"]
        self._turn = None if state["turn"] is None else Turn.restored(state["turn"])
        self._stack.restore(state["guards"])
