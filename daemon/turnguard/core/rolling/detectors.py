"""The five detectors, in the order in which they are asked; the first that finds a loop decides.

    detector                  counts                                            critical       warning
    unknown_tool_repeat       the tool was not available, in a row              unknown tool   -
    global_circuit_breaker    the call had one outcome, in a row                breaker        -
    known_poll_no_progress    the same, of a poll                               critical       warning
    ping_pong                 the call and another took turns; critical only    critical       warning
                              if neither made progress
    generic_repeat            of no poll: as the breaker; as a warning how      critical       warning
                              often it is in the history

The first two obey no switch. A poll never reaches the last one. Because a ping-pong warning comes before it too, two
calls that take turns, one of them with ever new outcomes, are only warned about until the breaker.
"""

from collections.abc import Callable

from msgspec import Struct

from turnguard.core.rolling import evidence
from turnguard.core.rolling.evidence import Alternation, History, Streak
from turnguard.core.turn.counter import CountedKey
from turnguard_protocol.settings import LoopDetectionInForce

UNKNOWN_TOOL_REPEAT = "unknown_tool_repeat"
GLOBAL_CIRCUIT_BREAKER = "global_circuit_breaker"
KNOWN_POLL_NO_PROGRESS = "known_poll_no_progress"
PING_PONG = "ping_pong"
GENERIC_REPEAT = "generic_repeat"


class Loop(Struct, frozen=True, gc=False):
    """What a detector found. `setting` is the threshold's name; `about` is what a warning is counted by."""

    loop_type: str
    is_critical: bool
    count: int
    threshold: int
    setting: str
    paired_tool: str | None = None
    about: tuple[object, ...] = ()


class Seen(Struct, frozen=True, gc=False):
    """The evidence about a call before it runs."""

    tool: str
    args: CountedKey
    is_poll: bool
    unknown_streak: int
    streak: Streak
    recent_count: int
    alternation: Alternation | None


Detector = Callable[[Seen, LoopDetectionInForce], Loop | None]


def detect(history: History, tool: str, args: CountedKey, is_poll: bool, limits: LoopDetectionInForce) -> Loop | None:
    """The loop that a call would go on with, None when it is free to run. `history`: the records of its run."""
    if limits.enabled is not True or not history:
        return None
    of_call = evidence.of_call(history, tool, args)
    if not of_call and history[-1].unknown_tool is None:  # then all counts are 0
        return None
    seen = Seen(
        tool,
        args,
        is_poll,
        evidence.unknown_streak(history, tool),
        evidence.no_progress_streak(of_call),
        len(of_call),
        evidence.alternation(history, tool, args),
    )
    return next((loop for detector in DETECTORS if (loop := detector(seen, limits))), None)


def unknown_tool_repeat(seen: Seen, limits: LoopDetectionInForce) -> Loop | None:
    """A tool that is not available is called again and again."""
    count, threshold = seen.unknown_streak, limits.unknown_tool_threshold
    if count < threshold:
        return None
    return Loop(UNKNOWN_TOOL_REPEAT, True, count, threshold, "unknownToolThreshold")


def global_circuit_breaker(seen: Seen, limits: LoopDetectionInForce) -> Loop | None:
    """A call goes on without progress; despite the name one call alone, not all of them together."""
    count, threshold = seen.streak.count, limits.global_circuit_breaker_threshold
    if count < threshold:
        return None
    return Loop(GLOBAL_CIRCUIT_BREAKER, True, count, threshold, "globalCircuitBreakerThreshold")


def known_poll_no_progress(seen: Seen, limits: LoopDetectionInForce) -> Loop | None:
    """A poll whose answer does not change. Another answer is another warning."""
    if not seen.is_poll or not limits.known_poll_no_progress:
        return None
    count, about = seen.streak.count, (seen.tool, seen.args, seen.streak.result)
    return _critical(KNOWN_POLL_NO_PROGRESS, count, limits) or _warning(KNOWN_POLL_NO_PROGRESS, count, limits, about)


def ping_pong(seen: Seen, limits: LoopDetectionInForce) -> Loop | None:
    """Two calls that take turns. Whichever of them is next, it is the same warning."""
    pair = seen.alternation
    if pair is None or not limits.ping_pong:
        return None
    frozen_count = pair.count if pair.is_frozen else 0
    about = tuple(sorted(((seen.tool, str(seen.args)), (pair.tool, str(pair.args)))))
    return _critical(PING_PONG, frozen_count, limits, pair.tool) or _warning(
        PING_PONG, pair.count, limits, about, pair.tool
    )


def generic_repeat(seen: Seen, limits: LoopDetectionInForce) -> Loop | None:
    """A call that comes again: critical when its outcome stays the same, a warning whatever comes of it."""
    if seen.is_poll or not limits.generic_repeat:
        return None
    about = (seen.tool, seen.args)
    return _critical(GENERIC_REPEAT, seen.streak.count, limits) or _warning(
        GENERIC_REPEAT, seen.recent_count, limits, about
    )


DETECTORS: tuple[Detector, ...] = (
    unknown_tool_repeat,
    global_circuit_breaker,
    known_poll_no_progress,
    ping_pong,
    generic_repeat,
)


def _critical(loop_type: str, count: int, limits: LoopDetectionInForce, paired_tool: str | None = None) -> Loop | None:
    threshold = limits.critical_threshold
    return None if count < threshold else Loop(loop_type, True, count, threshold, "criticalThreshold", paired_tool)


def _warning(
    loop_type: str,
    count: int,
    limits: LoopDetectionInForce,
    about: tuple[object, ...],
    paired_tool: str | None = None,
) -> Loop | None:
    threshold = limits.warning_threshold
    if count < threshold:
        return None
    return Loop(loop_type, False, count, threshold, "warningThreshold", paired_tool, about)
