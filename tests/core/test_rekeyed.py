"""Calls whose identity becomes known, or changes, after they were told: the session, then guard by guard."""

from typing import Any

import msgspec
import pytest

from tests.build import call, calls, in_force, raw, results, session
from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.budget.errors import ToolNameRequiredError
from turnguard.core.identify import identify
from turnguard.core.open_turn import Turn
from turnguard.core.session import EventError, SessionGuard
from turnguard.core.step import OpenStep
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Compacted,
    Facts,
    Fallback,
    Result,
    Retry,
    StepFinished,
    ToolCalls,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action, Verdict

LOOPS = {
    "tools": {
        "loopDetection": {
            "enabled": True,
            "warningThreshold": 2,
            "criticalThreshold": 3,
            "detectors": {"pingPong": False},
        }
    }
}


def known(key: str, call_id: str | None = None, name: str = "read", **more: Any) -> Call:
    """A call of which all is known."""
    return Call(name, call_id, key=key, **more)


def unknown(call_id: str, name: str | None = "read") -> Call:
    """A call of which only the id, and perhaps the tool, is known."""
    return Call(name, call_id, key="", fidelity="none")


def told(call_id: str, key: str, **more: Any) -> CallRekeyed:
    """What it is."""
    return CallRekeyed(call_id, key=key, **more)


def answer(call_id: str, outcome: str = "same", **more: Any) -> Result:
    return Result(call_id, outcome=outcome, ok=True, **more)


def totals(guarded: SessionGuard) -> tuple[int, int, int]:
    """Calls, different calls, and how often the most frequent one was made."""
    now = guarded.status().totals
    return now.tool_calls, now.distinct_keys, now.max_key_repeat


def loops(verdict: Verdict) -> list[str]:
    return [str(finding.loop_type) for finding in verdict.findings]


# --- the event --------------------------------------------------------------------------------------------------------


def test_arguments_are_identified_as_those_of_a_call() -> None:
    of_a_call = identify(calls(call("run_shell_command", {"command": "git status"})))
    rekeyed = identify(CallRekeyed("c", "run_shell_command", raw({"command": "git status"})))
    assert isinstance(of_a_call, ToolCalls)
    assert isinstance(rekeyed, CallRekeyed)
    one = of_a_call.calls[0]
    assert (rekeyed.name, rekeyed.key, rekeyed.hint, rekeyed.facts) == (one.name, one.key, one.hint, one.facts)
    assert (rekeyed.id, rekeyed.args) == ("c", msgspec.UNSET)


def test_without_a_name_arguments_are_those_of_the_calls_own_tool() -> None:
    guarded = session()
    guarded.record([calls(call("edit", {"n": 1}))])
    guarded.record([calls(Call("replace", "c", fidelity="none"))])
    assert guarded.record([CallRekeyed("c", args=raw({"n": 1}))]).totals.max_key_repeat == 2  # replace is edit's alias


@pytest.mark.parametrize("is_renamed", [False, True])
def test_the_name_may_come_earlier_in_the_same_record(is_renamed: bool) -> None:
    guarded = session()
    guarded.record([calls(call("edit", {"n": 1}))])
    name = "read" if is_renamed else "edit"
    renamed = [CallRekeyed("c", "edit", key="k")] if is_renamed else []
    call_itself = calls(Call(name, "c", fidelity="none"))
    assert guarded.record([call_itself, *renamed, CallRekeyed("c", args=raw({"n": 1}))]).totals.max_key_repeat == 2


def test_a_name_of_an_earlier_turn_is_nobodys() -> None:
    guarded = session()
    guarded.record([calls(Call("edit", "c", fidelity="none"))])
    verdict = guarded.record([TurnStarted(), calls(Call("read", "c", fidelity="none")), calls(call("read", {"n": 1}))])
    assert verdict.totals.max_key_repeat == 1
    assert guarded.record([CallRekeyed("c", args=raw({"n": 1}))]).totals.max_key_repeat == 2


def test_arguments_that_are_no_json_are_an_error_that_changes_nothing() -> None:
    guarded = session()
    guarded.record([calls(unknown("c"))])
    before = guarded.snapshot()
    with pytest.raises(EventError) as error:
        guarded.record([told("c", "k"), CallRekeyed("c", args=msgspec.Raw(b"{"))])
    assert error.value.path == "$.events[1].args"
    assert guarded.snapshot() == before


