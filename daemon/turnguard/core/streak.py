"""Streak: one call made again and again, where nobody is shown what its results say.

Whether such a call shows something new cannot be known, so the progress guard has only this to go by: how often the
call came in a row in the turn. Any other call ends the streak, and so does a result that is shown after all. The model
is warned at `BLIND_WARN`; the turn is stopped from `BLIND_HALT` on, and never without a warning at an earlier step.
"""

from typing import Literal

from msgspec import Struct

from turnguard.core.thresholds import BLIND_HALT, BLIND_WARN


class Streak(Struct, gc=False):
    """`token` stands for the call, `count` is how often it came. `is_warned`: the model was warned of this streak."""

    token: int
    count: int = 1
    is_warned: bool = False

    def judge(self) -> Literal["warn", "halt"] | None:
        """What the streak calls for; asked once at the end of each step that went on with it."""
        if self.is_warned:
            return "halt" if self.count >= BLIND_HALT else None
        self.is_warned = self.count >= BLIND_WARN
        return "warn" if self.is_warned else None
