"""Layers of settings, merged: what each source set over the one below it, and what may only tighten on top of it all.

A value present in any layer is explicit, even when it equals the default. What a repository or an agent can write, a
project's file that nobody trusted and the settings that an editor read from a workspace, holds only where it is
stricter than what the person's own layers say.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from turnguard.core.budget.errors import ConfigError
from turnguard.core.budget.guard import machine_of
from turnguard.core.rolling.config import resolve_loop_detection
from turnguard.core.thresholds import DEFAULT_MAX_TOOL_CALLS_PER_TURN
from turnguard.settings.problems import brief
from turnguard.settings.table import BY_NAME, ROWS, Face, Value, is_stricter
from turnguard_protocol.settings import (
    IgnoredValue,
    LoopShieldInForce,
    Settings,
    SettingsInForce,
    SettingsReport,
    SettingValue,
)

DEFAULT = "default"
USER = "user"
TRUSTED_PROJECT = "trusted project"
ENVIRONMENT = "environment"
COMMAND_LINE = "command line"
CLIENT = "client"
PROJECT = "project"
WORKSPACE = "workspace"

UNASKED = frozenset({USER, TRUSTED_PROJECT, ENVIRONMENT, COMMAND_LINE})
"""Origins whose mistakes nobody can be answered with."""

FROM_FILES = frozenset({USER, TRUSTED_PROJECT, PROJECT, WORKSPACE})
"""Origins that a change of a file, or what a file says, can be behind."""

LOOP_DETECTION = "tools.loopDetection"
LOOP_SHIELD = "loopShield."
AGENTS = "agents.list"

OF_AGENTS = f" ({AGENTS})"
"""What the origin of a value ends with that comes from an agent's block, which is laid over all layers."""

ORDERED_THRESHOLDS = ("warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold")
"""Each is above the one before it."""


def is_from_file(origin: str) -> bool:
    """Whether a value of this origin is one that a file can change."""
    return origin.removesuffix(OF_AGENTS) in FROM_FILES


class SettingsError(ValueError):
    """The layers together make no sense. `name` is the setting to correct."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Layer(NamedTuple):
    """One source of values: what people call it, what it set by the names of settings, and the file that it is."""

    origin: str
    values: Mapping[str, Value]
    source: str = ""


class Held(NamedTuple):
    """A value in force, the layer it came from, and the file that is that layer."""

    value: Value
    origin: str
    source: str = ""


def values_of(settings: Settings | None) -> dict[str, Value]:
    """What a settings object sets, by name; null is not set."""
    sections: Value = {} if settings is None else msgspec.to_builtins(settings)
    values = {row.name: _value(sections, row.name) for row in ROWS}
    return {name: value for name, value in values.items() if value is not None}


def combined(lower: Mapping[str, Held], layer: Layer) -> dict[str, Held]:
    """A layer over what is below it."""
    upper = {name: Held(value, layer.origin, layer.source) for name, value in layer.values.items()}
    return {**lower, **upper}


class Merged:
    """What holds after all layers were merged, where it came from, and what was ignored.

    `layers` are a person's own, low to high; each of `tightening` may only tighten what those before it say.
    `agent_id`: whose block of `agents.list` is laid over the global `tools.loopDetection`. `own` is what holds without
    `tightening`, `held` what holds with it. `error`: what made no sense in `layers` together; what others than a client
    say of it is ignored then.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        tightening: Sequence[Layer] = (),
        *,
        agent_id: str | None = None,
        face: Face = "serve",
    ) -> None:
        self.ignored: dict[str, list[IgnoredValue]] = {}
        self.own = self._merge(layers, agent_id, face)
        self.error = _shield_error(self.own)
        if self.error is not None:
            self.own = self._merge(self._without_shields(layers), agent_id, face)
        self.held = dict(self.own)
        for layer in tightening:
            self._tighten(layer)
        _keep_in_order(self.own)
        for name, held in _keep_in_order(self.held).items():
            why = f"it is always above the threshold before it: {self.held[name].value} holds"
            self.ignored.setdefault(name, []).append(IgnoredValue(held.origin, held.value, why))

    def report(self) -> SettingsReport:
        """The values as a person reads them."""
        values: list[SettingValue] = []
        for name, held in self.held.items():
            value = SettingValue(name=name, value=held.value, origin=held.origin)
            if held.source:
                value.source = held.source
            if name in self.ignored:
                value.ignored = self.ignored[name]
            values.append(value)
        return SettingsReport(values)

    def in_force(self) -> SettingsInForce:
        """The values as the guards read them. Raises SettingsError when they cannot hold together."""
        return in_force(self.held)

    def _merge(self, layers: Iterable[Layer], agent_id: str | None, face: Face) -> dict[str, Held]:
        held = {row.name: Held(row.default_for(face), DEFAULT) for row in ROWS}
        for layer in layers:
            held = combined(held, layer)
        agents = held[AGENTS]
        agent = next((each for each in agents.value or () if each["id"] == agent_id), None)
        if agent is None:
            return held
        values = values_of(msgspec.convert({"tools": agent.get("tools")}, Settings))
        return combined(held, Layer(f"{agents.origin}{OF_AGENTS}", values, agents.source))

    def _without_shields(self, layers: Iterable[Layer]) -> list[Layer]:
        """The layers without what any but a client says of loopShield: what cannot hold must not stop a session."""
        kept: list[Layer] = []
        for layer in layers:
            dropped = {name for name in layer.values if layer.origin in UNASKED and name.startswith(LOOP_SHIELD)}
            self._ignore_together(dropped, layer, self.own)
            kept.append(layer._replace(values={name: layer.values[name] for name in layer.values.keys() - dropped}))
        return kept

    def _tighten(self, layer: Layer) -> None:
        before = dict(self.held)
        tightened: set[str] = set()
        for name, value in layer.values.items():
            held = self.held[name]
            if value == held.value:
                continue
            if is_stricter(BY_NAME[name], value, held.value):
                self.held[name] = Held(value, layer.origin, layer.source)
                tightened.add(name)
            else:
                stands = f"is {brief(held.value)}" if held.value is not None else "is not set"
                why = f"a {layer.origin} may only tighten, and {name} {stands} ({held.origin})"
                self.ignored.setdefault(name, []).append(IgnoredValue(layer.origin, value, why))
        shields = {name for name in tightened if name.startswith(LOOP_SHIELD)}
        if shields and _shield_error(self.held) is not None:
            self._ignore_together(shields, layer, self.held)
            for name in shields:
                self.held[name] = before[name]

    def _ignore_together(self, names: Iterable[str], layer: Layer, held: Mapping[str, Held]) -> None:
        error = _shield_error(held)
        if error is not None:
            for name in names:
                why = f"with it {error.name} makes no sense: {error.message}"
                self.ignored.setdefault(name, []).append(IgnoredValue(layer.origin, layer.values[name], why))