def test_a_long_id_is_held_as_that_of_its_call_is() -> None:
    guarded = session()
    guarded.record([calls(unknown("c" * 5_000), known("a"))])
    assert guarded.record([told("c" * 5_000, "a")]).totals.max_key_repeat == 2


# --- the session ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", ["batch", "stream"])
def test_counts_move_and_the_total_stays(guard: str) -> None:
    guarded = session(turnguard={"turnGuard": guard})
    guarded.record([calls(known("a"), known("a"), known("b", "c"))])
    assert totals(guarded) == (3, 2, 2)
    guarded.record([told("c", "a")])
    assert totals(guarded) == (3, 1, 3)
    guarded.record([told("c", "b")])
    assert totals(guarded) == (3, 2, 2)


@pytest.mark.parametrize("guard", ["batch", "stream"])
def test_the_same_identity_again_changes_nothing(guard: str) -> None:
    guarded = session(turnguard={"turnGuard": guard}, **LOOPS)
    guarded.record([calls(unknown("c"))])
    guarded.record([told("c", "a")])
    before = guarded.snapshot()
    assert guarded.record([told("c", "a")]).findings == []
    assert guarded.snapshot() == before


def test_an_id_of_no_call_of_the_turn_is_ignored() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(unknown("c"))])
    guarded.record([TurnStarted(), calls(known("a"))])
    before = guarded.snapshot()
    guarded.record([told("c", "a"), told("d", "a")])
    assert guarded.snapshot() == before


def test_of_two_calls_of_one_id_in_a_response_the_copy_is_nobody() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c"), known("b", "c"), known("x"))])
    guarded.record([told("c", "x")])
    assert totals(guarded) == (2, 1, 2)


def test_no_more_unknown_calls_are_remembered_than_open_ones() -> None:
    turn = Turn("t", "user")
    turn.note_unsettled([unknown(str(number)) for number in range(MAX_OPEN_CALLS + 1)])
    assert (turn.find("0"), turn.find("1")) == (None, unknown("1"))
    assert len(turn.unsettled or ()) == MAX_OPEN_CALLS


def test_after_the_end_of_the_turn_it_is_ignored() -> None:
    guarded = session()
    guarded.record([calls(unknown("c"), known("a"))])
    guarded.record([TurnEnded()])
    guarded.record([told("c", "a")])
    assert totals(guarded) == (2, 1, 1)


def test_a_call_that_came_unknown_can_be_told_steps_later_and_again() -> None:
    guarded = session()
    guarded.record([calls(unknown("c"), known("a"))])
    for number in range(3):
        guarded.record([StepFinished(), calls(known(f"b{number}"))])
    guarded.record([told("c", "a")])
    assert totals(guarded) == (5, 4, 2)
    guarded.record([StepFinished(), told("c", "d")])
    assert totals(guarded) == (5, 5, 1)


def test_a_call_that_came_known_can_change_until_its_step_is_closed() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c"))])
    guarded.record([results(answer("c")), told("c", "b"), StepFinished()])
    assert totals(guarded) == (1, 1, 1)
    guarded.record([told("c", "a"), calls(known("b"))])
    assert totals(guarded) == (2, 1, 2)


def test_a_call_that_came_known_can_change_while_results_of_its_step_are_awaited() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c")), StepFinished(), calls(known("b"))])
    guarded.record([told("c", "b")])
    assert totals(guarded) == (2, 1, 2)


def test_a_result_comes_with_the_new_name_and_key() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(unknown("c", None))])
    guarded.record([told("c", "a", name="edit")])
    assert guarded._turn is not None
    result = guarded._turn.pair(results(answer("c"))).results[0]
    assert (result.name, result.key, result.duplicate) == ("edit", "a", False)
    assert guarded._turn.step is not None
    assert guarded._turn.step.waiting == {}


def test_a_result_without_an_id_finds_the_call_by_its_new_key() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c"), known("b", "d"))])
    guarded.record([results(Result(name="read", key="x"))])  # looks for calls by their keys
    guarded.record([told("d", "x"), results(Result(name="read", key="x"))])
    assert guarded._turn is not None
    assert guarded._turn.step is not None
    assert list(guarded._turn.step.waiting) == [0]


