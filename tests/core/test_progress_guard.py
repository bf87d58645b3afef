"""The progress guard in a turn: which calls and results are of a step, what is found, and in which words."""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.build import call, calls, in_force, session
from turnguard.core import progress
from turnguard.core.guard import Batch, Rekeying
from turnguard.core.messages import model_message, user_message
from turnguard.core.progress import ProgressGuard, Standing
from turnguard.core.turn.counter import counted
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Facts,
    Fallback,
    Keys,
    Outcomes,
    Result,
    Retry,
    StepFinished,
    Text,
    ToolResults,
    TurnEnded,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.settings import ProgressAction, SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Totals


def under(action: ProgressAction) -> SettingsInForce:
    return msgspec.structs.replace(in_force(), progress=action)


def guard_with(action: ProgressAction = "halt", **more: Any) -> ProgressGuard:
    return ProgressGuard(under(action), **more)


def send(guard: ProgressGuard, *calls: Call, admitted: Sequence[int] | None = None) -> None:
    guard.check(Batch(list(calls), None))
    guard.commit(Batch(list(calls), None), range(len(calls)) if admitted is None else admitted)


def answer(guard: ProgressGuard, *results: Result) -> None:
    assert not guard.receive(ToolResults(list(results)))


def finish(guard: ProgressGuard) -> str:
    """Closes the step; what is said of it, in a word, with a star where it is fresh."""
    findings = guard.receive(StepFinished())
    assert len(findings) <= 1
    return "".join(f"{finding.action}{'*' if finding.fresh else ''}" for finding in findings)


def one(guard: ProgressGuard, key: str = "a", outcome: str | None = "x", **more: Any) -> str:
    """A step of one call."""
    send(guard, Call("read_file", "1", key=key))
    answer(guard, Result("1", outcome=outcome, **more))
    return finish(guard)


def points(guard: ProgressGuard) -> float:
    return guard.standing().points


# --- the step ---------------------------------------------------------------------------------------------------------


def test_a_plain_repeat_is_warned_of_and_then_stopped() -> None:
    guard = guard_with()
    assert [one(guard) for _ in range(5)] == ["", "", "", "warn*", "halt*"]


def test_results_come_in_any_order_and_are_paired_by_id() -> None:
    guard = guard_with()
    for _ in range(4):
        send(guard, Call("a", "1", key="k"), Call("a", "2", key="k"))
        answer(guard, Result("2", outcome="y"))
        answer(guard, Result("3", outcome="z"), Result("1", outcome="x"))
        finish(guard)
    assert points(guard) == 5
    assert guard.progress is not None
    assert guard.progress.known == 8


def test_results_without_id_are_paired_by_name_and_key() -> None:
    guard = guard_with()
    for _ in range(3):
        send(guard, Call("a", "1", key=Keys("k")), Call("b", key="k"), Call(None, key="k"))
        answer(guard, Result(name="b", key="k", outcome="x"), Result(name="a", key=Keys("k", "r"), outcome="x"))
        answer(guard, Result(name="a", key="other", outcome="x"), Result(key="k", outcome="x"))
        finish(guard)
    assert points(guard) == 3


def test_equal_calls_without_id_take_their_results_in_turn() -> None:
    guard = guard_with()
    send(guard, Call("a", key="k"), Call("a", key="k"))
    answer(guard, *(Result(name="a", key="k", outcome=outcome) for outcome in ("x", "y", "z")))
    finish(guard)
    assert guard.progress is not None
    assert len(guard.progress.evidence) == 2


def test_several_batches_are_one_step() -> None:
    guard = guard_with()
    for _ in range(4):
        send(guard, Call("a", "1", key="k"))
        send(guard, Call("a", "2", key="k"))
        answer(guard, Result("1", outcome="x"), Result("2", outcome="x"))
        finish(guard)
    assert points(guard) == 3


