"""The rules of the daemon's mirror, one test a rule, over the guard behind a session."""

import msgspec
import pytest

from tests.build import call, calls, distinct, in_force, results, same, session
from turnguard.core import thresholds
from turnguard.core.session import SessionGuard
from turnguard.core.turn import batch_turn
from turnguard.core.turn.batch_turn import BatchTurnGuard
from turnguard_protocol.events import Fallback, Fidelity, Result, Retry, StepFinished, ToolCalls, TurnStarted
from turnguard_protocol.verdicts import Action, Verdict

OFF = {"maxToolCallsPerTurn": 0}


def loop(verdict: Verdict) -> str | None:
    return verdict.findings[0].loop_type if verdict.findings else None


def guard_of(guarded: SessionGuard) -> BatchTurnGuard:
    guard = guarded._stack.turn_guard  # pyright: ignore[reportPrivateUsage]
    assert isinstance(guard, BatchTurnGuard)
    return guard


def test_a_batch_that_crosses_an_explicit_cap_is_skipped_whole() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 5})
    assert guarded.record([distinct(3)]).admitted == [0, 1, 2]
    verdict = guarded.record([distinct(3, 3)])
    assert (verdict.action, verdict.admitted, loop(verdict)) == (Action.HALT, [], "turn_tool_call_cap")
    assert verdict.findings[0].reason == "explicit_cap"
    assert (verdict.findings[0].count, verdict.findings[0].threshold) == (6, 5)
    assert verdict.totals.tool_calls == 6


def test_a_batch_that_just_fits_runs() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 5})
    assert guarded.record([distinct(5)]).action is Action.ALLOW
    assert guarded.record([distinct(1, 5)]).action is Action.HALT


def test_a_batch_that_crosses_the_backstop_is_skipped_whole() -> None:
    guarded = session()
    assert guarded.record([distinct(1000)]).action is Action.ALLOW
    verdict = guarded.record([distinct(1, 1000)])
    assert (verdict.action, verdict.findings[0].reason) == (Action.HALT, "backstop")


def alike(count: int, fidelity: Fidelity) -> ToolCalls:
    return calls(*(call(args={"title": "t"}, fidelity=fidelity) for _ in range(count)))


def test_calls_that_only_look_alike_stop_a_turn_when_they_are_twice_as_many() -> None:
    cases: list[tuple[Fidelity, int]] = [("full", 5), ("low", 11), ("none", 500)]
    for fidelity, most in cases:
        guarded = session()
        guarded.record([distinct(100)])
        assert guarded.record([alike(most, fidelity)]).action is Action.ALLOW
        restored = session()
        restored.restore(msgspec.json.decode(msgspec.json.encode(guarded.snapshot())))
        for each in (guarded, restored):
            verdict = each.record([alike(1, fidelity)])
            assert (verdict.action is Action.HALT) == (fidelity != "none")
            assert verdict.totals.max_key_repeat == (1 if fidelity == "none" else most + 1)


def test_with_the_gate_open_too() -> None:
    guarded = session(model={"skipLoopDetection": False})
    assert guarded.record([alike(11, "low")]).action is Action.ALLOW
    assert loop(guarded.record([alike(1, "low")])) == "global_tool_call_duplicate"


def test_a_known_call_beside_those_that_only_look_alike_counts_in_full() -> None:
    guarded = session()
    guarded.record([distinct(100), alike(8, "low")])
    assert guarded.record([same(5)]).action is Action.ALLOW
    assert guarded.record([same(1)]).findings[0].reason == "stuck"


def test_the_digest_of_a_call_does_not_tell_how_well_it_is_known() -> None:
    digests = set[object]()
    cases: list[tuple[Fidelity, int]] = [("full", 6), ("low", 12)]
    for fidelity, most in cases:
        guarded = SessionGuard("s", in_force(model={"skipLoopDetection": False}), seal=lambda key: f"sealed {key}")
        digests.add(guarded.record([alike(most, fidelity)]).findings[0].key_digest)
    assert len(digests) == 1


def test_the_adaptive_soft_cap_is_exceeded_by_design() -> None:
    guarded = session()
    assert guarded.record([distinct(240)]).admitted == list(range(240))


def test_past_the_soft_cap_the_sixth_repeat_stops_and_repeats_before_it_count() -> None:
    guarded = session()
    guarded.record([same(5)])
    assert guarded.record([distinct(100)]).action is Action.ALLOW
    verdict = guarded.record([same(1)])
    assert (verdict.action, verdict.findings[0].reason, verdict.findings[0].tool) == (Action.HALT, "stuck", "grep")
    guarded = session()
    guarded.record([same(6)])
    assert guarded.record([distinct(94)]).action is Action.ALLOW
    assert guarded.record([distinct(1, 200)]).action is Action.HALT