@pytest.mark.parametrize("turn_guard", ["batch", "stream"])
def test_a_halt_at_the_re_key_latches(turn_guard: str) -> None:
    guarded = session(model={"skipLoopDetection": False}, turnguard={"turnGuard": turn_guard})
    for number in range(5):
        guarded.record([calls(known("a"), known(f"b{number}", name="grep"))])
    guarded.record([calls(unknown("c"))])
    verdict = guarded.record([told("c", "a")])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])
    assert loops(verdict) == ["global_tool_call_duplicate"]
    assert verdict.findings[0].count == 6
    again = guarded.record([told("c", "d")])
    assert (again.action, again.totals) == (Action.HALT, verdict.totals)
    guarded.override("continueOnce")
    assert guarded.record([StepFinished(), calls(known("a"))]).action is Action.ALLOW
    assert guarded.status().totals.tool_calls == 12


def test_what_follows_a_halt_in_its_record_moves_nothing() -> None:
    guarded = session(model={"maxToolCallsPerTurn": 1})
    guarded.record([calls(unknown("c"))])
    guarded.record([calls(known("a")), told("c", "a")])
    assert totals(guarded) == (2, 1, 1)


def blocked(**turnguard: Any) -> tuple[SessionGuard, Verdict]:
    """A session in which the second of two calls, both running, turns out to be one too many of a loop."""
    guarded = session(turnguard=turnguard, **LOOPS)
    for number in range(3):
        guarded.record([calls(known("a", f"{number}"))])
        guarded.record([results(answer(f"{number}")), StepFinished()])
    guarded.record([calls(known("b", "c"), unknown("d"))])
    return guarded, guarded.record([told("d", "a")])


def test_a_block_is_told_and_the_call_is_admitted_no_more() -> None:
    guarded, verdict = blocked()
    assert (verdict.action, verdict.admitted, loops(verdict)) == (Action.BLOCK, [0], ["generic_repeat"])
    restored = SessionGuard("s", in_force(**LOOPS))
    restored.restore(msgspec.json.decode(msgspec.json.encode(guarded.snapshot())))
    assert restored.record([results(answer("x"))]).admitted == [0]
    assert guarded.record([StepFinished()]).admitted == []


def test_a_step_of_too_many_calls_forgets_which_were_blocked() -> None:
    step = OpenStep()
    step.add_batch([known("a", f"{number}") for number in range(MAX_OPEN_CALLS + 1)], range(MAX_OPEN_CALLS + 1))
    assert step.rekey("0", known("b", "0"), is_admitted=False)
    step.add_batch([known("c")], [0])
    assert step.may_start() == [0]


def test_of_two_steps_with_a_call_of_one_id_the_later_ones_call_is_meant() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c")), StepFinished(), calls(known("b", "c")), told("c", "x")])
    assert guarded._turn is not None
    assert guarded._turn.closed is not None
    assert guarded._turn.closed.calls[0].key == "a"
    assert guarded._stack.turn_guard.counter.counts == {"a": 1, "x": 1}


def test_a_block_counts_towards_the_blocks_of_the_turn() -> None:
    _, verdict = blocked(maxBlocksPerTurn=1)
    assert (verdict.action, loops(verdict)) == (Action.HALT, ["max_blocks_per_turn", "generic_repeat"])


def test_in_shadow_a_block_is_reported_and_the_call_stays_admitted() -> None:
    guarded, verdict = blocked(shadow=True)
    assert (verdict.action, verdict.admitted, loops(verdict)) == (Action.ALLOW, [0, 1], ["generic_repeat"])
    assert [record.args for record in guarded._stack.guards[2].history.records] == ["a", "a", "a", "b", "a"]  # type: ignore[attr-defined]


def test_a_blocked_call_that_runs_all_the_same_gets_its_own_result() -> None:
    guarded, _ = blocked()
    assert guarded._turn is not None
    assert guarded._turn.pair(results(answer("d"))).results[0].duplicate is False


def test_while_the_session_is_disabled_only_its_calls_change() -> None:
    guarded = session()
    guarded.record([calls(unknown("c"))])
    guarded.override("disable")
    before = guarded._stack.snapshot()
    guarded.record([told("c", "a")])
    assert guarded._stack.snapshot() == before
    assert guarded._turn is not None
    assert guarded._turn.pair(results(answer("c"))).results[0].key == "a"
    guarded.override("enable")
    guarded.record([told("c", "b")])
    assert totals(guarded) == (0, 0, 0)


