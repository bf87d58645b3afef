"""The detectors, one test a rule, over histories written out."""

from typing import Any

import pytest

from tests.core.rolling.build import brief, found, history
from turnguard.core.rolling.config import resolve_loop_detection
from turnguard.core.rolling.detectors import detect

SMALL: dict[str, Any] = {"warningThreshold": 2, "criticalThreshold": 4, "globalCircuitBreakerThreshold": 8}


# --- generic repeat ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (9, None),
        (10, ("warning", "generic_repeat", 10)),
        (19, ("warning", "generic_repeat", 19)),
        (20, ("critical", "generic_repeat", 20)),
        (29, ("critical", "generic_repeat", 29)),
        (30, ("critical", "global_circuit_breaker", 30)),
    ],
)
def test_the_default_thresholds(records: int, expected: tuple[str, str, int] | None) -> None:
    assert brief(found("r1 " * records, "r")) == expected


def test_a_warning_counts_calls_whatever_came_of_them_or_nothing_yet() -> None:
    assert brief(found("r1 r2 r3 r? r? r?", "r", **SMALL)) == ("warning", "generic_repeat", 6)


def test_other_calls_do_not_end_the_streak_nor_do_calls_without_outcome() -> None:
    alone: dict[str, Any] = {**SMALL, "detectors": {"pingPong": False}}
    assert brief(found("r1 a1 r1 b1 r1 r? c1 r1 d1", "r", **alone)) == ("critical", "generic_repeat", 4)


def test_another_outcome_ends_the_streak_for_good() -> None:
    assert brief(found("r1 r1 r1 r2 r1 r1 r1", "r", **SMALL)) == ("warning", "generic_repeat", 7)


def test_only_the_newest_outcome_counts() -> None:
    assert brief(found("r1 r1 r1 r1 r1 r2", "r", **SMALL)) == ("warning", "generic_repeat", 6)


def test_the_switch_of_the_detector_leaves_the_breaker() -> None:
    switched: dict[str, Any] = {**SMALL, "detectors": {"genericRepeat": False}}
    assert found("r1 " * 7, "r", **switched) is None
    assert brief(found("r1 " * 8, "r", **switched)) == ("critical", "global_circuit_breaker", 8)


def test_the_breaker_is_of_one_call_alone() -> None:
    switched: dict[str, Any] = {**SMALL, "detectors": {"genericRepeat": False, "pingPong": False}}
    assert found("r1 a1 " * 7, "r", **switched) is None
    assert brief(found("r1 a1 " * 8, "r", **switched)) == ("critical", "global_circuit_breaker", 8)


def test_a_tool_of_the_same_arguments_is_another_call() -> None:
    assert found("r1 " * 20, "q", **SMALL) is None


def test_nothing_is_found_unless_enabled_is_true() -> None:
    records = history("r1 " * 40)
    for block in ({}, {"enabled": None}, {"enabled": False}):
        assert detect(records, "r", "{}", False, resolve_loop_detection(block)) is None


# --- polls ------------------------------------------------------------------------------------------------------------


def test_a_poll_warns_and_blocks_on_its_streak_alone() -> None:
    assert brief(found("p1 p1", "p", is_poll=True, **SMALL)) == ("warning", "known_poll_no_progress", 2)
    assert brief(found("p1 p1 p1 p1", "p", is_poll=True, **SMALL)) == ("critical", "known_poll_no_progress", 4)
    assert found("p1 p2 p3 p4 p5 p6 p7", "p", is_poll=True, **SMALL) is None


def test_a_poll_never_is_a_generic_repeat() -> None:
    switched: dict[str, Any] = {**SMALL, "detectors": {"knownPollNoProgress": False}}
    assert found("p1 " * 7, "p", is_poll=True, **switched) is None
    assert brief(found("p1 " * 8, "p", is_poll=True, **switched)) == ("critical", "global_circuit_breaker", 8)


def test_a_poll_comes_before_the_pair_it_is_part_of() -> None:
    assert brief(found("p1 a1 p1 a1 p1 a1 p1 a1", "p", is_poll=True, **SMALL)) == (
        "critical",
        "known_poll_no_progress",
        4,
    )
    assert brief(found("p1 a1 p1 a1", "p", is_poll=True, **SMALL)) == ("warning", "known_poll_no_progress", 2)


def test_a_poll_with_progress_is_still_half_of_a_pair() -> None:
    assert brief(found("p1 a1 p2 a1", "p", is_poll=True, **SMALL)) == ("warning", "ping_pong", 5)


# --- ping-pong --------------------------------------------------------------------------------------------------------


def test_a_pair_counts_the_call_about_to_run() -> None:
    assert brief(found("a1 b1", "a", warningThreshold=3)) == ("warning", "ping_pong", 3)
    assert found("a1 b1", "a", warningThreshold=4) is None


