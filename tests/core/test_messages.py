"""What people and models read: true, complete, and without anything that could mislead a reader."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from tests.build import call, calls, distinct, results, same, session
from turnguard.core.messages import HEDGED_CAP, SETTING_HINTS, WHAT_HAPPENED, shown_name
from turnguard.settings.layers import ROWS
from turnguard_protocol.events import Event, Result, StepFinished, Text, Thought
from turnguard_protocol.verdicts import Action, Verdict

SETTING_NAMES = {row.name for row in ROWS}
ANY_SETTING = re.compile(r"\b(?:model|turnguard)\.\w+")

GATE_OPEN: dict[str, dict[str, Any]] = {"model": {"skipLoopDetection": False, "maxToolCallsPerTurn": 0}}
STREAM: dict[str, dict[str, Any]] = {"turnguard": {"turnGuard": "stream"}}
STREAM_OPEN = GATE_OPEN | STREAM

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control, format (bidirectional marks among them), surrogates, line and paragraph ends."""


TURN_LOOPS = {
    "action_stagnation",
    "alternating_tool_call_pattern",
    "chanting_identical_sentences",
    "consecutive_identical_tool_calls",
    "global_tool_call_duplicate",
    "invalid_tool_params_stagnation",
    "read_file_loop",
    "repeated_tool_execution_failure",
    "repetitive_thoughts",
    "shell_command_stagnation",
    "turn_tool_call_cap",
}
"""Qwen Code's loop types, all of them."""


class Rule(NamedTuple):
    """How to trip a rule, the setting that governs it, and a part of what must be said."""

    loop_type: str
    settings: dict[str, dict[str, Any]]
    events: Sequence[Event]
    governs: str | None
    fact: str


def failed(step: int) -> list[Event]:
    failure = Result(id=f"call-{step}", ok=False, error_type="execution")
    return [calls(call("build", {"n": step}, f"call-{step}")), results(failure), StepFinished()]


RULES = [
    Rule("turn_tool_call_cap", {}, [same(6), distinct(95)], "model.maxToolCallsPerTurn", '"grep" came 6 times'),
    Rule(
        "turn_tool_call_cap",
        {"model": {"maxToolCallsPerTurn": 7}},
        [distinct(8)],
        "model.maxToolCallsPerTurn",
        "model.maxToolCallsPerTurn is 7.",
    ),
    Rule("turn_tool_call_cap", {}, [distinct(1001)], "model.maxToolCallsPerTurn", "every turn while none is set: 1000"),
    Rule("global_tool_call_duplicate", GATE_OPEN, [same(6)], "model.skipLoopDetection", '"grep" was called 6 times'),
    Rule(
        "global_tool_call_duplicate",
        {},
        [event for _ in range(3) for event in (calls(call("edit", call_id="a")), results(Result(id="a", ok=True)))],
        None,
        '"edit" that was already answered came again',
    ),
    Rule(
        "invalid_tool_params_stagnation",
        {},
        [results(*(Result(name="edit", error_type="invalid_params") for _ in range(3)))],
        None,
        '3 calls of "edit" were rejected',
    ),
    Rule(
        "repeated_tool_execution_failure",
        {"turnguard": {"repeatedFailures": "enforce"}},
        [event for step in range(9) for event in failed(step)],
        "turnguard.repeatedFailures",
        '"build" failed 9 times',
    ),
    Rule("consecutive_identical_tool_calls", STREAM, [same(5)], None, '"grep" was called 5 times in a row with the'),
    Rule(
        "shell_command_stagnation",
        STREAM,
        [calls(call("run_shell_command", {"command": f"git diff HEAD~{n}"})) for n in range(8)],
        None,
        "8 shell commands in a row",
    ),
    Rule(
        "alternating_tool_call_pattern",
        STREAM_OPEN,
        [event for _ in range(3) for event in (same(1, "read"), same(1, "edit"))],
        "model.skipLoopDetection",
        '"edit" and "read" were called in turn 3 times',
    ),
    Rule(
        "read_file_loop",
        STREAM_OPEN,
        [*(calls(call(f"read_{n}")) for n in range(8)), same(1)],
        "model.skipLoopDetection",
        "8 of the last 15 calls only read",
    ),
    Rule(
        "action_stagnation",
        STREAM_OPEN,
        [distinct(8)],
        "model.skipLoopDetection",
        '"read_file" was called 8 times in a',
    ),
    Rule(
        "chanting_identical_sentences",
        STREAM_OPEN,
        [Text("We look at the file once more. " * 12)],
        "model.skipLoopDetection",
        "the model wrote the same passage 10 times",
    ),
    Rule(
        "repetitive_thoughts",
        STREAM_OPEN,
        [Thought("Plan", "look again")] * 3,
        "model.skipLoopDetection",
        "the same thought 3 times in a row",
    ),
]