@pytest.mark.parametrize("turn_guard", ["batch", "stream"])
def test_state_goes_through_json_at_every_point(turn_guard: str) -> None:
    """What is known of unknown calls goes with it: the session that was written and read again ends up as the other."""
    loop_detection = {**LOOPS["tools"]["loopDetection"], "postCompactionGuard": {"windowSize": 1}}
    now = in_force(
        model={"skipLoopDetection": False},
        tools={"loopDetection": loop_detection},
        turnguard={"turnGuard": turn_guard},
    )
    guarded = restored = SessionGuard("s", now)
    for record in (
        [calls(unknown("c"), known("b", "d"), unknown("e", "task_list"))],
        [told("c", "a")],
        [results(answer("c")), told("e", "l"), results(answer("e"))],
        [StepFinished(), told("c", "b"), calls(known("b")), results(Result(name="read", key="b", outcome="same"))],
        [StepFinished(), calls(known("b")), results(Result(name="read", key="b", outcome="same"))],
        [StepFinished(), calls(known("x"), unknown("f"))],
        [told("f", "b")],
        [results(answer("f", "denied"))],
        [StepFinished(), Compacted(), *(calls(known("n")) for _ in range(4)), calls(unknown("g"))],
        [told("g", "n")],
        [results(answer("g"))],
    ):
        state = msgspec.json.decode(msgspec.json.encode(restored.snapshot()))
        restored = SessionGuard("s", now)
        restored.restore(state)
        assert restored.record(record) == guarded.record(record)
        assert restored.snapshot() == guarded.snapshot()
        assert history(restored) == history(guarded)
        assert restored._stack.turn_guard.counter.unkeyed == guarded._stack.turn_guard.counter.unkeyed
    assert guarded.status().state == "halted"


# --- the turn guards --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", ["batch", "stream"])
def test_the_adaptive_cap_halts_at_the_re_key_that_makes_a_call_repeat(guard: str) -> None:
    guarded = session(turnguard={"turnGuard": guard})
    ab = [call for number in range(5) for call in (known("a"), known(f"b{number}"))]
    guarded.record([calls(unknown("c"), *ab, *(known(f"c{n}") for n in range(95)))])
    verdict = guarded.record([told("c", "a")])
    assert (verdict.action, verdict.findings[0].reason, verdict.findings[0].count) == (Action.HALT, "stuck", 106)


@pytest.mark.parametrize("guard", ["batch", "stream"])
@pytest.mark.parametrize("forgotten_by", [Retry(), None])
def test_a_key_that_was_forgotten_since_does_not_come_back(guard: str, forgotten_by: Retry | None) -> None:
    guarded = session(turnguard={"turnGuard": guard}, model={"skipLoopDetection": False})
    guarded.record([calls(known("d"), unknown("c"))])
    guarded.record([results(answer("c"))])
    if forgotten_by is not None:
        guarded.record([forgotten_by])
    else:
        guarded._stack.turn_guard.counter.clear_repeats()
    guarded.record([told("c", "a")])
    assert totals(guarded)[1:] == (0, 0)


def test_a_replay_is_known_by_the_key_that_was_told_later() -> None:
    guarded = session()
    guarded.record([calls(unknown("c"))])
    guarded.record([told("c", "a"), results(answer("c")), StepFinished()])
    verdict = guarded.record([calls(known("a", "c"))])
    assert (verdict.action, verdict.findings[0].reason) == (Action.BLOCK, "replayed_call_id")
    assert guarded.record([calls(unknown("e"))]).totals.tool_calls == 2


def test_an_id_that_another_call_had_first_stays_that_calls() -> None:
    guarded = session()
    guarded.record([calls(known("a", "c")), results(answer("c")), StepFinished()])
    guarded.record([calls(known("b", "c")), told("c", "d")])
    verdict = guarded.record([results(answer("c")), calls(known("a", "c"))])
    assert verdict.findings[0].reason == "replayed_call_id"


def stream(**model: Any) -> SessionGuard:
    return session(turnguard={"turnGuard": "stream"}, model=model)


