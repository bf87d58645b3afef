"""Suite core: one session of Qwen Code's interactive or headless client, by the stream guard.

Two things upstream does are no events of ours.

The session's latch answers a halt to every record until the next turn. Upstream's stopped guard does so too, except to
what it never hears or has nothing to do with: a call whose id was already seen in the response, and a result by an id
that is not pending. The halt answered to those two is taken for upstream's null, and to nothing else.

A response's call ids are forgotten at the next `request` there and with the step here, and a `request` after a response
that did not finish commits nothing, so it is not told. Ids are told with the number of the response they belong to, and
a copy that comes when the step of its call is over, which upstream's client drops before its guard, is not told.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import UNSET

from tests.conformance.cases import Case, Mismatch, Op, json_bytes, raw
from tests.conformance.expand import PlannedCall, calls_of, words_of
from tests.conformance.sessions import LocalSession, OpenSession, Session, play_script
from turnguard.core.identity import tool_call_repeat_key, unwrap_envelope
from turnguard.core.turn.cap import should_halt_on_turn_tool_call_cap
from turnguard.core.turn.reads import STATEFUL_READ_TOOL
from turnguard.core.turn.stream_turn import LoopDetectionService
from turnguard_protocol.events import (
    Event,
    Fallback,
    Result,
    Retry,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action, Totals

T = TypeVar("T")

IN_PROCESS_ONLY = frozenset({"cap_decision", "identity", "disable"})


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process."""
    yield from replay(case, LocalSession)


def is_sayable(case: Case) -> bool:
    """Whether all events of the case have a form on the wire."""
    return all(op["op"] not in IN_PROCESS_ONLY for op in case.events)


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session."""
    yield from play_script(case, open_session, "stream", Script)


class Script:
    """A script as it is played: what the session was told, and what of it upstream would not hear once stopped.

    `response`, `step`: the numbers of upstream's response and of our step. `seen`: in which of them each call id was
    seen last.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.response = self.step = 0
        self.has_results = False
        self.seen: dict[str, tuple[int, int]] = {}
        self.pending_reads: set[str] = set()
        self.halt: str | None = None
        self.totals: Totals | None = None
        self._tell(TurnStarted())

    def answer(self, op: Op) -> Any:
        """What the guard says to one event of the script."""
        match op["op"]:
            case "call":
                return self._answer_all(op, calls_of(op), self._call)
            case "content" | "thought":
                return self._answer_all(op, words_of(op), self._tell)
            case "result":
                return self._result(op)
            case "finished":
                self.step += 1
                return _loop(self._tell(StepFinished()))
            case "request":
                self.response += 1
                return None
            case "retry":
                self.response += 1
                return _loop(self._tell(Retry(op.get("continuation", False))))
            case "fallback":
                self.response += 1
                return _loop(self._tell(Fallback()))
            case "reset":
                self.response += 1
                self.pending_reads.clear()
                return _loop(self._tell(TurnStarted()))
            case "other":
                return _loop(self._tell())
            case "disable":
                _turn_guard(self.session).disable_for_session()
                return None
            case "cap_decision":
                return should_halt_on_turn_tool_call_cap(op["total"], op["max_repeat"], op["cap"], op["explicit"])
            case "identity":
                return _identity(op["tool"], json_bytes(op["args_json"]))
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")

    def final(self) -> dict[str, Any]:
        """The counters after the last event, as far as they can be seen from here."""
        final: dict[str, Any] = {}
        if self.totals is not None:
            final |= {"total": self.totals.tool_calls, "max_repeat": self.totals.max_key_repeat}
        if isinstance(self.session, LocalSession):
            guard = _turn_guard(self.session)
            final |= {"consecutive": guard.identical.length, "reported": list(guard.reported)}
        return final

    def _tell(self, *events: Event) -> str | None:
        """Tells the session and returns the loop type of its halt."""
        verdict = self.session.record(*events)
        self.totals = verdict.totals
        self.halt = verdict.findings[0].loop_type if verdict.action is Action.HALT else None
        return self.halt

    def _answer_all(self, op: Op, parts: Iterable[T], tell: Callable[[T], str | None]) -> Any:
        """Tells one after the other until one is refused."""
        for number, part in enumerate(parts, start=1):
            halt = tell(part)
            if halt is not None:
                return {"loop": halt, "at": number} if "times" in op or "split" in op else {"loop": halt}
        return None

    def _call(self, planned: PlannedCall) -> str | None:
        self.step += self.has_results
        self.has_results = False
        call, was_halted = planned.call(), self.halt is not None
        if call.id is None:
            return self._tell(ToolCalls([call]))
        response, step = self.seen.get(call.id, (-1, -1))
        is_copy = response == self.response
        if is_copy and step != self.step:
            return None
        self.seen[call.id] = self.response, self.step
        if not is_copy and not was_halted and _target(planned) == STATEFUL_READ_TOOL:
            self.pending_reads.add(call.id)
        call.id = self._told_id(call.id)
        halt = self._tell(ToolCalls([call]))
        return None if was_halted and is_copy else halt

    def _result(self, op: Op) -> Any:
        self.has_results = True
        call_id, was_halted = op.get("id"), self.halt is not None
        is_heard = call_id is None or call_id in self.pending_reads
        result = Result(output=raw(op["response"]) if "response" in op else UNSET)
        if call_id is None:
            result.name, result.args = op["tool"], raw(op.get("args", {}))
        else:
            self.pending_reads.discard(call_id)
            result.id = self._told_id(call_id)
        halt = self._tell(ToolResults([result]))
        return None if was_halted and not is_heard else _loop(halt)

    def _told_id(self, call_id: str) -> str:
        response, _ = self.seen.get(call_id, (-1, -1))
        return f"{call_id}/{response}"


def _loop(loop_type: str | None) -> Any:
    return None if loop_type is None else {"loop": loop_type}


def _target(planned: PlannedCall) -> str:
    envelope = unwrap_envelope(planned.tool, planned.args)
    return planned.tool if envelope is None else envelope[0]


def _identity(tool: str, args: bytes) -> dict[str, str]:
    name, key = unwrap_envelope(tool, args) or (tool, tool_call_repeat_key(tool, args))
    return {"tool": name, "key": key}


def _turn_guard(session: Session) -> LoopDetectionService:
    """The guard of a session in this process; nobody but a test switches it off behind the session's back."""
    assert isinstance(session, LocalSession)
    guard = session.guard._stack.turn_guard  # pyright: ignore[reportPrivateUsage]
    assert isinstance(guard, LoopDetectionService)
    return guard
