"""What odd hosts do: overrides after other settings, copies of results, events out of season, texts without end."""

import msgspec
import pytest

from tests.build import call, calls, distinct, in_force, raw, results, same, session
from turnguard.core.bounds import MAX_INVALID_TOOLS, MAX_LISTED_FINDINGS, MAX_REMEMBERED_CALL_IDS, MAX_TEXT
from turnguard.core.session import SessionGuard
from turnguard_protocol.events import (
    MAX_ITEMS,
    Call,
    Compacted,
    Event,
    Fallback,
    Result,
    Retry,
    StateChanged,
    StepFinished,
    Text,
    Thought,
    TurnEnded,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.methods import Record
from turnguard_protocol.verdicts import Action

FAILED = Result(name="t", error=raw("x"), error_type="execution")
FAILED_STEP: list[Event] = [results(*[FAILED] * 8), StepFinished()]


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_continue_once_never_lowers_a_cap_that_was_raised_in_the_settings(kind: str) -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3}, turnguard={"turnGuard": kind})
    guarded.record([distinct(2)])
    guarded.record([distinct(3, 2)])
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 100}, turnguard={"turnGuard": kind}))
    guarded.override("continueOnce")
    assert guarded.status().cap.value == 100
    assert guarded.record([distinct(3, 2)]).admitted == [0, 1, 2]


def enforced() -> SessionGuard:
    """A session that `prepareStep` halts for repeated failures."""
    guarded = session(turnguard={"repeatedFailures": "enforce", "progress": {"action": "off"}})
    guarded.record(FAILED_STEP)
    assert guarded.record(FAILED_STEP).action is Action.WARN
    guarded.record([calls(call("t", {}, "q"))])
    guarded.record([results(msgspec.structs.replace(FAILED, id="q"))])
    assert guarded.prepare_step().tool_choice == "none"
    return guarded


def test_a_halt_that_prepare_step_found_is_the_last_finding_and_is_told_once_as_fresh() -> None:
    guarded = enforced()
    last = guarded.status().last_finding
    assert isinstance(last, msgspec.Struct)
    assert (guarded.status().state, last.action) == ("halted", Action.HALT)
    assert [finding.fresh for finding in guarded.record([]).findings] == [True]
    assert [finding.fresh for finding in guarded.record([]).findings] == [False]


def test_continue_once_gets_past_a_halt_that_prepare_step_found() -> None:
    guarded = enforced()
    guarded.override("continueOnce")
    assert guarded.prepare_step().tool_choice == "auto"
    assert guarded.record([calls(call("u"))]).admitted == [0]


def test_keys_that_differ_anywhere_are_different() -> None:
    guarded = session()
    for batch in range(26):
        verdict = guarded.record([calls(*(Call("t", key=f"{4 * batch + n:064x}") for n in range(4)))])
        assert verdict.action is Action.ALLOW
    assert guarded.status().totals.distinct_keys == 104


def test_a_call_that_is_answered_again_and_again_was_still_one_call() -> None:
    guarded = session()
    guarded.record([calls(call("t", {}, "i"))])
    rejected = Result("i", error_type="invalid_params", error=raw("x"))
    assert guarded.record([results(*[rejected] * 5)]).action is Action.ALLOW
    assert guarded.record([results(rejected)]).action is Action.ALLOW


def test_a_rejection_of_a_call_nobody_knows_is_charged_to_no_tool() -> None:
    guarded = session()
    unknown = [Result(f"i{n}", error_type="invalid_params") for n in range(5)]
    assert guarded.record([results(*unknown)]).action is Action.ALLOW


def test_ids_that_were_forgotten_can_still_be_answered() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 0})
    for start in (0, MAX_REMEMBERED_CALL_IDS):
        guarded.record([calls(*(call("t", {"n": n}, f"i{n}") for n in range(start, start + MAX_ITEMS)))])
    assert guarded.record([results(Result("i0", status="notStarted"))]).action is Action.ALLOW


def test_results_are_paired_in_linear_time_with_or_without_ids() -> None:
    """It would take minutes if it were not so."""
    guarded = session(model={"maxToolCallsPerTurn": 0}, turnguard={"progress": {"action": "off"}})
    guarded.record([calls(*(call("t", {"n": n}) for n in range(MAX_ITEMS)))])
    answers = [Result(name="t", args=raw({"n": n})) for n in reversed(range(MAX_ITEMS))]
    assert guarded.record([results(*answers)]).admitted == []
    assert guarded.record([results(*[Result()] * MAX_ITEMS)]).admitted == []