def test_the_latest_call_takes_its_place_in_a_streak() -> None:
    guarded = stream()
    for _ in range(4):
        guarded.record([calls(known("a"))])
    guarded.record([calls(unknown("c"))])
    verdict = guarded.record([told("c", "a")])
    assert (loops(verdict), verdict.findings[0].count) == (["consecutive_identical_tool_calls"], 5)


def test_a_call_that_others_followed_stays_in_the_streak_as_what_it_was() -> None:
    guarded = stream()
    for _ in range(3):
        guarded.record([calls(known("a"))])
    guarded.record([calls(unknown("c"))])
    guarded.record([calls(known("a"))])
    assert guarded.record([told("c", "a")]).action is Action.ALLOW
    assert totals(guarded) == (5, 1, 5)
    assert guarded.record([calls(known("a"))]).action is Action.ALLOW


def test_only_the_latest_call_takes_its_place_in_a_streak() -> None:
    guarded = stream()
    guarded.record([calls(unknown("c"))])
    for _ in range(4):
        guarded.record([calls(known("a"))])
    guarded.record([calls(unknown("d"))])
    assert guarded.record([told("c", "a")]).action is Action.ALLOW
    assert loops(guarded.record([told("d", "a")])) == ["consecutive_identical_tool_calls"]


def test_a_streak_that_a_person_forgave_does_not_come_back() -> None:
    guarded = stream()
    for _ in range(4):
        guarded.record([calls(known("a"))])
    guarded.record([calls(unknown("c"))])
    assert guarded.record([told("c", "a")]).action is Action.HALT
    guarded.override("continueOnce")
    guarded.record([told("c", "b")])
    assert guarded.record([told("c", "a")]).action is Action.ALLOW


def test_a_guard_that_is_disabled_for_the_session_looks_at_nothing() -> None:
    guarded = stream()
    guarded.record([calls(known("a", "c"))])
    guarded._stack.turn_guard.disable_for_session()  # type: ignore[attr-defined]
    guarded.record([told("c", "b")])
    assert list(guarded._stack.turn_guard.counter.counts) == ["a"]


def test_a_streak_that_a_retry_or_fallback_followed_is_not_continued() -> None:
    for event in (Retry(), Fallback()):
        guarded = stream()
        for _ in range(4):
            guarded.record([calls(known("a"))])
        guarded.record([calls(unknown("c")), results(answer("c")), event])
        assert guarded.record([told("c", "a")]).action is Action.ALLOW


def test_commands_that_only_look_are_counted_when_they_are_known() -> None:
    guarded = stream()
    look = {"name": "run_shell_command", "args": raw({"command": "git status"})}
    for number in range(7):
        guarded.record([calls(Call(None, f"{number}", fidelity="none"))])
        guarded.record([CallRekeyed(f"{number}", "run_shell_command", raw({"command": f"git diff HEAD~{number}"}))])
    guarded.record([calls(Call(None, "c", fidelity="none"))])
    assert loops(guarded.record([CallRekeyed("c", **look)])) == ["shell_command_stagnation"]


@pytest.mark.parametrize(
    ("tools", "loop"),
    [
        (["edit", *["read", "list"] * 4], "read_file_loop"),
        (["edit", *["grep"] * 8], "action_stagnation"),
    ],
)
def test_the_heuristics_see_the_latest_call_in_its_own_place(tools: list[str], loop: str) -> None:
    """Unknown calls are no reads, and all of one tool without a name: as what they were they would hide the loop."""
    guarded = stream(skipLoopDetection=False)
    found: list[str] = []
    for number, tool in enumerate(tools):
        assert not found
        guarded.record([calls(unknown(f"{number}", f"tool {number}"))])
        facts = Facts(read_like=tool in ("read", "list"))
        found = loops(guarded.record([told(f"{number}", f"k{number}", name=tool, facts=facts)]))
    assert found == [loop]


def test_two_calls_by_turns_are_seen_when_the_latest_is_known() -> None:
    guarded = stream(skipLoopDetection=False)
    found: list[str] = []
    for number in range(6):
        assert not found
        guarded.record([calls(unknown(f"{number}", None))])
        found = loops(guarded.record([told(f"{number}", "ab"[number % 2], name="grep")]))
    assert found == ["alternating_tool_call_pattern"]