def verdict_of(rule: Rule) -> Verdict:
    guard = session(**rule.settings)
    verdict = guard.record(rule.events[:1])
    for event in rule.events[1:]:
        verdict = guard.record([event])
    return verdict


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.loop_type} {rule.governs}")
class TestEveryRule:
    """What a real turn that trips the rule is answered."""

    def test_the_fact_is_told_to_both(self, rule: Rule) -> None:
        verdict = verdict_of(rule)
        assert (verdict.action, verdict.findings[0].loop_type) == (Action.HALT, rule.loop_type)
        assert rule.fact in str(verdict.user_message)
        assert str(verdict.user_message).startswith("Stopped")
        assert str(verdict.model_message).startswith("The turn was stopped: ")

    def test_only_the_setting_that_governs_is_named_and_only_to_the_person(self, rule: Rule) -> None:
        verdict = verdict_of(rule)
        named = set(ANY_SETTING.findall(str(verdict.user_message)))
        assert named == ({rule.governs} if rule.governs else set())
        assert named <= SETTING_NAMES
        assert (rule.governs or UNSET) == verdict.findings[0].setting
        assert not ANY_SETTING.search(str(verdict.model_message))


def test_every_loop_type_of_the_turn_guards_is_among_the_rules() -> None:
    assert {rule.loop_type for rule in RULES} == TURN_LOOPS
    assert set(WHAT_HAPPENED) >= TURN_LOOPS


@pytest.mark.parametrize("loop_type", WHAT_HAPPENED)
def test_the_words_for_a_loop_name_no_setting(loop_type: str) -> None:
    assert not ANY_SETTING.search(WHAT_HAPPENED[loop_type])


def test_every_hint_is_of_a_setting_that_exists() -> None:
    assert set(SETTING_HINTS) <= SETTING_NAMES


def test_the_sentence_that_covers_every_part_of_the_cap() -> None:
    assert HEDGED_CAP.format(count=101) == (
        "Stopped after 101 tool calls: this turn passed its tool-call cap, either the one set in "
        "model.maxToolCallsPerTurn or, when none is set, the adaptive one for long turns that repeat themselves."
    )
    for rule in RULES[:3]:
        verdict = verdict_of(rule)
        hedged = HEDGED_CAP.format(count=verdict.totals.tool_calls)
        assert str(verdict.user_message).startswith(f"{hedged} Here it was ")


def test_a_raised_cap_is_not_said_to_be_set() -> None:
    guard = session(model={"maxToolCallsPerTurn": 5})
    guard.record([distinct(6)])
    guard.override("raiseCap", calls=3)
    message = str(guard.record([distinct(9)]).user_message)
    assert "it was raised to 8 for this turn" in message
    assert "maxToolCallsPerTurn is" not in message


def test_a_warning_and_a_refusal_do_not_say_stopped() -> None:
    guard = session(turnguard={"repeatedFailures": "warn"})
    warned = [guard.record(failed(step)) for step in range(8)][-1]
    assert warned.action is Action.WARN
    assert str(warned.user_message).startswith('Warning: "build" failed 8 times')
    assert str(warned.model_message).startswith("Note: ")

    guard = session()
    again = calls(call("edit", call_id="a"))
    guard.record([again])
    guard.record([results(Result(id="a", ok=True))])
    refused = guard.record([again])
    assert refused.action is Action.BLOCK
    assert str(refused.user_message).startswith("Refused: ")
    assert str(refused.model_message).startswith("This call was refused: ")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("edit", '"edit"'),
        ("", '""'),
        ("a\x1b[31mb\x07", '"ab"'),
        ("\x1b]0;title\x07edit\x1b[0m", '"edit"'),
        ("two\r\nlines\u2028and\u0085more", '"twolinesandmore"'),
        ("\u202egnp.exe\u2066x\u2069", '"gnp.exex"'),
        ("zero\u200bwidth\ufeff", '"zerowidth"'),
        ("\ud800half", '"half"'),
        ("x" * 60, f'"{"x" * 60}"'),
        ("x" * 61, f'"{"x" * 59}…"'),
        ("größe_文件", '"größe_文件"'),
    ],
)
def test_names_are_quoted_shortened_and_stripped(name: str, shown: str) -> None:
    assert shown_name(name) == shown


@given(st.text())
@example("\ud83d half, \u202e back to front, \x1b]0;title\x07 a title \u2066")
def test_no_name_can_steer_a_terminal_or_reorder_the_text(name: str) -> None:
    verdict = session(**GATE_OPEN).record([same(6, name)])
    for message in (str(verdict.user_message), str(verdict.model_message)):
        assert {unicodedata.category(character) for character in message}.isdisjoint(UNSAFE)
        assert len(message) < 300
