"""Recordings of real agents, read in place: `python -m tests.acp.wires FOLDER [FILE...]`.

Plays what went over the wire through messages, calls and guards, as if nobody had been stopped, and prints for each
prompt how many calls there were, how well they are known, and which call was warned of and halted first. A recording is
a gzip file of lines `{"dir": "c2a" | "a2c", "t": seconds, "msg": message}`.
"""

import gzip
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct

from turnguard.acp.agents import table_of
from turnguard.acp.agents.generic import Generic
from turnguard.acp.agents.table import AgentTable
from turnguard.acp.calls import Calls
from turnguard.acp.messages import Initialized, Message, decode, member, read, text
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import Event, ToolCalls, TurnEnded, TurnStarted
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action

REPLAYING = {"session/load", "session/resume", "session/fork"}


class Line(Struct):
    """A line of a recording."""

    dir: str
    t: float
    msg: Raw


class Mark(NamedTuple):
    """Where a guard first spoke up: after how many calls, and which guard. `is_late`: the next one had begun then."""

    calls: int
    is_late: bool
    guard: str

    def __str__(self) -> str:
        return f"{self.calls}{'+' if self.is_late else ''} {self.guard}"


class Prompt:
    """What one prompt came to. `fidelity`: of its calls."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.calls = 0
        self.steps = 0
        self.fidelity: dict[str, int] = {}
        self.warned: Mark | None = None
        self.halted: Mark | None = None
        self.answer = "no answer"


class Playing:
    """One session while it is played."""

    def __init__(self, session_id: str, table: AgentTable, settings: SettingsInForce) -> None:
        self.guard = SessionGuard(session_id, settings)
        self.calls = Calls(table)
        self.prompt: Prompt | None = None
        self.known: dict[str, int] = {}

    def start(self, prompt: Prompt) -> None:
        self.end("no answer")
        self.prompt = prompt
        self.known = dict(self.calls.fidelity)
        self.calls.turn_started()
        self.guard.record([TurnStarted()])

    def tell(self, events: Sequence[Event]) -> None:
        """Tells the guards; a halt is noted and lifted, so that the turn goes on as recorded."""
        prompt = self.prompt
        if prompt is None or not events:
            return
        verdict = self.guard.record(events)
        prompt.calls, prompt.steps = sum(self._fidelity().values()), verdict.totals.steps
        for finding in verdict.findings:
            is_late = any(isinstance(event, ToolCalls) for event in events)
            mark = Mark(prompt.calls - is_late, is_late, finding.guard)
            if finding.action is Action.HALT:
                prompt.halted = prompt.halted or mark
            elif finding.action is not Action.ALLOW:
                prompt.warned = prompt.warned or mark
        if prompt.halted is not None and verdict.action is Action.HALT:
            self.guard.override("disable")

    def end(self, answer: str) -> None:
        prompt = self.prompt
        if prompt is None:
            return
        self.tell([*self.calls.turn_ended(), TurnEnded()])
        prompt.answer, prompt.fidelity = answer, self._fidelity()
        self.guard.override("enable")
        self.prompt = None

    def _fidelity(self) -> dict[str, int]:
        now = self.calls.fidelity
        return {name: now[name] - self.known[name] for name in ("full", "low", "none")}


class Player:
    """Plays one recording."""

    def __init__(self, settings: SettingsInForce) -> None:
        self.settings = settings
        self.table: AgentTable = Generic()
        self.sessions: dict[str, Playing] = {}
        self.prompts: list[Prompt] = []
        self.asked: dict[tuple[str, object], Message] = {}
        self.replaying: dict[object, str] = {}

    def line(self, direction: str, line: bytes) -> None:
        message = decode(line)
        if message is None:
            return
        if message.is_response:
            asked = self.asked.pop(("a2c" if direction == "c2a" else "c2a", message.id), None)
            if asked is not None:
                self._answered(asked, message)
            return
        if message.id is not UNSET:
            self.asked[direction, message.id] = message
        session_id, params = message.params.session_id, message.params
        if session_id is None:
            return
        if direction == "c2a":
            self._from_client(session_id, message)
            return
        session = self._session(session_id)
        is_live = session.prompt is not None and session_id not in self.replaying.values()
        if params.update is not None:
            if is_live:
                session.tell(session.calls.see(params.update))
            else:
                session.calls.replay(params.update)
        elif message.method == "session/request_permission" and params.tool_call is not None and is_live:
            session.tell(session.calls.permission(params.tool_call))

    def _from_client(self, session_id: str, message: Message) -> None:
        if message.method in REPLAYING:
            self.replaying[message.id] = session_id
        elif message.method == "session/prompt":
            prompt = Prompt(session_id)
            self.prompts.append(prompt)
            self._session(session_id).start(prompt)

    def _answered(self, asked: Message, answer: Message) -> None:
        session_id = asked.params.session_id
        if asked.method == "initialize":
            self.table = table_of(read(answer.result, Initialized).agent_info)
        elif asked.method in REPLAYING:
            self.replaying.pop(asked.id, None)
        elif session_id is None:
            return
        elif asked.method == "session/prompt":
            error = member(answer.error, "message")
            self._session(session_id).end(text(member(answer.result, "stopReason")) or f"error {text(error)}"[:30])
        elif asked.method == "terminal/output" and asked.params.terminal_id is not None:
            session = self._session(session_id)
            if isinstance(answer.result, Raw):
                session.tell(session.calls.terminal(asked.params.terminal_id, answer.result))

    def _session(self, session_id: str) -> Playing:
        if session_id not in self.sessions:
            self.sessions[session_id] = Playing(session_id, self.table, self.settings)
        return self.sessions[session_id]


def play(path: Path, settings: SettingsInForce) -> Player:
    """A recording, played to its end."""
    player = Player(settings)
    for recorded in lines(path):
        player.line(recorded.dir, bytes(recorded.msg))
    for session in player.sessions.values():
        session.end("no answer")
    return player


def lines(path: Path) -> Iterator[Line]:
    """The lines of a recording."""
    decoder = msgspec.json.Decoder(Line)
    with gzip.open(path) as recording:
        for line in recording:
            yield decoder.decode(line)


def halting(**changes: Any) -> SettingsInForce:
    """The defaults of this face."""
    return msgspec.structs.replace(Merged([]).in_force(), progress="halt", **changes)


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    folder, *names = arguments
    paths = [Path(folder, name) for name in names] or sorted(Path(folder).glob("*.jsonl.gz"))
    print("| recording | table | calls | full/low/none | steps | warned | halted | answer |\n" + "|---" * 8 + "|")
    for path in paths:
        player = play(path, halting())
        for prompt in player.prompts:
            known = "/".join(str(prompt.fidelity[name]) for name in ("full", "low", "none"))
            told = (prompt.calls, known, prompt.steps, prompt.warned or "", prompt.halted or "", prompt.answer)
            print("|", path.name.removesuffix(".jsonl.gz"), "|", player.table.key, "|", *_cells(told))
    return 0


def _cells(values: Sequence[object]) -> Iterator[str]:
    for value in values:
        yield f"{value} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
