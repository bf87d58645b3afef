"""Two guards on one session: whatever a project's settings say, no verdict is milder, and the way past is open."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from tests.build import call, calls, distinct, in_force, results
from turnguard.core.joint import JointGuard, stricter
from turnguard.core.session import EventError, SessionGuard, StaleTurnError
from turnguard_protocol.events import Result, Retry, StepFinished, Text, TurnEnded, TurnStarted
from turnguard_protocol.verdicts import Action, Totals, Verdict

BROKEN = calls(call(), call("x"))
BROKEN.calls[1].args = Raw(b"{")


def joint(own: Any = None, tightened: Any = None) -> JointGuard:
    own_settings = in_force(**(own or {}))
    return JointGuard(SessionGuard("s", own_settings), own_settings, in_force(**(own or {}) | (tightened or {})))


def cap(limit: int) -> dict[str, Any]:
    return {"model": {"maxToolCallsPerTurn": limit}}


def batch(*ids: str, start: int = 0) -> Any:
    return calls(*(call(args={"n": n}, call_id=call_id) for n, call_id in enumerate(ids, start)))


# --- the stricter answer ----------------------------------------------------------------------------------------------


def test_the_tighter_cap_halts_and_its_owner_is_named() -> None:
    guard = joint(cap(50), cap(2))
    assert guard.record([TurnStarted(), distinct(2)]).admitted == [0, 1]
    verdict = guard.record([distinct(1, 5)])
    assert (verdict.action, verdict.admitted) == (Action.HALT, [])
    assert "model.maxToolCallsPerTurn is 2" in str(verdict.user_message)
    assert guard.status().state == "halted"
    assert guard.status().cap.value == 2
    assert guard.prepare_step().tool_choice == "none"


def test_what_either_wants_to_see_is_needed() -> None:
    stream = {"turnguard": {"turnGuard": "stream"}}
    assert [joint({}, each).needs.text for each in ({}, stream)] == [False, True]
    assert joint(stream, {"turnguard": {"turnGuard": "batch"}}).needs.text


def test_the_persons_own_guard_may_be_the_one_that_halts() -> None:
    """A call that is refused early is one that no later count of the tighter guard sees."""
    guard = joint(cap(2), cap(9))
    told = guard.record([TurnStarted(), distinct(3)])
    assert (told.action, told.admitted) == (Action.HALT, [])
    assert guard.project.status().state == "running"
    assert (guard.status().state, guard.prepare_step().tool_choice) == ("halted", "none")
    assert guard.record([Text("x")]).action is Action.HALT
    copy = joint(cap(2), cap(9))
    copy.restore(guard.snapshot())
    summary = copy.close()
    assert summary is not None
    assert (summary.outcome, [each.threshold for each in summary.findings]) == ("cancelled", [2])
    guard.override("raiseCap", turn_id=told.turn_id, calls=5)
    assert guard.status().state == "running"
    assert guard.record([distinct(3, 9)]).admitted == [0, 1, 2]


def test_what_runs_is_what_both_let_run() -> None:
    shield = {"enabled": True, "maxConsecutiveTools": 5, "admission": "call"}
    guard = joint({"loopShield": shield}, {"loopShield": shield | {"maxConsecutiveTools": 3}})
    verdict = guard.record([distinct(6)])
    assert (verdict.action, verdict.admitted) == (Action.BLOCK, [0, 1, 2])
    assert [finding.threshold for finding in verdict.findings] == [3]


@pytest.mark.parametrize(("own", "project"), [(Action.BLOCK, Action.BLOCK), (Action.WARN, Action.BLOCK)])
def test_of_two_answers_what_both_let_run_runs_whichever_is_stricter(own: Action, project: Action) -> None:
    totals = Totals(0, 0, 0, 0)
    of_own = Verdict(action=own, turn_id="t", findings=[], admitted=[0, 1], totals=totals)
    of_project = Verdict(action=project, turn_id="t", findings=[], admitted=[1, 2], totals=totals)
    assert stricter(of_own, of_project).admitted == [1]
    assert stricter(msgspec.structs.replace(of_project), msgspec.structs.replace(of_own)).admitted == [1]


def test_findings_of_both_are_listed_and_equal_ones_once() -> None:
    own = {"turnguard": {"progress": {"action": "off"}, "maxStepsPerTurn": 2}}
    guard = joint(own, cap(1))
    guard.record([TurnStarted(), distinct(1), StepFinished(), Text("x"), StepFinished()])
    verdict = guard.record([distinct(1, 9)])
    assert [finding.loop_type for finding in verdict.findings] == ["max_steps_per_turn"]
    guard = joint(cap(3), cap(2))
    verdict = guard.record([distinct(9)])
    assert [(each.loop_type, each.threshold) for each in verdict.findings] == [("turn_tool_call_cap", 2)]


def test_what_a_guard_that_only_watches_would_have_done_is_not_told_beside_what_the_other_does() -> None:
    guard = joint({"turnguard": {"shadow": True}, **cap(1)}, {"turnguard": {"shadow": False, "maxBlocksPerTurn": 1}})
    guard.own.record([TurnStarted(), distinct(1)])
    verdict = guard.record([distinct(1, 5)])
    assert (verdict.action, verdict.findings, verdict.user_message) == (Action.ALLOW, [], UNSET)
    verdict = guard.record([distinct(1, 6)])
    assert (verdict.action, verdict.findings[0].action) == (Action.HALT, Action.HALT)


def test_an_active_tool_is_active_for_both() -> None:
    states = {"A": ["x", "y"], "F": ["y"]}
    shield = {"enabled": True, "maxConsecutiveTools": 9, "states": states, "fallbackState": "F"}
    guard = joint({"loopShield": shield}, {"loopShield": shield | {"maxConsecutiveTools": 1}})
    assert guard.prepare_step().active_tools == ["x", "y"]
    guard.record([calls(call("x"), call("x", {"n": 1})), StepFinished()])
    step = guard.prepare_step()
    assert (step.active_tools, step.state) == (["y"], "F")


# --- records that cannot be taken -------------------------------------------------------------------------------------


def test_a_record_is_applied_to_both_or_to_neither() -> None:
    guard = joint(cap(9), cap(3))
    guard.record([TurnStarted(), distinct(2)])
    before = guard.snapshot()
    with pytest.raises(EventError) as caught:
        guard.record([TurnStarted(), BROKEN])
    assert caught.value.path == "$.events[1].calls[1].args"
    assert guard.snapshot() == before


def nameless() -> JointGuard:
    """A project that switches a budget on which each call needs a name for."""
    shield = {"enabled": False, "maxConsecutiveTools": 5, "mode": "repeated"}
    return joint({"loopShield": shield, **cap(3)}, {"loopShield": shield | {"enabled": True}, **cap(2)})


def test_a_project_cannot_have_records_fail_and_so_keep_the_persons_guard_from_hearing_of_them() -> None:
    guard = nameless()
    for start in range(3):
        verdict = guard.record([calls(call(None, {"n": start}))])
        assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0])
    assert guard.record([calls(call(None, {"n": 9}))]).action is Action.HALT


def test_where_turns_begin_is_heard_of_any_record() -> None:
    guard = nameless()
    assert guard.record([TurnStarted(), distinct(3)]).action is Action.HALT
    assert guard.record([calls(call(None))]).action is Action.HALT
    verdict = guard.record([TurnEnded(), TurnStarted(), calls(call(None), call(None, {"n": 1}))])
    assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0, 1])
    assert guard.project.status().turn_id == guard.own.status().turn_id


# --- past a halt ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names_turn", [True, False])
@pytest.mark.parametrize("ids", [("a", "b"), (None, None)])
def test_continue_once_passes_a_projects_cap_and_the_batch_may_come_again(names_turn: bool, ids: Any) -> None:
    """The person's own guard took it for admitted; it must not take it for a replay now."""
    guard = joint(None, cap(1))
    verdict = guard.record([TurnStarted(), batch(*ids)])
    assert verdict.action is Action.HALT
    for start in range(5):
        guard.override("continueOnce", turn_id=verdict.turn_id if names_turn else None)
        verdict = guard.record([batch(*ids, start=start)])
        assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0, 1])
        ids = tuple(each and each + "+" for each in ids)
        verdict = guard.record([batch(*ids, start=start + 1)])
        assert verdict.action is Action.HALT


