"""The rule of the progress guard: every line of it, the numbers it leads to, and what holds for any turn."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, cycle, islice
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnguard.core.progress import HALT, QUARTERS, WARN, Progress, SeenCall, Trouble
from turnguard.core.thresholds import PROGRESS_WINDOW

# --- the rule, step by step -------------------------------------------------------------------------------------------

Step = Sequence[SeenCall]


def seen(tool: str = "read_file", args: Any = "a", outcome: Any = "x", **more: Any) -> SeenCall:
    return SeenCall(tool, str(args), None if outcome is None else str(outcome), **more)


def new(number: int) -> SeenCall:
    return seen(args=f"new {number}", outcome=number)


def word(trouble: Trouble | None) -> str:
    return "" if trouble is None else "halt" if trouble.is_halt else "warn"


def scores(steps: Iterable[Step], progress: Progress | None = None) -> list[float]:
    """The score after each step."""
    progress = progress or Progress()
    return [(progress.step(step), progress.score / QUARTERS)[1] for step in steps]


def verdicts(steps: Iterable[Step], progress: Progress | None = None) -> list[tuple[int, str]]:
    """What is said, and after which step; nothing is fed after a halt."""
    progress = progress or Progress()
    said: list[tuple[int, str]] = []
    for number, step in enumerate(steps, start=1):
        trouble = progress.step(step)
        if trouble is not None:
            said.append((number, word(trouble)))
            if trouble.is_halt:
                break
    return said


def alone(*calls: SeenCall) -> list[Step]:
    """Each call in a step of its own."""
    return [[call] for call in calls]


def endless(*calls: SeenCall) -> Iterator[Step]:
    return islice(cycle(alone(*calls)), 100)


def test_one_call_with_one_outcome() -> None:
    assert scores(alone(*[seen()] * 5)) == [0, 0, 1, 3, 6]
    assert verdicts(endless(seen())) == [(4, "warn"), (5, "halt")]


QUOTED = [
    ("two calls in turn", endless(seen(args=1), seen(args=2)), 7, 8),
    ("period 10", endless(*(seen(args=n) for n in range(10))), 23, 26),
    (
        "one error with changing arguments",
        ([seen("bash", number, "E", ok=False)] for number in range(100)),
        5,
        8,
    ),
    ("an unchanged poll", endless(seen("bash", hint="sleep")), 14, 26),
]


@pytest.mark.parametrize(("steps", "warned", "halted"), [row[1:] for row in QUOTED], ids=[row[0] for row in QUOTED])
def test_the_numbers_of_the_page(steps: Iterable[Step], warned: int, halted: int) -> None:
    assert verdicts(steps) == [(warned, "warn"), (halted, "halt")]


def test_a_longer_period_than_half_the_window_is_not_seen() -> None:
    assert verdicts(endless(*(seen(args=n) for n in range(11)))) == []


# --- tokens


def test_evidence_is_tool_arguments_and_outcome() -> None:
    for other in (seen("grep"), seen(args="b"), seen(outcome="y")):
        assert scores(alone(seen(), seen(), other, seen(), other, other)) == [0, 0, 0, 1, 1, 2]


def test_neither_status_nor_hint_is_evidence() -> None:
    assert scores(alone(seen(), seen(ok=True), seen(hint="ls"))) == [0, 0, 1]


def test_the_parts_of_evidence_do_not_run_together() -> None:
    assert scores(alone(seen("a", "bc"), seen("ab", "c"), seen("a", "b", "cx"), seen("a'", "b"))) == [0] * 4


def test_the_result_of_an_edit_is_ignored() -> None:
    growing = [seen("Edit", "a", number) for number in range(5)]
    assert scores(alone(*growing)) == [0, 0, 1, 3, 6]
    by_hint = [seen("str_replace_editor", "a", number, hint="insert") for number in range(5)]
    assert scores(alone(*by_hint)) == [0, 0, 1, 3, 6]


def test_the_result_of_a_failed_edit_is_not() -> None:
    assert scores(alone(*(seen("Edit", "a", number, ok=False) for number in range(6)))) == [0] * 6


def test_an_edit_that_failed_and_then_works_is_new() -> None:
    progress = Progress()
    assert scores(alone(*[seen("Edit", ok=False)] * 3, seen("Edit"), seen("Edit")), progress) == [0, 0, 1, 0, 0]


def test_a_failed_call_belongs_to_its_tool_and_error() -> None:
    failing = [seen("bash", number, "E", ok=False) for number in range(4)]
    assert scores(alone(*failing)) == [0, 0, 1, 2]
    other_tool = [seen(f"bash{number}", number, "E", ok=False) for number in range(4)]
    other_error = [seen("bash", number, number, ok=False) for number in range(4)]
    not_failed = [seen("bash", number, "E", ok=ok) for number, ok in enumerate((None, True, None, True))]
    for calls in (other_tool, other_error, not_failed):
        assert scores(alone(*calls)) == [0] * 4


def test_a_final_call_belongs_to_its_tool() -> None:
    assert scores(alone(*(seen("finish", number, number) for number in range(4)))) == [0, 0, 1, 2]
    assert scores(alone(*(seen("finish", number, number, ok=True) for number in range(4)))) == [0, 0, 1, 2]
    assert scores(alone(*(seen(f"x{number}__finish", number, number) for number in range(4)))) == [0] * 4
    assert scores(alone(*(seen("finish", number, number, ok=False) for number in range(4)))) == [0] * 4


def test_an_unknown_outcome_says_nothing() -> None:
    progress = Progress()
    assert scores(alone(*[seen(outcome=None)] * 10), progress) == [0] * 10
    assert len(progress.evidence) == 0
    unknown = seen(args="z", outcome=None)
    assert scores(alone(seen(), unknown, seen(), unknown, seen(), unknown, seen())) == [0, 0, 0, 0, 1, 1, 3]


# --- update: 1, what is new


def test_equal_calls_of_a_step_count_once() -> None:
    assert scores([[seen()] * 3] * 4) == [0, 0, 1, 3]


def test_calls_of_a_step_are_simultaneous() -> None:
    progress = Progress()
    progress.step([seen()])
    progress.step([seen(), seen(outcome="y")])
    assert scores([[seen(), seen(outcome="y")]] * 2, progress) == [1, 4]


def test_a_second_sight_is_free_and_takes_nothing_off() -> None:
    assert scores(alone(*[seen()] * 3, seen(args="b"), seen(args="b"), seen())) == [0, 0, 1, 0, 0, 2]


def test_one_error_of_a_step_counts_once() -> None:
    failing = [[seen("bash", f"{step} {number}", "E", ok=False) for number in range(3)] for step in range(4)]
    assert scores(failing) == [0, 1, 2, 3]


def test_a_second_call_with_the_error_of_the_step_is_not_new() -> None:
    progress = Progress()
    progress.step(alone(seen())[0])
    assert scores([[seen()], [seen()], [seen()]], progress) == [0, 1, 3]
    failing = [seen("bash", number, "E", ok=False) for number in range(3)]
    assert scores([failing], progress) == [2]


def test_a_new_call_with_a_known_error_is_not_new() -> None:
    progress = Progress()
    assert scores(alone(*[seen()] * 4, seen("bash", 1, "E", ok=False)), progress) == [0, 0, 1, 3, 2]
    assert scores(alone(seen("bash", 2, "E", ok=False), seen("bash", 3, "F", ok=False)), progress) == [2, 1]


# --- update: 2, points


def test_a_family_gives_one_point_and_no_more() -> None:
    assert scores(alone(*(seen("bash", number, "E", ok=False) for number in range(8))))[:6] == [0, 0, 1, 2, 3, 4]


def test_of_evidence_and_family_the_greater_counts() -> None:
    assert scores(alone(*[seen("bash", 1, "E", ok=False)] * 5)) == [0, 0, 1, 3, 6]
    progress = Progress()
    progress.step([seen("bash", 1, "E", ok=False)])
    progress.step([seen("bash", 2, "E", ok=False)])
    assert scores(alone(seen("bash", 1, "E", ok=False)), progress) == [1]


BUILD, EDIT = seen("bash", "build", "silent", ok=True, hint="make"), "Edit"


def test_a_check_after_a_new_edit_is_excused() -> None:
    steps = chain.from_iterable(alone(seen(EDIT, number, "done"), BUILD) for number in range(20))
    assert verdicts(steps) == []


@pytest.mark.parametrize(
    "check",
    [
        seen("bash", "build", "silent", hint="make"),
        seen("bash", "build", "broken", ok=False, hint="make"),
        seen("finish", "build", "silent", ok=True),
        seen("Write", "build", "silent", ok=True),
    ],
    ids=["not said", "failed", "final", "edit"],
)
def test_the_excuse_is_for_calls_that_succeeded_and_are_no_edits(check: SeenCall) -> None:
    progress = Progress()
    steps = chain.from_iterable(alone(seen(EDIT, number, "done"), check) for number in range(4))
    scores(steps, progress)
    assert progress.score > 0


def test_the_excuse_needs_an_edit_since_the_latest_sight() -> None:
    progress = Progress()
    assert scores(alone(BUILD, BUILD, BUILD, seen(EDIT), BUILD, BUILD), progress) == [0, 0, 1, 0, 0, 3]


@pytest.mark.parametrize(
    "edit",
    [seen(EDIT, "old"), seen(EDIT, "new", "E", ok=False), seen("read_file", "new")],
    ids=["seen before", "failed", "no edit"],
)
def test_what_is_no_excuse(edit: SeenCall) -> None:
    steps = alone(seen(EDIT, "old"), *[BUILD] * 2, edit, BUILD)
    assert scores(steps)[-1] == 1


def test_an_edit_of_the_same_step_excuses_in_any_order() -> None:
    for step in ([BUILD, seen(EDIT, "new")], [seen(EDIT, "new"), BUILD]):
        assert scores([*alone(*[BUILD] * 4), step, [BUILD]]) == [0, 0, 1, 3, 2, 6]


def test_a_poll_adds_a_quarter() -> None:
    poll = seen("bash", hint="sleep")
    assert scores(alone(*[poll] * 5)) == [0, 0, 0.25, 0.5, 0.75]
    failing = [seen("BashOutput", number, "E", ok=False) for number in range(4)]
    assert scores(alone(*failing)) == [0, 0, 0.25, 0.5]


def test_a_poll_is_excused_too() -> None:
    poll = seen("BashOutput", ok=True)
    assert scores(alone(poll, poll, seen(EDIT), poll)) == [0, 0, 0, 0]


# --- update: 3, what is remembered


def test_the_window_is_twenty_calls() -> None:
    fill = [new(number) for number in range(PROGRESS_WINDOW)]
    assert scores(alone(seen(), seen(), *fill[2:], seen()))[-1] == 1
    assert scores(alone(seen(), seen(), *fill[1:], seen()))[-1] == 0
    progress = Progress()
    assert scores([[seen()], [seen()], fill, [seen()]], progress)[-1] == 0
    assert len(progress.evidence) == len(progress.families) == len(progress.edits_at) == PROGRESS_WINDOW


def test_equal_calls_of_a_step_are_one_entry() -> None:
    progress = Progress()
    progress.step([seen()] * 30)
    assert len(progress.evidence) == 1


# --- update: 4, the score


def test_each_new_call_takes_one_off_and_no_more_than_there_is() -> None:
    progress = Progress()
    assert scores(alone(*[seen()] * 4), progress)[-1] == 3
    assert scores([[new(1)], [new(2), new(3)], [new(4)]], progress) == [2, 0, 0]
    assert scores([[seen(), *map(new, range(5, 7))]], progress) == [1]


def test_a_warning_comes_again_when_no_points_are_left() -> None:
    progress = Progress()
    assert verdicts(alone(*[seen()] * 4), progress) == [(4, "warn")]
    assert verdicts(alone(new(1), new(2), seen(args="b"), seen(args="b")), progress) == []
    assert progress.score == 0
    assert verdicts(alone(*[seen(args="b")] * 2), progress) == [(2, "warn")]


def test_a_warning_does_not_come_again_while_points_are_left() -> None:
    progress = Progress()
    verdicts(alone(*[seen()] * 4), progress)
    again = seen(args="b")
    assert verdicts(alone(*[again] * 4), progress) == []
    assert scores(alone(again), progress) == [8]


# --- update: 5, the verdict


def test_a_warned_turn_gets_one_more_step() -> None:
    batch = [seen(args=number) for number in range(6)]
    progress = Progress()
    assert scores([batch, batch, batch], progress) == [0, 0, 5]
    assert verdicts([batch], progress) == [(1, "halt")]


def test_a_step_without_points_is_never_found_fault_with() -> None:
    progress = Progress()
    batch = [seen(args=number) for number in range(6)]
    verdicts([batch, batch, batch], progress)
    assert verdicts([[], [seen(outcome=None)], [new(1)]], progress) == []
    assert progress.score == 4 * QUARTERS
    late = Progress()
    late.score, late.warned_at = HALT, 0
    assert verdicts([[], [seen(), seen(outcome=None)], [seen()], [seen()]], late) == [(4, "halt")]


def test_a_threshold_counts_as_soon_as_it_is_reached() -> None:
    for score, warned_at, said in (
        (WARN - 2, None, ""),
        (WARN - 1, None, "warn"),
        (HALT - 2, 0, ""),
        (HALT - 1, 0, "halt"),
    ):
        progress = Progress()
        scores(alone(*[seen("BashOutput")] * 2), progress)
        progress.score, progress.warned_at = score, warned_at
        assert word(progress.step([seen("BashOutput")])) == said


# --- reasons


def troubles(steps: Iterable[Step]) -> list[tuple[str, str, str, int]]:
    progress = Progress()
    said = [progress.step(step) for step in steps]
    return [(word(each), each.kind, each.call.tool, each.count) for each in said if each is not None]


REASONS: list[tuple[Sequence[Step], list[tuple[str, str, str, int]]]] = [
    (alone(*[seen()] * 5), [("warn", "call", "read_file", 4), ("halt", "call", "read_file", 5)]),
    (alone(*[seen("Edit")] * 5), [("warn", "edit", "Edit", 4), ("halt", "edit", "Edit", 5)]),
    (alone(*[seen("Edit", ok=False)] * 5), [("warn", "call", "Edit", 4), ("halt", "call", "Edit", 5)]),
    (
        [[seen("bash", number, "E", ok=False)] for number in range(8)],
        [("warn", "error", "bash", 5), ("halt", "error", "bash", 8)],
    ),
    (
        [[seen("finish", number, number)] for number in range(8)],
        [("warn", "final", "finish", 5), ("halt", "final", "finish", 8)],
    ),
    ([[seen("a"), seen("b"), seen("c")]] * 3, [("warn", "call", "a", 3)]),
    ([[seen("a", ok=False), seen("b"), seen("c")]] * 3, [("warn", "call", "a", 3)]),
    ([[seen("b"), seen("a")]] * 3 + [[seen("a"), seen("b")]], [("warn", "call", "a", 4)]),
    ([*alone(*[seen("a")] * 3), *[[seen("b"), seen("a")]] * 2], [("warn", "call", "a", 5)]),
]


@pytest.mark.parametrize(("steps", "said"), REASONS)
def test_the_reason_is_the_call_with_the_most_points(
    steps: Sequence[Step], said: list[tuple[str, str, str, int]]
) -> None:
    assert troubles(steps) == said


# --- what holds for any turn ------------------------------------------------------------------------------------------

Strategy = st.SearchStrategy[Any]

calls: Strategy = st.builds(
    SeenCall,
    st.sampled_from(["bash", "Edit", "finish", "BashOutput", "str_replace_editor"]),
    st.sampled_from("ab"),
    st.sampled_from(["x", "x", "x", "y", None]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "sleep", "create"]),
)
steps_of_turns: Strategy = st.lists(
    st.one_of(
        st.builds(lambda step, times: [step] * times, st.lists(calls, max_size=4), st.integers(1, 6)),
        st.integers().map(lambda number: [[new(number)]]),
    ),
    max_size=15,
).map(lambda runs: list(chain.from_iterable(runs)))
many = settings(max_examples=300, deadline=None)


@many
@given(steps_of_turns)
def test_no_halt_without_a_warning_at_least_a_step_earlier(steps: list[Step]) -> None:
    said = verdicts(steps)
    assert [each for _, each in said] in (["warn"] * len(said), ["warn"] * (len(said) - 1) + ["halt"])
    if said and said[-1][1] == "halt":
        assert len(said) > 1


@many
@given(steps_of_turns)
def test_no_verdict_on_a_step_without_a_stale_call(steps: list[Step]) -> None:
    progress = Progress()
    made: set[tuple[str, str]] = set()
    errors: set[tuple[str, str | None]] = set()
    for step in steps:
        trouble = progress.step(step)
        is_fresh = all((call.tool, call.args) not in made for call in step)
        has_fresh_errors = all((call.tool, call.outcome) not in errors for call in step)
        if is_fresh and has_fresh_errors and all(call.tool != "finish" for call in step):
            assert trouble is None
        made |= {(call.tool, call.args) for call in step}
        errors |= {(call.tool, call.outcome) for call in step if call.ok is False}


@many
@given(steps_of_turns, st.randoms(use_true_random=False))
def test_the_order_of_different_calls_without_families_does_not_matter(steps: list[Step], random: Random) -> None:
    """Of calls of one family the first of a step may be new, and past the window the order says what is forgotten."""
    one, other = Progress(), Progress()
    for step in steps:
        plain = [call for call in step if call.ok is not False and call.tool != "finish"]
        different = list({(call.tool, call.args): call for call in plain}.values())
        if len(one.evidence) + len(different) > PROGRESS_WINDOW:
            break
        said = word(one.step(different))
        assert word(other.step(random.sample(different, len(different)))) == said
        assert other.score == one.score


@many
@given(steps_of_turns, st.integers(0, 40))
def test_snapshot_and_restore_cannot_be_seen(steps: list[Step], place: int) -> None:
    progress, other = Progress(), Progress()
    for number, step in enumerate(steps):
        if number == place:
            other = Progress.restored(msgspec.json.decode(msgspec.json.encode(other.snapshot())))
        assert other.step(step) == progress.step(step)
        assert other.snapshot() == progress.snapshot()


@many
@given(steps_of_turns)
def test_the_state_is_bounded_and_the_score_is_never_negative(steps: list[Step]) -> None:
    progress = Progress()
    for step in steps:
        progress.step(step)
        assert progress.score >= 0
        assert len(progress.evidence) <= PROGRESS_WINDOW
        assert len({*progress.evidence, *progress.families} - {0}) <= 2 * PROGRESS_WINDOW
