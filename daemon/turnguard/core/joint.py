"""Two guards on one session: under a person's own settings, and under those that a project's files tightened.

A stricter setting is not stricter for every sequence of events: a call refused early is one that no later count sees.
So what a project says does not take the place of what the person says. Both guards hear everything, and the stricter
answer counts: with a project's file no verdict is milder than it would be without.
"""

from collections.abc import Sequence, Set
from typing import Any, cast

import msgspec
from msgspec import UNSET

from turnguard.core.bounds import MAX_LISTED_FINDINGS
from turnguard.core.guard import Needs
from turnguard.core.identify import identify
from turnguard.core.session import STRICTNESS, EventError, SessionGuard, StaleTurnError
from turnguard_protocol.events import (
    Call,
    Event,
    StateChanged,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import (
    Action,
    Cap,
    Finding,
    NextStep,
    OverrideAction,
    SessionStatus,
    TurnSummary,
    Verdict,
)

LEAVE_COUNTS = (ToolResults, StepFinished, StateChanged, TurnEnded)
"""What may come after a batch that was refused while its calls stay counted as they were."""


class JointGuard:
    """The guard of a session whose project tightened settings. Takes what `SessionGuard` takes.

    `own` goes on as it is; the second guard begins where it stands. Turns have the ids that `own` gives them.
    `_refused`: the calls of the last batch that `own` took for admitted, and that may not run.
    """

    __slots__ = ("_only_own_watches", "_refused", "own", "project")

    def __init__(self, own: SessionGuard, own_settings: SettingsInForce, tightened: SettingsInForce) -> None:
        self.own = own
        self.project = own.beside(own_settings)
        self._refused: Sequence[Call] = ()
        self.configure(own_settings, tightened)

    @property
    def needs(self) -> Needs:
        """What the guards of either want to see of the next event."""
        return Needs.of_all([self.own.needs, self.project.needs])

    def configure(self, own: SettingsInForce, tightened: SettingsInForce) -> None:
        """Puts other settings in force from the next event on."""
        self._only_own_watches = own.shadow and not tightened.shadow
        self.own.configure(own)
        self.project.configure(tightened)

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events to both. Raises EventError when `own` cannot take one; then none of them was applied.

        Of a record that only the second guard cannot take it hears where turns begin and end: a project must not have
        a host's requests fail, since a host goes on where it has no answer.
        """
        heard = self._takable(events)
        own, project = self.own.record(events), self.project.record(heard)
        if len(heard) < len(events) and project.action is not Action.HALT:
            project.admitted = own.admitted
        if self._only_own_watches:
            own.findings, own.user_message = [], UNSET
        verdict = stricter(own, project)
        self._note_refused(events, set(own.admitted).difference(verdict.admitted))
        return verdict

    def _note_refused(self, events: Sequence[Event], refused: Set[int]) -> None:
        last = events[-1] if events else None
        if type(last) is ToolCalls:
            batch = ToolCalls([last.calls[index] for index in sorted(refused)])
            self._refused = cast("ToolCalls", identify(batch, self.own.needs)).calls if refused else ()
        elif any(type(event) not in LEAVE_COUNTS for event in events):
            self._refused = ()

    def _takable(self, events: Sequence[Event]) -> Sequence[Event]:
        try:
            self.project.validate(events)
        except EventError:
            return [event for event in events if type(event) is TurnStarted or type(event) is TurnEnded]
        return events

    def prepare_step(self) -> NextStep:
        """Closes the step of both; what either withholds is withheld."""
        own, project = self.own.prepare_step(), self.project.prepare_step()
        tools = project.active_tools
        if own.active_tools is not None:
            tools = [tool for tool in own.active_tools if tools is None or tool in tools]
        choice = "none" if "none" in (own.tool_choice, project.tool_choice) else "auto"
        return NextStep(tool_choice=choice, active_tools=tools, state=project.state or own.state)

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Gets past a halt of either, or switches both off or on. Raises StaleTurnError.

        Where only the project's settings halted the turn, only their cap is raised, and the batch may come again.
        """
        own, project = self.own.status(), self.project.status()
        is_only_project = project.state == "halted" != own.state
        # A halted turn outlives its end, so the other guard can be in a later one.
        current = {own.turn_id, project.turn_id if is_only_project else own.turn_id}
        if turn_id is not None and turn_id not in current:
            raise StaleTurnError(None if own.turn_id is UNSET else own.turn_id)
        if self._refused:
            self.own.take_back(self._refused)
            self._refused = ()
        if not (is_only_project and action == "raiseCap"):
            self.own.override(action, calls=calls)
        self.project.override(action, calls=calls)

    def close(self) -> TurnSummary | None:
        """Ends the open turn of both, and sums it up."""
        own, project = self.own.close(), self.project.close()
        if own is None or project is None:
            return own
        strict = own if own.outcome == "cancelled" else project
        return TurnSummary(
            turn_id=own.turn_id,
            outcome=strict.outcome,
            totals=strict.totals,
            findings=_together(strict.findings, own.findings if strict is project else project.findings),
        )

    def status(self) -> SessionStatus:
        """How the session stands: as the guard that halted it, else as the one with the tighter settings.

        The cap is the one that the turn meets first: a project's can be raised above the person's own.
        """
        own, project = self.own.status(), self.project.status()
        status = own if own.state == "halted" != project.state else project
        status.turn_id = own.turn_id
        status.cap = _first_met(own.cap, project.cap)
        return status

    def snapshot(self) -> dict[str, Any]:
        """The state of both as plain JSON-like values."""
        return {
            "own": self.own.snapshot(),
            "project": self.project.snapshot(),
            "refused": msgspec.to_builtins(list(self._refused)),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave under the same settings."""
        self.own.restore(state["own"])
        self.project.restore(state["project"])
        self._refused = msgspec.convert(state["refused"], list[Call])


def _first_met(own: Cap, project: Cap) -> Cap:
    """The lower of two caps; one that was set comes before an adaptive one, which stops only turns that repeat."""
    if own.value is None or not own.explicit:
        return project
    return own if project.value is None or own.value < project.value else project


def stricter(own: Verdict, project: Verdict) -> Verdict:
    """The stricter of two verdicts over the same events, with what the other found besides."""
    strict, other = (own, project) if STRICTNESS[own.action] > STRICTNESS[project.action] else (project, own)
    strict.turn_id = own.turn_id
    strict.findings = _together(strict.findings, other.findings)
    others_admitted = set(other.admitted)
    strict.admitted = [index for index in strict.admitted if index in others_admitted]
    strict.user_message = strict.user_message or other.user_message
    strict.model_message = strict.model_message or other.model_message
    return strict


def _together(findings: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    """Findings of two guards, strictest first; where both found the same, the first says it."""
    known = {_identity(finding) for finding in findings}
    together = [*findings, *(finding for finding in others if _identity(finding) not in known)]
    together.sort(key=lambda finding: STRICTNESS[finding.action], reverse=True)
    return together[:MAX_LISTED_FINDINGS]


def _identity(finding: Finding) -> tuple[object, ...]:
    return (
        finding.guard,
        finding.loop_type,
        finding.reason,
        finding.tool,
        finding.paired_tool,
        finding.run_id,
        finding.key_digest,
    )
