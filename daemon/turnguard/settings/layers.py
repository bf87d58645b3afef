"""Layers of settings, merged: defaults, what the client set, what the session set, and what a workspace may tighten.

A value present in any of the user's layers is explicit, even when it equals the default. A workspace's values come from
files that a repository can write, so they hold only where they are stricter than what the user's layers say.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from turnguard.core import thresholds
from turnguard.core.budget.errors import ConfigError
from turnguard.core.budget.guard import machine_of
from turnguard.core.rolling.config import resolve_loop_detection
from turnguard_protocol.settings import (
    IgnoredValue,
    LoopShieldInForce,
    Settings,
    SettingsInForce,
    SettingsReport,
    SettingValue,
)

Value = Any
"""A setting's value as JSON has it."""

DEFAULT = "default"
CLIENT = "client"
SESSION = "session"
WORKSPACE = "workspace"

Tightens = Literal["lower", "higher", "true", "false", "later", "cap", "never"]
"""When another value is stricter: a lower or higher number, this boolean, a word further on in the row's `words`, any
cap or a lower one; or nothing is.
"""

FAILURE_MODES = ("off", "shadow", "warn", "enforce")
ACTIONS = ("off", "warn", "halt")
ADMISSIONS = ("batch", "call")


class SettingsError(ValueError):
    """The layers together make no sense. `name` is the setting to correct."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


class Row(NamedTuple):
    """One setting: its dotted name on the wire, its default, and when a workspace's value is stricter."""

    name: str
    default: Value
    tightens: Tightens
    words: tuple[str, ...] = ()


ROWS = (
    Row("model.maxToolCallsPerTurn", None, "cap"),
    Row("model.skipLoopDetection", True, "false"),
    Row("tools.loopDetection.enabled", None, "true"),
    Row("tools.loopDetection.historySize", thresholds.DEFAULT_HISTORY_SIZE, "higher"),
    Row("tools.loopDetection.warningThreshold", thresholds.DEFAULT_WARNING_THRESHOLD, "lower"),
    Row("tools.loopDetection.criticalThreshold", thresholds.DEFAULT_CRITICAL_THRESHOLD, "lower"),
    Row("tools.loopDetection.unknownToolThreshold", thresholds.DEFAULT_UNKNOWN_TOOL_THRESHOLD, "lower"),
    Row(
        "tools.loopDetection.globalCircuitBreakerThreshold",
        thresholds.DEFAULT_GLOBAL_CIRCUIT_BREAKER_THRESHOLD,
        "lower",
    ),
    Row("tools.loopDetection.detectors.genericRepeat", True, "true"),
    Row("tools.loopDetection.detectors.knownPollNoProgress", True, "true"),
    Row("tools.loopDetection.detectors.pingPong", True, "true"),
    Row("tools.loopDetection.postCompactionGuard.windowSize", thresholds.DEFAULT_POST_COMPACTION_WINDOW_SIZE, "lower"),
    Row("agents.list", None, "never"),
    Row("loopShield.enabled", False, "true"),
    Row("loopShield.maxConsecutiveTools", None, "lower"),
    Row("loopShield.mode", "consecutive", "never"),
    Row("loopShield.fallbackState", None, "never"),
    Row("loopShield.initialState", None, "never"),
    Row("loopShield.states", None, "never"),
    Row("loopShield.admission", "batch", "later", ADMISSIONS),
    Row("turnguard.turnGuard", "batch", "never"),
    Row("turnguard.repeatedFailures", "shadow", "later", FAILURE_MODES),
    Row("turnguard.admission", "batch", "never"),
    Row("turnguard.maxBlocksPerTurn", thresholds.DEFAULT_MAX_BLOCKS_PER_TURN, "cap"),
    Row("turnguard.maxStepsPerTurn", None, "lower"),
    Row("turnguard.shadow", False, "false"),
    Row("turnguard.progress.action", "warn", "later", ACTIONS),
)
"""Every setting. The progress guard warns in the service; the faces that have no host to ask set another default."""

LOOP_DETECTION = "tools.loopDetection"


class Layer(NamedTuple):
    """One source of values: what people call it, and what it set."""

    origin: str
    settings: Settings | None


class Held(NamedTuple):
    """A value in force and the layer it came from."""

    value: Value
    origin: str


