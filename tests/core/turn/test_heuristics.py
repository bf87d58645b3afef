"""The gated detectors side by side: what each sees in a call, in which order they speak, and what clears which."""

import json
from collections.abc import Callable

import pytest

from turnguard.core import thresholds
from turnguard.core.turn.heuristics import Heuristics
from turnguard.core.turn.repeats import Loop, Request

DUPLICATE = "global_tool_call_duplicate"
ALTERNATING = "alternating_tool_call_pattern"
READ_LOOP = "read_file_loop"
STAGNATION = "action_stagnation"
CHANTING = "chanting_identical_sentences"
THOUGHTS = "repetitive_thoughts"


def ask(state: Heuristics, name: str, key: str | None, *, is_read: bool = False) -> list[str]:
    return [loop.loop_type for loop in state.check_call(Request(name, key, is_read))]


def ask_loop(state: Heuristics, name: str, key: str) -> Loop:
    (loop,) = state.check_call(Request(name, key))
    return loop


def repeated(state: Heuristics, times: int, key: str = "k", start: int = 0) -> list[str]:
    """What is said to the last of these equal calls, with others between them so that only the repeats count."""
    said: list[str] = []
    for number in range(start, start + times):
        for other in range(2):
            ask(state, f"{number} {other}", f"{number} {other}")
        said = ask(state, "tool", key)
    return said


# --- calls ------------------------------------------------------------------------------------------------------------


def test_the_sixth_request_of_a_key_anywhere_in_the_turn_is_a_duplicate() -> None:
    assert repeated(Heuristics(), thresholds.GLOBAL_DUPLICATE_THRESHOLD - 1) == []
    state = Heuristics()
    repeated(state, 5)
    loop = ask_loop(state, "tool", "k")
    assert (loop.loop_type, loop.count, loop.threshold, loop.tool, loop.key) == (DUPLICATE, 6, 6, "tool", "k")


def test_duplicates_are_counted_by_key_not_by_tool() -> None:
    state = Heuristics()
    repeated(state, 5)
    assert ask(state, "tool", "another") == []


def test_a_key_that_was_not_forgiven_goes_on_tripping_and_no_other_does() -> None:
    state = Heuristics()
    repeated(state, 6)
    assert ask(state, "other", "other") == []
    assert ask(state, "tool", "k") == [DUPLICATE]


def test_requests_of_a_stateful_read_are_no_duplicates() -> None:
    state = Heuristics()
    for number in range(12):
        ask(state, f"{number}", f"{number}")
        ask(state, f"{number}", f"{-number}")
        assert ask(state, "task_list", "k") == []


def test_calls_without_identity_are_no_duplicates_and_no_pair_but_one_tool_in_a_row() -> None:
    state = Heuristics()
    assert [ask(state, "tool", None) for _ in range(8)] == [[]] * 7 + [[STAGNATION]]


def test_two_calls_by_turns_are_named_both() -> None:
    state = Heuristics()
    for _ in range(2):
        ask(state, "edit", "a")
        ask(state, "run", "b")
    ask(state, "edit", "a")
    loop = ask_loop(state, "run", "b")
    assert (loop.loop_type, loop.tool, loop.paired_tool, loop.key) == (ALTERNATING, "run", "edit", "b")
    assert (loop.count, loop.threshold) == (3, 3)


def test_eight_reads_in_the_window_are_a_read_loop_once_something_else_was_asked_for() -> None:
    state = Heuristics()
    ask(state, "edit", "e")
    said = [ask(state, f"read_{n % 3}", str(n), is_read=True) for n in range(8)]
    assert said == [[]] * 7 + [[READ_LOOP]]


def test_nine_opening_reads_and_an_edit_stop_on_the_edit() -> None:
    state = Heuristics()
    for number in range(9):
        assert ask(state, f"read_{number % 3}", str(number), is_read=True) == []
    assert ask(state, "edit", "e") == [READ_LOOP]


def test_eight_opening_calls_of_one_reading_tool_stop_all_the_same() -> None:
    state = Heuristics()
    said = [ask(state, "read_file", str(n), is_read=True) for n in range(8)]
    assert said == [[]] * 7 + [[STAGNATION]]


def test_one_tool_in_a_row_is_known_by_its_raw_name() -> None:
    state = Heuristics()
    said = [ask(state, "edit" if n < 7 else "replace", str(n)) for n in range(14)]
    assert said == [[]] * 14
    assert ask(state, "replace", "14") == [STAGNATION]


def test_all_four_speak_and_in_their_order() -> None:
    state = Heuristics()
    ask(state, "x", "x")
    for number in range(2):
        ask(state, "read", f"warm {number}", is_read=True)
    for _ in range(2):
        ask(state, "read", "a", is_read=True)
        ask(state, "read", "b", is_read=True)
    for _ in range(3):
        state.requests.add("b", "read")
    state.same_tool.length = 6
    ask(state, "read", "a", is_read=True)
    assert ask(state, "read", "b", is_read=True) == [DUPLICATE, ALTERNATING, READ_LOOP, STAGNATION]


