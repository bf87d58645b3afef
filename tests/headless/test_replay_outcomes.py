"""Of a result that is compared with no other it is not found out what it came to, and that makes no difference."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw
from msgspec.structs import replace
from tests.build import raw
from tests.headless.build import replayed, settings, step, steps

from turnguard.core import identify
from turnguard.core.masking import progress_outcome
from turnguard.headless import open_turn
from turnguard.headless.replay import replay
from turnguard.headless.replayed import Turn
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Compacted,
    Event,
    Result,
    Retry,
    StepFinished,
    Text,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)

DIFFERENT = steps(*(step(number, f"cat {number}", output=f"text {number}") for number in range(40)))


@pytest.fixture
def found_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each result said of which it was found out what it came to."""
    said: list[str] = []

    def noted(output: Any, error: Any) -> str:
        said.append(bytes(error if output is UNSET else output).decode())
        return progress_outcome(output, error)

    monkeypatch.setattr(open_turn, "progress_outcome", noted)
    monkeypatch.setattr(identify, "progress_outcome", noted)
    return said


def test_a_result_of_a_call_that_came_once_is_not_looked_at(found_out: list[str]) -> None:
    [turn] = replayed(DIFFERENT)
    assert found_out == []
    assert len({mark.outcome for mark in turn.marks} - {None}) == 40


def test_those_of_a_call_that_comes_again_are(found_out: list[str]) -> None:
    [turn] = replayed([*step(90, "cat x", output="a"), *DIFFERENT, *step(91, "cat x", output="b")])
    assert found_out == ['"a"', '"b"']
    assert turn.marks[0].outcome != turn.marks[-1].outcome


def test_that_a_call_came_in_the_turn_before_makes_no_difference(found_out: list[str]) -> None:
    replayed(*[step(1, "cat x")] * 3)
    assert found_out == []


def test_a_failure_is_looked_at(found_out: list[str]) -> None:
    """Failures are alike whatever the arguments were."""
    [turn] = replayed(steps(*(step(number, f"cat {number}", output="no such file", ok=False) for number in range(10))))
    assert len(found_out) == 10
    assert [sight.finding.reason for sight in turn.sights][:1] == ["error"]


def test_what_is_no_text_is_looked_at_at_once(found_out: list[str]) -> None:
    """It may be nested too deep, and then the event is left out."""
    deep = Raw(b"[" * 600 + b"]" * 600)
    lines = [
        Told(ToolCalls([Call("Bash", "1", raw({"command": "x"}))])),
        Told(ToolResults([Result("1", output=deep, ok=True)])),
    ]
    [turn] = replay(lines, settings())
    assert len(found_out) == 1
    assert (turn.marks[0].outcome, turn.marks[0].ok) == (None, None)


def test_no_more_is_held_than_may_be(found_out: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_turn, "MAX_HELD_BYTES", 10 * 2_000)
    lines = steps(*(step(number, f"cat {number}", output="x" * 1_000) for number in range(40)))
    [turn] = replayed(lines)
    assert len(found_out) == 40
    assert turn.calls == 40


CAT, LS = raw({"command": "cat x"}), raw({"command": "ls"})
SHOWN = raw("done")


def alone(call: Call, result: Result) -> list[Told]:
    """A call and its result, in a file that does not say the message."""
    return [Told(ToolCalls([call])), Told(ToolResults([result]))]


AGAIN = steps(*(alone(Call("Bash", f"c{number}", CAT), Result(f"c{number}", output=SHOWN)) for number in range(3)))
AWKWARD = {
    "two calls under one id": [
        Told(ToolCalls([Call("Bash", "1", CAT)])),
        Told(ToolCalls([Call("Bash", "1", LS)])),
        Told(ToolResults([Result("1", output=SHOWN)])),
    ],
    "a call that turns out to be another when its result is there": [
        *alone(Call("Bash", "1", LS), Result("1", output=SHOWN)),
        Told(CallRekeyed("1", "Bash", args=CAT)),
    ],
    "a result that names its call": alone(Call("Bash", None, CAT), Result(None, "Bash", CAT, output=SHOWN)),
}


