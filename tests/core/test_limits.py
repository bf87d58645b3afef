"""Limits of a turn over all guards: batches that may be blocked, and steps that it may take."""

from typing import Any

import msgspec
import pytest

from tests.build import call, calls, distinct, in_force, results, session
from tests.core.trips import READ, ran, replayed, rolling
from turnguard.core.limits import MAX_BLOCKS, MAX_STEPS, SESSION, TurnLimits
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard.core.session import SessionGuard
from turnguard_protocol.events import Event, Result, StepFinished, Text, Thought, TurnEnded, TurnStarted
from turnguard_protocol.verdicts import Action, Finding, Verdict


def limited(**turnguard: Any) -> SessionGuard:
    return session(turnguard=turnguard)


def said(verdict: Verdict) -> list[tuple[str, str, int]]:
    return [(finding.loop_type, finding.action.value, finding.count) for finding in verdict.findings]


def last(guarded: SessionGuard, events: list[Event]) -> Verdict:
    return [guarded.record([event]) for event in events][-1]


def loop_types(verdict: Verdict) -> list[str]:
    return [finding.loop_type for finding in verdict.findings]


# --- blocked batches --------------------------------------------------------------------------------------------------


def blocking(max_blocks: int) -> SessionGuard:
    """A session in which `READ` is vetoed from now on."""
    guarded = session(**rolling(max_blocks=max_blocks))
    last(guarded, ran(3))
    return guarded


def test_by_default_the_third_blocked_batch_ends_the_turn() -> None:
    guarded = session()
    verdicts = [guarded.record([event]) for event in replayed("a", "b", "c")][-3:]
    assert [verdict.action for verdict in verdicts] == [Action.BLOCK, Action.BLOCK, Action.HALT]
    assert loop_types(verdicts[-1]) == [MAX_BLOCKS, "global_tool_call_duplicate"]
    assert guarded.status().state == "halted"


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_turn_ends_with_the_blocked_batch_that_reaches_the_limit(limit: int) -> None:
    guarded = blocking(limit)
    actions = [guarded.record([READ]).action for _ in range(limit + 1)]
    assert actions == [Action.BLOCK] * (limit - 1) + [Action.HALT] * 2


def test_with_zero_it_never_ends_for_that() -> None:
    guarded = blocking(0)
    assert {guarded.record([READ]).action for _ in range(50)} == {Action.BLOCK}


def test_what_the_finding_says() -> None:
    verdict = blocking(1).record([READ])
    assert verdict.findings[0] == Finding(
        guard=SESSION,
        action=Action.HALT,
        loop_type=MAX_BLOCKS,
        count=1,
        threshold=1,
        setting="turnguard.maxBlocksPerTurn",
    )


def test_blocked_batches_need_not_be_next_to_each_other_or_of_one_guard() -> None:
    guarded = session(**rolling(max_blocks=2))
    last(guarded, [*replayed("a"), *ran(5, "grep", "other"), *ran(3)])
    verdict = guarded.record([READ])
    assert loop_types(verdict) == [MAX_BLOCKS, "generic_repeat"]


def test_a_batch_counts_once_however_many_of_its_calls_are_blocked() -> None:
    guarded = blocking(2)
    assert guarded.record([calls(*[call("read")] * 9)]).action is Action.BLOCK
    assert guarded.record([READ]).action is Action.HALT


def test_a_call_that_is_refused_without_a_word_is_no_block() -> None:
    guarded = limited(maxBlocksPerTurn=1)
    verdict = guarded.record([calls(call("a", {}, "i"), call("a", {}, "i"))])
    assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0])


def test_a_batch_for_which_the_turn_ends_anyway_is_no_block() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 7}, **rolling(max_blocks=1))
    last(guarded, [distinct(4, 50), *ran(3)])
    verdict = guarded.record([READ])
    assert loop_types(verdict) == ["turn_tool_call_cap", "generic_repeat"]


def test_each_turn_has_its_own_blocks() -> None:
    guarded = blocking(2)
    assert guarded.record([READ]).action is Action.BLOCK
    guarded.record([TurnStarted()])
    last(guarded, ran(3))
    assert guarded.record([READ]).action is Action.BLOCK
    assert guarded.record([READ]).action is Action.HALT