@pytest.mark.parametrize("turn_guard", ["batch", "stream"])
@pytest.mark.parametrize("action", ["raiseCap", "continueOnce"])
@pytest.mark.parametrize("status", [None, "notStarted"])
def test_calls_that_only_the_project_refused_count_once_when_they_come_again(
    turn_guard: str, action: Any, status: Any
) -> None:
    """Else the person's own cap would be met by calls that never ran."""
    guard = joint(cap(7) | {"turnguard": {"turnGuard": turn_guard}}, cap(5))
    guard.record([TurnStarted()])
    for start in (0, 2):
        ids = f"a{start}", f"b{start}"
        guard.record([batch(*ids, start=start), results(*map(Result, ids)), StepFinished()])
    last = batch("a4", "b4", start=4)
    assert guard.record([last]).action is Action.HALT
    if status is not None:
        guard.record([results(Result("a4", status=status), Result("b4", status=status)), StepFinished()])
    for _ in range(2):
        guard.override(action)
        assert guard.own.status().totals.tool_calls == 4
    assert guard.record([last]).admitted == [0, 1]
    assert guard.own.status().totals.tool_calls == 6


def test_what_was_refused_is_not_taken_back_from_a_later_turn_or_response() -> None:
    guard = joint(cap(7), cap(2))
    for event in (TurnStarted(), Retry()):
        guard.record([TurnStarted(), distinct(2), StepFinished()])
        assert guard.record([distinct(2, 10)]).action is Action.HALT
        guard.record([event])
        before = guard.own.status().totals.tool_calls
        guard.override("continueOnce")
        assert guard.own.status().totals.tool_calls == before


