"""All calls of one message are one batch, wherever its lines and its results stand."""

from hypothesis import given
from hypothesis import strategies as st
from tests.headless.build import step, steps

from turnguard.headless.batches import batches
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Call,
    Compacted,
    StepFinished,
    Text,
    ToolCalls,
    ToolResults,
    TurnStarted,
    UserInput,
)


def kinds(told: list[Told]) -> list[tuple[str, int]]:
    """What is told, each with how many calls or results."""
    shown: list[tuple[str, int]] = []
    for batch in batches(told):
        event = batch.told.event
        count = len(event.calls) if isinstance(event, ToolCalls) else 0
        count = len(event.results) if isinstance(event, ToolResults) else count
        shown.append((type(event).__name__, count))
    return shown


def test_calls_of_a_message_are_told_together_with_their_places() -> None:
    lines = step(1, "a", "b")
    lines = [lines[0], lines[2], lines[1]._replace(place=7), lines[3]]  # the first result comes before the second call
    [calls, results, end] = batches(lines)
    assert isinstance(calls.told.event, ToolCalls)
    assert [call.id for call in calls.told.event.calls] == ["m1c0", "m1c1"]
    assert calls.places == (1, 7)
    assert isinstance(results.told.event, ToolResults)
    assert [result.id for result in results.told.event.results] == ["m1c0", "m1c1"]
    assert isinstance(end.told.event, StepFinished)


def test_another_message_closes_the_one_before() -> None:
    one = [("ToolCalls", 1), ("ToolResults", 1), ("StepFinished", 0)]
    assert kinds(steps(step(1, "a"), step(2, "a"))) == [*one, *one]


def test_words_of_another_message_close_it_and_words_of_its_own_do_not() -> None:
    lines = step(1, "a", "b", output=None)
    for message, expected in (
        ("m1", ["Text", "ToolCalls"]),
        ("m2", ["ToolCalls", "StepFinished", "Text", "ToolCalls"]),
    ):
        told = [lines[0], Told(Text("words"), message=message), lines[1]]
        assert [kind for kind, _ in kinds(told)] == [*expected, "StepFinished"]


def test_a_subagent_does_not_cut_a_message_of_the_main_conversation_in_two() -> None:
    task = step(1, "task")
    assert kinds([task[0], *step(2, "x", scope="s"), *step(3, "y", scope="s"), task[1]]) == [
        ("ToolCalls", 1),
        ("ToolResults", 1),
        ("StepFinished", 0),
        ("ToolCalls", 1),
        ("ToolResults", 1),
        ("StepFinished", 0),
        ("ToolCalls", 1),
        ("ToolResults", 1),
        ("StepFinished", 0),
    ]


def test_what_is_about_the_turn_closes_every_message() -> None:
    for event in (Compacted(), TurnStarted(), UserInput()):
        told = [*step(1, "a", output=None), *step(2, "b", output=None, scope="s"), Told(event)]
        assert [kind for kind, _ in kinds(told)][-1] == type(event).__name__
        assert [kind for kind, _ in kinds(told)].count("StepFinished") == 2


def test_a_session_is_none_of_another_sessions() -> None:
    first = [each._replace(session="1") for each in step(1, "a", output=None)]
    told = [*first, Told(TurnStarted(), session="2"), *first]
    assert kinds(told) == [("TurnStarted", 0), ("ToolCalls", 2), ("StepFinished", 0)]


def test_calls_of_unknown_messages_are_told_as_they_come() -> None:
    told = [each._replace(message=None) for each in step(1, "a", "b")]
    assert kinds(told) == [("ToolCalls", 1), ("ToolCalls", 1), ("ToolResults", 1), ("ToolResults", 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "s"]), st.booleans()), max_size=30))
def test_nothing_is_lost_and_order_stays_within_a_scope(lines: list[tuple[int, str | None, bool]]) -> None:
    told: list[Told] = []
    for at, (number, scope, has_result) in enumerate(lines):
        said = step(number, f"{at}", output="x" if has_result else None, scope=scope)
        told += [each._replace(place=at) for each in said]
    out = list(batches(told))
    for scope in (None, "s"):
        told_calls = [(call, each.place) for each in told if each.scope == scope for call in calls_of(each)]
        out_calls = [
            pair
            for each in out
            if each.told.scope == scope
            for pair in zip(calls_of(each.told), each.places, strict=True)
        ]
        assert out_calls == told_calls


def calls_of(told: Told) -> list[Call]:
    return told.event.calls if isinstance(told.event, ToolCalls) else []
