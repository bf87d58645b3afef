from typing import Any

import msgspec
import pytest

from turnguard.settings.layers import Layer, Merged
from turnguard_protocol.settings import Settings, SettingsInForce


def decoded(sections: Any) -> Settings:
    return msgspec.json.decode(msgspec.json.encode(sections), type=Settings)


def merged(*layers: Any, workspace: Any = None) -> Merged:
    named = [Layer(f"layer{n}", decoded(layer)) for n, layer in enumerate(layers)]
    return Merged(named, None if workspace is None else decoded(workspace))


def cap_of(in_force: SettingsInForce) -> tuple[int | None, bool]:
    return in_force.max_tool_calls_per_turn, in_force.is_cap_explicit


def cap(value: Any) -> dict[str, Any]:
    return {"model": {"maxToolCallsPerTurn": value}}


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([], (100, False)),
        ([cap(None)], (100, False)),
        ([{"model": None}], (100, False)),
        ([cap(100)], (100, True)),
        ([cap(0)], (None, True)),
        ([cap(-5)], (None, True)),
        ([cap(5), cap(7)], (7, True)),
        ([cap(5), cap(None)], (5, True)),
    ],
)
def test_a_cap_is_explicit_when_any_layer_set_it(layers: list[Any], expected: tuple[int | None, bool]) -> None:
    assert cap_of(merged(*layers).in_force()) == expected


def test_defaults() -> None:
    in_force = merged().in_force()
    assert in_force.skip_loop_detection is True
    assert in_force.turn_guard == "batch"
    assert in_force.repeated_failures == "shadow"


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        (cap("100"), "$.model.maxToolCallsPerTurn"),
        (cap(1.5), "$.model.maxToolCallsPerTurn"),
        (cap(True), "$.model.maxToolCallsPerTurn"),
        ({"model": {"maxCalls": 1}}, "maxCalls"),
        ({"turnguard": {"turnGuard": "both"}}, "$.turnguard.turnGuard"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_field(sections: Any, path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path.replace("$", r"\$")):
        decoded(sections)


@pytest.mark.parametrize(
    ("layers", "workspace", "expected"),
    [
        ([], 50, (50, True)),
        ([], 100, (100, True)),
        ([], 101, (100, False)),
        ([], 0, (100, False)),
        ([], -1, (100, False)),
        ([cap(20)], 10, (10, True)),
        ([cap(20)], 21, (20, True)),
        ([cap(20)], 0, (20, True)),
        ([cap(0)], 500, (500, True)),
        ([cap(0)], 0, (None, True)),
    ],
)
def test_a_workspace_may_only_lower_the_cap(layers: Any, workspace: int, expected: tuple[int | None, bool]) -> None:
    assert cap_of(merged(*layers, workspace=cap(workspace)).in_force()) == expected


def test_a_workspace_may_only_open_the_gate_and_sharpen_the_failure_guard() -> None:
    strict = {"model": {"skipLoopDetection": False}, "turnguard": {"repeatedFailures": "enforce"}}
    loose = {"model": {"skipLoopDetection": True}, "turnguard": {"repeatedFailures": "off", "turnGuard": "stream"}}
    assert merged(workspace=strict).in_force().skip_loop_detection is False
    assert merged(workspace=strict).in_force().repeated_failures == "enforce"
    in_force = merged(strict, workspace=loose).in_force()
    assert (in_force.skip_loop_detection, in_force.repeated_failures, in_force.turn_guard) == (
        False,
        "enforce",
        "batch",
    )


def test_the_report_says_what_holds_where_it_came_from_and_what_was_ignored() -> None:
    report = merged(cap(20), workspace=cap(500)).report()
    by_name = {value.name: value for value in report.values}
    assert (by_name["model.maxToolCallsPerTurn"].value, by_name["model.maxToolCallsPerTurn"].origin) == (20, "layer0")
    [ignored] = by_name["model.maxToolCallsPerTurn"].ignored or []
    assert (ignored.origin, ignored.value) == ("workspace", 500)
    assert "only tighten" in ignored.why
    assert by_name["model.skipLoopDetection"].origin == "default"
    assert by_name["model.skipLoopDetection"].ignored is msgspec.UNSET