def test_the_duplicate_check_is_behind_its_gate_and_asked_once_a_batch() -> None:
    assert session().record([same(6)]).action is Action.ALLOW
    guarded = session(model={"skipLoopDetection": False})
    assert guarded.record([same(5)]).action is Action.ALLOW
    verdict = guarded.record([distinct(1), same(1)][1:])
    assert (verdict.action, loop(verdict), verdict.findings[0].count) == (
        Action.HALT,
        "global_tool_call_duplicate",
        thresholds.GLOBAL_DUPLICATE_THRESHOLD,
    )
    assert verdict.findings[0].setting == "model.skipLoopDetection"


def test_when_cap_and_duplicate_both_apply_the_cap_names_it() -> None:
    guarded = session(model={"skipLoopDetection": False, "maxToolCallsPerTurn": 3})
    assert loop(guarded.record([same(6)])) == "turn_tool_call_cap"


def test_an_empty_batch_changes_nothing() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 1})
    assert guarded.record([calls()]).action is Action.ALLOW
    assert guarded.record([distinct(1)]).action is Action.ALLOW
    assert guarded.record([calls()]).action is Action.ALLOW


def test_an_id_seen_twice_in_one_response_is_dropped_without_a_word() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 2})
    verdict = guarded.record([calls(call("a", {}, "i"), call("a", {}, "i"), call("b", {}, "j"), call("c", {}, "i"))])
    assert (verdict.action, verdict.admitted, verdict.findings) == (Action.ALLOW, [0, 2], [])
    assert verdict.totals.tool_calls == 2


def test_the_first_replay_is_refused_and_not_counted_the_second_stops() -> None:
    guarded = session()
    guarded.record([calls(call("a", {}, "i"))])
    verdict = guarded.record([calls(call("a", {}, "i"), call("b", {}, "j"))])
    assert (verdict.action, verdict.admitted, verdict.totals.tool_calls) == (Action.BLOCK, [1], 2)
    assert verdict.findings[0].reason == "replayed_call_id"
    verdict = guarded.record([calls(call("c", {}, "k"), call("a", {}, "i"))])
    assert (verdict.action, verdict.admitted, loop(verdict)) == (Action.HALT, [], "global_tool_call_duplicate")
    assert verdict.totals.tool_calls == 2


def test_an_id_with_another_key_is_a_call_of_its_own_and_does_not_replace_the_first() -> None:
    guarded = session()
    guarded.record([calls(call("a", {}, "i"))])
    assert guarded.record([calls(call("b", {}, "i"))]).admitted == [0]
    assert guarded.record([calls(call("b", {}, "i"))]).admitted == [0]
    assert guarded.record([calls(call("a", {}, "i"))]).admitted == []


def test_executed_ids_survive_prompts_but_not_the_count_of_their_replays() -> None:
    guarded = session()
    guarded.record([calls(call("a", {}, "i"))])
    guarded.record([calls(call("a", {}, "i"))])
    verdict = guarded.record([TurnStarted(), calls(call("a", {}, "i"))])
    assert (verdict.action, verdict.admitted) == (Action.BLOCK, [])


def test_a_call_that_was_not_started_was_not_executed() -> None:
    guarded = session()
    guarded.record([calls(call("a", {}, "i"))])
    guarded.record([results(Result("i", status="notStarted"))])
    assert guarded.record([calls(call("a", {}, "i"))]).admitted == [0]


@pytest.mark.parametrize("again", [Retry(), Fallback()])
def test_a_response_that_comes_again_brings_its_unanswered_calls_again(again: Retry | Fallback) -> None:
    guarded = session()
    guarded.record([calls(call("a", {}, "i"), call("b", {}, "j")), results(Result("j"))][:1])
    guarded.record([results(Result("j"))])
    verdict = guarded.record([again, calls(call("a", {}, "i"), call("b", {}, "j"))])
    assert verdict.admitted == [0]


def test_calls_without_identity_are_never_replays() -> None:
    guarded = session()
    blind = call("a", {}, "i", fidelity="none")
    guarded.record([calls(blind)])
    assert guarded.record([calls(blind)]).admitted == [0]


def test_remembered_ids_are_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_turn, "MAX_REMEMBERED_CALL_IDS", 2)
    guarded = session()
    for name in "abc":
        guarded.record([calls(call(name, {}, name))])
    assert guarded.record([calls(call("a", {}, "a"))]).admitted == [0]
    assert guarded.record([calls(call("c", {}, "c"))]).admitted == []


