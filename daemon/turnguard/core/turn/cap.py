"""The per-turn tool-call cap: hard when somebody set it, adaptive by default.

An explicit cap N halts on call N + 1. The default lets a turn go past the soft cap S while no call repeats, halts it
there once a call was made `GLOBAL_DUPLICATE_THRESHOLD` times, and halts any turn past the backstop 10 S.
"""

from enum import StrEnum

from msgspec import Struct

from turnguard.core.thresholds import ADAPTIVE_CAP_HARD_MULTIPLIER, GLOBAL_DUPLICATE_THRESHOLD


class CapReason(StrEnum):
    """Which part of the cap fired."""

    EXPLICIT_CAP = "explicit_cap"
    STUCK = "stuck"
    BACKSTOP = "backstop"


class Raises(Struct):
    """By how many calls a person raised each part of the cap, for one turn."""

    explicit_cap: int = 0
    stuck: int = 0
    backstop: int = 0


UNRAISED = Raises()


def limit_of(reason: CapReason, cap: int, raises: Raises = UNRAISED) -> int:
    """The number of calls past which this part of the cap may fire."""
    if reason is CapReason.BACKSTOP:
        return cap * ADAPTIVE_CAP_HARD_MULTIPLIER + raises.backstop
    return cap + (raises.explicit_cap if reason is CapReason.EXPLICIT_CAP else raises.stuck)


def cap_reason(
    total_calls: int, max_key_repeat: int, cap: int | None, is_explicit_cap: bool, raises: Raises = UNRAISED
) -> CapReason | None:
    """Which part of the cap halts a turn of `total_calls` calls, or None when it may go on.

    `cap` None or not positive: there is no cap. `max_key_repeat`: how often the most repeated call was made.
    """
    if cap is None or cap <= 0 or total_calls <= cap:
        return None
    if is_explicit_cap:
        return CapReason.EXPLICIT_CAP if total_calls > limit_of(CapReason.EXPLICIT_CAP, cap, raises) else None
    if total_calls > limit_of(CapReason.BACKSTOP, cap, raises):
        return CapReason.BACKSTOP
    if max_key_repeat >= GLOBAL_DUPLICATE_THRESHOLD and total_calls > limit_of(CapReason.STUCK, cap, raises):
        return CapReason.STUCK
    return None


def should_halt_on_turn_tool_call_cap(
    total_calls: int, max_key_repeat: int, cap: int | None, is_explicit_cap: bool
) -> bool:
    """Whether the cap halts the turn: the one predicate of both turn guards."""
    return cap_reason(total_calls, max_key_repeat, cap, is_explicit_cap) is not None
