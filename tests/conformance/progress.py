"""Suite progress: the progress guard, by itself and over a session.

An event is a step: all calls of a model message with their results, a call `{tool, args, outcome, status?, hint?}`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.build import in_force
from tests.conformance.cases import Case, Mismatch, Op, compare
from tests.conformance.sessions import ALONE, NO_CAP, LocalSession, OpenSession
from turnguard.core.guard import Batch
from turnguard.core.progress import ProgressGuard
from turnguard_protocol.events import Call, Result, StepFinished, ToolCalls, ToolResults
from turnguard_protocol.verdicts import Finding

SETTINGS: dict[str, Any] = {"model": NO_CAP, "turnguard": {**ALONE, "progress": {"action": "halt"}}}

STATUS = {"ok": True, "failed": False, None: None}


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process: the guard by itself, and a session."""
    guard = ProgressGuard(in_force(turnguard=SETTINGS["turnguard"]))
    yield from compare(case, (_judge(guard, op) for op in case.events))
    yield from replay(case, LocalSession)


def is_sayable(case: Case) -> bool:
    """Whether the wire can say it: identities made elsewhere have a place there, and so has a missing outcome."""
    return True


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session, and compares the verdicts; scores are not told."""
    session = open_session(SETTINGS)
    for index, (op, expected) in enumerate(zip(case.events, case.expect, strict=True)):
        session.record(ToolCalls(_calls(op, index)))
        verdict = session.record(ToolResults(_results(op, index)), StepFinished())
        got = _verdict([finding for finding in verdict.findings if finding.guard == ProgressGuard.name])
        if got != expected["verdict"]:
            yield Mismatch(index, expected["verdict"], got)


def _judge(guard: ProgressGuard, op: Op) -> dict[str, Any]:
    calls = _calls(op, 0)
    guard.commit(Batch(calls, None), range(len(calls)))
    guard.receive(ToolResults(_results(op, 0)))
    verdict = _verdict(guard.receive(StepFinished()))
    return {"verdict": verdict, "score": guard.standing().points}


def _verdict(findings: Sequence[Finding]) -> str | None:
    return next((finding.action.value for finding in findings), None)


def _calls(op: Op, step: int) -> list[Call]:
    return [
        Call(call["tool"], f"{step}-{number}", key=call["args"], hint=call.get("hint"))
        for number, call in enumerate(op["calls"])
    ]


def _results(op: Op, step: int) -> list[Result]:
    return [
        Result(f"{step}-{number}", outcome=call["outcome"], ok=STATUS[call.get("status")])
        for number, call in enumerate(op["calls"])
    ]