class Merged:
    """What holds after all layers were merged, where it came from, and what was ignored.

    `agent_id`: whose block of `agents.list` is laid over the global `tools.loopDetection`.
    """

    def __init__(
        self, layers: Sequence[Layer], workspace: Settings | None = None, *, agent_id: str | None = None
    ) -> None:
        self.held = {row.name: Held(row.default, DEFAULT) for row in ROWS}
        self.ignored: dict[str, list[IgnoredValue]] = {}
        self.agent_id = agent_id
        self._tightened: dict[str, Held] = {}
        given = [(layer.origin, _plain(layer.settings)) for layer in layers]
        from_workspace = _plain(workspace)
        for row in ROWS:
            for origin, values in given:
                value = _value(values, row.name)
                if value is not None:
                    self.held[row.name] = Held(value, origin)
            self._tighten(row, _value(from_workspace, row.name))
        self._loosen_what_makes_no_sense()

    def _tighten(self, row: Row, value: Value) -> None:
        held = self.held[row.name]
        if value is None or (value == held.value and held.origin != DEFAULT):
            return
        if _is_stricter(row, value, held.value):
            self._tightened[row.name] = held
            self.held[row.name] = Held(value, WORKSPACE)
        else:
            why = f"a workspace may only tighten, and {row.name} is {held.value!r} by {held.origin}"
            self.ignored[row.name] = [IgnoredValue(WORKSPACE, value, why)]

    def _loosen_what_makes_no_sense(self) -> None:
        """Ignores what a workspace says of loopShield when it cannot hold together: that must not stop a session."""
        tightened = [name for name in self._tightened if name.startswith("loopShield.")]
        if not tightened:
            return
        try:
            self._loop_shield()
        except SettingsError as error:
            for name in tightened:
                why = f"with the settings of the workspace {error.name} makes no sense: {error.message}"
                self.ignored[name] = [IgnoredValue(WORKSPACE, self.held[name].value, why)]
                self.held[name] = self._tightened[name]

    def in_force(self) -> SettingsInForce:
        """The values as the guards read them. Raises SettingsError when they cannot hold together."""
        cap = self._get("model.maxToolCallsPerTurn")
        soft_cap = thresholds.DEFAULT_MAX_TOOL_CALLS_PER_TURN if cap is None else cap
        return SettingsInForce(
            max_tool_calls_per_turn=soft_cap if soft_cap > 0 else None,
            is_cap_explicit=cap is not None,
            skip_loop_detection=self._get("model.skipLoopDetection"),
            turn_guard=self._get("turnguard.turnGuard"),
            repeated_failures=self._get("turnguard.repeatedFailures"),
            loop_detection=resolve_loop_detection(self._loop_detection(), self._agents_block()),
            loop_shield=self._loop_shield(),
            progress=self._get("turnguard.progress.action"),
            admission=self._get("turnguard.admission"),
            max_blocks_per_turn=self._get("turnguard.maxBlocksPerTurn"),
            max_steps_per_turn=self._get("turnguard.maxStepsPerTurn"),
            shadow=self._get("turnguard.shadow"),
        )

    def report(self) -> SettingsReport:
        """The values as a person reads them."""
        values = [SettingValue(name=name, value=held.value, origin=held.origin) for name, held in self.held.items()]
        for value in values:
            if value.name in self.ignored:
                value.ignored = self.ignored[value.name]
        return SettingsReport(values)

    def _get(self, name: str) -> Any:
        return self.held[name].value

    def _loop_detection(self) -> dict[str, Any]:
        """The global block as somebody set it; what is by default is left out, since an agent's block goes over it."""
        block: dict[str, Any] = {}
        for name, held in self.held.items():
            if name.startswith(f"{LOOP_DETECTION}.") and held.origin != DEFAULT:
                *sections, last = name.removeprefix(f"{LOOP_DETECTION}.").split(".")
                inner = block
                for section in sections:
                    inner = inner.setdefault(section, {})
                inner[last] = held.value
        return block

    def _agents_block(self) -> Value:
        for agent in self._get("agents.list") or ():
            if agent["id"] == self.agent_id:
                return _value(agent, LOOP_DETECTION)
        return None

    def _loop_shield(self) -> LoopShieldInForce | None:
        """The budget, None when there is nothing of it: neither is it switched on nor are there states."""
        states: dict[str, list[str]] = self._get("loopShield.states") or {}
        is_enabled, budget = self._get("loopShield.enabled"), self._get("loopShield.maxConsecutiveTools")
        if not is_enabled and not states:
            return None
        if is_enabled and budget is None:
            raise SettingsError("loopShield.maxConsecutiveTools", "Expected a number, since loopShield is enabled")
        shield = LoopShieldInForce(
            enabled=is_enabled,
            max_consecutive_tools=budget or 0 if is_enabled else 1,
            mode=self._get("loopShield.mode"),
            fallback_state=self._get("loopShield.fallbackState"),
            initial_state=self._get("loopShield.initialState"),
            states=states,
            admission=self._get("loopShield.admission"),
        )
        try:
            machine_of(shield)
        except ConfigError as error:
            raise SettingsError(error.setting, error.message) from None
        return shield


def _is_stricter(row: Row, value: Value, held: Value) -> bool:
    match row.tightens:
        case "lower":
            return held is None or value < held
        case "higher":
            return value > held
        case "true":
            return value is True and held is not True
        case "false":
            return value is False and held is not False
        case "later":
            return row.words.index(value) > row.words.index(held)
        case "cap":
            limit = thresholds.DEFAULT_MAX_TOOL_CALLS_PER_TURN if held is None else held
            return value > 0 and (limit <= 0 or value <= limit)
        case "never":
            return False


def _plain(settings: Settings | None) -> Mapping[str, Value]:
    return {} if settings is None else cast("Mapping[str, Value]", msgspec.to_builtins(settings))


def _value(values: Mapping[str, Value], name: str) -> Value:
    """The value under a dotted name; None when some part of the way is not there."""
    found: Value = values
    for part in name.split("."):
        if found is None:
            return None
        found = found.get(part)
    return found