def test_refused_calls_are_not_part_of_the_step() -> None:
    guard = guard_with()
    for _ in range(4):
        send(guard, Call("a", "1", key="k"), Call("b", "2", key="k"), admitted=[1])
        answer(guard, Result("1", outcome="refused"), Result("2", outcome="x"))
        finish(guard)
    assert points(guard) == 3
    assert guard.standing().calls == 4


SILENT = [
    Result("1"),
    Result("1", ok=True),
    Result("1", outcome=Outcomes(read="x", rolling="x")),
    *(Result("1", outcome="x", status=status) for status in ("notStarted", "cancelled", "unknown")),
    Result("1", outcome="x", duplicate=True),
    Result("2", outcome="x"),
]


@pytest.mark.parametrize("result", SILENT)
def test_what_tells_no_outcome(result: Result) -> None:
    guard = guard_with()
    for _ in range(6):
        send(guard, Call("a", "1", key="k"))
        answer(guard, result)
        assert finish(guard) == ""
    assert guard.is_blind()


def test_a_copy_does_not_take_the_place_of_the_call() -> None:
    guard = guard_with()
    send(guard, Call("a", "1", key="k"))
    answer(guard, Result("1", outcome="copy", duplicate=True), Result("1", outcome="x"))
    finish(guard)
    assert not guard.is_blind()


def test_an_outcome_for_each_guard_counts_like_one_for_all() -> None:
    guard = guard_with()
    steps = [one(guard, outcome=outcome) for outcome in ["x", Outcomes(progress="x")] * 2]  # pyright: ignore[reportArgumentType]
    assert steps == ["", "", "", "warn*"]


@pytest.mark.parametrize(("ok", "reason"), [(False, "error"), (True, None), (None, None)])
def test_only_what_is_known_to_have_failed_failed(ok: bool | None, reason: str | None) -> None:
    guard = guard_with()
    said: list[Finding] = []
    for number in range(5):
        send(guard, Call("a", "1", key=f"{number}"))
        answer(guard, Result("1", outcome="E", ok=ok))
        said += guard.receive(StepFinished())
    assert [finding.reason for finding in said] == ([] if reason is None else [reason])


@pytest.mark.parametrize(("ok", "score"), [(True, 0), (None, 1)])
def test_only_what_is_known_to_have_succeeded_is_excused(ok: bool | None, score: int) -> None:
    guard = guard_with()
    for number in range(4):
        send(guard, Call("Edit", "1", key=f"{number}"), Call("bash", "2", key="k"))
        answer(guard, Result("1", outcome="x"), Result("2", outcome="x", ok=ok))
        finish(guard)
    assert points(guard) == score


def test_the_hint_says_what_a_call_is() -> None:
    guard = guard_with()
    for _ in range(4):
        send(guard, Call("bash", "1", key="k", hint="sleep"))
        answer(guard, Result("1", outcome="x"))
        finish(guard)
    assert points(guard) == 0.5


@pytest.mark.parametrize("call", [Call("a", "1", key="k", fidelity="none"), Call("a", "1")])
def test_a_call_that_is_never_identical_to_another_is_passed_over(call: Call) -> None:
    guard = guard_with()
    for _ in range(6):
        send(guard, call)
        answer(guard, Result("1", outcome="x"), Result(name="a", key="k", outcome="x"))
        assert finish(guard) == ""
    assert points(guard) == 0
    assert guard.standing().calls == 6


def test_a_result_after_its_step_is_ignored() -> None:
    guard = guard_with()
    send(guard, Call("a", "1", key="k"))
    finish(guard)
    answer(guard, Result("1", outcome="x"))
    guard.receive_late(ToolResults([Result("1", outcome="x")]))
    assert guard.is_blind()
    assert guard.step is None


def of_run(guard: ProgressGuard, run: str, call_id: str, key: str) -> None:
    guard.commit(Batch([Call("task", call_id, key=key)], run), [0])