def test_what_the_heuristics_count_moves_too() -> None:
    """They count keys apart from the always-on counter, which a fallback does not clear."""
    guarded = stream(skipLoopDetection=False)
    for number in range(6):
        guarded.record([calls(known(f"{number}", f"c{number}", f"tool {number}"))])
    found = [loop for number in range(6) for loop in loops(guarded.record([told(f"c{number}", "a", name="x")]))]
    assert found == ["global_tool_call_duplicate"]


def test_a_stateful_read_is_judged_by_its_results_under_the_key_that_was_told() -> None:
    guarded = stream(skipLoopDetection=False)
    verdict = guarded.record([TurnStarted()])
    for number in range(6):
        guarded.record([calls(unknown(f"{number}", "task_list"))])
        guarded.record([told(f"{number}", "list"), calls(known(f"{number}"))])
        verdict = guarded.record([results(answer(f"{number}"))])
    assert loops(verdict) == ["global_tool_call_duplicate"]


def test_a_call_that_is_no_stateful_read_after_all_awaits_nothing() -> None:
    guarded = stream()
    guarded.record([calls(unknown("c", "task_list"))])
    guarded.record([told("c", "a", name="grep")])
    reads = guarded._stack.turn_guard.reads  # type: ignore[attr-defined]
    assert reads.pending == {}
    assert totals(guarded) == (1, 1, 1)


# --- the rolling history ----------------------------------------------------------------------------------------------


def history(guarded: SessionGuard) -> list[tuple[str, object, object]]:
    """Tool, arguments and outcome of each record."""
    guard = next(each for each in guarded._stack.guards if each.name == "loopDetection")
    return [(record.tool, record.args, record.result) for record in guard.history.records]  # type: ignore[attr-defined]


def test_a_record_takes_its_new_identity_where_it_stands() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(known("a", "c"), known("b", "d"))])
    guarded.record([told("c", "x", name="Bash")])
    assert history(guarded) == [("exec", "x", None), ("read", "b", None)]
    guarded.record([results(answer("c", "done")), told("c", "y")])
    assert history(guarded) == [("exec", "y", "done"), ("read", "b", None)]


def test_a_call_is_recorded_when_it_is_known_with_the_outcome_that_came_before() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(unknown("c"), unknown("d"))])
    guarded.record([results(answer("d", "done")), StepFinished(), calls(known("b"))])
    assert history(guarded) == [("read", "b", None)]
    guarded.record([told("d", "y"), told("c", "x"), results(answer("c", "late"))])
    assert history(guarded) == [("read", "b", None), ("read", "y", "done"), ("read", "x", "late")]


def test_a_call_that_becomes_unknown_leaves_the_history_until_it_is_known() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(known("a", "c"))])
    guarded.record([told("c", "", fidelity="none")])
    assert history(guarded) == []
    assert totals(guarded) == (1, 0, 0)
    guarded.record([told("c", "b")])
    assert history(guarded) == [("read", "b", None)]
    assert totals(guarded) == (1, 1, 1)


def test_its_own_record_does_not_count_against_a_call() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(known("a"))])
    guarded.record([calls(known("b", "c"))])
    assert guarded.record([told("c", "a")]).findings == []  # one earlier call
    guarded.record([calls(known("b", "d"))])
    assert loops(guarded.record([told("d", "a")])) == ["generic_repeat"]  # two


def test_the_place_of_its_own_record_means_nothing() -> None:
    guarded = session(tools={"loopDetection": {"enabled": True, "warningThreshold": 3, "criticalThreshold": 9}})
    for key in "ab":
        guarded.record([calls(known(key)), StepFinished()])
    guarded.record([calls(known("x", "c"))])
    assert loops(guarded.record([told("c", "a")])) == ["ping_pong"]


def test_a_call_of_the_same_identity_is_not_judged_again() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(known("a"), known("a"), known("a", "c"))])
    assert guarded.record([told("c", "a", hint="other")]).findings == []


def test_an_unknown_call_that_was_refused_is_not_recorded_later() -> None:
    shield = {"enabled": True, "maxConsecutiveTools": 1, "admission": "call"}
    guarded = session(loopShield=shield, **LOOPS)
    assert guarded.record([calls(known("b"), unknown("c"))]).admitted == [0]
    guarded.record([told("c", "a")])
    assert history(guarded) == [("read", "b", None)]
    assert totals(guarded) == (2, 2, 1)


