"""The guards of one session side by side: every one checks every batch, then every one hears what was admitted."""

from collections.abc import Sequence
from typing import Any

from turnguard.core.budget.guard import LoopShieldGuard
from turnguard.core.guard import PASS, Batch, Guard, Needs, Rekeying, Ruling, Seal
from turnguard.core.progress import ProgressGuard, Standing
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard.core.rolling.post_compaction import PostCompactionGuard
from turnguard.core.turn.batch_turn import BatchTurnGuard
from turnguard.core.turn.failures import RepeatedFailureGuard
from turnguard.core.turn.stream_turn import LoopDetectionService
from turnguard.core.turn.turn_guard import TurnGuard
from turnguard_protocol.events import Event, ToolResults, TurnStarted
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding


def halts(findings: Sequence[Finding]) -> bool:
    """Whether any of these ends the turn."""
    return any(finding.action is Action.HALT for finding in findings)


def turn_guard_kind(settings: SettingsInForce) -> type[TurnGuard]:
    """The turn guard that `turnguard.turnGuard` picks."""
    return BatchTurnGuard if settings.turn_guard == "batch" else LoopDetectionService


def other_guard_kinds(settings: SettingsInForce) -> list[type[Guard]]:
    """The guards beside the turn guard.

    Repeated failures belong to Qwen Code's daemon, as the batch guard does. The rolling history also records while it
    is switched off, so that it knows what came before when it is switched on.
    """
    kinds: list[type[Guard]] = []
    if settings.turn_guard == "batch" and settings.repeated_failures != "off":
        kinds.append(RepeatedFailureGuard)
    if settings.loop_detection is not None:
        kinds += [RollingHistoryGuard, PostCompactionGuard]
    if settings.loop_shield is not None:
        kinds.append(LoopShieldGuard)
    if settings.progress != "off":
        kinds.append(ProgressGuard)
    return kinds


class GuardStack:
    """All enabled guards of a session, the turn guard first.

    `kept`: guards of another stack that stay as they are; new ones hear of `turn`, the one at hand, first.
    """

    __slots__ = ("guards", "needs", "shield", "turn_guard")

    def __init__(
        self,
        settings: SettingsInForce,
        seal: Seal | None = None,
        kept: Sequence[Guard] = (),
        turn: TurnStarted | None = None,
    ) -> None:
        by_kind = {type(guard): guard for guard in kept}
        self.shield: LoopShieldGuard | None = None
        guards: list[Guard] = []
        for kind in (turn_guard_kind(settings), *other_guard_kinds(settings)):
            guard = by_kind.get(kind)
            if guard is None:
                guard = kind(settings, seal)
                if turn is not None:
                    guard.receive(turn)
            else:
                guard.configure(settings)
            guards.append(guard)
            if isinstance(guard, TurnGuard):
                self.turn_guard = guard
            elif isinstance(guard, LoopShieldGuard):
                self.shield = guard
        self.guards = tuple(guards)
        self.needs = Needs.of_all(guard.needs for guard in guards)

    def configured(self, settings: SettingsInForce, turn: TurnStarted | None) -> "GuardStack":
        """The stack for other settings: guards that are in both keep their counts, the others start anew."""
        return GuardStack(settings, self.turn_guard.seal, self.guards, turn)

    def restarted(self, settings: SettingsInForce, turn: TurnStarted | None) -> "GuardStack":
        """The stack with fresh counters; the host's state machine is where it was."""
        stack = GuardStack(settings, self.turn_guard.seal, turn=turn)
        if stack.shield is not None and self.shield is not None:
            stack.shield.restore(self.shield.machine.snapshot())
        return stack

    def validate(self, event: Event) -> None:
        """Raises InvalidEventError when some guard cannot take the event."""
        for guard in self.guards:
            guard.validate(event)

    def check(self, batch: Batch) -> Ruling:
        """What the guards say of a batch together."""
        findings: list[Finding] = []
        refused: frozenset[int] = frozenset()
        for guard in self.guards:
            if not guard.is_judge:
                continue
            ruling = guard.check(batch)
            if ruling.findings or ruling.refused:
                findings += ruling.findings
                refused |= ruling.refused
        return Ruling(findings, refused) if findings or refused else PASS

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Tells every guard which calls of the batch just checked may run."""
        for guard in self.guards:
            guard.commit(batch, admitted)

    def check_rekeyed(self, change: Rekeying) -> list[Finding]:
        """What the guards say together of a call as it is now."""
        return [finding for guard in self.guards for finding in guard.check_rekeyed(change)]

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Tells every guard whether the call just checked may go on."""
        for guard in self.guards:
            guard.commit_rekeyed(change, is_admitted=is_admitted)

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

    def blind(self) -> list[str]:
        """The guards that were told no outcome in this turn."""
        return [guard.name for guard in self.guards if isinstance(guard, ProgressGuard) and guard.is_blind()]

    def standing(self) -> Standing | None:
        """Where the turn stands with the progress guard, None while that is off."""
        return next((guard.standing() for guard in self.guards if isinstance(guard, ProgressGuard)), None)

    def snapshot(self) -> dict[str, Any]:
        """The state of every guard, by its name."""
        return {guard.name: guard.snapshot() for guard in self.guards}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave under the same settings."""
        for guard in self.guards:
            guard.restore(state[guard.name])
