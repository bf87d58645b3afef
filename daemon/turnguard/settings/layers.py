"""Layers of settings, merged: defaults, what the client set, what the session set, and what a workspace may tighten.

A value present in any of the user's layers is explicit, even when it equals the default. A workspace's values come from
files that a repository can write, so they hold only where they are stricter than what the user's layers say.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from turnguard.core.thresholds import DEFAULT_MAX_TOOL_CALLS_PER_TURN
from turnguard_protocol.settings import (
    IgnoredValue,
    RepeatedFailuresMode,
    Settings,
    SettingsInForce,
    SettingsReport,
    SettingValue,
    TurnGuardKind,
)

Value = bool | int | str

DEFAULT = "default"
CLIENT = "client"
SESSION = "session"
WORKSPACE = "workspace"

FAILURE_MODES = ("off", "shadow", "warn", "enforce")
"""Modes of the repeated-failure guard, from mildest to strictest."""


class Layer(NamedTuple):
    """One source of values: what people call it, and what it set."""

    origin: str
    settings: Settings | None


class Held(NamedTuple):
    """A value in force and the layer it came from."""

    value: Value
    origin: str


def _tightens_cap(new: Value, held: Held) -> bool:
    """Any cap is stricter than none; a lower one is stricter than a higher one."""
    cap = int(held.value)
    return int(new) > 0 and (cap <= 0 or int(new) <= cap)


def _tightens_to_off(new: Value, held: Held) -> bool:
    return new is False and held.value is True


def _tightens_mode(new: Value, held: Held) -> bool:
    return FAILURE_MODES.index(str(new)) > FAILURE_MODES.index(str(held.value))


class Row(NamedTuple):
    """One setting: its dotted name on the wire, its default, and when a workspace's value is stricter (None: never)."""

    name: str
    section: str
    field: str
    default: Value
    tightens: Callable[[Value, Held], bool] | None


ROWS = (
    Row(
        "model.maxToolCallsPerTurn",
        "model",
        "max_tool_calls_per_turn",
        DEFAULT_MAX_TOOL_CALLS_PER_TURN,
        _tightens_cap,
    ),
    Row("model.skipLoopDetection", "model", "skip_loop_detection", True, _tightens_to_off),
    Row("turnguard.turnGuard", "turnguard", "turn_guard", "batch", None),
    Row("turnguard.repeatedFailures", "turnguard", "repeated_failures", "shadow", _tightens_mode),
)


class Merged:
    """What holds after all layers were merged, where it came from, and what was ignored."""

    def __init__(self, layers: Sequence[Layer], workspace: Settings | None = None) -> None:
        self.held: dict[str, Held] = {}
        self.ignored: dict[str, list[IgnoredValue]] = {}
        for row in ROWS:
            self.held[row.name] = Held(row.default, DEFAULT)
            for layer in layers:
                value = _value(layer.settings, row)
                if value is not None:
                    self.held[row.name] = Held(value, layer.origin)
            self._tighten(row, _value(workspace, row))

    def _tighten(self, row: Row, value: Value | None) -> None:
        held = self.held[row.name]
        if value is None or (value == held.value and held.origin != DEFAULT):
            return
        if row.tightens is not None and row.tightens(value, held):
            self.held[row.name] = Held(value, WORKSPACE)
        else:
            why = f"a workspace may only tighten, and {row.name} is {held.value!r} by {held.origin}"
            self.ignored[row.name] = [IgnoredValue(WORKSPACE, value, why)]

    def in_force(self) -> SettingsInForce:
        """The values as the guards read them."""
        cap, origin = self.held["model.maxToolCallsPerTurn"]
        return SettingsInForce(
            max_tool_calls_per_turn=int(cap) if int(cap) > 0 else None,
            is_cap_explicit=origin != DEFAULT,
            skip_loop_detection=bool(self.held["model.skipLoopDetection"].value),
            turn_guard=msgspec.convert(self.held["turnguard.turnGuard"].value, TurnGuardKind),
            repeated_failures=msgspec.convert(self.held["turnguard.repeatedFailures"].value, RepeatedFailuresMode),
        )

    def report(self) -> SettingsReport:
        """The values as a person reads them."""
        values = [SettingValue(name=name, value=held.value, origin=held.origin) for name, held in self.held.items()]
        for value in values:
            if value.name in self.ignored:
                value.ignored = self.ignored[value.name]
        return SettingsReport(values)


def _value(settings: Settings | None, row: Row) -> Value | None:
    section = None if settings is None else getattr(settings, row.section)
    return None if section is None else getattr(section, row.field)
