"""What a running daemon says in the scenarios of `scenarios.py`."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET

from tests.build import call
from tests.e2e import scenarios
from tests.e2e.scenarios import GREP, LOOP_DETECTION, WORK, Host, Scenario, alone
from turnguard.client import Client
from turnguard_protocol.verdicts import NextStep, SessionStatus, Verdict

NO_PROGRESS: dict[str, Any] = {"turnguard": {"progress": {"action": "off"}}}
LIMITED = ("restrict", "tool_call_budget", 2)
ALLOWED = ("allow", None, None)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client.spawn() as client:
        yield client
        assert client.shutdown() == 0


def verdicts(scenario: Scenario) -> list[Verdict]:
    return [told.answer for told in scenario if isinstance(told.answer, Verdict)]


def said(scenario: Scenario) -> list[tuple[str, str | None, int | None]]:
    return [saying(verdict) for verdict in verdicts(scenario)]


def saying(verdict: Verdict) -> tuple[str, str | None, int | None]:
    """The action, and of the strictest finding the loop and its count."""
    if not verdict.findings:
        return verdict.action.value, None, None
    return verdict.action.value, verdict.findings[0].loop_type, verdict.findings[0].count


def next_steps(scenario: Scenario) -> list[tuple[str, list[str] | None, str | None]]:
    answers = [told.answer for told in scenario if isinstance(told.answer, NextStep)]
    return [(answer.tool_choice, answer.active_tools, answer.state) for answer in answers]


# --- OpenClaw's guards ------------------------------------------------------------------------------------------------


def test_three_equal_outcomes_after_a_compaction_end_the_turn_by_default(client: Client) -> None:
    answers = verdicts(scenarios.compaction(client))
    assert [saying(answer) for answer in answers] == [ALLOWED] * 3 + [("halt", "compaction_loop_persisted", 3)]
    assert answers[3].admitted == []
    assert "tools.loopDetection.postCompactionGuard.windowSize" in str(answers[3].user_message)


def test_they_do_not_where_loop_detection_is_switched_off(client: Client) -> None:
    off = {"tools": {"loopDetection": {"enabled": False}}}
    assert said(scenarios.compaction(client, off)) == [ALLOWED] * 4


def test_another_outcome_after_a_compaction_closes_the_window(client: Client) -> None:
    host = Host(client, alone())
    host.tell(scenarios.Compacted())
    outputs = ["same", "other", "same", "same", "same"]
    assert [host.outcome(GREP, output=output).action for output in outputs] == ["allow"] * 5


def test_a_repeated_call_is_warned_of_from_the_11th_on_and_vetoed_from_the_21st(client: Client) -> None:
    answers = verdicts(scenarios.repeat(client, alone(LOOP_DETECTION), times=40))
    assert [saying(answer) for answer in answers[:10]] == [ALLOWED] * 10
    assert [saying(answer) for answer in answers[10:20]] == [("warn", "generic_repeat", n) for n in range(10, 20)]
    assert [saying(answer) for answer in answers[20:]] == [("block", "generic_repeat", 20)] * 20
    assert [answer.admitted for answer in answers] == [[0]] * 20 + [[]] * 20
    fresh = [number for number, answer in enumerate(answers, start=1) if answer.findings and answer.findings[0].fresh]
    assert fresh == [11, *range(21, 41)]


def test_loop_detection_is_off_by_default(client: Client) -> None:
    assert said(scenarios.repeat(client, alone(), times=40)) == [ALLOWED] * 40


def test_a_veto_is_for_one_call_and_the_others_of_the_batch_run(client: Client) -> None:
    host = Host(client, alone(LOOP_DETECTION))
    for _ in range(20):
        host.step(GREP)
    asked = host.ask(call("edit"), GREP, call("view"))
    assert (asked.action, asked.admitted, asked.findings[0].tool) == ("block", [0, 2], "grep")


def test_two_calls_that_take_turns(client: Client) -> None:
    answers = verdicts(scenarios.pair(client))
    assert [saying(answer) for answer in answers[:9]] == [ALLOWED] * 9
    assert [saying(answer) for answer in answers[9:19]] == [("warn", "ping_pong", n) for n in range(10, 20)]
    assert saying(answers[19]) == ("block", "ping_pong", 20)
    assert (answers[19].findings[0].tool, answers[19].findings[0].paired_tool) == ("run_tests", "read_file")
    assert saying(answers[20]) == ("warn", "generic_repeat", 10)


def test_a_poll_without_progress(client: Client) -> None:
    told = said(scenarios.poll(client))
    assert told[:10] == [ALLOWED] * 10
    assert told[10:20] == [("warn", "known_poll_no_progress", n) for n in range(10, 20)]
    assert told[20:] == [("block", "known_poll_no_progress", 20)] * 2


def test_a_return_to_an_earlier_run_finds_only_its_own_calls(client: Client) -> None:
    answers = verdicts(scenarios.runs(client))
    assert [saying(answer) for answer in answers[:19]] == [ALLOWED] * 19
    assert [saying(answer) for answer in answers[19:]] == [
        ("warn", "generic_repeat", 10),
        ALLOWED,
        ("warn", "generic_repeat", 10),
    ]
    assert [answers[n].findings[0].run_id for n in (19, 21)] == ["one", "two"]


# --- loopShield -------------------------------------------------------------------------------------------------------


def test_a_budget_without_a_fallback_leaves_no_tools(client: Client) -> None:
    told = list(scenarios.shield(client))
    assert said(iter(told)) == [ALLOWED, LIMITED]
    assert next_steps(iter(told)) == [("auto", None, None), ("none", None, None), ("auto", None, None)]


def test_a_budget_with_a_fallback_moves_there(client: Client) -> None:
    told = list(scenarios.shield(client, **WORK, fallbackState="wrap"))
    assert said(iter(told)) == [ALLOWED, LIMITED]
    before, after = ("auto", ["grep", "edit"], "work"), ("auto", ["answer"], "wrap")
    assert next_steps(iter(told)) == [before, after, after]


@pytest.mark.parametrize(
    ("admission", "action", "admitted"), [("call", "block", [0, 1]), ("batch", "allow", [0, 1, 2, 3])]
)
def test_of_four_parallel_calls_with_two_slots_left_two_run(
    client: Client, admission: str, action: str, admitted: list[int]
) -> None:
    told = list(scenarios.shield_by_call(client, admission))
    asked, finished = verdicts(iter(told))
    assert (asked.action, asked.admitted) == (action, admitted)
    assert saying(finished) == ("restrict", "tool_call_budget", 4)
    assert next_steps(iter(told)) == [("none", None, None)]


# --- ours -------------------------------------------------------------------------------------------------------------


def test_no_progress_warns_by_default_and_never_halts(client: Client) -> None:
    answers = verdicts(scenarios.progress(client, times=60))
    assert [saying(answer) for answer in answers[:4]] == [ALLOWED] * 3 + [("warn", "no_new_evidence", 4)]
    assert {answer.action for answer in answers[4:]} == {"warn"}
    fresh = [number for number, answer in enumerate(answers, start=1) if answer.findings and answer.findings[0].fresh]
    assert fresh == [4, 5]


def test_no_progress_halts_where_the_host_asks_for_it(client: Client) -> None:
    told = said(scenarios.progress(client, {"turnguard": {"progress": {"action": "halt"}}}))
    assert told == [ALLOWED] * 3 + [("warn", "no_new_evidence", 4), ("halt", "no_new_evidence", 5)]


def test_new_outcomes_are_progress(client: Client) -> None:
    host = Host(client, {"turnguard": {"progress": {"action": "halt"}}})
    assert [saying(host.outcome(GREP, output=f"found: {'x' * n}")) for n in range(30)] == [ALLOWED] * 30


def test_shadow_reports_everything_and_admits_all(client: Client) -> None:
    told = list(scenarios.shadow(client))
    answers = verdicts(iter(told))
    asked, finished = answers[::2], answers[1::2]
    assert {answer.action for answer in answers} == {"allow"}
    assert [answer.admitted for answer in asked] == [[0]] * 24
    assert {(finding.loop_type, finding.action.value) for answer in answers for finding in answer.findings} == {
        ("generic_repeat", "warn"),
        ("generic_repeat", "block"),
        ("turn_tool_call_cap", "halt"),
        ("tool_call_budget", "restrict"),
        ("tool_call_budget", "block"),
        ("no_new_evidence", "warn"),
        ("no_new_evidence", "halt"),
        ("max_steps_per_turn", "halt"),
    }
    assert all(answer.model_message is UNSET for answer in answers)
    assert all("turnguard.shadow" in str(answer.user_message) for answer in finished[1:])
    assert next_steps(iter(told)) == [("auto", None, None)]


def test_shadow_says_once_that_a_turn_would_have_ended_over_its_blocks(client: Client) -> None:
    settings = LOOP_DETECTION | {"turnguard": {"shadow": True, "progress": {"action": "off"}}}
    answers = verdicts(scenarios.repeat(client, settings, times=25))
    assert [answer.admitted for answer in answers] == [[0]] * 25
    assert [answer.findings[0].loop_type for answer in answers[20:22]] == ["generic_repeat"] * 2
    ends = [(saying(answer), answer.findings[0].fresh) for answer in answers[22:]]
    assert ends == [(("allow", "max_blocks_per_turn", n), n == 3) for n in (3, 4, 5)]


def test_the_third_blocked_batch_ends_the_turn_by_default(client: Client) -> None:
    told = said(scenarios.repeat(client, LOOP_DETECTION | NO_PROGRESS, times=25))
    assert told[20:] == [("block", "generic_repeat", 20)] * 2 + [("halt", "max_blocks_per_turn", 3)] * 3


def test_a_turn_may_not_take_more_steps_than_is_set(client: Client) -> None:
    answers = verdicts(scenarios.steps(client, most=3))
    assert [saying(answer) for answer in answers] == [ALLOWED] * 3 + [("halt", "max_steps_per_turn", 4)]
    assert answers[3].admitted == []


# --- overrides --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stopped", "state", "then"),
    [
        ("continueOnce after a veto", "generic_repeat", "running", ["allow"]),
        ("continueOnce after maxBlocksPerTurn", "max_blocks_per_turn", "halted", ["allow"]),
        ("continueOnce after a halt for no progress", "no_new_evidence", "halted", ["allow"]),
        ("continueOnce after maxStepsPerTurn", "max_steps_per_turn", "halted", ["allow", "halt"]),
        (
            "continueOnce after a call past the loopShield budget",
            "tool_call_budget",
            "running",
            ["allow", "allow", "block"],
        ),
        ("continueOnce after the cap", "turn_tool_call_cap", "halted", ["allow", "halt"]),
        ("raiseCap after the cap", "turn_tool_call_cap", "halted", ["allow", "allow", "halt"]),
        ("disable after the cap", "turn_tool_call_cap", "halted", ["allow", "allow", "allow"]),
    ],
)
def test_an_override_gets_past_what_stopped_the_turn(
    client: Client, name: str, stopped: str, state: str, then: list[str]
) -> None:
    told = list(scenarios.SCENARIOS[name](client))
    before, after = [each.answer for each in told if isinstance(each.answer, SessionStatus)]
    assert (before.state, after.state) == (state, "disabled" if name.startswith("disable") else "running")
    first, *rest = verdicts(iter(told))
    assert first.findings[0].loop_type == stopped
    assert [answer.action for answer in rest] == then