def test_a_call_that_ran_is_a_replay_after_an_override_too() -> None:
    guard = joint(None, cap(2))
    guard.record([TurnStarted(), batch("a")])
    guard.record([results(Result("a", output=Raw(b"1"))), StepFinished()])
    assert guard.record([batch("b", "c", start=5)]).action is Action.HALT
    guard.override("continueOnce")
    assert guard.record([batch("a", "b", "c", start=0)]).admitted == [1, 2]


def test_raising_a_projects_cap_leaves_the_persons_own() -> None:
    """With a cap of 1 a project could else make people raise their own by as much as they raise its."""
    guard = joint(cap(5), cap(1))
    assert guard.record([TurnStarted(), distinct(2)]).action is Action.HALT
    guard.override("raiseCap", calls=1000)
    assert (guard.own.status().cap.value, guard.project.status().cap.value) == (5, 1001)
    assert guard.status().cap.value == 5  # which is the one that is met
    assert guard.record([distinct(3, 50)]).action is Action.ALLOW
    assert guard.record([distinct(3, 60)]).action is Action.HALT


@pytest.mark.parametrize(
    ("own", "project", "shown"),
    [
        (None, 300, (300, True)),
        (60, 50, (50, True)),
        (0, 50, (50, True)),
        (60, None, (60, True)),
        (None, None, (100, False)),
    ],
)
def test_the_cap_that_is_shown_is_the_one_met_first(own: int | None, project: int | None, shown: object) -> None:
    guard = joint(None if own is None else cap(own), None if project is None else cap(project))
    shown_cap = guard.status().cap
    assert (shown_cap.value, shown_cap.explicit) == shown


