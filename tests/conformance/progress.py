"""Suite progress: the progress guard, by itself and over a session.

Its vectors are `{"id", "suite", "steps": [[call, ...], ...], "expect": {...}}`: a step is all calls of a model message
with their results, a call `{tool, args, outcome, status?, hint?}`. Nothing is fed after a halt.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tests.build import in_force
from tests.conformance.cases import Case, Mismatch, Op, compare
from tests.conformance.sessions import OpenSession
from turnguard.core.guard import Batch
from turnguard.core.progress import ProgressGuard
from turnguard_protocol.events import Call, Result, StepFinished, ToolCalls, ToolResults
from turnguard_protocol.verdicts import Finding

STATUS = {"ok": True, "failed": False, None: None}


def script_of(vector: dict[str, Any]) -> dict[str, Any]:
    """A vector in the form of all others: one event a step that is fed, with its verdict and the score after it."""
    expect = vector["expect"]
    verdicts = dict.fromkeys(expect["warn_after_steps"], "warn") | {expect["halt_after_step"]: "halt"}
    scores = expect["scores"]
    return {
        "id": vector["id"],
        "suite": vector["suite"],
        "config": {},
        "events": [{"op": "step", "calls": calls} for calls in vector["steps"][: len(scores)]],
        "expect": [{"verdict": verdicts.get(step), "score": score} for step, score in enumerate(scores, start=1)],
    }


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process, the guard alone."""
    guard = ProgressGuard(msgspec.structs.replace(in_force(), progress="halt"))
    yield from compare(case, (_judge(guard, op) for op in case.events))


def is_sayable(case: Case) -> bool:
    """Whether the wire can say it: identities made elsewhere have a place there, and so has a missing outcome."""
    return True


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session, and compares the verdicts; scores are not told."""
    session = open_session({"model": {"maxToolCallsPerTurn": 0}, "turnguard": {"progress": {"action": "halt"}}})
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