def test_a_detector_that_speaks_does_not_keep_the_others_from_counting() -> None:
    state = Heuristics()
    said = [ask(state, "tool", "k") for _ in range(8)]
    assert said[5:] == [[DUPLICATE], [DUPLICATE], [DUPLICATE, STAGNATION]]


def test_a_new_result_makes_the_last_call_the_first_of_its_tool() -> None:
    state = Heuristics()
    for number in range(7):
        ask(state, "task_list", str(number))
    state.note_progress("other")
    assert state.same_tool.length == 7
    state.note_progress("task_list")
    said = [ask(state, "task_list", str(n)) for n in range(10, 17)]
    assert said == [[]] * 6 + [[STAGNATION]]


# --- words ------------------------------------------------------------------------------------------------------------


def think(state: Heuristics, subject: str, description: str) -> str | None:
    loop = state.check_thought(subject, description)
    return loop.loop_type if loop else None


def test_a_call_forgets_text_and_thoughts() -> None:
    state = Heuristics()
    state.text.add("x" * 58)
    think(state, "", "")
    think(state, "", "")
    ask(state, "tool", "k")
    assert state.text.add("x" * 58) is None
    assert [think(state, "", "") for _ in range(3)] == [None, None, THOUGHTS]


def test_text_between_thoughts_does_not_come_between_them() -> None:
    state = Heuristics()
    think(state, "s", "d")
    state.text.add_delta("- text")
    think(state, "s", "d")
    assert think(state, "S", "d ") == THOUGHTS


def test_a_thought_is_text_with_its_parts_joined_by_a_space() -> None:
    state = Heuristics()
    for subject, description in (("one", "two"), ("three", ""), ("", "four"), ("", "")):
        think(state, subject, description)
    assert state.text.text == "one twothreefour"


def test_thoughts_and_text_share_one_history() -> None:
    state = Heuristics()
    state.text.add_delta("x" * 40)
    assert think(state, "", "x" * 19) == CHANTING


def test_a_thought_is_no_markdown() -> None:
    state = Heuristics()
    think(state, "", "# a")
    think(state, "", "```")
    assert (state.text.text, state.text.in_code) == ("# a```", False)
    state.text.add_delta("```")
    think(state, "", "thought in code")
    assert state.text.text == "thought in code"


def test_a_repeated_thought_is_named_before_its_words_are_read() -> None:
    state = Heuristics()
    said = [think(state, "", "y" * 19 + str(n % 1)) for n in range(3)]
    assert said == [None, None, THOUGHTS]
    assert state.text.text == ("y" * 19 + "0") * 2


# --- what clears what -------------------------------------------------------------------------------------------------


def full() -> Heuristics:
    """A state in which every detector holds something."""
    state = Heuristics()
    for name, key in (("edit", "a"), ("run", "b"), ("edit", "a"), ("read_file", "c"), ("read_file", "d")):
        ask(state, name, key, is_read=name == "read_file")
    state.text.add_delta("```")
    think(state, "s", "d")
    return state


def held(state: Heuristics) -> set[str]:
    """Which parts of the state hold something."""
    parts = {
        "requests": bool(state.requests.counts),
        "alternation": bool(state.alternation.calls),
        "reads": bool(state.read_window.recent),
        "warm": not state.read_window.is_cold,
        "same tool": state.same_tool.length > 0,
        "text": bool(state.text.text),
        "thoughts": state.thoughts.length > 0,
        "in code": state.text.in_code,
    }
    return {name for name, holds in parts.items() if holds}


EVERYTHING = {"requests", "alternation", "reads", "warm", "same tool", "text", "thoughts", "in code"}


@pytest.mark.parametrize(
    ("event", "cleared"),
    [
        (lambda state: state.retry(is_continuation=False), {"requests", "alternation", "text", "thoughts"}),
        (lambda state: state.retry(is_continuation=True), {"requests", "alternation"}),
        (lambda state: state.reset(), EVERYTHING - {"in code"}),
        (lambda state: state.forget_words(), {"text", "thoughts"}),
        (lambda state: state.forgive(DUPLICATE), {"requests"}),
        (lambda state: state.forgive(ALTERNATING), {"alternation"}),
        (lambda state: state.forgive(READ_LOOP), {"reads"}),
        (lambda state: state.forgive(STAGNATION), {"same tool"}),
        (lambda state: state.forgive(CHANTING), {"text"}),
        (lambda state: state.forgive(THOUGHTS), {"thoughts"}),
    ],
)
def test_what_clears_what(event: Callable[[Heuristics], None], cleared: set[str]) -> None:
    state = full()
    assert held(state) == EVERYTHING
    event(state)
    assert held(state) == EVERYTHING - cleared


def test_a_restored_state_is_the_same() -> None:
    state = full()
    restored = Heuristics.restored(json.loads(json.dumps(state.snapshot())))
    assert held(restored) == EVERYTHING
    assert restored.snapshot() == state.snapshot()
