"""LoopShield: counts consecutive tool calls, and says when they have used up their budget.

    what happens                      the run              the episode
    a call, still below the budget    one longer           over, if one was open (only another tool can do that)
    a call that reaches the budget    one longer           begins: a Trip, once
    a call past the budget            one longer           goes on
    the run is broken (`clear`)       0                    over

`consecutive` compares the length of the run of calls with the budget, `repeated` the length of the run of one tool.
Names are compared exactly, arguments never looked at. Source: the loopShield page (seed 001) and, where it is silent,
reactive-fsm 1.4.0.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from turnguard.core.budget.errors import MaxConsecutiveToolsError, ToolNameRequiredError
from turnguard_protocol.settings import ShieldMode


class Trip(Struct, frozen=True, gc=False):
    """The budget is used up: what `onLoop` is told, once an episode.

    `consecutive_tools` is the whole run in both modes, so with `repeated` it can exceed `max_allowed`; `streak` is the
    run of `tool` alone.
    """

    consecutive_tools: int
    max_allowed: int
    streak: int
    tool: str | None


class LoopShield:
    """The counter. `run`: calls in a row; `streak`: of those, how many of the `last` tool; `fired`: the trip was told.

    A budget of 0 is used up from the outset. A shield that is not `enabled` counts nothing. Raises
    MaxConsecutiveToolsError.
    """

    __slots__ = ("enabled", "fired", "last", "max_allowed", "mode", "run", "streak")

    def __init__(self, max_allowed: int, mode: ShieldMode = "consecutive", *, enabled: bool = True) -> None:
        if type(max_allowed) is not int or max_allowed < 0:
            raise MaxConsecutiveToolsError(f"Expected a whole number of calls, 0 or more, got {max_allowed!r}")
        self.max_allowed = max_allowed
        self.mode: ShieldMode = mode
        self.enabled = enabled
        self.clear()

    @property
    def count(self) -> int:
        """What is compared with `max_allowed`."""
        return self.streak if self.mode == "repeated" else self.run

    @property
    def looping(self) -> bool:
        """Whether the budget is used up."""
        return self.enabled and self.count >= self.max_allowed

    def register(self, tool: str | None) -> Trip | None:
        """Counts a call; the trip if this call makes it. Raises ToolNameRequiredError."""
        if not self.enabled:
            return None
        self.require_names((tool,))
        self.run += 1
        # A call without a name is like no other, in case the mode becomes `repeated`.
        self.streak = self.streak + 1 if tool and tool == self.last else 1
        self.last = tool
        if not self.looping:
            self.fired = False
            return None
        if self.fired:
            return None
        self.fired = True
        return Trip(self.run, self.max_allowed, self.streak, tool)

    def require_names(self, tools: Iterable[str | None]) -> None:
        """Raises ToolNameRequiredError when a call that cannot be counted is among these."""
        if self.enabled and self.mode == "repeated" and not all(tools):
            raise ToolNameRequiredError

    def clear(self) -> None:
        """The run is broken, and an open episode with it."""
        self.run = self.streak = 0
        self.last: str | None = None
        self.fired = False

    def ahead(self, tools: Iterable[str | None]) -> "LoopShield":
        """The shield as it will be when these calls are counted too; this one stays as it is."""
        shield = LoopShield(self.max_allowed, self.mode, enabled=self.enabled)
        shield.restore(self.snapshot())
        for tool in tools:
            shield.register(tool)
        return shield

    def snapshot(self) -> dict[str, Any]:
        """The counts as plain JSON-like values."""
        return {"run": self.run, "streak": self.streak, "last": self.last, "fired": self.fired}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes counts that `snapshot` gave, of this shield or of one with another budget."""
        self.run, self.streak, self.last, self.fired = state["run"], state["streak"], state["last"], state["fired"]
