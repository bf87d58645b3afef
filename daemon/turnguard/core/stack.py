"""The guards of one session side by side: every one checks every batch, then every one hears what was admitted."""

from collections.abc import Sequence
from typing import Any

from turnguard.core.guard import Batch, Guard, Needs, Seal
from turnguard.core.turn.batch_turn import BatchTurnGuard
from turnguard.core.turn.failures import RepeatedFailureGuard
from turnguard.core.turn.stream_turn import LoopDetectionService
from turnguard.core.turn.turn_guard import TurnGuard
from turnguard_protocol.events import Event, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding


def halts(findings: Sequence[Finding]) -> bool:
    """Whether any of these ends the turn."""
    return any(finding.action is Action.HALT for finding in findings)


def turn_guard_kind(settings: SettingsInForce) -> type[TurnGuard]:
    """The turn guard that `turnguard.turnGuard` picks."""
    return BatchTurnGuard if settings.turn_guard == "batch" else LoopDetectionService


def other_guard_kinds(settings: SettingsInForce) -> list[type[Guard]]:
    """The guards beside the turn guard. Repeated failures belong to Qwen Code's daemon, as the batch guard does."""
    watches_failures = settings.turn_guard == "batch" and settings.repeated_failures != "off"
    return [RepeatedFailureGuard] if watches_failures else []


class GuardStack:
    """All enabled guards of a session, the turn guard first."""

    __slots__ = ("guards", "needs", "turn_guard")

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        self.turn_guard = turn_guard_kind(settings)(settings, seal)
        self.guards: tuple[Guard, ...] = (
            self.turn_guard,
            *(kind(settings, seal) for kind in other_guard_kinds(settings)),
        )
        self.needs = Needs.NOTHING
        for guard in self.guards:
            self.needs |= guard.needs

    def configured(self, settings: SettingsInForce) -> "GuardStack":
        """The stack for other settings: guards that are in both keep their counts, the others start anew."""
        stack = GuardStack(settings, self.turn_guard.seal)
        kept = {type(guard): guard for guard in self.guards}
        stack.guards = tuple(kept.get(type(guard), guard) for guard in stack.guards)
        for guard in stack.guards:
            guard.configure(settings)
            if isinstance(guard, TurnGuard):
                stack.turn_guard = guard
        return stack

    def judge(self, batch: Batch) -> tuple[list[Finding], list[int]]:
        """Both phases over one batch: what the guards found, and the indexes of the calls that may run."""
        findings: list[Finding] = []
        refused: frozenset[int] = frozenset()
        for guard in self.guards:
            ruling = guard.check(batch)
            if ruling.findings or ruling.refused:
                findings += ruling.findings
                refused |= ruling.refused
        admitted: list[int] = []
        if not halts(findings):
            admitted = [index for index in range(len(batch.calls)) if index not in refused]
        for guard in self.guards:
            guard.commit(batch, admitted)
        return findings, admitted

    def tell(self, event: Event) -> list[Finding]:
        """Tells every guard of an event that is no batch."""
        findings: list[Finding] = []
        for guard in self.guards:
            findings += guard.receive(event)
        return findings

    def tell_late(self, event: ToolResults) -> None:
        """Tells every guard of results that came after a halt or the turn's end."""
        for guard in self.guards:
            guard.receive_late(event)

    def forgive(self, finding: Finding) -> None:
        """Has the guard that made this finding clear what tripped it."""
        for guard in self.guards:
            if guard.name == finding.guard:
                guard.forgive(finding)

    def snapshot(self) -> dict[str, Any]:
        """The state of every guard, by its name."""
        return {guard.name: guard.snapshot() for guard in self.guards}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave under the same settings."""
        for guard in self.guards:
            guard.restore(state[guard.name])
