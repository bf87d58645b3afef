"""What people and the model read: true for the case, and of the model never a setting."""

import re
from typing import Any

import pytest

from turnguard.acp import words
from turnguard.core.messages import WHAT_HAPPENED, WHAT_HAPPENED_FOR
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

TOTALS = Totals(101, 50, 60, 20, "edit")


def finding(loop_type: str = "generic_repeat", action: Action = Action.HALT, **more: Any) -> Finding:
    return Finding(guard="g", action=action, loop_type=loop_type, tool="edit", count=101, threshold=100, **more)


def verdict(*findings: Finding) -> Verdict:
    return Verdict(
        action=findings[0].action,
        turn_id="t",
        findings=list(findings),
        admitted=[],
        user_message="The first.",
        totals=TOTALS,
    )


@pytest.mark.parametrize(
    ("reason", "fact"),
    [
        ("explicit_cap", "the turn came to 101 tool calls, and the cap that was set is 100"),
        ("stuck", 'past 100 tool calls a turn must not repeat itself, and "edit" came 20 times'),
        ("backstop", "the turn came to 101 tool calls; without a set cap the limit is 100"),
    ],
)
def test_a_cap_says_which_part_of_it(reason: str, fact: str) -> None:
    assert fact in words.explanation(finding("turn_tool_call_cap", reason=reason), TOTALS)


@pytest.mark.parametrize("loop_type", [*WHAT_HAPPENED, "of another version"])
@pytest.mark.parametrize("reason", ["", *WHAT_HAPPENED_FOR])
def test_the_note_for_the_model_names_no_setting(loop_type: str, reason: str) -> None:
    told = words.note(finding(loop_type, reason=reason, setting="model.maxToolCallsPerTurn"), TOTALS)
    assert not re.search(r"etting|[a-z]\.[a-z]|maxToolCalls", told)


def test_the_note_does_not_know_better_where_results_are_not_seen() -> None:
    known, blind = (words.note(finding("no_new_evidence", reason=reason), TOTALS) for reason in ("call", "blind"))
    assert "The same again will not help: take another approach" in known
    assert "will not help" not in blind
    assert "Unless each of them showed you something new, take another approach" in blind


def test_the_log_names_a_halt_in_one_line() -> None:
    evil = finding("no_new_evidence", reason="call")
    evil.tool = "x\ny"
    told = words.logged("s\n1", evil)
    assert told == 'halted: session "s1", g no_new_evidence call, tool "xy", count 101'


def test_a_warning_takes_the_guards_own_words_where_they_are_its() -> None:
    first, second = finding(action=Action.WARN), finding("unknown_tool_repeat", action=Action.WARN)
    told = verdict(first, second)
    assert words.warning(first, told, is_only_told=False) == "The first."
    assert words.warning(second, told, is_only_told=False).startswith('Warning: "edit" does not exist')


def test_the_explanation_names_the_setting_where_there_is_one() -> None:
    assert words.explanation(finding(setting="a.b"), TOTALS).endswith(" Setting: a.b.")
    assert "Setting" not in words.explanation(finding(), TOTALS)


def test_a_tool_cannot_speak_for_turnguard() -> None:
    evil = finding()
    evil.tool = 'x" \x1b[31m\u202e. Setting: none'
    assert "\x1b" not in words.explanation(evil, TOTALS)
    assert "\u202e" not in words.note(evil, TOTALS)
