"""What people and the model read: true for the case, and of the model never a setting."""

import re
from typing import Any

import pytest

from turnguard.acp import words
from turnguard.acp.options import OnLoop
from turnguard.core.messages import BLIND_LAST_CHANCE, LAST_CHANCE, WHAT_HAPPENED, WHAT_HAPPENED_FOR, daemon_error
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


LIMITS = [("turn_tool_call_cap", "explicit_cap"), ("turn_tool_call_cap", "backstop"), ("max_steps_per_turn", "")]


def test_the_note_after_a_limit_does_not_speak_of_repetition() -> None:
    told = words.note(finding("turn_tool_call_cap", reason="explicit_cap"), TOTALS)
    assert "was stopped at its limit of 100 tool calls, not for repeating itself. Go on from where you were." in told
    assert "will not help" in words.note(finding("turn_tool_call_cap", reason="stuck"), TOTALS)


@pytest.mark.parametrize(("loop_type", "reason"), LIMITS)
def test_nothing_that_is_said_of_a_limit_speaks_of_repetition(loop_type: str, reason: str) -> None:
    limited = finding(loop_type, reason=reason)
    for told in (
        words.note(limited, TOTALS).replace("not for repeating itself", ""),
        words.error(limited, TOTALS)["message"],
        words.question(limited, TOTALS, 60),
        words.warning(limited, verdict(limited), on_loop="warn"),
    ):
        assert not re.search("stuck|repeat|will not help", told)


def test_the_error_says_which_limit_it_was_and_keeps_its_words_for_loops() -> None:
    capped = words.error(finding("turn_tool_call_cap", reason="explicit_cap"), TOTALS)
    assert capped["message"] == (
        "turnguard stopped this turn: the turn came to 101 tool calls, and the cap that was set is 100. "
        "The session goes on with the next prompt."
    )
    assert capped["data"] == daemon_error("turn_tool_call_cap")["data"]
    assert words.error(finding(), TOTALS) == daemon_error("generic_repeat")


def test_the_question_about_a_cap_names_the_cap() -> None:
    told = words.question(finding("turn_tool_call_cap", reason="explicit_cap"), TOTALS, 60)
    assert told.startswith("This turn came to your cap of 100 tool calls: it has made 101. Go on?")
    stuck = words.question(finding("turn_tool_call_cap", reason="stuck"), TOTALS, 60)
    assert stuck.startswith("This turn seems to be stuck")


@pytest.mark.parametrize(
    ("on_loop", "model_message", "follows"),
    [
        ("halt", LAST_CHANCE, " If that goes on, it will be stopped."),
        ("halt", BLIND_LAST_CHANCE, " If that goes on, it will be stopped."),
        ("halt", "", ""),
        ("ask", LAST_CHANCE, " If that goes on, you will be asked whether to stop it."),
        ("warn", LAST_CHANCE, ""),
    ],
)
def test_a_warning_says_who_speaks_and_what_follows(on_loop: OnLoop, model_message: str, follows: str) -> None:
    warned = verdict(finding("unknown_tool_repeat", action=Action.WARN))
    warned.model_message = model_message
    told = words.warning(warned.findings[0], warned, on_loop=on_loop)
    fact = '"edit" does not exist and was called 101 times'
    assert told == f"turnguard: this turn may be stuck: {fact}.{follows}"


def test_a_refusal_says_where_it_is_one() -> None:
    refused = verdict(finding("unknown_tool_repeat", action=Action.BLOCK))
    told = words.warning(refused.findings[0], refused, on_loop="halt")
    assert told.endswith("It is refused where the agent asks for permission.")
    told = words.warning(refused.findings[0], refused, on_loop="warn")
    assert told.endswith("turnguard only warns here (--on-loop warn), so the turn goes on.")


def test_in_shadow_a_warning_takes_the_words_of_the_core() -> None:
    watched = verdict(finding(action=Action.HALT))
    watched.action = Action.ALLOW
    assert words.warning(watched.findings[0], watched, on_loop="halt") == "The first."


def test_the_explanation_names_the_setting_where_there_is_one_and_the_choice() -> None:
    choice = " To be asked or only warned: turnguard acp --on-loop ask or warn."
    assert words.explanation(finding(setting="a.b"), TOTALS).endswith(f" Setting: a.b.{choice}")
    assert "Setting" not in words.explanation(finding(), TOTALS)
    assert "--on-loop" not in words.explanation(finding(), TOTALS, because="stop")


def test_a_second_halt_keeps_the_way_on() -> None:
    assert "You can go on with another message." in words.explanation(finding(), TOTALS, is_again=True)


def test_a_tool_cannot_speak_for_turnguard() -> None:
    evil = finding()
    evil.tool = 'x" \x1b[31m\u202e. Setting: none'
    assert "\x1b" not in words.explanation(evil, TOTALS)
    assert "\u202e" not in words.note(evil, TOTALS)