def test_after_continue_once_the_turn_has_all_its_blocks_again() -> None:
    guarded = blocking(2)
    last(guarded, [READ, READ])
    guarded.override("continueOnce")
    last(guarded, ran(3))
    assert [guarded.record([READ]).action for _ in range(2)] == [Action.BLOCK, Action.HALT]


def test_after_enable_the_turn_has_all_its_blocks_again() -> None:
    guarded = blocking(2)
    guarded.record([READ])
    guarded.override("disable")
    guarded.record([READ])
    guarded.override("enable")
    last(guarded, ran(3))
    assert [guarded.record([READ]).action for _ in range(2)] == [Action.BLOCK, Action.HALT]


def test_another_limit_holds_from_the_next_batch_and_what_was_blocked_counts() -> None:
    guarded = blocking(0)
    last(guarded, [READ, READ])
    guarded.configure(in_force(**rolling(max_blocks=3)))
    assert guarded.record([READ]).action is Action.HALT


def test_a_disabled_session_blocks_nothing() -> None:
    guarded = blocking(1)
    guarded.override("disable")
    assert {guarded.record([READ]).action for _ in range(3)} == {Action.ALLOW}


def test_what_did_not_run_because_the_turn_ended_is_not_recorded_as_run() -> None:
    """The calls of the batch that were not blocked do not run either, and are marked refused to every guard."""
    guarded = blocking(1)
    before = guarded.snapshot()["guards"][RollingHistoryGuard.name]["history"]
    verdict = guarded.record([calls(call("read"), call("other"))])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])
    assert guarded.snapshot()["guards"][RollingHistoryGuard.name]["history"] == before


# --- steps ------------------------------------------------------------------------------------------------------------


def test_by_default_a_turn_may_take_any_number_of_steps() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 0})
    for number in range(300):
        guarded.record([distinct(1, number), StepFinished()])
    assert (guarded.status().state, guarded.status().totals.steps) == ("running", 300)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_the_step_after_the_last_one_ends_the_turn_before_anything_of_it_runs(limit: int) -> None:
    guarded = limited(maxStepsPerTurn=limit)
    for number in range(limit):
        assert guarded.record([distinct(1, number), StepFinished()]).action is Action.ALLOW
    verdict = guarded.record([distinct(3, 50)])
    assert (verdict.action, verdict.admitted, verdict.totals.tool_calls) == (Action.HALT, [], limit)
    assert verdict.findings == [
        Finding(
            guard=SESSION,
            action=Action.HALT,
            loop_type=MAX_STEPS,
            count=limit + 1,
            threshold=limit,
            setting="turnguard.maxStepsPerTurn",
        )
    ]


@pytest.mark.parametrize("opener", [Text("x"), Thought("x"), distinct(1, 9), calls()])
def test_whatever_a_step_begins_with_ends_the_turn(opener: Event) -> None:
    guarded = limited(maxStepsPerTurn=1)
    guarded.record([distinct(1), StepFinished()])
    assert guarded.record([opener]).action is Action.HALT


def test_text_and_calls_of_one_response_are_one_step() -> None:
    guarded = limited(maxStepsPerTurn=1)
    assert guarded.record([Thought("x"), Text("x"), Text("y"), distinct(2)]).action is Action.ALLOW
    assert guarded.record([results(Result(name="read_file", args=msgspec.Raw(b'{"n":0}')))]).action is Action.ALLOW
    assert guarded.record([Text("next")]).action is Action.HALT


def test_steps_without_calls_count() -> None:
    guarded = limited(maxStepsPerTurn=2)
    assert last(guarded, [Text("a"), StepFinished(), Text("b"), StepFinished()]).action is Action.ALLOW
    assert guarded.record([distinct(1)]).action is Action.HALT


def test_a_response_after_another_without_results_is_a_step_with_the_batch_guard_only() -> None:
    for kind, action in (("batch", Action.HALT), ("stream", Action.ALLOW)):
        guarded = limited(maxStepsPerTurn=1, turnGuard=kind)
        guarded.record([distinct(1)])
        assert guarded.record([distinct(1, 5)]).action is action


