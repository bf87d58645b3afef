"""What people and models read: true, complete, and without anything that could mislead a reader."""

import re
import string
import unicodedata
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from tests.build import calls, distinct, in_force, same, session
from tests.core.trips import OPEN, TRIPS, TURN_TRIPS, Trip, loop_types_in_source, ran, rolling
from turnguard.core import messages, progress
from turnguard.core.budget.guard import EXHAUSTED, FALLBACK
from turnguard.core.guard import Guard
from turnguard.core.limits import SESSION
from turnguard.core.messages import (
    HEDGED_CAP,
    PROGRESS,
    SETTING_EFFECTS,
    WHAT_HAPPENED,
    WHAT_HAPPENED_FOR,
    model_message,
    shown_name,
    user_message,
)
from turnguard.core.progress import Standing
from turnguard.core.turn import failures
from turnguard.core.turn.batch_turn import REPLAYED_CALL_ID
from turnguard.core.turn.cap import CapReason
from turnguard.settings.table import ROWS
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

SETTING_NAMES = {row.name for row in ROWS}
SECTIONS = "|".join(sorted({name.partition(".")[0] for name in SETTING_NAMES}))
ANY_SETTING = re.compile(rf"\b(?:{SECTIONS})\.\w+(?:\.\w+)*")

REASONS = {
    None,
    *CapReason,
    REPLAYED_CALL_ID,
    *failures.ACTIONS,
    "warning",
    "critical",
    EXHAUSTED,
    FALLBACK,
    *get_args(progress.Kind),
}
"""Every reason that a finding may give."""

UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control, format (bidirectional marks among them), surrogates, line and paragraph ends."""

LEADS = {
    Action.HALT: ("Stopped", "The turn was stopped: "),
    Action.BLOCK: ("Refused: ", "Refused: "),
    Action.RESTRICT: ("Limited: ", "Note: "),
    Action.WARN: ("Warning: ", ""),
}
"""How a message to a person and one to the model begin."""

CLAIMS = {
    Action.HALT: ("Stopped", "The turn was stopped", "Nothing was run", "Continue anyway"),
    Action.BLOCK: ("Refused", "was refused", "was not run"),
    Action.RESTRICT: ("Limited", "the next step has"),
    Action.WARN: ("Warning",),
}
"""What is claimed of what was done, which is true of one action and of no other."""

WAYS_OUT = ("continue once", "raise the cap", "Continue anyway")
"""What a person can do about a refusal, and has no need to where nothing was refused."""

TOLD = [trip for trip in TRIPS if trip.action is not Action.ALLOW]
"""Trips of which somebody reads something."""

TRIPPED: dict[tuple[str, bool], Verdict] = {}


def verdict_of(trip: Trip, *, shadow: bool = False) -> Verdict:
    """What the turn is answered at its end; played once."""
    if (trip.id, shadow) not in TRIPPED:
        TRIPPED[trip.id, shadow] = trip.play(shadow=shadow)[1]
    return TRIPPED[trip.id, shadow]


def guard_kinds(kind: type[Guard] = Guard) -> set[type[Guard]]:
    """Every class of guard, at any depth."""
    return {kind, *(below for child in kind.__subclasses__() for below in guard_kinds(child))}


# --- nothing is left out ----------------------------------------------------------------------------------------------


def test_every_loop_type_reason_action_and_guard_is_among_the_trips() -> None:
    findings = [verdict_of(trip).findings[0] for trip in TRIPS]
    assert {finding.loop_type for finding in findings} == loop_types_in_source()
    assert {None if finding.reason is UNSET else finding.reason for finding in findings} == REASONS
    assert {finding.action for finding in findings} == set(Action)
    names = {kind.name for kind in guard_kinds() if "name" in vars(kind)}
    assert {finding.guard for finding in findings} == {*names, SESSION}
    assert len({trip.id for trip in TRIPS}) == len(TRIPS)


def test_every_loop_type_has_words_and_no_words_are_left_over() -> None:
    assert set(WHAT_HAPPENED) == loop_types_in_source() - {PROGRESS}
    assert set(WHAT_HAPPENED_FOR) == {REPLAYED_CALL_ID, *get_args(progress.Kind)}


def test_the_scan_of_the_source_finds_what_is_written_in_each_of_its_ways() -> None:
    """`loop_type=`, a `Loop`, and the helpers of limits and detectors."""
    ways = {"turn_tool_call_cap", "read_file_loop", "max_steps_per_turn", "ping_pong", "chanting_identical_sentences"}
    assert ways < loop_types_in_source()


@pytest.mark.parametrize("template", [*WHAT_HAPPENED.values(), *WHAT_HAPPENED_FOR.values()])
def test_the_words_for_a_loop_name_no_setting_and_say_how_often_or_which_tool(template: str) -> None:
    assert not ANY_SETTING.search(template)
    fields = {field for _, field, _, _ in string.Formatter().parse(template) if field}
    assert fields & {"count", "tool"}
    assert fields <= {"count", "threshold", "tool", "paired_tool"}


def test_every_effect_is_of_a_setting_that_exists() -> None:
    assert set(SETTING_EFFECTS) <= SETTING_NAMES


def test_advice_is_for_reasons_that_exist() -> None:
    assert set(messages.WARNED_ADVICE) == set(get_args(progress.Kind))
    assert set(messages.RESTRICTED_ADVICE) == {EXHAUSTED, FALLBACK}
    assert set(messages.REFUSED_ADVICE) <= {REPLAYED_CALL_ID, *loop_types_in_source()}


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trip", TRIPS, ids=lambda trip: trip.id)
def test_a_trip_is_what_it_says_it_is(trip: Trip) -> None:
    verdict = verdict_of(trip)
    finding = verdict.findings[0]
    assert (finding.loop_type, finding.action) == (trip.loop_type, trip.action)
    assert finding.reason == (UNSET if trip.reason is None else trip.reason)
    assert finding.setting == (trip.governs or UNSET)
    assert verdict.action is trip.action


@pytest.mark.parametrize("trip", TOLD, ids=lambda trip: trip.id)
class TestEveryTrip:
    """What a real turn that trips a rule is answered."""

    def test_the_fact_is_told_to_the_person(self, trip: Trip) -> None:
        message = str(verdict_of(trip).user_message)
        assert trip.fact in message
        assert message.startswith(LEADS[trip.action][0])
        assert trip.action in (Action.HALT, Action.BLOCK) or not [way for way in WAYS_OUT if way in message]

    def test_only_what_was_done_is_claimed(self, trip: Trip) -> None:
        verdict = verdict_of(trip)
        untrue = [words for action, words in CLAIMS.items() if action is not trip.action]
        for message in (str(verdict.user_message), str(verdict.model_message)):
            assert not [claim for words in untrue for claim in words if claim in message]

    def test_the_model_is_told_too_and_told_what_to_do(self, trip: Trip) -> None:
        verdict = verdict_of(trip)
        message, finding = str(verdict.model_message), verdict.findings[0]
        assert message.startswith(LEADS[trip.action][1])
        assert re.match(r'[A-Z0-9"]', message)
        assert message.endswith(".")
        assert re.search(r"[.] [A-Z]", message), "a fact, and advice"
        assert finding.tool is UNSET or finding.loop_type in WITHOUT_TOOL or shown_name(finding.tool) in message
        assert "{" not in message

    def test_only_the_setting_that_governs_is_named_and_only_to_the_person(self, trip: Trip) -> None:
        verdict = verdict_of(trip)
        named = set(ANY_SETTING.findall(str(verdict.user_message)))
        assert named == ({trip.governs} if trip.governs else set())
        assert named <= SETTING_NAMES
        assert not ANY_SETTING.search(str(verdict.model_message))

    def test_a_turn_that_is_only_watched_is_not_said_to_be_stopped_and_the_model_hears_nothing(
        self, trip: Trip
    ) -> None:
        verdict = verdict_of(trip, shadow=True)
        message = str(verdict.user_message)
        assert verdict.model_message is UNSET
        assert message.startswith("turnguard only watches here (turnguard.shadow), so nothing was stopped. ")
        said = message.removeprefix("turnguard only watches here (turnguard.shadow), so nothing was stopped. ")
        assert said.startswith(("Would have ", "Warning: "))
        assert said.startswith("Warning") == (trip.action is Action.WARN)
        assert not re.search(r"\b(Stopped|Refused|Limited)\b", said)
        assert not [words for words in (*WAYS_OUT, "Nothing was run") if words in said]
        assert trip.fact in said
        assert set(ANY_SETTING.findall(said)) == ({trip.governs} if trip.governs else set())


WITHOUT_TOOL = {"no_new_evidence", "tool_call_budget", "read_file_loop", "shell_command_stagnation"}
"""Loops that are not of one tool, or not always."""


def test_the_sentence_that_covers_every_part_of_the_cap() -> None:
    assert HEDGED_CAP.format(count=101) == (
        "Stopped after 101 tool calls: this turn passed its tool-call cap, either the one set in "
        "model.maxToolCallsPerTurn or, when none is set, the adaptive one for long turns that repeat themselves."
    )
    halts = [trip for trip in TURN_TRIPS if trip.loop_type == "turn_tool_call_cap" and trip.action is Action.HALT]
    assert {trip.reason for trip in halts} == set(CapReason)
    for trip in halts:
        verdict = verdict_of(trip)
        hedged = HEDGED_CAP.format(count=verdict.totals.tool_calls)
        assert str(verdict.user_message).startswith(f"{hedged} Here it was ")


def test_a_raised_cap_is_not_said_to_be_set() -> None:
    guard = session(model={"maxToolCallsPerTurn": 5})
    guard.record([distinct(6)])
    guard.override("raiseCap", calls=3)
    message = str(guard.record([distinct(9)]).user_message)
    assert "for this turn it was 8" in message
    assert "maxToolCallsPerTurn is" not in message


def test_the_strictest_finding_is_the_one_that_is_told() -> None:
    """A batch that is blocked once too often: the turn is over, and that is what matters."""
    blocked = session(**rolling(max_blocks=2))
    for event in ran(3):
        blocked.record([event])
    first, second = (blocked.record([calls(*ran(1)[0].calls)]) for _ in range(2))  # pyright: ignore[reportAttributeAccessIssue]
    assert str(first.user_message).startswith('Refused: "read"')
    assert [finding.loop_type for finding in second.findings] == ["max_blocks_per_turn", "generic_repeat"]
    assert str(second.user_message).startswith("Stopped: 2 responses of this turn asked for calls that may not run.")


def test_a_halt_that_is_repeated_says_the_same() -> None:
    guarded, verdict = next(trip for trip in TRIPS if trip.loop_type == PROGRESS and trip.action is Action.HALT).play()
    again = guarded.record([distinct(1)])
    assert (again.user_message, again.model_message) == (verdict.user_message, verdict.model_message)


@pytest.mark.parametrize("action", ["warn", "halt"])
def test_the_model_is_threatened_only_with_what_will_happen(action: str) -> None:
    guarded = session(turnguard={"progress": {"action": action}})
    warned = [guarded.record([event]) for event in ran(4)][-1]
    assert warned.action is Action.WARN
    assert ("the turn is stopped" in str(warned.model_message)) == (action == "halt")


def test_what_is_past_the_limit_but_only_warned_of_is_no_halt() -> None:
    guarded = session()
    warned = [guarded.record([event]) for event in ran(6)][-1]
    assert warned.action is Action.WARN
    assert "points (limit 6)" in str(warned.user_message)
    assert not [words for words in (*CLAIMS[Action.HALT], *WAYS_OUT) if words in str(warned.user_message)]


def test_a_finding_of_another_version_is_told_in_words_that_are_true_of_all() -> None:
    unknown = Finding(guard="later", action=Action.HALT, loop_type="later", count=3, threshold=2)
    person = user_message([unknown], in_force(), Totals(3, 1, 1, 3))
    model = model_message([unknown], in_force(), Totals(3, 1, 1, 3))
    assert person == "Stopped: the turn repeated itself. No setting governs this check. You can continue once."
    assert model.startswith("The turn was stopped: the turn repeated itself. ")


def test_a_finding_that_asks_for_nothing_is_only_seen() -> None:
    seen = Finding(guard="later", action=Action.ALLOW, loop_type="later", count=3, threshold=2)
    assert user_message([seen], in_force(), Totals(3, 1, 1, 3)) == "Seen: the turn repeated itself."


def test_calls_without_a_name_are_told_as_such() -> None:
    nameless = session(model={"skipLoopDetection": False}).record([same(6, None)])  # pyright: ignore[reportArgumentType]
    assert "a tool without a name was called 6 times" in str(nameless.user_message)
    pair = Finding(guard="turn", action=Action.HALT, loop_type="ping_pong", count=3, threshold=2)
    told = user_message([pair], in_force(), Totals(3, 1, 1, 3))
    assert "two calls, of a tool without a name and of another tool" in told


# --- names ------------------------------------------------------------------------------------------------------------


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


STEERING = "\ud83d half, \u202e back to front, \x1b]0;title\x07 a title \u2066"


@given(st.text())
@example(STEERING)
def test_no_name_can_steer_a_terminal_or_reorder_the_text(name: str) -> None:
    verdict = session(**OPEN).record([same(6, name)])
    for message in (str(verdict.user_message), str(verdict.model_message)):
        assert {unicodedata.category(character) for character in message}.isdisjoint(UNSAFE)
        assert len(message) < 300


@given(
    st.sampled_from([*WHAT_HAPPENED, PROGRESS]),
    st.sampled_from(sorted(filter(None, REASONS))),
    st.sampled_from([Action.WARN, Action.RESTRICT, Action.BLOCK, Action.HALT]),
    st.text(),
    st.text(),
    st.booleans(),
)
@example("ping_pong", "critical", Action.BLOCK, STEERING, STEERING, False)
@example(PROGRESS, "call", Action.HALT, STEERING, "", True)
@example("generic_repeat", "warning", Action.WARN, "{count}", "{threshold!r}", False)
def test_no_message_can_be_steered_whatever_the_finding(
    loop_type: str, reason: str, action: Action, tool: str, paired_tool: str, shadow: bool
) -> None:
    finding = Finding(
        guard="g",
        action=action,
        loop_type=loop_type,
        reason=reason,
        tool=tool,
        paired_tool=paired_tool,
        count=3,
        threshold=2,
    )
    settings, totals = in_force(turnguard={"shadow": shadow}), Totals(3, 1, 1, 3)
    for message in (
        user_message([finding], settings, totals, Standing(6, 5, 1)),
        model_message([finding], settings, totals),
    ):
        assert {unicodedata.category(character) for character in message}.isdisjoint(UNSAFE)
        assert len(message) < 800
