"""Limits of a turn over all guards: how often its batches may be blocked, and how many steps it may take.

Users report vetoes that an agent retried for hours: a turn whose batches were blocked so often is over.
"""

from typing import Any

from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

SESSION = "session"
"""What findings call these limits."""

MAX_BLOCKS = "max_blocks_per_turn"
MAX_STEPS = "max_steps_per_turn"


class TurnLimits:
    """Counts the blocked batches of a turn. `raised_steps`: steps that a person allowed besides."""

    __slots__ = ("blocks", "raised_steps")

    def __init__(self) -> None:
        self.blocks = 0
        self.raised_steps = 0

    def note_block(self, settings: SettingsInForce) -> Finding | None:
        """Counts a blocked batch; the finding that it was one too many."""
        self.blocks += 1
        limit = settings.max_blocks_per_turn
        if limit == 0 or self.blocks < limit:
            return None
        return _halt(MAX_BLOCKS, self.blocks, limit, "turnguard.maxBlocksPerTurn")

    def check_steps(self, steps: int, settings: SettingsInForce) -> Finding | None:
        """The finding that the step that has just begun is one too many."""
        if settings.max_steps_per_turn is None:
            return None
        limit = settings.max_steps_per_turn + self.raised_steps
        return None if steps <= limit else _halt(MAX_STEPS, steps, limit, "turnguard.maxStepsPerTurn")

    def forgive(self, finding: Finding) -> None:
        """Lets the turn go on: with no batch blocked so far, or by one step more."""
        if finding.loop_type == MAX_BLOCKS:
            self.blocks = 0
        else:
            self.raised_steps += 1

    def snapshot(self) -> list[int]:
        """The state as plain values."""
        return [self.blocks, self.raised_steps]

    def restore(self, state: Any) -> None:
        """Takes a state that `snapshot` gave."""
        self.blocks, self.raised_steps = state


def _halt(loop_type: str, count: int, limit: int, setting: str) -> Finding:
    return Finding(
        guard=SESSION, action=Action.HALT, loop_type=loop_type, count=count, threshold=limit, setting=setting
    )
