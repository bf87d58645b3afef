"""Suite daemon: one session of Qwen Code's daemon, by the batch guard.

The calls of a batch are started one by one in order, each answered before the next starts. Only `agent` calls next to
each other run at the same time, at most 10; of those an invalid one fails as it is started. Calls that were not started
when the turn was stopped are reported so, for else their ids would count as executed.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from tests.conformance.cases import Case, Mismatch, Op
from tests.conformance.expand import PlannedCall, calls_of
from tests.conformance.sessions import LocalSession, OpenSession, Session, play_script
from turnguard.core.identity import canonical_tool_name
from turnguard_protocol.events import Event, Result, StepFinished, ToolCalls, ToolResults, TurnStarted
from turnguard_protocol.verdicts import Action, Totals, Verdict

AGENT = "agent"
"""The tool whose calls run at the same time."""

CONCURRENT_AGENT_CALLS = 10
"""Sub-agent calls next to each other that Qwen Code's daemon runs at the same time."""


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process."""
    yield from replay(case, LocalSession)


def is_sayable(case: Case) -> bool:
    """Whether all events of the case have a form on the wire: they all have."""
    return True


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session."""
    yield from play_script(case, open_session, "batch", Script)


class Script:
    """A script as it is played: a host that runs what it may."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.halt: str | None = None
        self.totals: Totals | None = None
        self.reported: list[str] = []
        self._tell(TurnStarted())

    def answer(self, op: Op) -> Any:
        """What the guard says to one event of the script."""
        match op["op"]:
            case "batch":
                return self._play_batch([planned for entry in op["calls"] for planned in calls_of(entry)])
            case "invalid":
                self._tell(ToolResults([Result(name=op["tool"], ok=False, error_type="invalid_params")]))
                return {"loop": self.halt}
            case "turn":
                self._tell(TurnStarted())
                return None
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")

    def final(self) -> dict[str, Any]:
        """The counters after the last event."""
        if self.totals is None:
            return {}
        total, max_repeat = self.totals.tool_calls, self.totals.max_key_repeat
        return {"total": total, "max_repeat": max_repeat, "reported": self.reported}

    def _tell(self, *events: Event) -> Verdict:
        verdict = self.session.record(*events)
        self.totals = verdict.totals
        halts = [finding for finding in verdict.findings if finding.action is Action.HALT]
        self.halt = halts[0].loop_type if halts else None
        self.reported += [finding.loop_type for finding in halts if finding.fresh]
        return verdict

    def _play_batch(self, calls: Sequence[PlannedCall]) -> Any:
        admitted = self._tell(ToolCalls([planned.call() for planned in calls])).admitted
        started = self._run(calls, admitted)
        skipped = [calls[index] for index in admitted if index not in started]
        if skipped:
            self._tell(ToolResults([_result(planned, status="notStarted") for planned in skipped]))
        self._tell(StepFinished())
        run = "all" if len(started) == len(calls) else sorted(started) or "none"
        return {"run": run, "loop": self.halt}

    def _run(self, calls: Sequence[PlannedCall], admitted: Sequence[int]) -> set[int]:
        """Runs what may run, and returns the indexes of the calls that were started."""
        started: set[int] = set()
        for is_agent, indexes in groupby(admitted, lambda index: canonical_tool_name(calls[index].tool) == AGENT):
            running: list[PlannedCall] = []
            for index in indexes:
                started.add(index)
                running.append(calls[index])
                if not is_agent or calls[index].is_invalid:
                    self._finish(running.pop())
                elif len(running) == CONCURRENT_AGENT_CALLS:
                    self._finish(running.pop(0))
                if self.halt is not None:
                    break
            for planned in running:
                self._finish(planned)
            if self.halt is not None:
                break
        return started

    def _finish(self, planned: PlannedCall) -> None:
        if planned.is_invalid:
            self._tell(ToolResults([_result(planned, ok=False, error_type="invalid_params")]))
        else:
            self._tell(ToolResults([_result(planned, ok=True)]))


def _result(planned: PlannedCall, **outcome: Any) -> Result:
    return Result(id=planned.id, name=planned.tool, args=planned.args, **outcome)