def test_the_tools_whose_rejections_are_counted_are_bounded() -> None:
    guarded = session()
    guarded.record([results(*(Result(name=f"t{n}", error_type="invalid_params") for n in range(MAX_INVALID_TOOLS)))])
    late = Result(name="late", error_type="invalid_params")
    assert guarded.record([results(late, late, late)]).action is Action.ALLOW
    known = Result(name="t0", error_type="invalid_params")
    assert guarded.record([results(known, known)]).action is Action.HALT


@pytest.mark.parametrize(
    "event",
    [Compacted(), UserInput(), Retry(), Fallback(), StateChanged("s"), Text("x"), Thought("x"), StepFinished()],
)
def test_after_the_end_of_a_turn_only_calls_open_another(event: Event) -> None:
    guarded = session()
    guarded.record([TurnStarted("t"), distinct(1)])
    guarded.record([TurnEnded()])
    assert guarded.record([event]).turn_id == "t"
    assert guarded.status().state == "idle"


def test_a_turn_that_starts_while_the_guards_are_off_counts_from_nothing() -> None:
    guarded = session()
    guarded.record([distinct(50)])
    guarded.override("disable")
    verdict = guarded.record([TurnStarted("new"), distinct(1)])
    assert (verdict.turn_id, verdict.totals.tool_calls, verdict.totals.max_key_repeat) == ("new", 0, 0)


@pytest.mark.parametrize("way", ["enable", "configure"])
def test_a_guard_that_joins_a_turn_knows_who_started_it(way: str) -> None:
    settings = {"repeatedFailures": "enforce", "progress": {"action": "off"}}
    guarded = session(turnguard=settings if way == "enable" else {**settings, "repeatedFailures": "off"})
    guarded.record([TurnStarted("t", "cron")])
    if way == "enable":
        guarded.override("disable")
        guarded.override("enable")
    else:
        guarded.configure(in_force(turnguard=settings))
    assert [guarded.record(FAILED_STEP).action for _ in range(4)] == [Action.ALLOW] * 4


def test_overrides_are_listed_once_each_with_all_their_calls() -> None:
    guarded = session()
    guarded.record([distinct(1)])
    for _ in range(1_000):
        guarded.override("raiseCap", calls=2)
    assert [(each.action, each.calls) for each in guarded.status().overrides] == [("raiseCap", 2_000)]


def test_a_verdict_lists_so_many_findings_and_no_more() -> None:
    guarded = session()
    batch = calls(*(call("t", {"n": n}, f"i{n}") for n in range(3 * MAX_LISTED_FINDINGS)))
    guarded.record([batch])
    verdict = guarded.record([batch])
    assert (verdict.action, verdict.admitted, len(verdict.findings)) == (Action.BLOCK, [], MAX_LISTED_FINDINGS)


def test_of_long_texts_only_so_much_is_held_and_they_are_still_told_apart() -> None:
    guarded = session(model={"skipLoopDetection": False})
    long = "n" * 100_000
    for end in "abcde":
        assert guarded.record([calls(call(long + end, {}, long + end))]).admitted == [0]
    assert guarded.status().totals.distinct_keys == 5
    assert guarded.record([calls(call(long + "a", {}, long + "a"))]).admitted == [], "a replay"
    held = msgspec.json.encode(guarded.snapshot())
    assert len(held) < 100 * MAX_TEXT


@pytest.mark.parametrize("field", ["events", "calls", "results"])
def test_messages_hold_so_many_items_and_no_more(field: str) -> None:
    many = {
        "events": [{"type": "retry"}] * (MAX_ITEMS + 1),
        "calls": [{"type": "toolCalls", "calls": [{"name": "t"}] * (MAX_ITEMS + 1)}],
        "results": [{"type": "toolResults", "results": [{}] * (MAX_ITEMS + 1)}],
    }
    with pytest.raises(msgspec.ValidationError, match=str(MAX_ITEMS)):
        msgspec.convert({"sessionId": "s", "events": many[field]}, Record)


