"""Settings: what a person may set, and what is in force.

`Settings` is the form in which a client sends them: every field may be absent, and `null` means the same as absent,
since editors fill what nobody set with nulls. An unknown name is an error.
"""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from turnguard_protocol.verdicts import Answer

TurnGuardKind = Literal["batch", "stream"]
RepeatedFailuresMode = Literal["off", "shadow", "warn", "enforce"]
ShieldMode = Literal["consecutive", "repeated"]
ProgressAction = Literal["off", "warn", "halt"]


class Section(Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The base of every part of a settings object."""


class ModelSettings(Section, frozen=True):
    """Qwen Code's names.

    `max_tool_calls_per_turn`: a hard cap on the tool calls of a turn; 0 or less: no cap; not set: the adaptive default.
    `skip_loop_detection`: leave out the detectors that are prone to false alarms.
    """

    max_tool_calls_per_turn: int | None = None
    skip_loop_detection: bool | None = None


class TurnguardSettings(Section, frozen=True):
    """Our own names.

    `turn_guard`: which of Qwen Code's two turn guards runs, the daemon's mirror (`batch`) or the core client's
    (`stream`). `repeated_failures`: what the repeated-failure guard does, as in Qwen Code's daemon.
    """

    turn_guard: TurnGuardKind | None = None
    repeated_failures: RepeatedFailuresMode | None = None


class Settings(Section, frozen=True):
    """All settings, as a client sends them."""

    model: ModelSettings | None = None
    turnguard: TurnguardSettings | None = None


class LoopDetectionInForce(Struct, frozen=True, gc=False):
    """OpenClaw's `tools.loopDetection` after merging, defaulting and clamping. `enabled` None: nobody said."""

    enabled: bool | None
    history_size: int
    warning_threshold: int
    critical_threshold: int
    unknown_tool_threshold: int
    global_circuit_breaker_threshold: int
    generic_repeat: bool
    known_poll_no_progress: bool
    ping_pong: bool
    post_compaction_window_size: int


class LoopShieldInForce(Struct, frozen=True, gc=False):
    """loopShield's settings. `states`: the tools of each state, in order; empty: a plain budget without states."""

    enabled: bool
    max_consecutive_tools: int
    mode: ShieldMode
    fallback_state: str | None
    initial_state: str | None
    states: dict[str, list[str]]


class SettingsInForce(Struct, frozen=True, gc=False):
    """What holds for a session after all layers were merged; what the guards read.

    `max_tool_calls_per_turn` None: no cap. `is_cap_explicit`: somebody set the cap, so it is a hard one.
    """

    max_tool_calls_per_turn: int | None
    is_cap_explicit: bool
    skip_loop_detection: bool
    turn_guard: TurnGuardKind
    repeated_failures: RepeatedFailuresMode
    loop_detection: LoopDetectionInForce | None = None
    loop_shield: LoopShieldInForce | None = None
    progress: ProgressAction = "off"


class IgnoredValue(Answer):
    """A value that some layer gave and that does not hold, and why."""

    origin: str
    value: bool | int | str
    why: str


class SettingValue(Answer, kw_only=True):
    """One setting: its dotted name, the value in force and the layer it came from."""

    name: str
    value: bool | int | str | None
    origin: str
    ignored: list[IgnoredValue] | UnsetType = UNSET


class SettingsReport(Answer):
    """The answer to `turnguard/settings`."""

    values: list[SettingValue]
