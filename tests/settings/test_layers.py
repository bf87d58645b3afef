from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from turnguard.core import thresholds
from turnguard.core.rolling.config import resolve_loop_detection
from turnguard.settings.layers import WORKSPACE, Layer, Merged, SettingsError, values_of
from turnguard.settings.table import ROWS, Row
from turnguard_protocol.settings import LoopDetectionInForce, Settings, SettingsInForce


def decoded(sections: Any) -> Settings:
    return msgspec.json.decode(msgspec.json.encode(sections), type=Settings)


def merged(*layers: Any, workspace: Any = None, agent_id: str | None = None) -> Merged:
    named = [Layer(f"layer{n}", values_of(decoded(layer))) for n, layer in enumerate(layers)]
    tightening = [] if workspace is None else [Layer(WORKSPACE, values_of(decoded(workspace)))]
    return Merged(named, tightening, agent_id=agent_id)


def nested(name: str, value: Any) -> dict[str, Any]:
    """`{"model": {"skipLoopDetection": value}}` for a dotted name."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def reported(layers: Merged, name: str) -> Any:
    return next(value for value in layers.report().values if value.name == name)


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


# --- every row --------------------------------------------------------------------------------------------------------


class Values(NamedTuple):
    """Values of one setting: its default, what a client sets, and what is stricter and what is looser than that."""

    default: Any
    base: Any
    stricter: Any
    looser: Any


LOOP = "tools.loopDetection"
STATES = {"A": ["x"], "B": []}

VALUES = {
    "model.maxToolCallsPerTurn": Values(None, 50, 40, 60),
    "model.skipLoopDetection": Values(True, True, False, None),
    f"{LOOP}.enabled": Values(None, False, True, None),
    f"{LOOP}.historySize": Values(30, 40, 50, 35),
    f"{LOOP}.warningThreshold": Values(10, 8, 5, 9),
    f"{LOOP}.criticalThreshold": Values(20, 18, 15, 19),
    f"{LOOP}.unknownToolThreshold": Values(10, 8, 5, 9),
    f"{LOOP}.globalCircuitBreakerThreshold": Values(30, 28, 25, 29),
    f"{LOOP}.detectors.genericRepeat": Values(True, False, True, None),
    f"{LOOP}.detectors.knownPollNoProgress": Values(True, False, True, None),
    f"{LOOP}.detectors.pingPong": Values(True, False, True, None),
    f"{LOOP}.postCompactionGuard.windowSize": Values(3, 5, 4, 6),
    "agents.list": Values(None, [{"id": "a"}], None, [{"id": "b"}]),
    "loopShield.enabled": Values(False, False, True, None),
    "loopShield.maxConsecutiveTools": Values(None, 5, 4, 6),
    "loopShield.mode": Values("consecutive", "consecutive", None, "repeated"),
    "loopShield.fallbackState": Values(None, "A", None, "B"),
    "loopShield.initialState": Values(None, "A", None, "B"),
    "loopShield.states": Values(None, STATES, None, {"A": ["x", "y"]}),
    "loopShield.admission": Values("batch", "batch", "call", None),
    "turnguard.turnGuard": Values("batch", "batch", None, "stream"),
    "turnguard.repeatedFailures": Values("shadow", "warn", "enforce", "off"),
    "turnguard.admission": Values("batch", "batch", None, "call"),
    "turnguard.maxBlocksPerTurn": Values(3, 4, 2, 5),
    "turnguard.maxStepsPerTurn": Values(None, 50, 40, 60),
    "turnguard.shadow": Values(False, True, False, None),
    "turnguard.progress.action": Values("warn", "warn", "halt", "off"),
}
"""Each setting with values; `stricter` None: a workspace has no say in it. `looser` None: there is no value for it."""


def test_every_row_has_its_values() -> None:
    assert [row.name for row in ROWS] == list(VALUES)
    assert [row.default for row in ROWS] == [values.default for values in VALUES.values()]


def fields(settings: type[Any] = Settings, path: str = "") -> Iterator[str]:
    """The dotted names of all settings that a client can send."""
    for field in msgspec.structs.fields(settings):
        kinds = [kind for kind in msgspec.inspect.type_info(field.type).types if hasattr(kind, "cls")]  # pyright: ignore[reportAttributeAccessIssue]
        name = f"{path}{field.encode_name}"
        if kinds:
            yield from fields(kinds[0].cls, f"{name}.")
        else:
            yield name


def test_every_setting_that_a_client_can_send_has_a_row() -> None:
    assert sorted(fields()) == sorted(row.name for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
class TestEveryRow:
    """Where a value comes from, and which a workspace may give."""

    def test_nobody_set_it(self, row: Row) -> None:
        for layers in (merged(), merged({}, {}), merged(nested(row.name, None), workspace=nested(row.name, None))):
            value = reported(layers, row.name)
            assert (value.value, value.origin, value.ignored) == (row.default, "default", msgspec.UNSET)

    def test_the_last_layer_that_set_it_wins_even_with_the_default(self, row: Row) -> None:
        values = VALUES[row.name]
        other = values.looser if values.stricter is None else values.stricter
        value = reported(merged(nested(row.name, other), nested(row.name, values.base)), row.name)
        assert (value.value, value.origin) == (values.base, "layer1")
        value = reported(merged(nested(row.name, values.base), nested(row.name, None)), row.name)
        assert (value.value, value.origin) == (values.base, "layer0")
        if row.default is not None:
            assert reported(merged(nested(row.name, row.default)), row.name).origin == "layer0"

    def test_a_workspace_may_tighten_it(self, row: Row) -> None:
        values = VALUES[row.name]
        if values.stricter is not None:
            layers = [nested(row.name, values.base)]
            if row.name == "loopShield.enabled":  # which makes no sense without a budget
                layers.insert(0, {"loopShield": {"maxConsecutiveTools": 5}})
            value = reported(merged(*layers, workspace=nested(row.name, values.stricter)), row.name)
            assert (value.value, value.origin, value.ignored) == (values.stricter, WORKSPACE, msgspec.UNSET)
        else:
            assert row.tightens == "never"

    def test_what_a_workspace_may_not_do_is_ignored_and_named(self, row: Row) -> None:
        values = VALUES[row.name]
        pairs = [(values.base, values.looser), (values.stricter, values.base)]
        for base, looser in pairs:
            if base is None or looser is None or base == looser:
                continue
            layers = merged(nested(row.name, base), workspace=nested(row.name, looser))
            value = reported(layers, row.name)
            assert (value.value, value.origin) == (base, "layer0")
            [ignored] = value.ignored
            assert (ignored.origin, ignored.value) == (WORKSPACE, looser)
            assert row.name in ignored.why
            assert "layer0" in ignored.why

    def test_a_workspace_that_says_the_same_is_not_ignored(self, row: Row) -> None:
        base = VALUES[row.name].base
        value = reported(merged(nested(row.name, base), workspace=nested(row.name, base)), row.name)
        assert (value.value, value.origin, value.ignored) == (base, "layer0", msgspec.UNSET)


@pytest.mark.parametrize(
    ("name", "workspace"),
    [("agents.list", [{"id": "a", "tools": {"loopDetection": {"enabled": False}}}]), ("loopShield.states", STATES)],
)
def test_where_nobody_set_anything_a_workspace_still_may_not(name: str, workspace: Any) -> None:
    value = reported(merged(workspace=nested(name, workspace)), name)
    assert (value.value, value.origin) == (None, "default")
    assert [ignored.value for ignored in value.ignored] == [workspace]


def test_a_workspace_cannot_hide_behind_shadow() -> None:
    assert merged(workspace={"turnguard": {"shadow": True}}).in_force().shadow is False


def test_a_workspace_can_end_what_was_only_watched() -> None:
    assert (
        merged({"turnguard": {"shadow": True}}, workspace={"turnguard": {"shadow": False}}).in_force().shadow is False
    )


@pytest.mark.parametrize(("base", "workspace", "expected"), [(3, 0, 3), (0, 7, 7), (3, 3, 3), (3, 1, 1), (1, 3, 1)])
def test_a_workspace_may_lower_the_blocks_of_a_turn_but_not_allow_any_number(
    base: int, workspace: int, expected: int
) -> None:
    turnguard = {"turnguard": {"maxBlocksPerTurn": base}}
    layers = merged(turnguard, workspace={"turnguard": {"maxBlocksPerTurn": workspace}})
    assert layers.in_force().max_blocks_per_turn == expected


# --- what is in force -------------------------------------------------------------------------------------------------


def test_all_defaults_together() -> None:
    assert merged().in_force() == SettingsInForce(
        max_tool_calls_per_turn=100,
        is_cap_explicit=False,
        skip_loop_detection=True,
        turn_guard="batch",
        repeated_failures="shadow",
        loop_detection=LoopDetectionInForce(
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
        ),
        loop_shield=None,
        progress="warn",
        admission="batch",
        max_blocks_per_turn=thresholds.DEFAULT_MAX_BLOCKS_PER_TURN,
        max_steps_per_turn=None,
        shadow=False,
    )


def test_all_settings_together() -> None:
    everything = {
        "model": {"maxToolCallsPerTurn": 7, "skipLoopDetection": False},
        "tools": {
            "loopDetection": {
                "enabled": True,
                "historySize": 50,
                "warningThreshold": 3,
                "criticalThreshold": 5,
                "unknownToolThreshold": 4,
                "globalCircuitBreakerThreshold": 9,
                "detectors": {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False},
                "postCompactionGuard": {"windowSize": 2},
            }
        },
        "loopShield": {
            "enabled": True,
            "maxConsecutiveTools": 6,
            "mode": "repeated",
            "fallbackState": "B",
            "initialState": "A",
            "states": STATES,
            "admission": "call",
        },
        "turnguard": {
            "turnGuard": "stream",
            "repeatedFailures": "enforce",
            "admission": "call",
            "maxBlocksPerTurn": 0,
            "maxStepsPerTurn": 8,
            "shadow": True,
            "progress": {"action": "halt"},
        },
    }
    in_force = merged(everything).in_force()
    assert in_force == msgspec.convert(
        {
            "max_tool_calls_per_turn": 7,
            "is_cap_explicit": True,
            "skip_loop_detection": False,
            "turn_guard": "stream",
            "repeated_failures": "enforce",
            "loop_detection": {
                "enabled": True,
                "history_size": 50,
                "warning_threshold": 3,
                "critical_threshold": 5,
                "unknown_tool_threshold": 4,
                "global_circuit_breaker_threshold": 9,
                "generic_repeat": False,
                "known_poll_no_progress": False,
                "ping_pong": False,
                "post_compaction_window_size": 2,
            },
            "loop_shield": {
                "enabled": True,
                "max_consecutive_tools": 6,
                "mode": "repeated",
                "fallback_state": "B",
                "initial_state": "A",
                "states": STATES,
                "admission": "call",
            },
            "progress": "halt",
            "admission": "call",
            "max_blocks_per_turn": 0,
            "max_steps_per_turn": 8,
            "shadow": True,
        },
        SettingsInForce,
    )
    origins = {value.name: value.origin for value in merged(everything).report().values}
    assert {name for name, origin in origins.items() if origin == "default"} == {"agents.list"}


NULLS = {
    "model": {"maxToolCallsPerTurn": None, "skipLoopDetection": None},
    "tools": {
        "loopDetection": {
            "enabled": None,
            "historySize": None,
            "warningThreshold": None,
            "criticalThreshold": None,
            "unknownToolThreshold": None,
            "globalCircuitBreakerThreshold": None,
            "detectors": {"genericRepeat": None, "knownPollNoProgress": None, "pingPong": None},
            "postCompactionGuard": {"windowSize": None},
        }
    },
    "agents": {"list": None},
    "loopShield": {
        "enabled": None,
        "maxConsecutiveTools": None,
        "mode": None,
        "fallbackState": None,
        "initialState": None,
        "states": None,
        "admission": None,
    },
    "turnguard": {
        "turnGuard": None,
        "repeatedFailures": None,
        "admission": None,
        "maxBlocksPerTurn": None,
        "maxStepsPerTurn": None,
        "shadow": None,
        "progress": {"action": None},
    },
}


@pytest.mark.parametrize(
    "nothing",
    [{}, NULLS, dict.fromkeys(NULLS), {"tools": {"loopDetection": {"detectors": None, "postCompactionGuard": None}}}],
)
def test_null_means_not_set_at_every_depth(nothing: Any) -> None:
    for layers in (merged(nothing), merged({}, nothing), merged(workspace=nothing)):
        assert layers.in_force() == merged().in_force()
        assert layers.report() == merged().report()


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"tools": {"loopDetection": {"historySize": 0}}}, "$.tools.loopDetection.historySize"),
        ({"tools": {"loopDetection": {"warningThreshold": 2.5}}}, "$.tools.loopDetection.warningThreshold"),
        ({"tools": {"loopDetection": {"enabled": 1}}}, "$.tools.loopDetection.enabled"),
        ({"tools": {"loopDetection": {"detectors": {"pingpong": True}}}}, "pingpong"),
        ({"tools": {"loopDetection": {"warningThreshold": 5, "criticalThreshold": 5}}}, "$.tools.loopDetection"),
        (
            {"tools": {"loopDetection": {"criticalThreshold": 5, "globalCircuitBreakerThreshold": 5}}},
            "$.tools.loopDetection",
        ),
        ({"agents": {"list": [{"tools": {}}]}}, "$.agents.list[0]"),
        ({"agents": {"list": [{"id": ""}]}}, "$.agents.list[0].id"),
        ({"agents": {"list": [{"id": "a", "tools": {"x": 1}}]}}, "$.agents.list[0].tools"),
        ({"loopShield": {"maxConsecutiveTools": -1}}, "$.loopShield.maxConsecutiveTools"),
        ({"loopShield": {"maxConsecutiveTools": 1.5}}, "$.loopShield.maxConsecutiveTools"),
        ({"loopShield": {"mode": "same"}}, "$.loopShield.mode"),
        ({"loopShield": {"states": {"A": "x"}}}, "$.loopShield.states[...]"),
        ({"loopShield": {"states": {"": []}}}, "$.loopShield.states"),
        ({"loopShield": {"admission": "step"}}, "$.loopShield.admission"),
        ({"turnguard": {"admission": "step"}}, "$.turnguard.admission"),
        ({"turnguard": {"maxBlocksPerTurn": -1}}, "$.turnguard.maxBlocksPerTurn"),
        ({"turnguard": {"maxStepsPerTurn": 0}}, "$.turnguard.maxStepsPerTurn"),
        ({"turnguard": {"shadow": "yes"}}, "$.turnguard.shadow"),
        ({"turnguard": {"progress": {"action": "stop"}}}, "$.turnguard.progress.action"),
        ({"turnguard": {"progress": "halt"}}, "$.turnguard.progress"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_field_of_every_section(sections: Any, path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decoded(sections)
    assert path in str(caught.value)


# --- loop detection ---------------------------------------------------------------------------------------------------


def detection(*blocks: Any, agent: Any = None, agent_id: str | None = "mine", workspace: Any = None) -> Any:
    """What holds of loop detection under these blocks, a layer each, and a block of the agent `mine`."""
    layers = [{"tools": {"loopDetection": block}} for block in blocks]
    if agent is not None:
        others = [{"id": "before"}, {"id": "mine", "tools": {"loopDetection": agent}}, {"id": "mine"}]
        layers.append({"agents": {"list": others}})
    given = None if workspace is None else {"tools": {"loopDetection": workspace}}
    held = merged(*layers, workspace=given, agent_id=agent_id).in_force().loop_detection
    assert held is not None
    return held


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"criticalThreshold": 5}, (10, 11, 30)),
        ({"warningThreshold": 25}, (25, 26, 30)),
        ({"warningThreshold": 40}, (40, 41, 42)),
        ({"globalCircuitBreakerThreshold": 4}, (10, 20, 21)),
        ({"criticalThreshold": 40}, (10, 40, 41)),
        ({"warningThreshold": 2, "criticalThreshold": 3, "globalCircuitBreakerThreshold": 4}, (2, 3, 4)),
    ],
)
def test_thresholds_are_clamped_when_they_are_used(block: Any, expected: tuple[int, int, int]) -> None:
    held = detection(block)
    thresholds_held = held.warning_threshold, held.critical_threshold, held.global_circuit_breaker_threshold
    assert thresholds_held == expected
    assert held == resolve_loop_detection(block)
    report = merged({"tools": {"loopDetection": block}}).report()
    assert {value.name for value in report.values if value.origin != "default"} == {f"{LOOP}.{name}" for name in block}


def test_thresholds_of_different_layers_need_not_fit_and_are_clamped_together() -> None:
    """Each block on its own is in order; what comes of them is put in order when it is used."""
    held = detection({"warningThreshold": 15, "criticalThreshold": 18}, {"criticalThreshold": 12}, {"historySize": 5})
    assert (held.warning_threshold, held.critical_threshold, held.history_size) == (15, 16, 5)
    held = detection({"warningThreshold": 15}, workspace={"criticalThreshold": 4, "globalCircuitBreakerThreshold": 5})
    assert (held.warning_threshold, held.critical_threshold, held.global_circuit_breaker_threshold) == (15, 16, 17)


def test_an_agents_block_is_laid_over_the_global_one_key_by_key() -> None:
    shared = {"enabled": True, "historySize": 9, "detectors": {"genericRepeat": False, "pingPong": False}}
    own = {"historySize": 7, "detectors": {"pingPong": True}, "postCompactionGuard": {"windowSize": 1}}
    held = detection(shared, agent=own)
    assert (held.enabled, held.history_size, held.generic_repeat, held.ping_pong) == (True, 7, False, True)
    assert held.post_compaction_window_size == 1
    assert held == resolve_loop_detection(shared, own)


@pytest.mark.parametrize(
    ("shared", "own", "expected"),
    [
        (True, False, False),
        (False, True, True),
        (None, True, True),
        (True, None, True),
        (False, None, False),
        (None, None, None),
    ],
)
def test_an_agents_own_switch_wins_either_way(shared: Any, own: Any, expected: Any) -> None:
    assert detection({"enabled": shared}, agent={"enabled": own}).enabled is expected


@pytest.mark.parametrize("agent_id", [None, "other", "before", "Mine", ""])
def test_another_agents_block_does_not_count(agent_id: str | None) -> None:
    assert detection({"enabled": True}, agent={"enabled": False}, agent_id=agent_id).enabled is True


def test_a_default_is_not_laid_over_an_agents_value_nor_an_agents_over_nothing() -> None:
    held = detection(agent={"warningThreshold": 4, "criticalThreshold": 6})
    assert (held.warning_threshold, held.critical_threshold, held.history_size) == (4, 6, 30)


def test_the_first_block_of_an_agent_counts() -> None:
    twice = [{"id": "a", "tools": {"loopDetection": {"enabled": on}}} for on in (True, False)]
    held = merged({"agents": {"list": twice}}, agent_id="a").in_force().loop_detection
    assert held is not None
    assert held.enabled is True


def test_a_list_of_agents_replaces_the_one_before() -> None:
    one, other = ([{"id": "a", "tools": {"loopDetection": {"historySize": size}}}] for size in (5, 6))
    layers = merged({"agents": {"list": one}}, {"agents": {"list": other}}, agent_id="a")
    assert layers.in_force().loop_detection == resolve_loop_detection({"historySize": 6})
    layers = merged({"agents": {"list": one}}, {"agents": {"list": []}}, agent_id="a")
    assert layers.in_force().loop_detection == resolve_loop_detection()


# --- loopShield -------------------------------------------------------------------------------------------------------


def shield(**section: Any) -> dict[str, Any]:
    return {"loopShield": section}


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ({"enabled": True}, "loopShield.maxConsecutiveTools"),
        ({"enabled": True, "states": STATES}, "loopShield.maxConsecutiveTools"),
        ({"states": STATES, "initialState": "C"}, "loopShield.initialState"),
        ({"states": STATES, "fallbackState": "C"}, "loopShield.fallbackState"),
        ({"enabled": True, "maxConsecutiveTools": 1, "fallbackState": "A"}, "loopShield.fallbackState"),
        ({"enabled": True, "maxConsecutiveTools": 1, "initialState": "A"}, "loopShield.initialState"),
        (
            {"enabled": True, "maxConsecutiveTools": 0, "states": STATES, "fallbackState": "B"},
            "loopShield.maxConsecutiveTools",
        ),
    ],
)
def test_what_makes_no_sense_together_is_an_error_that_names_the_setting(section: Any, name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        merged(shield(**section)).in_force()
    assert caught.value.name == name
    assert str(caught.value) == f"{name}: {caught.value.message}"
    assert caught.value.message
    with pytest.raises(SettingsError) as caught:
        merged(*(shield(**{key: value}) for key, value in section.items())).in_force()
    assert caught.value.name == name, "whichever layers they come from"


@pytest.mark.parametrize(
    "section",
    [
        {"enabled": False},
        {"maxConsecutiveTools": 5},
        {"enabled": False, "maxConsecutiveTools": 0, "mode": "repeated", "admission": "call"},
        {"states": {}},
        {"fallbackState": "A", "initialState": "B"},
    ],
)
def test_without_switch_and_states_there_is_no_budget(section: Any) -> None:
    assert merged(shield(**section)).in_force().loop_shield is None


def test_states_hold_without_a_budget() -> None:
    held = merged(shield(states=STATES, initialState="B", fallbackState="A")).in_force().loop_shield
    assert held is not None
    assert (held.enabled, held.states, held.initial_state, held.fallback_state) == (False, STATES, "B", "A")


@pytest.mark.parametrize("budget", [0, 1, 7])
def test_a_plain_budget(budget: int) -> None:
    held = merged(shield(enabled=True, maxConsecutiveTools=budget)).in_force().loop_shield
    assert held is not None
    assert (held.enabled, held.max_consecutive_tools, held.mode, held.states) == (True, budget, "consecutive", {})
    assert (held.fallback_state, held.initial_state, held.admission) == (None, None, "batch")


def test_a_workspace_can_switch_a_budget_on_and_lower_it() -> None:
    held = merged(shield(maxConsecutiveTools=9), workspace=shield(enabled=True, maxConsecutiveTools=4)).in_force()
    assert held.loop_shield is not None
    assert (held.loop_shield.enabled, held.loop_shield.max_consecutive_tools) == (True, 4)


def test_a_workspace_can_bring_a_budget_of_its_own() -> None:
    held = merged(workspace=shield(enabled=True, maxConsecutiveTools=4)).in_force()
    assert held.loop_shield is not None
    assert held.loop_shield.max_consecutive_tools == 4


def test_what_a_workspace_asks_for_and_cannot_get_does_not_lock_the_person_out() -> None:
    """A file in a repository must not make a session fail to open: what it breaks is ignored."""
    layers = merged(workspace=shield(enabled=True))
    assert layers.in_force().loop_shield is None
    value = reported(layers, "loopShield.enabled")
    assert (value.value, value.origin, [ignored.value for ignored in value.ignored]) == (False, "default", [True])
    assert "loopShield.maxConsecutiveTools makes no sense" in value.ignored[0].why


def test_a_workspace_cannot_take_a_fallback_its_budget() -> None:
    own = shield(enabled=True, maxConsecutiveTools=5, states=STATES, fallbackState="B")
    layers = merged(own, workspace=shield(maxConsecutiveTools=0, admission="call"))
    assert layers.in_force() == merged(own).in_force()
    assert [ignored.value for ignored in reported(layers, "loopShield.maxConsecutiveTools").ignored] == [0]


def test_what_the_person_set_makes_no_sense_whatever_the_workspace_says() -> None:
    layers = merged(shield(enabled=True, fallbackState="A"), workspace=shield(maxConsecutiveTools=5))
    with pytest.raises(SettingsError) as caught:
        layers.in_force()
    assert caught.value.name == "loopShield.maxConsecutiveTools"