@pytest.mark.parametrize("lines", AWKWARD.values(), ids=AWKWARD)
def test_a_result_that_counts_for_another_call_than_it_seems_is_looked_at(lines: list[Told]) -> None:
    [turn] = replay([*lines, *AGAIN], settings())
    assert [sight.finding.count for sight in turn.sights] == [4]


# --- it makes no difference -------------------------------------------------------------------------------------------

names = st.sampled_from(["Bash", "Bash", "Edit", "submit", "", None])
ids = st.sampled_from(["1", "2", "3", None])
arguments = st.sampled_from([{"command": "a"}, {"command": "b"}, {"command": "sleep 1"}, {"command": "c"}]).map(raw)
keys = st.sampled_from(["k", "l"])
fidelities = st.sampled_from(["full", "full", "low", "none"])
texts = st.sampled_from(["x", "x", "y", "took 1 s", "took 2 s", ["z"], None]).map(raw)
verdicts = st.sampled_from([True, True, False, None])
calls = st.builds(Call, names, ids, arguments) | st.builds(Call, names, ids, key=keys, fidelity=fidelities)
results = (
    st.builds(Result, ids, output=texts, ok=verdicts)
    | st.builds(Result, ids, error=texts, ok=st.just(False))
    | st.builds(Result, st.none(), names, arguments, output=texts, ok=verdicts)
    | st.builds(Result, ids, name=names, outcome=st.sampled_from(["o", "p"]), ok=verdicts)
    | st.builds(Result, ids, output=texts, status=st.sampled_from(["notStarted", "cancelled", "unknown"]))
)
rekeyings = st.builds(CallRekeyed, ids.map(str), names, key=keys) | st.builds(CallRekeyed, ids.map(str), args=arguments)
others = st.sampled_from(
    [TurnStarted(), TurnEnded(), StepFinished(), Retry(), Compacted(), Text("words"), TurnEnded("failed")]
)
events = st.one_of(
    st.lists(calls, min_size=1, max_size=3).map(ToolCalls),
    st.lists(calls, min_size=1, max_size=1).map(ToolCalls),
    st.lists(results, min_size=1, max_size=3).map(ToolResults),
    st.lists(results, min_size=1, max_size=1).map(ToolResults),
    rekeyings,
    others,
)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Told]:
    """Any events, or steps as agents make them: with ids of their own, and a result for most calls."""
    lines: list[Told] = []
    for number in range(draw(st.integers(0, 25))):
        if draw(st.booleans()):
            scope = draw(st.sampled_from([None, None, "sub"]))
            call = Call(draw(names), f"id{number}", draw(arguments))
            result = replace(draw(results), id=f"id{number}", name=None)
            lines += [Told(ToolCalls([call]), scope, f"m{number}"), Told(ToolResults([result]), scope)]
        else:
            event: Event = draw(events)
            lines.append(Told(event, draw(st.sampled_from([None, "sub"])), draw(st.sampled_from([None, "m"]))))
    return lines


@given(transcripts(), st.sampled_from([(), ("turnguard.turnGuard=stream",), ("tools.loopDetection.enabled=true",)]))
def test_every_turn_is_what_it_is_when_all_results_are_looked_at(lines: list[Told], sets: Sequence[str]) -> None:
    found = comparable(lines, sets)
    with holding(-1):
        assert comparable(lines, sets) == found
    with holding(2_500):
        assert comparable(lines, sets) == found


@contextmanager
def holding(most: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_turn, "MAX_HELD_BYTES", most)
        yield


def comparable(lines: list[Told], sets: Sequence[str]) -> list[Turn]:
    """The turns; outcomes, which are told apart by any numbers, have those in whose order they came."""
    turns = list(replay(lines, settings(*sets)))
    for turn in turns:
        order: dict[int, int] = {}
        for mark in turn.marks:
            if mark.outcome is not None:
                mark.outcome = order.setdefault(mark.outcome, len(order))
    return turns