def test_the_step_of_another_run_takes_no_outcome_away() -> None:
    guard, said = guard_with(), list[str]()
    for number in range(5):
        of_run(guard, "main", f"m{number}", "a")
        for inner in range(3):
            of_run(guard, "sub", f"s{number}{inner}", f"{number}{inner}")
            answer(guard, Result(f"s{number}{inner}", outcome=f"{number}{inner}"))
            assert finish(guard) == ""
        answer(guard, Result(f"m{number}", outcome="x"))
        said.append(finish(guard))
    assert said == ["", "", "", "", "warn*"], "each of the subagent's steps showed something new"
    assert guard.progress is not None
    assert guard.progress.known == guard.progress.calls == 20


def test_only_what_waits_for_a_result_outlasts_the_step_of_another_run() -> None:
    guard = guard_with()
    of_run(guard, "main", "m0", "a")
    of_run(guard, "main", "m1", "b")
    answer(guard, Result("m1", outcome="x"))
    of_run(guard, "sub", "s0", "c")
    answer(guard, Result("s0", outcome="x"))
    finish(guard)
    assert guard.standing().calls == 2
    copy = guard_with()
    copy.restore(guard.snapshot())
    for each in (guard, copy):
        answer(each, Result("m0", outcome="x"))
        finish(each)
        assert each.standing().calls == 3
        assert each.step is None


def test_a_run_at_hand_waits_for_nothing_and_nothing_is_held_past_the_turn() -> None:
    guard = guard_with()
    of_run(guard, "main", "m0", "a")
    finish(guard)
    assert (guard.standing().calls, guard.step) == (1, None)
    of_run(guard, "main", "m1", "a")
    of_run(guard, "sub", "s0", "c")
    finish(guard)
    assert guard.step is not None
    guard.receive(TurnEnded())
    assert guard.step is None


def test_a_call_of_low_fidelity_is_stopped_later() -> None:
    guard, said = guard_with(), list[str]()
    for _ in range(8):
        send(guard, Call("read_file", "1", key="a", fidelity="low"))
        answer(guard, Result("1", outcome="x"))
        said.append(finish(guard))
    assert said[:7] == ["", "", "", "", "warn*", "", "halt*"]


def test_a_call_that_becomes_known_in_full_counts_in_full() -> None:
    guard, said = guard_with(), list[str]()
    for _ in range(5):
        low = Call("read_file", "1", key="a", fidelity="low")
        send(guard, low)
        full = msgspec.structs.replace(low, fidelity="full")
        guard.commit_rekeyed(Rekeying(low, full, is_in_step=True), is_admitted=True)
        answer(guard, Result("1", outcome="x"))
        said.append(finish(guard))
    assert said == ["", "", "", "warn*", "halt*"]


def test_a_result_that_comes_late_but_in_its_step_counts() -> None:
    guard = guard_with()
    send(guard, Call("a", "1", key="k"))
    guard.receive_late(ToolResults([Result("1", outcome="x")]))
    finish(guard)
    assert not guard.is_blind()


def test_a_step_is_judged_once_and_without_calls_not_at_all() -> None:
    guard = guard_with()
    assert finish(guard) == ""
    assert guard.progress is None
    for _ in range(3):
        one(guard)
    assert (one(guard), finish(guard)) == ("warn*", "")
    assert guard.standing() == Standing(points=3, calls=4, since_warning=0)


def test_the_standing_counts_all_calls() -> None:
    guard = guard_with()
    one(guard, outcome=None)
    for _ in range(4):
        one(guard)
    one(guard, outcome=None)
    assert guard.standing() == Standing(points=3, calls=6, since_warning=1)


@pytest.mark.parametrize("event", [Retry(), Retry(continuation=True), Fallback(), TurnEnded()])
def test_the_open_step_is_dropped_and_the_state_stays(event: Event) -> None:
    guard = guard_with()
    for _ in range(3):
        one(guard)
    send(guard, Call("read_file", "1", key="a"))
    answer(guard, Result("1", outcome="x"))
    assert not guard.receive(event)
    assert finish(guard) == ""
    answer(guard, Result("1", outcome="x"))
    assert points(guard) == 1
    assert one(guard) == "warn*"


