"""SessionGuard: one session's turns, and the latch that keeps a halted turn halted.

Events go in, a verdict comes out: the strictest finding decides, all are listed, and `admitted` says which calls may
run. A halt is answered to every record until a new turn or an override.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import UNSET

from turnguard.core.bounds import MAX_LISTED_FINDINGS
from turnguard.core.budget.guard import EXHAUSTED
from turnguard.core.guard import Batch, InvalidEventError, Needs, Rekeying, Seal
from turnguard.core.identify import CallOf, identify, nobody
from turnguard.core.limits import SESSION
from turnguard.core.messages import model_message, user_message
from turnguard.core.open_turn import Turn
from turnguard.core.stack import GuardStack, halts
from turnguard.core.turn.cap import CapReason
from turnguard.core.turn.turn_guard import TURN_TOOL_CALL_CAP
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Event,
    Fallback,
    Result,
    Retry,
    StateChanged,
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


class EventError(InvalidEventError):
    """An event cannot be taken, and nothing of the record was applied. `path` is where, from the record's params."""


class StaleTurnError(ValueError):
    """An override was meant for another turn than the current one, which is `turn_id`."""

    def __init__(self, turn_id: str | None) -> None:
        super().__init__(f"The current turn is {turn_id!r}")
        self.turn_id = turn_id


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

    @property
    def needs(self) -> Needs:
        """What its guards want to see of the next event."""
        return self._stack.needs

    def configure(self, settings: SettingsInForce) -> None:
        """Puts other settings in force from the next event on; guards that stay keep their counts."""
        self._settings = settings
        self._stack = self._stack.configured(settings, self._turn and self._turn.started())
        if settings.shadow and self._turn is not None and self._turn.halt:
            self._turn.lift()

    def beside(self, settings: SettingsInForce) -> "SessionGuard":
        """Another guard of the same session, which stands where this one does. `settings`: those of this one."""
        seal = self._stack.turn_guard.seal
        guard = SessionGuard(self.session_id, settings, agent_id=self.agent_id, cwd=self.cwd, seal=seal)
        guard.restore(deepcopy(self.snapshot()))
        return guard

    def validate(self, events: Sequence[Event]) -> None:
        """Raises EventError when `record` would; nothing changes."""
        self._identified(events)

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events in order and answers one verdict over all of them.

        Raises EventError when an event cannot be taken; then none of them was applied.
        """
        identified = self._identified(events)
        found: list[Finding] = []
        turn = self._turn
        if turn is not None and turn.held:
            found += turn.held
            turn.held = ()
        for event in identified:
            self._apply(event, found)
        return self._verdict(found)

    def prepare_step(self) -> NextStep:
        """Closes the step at hand and says what the next model request may use.

        What closing the step found is answered with the next record.
        """
        turn, shield = self._turn, self._stack.shield
        if turn is not None and not turn.halt:
            is_closed_here = turn.step is not None or turn.is_prepared
            found = [*turn.held, *self._finish_step(turn)]
            turn.held, turn.is_prepared = found, is_closed_here
            turn.refusals = _refusals(found) or turn.refusals
            if halts(found) and not self._settings.shadow:
                turn.halt = found
        choice, tools, state = ("auto", None, None) if shield is None else shield.next_step()
        if self._is_disabled or self._settings.shadow:
            choice = "auto"
        elif turn is not None and turn.halt:
            choice = "none"
        return NextStep(tool_choice=choice, active_tools=tools, state=state)

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
            raised = self._raise_by(turn, calls) if action == "raiseCap" else 0
            if raised or turn.halt or turn.refusals:
                self._go_on(turn, raised)
                turn.note_override(action, raised)

    def take_back(self, calls: Sequence[Call]) -> None:
        """Hears of calls, identified, that were admitted here and refused elsewhere: it is as if they never came."""
        if self._is_disabled:
            return
        self._stack.turn_guard.take_back(calls)
        results = [Result(call.id, status="notStarted") for call in calls if call.id is not None]
        event = identify(ToolResults(results), self._stack.needs)
        if type(event) is ToolResults:
            self._stack.tell_late(event)

    def close(self) -> TurnSummary | None:
        """Ends the open turn and sums the last one up; None when there never was one."""
        turn = self._turn
        if turn is None:
            return None
        self._end_turn(turn, "completed")
        return turn.summary(self._totals())

    def status(self) -> SessionStatus:
        """How the session stands."""
        turn, shield = self._turn, self._stack.shield
        budget_state = None if shield is None else shield.next_step()[2]
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
            last_finding=UNSET if turn is None else turn.last_finding(),
            overrides=overrides,
            budget_state=UNSET if budget_state is None else budget_state,
            blind=self._stack.blind() or UNSET,
        )

    # --- events -------------------------------------------------------------------------------------------------------

    def _identified(self, events: Sequence[Event]) -> list[Event]:
        turn, stack = self._turn, self._stack
        call_of: CallOf = nobody if turn is None else turn.call_of
        identified: list[Event] = []
        for index, event in enumerate(events):
            if type(event) is CallRekeyed and event.name is None:
                event = self._named(event, identified)
            try:
                identified.append(identify(event, stack.needs, call_of))
                if stack.shield is not None and not (self._is_disabled and type(event) is ToolCalls):
                    stack.validate(event)
            except InvalidEventError as error:
                raise EventError(f"$.events[{index}]{error.path}", error.message) from error
        return identified

    def _named(self, event: CallRekeyed, earlier: Sequence[Event]) -> CallRekeyed:
        """The same event with the name of its call, which may have come earlier in the same record."""
        call: Call | CallRekeyed | None = None
        for other in reversed(earlier):
            if call is not None:
                break
            if type(other) is ToolCalls:
                call = next((each for each in other.calls if each.id == event.id), None)
            elif type(other) is CallRekeyed and other.id == event.id:
                call = other
        if call is None and self._turn is not None:
            call = self._turn.find(event.id)
        return event if call is None else msgspec.structs.replace(event, name=call.name)

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
            self._apply_in(turn, event, found)

    def _only_completes_history(self, turn: Turn, event: Event, found: Sequence[Finding]) -> bool:
        """Whether the event comes after a halt, or after the end of its turn: only calls open another by themselves."""
        if turn.halt or (found and self._has_halted(found)):
            return True
        return turn.outcome is not None and type(event) is not ToolCalls

    def _has_halted(self, found: Sequence[Finding]) -> bool:
        """Whether what a record found so far ends the turn, so that the rest of it only completes the history."""
        return not self._settings.shadow and halts(found)

    def _apply_late(self, turn: Turn, event: Event) -> None:
        if type(event) is TurnEnded and turn.outcome is None:
            turn.outcome = event.outcome
        elif type(event) is StateChanged:
            self._stack.tell(event)
        elif type(event) is ToolResults and not self._is_disabled:
            self._stack.tell_late(turn.pair(event))

    def _apply_in(self, turn: Turn, event: Event, found: list[Finding]) -> None:
        """Applies an event to an open turn."""
        kind = type(event)
        if turn.tells_steps is None:
            turn.tells_steps = kind is StepFinished
        if type(event) is ToolCalls or kind is Text or kind is Thought:
            if turn.step is not None and turn.step.has_results and kind is not Thought:
                found += self._finish_step(turn)
            if turn.step is None:
                turn.open_step()
                self._check_steps(turn, found)
            if found and self._has_halted(found):
                return
        if type(event) is ToolCalls:
            self._judge(turn, event, found)
        elif type(event) is StepFinished:
            found += self._finish_step(turn, event)
        elif type(event) is TurnEnded:
            self._end_turn(turn, event.outcome)
        elif type(event) is CallRekeyed:
            found += self._rekey(turn, event)
        else:
            if type(event) is ToolResults:
                event = turn.pair(event)
            elif kind is Retry or kind is Fallback:
                turn.abandon_response()
            found += self._tell(event)

    def _judge(self, turn: Turn, event: ToolCalls, found: list[Finding]) -> None:
        step, settings = turn.step, self._settings
        if step is None:
            return
        is_another = bool(step.calls) and settings.turn_guard == "batch" and not turn.tells_steps
        if is_another:
            turn.steps += 1
            self._check_steps(turn, found)
            if found and self._has_halted(found):
                step.is_refused = True
                return
        if self._is_disabled:
            step.add_batch(event.calls, range(len(event.calls)))
            return
        batch = Batch(event.calls, turn.turn_id if event.run_id is UNSET else event.run_id)
        ruling = self._stack.check(batch)
        findings = self._with_blocks(turn, ruling.findings) if ruling.findings else ruling.findings
        is_refused = bool(findings) and self._has_halted(findings)
        refused = frozenset[int]() if settings.shadow else ruling.refused
        admitted = [] if is_refused else [index for index in range(len(event.calls)) if index not in refused]
        self._stack.commit(batch, admitted)
        found += findings
        if is_refused:
            step.is_refused = is_another
        else:
            step.add_batch(event.calls, admitted)
            turn.note_unsettled(event.calls)

    def _rekey(self, turn: Turn, event: CallRekeyed) -> Sequence[Finding]:
        """Moves a call of the turn to its new identity: what the guards say of it.

        A call that they block may not start any more. After a halt calls stay what they were.
        """
        before = turn.find(event.id)
        if before is None:
            return ()
        now = Call(event.name, event.id, UNSET, event.key, event.fidelity, event.hint, event.facts)
        if now == before:
            return ()
        change = Rekeying(before, now, is_in_step=turn.step is not None and turn.step.find(event.id) is before)
        if self._is_disabled:
            turn.rekey(change)
            return ()
        findings = self._stack.check_rekeyed(change)
        is_blocked = not self._settings.shadow and any(each.action is Action.BLOCK for each in findings)
        self._stack.commit_rekeyed(change, is_admitted=not is_blocked)
        turn.rekey(change, is_admitted=not is_blocked)
        return self._with_blocks(turn, findings)

    def _with_blocks(self, turn: Turn, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The findings on a batch, and the one that it was blocked once too often."""
        if halts(findings) or all(finding.action is not Action.BLOCK for finding in findings):
            return findings
        finding = turn.limit().note_block(self._settings)
        return findings if finding is None else [*findings, finding]

    def _check_steps(self, turn: Turn, found: list[Finding]) -> None:
        if self._settings.max_steps_per_turn is not None and not self._is_disabled:
            finding = turn.limit().check_steps(turn.steps, self._settings)
            found += () if finding is None else (finding,)

    def _tell(self, event: Event) -> list[Finding]:
        if self._is_disabled and type(event) is not StateChanged:
            return []
        return self._stack.tell(event)

    def _finish_step(self, turn: Turn, event: StepFinished | None = None) -> list[Finding]:
        """Closes the step at hand. Without an event of the host's own only if there is one; with one, unless
        `prepareStep` has just closed it.
        """
        is_closed = turn.step is None and (event is None or turn.is_prepared)
        turn.is_prepared = False
        turn.close_step()
        return [] if is_closed else self._tell(event or StepFinished())

    def _start_turn(self, event: TurnStarted) -> Turn:
        if self._turn is not None:
            self._end_turn(self._turn, "completed")
        self._turns += 1
        turn = self._turn = Turn(event.turn_id or f"turn-{self._turns}", event.origin)
        self._stack.tell(turn.started())
        return turn

    def _end_turn(self, turn: Turn, outcome: TurnOutcome) -> None:
        if turn.outcome is not None:
            return
        if turn.halt:
            turn.outcome = "cancelled"
            return
        self._finish_step(turn)
        self._tell(TurnEnded(outcome))
        turn.outcome = outcome

    # --- overrides ----------------------------------------------------------------------------------------------------

    def _switch(self, *, off: bool) -> None:
        """Stops all guards and lifts a halt, or starts them with fresh counters."""
        if self._is_disabled == off:
            return
        self._is_disabled = off
        if self._turn is not None:
            self._turn.lift()
            self._turn.limits = None
            if not off:
                self._turn.steps = 0
        if not off:
            self._stack = self._stack.restarted(self._settings, self._turn and self._turn.started())

    def _raise_by(self, turn: Turn, calls: int | None) -> int:
        """By how many calls the cap is raised; 0 where there is none, or where something else halted the turn."""
        cap = self._settings.max_tool_calls_per_turn
        is_other = bool(turn.halt) and all(finding.loop_type != TURN_TOOL_CALL_CAP for finding in turn.halt)
        return 0 if cap is None or is_other else calls or cap

    def _go_on(self, turn: Turn, raised: int) -> None:
        """Lifts the halt. Each guard that refused forgives; the cap is raised instead where `raised` says so."""
        turn_guard = self._stack.turn_guard
        reason = CapReason.EXPLICIT_CAP if self._settings.is_cap_explicit else CapReason.STUCK
        for finding in turn.refusals:
            if finding.loop_type == TURN_TOOL_CALL_CAP and raised:
                if not self._settings.is_cap_explicit and finding.reason != CapReason.EXPLICIT_CAP:
                    reason = CapReason(str(finding.reason))
                turn_guard.take_back_refused()
            elif finding.guard == SESSION:
                turn.limit().forgive(finding)
            else:
                self._stack.forgive(finding)
        if raised:
            turn_guard.raise_cap(reason, raised)
        turn.held = [finding for finding in turn.held if finding not in turn.refusals]
        turn.refusals = ()
        turn.go_on()

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def _verdict(self, found: list[Finding]) -> Verdict:
        turn, totals = self._turn, self._totals()
        if turn is None:
            return Verdict(action=Action.ALLOW, turn_id="", findings=found, admitted=[], totals=totals)
        findings = self._answer(turn, found) if found or turn.halt else found
        admitted = [] if turn.halt or turn.step is None else turn.step.may_start()
        if findings and self._settings.places:
            self._name_sources(findings)
        action = findings[0].action if findings and not self._settings.shadow else Action.ALLOW
        verdict = Verdict(action=action, turn_id=turn.turn_id, findings=findings, admitted=admitted, totals=totals)
        if findings and findings[0].action is not Action.ALLOW:
            standing = self._stack.standing()
            verdict.user_message = user_message(findings, self._settings, totals, standing)
            if not self._settings.shadow:
                verdict.model_message = model_message(findings, self._settings, totals)
        return verdict

    def _answer(self, turn: Turn, found: list[Finding]) -> list[Finding]:
        """The findings to answer, strictest first; a halt among them is kept to be repeated."""
        if turn.halt and not halts(found):
            return list(turn.halt)
        found = self._still_true(found)
        found.sort(key=lambda finding: STRICTNESS[finding.action], reverse=True)
        del found[MAX_LISTED_FINDINGS:]
        if self._settings.shadow:
            for finding in found:
                finding.fresh = finding.fresh and not turn.is_said(finding)
        turn.note(found)
        turn.refusals = _refusals(found) or turn.refusals
        if halts(found) and not self._settings.shadow:
            turn.halt = [msgspec.structs.replace(finding, fresh=False) for finding in found]
        return found

    def _name_sources(self, findings: Sequence[Finding]) -> None:
        places = self._settings.places
        for finding in findings:
            if finding.setting in places:
                finding.setting_source = places[str(finding.setting)]

    def _still_true(self, found: Sequence[Finding]) -> list[Finding]:
        """The findings of a record without repetitions of each other; a budget that is free again limits nothing."""
        shield = self._stack.shield
        is_free = shield is None or shield.next_step()[0] == "auto"
        for finding in found:
            if finding.action is Action.RESTRICT and (shield is None or (finding.reason == EXHAUSTED and is_free)):
                finding.action = Action.WARN
        fresh = [finding for finding in found if finding.fresh]
        return [each for each in found if each.fresh or msgspec.structs.replace(each, fresh=True) not in fresh]

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


def _refusals(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Those for which something may not run."""
    return [finding for finding in findings if STRICTNESS[finding.action] >= STRICTNESS[Action.RESTRICT]]