def test_a_host_that_begins_a_turn_with_the_end_of_a_step_tells_all_of_them() -> None:
    guarded = limited(maxStepsPerTurn=2)
    guarded.record([TurnStarted(), StepFinished()])
    for number in range(4):
        assert guarded.record([distinct(1, number)]).totals.steps == 1
    assert guarded.record([StepFinished(), distinct(1, 5), distinct(1, 6)]).totals.steps == 2
    copy = limited(maxStepsPerTurn=2)
    copy.restore(guarded.snapshot())
    assert copy.record([distinct(1, 7)]).totals.steps == 2
    assert guarded.record([StepFinished(), distinct(1, 8)]).action is Action.HALT
    guarded.record([TurnStarted(), distinct(1), StepFinished(), distinct(1, 1)])
    assert guarded.record([distinct(1, 2)]).totals.steps == 3, "of this turn the host did not say so"


def test_each_turn_has_its_own_steps() -> None:
    guarded = limited(maxStepsPerTurn=1)
    for number in range(3):
        assert guarded.record([TurnStarted(), distinct(1, number), StepFinished()]).action is Action.ALLOW
    assert guarded.record([TurnEnded()]).action is Action.ALLOW
    assert guarded.record([distinct(1)]).action is Action.ALLOW


def test_continue_once_allows_one_step_more_each_time() -> None:
    guarded = limited(maxStepsPerTurn=1)
    guarded.record([distinct(1), StepFinished()])
    for number in range(1, 4):
        verdict = guarded.record([distinct(1, number)])
        assert (verdict.action, verdict.findings[0].threshold) == (Action.HALT, number)
        guarded.override("continueOnce")
        assert guarded.status().totals.steps == number
        assert guarded.record([distinct(1, number), StepFinished()]).action is Action.ALLOW


def test_continue_once_leaves_the_calls_that_run_as_they_are() -> None:
    """With the batch guard a response can come while calls of the one before still run; only it is refused."""
    guarded = limited(maxStepsPerTurn=1)
    guarded.record([calls(call("a", {}, "i"))])
    assert guarded.record([calls(call("b", {}, "j"))]).action is Action.HALT
    guarded.override("continueOnce")
    assert guarded.status().totals.steps == 1
    guarded.record([results(Result("i", error_type="invalid_params"))])
    assert guarded.snapshot()["guards"]["turn"]["invalid"] == {"a": 1}, "paired, so the tool has a name"


def test_another_limit_holds_from_the_next_step() -> None:
    guarded = session()
    for number in range(3):
        guarded.record([distinct(1, number), StepFinished()])
    guarded.configure(in_force(turnguard={"maxStepsPerTurn": 3}))
    assert guarded.record([StepFinished()]).action is Action.ALLOW
    assert guarded.record([distinct(1, 5)]).action is Action.HALT


def test_a_disabled_session_may_take_any_number_of_steps() -> None:
    guarded = limited(maxStepsPerTurn=1)
    guarded.override("disable")
    for number in range(3):
        assert guarded.record([distinct(1, number), StepFinished()]).action is Action.ALLOW


def test_in_shadow_each_step_past_the_limit_is_told_once_and_runs() -> None:
    guarded = limited(maxStepsPerTurn=1, shadow=True)
    verdicts = [guarded.record([distinct(2, 5 * number), StepFinished()]) for number in range(3)]
    assert [verdict.action for verdict in verdicts] == [Action.ALLOW] * 3
    assert [said(verdict) for verdict in verdicts] == [[], [(MAX_STEPS, "halt", 2)], [(MAX_STEPS, "halt", 3)]]
    assert [finding.fresh for verdict in verdicts for finding in verdict.findings] == [True, False]


# --- the counts themselves --------------------------------------------------------------------------------------------


def test_forgiving_one_limit_leaves_the_other_as_it_is() -> None:
    limits, settings = TurnLimits(), in_force(turnguard={"maxBlocksPerTurn": 1, "maxStepsPerTurn": 2})
    blocks, steps = limits.note_block(settings), limits.check_steps(3, settings)
    assert blocks is not None
    assert steps is not None
    assert limits.check_steps(2, settings) is None
    limits.forgive(steps)
    assert (limits.blocks, limits.raised_steps) == (1, 1)
    limits.forgive(blocks)
    assert (limits.blocks, limits.raised_steps) == (0, 1)
    other = TurnLimits()
    other.restore(msgspec.json.decode(msgspec.json.encode(limits.snapshot())))
    assert other.snapshot() == limits.snapshot() == [0, 1]


def test_a_turn_without_anything_to_count_holds_no_counts() -> None:
    guarded = session()
    guarded.record([distinct(3)])
    assert guarded.snapshot()["turn"]["limits"] is None