@pytest.mark.parametrize("event", [Compacted(), UserInput(), Text("words")])
def test_other_events_change_nothing(event: Event) -> None:
    guard = guard_with()
    send(guard, Call("a", "1", key="k"))
    before = guard.snapshot()
    assert not guard.receive(event)
    assert guard.snapshot() == before


def test_a_new_turn_starts_anew() -> None:
    guard = guard_with("warn")
    for _ in range(6):
        one(guard)
    send(guard, Call("read_file", "1", key="a"))
    guard.receive(TurnStarted())
    assert guard.snapshot() == guard_with().snapshot()
    assert [one(guard) for _ in range(5)] == ["", "", "", "warn*", "warn*"]


def test_a_step_without_end_is_held_only_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MAX_OPEN_CALLS", 10)
    guard = guard_with()
    for number in range(100):
        send(guard, Call("a", f"{number}", key="k"))
        assert guard.step is not None
        assert len(guard.step.calls) <= 11
        assert len(guard.step.waiting) <= 11
    answer(guard, Result("99", outcome="x"))
    finish(guard)
    assert not guard.is_blind()


# --- results that are never shown -------------------------------------------------------------------------------------

BLIND = Facts(blind=True)


def unseen(guard: ProgressGuard, key: str = "a", *, result: Result | None = None, **more: Any) -> str:
    """A step of one call whose result nobody is shown."""
    send(guard, Call("shell", "1", key=key, **{"facts": BLIND, **more}))
    answer(guard, result or Result("1", ok=True))
    return finish(guard)


def test_the_streak_is_warned_of_at_8_and_stopped_at_15() -> None:
    guard = guard_with()
    assert [unseen(guard) for _ in range(16)] == [""] * 7 + ["warn*"] + [""] * 6 + ["halt*"] * 2


def test_a_streak_says_how_long_it_is_and_of_which_call() -> None:
    guard = guard_with(seal=lambda key: f"sealed {key}")
    found: list[Finding] = []
    for _ in range(15):
        send(guard, Call("shell", "1", key="k", facts=BLIND))
        found += guard.receive(StepFinished())
    warning, halt = found
    assert (warning.reason, warning.tool, warning.count, warning.threshold) == ("blind", "shell", 8, 8)
    assert (halt.reason, halt.tool, halt.count, halt.threshold) == ("blind", "shell", 15, 15)
    assert {finding.loop_type for finding in found} == {"no_new_evidence"}
    assert {finding.key_digest for finding in found} == {"sealed k"}
    assert {finding.setting for finding in found} == {"turnguard.progress.action"}


ENDS_A_STREAK: list[dict[str, Any]] = [
    {"key": "other"},
    {"facts": None},
    {"facts": Facts(poll=True)},
    {"fidelity": "none"},
    {"result": Result("1", outcome="shown after all")},
]


@pytest.mark.parametrize("other", ENDS_A_STREAK, ids=str)
@pytest.mark.parametrize("before", [7, 14])
def test_any_other_call_ends_the_streak(before: int, other: dict[str, Any]) -> None:
    guard = guard_with()
    said = [unseen(guard) for _ in range(before)]
    said += [unseen(guard, **other), *(unseen(guard) for _ in range(7))]
    assert "".join(said) == ("warn*" if before == 14 else "")
    assert unseen(guard) == "warn*", "it is another streak, so it is warned of anew"


@pytest.mark.parametrize("other", ENDS_A_STREAK[1:4], ids=str)
def test_other_calls_are_none_of_a_streak(other: dict[str, Any]) -> None:
    guard = guard_with()
    assert [unseen(guard, **other) for _ in range(20)] == [""] * 20
    assert guard.streak is None


def test_another_tool_with_the_same_key_is_another_call() -> None:
    guard = guard_with()
    for number in range(30):
        send(guard, Call("shell" if number % 2 else "bash", "1", key="k", facts=BLIND))
        assert finish(guard) == ""


def test_a_shown_result_is_judged_by_what_it_shows() -> None:
    guard = guard_with()
    shown = Result("1", outcome="no such file", ok=False)
    assert [unseen(guard, result=shown) for _ in range(5)] == ["", "", "", "warn*", "halt*"]


