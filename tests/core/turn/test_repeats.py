"""Streaks and pairs."""

from collections.abc import Iterable

import pytest

from turnguard.core.turn.repeats import Alternation, Request, Streak


def request(key: str | None, name: str = "tool") -> Request:
    return Request(name, key)


def lengths(things: Iterable[str | None]) -> list[int]:
    streak = Streak()
    return [streak.add(thing) for thing in things]


def paired(keys: Iterable[str | None]) -> list[str | None]:
    """What the pair detector says to calls with these keys, each of a tool named after its key."""
    pairs = Alternation()
    return [pairs.add(request(key, f"tool {key}")) for key in keys]


def test_a_streak_grows_with_the_same_thing_and_begins_anew_with_another() -> None:
    assert lengths("aaabaa") == [1, 2, 3, 1, 1, 2]


def test_what_has_no_identity_never_continues_a_streak_and_breaks_one() -> None:
    assert lengths(["a", None, None, "a"]) == [1, 1, 1, 1]


def test_a_cleared_streak_begins_anew() -> None:
    streak = Streak()
    streak.add("a")
    streak.clear()
    assert (streak.of, streak.length) == (None, 0)
    assert streak.add("a") == 1


def test_the_sixth_call_by_turns_closes_the_third_cycle_and_names_the_other_tool() -> None:
    assert paired("ababab") == [None, None, None, None, None, "tool a"]
    assert paired("xxababab")[-2:] == [None, "tool a"]


@pytest.mark.parametrize(
    "keys", ["ababa", "aaaaaa", "abcabcabc", "ababbab", "abaaba", "acabab", "bbabab", "abacab", "ababac"]
)
def test_anything_but_one_pair_by_turns_passes(keys: str) -> None:
    assert set(paired(keys)) == {None}


def test_a_call_without_identity_is_no_part_of_a_pair() -> None:
    assert set(paired(["a", None] * 4)) == {None}
    assert set(paired([None, "a"] * 4)) == {None}


def test_only_the_last_six_calls_are_held() -> None:
    pairs = Alternation()
    for number in range(20):
        pairs.add(request(str(number)))
    assert [key for key, _ in pairs.calls] == ["14", "15", "16", "17", "18", "19"]


def test_a_cleared_window_of_pairs_begins_anew() -> None:
    pairs = Alternation()
    for key in "ababa":
        pairs.add(request(key))
    pairs.clear()
    assert [pairs.add(request(key, key)) for key in "bababa"] == [None] * 5 + ["b"]


def test_two_pair_windows_share_nothing() -> None:
    Alternation().add(request("a"))
    assert Alternation().calls == []


def test_the_key_of_a_stateful_read_is_no_repeat() -> None:
    assert request("k", "task_list").repeat_key is None
    assert request("k", "Task_List").repeat_key == "k"
    assert request(None).repeat_key is None
