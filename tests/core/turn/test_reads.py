"""Reads in a window, and the results of stateful reads."""

import pytest

from turnguard.core import thresholds
from turnguard.core.identity import read_outcome
from turnguard.core.turn import reads
from turnguard.core.turn.reads import ReadWindow, StatefulReads, fingerprint_of
from turnguard_protocol.events import Keys, Outcomes, Result


def counted_reads(pattern: str) -> list[int]:
    """What the window says to calls, `r` a read and anything else none."""
    window = ReadWindow()
    return [window.add(letter == "r") for letter in pattern]


def record(state: StatefulReads, results: str, key: str = "k", *, in_streak: bool = True) -> list[tuple[int, bool]]:
    return [state.record(key, fingerprint, in_streak=in_streak) for fingerprint in results]


# --- the window -------------------------------------------------------------------------------------------------------


def test_a_turn_may_open_with_any_number_of_reads() -> None:
    assert set(counted_reads("r" * 40)) == {0}


def test_the_call_that_ends_the_cold_start_counts_the_reads_before_it() -> None:
    assert counted_reads("rrrrrrrrr.")[-1] == 9
    assert counted_reads("rrrrrrr.")[-1] == 7


def test_reads_count_among_the_last_fifteen_calls() -> None:
    assert thresholds.READ_FILE_LOOP_WINDOW == 15
    assert counted_reads(".rrrrrrrr")[-1] == 8
    assert counted_reads("rrrrrrrr" + "." * 7)[-1] == 8
    assert counted_reads("rrrrrrrr" + "." * 8)[-1] == 7
    assert counted_reads("." + "r" * 30)[-1] == 15


def test_a_cleared_window_stays_warm() -> None:
    window = ReadWindow()
    for letter in ".rrrrrrr":
        window.add(letter == "r")
    window.clear()
    assert [window.add(True), window.add(True)] == [1, 2]


# --- which results belong to stateful reads ---------------------------------------------------------------------------


def test_a_result_is_paired_by_the_id_of_its_call_once() -> None:
    state = StatefulReads()
    state.expect("i", "k")
    assert state.key_of(Result(id="other")) is None
    assert state.key_of(Result(id="i", name="task_list", key="else")) == "k"
    assert state.key_of(Result(id="i", name="task_list", key="else")) is None


def test_a_result_without_an_id_is_known_by_its_tool_and_key() -> None:
    state = StatefulReads()
    assert state.key_of(Result(name="task_list", key="k")) == "k"
    assert state.key_of(Result(name="task_list", key=Keys("turn", "rolling"))) == "turn"
    assert state.key_of(Result(name="cron_list", key="k")) is None
    assert state.key_of(Result(name="task_list")) is None


def test_five_hundred_ids_are_awaited_and_the_oldest_goes_first() -> None:
    assert thresholds.MAX_PENDING_STATEFUL_READS == 500
    state = StatefulReads()
    for number in range(501):
        state.expect(f"i{number}", str(number))
    assert state.key_of(Result(id="i0")) is None
    assert state.key_of(Result(id="i1")) == "1"
    assert state.key_of(Result(id="i500")) == "500"


def test_an_id_that_is_awaited_already_pushes_none_out() -> None:
    state = StatefulReads()
    for number in [*range(500), 499]:
        state.expect(f"i{number}", str(number))
    assert len(state.pending) == 500
    assert state.key_of(Result(id="i0")) == "0"


@pytest.mark.parametrize("call_id", [None, ""])
def test_a_call_without_an_id_is_not_awaited(call_id: str | None) -> None:
    state = StatefulReads()
    state.expect(call_id, "k")
    assert state.pending == {}


def test_states_of_two_sessions_share_nothing() -> None:
    first = StatefulReads()
    first.expect("i", "k")
    record(first, "s")
    assert (StatefulReads().pending, StatefulReads().last) == ({}, {})


# --- results ----------------------------------------------------------------------------------------------------------


def test_equal_results_in_a_row_are_counted_and_a_changed_one_begins_anew() -> None:
    assert record(StatefulReads(), "aaab") == [(1, False), (2, False), (3, False), (1, True)]


def test_two_states_that_alternate_never_accumulate() -> None:
    assert {count for count, _ in record(StatefulReads(), "abababab")} == {1}


def test_keys_are_counted_apart() -> None:
    state = StatefulReads()
    record(state, "aa", "k")
    assert record(state, "a", "l") == [(1, False)]
    assert record(state, "a", "k") == [(3, False)]


def test_forgetting_the_counts_keeps_the_last_result() -> None:
    state = StatefulReads()
    record(state, "aaa")
    state.forget_counts()
    assert record(state, "aab") == [(1, False), (2, False), (1, True)]
    state.forget_counts()
    assert record(state, "a") == [(1, True)]


def test_a_turn_remembers_only_so_many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MAX_KEYS_A_TURN", 2)
    state = StatefulReads()
    for key in "abc":
        record(state, "x", key)
    assert record(state, "xx", "c") == [(1, False), (1, False)]
    assert record(state, "x", "a") == [(2, False)]


# --- the exception to the identical streak ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "is_fair"),
    [
        ("", False),
        ("abc", False),
        ("aaaa", False),
        ("abbb", True),
        ("aabb", True),
        ("aaab", True),
        ("abcd", True),
        ("abbbb", False),
        ("aaaaab", True),
    ],
)
def test_the_fifth_call_is_fair_when_every_call_before_has_a_result_and_one_changed(
    results: str, is_fair: bool
) -> None:
    state = StatefulReads()
    record(state, results)
    assert state.proves_change(thresholds.TOOL_CALL_LOOP_THRESHOLD) is is_fair


def test_results_outside_the_streak_prove_nothing_but_are_compared_with() -> None:
    state = StatefulReads()
    record(state, "abcd", in_streak=False)
    assert not state.proves_change(5)
    record(state, "ddd")
    assert (state.streak_results, state.streak_unchanged) == (3, 3)


def test_a_new_streak_needs_new_proof() -> None:
    state = StatefulReads()
    record(state, "abcd")
    assert state.proves_change(5)
    state.start_streak()
    assert not state.proves_change(5)
    record(state, "dddd")
    assert not state.proves_change(5)


def test_forgetting_the_counts_forgets_the_proof() -> None:
    state = StatefulReads()
    record(state, "abcd")
    state.forget_counts()
    assert not state.proves_change(5)


# --- fingerprints -----------------------------------------------------------------------------------------------------


def test_the_fingerprint_of_a_result() -> None:
    assert fingerprint_of(Result(outcome="o")) == "o"
    assert fingerprint_of(Result(outcome=Outcomes(read="r", rolling="x"))) == "r"


def test_a_response_that_nobody_identified_has_none() -> None:
    assert fingerprint_of(Result(outcome=Outcomes())) is None


def test_no_response_is_an_empty_one() -> None:
    assert fingerprint_of(Result()) == read_outcome(b"{}")