def invalid(name: str, error_type: str = "invalid_params", **more: str) -> Result:
    return Result(name=name, error_type=error_type, ok=False, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("error_type", ["invalid_params", "unknown_tool"])
def test_the_third_invalid_call_of_a_tool_stops(error_type: str) -> None:
    guarded = session()
    assert guarded.record([results(invalid("a"), invalid("b"), invalid("a"))]).action is Action.ALLOW
    assert guarded.record([results(Result(name="a", ok=True), invalid("c", error_type))]).action is Action.ALLOW
    verdict = guarded.record([results(invalid("a", error_type))])
    assert (verdict.action, loop(verdict), verdict.findings[0].count) == (
        Action.HALT,
        "invalid_tool_params_stagnation",
        3,
    )


def test_invalid_calls_are_counted_per_prompt_and_not_when_cancelled_or_of_another_kind() -> None:
    guarded = session()
    guarded.record([results(invalid("a"), invalid("a"))])
    assert guarded.record([TurnStarted(), results(invalid("a"))]).action is Action.ALLOW
    cancelled = [invalid("a", status="cancelled")] * 3
    assert guarded.record([results(*cancelled)]).action is Action.ALLOW
    assert guarded.record([results(*[invalid("a", "execution")] * 3)]).action is Action.ALLOW
    assert guarded.record([results(invalid("a"))]).action is Action.ALLOW


def test_after_a_stop_in_the_middle_of_a_batch_no_call_may_start() -> None:
    guarded = session()
    batch = calls(*(call("a", {"n": n}, f"i{n}") for n in range(5)))
    assert guarded.record([batch]).admitted == [0, 1, 2, 3, 4]
    assert guarded.record([results(Result("i0", error_type="invalid_params"))]).admitted == [1, 2, 3, 4]
    assert guarded.record([results(Result("i1", error_type="invalid_params"))]).admitted == [2, 3, 4]
    verdict = guarded.record([results(Result("i2", error_type="invalid_params"))])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])
    guarded.record([results(Result("i3", status="notStarted"), Result("i4", status="notStarted"))])
    assert guarded.record([TurnStarted(), batch]).admitted == [3, 4]


def test_retry_puts_the_total_back_to_the_last_finished_step_and_forgets_repeats() -> None:
    guarded = session(model=OFF)
    guarded.record([same(3), StepFinished()][:1])
    guarded.record([StepFinished(), same(2)])
    assert guarded.record([Retry()]).totals.tool_calls == 3
    assert guarded.record([same(1)]).totals.max_key_repeat == 1


def test_fallback_keeps_total_and_repeats() -> None:
    guarded = session(model=OFF)
    guarded.record([same(3)])
    totals = guarded.record([Fallback()]).totals
    assert (totals.tool_calls, totals.max_key_repeat) == (3, 3)


def test_a_new_turn_starts_from_nothing() -> None:
    guarded = session(model=OFF)
    guarded.record([same(3)])
    assert guarded.record([TurnStarted(), same(1)]).totals.max_key_repeat == 1


def test_envelopes_are_not_unwrapped_and_no_arguments_equal_empty_ones() -> None:
    guarded = session(model=OFF)
    guarded.record([calls(call("tool_call", {"name": "x", "arguments": {}}), call("x", {}))])
    assert guarded.record([calls()]).totals.max_key_repeat == 1
    bare = call("x")
    bare.args = call("x", {}).args
    assert guarded.record([calls(bare)]).totals.max_key_repeat == 2
    assert guard_of(guarded).counter.max_tool == "x"


# --- admission by the call ---

BY_CALL = {"admission": "call", "turnGuard": "batch"}


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_by_the_call_exactly_the_calls_that_still_fit_run(kind: str) -> None:
    guarded = session(model={"maxToolCallsPerTurn": 5}, turnguard={"admission": "call", "turnGuard": kind})
    guarded.record([distinct(3)])
    verdict = guarded.record([distinct(4, 3)])
    assert (verdict.action, verdict.admitted, verdict.totals.tool_calls) == (Action.BLOCK, [0, 1], 5)
    assert (loop(verdict), verdict.findings[0].reason) == ("turn_tool_call_cap", "explicit_cap")
    verdict = guarded.record([distinct(1, 9)])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_by_the_call_a_stuck_turn_runs_up_to_the_call_that_makes_it_stuck(kind: str) -> None:
    guarded = session(turnguard={"admission": "call", "turnGuard": kind})
    for start in range(0, 95, 5):
        guarded.record([distinct(5, start)])
    for number in range(5):
        guarded.record([calls(call("grep", {"q": 1}), call("other", {"n": number}))])
    verdict = guarded.record([calls(call("x", {"n": 1}), call("grep", {"q": 1}), call("y", {"n": 2}))])
    assert (verdict.action, verdict.admitted) == (Action.BLOCK, [0])
    assert verdict.findings[0].reason == "stuck"


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_by_the_call_continue_once_lets_the_refused_rest_come_again(kind: str) -> None:
    guarded = session(model={"maxToolCallsPerTurn": 5}, turnguard={"admission": "call", "turnGuard": kind})
    guarded.record([distinct(3)])
    guarded.record([distinct(4, 3)])
    guarded.override("continueOnce")
    assert guarded.record([distinct(2, 5)]).admitted == [0, 1]
    assert guarded.record([distinct(1, 8)]).action is Action.HALT


def test_by_the_call_a_replay_takes_no_slot() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 2}, turnguard=BY_CALL)
    guarded.record([calls(call("a", {}, "i"))])
    verdict = guarded.record([calls(call("a", {}, "i"), call("b", {}, "j"), call("c", {}, "k"))])
    assert (verdict.action, verdict.admitted, verdict.totals.tool_calls) == (Action.BLOCK, [1], 2)


def test_by_the_call_the_duplicate_check_still_refuses_the_batch_whole() -> None:
    guarded = session(model={"skipLoopDetection": False}, turnguard=BY_CALL)
    assert guarded.record([same(6)]).admitted == []