def in_force(held: Mapping[str, Held]) -> SettingsInForce:
    """Values as the guards read them. Raises SettingsError when they cannot hold together."""
    cap = held["model.maxToolCallsPerTurn"].value
    soft_cap = DEFAULT_MAX_TOOL_CALLS_PER_TURN if cap is None else cap
    return SettingsInForce(
        max_tool_calls_per_turn=soft_cap if soft_cap > 0 else None,
        is_cap_explicit=cap is not None,
        skip_loop_detection=held["model.skipLoopDetection"].value,
        turn_guard=held["turnguard.turnGuard"].value,
        repeated_failures=held["turnguard.repeatedFailures"].value,
        loop_detection=resolve_loop_detection(_loop_detection(held)),
        loop_shield=_loop_shield(held),
        progress=held["turnguard.progress.action"].value,
        admission=held["turnguard.admission"].value,
        max_blocks_per_turn=held["turnguard.maxBlocksPerTurn"].value,
        max_steps_per_turn=held["turnguard.maxStepsPerTurn"].value,
        shadow=held["turnguard.shadow"].value,
        places={name: each.source for name, each in held.items() if each.source},
    )


def _loop_detection(held: Mapping[str, Held]) -> dict[str, Any]:
    """OpenClaw's block as somebody set it, without what is by default."""
    block: dict[str, Any] = {}
    for name, each in held.items():
        if name.startswith(f"{LOOP_DETECTION}.") and each.origin != DEFAULT:
            *sections, last = name.removeprefix(f"{LOOP_DETECTION}.").split(".")
            inner = block
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[last] = each.value
    return block


def _keep_in_order(held: dict[str, Held]) -> dict[str, Held]:
    """Puts thresholds that are not above the one before them one above it, as OpenClaw does; those that were not."""
    misordered: dict[str, Held] = {}
    before = 0
    for threshold in ORDERED_THRESHOLDS:
        name = f"{LOOP_DETECTION}.{threshold}"
        each = held[name]
        if each.value <= before:
            misordered[name] = each
            held[name] = each._replace(value=before + 1)
        before = held[name].value
    return misordered


def _shield_error(held: Mapping[str, Held]) -> SettingsError | None:
    try:
        _loop_shield(held)
    except SettingsError as error:
        return error
    return None


def _loop_shield(held: Mapping[str, Held]) -> LoopShieldInForce | None:
    """The budget, None when there is nothing of it: neither is it switched on nor are there states."""
    values = {name.removeprefix(LOOP_SHIELD): each.value for name, each in held.items() if name.startswith(LOOP_SHIELD)}
    states: dict[str, list[str]] = values["states"] or {}
    is_enabled, budget = values["enabled"], values["maxConsecutiveTools"]
    if not is_enabled and not states:
        return None
    if is_enabled and budget is None:
        raise SettingsError("loopShield.maxConsecutiveTools", "Expected a number, since loopShield is enabled")
    shield = LoopShieldInForce(
        enabled=is_enabled,
        max_consecutive_tools=budget or 0 if is_enabled else 1,
        mode=values["mode"],
        fallback_state=values["fallbackState"],
        initial_state=values["initialState"],
        states=states,
        admission=values["admission"],
    )
    try:
        machine_of(shield)
    except ConfigError as error:
        raise SettingsError(error.setting, error.message) from None
    return shield


def _value(values: Value, name: str) -> Value:
    """The value under a dotted name; None when some part of the way is not there."""
    found: Value = values
    for part in name.split("."):
        if found is None:
            return None
        found = cast("Mapping[str, Value]", found).get(part)
    return found
