"""Text that chants, and what makes two thoughts equal. Positions are UTF-16 units."""

import json
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.core import thresholds
from turnguard.core.turn.repeats import Streak
from turnguard.core.turn.text import TextHistory, from_units, repeats_thought, thought_identity, to_units

FULL = thresholds.CONTENT_ANALYSIS_LENGTH
SLACK = thresholds.MAX_HISTORY_LENGTH - FULL


def prose(length: int, seed: int = 0) -> str:
    """Text in which nothing repeats and nothing is Markdown."""
    pieces = (sha256(f"{seed} {length} {number}".encode()).hexdigest() for number in range(length // 64 + 1))
    return "".join(pieces)[:length]


def stops_after(text: str, history: TextHistory | None = None) -> int | None:
    """After how many units of the text, told one by one, it chants."""
    history = history or TextHistory()
    units = to_units(text)
    return next((n for n, unit in enumerate(units, start=1) if history.add(unit) is not None), None)


def chants(deltas: Sequence[str]) -> bool:
    history = TextHistory()
    return any(history.add_delta(delta) is not None for delta in deltas)


# --- windows that crowd -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["x", " ", "中"])
def test_fifty_nine_equal_characters_chant(character: str) -> None:
    assert stops_after(character * 59) == 59
    assert stops_after(character * 58) is None


@pytest.mark.parametrize("length", [2, 10, 49, 50, 51, 74, 75])
def test_a_block_up_to_seventy_five_units_stops_at_its_tenth_window(length: int) -> None:
    assert stops_after(prose(length) * 70) == 9 * length + 50


def test_ten_windows_chant_when_they_lie_on_average_seventy_five_units_apart_whatever_is_between() -> None:
    window = prose(50)
    spaced = "".join(window + prose(25, seed) for seed in range(20))
    assert stops_after(spaced) == 9 * 75 + 50
    wider = "".join(window + prose(26, seed) for seed in range(60))
    assert stops_after(wider) is None


def test_only_the_last_ten_windows_are_measured() -> None:
    window = prose(50)
    sparse = "".join(window + prose(300, seed) for seed in range(3))
    dense = "".join(window + prose(20, seed) for seed in range(10, 30))
    assert stops_after(sparse + dense) == len(sparse) + 9 * 70 + 50


def test_a_finding_tells_occurrences_and_how_many_are_needed() -> None:
    loop = TextHistory().add("x" * 60)
    assert loop is not None
    assert (loop.loop_type, loop.count, loop.threshold) == ("chanting_identical_sentences", 10, 10)


# --- blocks that repeat -----------------------------------------------------------------------------------------------


def test_a_block_of_seventy_six_units_stops_in_its_fourteenth_copy() -> None:
    assert stops_after(prose(76) * 20) == 13 * 76 + 50


def test_a_block_of_a_hundred_and_fifty_units_stops_in_its_eighth_copy() -> None:
    assert stops_after(prose(150) * 20) == 7 * 150 + 50


@pytest.mark.parametrize(("length", "copies"), [(190, 4), (237, 4), (238, 4), (250, 4), (600, 4), (987, 4)])
def test_five_copies_are_needed_and_a_thousand_units(length: int, copies: int) -> None:
    needed = copies if copies * length + 50 >= 1000 else copies + 1
    assert stops_after(prose(length) * 20) == needed * length + 50


@pytest.mark.parametrize("length", [988, 1000, 1600, 1975])
def test_three_copies_are_enough_in_a_full_history_that_is_nothing_else(length: int) -> None:
    assert stops_after(prose(length) * 10) == FULL


def test_a_block_that_does_not_fit_three_times_is_never_seen() -> None:
    assert stops_after(prose(1976) * 6) is None


def test_three_copies_are_not_enough_while_older_text_counts() -> None:
    assert stops_after(prose(200) + prose(1000) * 10) == 200 + FULL


def test_windows_equally_far_apart_are_no_block_when_the_text_between_them_varies() -> None:
    text = "".join(prose(60) + prose(60, seed) for seed in range(1, 60))
    assert stops_after(text) is None


def test_a_full_history_with_something_else_in_it_needs_five_copies() -> None:
    varied = "".join(prose(1000)[:900] + prose(100, seed) for seed in range(1, 9))
    assert stops_after(varied) is None


def test_a_run_begins_where_the_distance_changes() -> None:
    block = prose(150)
    assert stops_after(block + prose(7, 1) + block * 20) == 157 + 7 * 150 + 50


def test_a_finding_tells_the_run_and_how_long_it_had_to_be() -> None:
    for length, run, threshold in ((150, 8, 5), (1600, 3, 3)):
        history = TextHistory()
        loops = [loop for unit in prose(length) * 9 if (loop := history.add(unit)) is not None]
        assert (loops[0].count, loops[0].threshold) == (run, threshold)


# --- what counts of the history ---------------------------------------------------------------------------------------


def test_text_before_the_last_four_thousand_units_does_not_count() -> None:
    chant, rest = "x" * 60, prose(FULL + SLACK // 2)
    assert TextHistory().add(chant + rest) is None
    assert TextHistory().add(chant + prose(FULL - 60)) is not None


def test_old_text_is_cut_off_when_a_thousand_units_more_have_piled_up() -> None:
    history = TextHistory()
    history.add(prose(FULL + SLACK))
    assert len(history.text) == FULL + SLACK
    history.add("!")
    assert len(history.text) == FULL
    assert history.text.endswith("!")
    history.add(prose(20_000, 1))
    assert history.text == prose(20_000, 1)[-FULL:]


def test_occurrences_keep_their_places_when_old_text_is_cut_off() -> None:
    before = prose(FULL + SLACK - 500)
    assert stops_after(before + prose(150, 1) * 20) == len(before) + 7 * 150 + 50
    assert stops_after(before + "x" * 600) == len(before) + 59


def test_the_delta_that_makes_old_text_go_is_read_whole() -> None:
    history = TextHistory()
    history.add(prose(FULL + SLACK - 1))
    assert history.add("x" * 59) is not None


def test_windows_that_are_gone_are_forgotten() -> None:
    history = TextHistory()
    for seed in range(20):
        history.add(prose(1000, seed))
    assert len(history.windows) <= FULL + SLACK
    assert all(start + 50 <= len(history.text) for starts in history.windows.values() for start in starts)


# --- UTF-16 -----------------------------------------------------------------------------------------------------------


def test_a_character_outside_the_basic_plane_is_two_units() -> None:
    assert to_units("a😀") == "a\ud83d\ude00"
    assert from_units(to_units("a😀\ud83d")) == "a😀\ud83d"
    assert stops_after("😀" * 40) == 68


def test_a_character_may_be_cut_in_two_by_the_border_of_deltas() -> None:
    whole, halves = TextHistory(), TextHistory()
    whole.add("a😀b")
    halves.add("a\ud83d")
    halves.add("\ude00b")
    assert whole.text == halves.text


def test_of_two_windows_that_differ_in_half_a_character_only_the_first_is_seen() -> None:
    start, windows = prose(49), 49 + 2 + 20 + 49 + 2 - 50 + 1
    history = TextHistory()
    history.add(start + "😀" + prose(20, 1) + start + "𝄞")
    assert sum(len(starts) for starts in history.windows.values()) == windows - 1
    history = TextHistory()
    history.add(start + "😀" + prose(20, 1) + start + "😁")
    assert sum(len(starts) for starts in history.windows.values()) == windows


def test_a_window_whose_first_owner_is_old_gets_another() -> None:
    start = prose(49)
    history = TextHistory()
    history.add(start + "😀" + prose(FULL, 1))
    history.add(start + "𝄞")
    assert [FULL + 51] in history.windows.values()


# --- Markdown ---------------------------------------------------------------------------------------------------------

STRUCTURE = [
    "| a | b |",
    "||",
    " \t| a |",
    "text\n  | a | b",
    "|a\x85b|",
    "|||",
    "+-|",
    "text\n|--",
    "--- text",
    "- x",
    "* x",
    "+ x",
    "12. x",
    "text\n\n  3. x",
    "\r- x",
    "\ufeff- x",
    "-\ufeffx",
    "-\u00a0x",
    "1.\n",
    "# h",
    "###\u3000h",
    "text\n## h",
    "> q",
    ">\n",
    "text\n> q",
]
NO_STRUCTURE = [
    "a | b | c",
    "|a\rb|",
    "|a\u2028b|",
    "|a\nb|",
    "|",
    "-- x",
    "+| x",
    "-x",
    "1.x",
    "1 . x",
    "a 1. x",
    "#h",
    " # h",
    ">q",
    " > q",
    "x\r- x",
    "x\u2028- x",
    "-\x1cx",
    "-\x85x",
    "\x85- x",
    "١. x",
    "x - y",
    "── ──",
    "───\n",
    "ABC",
    "123",
    "``",
]
DIVIDERS = ["-", "--", "_", "===", "*", "+", "═", "─━┄╿", "=*_+-"]


@pytest.mark.parametrize("delta", STRUCTURE)
def test_where_markdown_has_structure_prose_starts_anew(delta: str) -> None:
    history = TextHistory()
    history.add(prose(80))
    history.add_delta(delta)
    assert history.text == delta
    assert len(history.windows) == max(0, len(delta) - 49)


@pytest.mark.parametrize("delta", NO_STRUCTURE)
def test_what_only_looks_like_structure_is_prose(delta: str) -> None:
    history = TextHistory()
    history.add(prose(80))
    history.add_delta(delta)
    assert history.text == prose(80) + delta


@pytest.mark.parametrize("delta", DIVIDERS)
def test_prose_starts_anew_after_a_divider_which_is_none_of_it(delta: str) -> None:
    history = TextHistory()
    history.add(prose(80))
    history.add_delta(delta)
    assert history.text == ""
    assert not chants([delta] * 100)


def test_a_chant_of_list_items_is_none() -> None:
    item = f"- {prose(40)}"
    assert not chants([item] * 30)
    assert chants([item[1:]] * 30)


def test_code_is_no_prose_and_neither_are_the_deltas_that_open_and_close_it() -> None:
    history = TextHistory()
    for delta, in_code, text in (
        ("before", False, "before"),
        ("```py", True, ""),
        ("x" * 100, True, ""),
        ("end ``` of it", False, ""),
        ("after", False, "after"),
        ("a ```x``` b", False, "a ```x``` b"),
        ("``````", False, "``````"),
    ):
        assert history.add_delta(delta) is None
        assert (history.in_code, history.text) == (in_code, text), delta


def test_a_fence_cut_in_two_is_missed() -> None:
    history = TextHistory()
    history.add_delta("``")
    history.add_delta("`")
    assert (history.in_code, history.text) == (False, "```")


def test_forgetting_the_prose_does_not_close_a_fence() -> None:
    history = TextHistory()
    history.add_delta("```")
    history.clear()
    assert history.in_code


@pytest.mark.parametrize("delta", ["\n" * 200_000 + "x", "| " * 100_000, "\r" * 200_000 + "x", "#" * 200_000])
def test_a_long_delta_takes_no_quadratic_time(delta: str) -> None:
    history = TextHistory()
    history.add_delta(delta)
    assert len(history.text) <= FULL


# --- splits and snapshots ---------------------------------------------------------------------------------------------

blocks = st.text(alphabet="ab 😀", min_size=1, max_size=120)
chanted = st.builds(
    lambda before, block, times, after: before + block * times + after, blocks, blocks, st.integers(1, 30), blocks
)


cuts = st.lists(st.integers(0, 4 * FULL), max_size=8)


def split(units: str, at: Sequence[int]) -> list[str]:
    places = sorted(place % (len(units) + 1) for place in at)
    return [units[a:b] for a, b in zip([0, *places], [*places, len(units)], strict=True)]


@given(chanted, cuts)
def test_prose_that_fits_chants_or_not_however_it_is_split(text: str, at: list[int]) -> None:
    units = to_units(text)[: FULL - 1]
    assert chants(split(units, at)) == chants([units])


@given(chanted, cuts)
def test_a_restored_history_goes_on_as_the_first_one(text: str, at: list[int]) -> None:
    deltas = split(to_units(text * 3), at)
    history = TextHistory()
    for delta in deltas:
        restored = TextHistory()
        restored.restore(json.loads(json.dumps(history.snapshot())))
        assert restored.snapshot() == history.snapshot()
        loop = history.add_delta(delta)
        assert restored.add_delta(delta) == loop
        if loop is not None:
            return


def test_a_snapshot_does_not_change_with_what_follows() -> None:
    history = TextHistory()
    history.add(prose(60) * 2)
    snapshot = history.snapshot()
    written = json.dumps(snapshot)
    history.add(prose(60) * 2)
    assert json.dumps(snapshot) == written


# --- thoughts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((" Plan ", "Do it"), ("PLAN", " do IT ")),
        (("\ufeffa\u00a0", "b"), ("a", "\u2003b\n")),
        (("ÀÉ", "ΑΣ"), ("àé", "ας")),
        (("s", "x" * 200 + "a"), ("s", "x" * 200 + "b")),
        (("s", "   " + "x" * 200 + "a"), ("s", "x" * 200 + "b")),
        (("s", "x" * 199 + "😀"), ("s", "x" * 199 + "😁")),
        (("a|b", "c"), ("a", "b|c")),
    ],
)
def test_thoughts_that_are_equal(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert thought_identity(*one) == thought_identity(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", ""), ("", "a")),
        (("a\x1c", "b"), ("a", "b")),
        (("a\x85", "b"), ("a", "b")),
        (("s", "x" * 199 + "a"), ("s", "x" * 199 + "b")),
        (("s", "x" * 198 + "😀"), ("s", "x" * 198 + "😁")),
        (("x" * 300 + "a", ""), ("x" * 300 + "b", "")),
        (("s", "x" * 199 + " y"), ("s", "x" * 199)),
        (("a b", ""), ("a", "b")),
        (("ß", ""), ("ss", "")),
    ],
)
def test_thoughts_that_differ(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert thought_identity(*one) != thought_identity(*other)


@pytest.mark.parametrize("thought", [("plan", "do it"), ("", "")])
def test_the_third_equal_thought_in_a_row_is_a_loop(thought: tuple[str, str]) -> None:
    thoughts = Streak()
    loops = [repeats_thought(thoughts, *each) for each in [thought, thought, ("other", ""), thought, thought, thought]]
    assert loops[:5] == [None] * 5
    assert loops[5] is not None
    assert (loops[5].loop_type, loops[5].count, loops[5].threshold) == ("repetitive_thoughts", 3, 3)
