"""The table of settings: every one of them, its default, and what makes a value of it stricter.

Types and bounds are those of `turnguard_protocol.settings.Settings`, found by the dotted name. From the two come the
JSON Schema of settings files, the reference page and the contribution of the VS Code extension.
"""

import re
from typing import Any, Literal, NamedTuple

import msgspec

from turnguard.core import thresholds
from turnguard_protocol.settings import Settings

Value = Any
"""A setting's value as JSON has it."""

Face = Literal["serve", "acp", "exec", "hook", "replay"]
"""Which command guards: some defaults differ, since not every face has a host that was asked for its opinion."""

FACES: tuple[Face, ...] = ("serve", "acp", "exec", "hook", "replay")

Tightens = Literal["lower", "higher", "true", "false", "later", "cap", "never"]
"""When another value is stricter: a lower or higher number, this boolean, a word further on in the row's `words`, any
cap or a lower one; or nothing is.
"""

FAILURE_MODES = ("off", "shadow", "warn", "enforce")
ACTIONS = ("off", "warn", "halt")
ADMISSIONS = ("batch", "call")

ENVIRONMENT_PREFIX = "TURNGUARD_"
OUR_SECTION = "turnguard."
"""What names of our own begin with; their variables say it once."""


class Row(NamedTuple):
    """One setting.

    `name`: dotted, as on the wire. `default`: None where nothing is set. `tightens`: when a value is stricter than
    another. `description`: for people, without a full stop. `words`: of a setting that takes one of several words,
    these from mildest to strictest. `by_face`: defaults of faces that differ.
    """

    name: str
    default: Value
    tightens: Tightens
    description: str
    words: tuple[str, ...] = ()
    by_face: tuple[tuple[Face, Value], ...] = ()

    def default_for(self, face: Face) -> Value:
        """What holds in a face while nobody sets it."""
        return dict(self.by_face).get(face, self.default)

    @property
    def variable(self) -> str:
        """The environment variable that sets it: `TURNGUARD_MODEL_MAX_TOOL_CALLS_PER_TURN`, `TURNGUARD_SHADOW`."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name.removeprefix(OUR_SECTION))
        return ENVIRONMENT_PREFIX + words.replace(".", "_").upper()


ROWS = (
    Row(
        "model.maxToolCallsPerTurn",
        None,
        "cap",
        "a hard cap on the tool calls of a turn, also at 100; 0 or less: no cap; "
        "not set: the adaptive cap, soft at 100",
    ),
    Row("model.skipLoopDetection", True, "false", "`false` adds the checks that are prone to false alarms"),
    Row(
        "tools.loopDetection.enabled",
        None,
        "true",
        "`true`: loop detection is on; `false`: the post-compaction guard is off too",
    ),
    Row(
        "tools.loopDetection.historySize",
        thresholds.DEFAULT_HISTORY_SIZE,
        "higher",
        "latest calls that are looked at",
    ),
    Row(
        "tools.loopDetection.warningThreshold",
        thresholds.DEFAULT_WARNING_THRESHOLD,
        "lower",
        "after so many equal calls the next one is warned of",
    ),
    Row(
        "tools.loopDetection.criticalThreshold",
        thresholds.DEFAULT_CRITICAL_THRESHOLD,
        "lower",
        "after so many equal calls with equal results the next one is refused; always above the warning",
    ),
    Row(
        "tools.loopDetection.unknownToolThreshold",
        thresholds.DEFAULT_UNKNOWN_TOOL_THRESHOLD,
        "lower",
        "calls in a row of a tool that does not exist",
    ),
    Row(
        "tools.loopDetection.globalCircuitBreakerThreshold",
        thresholds.DEFAULT_GLOBAL_CIRCUIT_BREAKER_THRESHOLD,
        "lower",
        "equal results of one call, whatever the detectors say; always above critical",
    ),
    Row("tools.loopDetection.detectors.genericRepeat", True, "true", "looks for one call over and over"),
    Row("tools.loopDetection.detectors.knownPollNoProgress", True, "true", "looks for polls that show nothing new"),
    Row("tools.loopDetection.detectors.pingPong", True, "true", "looks for two calls that alternate"),
    Row(
        "tools.loopDetection.postCompactionGuard.windowSize",
        thresholds.DEFAULT_POST_COMPACTION_WINDOW_SIZE,
        "lower",
        "equal results after a compaction that end the turn",
    ),
    Row(
        "agents.list",
        None,
        "never",
        '`[{"id", "tools": {"loopDetection"}}]`: what holds for one `agentId` over the global block',
    ),
    Row("loopShield.enabled", False, "true", "needs `maxConsecutiveTools`"),
    Row(
        "loopShield.maxConsecutiveTools",
        None,
        "lower",
        "the budget: tool calls without a step of words only, or a move, between them",
    ),
    Row(
        "loopShield.mode",
        "consecutive",
        "never",
        '`"repeated"` counts only calls of the same tool in a row; each call needs a name then',
    ),
    Row(
        "loopShield.fallbackState",
        None,
        "never",
        "the state to move to when the budget is used up; not set: no tools",
    ),
    Row("loopShield.initialState", None, "never", "the first of `states` where it is not set"),
    Row("loopShield.states", None, "never", "`{name: [tools]}`; without states it is a plain budget"),
    Row(
        "loopShield.admission",
        "batch",
        "later",
        '`"call"`: of a batch, the calls that still fit run; `"batch"`: all of it, and the step after it gets no tools',
        words=ADMISSIONS,
    ),
    Row(
        "turnguard.turnGuard",
        "batch",
        "never",
        'whose turn guard runs: `"batch"`, of Qwen Code\'s daemon, or `"stream"`, of its core client',
    ),
    Row(
        "turnguard.repeatedFailures",
        "shadow",
        "later",
        '`"off"`, `"shadow"` (only reported), `"warn"` or `"enforce"`',
        words=FAILURE_MODES,
    ),
    Row(
        "turnguard.admission",
        "batch",
        "never",
        '`"call"`: of a batch that crosses the cap, the calls that still fit run',
    ),
    Row(
        "turnguard.maxBlocksPerTurn",
        thresholds.DEFAULT_MAX_BLOCKS_PER_TURN,
        "cap",
        "batches of which something was refused that end a turn; 0: never",
    ),
    Row("turnguard.maxStepsPerTurn", None, "lower", "model responses a turn may take"),
    Row("turnguard.shadow", False, "false", "`true`: report everything, stop nothing"),
    Row(
        "turnguard.progress.action",
        "warn",
        "later",
        'what the progress guard does: `"off"`, `"warn"` or `"halt"`',
        words=ACTIONS,
        by_face=(("acp", "halt"), ("exec", "halt"), ("hook", "halt"), ("replay", "halt")),
    ),
)
"""Every setting, in the order in which people read them."""

BY_NAME = {row.name: row for row in ROWS}


def type_of(name: str) -> Any:
    """The type of a setting's value, with its bounds, as `Settings` declares it; None is part of it."""
    kind: Any = Settings
    for part in name.split("."):
        sections = [each for each in getattr(kind, "__args__", (kind,)) if isinstance(each, type)]
        section = next(each for each in sections if issubclass(each, msgspec.Struct))
        kind = next(field.type for field in msgspec.structs.fields(section) if field.encode_name == part)
    return kind


def is_stricter(row: Row, value: Value, held: Value) -> bool:
    """Whether a value moves a setting, which stands at `held`, the way that its row calls stricter."""
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
