"""Two guards on one session: under a person's own settings, and under those that a project's files tightened.

A stricter setting is not stricter for every sequence of events: a call refused early is one that no later count sees.
So what a project says does not take the place of what the person says. Both guards hear everything, and the stricter
answer counts: with a project's file no verdict is milder than it would be without.
"""

from collections.abc import Sequence
from typing import Any

from turnguard.core.bounds import MAX_LISTED_FINDINGS
from turnguard.core.session import STRICTNESS, SessionGuard
from turnguard_protocol.events import Event
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Finding, NextStep, OverrideAction, SessionStatus, TurnSummary, Verdict


class JointGuard:
    """The guard of a session whose project tightened settings. Takes what `SessionGuard` takes.

    `own` goes on as it is; the second guard begins where it stands.
    """

    __slots__ = ("own", "project")

    def __init__(self, own: SessionGuard, own_settings: SettingsInForce, tightened: SettingsInForce) -> None:
        self.own = own
        self.project = own.beside(own_settings)
        self.project.configure(tightened)

    def configure(self, own: SettingsInForce, tightened: SettingsInForce) -> None:
        """Puts other settings in force from the next event on."""
        self.own.configure(own)
        self.project.configure(tightened)

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events to both. Raises EventError when either cannot take one; then none of them was applied."""
        self.project.validate(events)
        return stricter(self.own.record(events), self.project.record(events))

    def prepare_step(self) -> NextStep:
        """Closes the step of both; what either withholds is withheld."""
        own, project = self.own.prepare_step(), self.project.prepare_step()
        tools = project.active_tools
        if own.active_tools is not None:
            tools = [tool for tool in own.active_tools if tools is None or tool in tools]
        choice = "none" if "none" in (own.tool_choice, project.tool_choice) else "auto"
        return NextStep(tool_choice=choice, active_tools=tools, state=project.state or own.state)

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Gets past a halt of either, or switches both off or on. Raises StaleTurnError."""
        self.own.override(action, turn_id=turn_id, calls=calls)
        self.project.override(action, turn_id=turn_id, calls=calls)

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
        """How the session stands: as the guard that halted it, else as the one with the tighter settings."""
        own, project = self.own.status(), self.project.status()
        return own if own.state == "halted" != project.state else project

    def snapshot(self) -> dict[str, Any]:
        """The state of both as plain JSON-like values."""
        return {"own": self.own.snapshot(), "project": self.project.snapshot()}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave under the same settings."""
        self.own.restore(state["own"])
        self.project.restore(state["project"])


def stricter(own: Verdict, project: Verdict) -> Verdict:
    """The stricter of two verdicts over the same events, with what the other found besides."""
    strict, other = (own, project) if STRICTNESS[own.action] > STRICTNESS[project.action] else (project, own)
    strict.findings = _together(strict.findings, other.findings)
    strict.admitted = [index for index in strict.admitted if index in set(other.admitted)]
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