def test_calls_of_one_step_are_in_a_row_too_and_the_warning_comes_first() -> None:
    guard = guard_with()
    for said in ("warn*", "halt*"):
        send(guard, *(Call("shell", f"{number}", key="k", facts=BLIND) for number in range(20)))
        assert finish(guard) == said


def test_a_step_that_ends_with_another_call_has_no_streak() -> None:
    guard = guard_with()
    send(guard, *(Call("shell", f"{number}", key="k", facts=BLIND) for number in range(20)), Call("a", "x", key="k"))
    assert finish(guard) == ""


def test_a_call_that_is_rekeyed_in_its_step_counts_as_what_it_is_then() -> None:
    guard = guard_with()
    before, now = Call("shell", "1", key="", fidelity="none"), Call("shell", "1", key="k", facts=BLIND)
    for _ in range(8):
        send(guard, before)
        guard.commit_rekeyed(Rekeying(before, now, is_in_step=True), is_admitted=True)
        said = finish(guard)
    assert said == "warn*"  # pyright: ignore[reportPossiblyUnboundVariable]


def test_words_do_not_end_a_streak_and_a_new_turn_does() -> None:
    guard = guard_with()
    for _ in range(7):
        unseen(guard)
        guard.receive(Text("once more"))
    assert unseen(guard) == "warn*"
    guard.receive(TurnStarted())
    assert [unseen(guard) for _ in range(7)] == [""] * 7


def test_with_warn_a_streak_is_only_warned_of_and_people_read_it_twice() -> None:
    guard = guard_with("warn")
    assert [unseen(guard) for _ in range(17)] == [""] * 7 + ["warn*"] + [""] * 6 + ["warn*", "warn", "warn"]


def test_off_counts_no_streak() -> None:
    guard = guard_with("off")
    assert [unseen(guard) for _ in range(20)] == [""] * 20
    assert guard.streak is None


def test_forgiving_a_streak_clears_it_and_nothing_else() -> None:
    guard = guard_with()
    for _ in range(3):
        one(guard)
    for _ in range(15):
        unseen(guard)
    guard.forgive(finding_of("call", 5))
    assert guard.streak is not None
    for _ in range(3):
        one(guard)
    for _ in range(15):
        unseen(guard)
    guard.forgive(finding_of("blind", 15))
    assert (guard.streak, points(guard)) == (None, 1)
    assert [unseen(guard) for _ in range(8)] == [""] * 7 + ["warn*"]


def test_in_a_session_a_streak_is_stopped_and_one_can_go_on() -> None:
    guarded = session(turnguard={"progress": {"action": "halt"}})
    step = [calls(call("shell", facts=BLIND)), StepFinished()]
    actions = [guarded.record(step).action for _ in range(16)]
    assert actions == [*["allow"] * 7, "warn", *["allow"] * 6, "halt", "halt"]
    assert guarded.status().blind == ["progress"]
    guarded.override("continueOnce")
    assert [guarded.record(step).action for _ in range(8)] == [*["allow"] * 7, "warn"]


# --- findings ---------------------------------------------------------------------------------------------------------


def test_what_a_finding_says() -> None:
    guard = guard_with(seal=lambda key: f"sealed {key}")
    key = "ab" * 16 + "cd" * 16
    found: Sequence[Finding] = ()
    for _ in range(4):
        send(guard, Call("read_file", "1", key=Keys(key, "r")))
        answer(guard, Result("1", outcome="x"))
        found = guard.receive(StepFinished())
    assert found == [
        Finding(
            guard="progress",
            action=Action.WARN,
            loop_type="no_new_evidence",
            reason="call",
            tool="read_file",
            count=4,
            threshold=2,
            key_digest=f"sealed {counted(key)}",
            setting="turnguard.progress.action",
        )
    ]


