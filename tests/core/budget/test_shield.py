"""The counter: what each call does to it, in both modes, and its edges."""

from typing import Any

import pytest

from turnguard.core.budget.errors import MaxConsecutiveToolsError, ToolNameRequiredError
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard_protocol.settings import ShieldMode


def trips(shield: LoopShield, *tools: str | None) -> list[tuple[int, int] | None]:
    """For each call the payload of the trip it makes, if it makes one."""
    made = [shield.register(tool) for tool in tools]
    return [None if trip is None else (trip.consecutive_tools, trip.max_allowed) for trip in made]


def test_a_call_below_the_budget_is_counted_and_says_nothing() -> None:
    shield = LoopShield(3)
    assert trips(shield, "a", "b") == [None, None]
    assert (shield.count, shield.looping) == (2, False)


def test_the_call_that_reaches_the_budget_trips_it_and_later_ones_do_not() -> None:
    shield = LoopShield(2)
    assert trips(shield, "a", "b", "c", "d") == [None, (2, 2), None, None]
    assert (shield.count, shield.looping) == (4, True)


def test_consecutive_takes_any_tool_and_needs_no_name() -> None:
    assert trips(LoopShield(3), None, "", "a") == [None, None, (3, 3)]


def test_repeated_starts_at_one_with_another_tool() -> None:
    shield = LoopShield(3, "repeated")
    assert trips(shield, "a", "a", "b") == [None, None, None]
    assert shield.count == 1
    assert trips(shield, "b", "b") == [None, (5, 3)]


def test_repeated_does_not_trip_on_tools_in_turn() -> None:
    assert trips(LoopShield(2, "repeated"), *"ababab") == [None] * 6


def test_the_payload_is_the_whole_run_in_both_modes() -> None:
    assert trips(LoopShield(2, "repeated"), "x", "y", "a", "a")[-1] == (4, 2)
    shield = LoopShield(2, "repeated")
    assert [shield.register(tool) for tool in "xaa"][-1] == Trip(3, 2, 2, "a")


def test_another_tool_ends_the_episode_in_repeated() -> None:
    shield = LoopShield(2, "repeated")
    assert trips(shield, "a", "a", "a", "b", "b") == [None, (2, 2), None, None, (5, 2)]


def test_clearing_ends_the_run_the_streak_and_the_episode() -> None:
    for mode in ("consecutive", "repeated"):
        shield = LoopShield(2, mode)
        trips(shield, "a", "a")
        shield.clear()
        assert (shield.run, shield.streak, shield.count, shield.looping) == (0, 0, 0, False)
        assert trips(shield, "a", "a") == [None, (2, 2)]


def test_repeated_without_a_name_is_an_error_that_changes_nothing() -> None:
    for missing in (None, ""):
        shield = LoopShield(2, "repeated")
        trips(shield, "a", "a")
        before = shield.snapshot()
        with pytest.raises(ToolNameRequiredError):
            shield.register(missing)
        assert shield.snapshot() == before


def test_names_are_compared_exactly() -> None:
    shield = LoopShield(2, "repeated")
    assert trips(shield, "a", "A", "a ", "é", "e\u0301") == [None] * 5


def test_a_shield_that_is_off_counts_nothing_and_needs_no_names() -> None:
    for mode in ("consecutive", "repeated"):
        shield = LoopShield(0, mode, enabled=False)
        assert trips(shield, "a", None, "a") == [None] * 3
        assert (shield.count, shield.run, shield.looping) == (0, 0, False)


def test_a_budget_of_one_trips_at_the_first_call() -> None:
    assert trips(LoopShield(1), "a", "b") == [(1, 1), None]
    assert trips(LoopShield(1, "repeated"), "a", "b") == [(1, 1), None]


@pytest.mark.parametrize("mode", ["consecutive", "repeated"])
def test_a_budget_of_zero_is_used_up_from_the_outset(mode: ShieldMode) -> None:
    shield = LoopShield(0, mode)
    assert (shield.count, shield.looping) == (0, True)
    assert trips(shield, "a", "b") == [(1, 0), None]
    shield.clear()
    assert (shield.count, shield.looping) == (0, True)
    assert trips(shield, "a") == [(1, 0)], "every clearing ends the episode"


@pytest.mark.parametrize("wrong", [-1, 1.5, 2.0, True, False, None, "3"])
def test_a_budget_is_a_whole_number_of_calls(wrong: Any) -> None:
    for enabled in (True, False):
        with pytest.raises(MaxConsecutiveToolsError) as caught:
            LoopShield(wrong, enabled=enabled)
        assert (caught.value.code, caught.value.setting) == ("max_consecutive_tools", "loopShield.maxConsecutiveTools")


def test_looking_ahead_changes_nothing() -> None:
    shield = LoopShield(2)
    shield.register("a")
    ahead = shield.ahead(["b", "c"])
    assert (ahead.run, ahead.looping, ahead.fired) == (3, True, True)
    assert (shield.run, shield.looping, shield.fired) == (1, False, False)


def test_counts_come_back_from_a_snapshot() -> None:
    shield = LoopShield(2, "repeated")
    trips(shield, "x", "a", "a")
    other = LoopShield(2, "repeated")
    other.restore(shield.snapshot())
    assert trips(other, "a", "b", "b") == trips(shield, "a", "b", "b") == [None, None, (6, 2)]


def test_a_call_without_a_name_is_like_no_other_once_the_mode_becomes_repeated() -> None:
    shield = LoopShield(9)
    trips(shield, None, None, "a", None)
    assert (shield.run, shield.streak) == (4, 1)