def test_loop_detection_that_is_off_records_no_call_later_either() -> None:
    guarded = session(tools={"loopDetection": {"enabled": False}})
    guarded.record([calls(unknown("c"))])
    guarded.record([told("c", "a")])
    assert history(guarded) == []


def test_a_new_turn_awaits_no_outcome_of_an_unknown_call() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(unknown("c"))])
    guarded.record([TurnStarted(), results(answer("c", "late", name="read", key="a"))])
    assert history(guarded) == [("read", "a", "late")]


def test_a_veto_takes_the_record_out_and_its_answer_does_not_get_in() -> None:
    guarded, _ = blocked()
    before = history(guarded)
    assert before == [*[("read", "a", "same")] * 3, ("read", "b", None)]
    guarded.record([results(answer("d", "denied"))])
    assert history(guarded) == before


def test_a_veto_of_a_call_that_has_its_outcome_leaves_the_record() -> None:
    guarded = session(**LOOPS)
    for number in range(3):
        guarded.record([calls(known("a", f"{number}"))])
        guarded.record([results(answer(f"{number}")), StepFinished()])
    guarded.record([calls(unknown("d"))])
    guarded.record([results(answer("d"))])
    assert guarded.record([told("d", "a")]).action is Action.BLOCK
    assert history(guarded) == [("read", "a", "same")] * 4


def test_after_a_veto_the_person_can_let_the_call_run() -> None:
    guarded, _ = blocked(maxBlocksPerTurn=1)
    guarded.override("continueOnce")
    assert guarded.record([StepFinished(), calls(known("a"))]).admitted == [0]


def test_runs_are_told_apart() -> None:
    guarded = session(**LOOPS)
    for run in ("one", "two", "two"):
        guarded.record([ToolCalls([known("a")], run)])
    guarded.record([ToolCalls([unknown("c")], "one"), ToolCalls([unknown("d")], "two")])
    assert guarded.record([told("c", "a")]).findings == []
    verdict = guarded.record([told("d", "a")])
    assert [finding.run_id for finding in verdict.findings] == ["two"]


def test_a_retry_forgets_the_unknown_calls_of_its_step_that_have_no_outcome() -> None:
    guarded = session(**LOOPS)
    guarded.record([calls(unknown("c"), unknown("d"))])
    guarded.record([results(answer("c", "done")), Retry()])
    guarded.record([told("c", "x"), told("d", "y")])
    assert history(guarded) == [("read", "x", "done")]


def test_no_more_unknown_calls_are_held_than_the_history_holds() -> None:
    guarded = session(tools={"loopDetection": {"enabled": True, "historySize": 2}})
    guarded.record([calls(unknown("c"), unknown("d"), unknown("e"))])
    guarded.record([told("c", "x"), told("d", "y"), told("e", "z")])
    assert [args for _, args, _ in history(guarded)] == ["y", "z"]
    guarded.record([calls(*(unknown(f"f{number}") for number in range(5)))])
    guard = next(each for each in guarded._stack.guards if each.name == "loopDetection")
    assert list(guard.unkeyed) == ["f3", "f4"]  # type: ignore[attr-defined]


# --- after a compaction -----------------------------------------------------------------------------------------------


def test_after_a_compaction_a_call_is_watched_as_what_it_is_when_its_outcome_comes() -> None:
    guarded = session()
    guarded.record([calls(unknown("before")), Compacted()])
    guarded.record([calls(unknown("1"), known("b", "2"), known("a", "3"))])
    guarded.record([told("1", "a"), told("2", "a"), told("before", "a")])
    assert guarded.record([results(answer("before"), answer("1"), answer("2"))]).findings == []
    assert loops(guarded.record([results(answer("3"))])) == ["compaction_loop_persisted"]


def test_after_a_compaction_a_call_that_stays_unknown_is_not_watched() -> None:
    guarded = session()
    guarded.record([Compacted(), calls(*(Call("read", f"{n}", key="a", fidelity="none") for n in range(4)))])
    assert guarded.record([results(*(answer(f"{n}") for n in range(4)))]).findings == []


def test_after_a_compaction_no_call_of_a_closed_step_is_watched() -> None:
    guarded = session(tools={"loopDetection": {"postCompactionGuard": {"windowSize": 1}}})
    guarded.record([Compacted(), calls(unknown("c")), StepFinished()])
    assert guarded.record([told("c", "a"), results(answer("c"))]).findings == []
    assert loops(guarded.record([calls(known("a", "d")), results(answer("d"))])) == ["compaction_loop_persisted"]