def test_where_arguments_vary_a_finding_names_no_call() -> None:
    guard = guard_with(seal=str)
    found: Sequence[Finding] = ()
    for number in range(5):
        send(guard, Call(None, "1", key=f"{number}"))
        answer(guard, Result("1", outcome="E", ok=False))
        found = guard.receive(StepFinished())
    assert [(finding.reason, finding.count) for finding in found] == [("error", 5)]
    assert [(finding.key_digest, finding.tool) for finding in found] == [(UNSET, UNSET)]


def test_with_warn_a_halt_is_told_as_a_warning_fresh_once_an_episode() -> None:
    guard = guard_with("warn")
    assert [one(guard) for _ in range(7)] == ["", "", "", "warn*", "warn*", "warn", "warn"]
    for number in range(30):
        one(guard, key=f"new {number}")
    assert points(guard) == 0
    later = [one(guard) for _ in range(7)]
    assert later == ["", "", "", "warn", "warn", "warn", "warn"], "people are told twice a turn, the model always"


def test_off_says_and_holds_nothing() -> None:
    guard = guard_with("off")
    assert [one(guard) for _ in range(6)] == [""] * 6
    assert guard.progress is None
    assert guard.step is None


def test_another_action_holds_from_the_next_event() -> None:
    guard = guard_with("halt")
    assert [one(guard) for _ in range(4)][-1] == "warn*"
    send(guard, Call("read_file", "1", key="a"))
    answer(guard, Result("1", outcome="x"))
    guard.configure(under("off"))
    assert finish(guard) == ""
    guard.configure(under("warn"))
    assert one(guard) == "warn*"
    guard.configure(under("halt"))
    assert one(guard) == "halt*", "stricter than what was told"


@pytest.mark.parametrize(("action", "last"), [("halt", "halt*"), ("warn", "warn*")])
def test_forgiving_clears_what_was_seen(action: ProgressAction, last: str) -> None:
    guard = guard_with(action)
    guard.forgive(finding_of("call", 5))
    assert [one(guard) for _ in range(5)][-1] == last
    guard.forgive(finding_of("call", 5))
    assert guard.standing() == Standing(points=0, calls=5, since_warning=None)
    assert [one(guard) for _ in range(5)] == ["", "", "", "warn*", last]


# --- words ------------------------------------------------------------------------------------------------------------


def finding_of(reason: str, count: int, action: Action = Action.WARN) -> Finding:
    return Finding(
        guard="progress",
        action=action,
        loop_type="no_new_evidence",
        reason=reason,
        tool="x",
        count=count,
        threshold=2,
        setting="turnguard.progress.action",
    )


NO_TOTALS = Totals(0, 0, 0, 0)

LAST_CHANCE = "; the turn is stopped if the next calls show nothing new either."
BLIND_LAST_CHANCE = "; the turn is stopped if the same call keeps coming."

MODEL_TEXTS = {
    "call": '"x" has now given this same result 4 times in the last 20 calls. Repeating it will not show anything new. '
    "Use what you know, change the approach, or say what blocks you",
    "edit": "This same edit has been made 4 times. Check the file's present content before editing it again",
    "error": '4 calls of "x" failed with the same error. Change the approach rather than the arguments',
    "final": '"x" has been sent 4 times; it does not end this turn. Stop calling tools and answer',
    "blind": '"x" was called 4 times in a row with the same arguments, and this agent does not show results. '
    "If the call shows you nothing new, change the approach, or say what blocks you",
}


@pytest.mark.parametrize("reason", get_args(progress.Kind))
def test_what_the_model_reads(reason: str) -> None:
    warning = finding_of(reason, 4)
    closing = BLIND_LAST_CHANCE if reason == "blind" else LAST_CHANCE
    assert model_message([warning], under("halt"), NO_TOTALS) == MODEL_TEXTS[reason] + closing
    assert model_message([warning], under("warn"), NO_TOTALS) == MODEL_TEXTS[reason] + "."