def test_a_pair_names_the_call_that_came_last() -> None:
    loop = found("a1 b1", "a", warningThreshold=3)
    assert loop is not None and loop.paired_tool == "b"


def test_the_call_about_to_run_must_be_the_other_one() -> None:
    assert brief(found("a1 b1 a1 b1", "a", warningThreshold=3)) == ("warning", "ping_pong", 5)
    assert found("a1 b1 a1 b1", "b", warningThreshold=3) is None
    assert found("a1 b1 a1 b1", "c", warningThreshold=3) is None


def test_a_repetition_or_a_third_call_ends_the_alternation() -> None:
    assert brief(found("a1 b1 a1 a1 b1", "a", warningThreshold=3, detectors={"genericRepeat": False})) == (
        "warning",
        "ping_pong",
        3,
    )
    assert found("a1 b1 b1", "a", warningThreshold=2, detectors={"genericRepeat": False}) is None
    assert found("a1 b1 c1 a1 b1 c1", "a", warningThreshold=3) is None


def test_a_pair_is_critical_when_neither_makes_progress() -> None:
    assert brief(found("a1 b2 a1", "b", **SMALL)) == ("critical", "ping_pong", 4)
    assert brief(found("a1 b2 a3", "b", **SMALL)) == ("warning", "ping_pong", 4)
    assert brief(found("b2 a1 b3 a1", "b", **SMALL)) == ("warning", "ping_pong", 5)


def test_without_an_outcome_there_is_no_evidence_on_either_side() -> None:
    assert brief(found("b1 a1 b1 a?", "b", **SMALL)) == ("warning", "ping_pong", 5)
    assert brief(found("b? a1 b1 a1", "b", **SMALL)) == ("warning", "ping_pong", 5)
    assert brief(found("b? a?", "b", warningThreshold=2, criticalThreshold=3)) == ("warning", "ping_pong", 3)
    assert brief(found("b1 a1", "b", warningThreshold=2, criticalThreshold=3)) == ("critical", "ping_pong", 3)


def test_progress_before_the_tail_does_not_count() -> None:
    assert brief(found("a7 c1 a1 b1 a1", "b", **SMALL)) == ("critical", "ping_pong", 4)


def test_a_warning_of_a_pair_hides_a_critical_repeat() -> None:
    script = "a1 b1 a1 b2 a1 b3 a1 b4 a1 b5"
    assert brief(found(script, "a", **SMALL)) == ("warning", "ping_pong", 11)
    assert brief(found(script, "a", **SMALL, detectors={"pingPong": False})) == ("critical", "generic_repeat", 5)
    assert brief(found(script + " a1 b6 a1 b7 a1 b8", "a", **SMALL)) == ("critical", "global_circuit_breaker", 8)


# --- unknown tools ----------------------------------------------------------------------------------------------------


def test_an_unknown_tool_blocks_at_its_own_threshold() -> None:
    assert found("fx " * 9, "f", detectors={"genericRepeat": False}) is None
    assert brief(found("fx " * 10, "f")) == ("critical", "unknown_tool_repeat", 10)


def test_an_unknown_tool_comes_before_the_breaker_and_obeys_no_switch() -> None:
    off = {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False}
    assert brief(found("fx " * 9, "f", **SMALL, unknownToolThreshold=9, detectors=off)) == (
        "critical",
        "unknown_tool_repeat",
        9,
    )


@pytest.mark.parametrize("between", ["f?", "f1", "a1", "ax", "fy"])
def test_any_other_record_ends_the_streak_of_an_unknown_tool(between: str) -> None:
    quiet: dict[str, Any] = {"unknownToolThreshold": 2, "detectors": {"pingPong": False}}
    assert found(f"fx {between} fx", "f", **quiet) is None
    assert brief(found(f"fx {between} fx fx", "f", **quiet)) == ("critical", "unknown_tool_repeat", 2)


def test_another_tool_is_not_blocked_by_it() -> None:
    assert found("fx fx fx", "g", unknownToolThreshold=2) is None


# --- what a finding says ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "threshold", "setting"),
    [
        ("rx rx rx", 3, "unknownToolThreshold"),
        ("r1 " * 8, 8, "globalCircuitBreakerThreshold"),
        ("r1 " * 4, 4, "criticalThreshold"),
        ("r1 r2", 2, "warningThreshold"),
    ],
)
def test_a_loop_names_the_threshold_that_governs(script: str, threshold: int, setting: str) -> None:
    loop = found(script, "r", **SMALL, unknownToolThreshold=3)
    assert loop is not None
    assert (loop.threshold, loop.setting) == (threshold, setting)
