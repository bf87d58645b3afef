"""Suite failure_guard: the repeated-failure guard, as a state machine and over a session.

In a session a batch is a step: a call for every observation, its result, and what the user said meanwhile;
`complete: false` is one call more, whose result never comes. Of what the guard decides a session tells the warnings and
the stops. Once it stopped, the latch repeats the halt until the next turn, which is no decision of the guard's.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.conformance.cases import Case, Mismatch, Op, compare
from tests.conformance.sessions import ALONE, NO_CAP, LocalSession, OpenSession, Session
from turnguard.core.turn.failures import Observation, ObservedBatch, RepeatedFailureGuard, RepeatedFailures, parse_mode
from turnguard_protocol.events import (
    Call,
    Event,
    Result,
    ResultState,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.verdicts import Action, Verdict

DEFAULT_MODE = "shadow"
TOLD = frozenset({"warn", "would_warn", "stop", "would_stop"})
"""Decisions of which a session tells."""

STATUS: dict[tuple[str, str | None], ResultState] = {
    ("success", "success"): "done",
    ("success", "not_started"): "notStarted",
    ("success", "unknown"): "unknown",
    ("success", None): "unknown",
    ("error", "error"): "done",
    ("error", "not_started"): "notStarted",
    ("error", "cancelled"): "cancelled",
    ("error", "unknown"): "unknown",
    ("error", None): "unknown",
    **{("cancelled", execution): "cancelled" for execution in ("success", "error", "cancelled", "not_started")},
    **{("cancelled", execution): "cancelled" for execution in ("unknown", None)},
}
"""The status that a result has on the wire, by terminal and execution; what is not here cannot be said."""


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process: the state machine by itself, and a session where the wire could say it."""
    machine = Machine(case.config.get("mode", DEFAULT_MODE))
    yield from compare(case, map(machine.answer, case.events))
    if is_sayable(case):
        yield from replay(case, LocalSession)


def is_sayable(case: Case) -> bool:
    """Whether all events of the case have a form on the wire."""
    return all(_is_sayable(op) for op in case.events)


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session, and compares what a session tells."""
    mode = case.config.get("mode", DEFAULT_MODE)
    ours = {**ALONE, "turnGuard": "batch", "repeatedFailures": mode}
    session = open_session({"model": NO_CAP, "turnguard": ours})
    is_halted = False
    for index, (op, expected) in enumerate(zip(case.events, case.expect, strict=True)):
        verdict = _tell(session, op, index)
        findings = [] if is_halted else [each for each in verdict.findings if each.guard == RepeatedFailureGuard.name]
        got = [(finding.reason, finding.count) for finding in findings]
        if got != _told(expected):
            yield Mismatch(index, _told(expected), got)
        is_halted = verdict.action is Action.HALT


def _told(decision: dict[str, Any] | None) -> list[tuple[str, int]]:
    """What a session tells of a decision; None is the answer to a new turn."""
    if decision is None or decision["decision"] not in TOLD:
        return []
    return [(decision["decision"], decision["failures"])]


class Machine:
    """The state machine under a mode."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.failures = RepeatedFailures()

    def answer(self, op: Op) -> Any:
        """What it decides on one event of the script."""
        match op["op"]:
            case "batch":
                decision = self.failures.observe(_batch_of(op), op.get("mode", self.mode))
                return msgspec.to_builtins(decision)
            case "turn":
                self.failures = RepeatedFailures()
                return None
            case "parse_mode":
                return parse_mode(op["value"])
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")


def _batch_of(op: Op) -> ObservedBatch:
    batch = ObservedBatch()
    for seen in op["observations"]:
        if not seen.get("duplicate"):
            observation = Observation(seen.get("tool"), seen["terminal"], seen.get("execution"), seen.get("error_type"))
            batch.add(observation, seen.get("times", 1))
    reasons = {
        "unreliable_input": not op.get("reliable", True),
        "external_input": op.get("external_input", False),
        "queued_prompt": op.get("queued_prompt", False),
        "incomplete": not op.get("complete", True),
    }
    batch.reset_reasons |= {reason for reason, holds in reasons.items() if holds}
    return batch


def _is_sayable(op: Op) -> bool:
    if op["op"] != "batch":
        return op["op"] == "turn"
    observations = op["observations"]
    can_be_said = all((seen["terminal"], seen.get("execution")) in STATUS for seen in observations)
    return can_be_said and op.get("reliable", True) and "mode" not in op


def _tell(session: Session, op: Op, index: int) -> Verdict:
    """Tells a session of a batch, and returns what it says at the end of the step."""
    if op["op"] == "turn":
        return session.record(TurnStarted())
    seen = [each for each in op["observations"] for _ in range(each.get("times", 1))]
    calls = [Call(each.get("tool"), f"{index}-{number}") for number, each in enumerate(seen)]
    withheld = [] if op.get("complete", True) else [Call("withheld", f"{index}-withheld")]
    session.record(ToolCalls([*calls, *withheld]))
    events: list[Event] = [ToolResults([_result_of(each, call.id) for each, call in zip(seen, calls, strict=True)])]
    if op.get("external_input"):
        events.append(UserInput())
    if op.get("queued_prompt"):
        events.append(UserInput(queued=True))
    return session.record(*events, StepFinished())


def _result_of(seen: dict[str, Any], call_id: str | None) -> Result:
    ok = None if seen["terminal"] == "cancelled" else seen["terminal"] == "success"
    status = STATUS[seen["terminal"], seen.get("execution")]
    return Result(
        call_id, ok=ok, status=status, error_type=seen.get("error_type"), duplicate=seen.get("duplicate", False)
    )
