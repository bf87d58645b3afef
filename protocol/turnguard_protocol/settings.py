"""Settings: what a person may set, and what is in force.

`Settings` is the form in which a client sends them: every field may be absent, and `null` means the same as absent,
since editors fill what nobody set with nulls. An unknown name is an error.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from turnguard_protocol.verdicts import Answer

TurnGuardKind = Literal["batch", "stream"]
RepeatedFailuresMode = Literal["off", "shadow", "warn", "enforce"]
Admission = Literal["batch", "call"]
ShieldMode = Literal["consecutive", "repeated"]
ProgressAction = Literal["off", "warn", "halt"]

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every client can tell from its neighbours: JavaScript's."""

Integer = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
NotNegative = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1)]


class Section(Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True, frozen=True):
    """The base of every part of a settings object."""


class ModelSettings(Section, frozen=True):
    """Qwen Code's names.

    `max_tool_calls_per_turn`: a hard cap on the tool calls of a turn; 0 or less: no cap; not set: the adaptive default.
    `skip_loop_detection`: leave out the detectors that are prone to false alarms.
    """

    max_tool_calls_per_turn: Integer | None = None
    skip_loop_detection: bool | None = None


class DetectorSettings(Section, frozen=True):
    """OpenClaw's `tools.loopDetection.detectors`: which patterns are looked for."""

    generic_repeat: bool | None = None
    known_poll_no_progress: bool | None = None
    ping_pong: bool | None = None


class PostCompactionGuardSettings(Section, frozen=True):
    """OpenClaw's `tools.loopDetection.postCompactionGuard`. `window_size`: equal calls after a compaction that halt."""

    window_size: Positive | None = None


class LoopDetectionSettings(Section, frozen=True):
    """OpenClaw's `tools.loopDetection`.

    Raises ValueError when thresholds that one block gives are not in the order warning < critical < circuit breaker.
    """

    enabled: bool | None = None
    history_size: Positive | None = None
    warning_threshold: Positive | None = None
    critical_threshold: Positive | None = None
    unknown_tool_threshold: Positive | None = None
    global_circuit_breaker_threshold: Positive | None = None
    detectors: DetectorSettings | None = None
    post_compaction_guard: PostCompactionGuardSettings | None = None

    def __post_init__(self) -> None:
        critical = self.critical_threshold
        if critical is None:
            return
        if self.warning_threshold is not None and self.warning_threshold >= critical:
            raise ValueError("Expected `warningThreshold` < `criticalThreshold`")
        if self.global_circuit_breaker_threshold is not None and critical >= self.global_circuit_breaker_threshold:
            raise ValueError("Expected `criticalThreshold` < `globalCircuitBreakerThreshold`")


class ToolsSettings(Section, frozen=True):
    """OpenClaw's `tools`."""

    loop_detection: LoopDetectionSettings | None = None


class AgentSettings(Section, frozen=True):
    """One agent of OpenClaw's `agents.list`: settings that hold in sessions of this `agentId` over the global ones."""

    id: Name
    tools: ToolsSettings | None = None


AgentList = list[AgentSettings]


class AgentsSettings(Section, frozen=True):
    """OpenClaw's `agents`."""

    list: AgentList | None = None


class LoopShieldSettings(Section, frozen=True):
    """loopShield's names, and `admission`, ours: whether a batch may overshoot the budget or each call must fit.

    `states`: the tools of each state; without states it is a plain budget.
    """

    enabled: bool | None = None
    max_consecutive_tools: NotNegative | None = None
    mode: ShieldMode | None = None
    fallback_state: Name | None = None
    initial_state: Name | None = None
    states: dict[Name, list[str]] | None = None
    admission: Admission | None = None


class ProgressSettings(Section, frozen=True):
    """The progress guard. `action`: what it does when a turn shows nothing new any more."""

    action: ProgressAction | None = None


class TurnguardSettings(Section, frozen=True):
    """Our own names.

    `turn_guard`: which of Qwen Code's two turn guards runs, the daemon's mirror (`batch`) or the core client's
    (`stream`). `repeated_failures`: what the repeated-failure guard does, as in Qwen Code's daemon. `admission`:
    whether a batch that crosses the cap is refused whole or the calls that still fit run. `max_blocks_per_turn`: a turn
    whose batches were blocked so often ends; 0: never. `max_steps_per_turn`: model responses a turn. `shadow`: report
    everything and stop nothing.
    """

    turn_guard: TurnGuardKind | None = None
    repeated_failures: RepeatedFailuresMode | None = None
    admission: Admission | None = None
    max_blocks_per_turn: NotNegative | None = None
    max_steps_per_turn: Positive | None = None
    shadow: bool | None = None
    progress: ProgressSettings | None = None


class Settings(Section, frozen=True):
    """All settings, as a client sends them."""

    model: ModelSettings | None = None
    tools: ToolsSettings | None = None
    agents: AgentsSettings | None = None
    loop_shield: LoopShieldSettings | None = None
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
    admission: Admission = "batch"


class SettingsInForce(Struct, frozen=True, gc=False):
    """What holds for a session after all layers were merged; what the guards read.

    `max_tool_calls_per_turn` None: no cap. `is_cap_explicit`: somebody set the cap, so it is a hard one.
    `max_steps_per_turn` None: any number. `places`: the file that set a setting, by its name, where a file did.
    """

    max_tool_calls_per_turn: int | None
    is_cap_explicit: bool
    skip_loop_detection: bool
    turn_guard: TurnGuardKind
    repeated_failures: RepeatedFailuresMode
    loop_detection: LoopDetectionInForce | None = None
    loop_shield: LoopShieldInForce | None = None
    progress: ProgressAction = "off"
    admission: Admission = "batch"
    max_blocks_per_turn: int = 0
    max_steps_per_turn: int | None = None
    shadow: bool = False
    places: dict[str, str] = {}


class IgnoredValue(Answer):
    """A value that some layer gave and that does not hold, and why."""

    origin: str
    value: Any
    why: str


class SettingValue(Answer, kw_only=True):
    """One setting: its dotted name, the value in force, the layer it came from, and the file that is that layer."""

    name: str
    value: Any
    origin: str
    source: str | UnsetType = UNSET
    ignored: list[IgnoredValue] | UnsetType = UNSET


class SettingsProblem(Answer, kw_only=True):
    """Something in a settings file, a variable or a command line that could not be taken; the rest of it holds.

    `origin`: which layer. `source`: the file's path, or the name of the variable or option. `path`: where in it, as
    `$.model.maxToolCallsPerTurn`. `value`: what stands there, where that is short. `message`: what is wrong and what
    is allowed.
    """

    origin: str
    source: str
    line: int | UnsetType = UNSET
    path: str
    value: Any = UNSET
    message: str


class SettingsReport(Answer):
    """The answer to `turnguard/settings`. `problems`: what the sources of settings hold that could not be taken."""

    values: list[SettingValue]
    problems: list[SettingsProblem] | UnsetType = UNSET