# --- progress ---------------------------------------------------------------------------------------------------------


def halted_after(steps: int, *, told_when: str) -> bool:
    """Whether steps of one call with one outcome halt the turn, when the call is told before or after its result."""
    guarded = session(turnguard={"progress": {"action": "halt"}})
    for number in range(steps):
        guarded.record([calls(unknown(f"{number}"))])
        what = told(f"{number}", "a")
        record = [results(answer(f"{number}"))]
        record = {
            "before": [what, *record, StepFinished()],
            "after": [*record, what, StepFinished()],
            "late": [*record, StepFinished(), what],
        }[told_when]
        if guarded.record(record).action is Action.HALT:
            return True
    return False


def test_progress_takes_what_is_told_before_its_step_closes_and_nothing_later() -> None:
    assert halted_after(12, told_when="before")
    assert halted_after(12, told_when="after")
    assert not halted_after(30, told_when="late")


def test_progress_takes_the_new_name_hint_and_key() -> None:
    guarded = session()
    guarded.record([calls(unknown("c", None), known("b", "d"))])
    guarded.record([told("c", "a", name="bash", hint="pytest")])
    progress = next(each for each in guarded._stack.guards if each.name == "progress")
    seen = progress.step.calls[0]  # type: ignore[attr-defined]
    assert (seen.tool, seen.args, seen.hint, seen.is_keyed) == ("bash", "a", "pytest", True)
    guarded.record([told("d", "", fidelity="none"), results(answer("c"), answer("d")), StepFinished()])
    assert progress.progress.known == 1  # type: ignore[attr-defined]


def test_progress_leaves_the_call_of_an_earlier_step_alone() -> None:
    guarded = session()
    guarded.record([calls(known("b", "c")), StepFinished(), calls(known("x"))])
    guarded.record([told("c", "a")])
    progress = next(each for each in guarded._stack.guards if each.name == "progress")
    assert [seen.args for seen in progress.step.calls] == ["x"]  # type: ignore[attr-defined]


# --- loopShield -------------------------------------------------------------------------------------------------------

SHIELD = {"loopShield": {"enabled": True, "maxConsecutiveTools": 3, "mode": "repeated"}}


def test_a_budget_of_one_tool_counts_the_name_that_was_told() -> None:
    guarded = session(**SHIELD)
    guarded.record([calls(known("a", "1"), known("b", "2"), known("c", "3", "grep"))])
    guarded.record([told("3", "c", name="read")])
    verdict = guarded.record([StepFinished()])
    assert (verdict.action, verdict.findings[0].tool) == (Action.RESTRICT, "read")


def test_a_budget_has_counted_the_calls_of_a_closed_step() -> None:
    guarded = session(**SHIELD)
    guarded.record([calls(unknown("1", "grep")), StepFinished()])
    guarded.record([calls(known("a", "2", "grep"), known("b", "3"))])
    guarded.record([told("1", "x", name="read")])
    assert guarded._stack.shield is not None
    assert guarded._stack.shield.calls == ["grep", "read"]


def test_a_budget_of_one_tool_needs_a_name() -> None:
    guarded = session(**SHIELD)
    guarded.record([calls(unknown("c"))])
    with pytest.raises(EventError) as error:
        guarded.record([told("c", "a", name="")])
    assert error.value.path == "$.events[0].name"
    assert isinstance(error.value.__cause__, ToolNameRequiredError)


# --- repeated failures ------------------------------------------------------------------------------------------------


def test_failures_count_for_the_tool_that_was_known_when_they_came() -> None:
    guarded = session(turnguard={"repeatedFailures": "warn"})
    verdict = guarded.record([TurnStarted()])
    for step in range(2):
        ids = [f"{step} {number}" for number in range(4)]
        guarded.record([calls(*(unknown(call_id, None) for call_id in ids))])
        guarded.record([told(call_id, call_id, name="grep") for call_id in ids])
        failed = [Result(call_id, ok=False, error_type="execution") for call_id in ids]
        guarded.record([results(*failed), *(told(call_id, "x", name="other") for call_id in ids)])
        verdict = guarded.record([StepFinished()])
    assert [(each.guard, each.tool) for each in verdict.findings] == [("repeatedFailures", "grep")]
