"""Recordings of real agents, played through the proxy: `python -m tests.acp.recordings FOLDER [FILE...]`.

Every line goes where the recording has it, at the recording's time. A run without a loop must pass as it came: not one
line changed, held back or added, in both directions. Of the others it is told which call was warned of and halted
first, and what the client was answered; the recorded agent hears nothing of the halt and goes on. Exits with 1 when a
run without a loop was changed, a known loop was not halted, or a halted prompt did not get exactly one answer.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.acp.wires import halting, lines
from turnguard.acp.options import Options
from turnguard.acp.outgoing import Route
from turnguard.acp.proxy import Proxy
from turnguard.acp.turn import Guarded
from turnguard.core.guard import Needs
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import Event, ToolCalls, TurnStarted
from turnguard_protocol.settings import SettingsInForce, SettingsReport
from turnguard_protocol.verdicts import Action, OverrideAction, SessionStatus, Verdict

WITHOUT_A_LOOP = {"poll", "productive", "edit", "load", "perm", "permreject", "http400", "task"}
WITH_ONE_NEVERTHELESS = {"claude101": {"task"}, "codex": {"load", "perm", "permreject"}}
"""Runs of those names that do repeat, by agent."""

LOOPS = {"same", "abab"}
"""Runs that every agent must be halted in, unless it stops itself first."""

STOPS_ITSELF = {"gemini"}
"""Agents that end such a turn themselves, before the guard would."""


class Run(NamedTuple):
    """A recording. Its file is `AGENT-RUN.jsonl.gz`, or `AGENT-RUN.load.jsonl.gz` for a process that loads it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".jsonl.gz")

    @property
    def agent(self) -> str:
        return self.name.partition("-")[0]

    @property
    def kind(self) -> str:
        return self.name.partition("-")[2].partition(".")[0]

    @property
    def must_pass_as_it_came(self) -> bool:
        return self.kind in WITHOUT_A_LOOP - WITH_ONE_NEVERTHELESS.get(self.agent, set())

    @property
    def must_be_halted(self) -> bool:
        return self.kind in LOOPS and self.agent not in STOPS_ITSELF


class Mark(NamedTuple):
    """Where a guard first spoke up: a line of the recording, its time in seconds, and after how many calls of the turn.

    `is_late`: the next call had begun then.
    """

    line: int
    time: float
    calls: int
    is_late: bool
    guard: str

    def __str__(self) -> str:
        late = ", the next had begun" if self.is_late else ""
        return f"call {self.calls}{late} ({self.guard}, line {self.line}, {self.time:.1f} s)"


class Marks:
    """What the guards of one recording said first. `line` and `time`: where the recording is now."""

    def __init__(self) -> None:
        self.line = 0
        self.time = 0.0
        self.calls = 0
        self.warned: Mark | None = None
        self.halted: Mark | None = None

    def note(self, verdict: Verdict, calls: int, *, is_late: bool) -> None:
        for finding in verdict.findings:
            mark = Mark(self.line, self.time, calls - is_late, is_late, finding.guard)
            if finding.action is Action.HALT:
                self.halted = self.halted or mark
            elif finding.action is not Action.ALLOW:
                self.warned = self.warned or mark


class Marked:
    """The guards of a session, whose findings are noted."""

    def __init__(self, session_id: str, settings: SettingsInForce, cwd: str | None, marks: Marks) -> None:
        self._session = SessionGuard(session_id, settings, cwd=cwd)
        self._marks = marks
        self._calls = 0

    @property
    def needs(self) -> Needs:
        return self._session.needs

    def record(self, events: Sequence[Event]) -> Verdict:
        if any(isinstance(event, TurnStarted) for event in events):
            self._calls = 0
        begun = sum(len(event.calls) for event in events if isinstance(event, ToolCalls))
        self._calls += begun
        self._marks.calls += begun
        verdict = self._session.record(events)
        self._marks.note(verdict, self._calls, is_late=begun > 0)
        return verdict

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        self._session.override(action, turn_id=turn_id, calls=calls)

    def status(self) -> SessionStatus:
        return self._session.status()

    def report(self) -> SettingsReport:
        return Merged([]).report()


