import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.core.turn.cap import CapReason, Raises, cap_reason, limit_of, should_halt_on_turn_tool_call_cap


@pytest.mark.parametrize(
    ("total", "repeat", "cap", "explicit", "reason"),
    [
        # an explicit cap is a hard one, whatever repeats
        (100, 100, 100, True, None),
        (101, 1, 100, True, CapReason.EXPLICIT_CAP),
        (1, 1, 1, True, None),
        (2, 1, 1, True, CapReason.EXPLICIT_CAP),
        # the default: up to the soft cap anything goes
        (100, 100, 100, False, None),
        # between the caps the repetition decides
        (101, 5, 100, False, None),
        (101, 6, 100, False, CapReason.STUCK),
        (1000, 5, 100, False, None),
        (1000, 6, 100, False, CapReason.STUCK),
        # past the backstop nothing goes
        (1001, 1, 100, False, CapReason.BACKSTOP),
        (1001, 6, 100, False, CapReason.BACKSTOP),
        # no cap
        (10**6, 10**6, None, False, None),
        (10**6, 10**6, 0, True, None),
        (10**6, 10**6, -1, True, None),
    ],
)
def test_which_part_of_the_cap_fires(
    total: int, repeat: int, cap: int | None, explicit: bool, reason: CapReason | None
) -> None:
    assert cap_reason(total, repeat, cap, explicit) is reason
    assert should_halt_on_turn_tool_call_cap(total, repeat, cap, explicit) is (reason is not None)


@pytest.mark.parametrize(
    ("reason", "explicit", "base"),
    [(CapReason.EXPLICIT_CAP, True, 100), (CapReason.STUCK, False, 100), (CapReason.BACKSTOP, False, 1000)],
)
def test_a_raise_moves_its_own_part_and_no_other(reason: CapReason, explicit: bool, base: int) -> None:
    raises = Raises(**{reason.value: 7})
    assert limit_of(reason, 100, raises) == base + 7
    assert cap_reason(base + 7, 6, 100, explicit, raises) is not reason
    assert cap_reason(base + 8, 6, 100, explicit, raises) is reason
    for other in set(CapReason) - {reason}:
        assert limit_of(other, 100, raises) == limit_of(other, 100)


@given(st.integers(0, 3000), st.integers(0, 20), st.integers(1, 300), st.booleans())
def test_more_calls_or_more_repeats_never_unhalt_a_turn(total: int, repeat: int, cap: int, explicit: bool) -> None:
    if should_halt_on_turn_tool_call_cap(total, repeat, cap, explicit):
        assert should_halt_on_turn_tool_call_cap(total + 1, repeat, cap, explicit)
        assert should_halt_on_turn_tool_call_cap(total, repeat + 1, cap, explicit)


@given(st.integers(0, 3000), st.integers(0, 20), st.integers(1, 300))
def test_the_adaptive_cap_is_never_stricter_than_the_same_value_set(total: int, repeat: int, cap: int) -> None:
    if should_halt_on_turn_tool_call_cap(total, repeat, cap, False):
        assert should_halt_on_turn_tool_call_cap(total, repeat, cap, True)