def test_raising_the_cap_ahead_raises_both() -> None:
    guard = joint(cap(5), cap(3))
    guard.record([TurnStarted(), distinct(3)])
    guard.override("raiseCap", calls=10)
    assert (guard.own.status().cap.value, guard.project.status().cap.value) == (15, 13)


def test_a_click_on_what_a_halt_said_works_after_the_turns_end() -> None:
    """The halted turn outlives its end; the other guard is in the next one by then."""
    guard = joint(None, cap(1))
    told = guard.record([TurnStarted(), distinct(2)]).turn_id
    guard.record([TurnEnded()])
    again = guard.record([distinct(1, 5)])
    assert again.action is Action.HALT
    for turn_id in (told, again.turn_id, guard.status().turn_id):
        copy = joint(None, cap(1))
        copy.restore(guard.snapshot())
        copy.override("continueOnce", turn_id=str(turn_id))
        assert copy.status().state == "running"


@pytest.mark.parametrize("action", ["continueOnce", "raiseCap", "disable", "enable"])
def test_a_stale_click_changes_nothing(action: Any) -> None:
    guard = joint(None, cap(1))
    guard.record([TurnStarted("old"), distinct(2)])
    guard.record([TurnStarted("new"), distinct(2)])
    before = guard.snapshot()
    with pytest.raises(StaleTurnError) as caught:
        guard.override(action, turn_id="old")
    assert caught.value.turn_id == "new"
    assert guard.snapshot() == before
    with pytest.raises(StaleTurnError) as caught:
        joint().override(action, turn_id="old")
    assert caught.value.turn_id is None


def test_both_are_switched_off_and_on() -> None:
    guard = joint(cap(5), cap(1))
    guard.record([TurnStarted(), distinct(2)])
    guard.override("disable")
    assert guard.record([distinct(50)]).admitted == list(range(50))
    assert guard.status().state == "disabled"
    guard.override("enable")
    assert guard.record([distinct(2, 100)]).action is Action.HALT


def test_every_verdict_status_and_summary_tells_one_turn() -> None:
    guard = joint(None, cap(1))
    guard.record([TurnStarted(), distinct(2)])
    guard.record([TurnEnded()])
    guard.record([distinct(1)])
    told = [guard.record([TurnStarted(), distinct(1)]).turn_id for _ in range(3)]
    assert len(set(told)) == 3
    assert told[-1] == guard.record([distinct(1, 9)]).turn_id == guard.status().turn_id
    summary = guard.close()
    assert summary is not None
    assert (summary.turn_id, summary.outcome) == (told[-1], "cancelled")
    assert [finding.loop_type for finding in summary.findings] == ["turn_tool_call_cap"]


def test_a_session_without_turns_has_no_summary() -> None:
    assert joint().close() is None


def test_other_settings_for_both() -> None:
    guard = joint(cap(9), cap(1))
    guard.record([TurnStarted(), distinct(1)])
    guard.configure(in_force(**cap(9)), in_force(**cap(4)))
    assert guard.record([distinct(3, 9)]).action is Action.ALLOW
    guard.configure(in_force(**cap(2)), in_force(**cap(2)))
    assert guard.record([distinct(1, 20)]).action is Action.HALT
    assert guard.own.status().state == "halted"


def test_the_second_guard_begins_where_the_first_stands() -> None:
    own = in_force(**cap(9))
    first = SessionGuard("s", own, agent_id="a", cwd="/x", seal=lambda key: f"sealed {key[:3]}")
    first.record([TurnStarted("t"), distinct(10)])
    guard = JointGuard(first, own, in_force(**cap(2)))
    assert guard.status().state == "halted"
    assert guard.project.snapshot() == first.snapshot()
    guard.override("continueOnce")
    assert guard.project.snapshot() != guard.own.snapshot()
    assert (guard.project.agent_id, guard.project.cwd) == ("a", "/x")
