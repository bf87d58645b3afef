"""`tools.loopDetection`: merging, tolerance, the order of thresholds, and what a block may say."""

from typing import Any

import pytest

from turnguard.core.rolling.config import resolve_loop_detection, validate_loop_detection
from turnguard_protocol.settings import LoopDetectionInForce

DEFAULTS = LoopDetectionInForce(
    enabled=None,
    history_size=30,
    warning_threshold=10,
    critical_threshold=20,
    unknown_tool_threshold=10,
    global_circuit_breaker_threshold=30,
    generic_repeat=True,
    known_poll_no_progress=True,
    ping_pong=True,
    post_compaction_window_size=3,
)

ATTRIBUTES = {
    "historySize": "history_size",
    "warningThreshold": "warning_threshold",
    "criticalThreshold": "critical_threshold",
    "unknownToolThreshold": "unknown_tool_threshold",
    "globalCircuitBreakerThreshold": "global_circuit_breaker_threshold",
}


def order(**block: Any) -> tuple[int, int, int]:
    resolved = resolve_loop_detection(block)
    return resolved.warning_threshold, resolved.critical_threshold, resolved.global_circuit_breaker_threshold


@pytest.mark.parametrize("nothing", [None, {}, "x", 1, [], {"detectors": None, "postCompactionGuard": 3}])
def test_nothing_set_is_the_defaults(nothing: object) -> None:
    assert resolve_loop_detection(nothing, nothing) == resolve_loop_detection() == DEFAULTS


@pytest.mark.parametrize("useless", [0, -1, 2.5, True, False, None, "5", [5], {}, 1e400, -(2.0**60)])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_value_that_is_no_count_takes_its_default(name: str, useless: object) -> None:
    assert resolve_loop_detection({name: useless}) == DEFAULTS
    assert resolve_loop_detection({"postCompactionGuard": {"windowSize": useless}}) == DEFAULTS


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_whole_number_counts_however_it_is_written(name: str) -> None:
    for value in (40, 40.0):
        resolved = getattr(resolve_loop_detection({name: value}), ATTRIBUTES[name])
        assert (resolved, type(resolved)) == (40, int)
    assert resolve_loop_detection({"postCompactionGuard": {"windowSize": 5.0}}).post_compaction_window_size == 5


def test_a_threshold_is_put_above_the_one_below_it() -> None:
    assert order(warningThreshold=5, criticalThreshold=5) == (5, 6, 30)
    assert order(criticalThreshold=5) == (10, 11, 30)
    assert order(warningThreshold=29) == (29, 30, 31)
    assert order(warningThreshold=9, criticalThreshold=8, globalCircuitBreakerThreshold=7) == (9, 10, 11)
    assert order(warningThreshold=5, criticalThreshold=6, globalCircuitBreakerThreshold=7) == (5, 6, 7)


def test_the_order_is_that_of_the_merged_thresholds() -> None:
    resolved = resolve_loop_detection({"criticalThreshold": 9}, {"warningThreshold": 9})
    assert (resolved.warning_threshold, resolved.critical_threshold) == (9, 10)


@pytest.mark.parametrize("value", [True, False, None])
def test_enabled_has_three_states_and_the_agent_wins(value: bool | None) -> None:
    assert resolve_loop_detection({"enabled": value}).enabled is value
    for other in (True, False, None):
        assert resolve_loop_detection({"enabled": other}, {"enabled": value}).enabled is value
    assert resolve_loop_detection({"enabled": value}, {"warningThreshold": 1}).enabled is value


def test_inner_blocks_merge_key_by_key() -> None:
    resolved = resolve_loop_detection(
        {"detectors": {"pingPong": False, "genericRepeat": False}, "postCompactionGuard": {"windowSize": 7}},
        {"detectors": {"genericRepeat": True, "knownPollNoProgress": False}, "postCompactionGuard": {}},
    )
    assert (resolved.ping_pong, resolved.generic_repeat, resolved.known_poll_no_progress) == (False, True, False)
    assert resolved.post_compaction_window_size == 7


def test_an_agents_key_hides_the_global_one_even_when_it_is_no_good() -> None:
    assert resolve_loop_detection({"warningThreshold": 3}, {"warningThreshold": 0}) == DEFAULTS
    assert resolve_loop_detection({"detectors": {"pingPong": False}}, {"detectors": {"pingPong": None}}) == DEFAULTS


# --- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"enabled": False, "historySize": 1, "detectors": {}, "postCompactionGuard": {}},
        {"warningThreshold": 9.0, "criticalThreshold": 10, "globalCircuitBreakerThreshold": 2**53 - 1},
        {"criticalThreshold": 5},
        {"warningThreshold": 9, "globalCircuitBreakerThreshold": 3},
        {"detectors": {"genericRepeat": True, "knownPollNoProgress": False, "pingPong": True}},
    ],
)
def test_a_good_block(block: object) -> None:
    assert validate_loop_detection(block) == []


@pytest.mark.parametrize(
    ("block", "paths"),
    [
        (None, [""]),
        ([], [""]),
        ({"unknown": 1, "other": 2}, [""]),
        ({"enabled": None}, ["enabled"]),
        ({"enabled": 1}, ["enabled"]),
        ({"detectors": None}, ["detectors"]),
        ({"detectors": {"other": True}}, ["detectors"]),
        ({"detectors": {"pingPong": 1, "genericRepeat": None}}, ["detectors.genericRepeat", "detectors.pingPong"]),
        ({"postCompactionGuard": {"enabled": True}}, ["postCompactionGuard"]),
        ({"postCompactionGuard": {"windowSize": 2.5}}, ["postCompactionGuard.windowSize"]),
        ({"warningThreshold": 5, "criticalThreshold": 5}, ["criticalThreshold"]),
        ({"criticalThreshold": 6, "globalCircuitBreakerThreshold": 6}, ["globalCircuitBreakerThreshold"]),
        (
            {"warningThreshold": 9, "criticalThreshold": 8, "globalCircuitBreakerThreshold": 7},
            ["criticalThreshold", "globalCircuitBreakerThreshold"],
        ),
        ({"warningThreshold": 9, "criticalThreshold": 8, "x": 1}, [""]),
        ({"warningThreshold": 9, "criticalThreshold": "8"}, ["criticalThreshold"]),
        ({"historySize": True, "unknownToolThreshold": 0, "y": 1}, ["", "historySize", "unknownToolThreshold"]),
    ],
)
def test_a_bad_block_is_told_by_its_paths(block: object, paths: list[str]) -> None:
    assert validate_loop_detection(block) == paths


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "5", 2**53, 1e400])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_what_is_no_positive_safe_integer_is_told(name: str, value: object) -> None:
    assert validate_loop_detection({name: value}) == [name]