def test_refused_calls_do_not_stay_among_the_distinct_ones() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3})
    guarded.record([distinct(2)])
    guarded.record([distinct(2, 2), same(0)][:1])
    guarded.override("raiseCap", calls=5)
    totals = guarded.status().totals
    assert (totals.tool_calls, totals.distinct_keys, totals.steps) == (2, 2, 1)


def test_late_results_of_a_closed_step_are_still_known_by_their_calls() -> None:
    guarded = session()
    for number in range(2):
        guarded.record([calls(call("t", {"n": number}, f"i{number}"))])
        guarded.prepare_step()
        late = Result(f"i{number}", error_type="invalid_params", error=raw("x"))
        assert guarded.record([results(late)]).action is Action.ALLOW
    guarded.record([calls(call("t", {"n": 2}, "i2"))])
    guarded.prepare_step()
    verdict = guarded.record([results(Result("i2", error_type="invalid_params", error=raw("x")))])
    assert (verdict.action, verdict.findings[0].tool) == (Action.HALT, "t")


def test_what_the_settings_make_stricter_is_told_as_new() -> None:
    guarded = session(turnguard={"progress": {"action": "warn"}})

    def repeat() -> bool:
        guarded.record([calls(call("t", {}))])
        stale = results(Result(name="t", args=raw({}), ok=True, output=raw("same")))
        return any(finding.fresh for finding in guarded.record([stale, StepFinished()]).findings)

    assert [repeat() for _ in range(7)] == [False, False, False, True, True, False, False]
    guarded.configure(in_force(turnguard={"progress": {"action": "halt"}}))
    assert repeat()
    assert guarded.status().state == "halted"


def test_switched_on_again_the_steps_are_counted_from_nothing_too() -> None:
    guarded = session(turnguard={"maxStepsPerTurn": 2})
    for number in range(3):
        guarded.record([distinct(1, number)])
    assert guarded.status().state == "halted"
    guarded.override("disable")
    guarded.override("enable")
    assert guarded.record([distinct(1, 5)]).action is Action.ALLOW


SHIELD = {"enabled": True, "maxConsecutiveTools": 2}


def test_a_budget_that_words_have_freed_in_the_same_record_limits_nothing() -> None:
    guarded = session(loopShield=SHIELD)
    guarded.record([distinct(2)])
    answers = results(Result(name="read_file", args=raw({"n": 0})))
    verdict = guarded.record([answers, Text("words"), StepFinished()])
    assert verdict.action is Action.WARN
    assert guarded.prepare_step().tool_choice == "auto"


def test_one_trip_is_told_once_though_a_batch_follows() -> None:
    guarded = session(loopShield=SHIELD)
    guarded.record([distinct(2)])
    assert guarded.prepare_step().tool_choice == "none"
    verdict = guarded.record([distinct(1, 5)])
    assert [(each.loop_type, each.fresh) for each in verdict.findings] == [("tool_call_budget", True)]


def test_the_model_hears_of_every_reason_why_calls_of_a_batch_were_refused() -> None:
    small = {"enabled": True, "warningThreshold": 1, "criticalThreshold": 2, "detectors": {"pingPong": False}}
    guarded = session(tools={"loopDetection": small})
    for number in range(2):
        guarded.record([calls(call("q", {}, f"q{number}"), call("rr", {"n": number}, f"r{number}"))])
        answered = [Result(f"{name}{number}", output=raw("same")) for name in "qr"]
        guarded.record([results(*answered)])
    verdict = guarded.record([calls(call("q", {}, "q2"), call("rr", {"n": 0}, "r0"), call("ok"))])
    assert verdict.admitted == [2]
    assert '"q" was called' in str(verdict.model_message)
    assert '"rr" that was already answered' in str(verdict.model_message)


def test_a_name_cannot_end_its_quotation() -> None:
    name = 'x" is fine. Setting: foo.bar. "y'
    message = str(session(model={"skipLoopDetection": False}).record([same(6, name)]).user_message)
    assert message.count('"') == 2


def test_a_turn_that_was_blocked_too_often_says_why_the_last_time() -> None:
    small = {"enabled": True, "warningThreshold": 1, "criticalThreshold": 2}
    guarded = session(tools={"loopDetection": small}, turnguard={"maxBlocksPerTurn": 1})
    for number in range(2):
        guarded.record([calls(call("q", {}, f"q{number}"))])
        guarded.record([results(Result(f"q{number}", output=raw("same")))])
    message = str(guarded.record([calls(call("q", {}, "q2"))]).user_message)
    assert 'Last time: "q" was called 2 times with the same arguments.' in message
    assert message.count("Setting:") == 1


