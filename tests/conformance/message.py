"""Suite message: what people and clients are told. Codes and data must be upstream's, the words are our own."""

from collections.abc import Iterator
from typing import Any

from tests.build import in_force
from tests.conformance.cases import Case, Mismatch, Op
from turnguard.core import messages
from turnguard_protocol.verdicts import Action, Finding, Totals

FAILURES = "repeated_tool_execution_failure"
MODEL_TEXTS = {
    "skipped_call": (Action.HALT, "turn_tool_call_cap"),
    "next_turn_note": (Action.HALT, "turn_tool_call_cap"),
    "failure_reminder": (Action.WARN, FAILURES),
    "failure_stop": (Action.HALT, FAILURES),
}
"""Upstream's texts for the model, by the finding for which we have one."""


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process."""
    for index, (op, expected) in enumerate(zip(case.events, case.expect, strict=True)):
        got = _answer(op)
        if _without_words(got) != _without_words(expected):
            yield Mismatch(index, expected, got)


def _answer(op: Op) -> Any:
    match op["op"]:
        case "headless":
            return messages.user_message([_finding(Action.HALT, op["loop"] or "")], in_force(), TOTALS)
        case "daemon_error":
            return messages.daemon_error(op["loop"])
        case "daemon_text":
            return messages.model_message([_finding(*MODEL_TEXTS[op["name"]])], in_force(), TOTALS)
        case unknown:
            raise ValueError(f"unknown op {unknown!r}")


def _finding(action: Action, loop_type: str) -> Finding:
    return Finding(guard="turn", action=action, loop_type=loop_type, count=6, threshold=6)


TOTALS = Totals(6, 6, 1, 6)


def _without_words(answer: Any) -> Any:
    """The answer with every text of it replaced by whether there is one."""
    if isinstance(answer, str):
        return bool(answer.strip())
    return {**answer, "message": bool(answer["message"].strip())}
