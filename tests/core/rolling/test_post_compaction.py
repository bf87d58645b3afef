"""The guard after a compaction."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.rolling.build import POLL, call, result, settings
from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.guard import Batch
from turnguard.core.rolling.post_compaction import PostCompactionGuard
from turnguard_protocol.events import Call, Compacted, Event, Fallback, Retry, StepFinished, ToolResults, TurnStarted
from turnguard_protocol.verdicts import Action, Finding


def guarded(window: object = None, **block: Any) -> PostCompactionGuard:
    """A guard in a run."""
    return PostCompactionGuard(settings(postCompactionGuard={"windowSize": window}, **block), "sealed {}".format)


def armed(window: object = None, **block: Any) -> PostCompactionGuard:
    """A guard in a run that compacted."""
    guard = guarded(window, **block)
    guard.receive(Compacted())
    return guard


def play(guard: PostCompactionGuard, *calls: Call, outcome: str | None = "same", **more: Any) -> Sequence[Finding]:
    """One call after the other, each answered before the next."""
    findings: list[Finding] = []
    for made in calls:
        guard.commit(Batch([made], None), [0])
        findings += guard.receive(ToolResults([result(made, outcome, **more)]))
    return findings


def aborts(guard: PostCompactionGuard, count: int) -> bool:
    """Whether so many equal calls, and not fewer, end the run."""
    return not play(guard, *[call()] * (count - 1)) and len(play(guard, call())) == 1


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_a_window_of_equal_outcomes_ends_the_run(window: int) -> None:
    guard = armed(window)
    assert aborts(guard, window)
    assert guard.remaining == 0
    assert play(guard, *[call()] * 20) == []


def test_what_the_finding_says() -> None:
    guard = armed()
    assert play(guard, *[call("Bash", "k")] * 3) == [
        Finding(
            guard="postCompaction",
            action=Action.HALT,
            loop_type="compaction_loop_persisted",
            tool="exec",
            count=3,
            threshold=3,
            key_digest="sealed k",
            setting="tools.loopDetection.postCompactionGuard.windowSize",
        )
    ]


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("other", [call("other"), call(args="other")])
def test_one_other_call_and_the_window_is_harmless(position: int, other: Call) -> None:
    guard = armed()
    calls = [call()] * 3
    calls[position] = other
    assert play(guard, *calls, *[call()] * 9) == []


@pytest.mark.parametrize("position", range(3))
def test_one_other_outcome_and_the_window_is_harmless(position: int) -> None:
    guard = armed()
    for number in range(3):
        assert play(guard, call(), outcome="other" if number == position else "same") == []
    assert play(guard, *[call()] * 9) == []


def test_an_alternation_is_not_its_business() -> None:
    assert play(armed(4), *[call("a"), call("b")] * 9) == []


def test_calls_before_the_compaction_do_not_count() -> None:
    guard = guarded()
    assert play(guard, *[call()] * 9) == []
    guard.receive(Compacted())
    assert aborts(guard, 3)


def test_another_compaction_starts_anew() -> None:
    guard = armed()
    play(guard, call(), call())
    guard.receive(Compacted())
    assert aborts(guard, 3)
    guard.receive(Compacted())
    assert aborts(guard, 3)


@pytest.mark.parametrize(("enabled", "is_on"), [(None, True), (True, True), (False, False)])
def test_it_is_on_unless_it_is_explicitly_off(enabled: bool | None, is_on: bool) -> None:
    guard = armed(enabled=enabled)
    assert guard.window == (3 if is_on else 0)
    assert len(play(guard, *[call()] * 3)) == is_on


@pytest.mark.parametrize("kind", [call(POLL), call("command_status")])
def test_polls_are_not_exempt(kind: Call) -> None:
    assert len(play(armed(), *[kind] * 3)) == 1


def test_the_run_of_a_call_does_not_matter() -> None:
    guard = armed()
    for run in ("r", "s", None):
        guard.commit(Batch([call()], run), [0])
        findings = guard.receive(ToolResults([result(call())], run))
    assert len(findings) == 1


def test_settings_hold_from_the_next_turn_on() -> None:
    guard = guarded(2)
    guard.configure(settings(postCompactionGuard={"windowSize": 4}))
    guard.receive(Compacted())
    assert aborts(guard, 2)
    guard.receive(TurnStarted())
    guard.receive(Compacted())
    assert aborts(guard, 4)


def test_a_new_turn_is_not_armed() -> None:
    guard = armed()
    guard.receive(TurnStarted())
    assert play(guard, *[call()] * 9) == []


# --- what is watched --------------------------------------------------------------------------------------------------


def test_calls_without_an_outcome_do_not_use_the_window_up() -> None:
    guard = armed()
    assert play(guard, *[call()] * 5, outcome=None) == []
    assert aborts(guard, 3)


def test_a_tool_that_does_not_exist_is_an_outcome() -> None:
    assert len(play(armed(), *[call()] * 3, outcome=None, error_type="unknown_tool")) == 1


def test_refused_calls_do_not_use_the_window_up() -> None:
    guard = armed()
    for _ in range(5):
        refused = call(call_id="1")
        guard.commit(Batch([refused], None), [])
        assert guard.receive(ToolResults([result(refused)])) == []
    assert aborts(guard, 3)


def test_an_outcome_counts_once_and_only_of_a_call_that_was_admitted() -> None:
    guard = armed()
    made = call(call_id="1")
    guard.commit(Batch([made], None), [0])
    assert guard.receive(ToolResults([result(made)] * 5)) == []
    assert guard.receive(ToolResults([result(call(call_id="2"))] * 5)) == []
    assert guard.remaining == 2


def test_calls_like_no_other_are_not_watched() -> None:
    guard = armed()
    assert play(guard, *[call(fidelity="none")] * 9) == []
    assert guard.remaining == 3


def test_the_calls_of_one_batch_count_each() -> None:
    guard = armed()
    batch = [call(call_id=str(number)) for number in range(4)]
    guard.commit(Batch(batch, None), range(4))
    assert len(guard.receive(ToolResults([result(made) for made in batch]))) == 1


@pytest.mark.parametrize("event", [StepFinished(), Retry(), Fallback(), Compacted()])
def test_an_outcome_that_comes_too_late_is_not_watched(event: Event) -> None:
    guard = armed()
    guard.commit(Batch([call()], None), [0])
    guard.receive(event)
    assert guard.receive(ToolResults([result(call())])) == []
    guard.receive_late(ToolResults([result(call())]))
    assert guard.remaining == 3


def test_nothing_is_kept_while_it_is_not_armed_and_little_while_it_is() -> None:
    guard = guarded()
    guard.commit(Batch([call()], None), [0])
    assert guard.admitted.calls == []
    guard.receive(Compacted())
    guard.commit(Batch([call()] * (MAX_OPEN_CALLS + 1), None), range(MAX_OPEN_CALLS + 1))
    assert len(guard.admitted.calls) == MAX_OPEN_CALLS


# --- the way past it --------------------------------------------------------------------------------------------------


def test_forgiven_it_watches_no_more_until_the_next_compaction() -> None:
    guard = armed(1)
    guard.receive(Compacted())
    finding = play(guard, call())[0]
    guard.receive(Compacted())
    guard.forgive(finding)
    assert play(guard, *[call()] * 9) == []
    guard.receive(Compacted())
    assert aborts(guard, 1)


def test_a_snapshot_is_plain_and_holds_everything() -> None:
    hexadecimal = "0123456789abcdef" * 4
    guard = armed()
    looping = call(args=hexadecimal)
    play(guard, looping, looping, outcome=hexadecimal)
    guard.commit(Batch([looping], None), [0])
    guard.configure(settings(postCompactionGuard={"windowSize": 9}))
    snapshot = json.loads(json.dumps(guard.snapshot()))
    restored = PostCompactionGuard(guard.settings)
    restored.restore(snapshot)
    assert restored.snapshot() == guard.snapshot()
    assert len(restored.receive(ToolResults([result(looping, hexadecimal)]))) == 1
    restored.restore(guarded().snapshot())
    assert restored.snapshot() == guarded().snapshot()