def test_a_host_that_tells_no_outcomes_is_told_which_guard_is_blind() -> None:
    guarded = session()
    for number in range(3):
        guarded.record([distinct(1, number), StepFinished()][:1])
        guarded.record([StepFinished()])
    assert guarded.status().blind == ["progress"]
    guarded.record([distinct(1, 9)])
    guarded.record([results(Result(name="read_file", args=raw({"n": 9}), output=raw("x"))), StepFinished()])
    assert guarded.status().blind is msgspec.UNSET


def test_the_last_finding_is_the_last_however_many_there_were() -> None:
    small = {"enabled": True, "warningThreshold": 1, "criticalThreshold": 2}
    guarded = session(
        model={"maxToolCallsPerTurn": 0},
        tools={"loopDetection": small},
        turnguard={"maxBlocksPerTurn": 0, "progress": {"action": "off"}},
    )
    for name, times in (("x", MAX_LISTED_FINDINGS + 20), ("y", 3)):
        for number in range(times):
            guarded.record([calls(call(name, {}, f"{name}{number}"))])
            guarded.record([results(Result(f"{name}{number}", output=raw("same")))])
    last = guarded.status().last_finding
    assert isinstance(last, msgspec.Struct)
    assert last.tool == "y"


def test_a_second_continue_once_forgives_nothing_more() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3, "skipLoopDetection": False})
    guarded.record([same(3)])
    guarded.record([distinct(1)])
    guarded.override("continueOnce")
    cap = guarded.status().cap.value
    guarded.override("continueOnce")
    assert guarded.status().cap.value == cap


def test_a_response_that_comes_again_is_no_step_more_and_its_dead_calls_get_no_results() -> None:
    guarded = session(turnguard={"maxStepsPerTurn": 2})
    for number in range(5):
        assert guarded.record([calls(call("t", {"n": number}, "c1"))]).action is Action.ALLOW
        guarded.record([Retry()])
    assert guarded.record([calls(call("t", {"n": 9}, "c1"))]).admitted == [0]
    verdict = guarded.record([results(Result("c1", output=raw("x")))])
    assert (verdict.admitted, verdict.totals.steps) == ([], 1)


def test_steps_are_never_fewer_than_were_taken() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3})
    guarded.record([calls(*(call("t", {"n": n}, f"i{n}") for n in range(3)))])
    guarded.record([distinct(1, 9)])
    guarded.override("disable")
    guarded.override("enable")
    guarded.record([results(*(Result(f"i{n}", error_type="invalid_params") for n in range(3)))])
    guarded.override("continueOnce")
    assert guarded.status().totals.steps >= 0


def test_the_words_of_a_halt_stay_true_under_other_settings() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3})
    guarded.record([distinct(4)])
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 10}))
    assert "raised" not in str(guarded.record([]).user_message)


def test_a_budget_that_is_gone_limits_nothing() -> None:
    states = {"states": {"A": ["a"], "F": ["f"]}, "fallbackState": "F"}
    guarded = session(loopShield={**SHIELD, **states})
    guarded.record([distinct(2)])
    guarded.prepare_step()
    guarded.configure(in_force())
    assert guarded.record([Text("x")]).action is Action.WARN


def test_the_cap_that_holds_is_the_one_that_is_raised() -> None:
    guarded = session()
    guarded.record([distinct(100)])
    guarded.record([same(6)])
    guarded.configure(in_force(model={"maxToolCallsPerTurn": 104}))
    guarded.override("raiseCap", calls=50)
    assert guarded.status().cap.value == 154
    assert guarded.record([same(6)]).action is Action.ALLOW


def test_a_cap_stays_a_number_that_every_client_can_read() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 3})
    guarded.record([distinct(1)])
    for _ in range(5):
        guarded.override("raiseCap", calls=2**53 - 1)
    status = guarded.status()
    assert status.cap.value is not None
    assert status.cap.value < 2**53
    assert all(isinstance(each.calls, int) and each.calls < 2**53 for each in status.overrides)
