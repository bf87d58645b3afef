"""`tools.loopDetection`: what holds after an agent's own block was laid over the global one, and what a block may say.

Running is tolerant and validation is strict, as upstream: a value that is no good takes its default when it is used,
and is complained of when somebody writes it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from turnguard.core import thresholds
from turnguard_protocol.settings import LoopDetectionInForce, SettingsInForce

Block = Mapping[str, object]

SECTION = "tools.loopDetection"
DETECTORS = "detectors"
POST_COMPACTION_GUARD = "postCompactionGuard"
NOTHING: Block = {}

MAX_SAFE_INTEGER = 2**53 - 1


def resolve_loop_detection(global_block: object = None, agent_block: object = None) -> LoopDetectionInForce:
    """What holds under a global block and an agent's own, each as JSON gives it; None: there is none.

    Afterwards warning < critical < circuit breaker, whatever was written: a threshold that is not above the one below
    it is put one above it.
    """
    block = merge(_object(global_block), _object(agent_block))
    detectors, guard = _object(block.get(DETECTORS)), _object(block.get(POST_COMPACTION_GUARD))
    warning = _count(block, "warningThreshold", thresholds.DEFAULT_WARNING_THRESHOLD)
    critical = _count(block, "criticalThreshold", thresholds.DEFAULT_CRITICAL_THRESHOLD)
    breaker = _count(block, "globalCircuitBreakerThreshold", thresholds.DEFAULT_GLOBAL_CIRCUIT_BREAKER_THRESHOLD)
    critical = max(critical, warning + 1)
    return LoopDetectionInForce(
        enabled=_switch(block, "enabled"),
        history_size=_count(block, "historySize", thresholds.DEFAULT_HISTORY_SIZE),
        warning_threshold=warning,
        critical_threshold=critical,
        unknown_tool_threshold=_count(block, "unknownToolThreshold", thresholds.DEFAULT_UNKNOWN_TOOL_THRESHOLD),
        global_circuit_breaker_threshold=max(breaker, critical + 1),
        generic_repeat=_switch(detectors, "genericRepeat") is not False,
        known_poll_no_progress=_switch(detectors, "knownPollNoProgress") is not False,
        ping_pong=_switch(detectors, "pingPong") is not False,
        post_compaction_window_size=_count(guard, "windowSize", thresholds.DEFAULT_POST_COMPACTION_WINDOW_SIZE),
    )


def limits_of(settings: SettingsInForce) -> LoopDetectionInForce:
    """What holds of loop detection under all settings."""
    return settings.loop_detection or NOTHING_SET


def merge(global_block: Block, agent_block: Block) -> Block:
    """The agent's keys over the global ones; the two inner blocks key by key."""
    inner = {
        name: {**_object(global_block.get(name)), **_object(agent_block.get(name))}
        for name in (DETECTORS, POST_COMPACTION_GUARD)
    }
    return {**global_block, **agent_block, **inner}


def _object(value: object) -> Block:
    return cast("Block", value) if isinstance(value, Mapping) else NOTHING


def _count(block: Block, name: str, default: int) -> int:
    value = block.get(name)
    return int(cast("float", value)) if is_integer(value) and cast("float", value) > 0 else default


def _switch(block: Block, name: str) -> bool | None:
    value = block.get(name)
    return value if isinstance(value, bool) else None


def is_integer(value: object) -> bool:
    """Whether a JSON value is a whole number; 5.0 is one, true is none."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


NOTHING_SET = resolve_loop_detection()
"""What holds where nobody set anything."""


# --- validation -------------------------------------------------------------------------------------------------------


def is_positive_safe_integer(value: object) -> bool:
    """Whether a JSON value may stand for a count."""
    return is_integer(value) and 0 < cast("float", value) <= MAX_SAFE_INTEGER


def is_switch(value: object) -> bool:
    """Whether a JSON value is true or false."""
    return isinstance(value, bool)


Fields = Mapping[str, Callable[[object], bool]]

FIELDS: Fields = {
    "enabled": is_switch,
    **dict.fromkeys(
        (
            "historySize",
            "warningThreshold",
            "criticalThreshold",
            "unknownToolThreshold",
            "globalCircuitBreakerThreshold",
        ),
        is_positive_safe_integer,
    ),
}
INNER_FIELDS: Mapping[str, Fields] = {
    DETECTORS: dict.fromkeys(("genericRepeat", "knownPollNoProgress", "pingPong"), is_switch),
    POST_COMPACTION_GUARD: {"windowSize": is_positive_safe_integer},
}

NO_INNER_FIELDS: Mapping[str, Fields] = {}

ORDERED = (
    ("warningThreshold", "criticalThreshold"),
    ("criticalThreshold", "globalCircuitBreakerThreshold"),
)
"""Of each pair, where both are given, the first must be lower."""


def validate_loop_detection(block: object) -> list[str]:
    """The dotted paths of what is wrong with a block, sorted; an unknown key is a complaint of the object that has it.

    The path of the block itself is empty. The order of thresholds is looked at only in a block that is right otherwise,
    and only among what it gives; the complaint is of the higher one.
    """
    wrong = set(_misfits(block, "", FIELDS, INNER_FIELDS))
    if not wrong:
        given = _object(block)
        wrong = {
            high
            for low, high in ORDERED
            if low in given and high in given and cast("float", given[low]) >= cast("float", given[high])
        }
    return sorted(wrong)


def _misfits(value: object, path: str, fields: Fields, inner: Mapping[str, Fields] = NO_INNER_FIELDS) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield path
        return
    for name, member in cast("Block", value).items():
        member_path = f"{path}.{name}" if path else name
        if name in inner:
            yield from _misfits(member, member_path, inner[name])
        elif name not in fields:
            yield path
        elif not fields[name](member):
            yield member_path