class Replay:
    """A recording on its way through the proxy. `changes`: what was not forwarded as it came, in words."""

    def __init__(self) -> None:
        self.marks = Marks()
        self.changes: list[str] = []
        self.lines = 0
        self.answers: list[tuple[float, Any]] = []
        self._proxy = Proxy(self._guard, Options(), version="0")

    def _guard(self, session_id: str, cwd: str | None) -> Guarded:
        return Marked(session_id, halting(), cwd, self.marks)

    def play(self, path: Path) -> None:
        """Plays a recording to its end, and past every deadline that is still open then."""
        now = 0.0
        for recorded in lines(path):
            now = max(now, recorded.t)
            self._tick_until(now)
            self.lines += 1
            self.marks.line, self.marks.time = self.lines, now
            line = bytes(recorded.msg) + b"\n"
            take = self._proxy.from_client if recorded.dir == "c2a" else self._proxy.from_agent
            self._note(take(line, now), f"{recorded.dir} line {self.lines}")
        self._tick_until(now + 120)
        self._note(self._proxy.agent_gone(now), "the agent's end")
        self.changes += self._proxy.said

    def _tick_until(self, now: float) -> None:
        while (due := self._proxy.next_tick) is not None and due <= now:
            self.marks.time = due
            self._note(self._proxy.tick(due), f"a deadline at {due:.1f} s")

    def _note(self, route: Route | None, where: str) -> None:
        if route is None:
            return
        self.changes.append(f"{where}: {len(route.to_client)} to the client, {len(route.to_agent)} to the agent")
        for message in map(json.loads, route.to_client):
            if isinstance(message, dict) and "result" in message and "turnguard" in _meta(message["result"]):
                self.answers.append((self.marks.time, message))


def _meta(result: Any) -> Any:
    return (result.get("_meta") or {}) if isinstance(result, dict) else {}


def outcome(run: Run, replay: Replay) -> Iterator[str]:
    """What is wrong with a recording's way through the proxy, in words."""
    if run.must_pass_as_it_came:
        yield from replay.changes
        if replay.marks.warned or replay.marks.halted:
            yield "the guards found something"
    if run.must_be_halted and replay.marks.halted is None:
        yield "a loop was not halted"
    ids = [json.dumps(message["id"]) for _, message in replay.answers]
    if replay.marks.halted is not None and not ids:
        yield "a halted prompt was not answered"
    if len(ids) != len(set(ids)):
        yield "a halted prompt was answered more than once"


def answered(replay: Replay) -> str:
    """The first answer to a halted prompt, for a reader."""
    if not replay.answers or replay.marks.halted is None:
        return ""
    time, message = replay.answers[0]
    by = message["result"]["_meta"]["turnguard"]["answeredBy"]
    return f"{message['result']['stopReason']}, by {by} {time - replay.marks.halted.time:.1f} s later"


def main(arguments: Sequence[str]) -> int:
    """Plays the recordings of a folder, or some of them, and prints a table."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    folder, *names = arguments
    runs = [Run(Path(folder, name)) for name in names] or [
        Run(path) for path in sorted(Path(folder).glob("*.jsonl.gz"))
    ]
    violations: list[str] = []
    print("| recording | lines | calls heard | forwarded | warned at | halted at | answered |\n" + "|---" * 7 + "|")
    for run in runs:
        replay = Replay()
        replay.play(run.path)
        forwarded = "unchanged" if not replay.changes else f"{len(replay.changes)} changed"
        if run.must_pass_as_it_came:
            forwarded += " (as it must)" if not replay.changes else " (WRONG)"
        marks = replay.marks
        told = (replay.lines, marks.calls, forwarded, marks.warned or "", marks.halted or "", answered(replay))
        print(f"| {run.name}", *(f"| {value}" for value in told), "|")
        violations += [f"{run.name}: {words}" for words in outcome(run, replay)]
    unchanged = sum(run.must_pass_as_it_came for run in runs)
    print(f"\n{len(runs)} recordings, {unchanged} that must pass as they came, {len(violations)} violations")
    print(*violations, sep="\n")
    return 1 if violations or not runs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
