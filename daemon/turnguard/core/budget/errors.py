"""What can be wrong with a budget, and with what it is told: one class each, `code` is its stable name.

None of them changes anything: a machine that raised is where it was before.
"""

from typing import ClassVar

from turnguard.core.guard import InvalidEventError


class BudgetError(InvalidEventError):
    """The base of all. `path` is empty where no event is at fault."""

    code: ClassVar[str]

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(path, message)


class ConfigError(BudgetError):
    """A budget cannot be built this way. `setting` is the one to correct."""

    setting: ClassVar[str]


class InitialStateError(ConfigError):
    """The initial state is none of the states."""

    code = "initial_state"
    setting = "loopShield.initialState"


class SnapshotStateError(BudgetError):
    """The snapshot's state is none of the states."""

    code = "snapshot_state"


class FallbackStateError(ConfigError):
    """The fallback state is none of the states."""

    code = "fallback_state"
    setting = "loopShield.fallbackState"


class MaxConsecutiveToolsError(ConfigError):
    """The budget is no whole number of calls from 0, or it is 0 with a fallback whose tools could never run."""

    code = "max_consecutive_tools"
    setting = "loopShield.maxConsecutiveTools"


class ToolNameRequiredError(BudgetError):
    """A budget of repeated calls was told of a call without a tool name."""

    code = "tool_name_required"

    def __init__(self, path: str = "") -> None:
        super().__init__("Expected a tool name, since the budget counts repeated calls of one tool", path)


class UnknownStateError(BudgetError):
    """A move to something that is none of the states."""

    code = "invalid_state"

    def __init__(self, state: str, path: str = "") -> None:
        super().__init__(f"Expected one of the declared states, got {state!r}", path)


class GuardBlockedError(BudgetError):
    """The guard does not let the machine move."""

    code = "guard_blocked"


class GuardAsyncError(BudgetError):
    """The guard answers asynchronously, and the move was asked for synchronously."""

    code = "guard_async"


class StaleTransitionError(BudgetError):
    """The machine moved while the guard was thinking: what it was asked no longer is the question."""

    code = "stale_transition"