def test_what_a_person_reads() -> None:
    halt = finding_of("call", 5, Action.HALT)
    assert user_message([halt], under("halt"), NO_TOTALS, Standing(6.25, 7, 2)) == (
        'Stopped: no new evidence. "x" has now given this same result 5 times in the last 20 calls; '
        "6.25 points (limit 6), warned 2 calls ago. Nothing was run after call 7. "
        "Continue anyway: clears the score. Setting: turnguard.progress.action."
    )
    once = user_message([halt], under("halt"), NO_TOTALS, Standing(6, 5, 1))
    assert "6 points (limit 6), warned 1 call ago." in once
    assert user_message([finding_of("edit", 4)], under("halt"), NO_TOTALS, Standing(3, 4, 0)) == (
        "Warning: no new evidence. This same edit has been made 4 times; 3 points (limit 6). "
        "Setting: turnguard.progress.action."
    )


def test_what_a_person_reads_where_there_are_no_points() -> None:
    halt = finding_of("blind", 15, Action.HALT)
    assert user_message([halt], under("halt"), NO_TOTALS, Standing(0, 15, None)) == (
        'Stopped: "x" was called 15 times in a row with the same arguments, and this agent does not show results. '
        "Setting: turnguard.progress.action. You can continue once."
    )


def test_where_the_turn_stands_need_not_be_known() -> None:
    assert user_message([finding_of("edit", 4)], under("warn"), NO_TOTALS) == (
        "Warning: this same edit has been made 4 times. Setting: turnguard.progress.action."
    )


# --- snapshots --------------------------------------------------------------------------------------------------------

Strategy = st.SearchStrategy[Any]

ids: Strategy = st.sampled_from([None, "1", "2"])
one_call: Strategy = st.builds(
    Call,
    st.sampled_from(["bash", "Edit", "finish", None]),
    ids,
    key=st.sampled_from(["a", "b", Keys("a"), None]),
    fidelity=st.sampled_from(["full", "full", "low", "none"]),
    hint=st.sampled_from([None, "sleep"]),
    facts=st.sampled_from([None, None, BLIND]),
)
one_result: Strategy = st.builds(
    Result,
    ids,
    st.sampled_from(["bash", "Edit", "finish", None]),
    key=st.sampled_from(["a", "b", Keys("a")]),
    outcome=st.sampled_from([None, "x", "x", Outcomes(progress="x"), Outcomes()]),
    ok=st.sampled_from([None, True, False]),
    status=st.sampled_from(["done", "done", "done", "unknown"]),
    duplicate=st.sampled_from([False, False, True]),
)
looping: Strategy = st.builds(
    lambda call, result, times: [[call], ToolResults([result]), StepFinished()] * times,
    one_call,
    one_result,
    st.one_of(st.integers(1, 7), st.just(16)),
)
single: Strategy = st.one_of(
    st.lists(one_call, max_size=3),
    st.builds(ToolResults, st.lists(one_result, max_size=3)),
    st.sampled_from([StepFinished(), Retry(), Fallback(), TurnEnded(), TurnStarted()]),
)
moments: Strategy = st.lists(st.one_of(looping, looping, single.map(lambda each: [each])), max_size=8).map(
    lambda parts: [moment for part in parts for moment in part]
)


def tell(guard: ProgressGuard, moment: Any) -> Sequence[Finding]:
    """Tells the guard of a batch, of which every call may run, or of another event."""
    if not isinstance(moment, list):
        return guard.receive(moment)
    send(guard, *moment)  # pyright: ignore[reportUnknownArgumentType]
    return ()


@settings(max_examples=200, deadline=None)
@given(moments, st.integers(0, 30), st.sampled_from(["warn", "halt"]))
def test_snapshot_and_restore_cannot_be_seen(moments: list[Any], place: int, action: ProgressAction) -> None:
    guard, other = guard_with(action), guard_with(action)
    for number, moment in enumerate(moments):
        if number == place:
            fresh = guard_with(action)
            fresh.restore(msgspec.json.decode(msgspec.json.encode(other.snapshot())))
            other = fresh
        assert list(tell(other, moment)) == list(tell(guard, moment))
        assert other.snapshot() == guard.snapshot()
        assert other.standing() == guard.standing()
