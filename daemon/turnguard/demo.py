"""`turnguard demo`: turns played through the real daemon, a child of this process, over stdio.

The productive turn has the figures of the one for which Qwen Code made its cap adaptive: 100 calls, 99 of them
different.
"""

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw
from rich.console import Console

from turnguard import __version__
from turnguard.arguments import Parser
from turnguard.client import Client
from turnguard.core.messages import CAP
from turnguard_protocol.events import Call, Event, Result, ToolCalls, ToolResults
from turnguard_protocol.settings import ModelSettings, ProgressSettings, Settings, TurnguardSettings
from turnguard_protocol.verdicts import Action, Finding, Verdict

WIDTH = 80
ROW = "{:29} {:>5} {:>3} {:>8} {:>6}  {}"
COLUMNS = ("turn", "calls", "ran", "distinct", "repeat", "answer")

Batch = list[Call]


class Told(NamedTuple):
    """What a turn comes to: calls asked for, those that ran, distinct ones, the repeats of one call, the answer."""

    calls: int
    ran: int
    distinct: int
    max_repeat: int
    answer: str


class Part(NamedTuple):
    """A turn, or the next part of it, and what it must come to. `session` is where it is played."""

    name: str
    session: str
    batches: Sequence[Batch]
    told: Told


def call(name: str, **args: Any) -> Call:
    """A call as an agent asks for it."""
    return Call(name, args=Raw(msgspec.json.encode(args)))


def edit(number: int) -> Call:
    """An edit like no other."""
    return call("edit", file_path=f"src/part{number}.ts", new_string=f"export const part = {number}")


def edits(first: int, last: int) -> list[Batch]:
    """Steps of one edit each, numbered like the calls of a turn."""
    return [[edit(number)] for number in range(first, last + 1)]


BUILD = [call("run_shell_command", command="npm run build")]
PRODUCTIVE = [*edits(1, 50), BUILD, *edits(52, 99), BUILD]

SAME_EDIT = [call("edit", file_path="src/main.ts", old_string="is not there", new_string="is")]
STUCK = [edits(number, number)[0] if number % 5 else SAME_EDIT for number in range(1, 151)]

TESTS = [call("run_shell_command", command="npm test")]
FAILING = [*edits(1, 6), *[TESTS] * 10]

CROSSING = [edit(number) for number in range(96, 106)]

WATCHED = Settings(turnguard=TurnguardSettings(progress=ProgressSettings(action="halt")))
CAPPED = Settings(ModelSettings(max_tool_calls_per_turn=100))
SESSIONS = {
    "productive": Settings(),
    "failing": WATCHED,
    "stuck": Settings(),
    "capped": CAPPED,
    "crossed": CAPPED,
}
"""The sessions of the demo, and what each has set."""

PARTS = (
    Part("a productive turn", "productive", PRODUCTIVE, Told(100, 100, 99, 2, "allow")),
    Part("  which goes on", "productive", edits(101, 241), Told(241, 241, 240, 2, "allow")),
    Part("one test run again and again", "failing", FAILING, Told(11, 11, 7, 5, "halt: no_new_evidence")),
    Part("one edit again and again", "stuck", STUCK, Told(101, 100, 82, 20, "halt: stuck")),
    Part("a cap that was set to 100", "capped", edits(1, 241), Told(101, 100, 101, 1, "halt: explicit_cap")),
    Part(
        "a batch of 10 that crosses it",
        "crossed",
        [*edits(1, 95), CROSSING],
        Told(105, 95, 105, 1, "halt: explicit_cap"),
    ),
)


def result_of(call: Call) -> Result:
    """What becomes of a call: the tests fail in the same way whenever they run."""
    output = Raw(b'"1 failing: expected 2, got 3"') if [call] == TESTS else UNSET
    return Result(name=call.name, args=call.args, ok=True, output=output)


class Agent:
    """A host at its plainest: it asks before each batch, runs what is admitted, and tells what became of it."""

    def __init__(self, client: Client, session: str, settings: Settings) -> None:
        self._client = client
        self._session = session
        self._outcomes: list[Event] = []
        self._ran = 0
        client.open_session(session, settings=settings)

    def play(self, batches: Sequence[Batch]) -> tuple[Told, str]:
        """Plays these steps up to a halt or their end: what the turn has come to, and the message to the person."""
        verdicts: list[Verdict] = []
        for batch in batches:
            verdicts.append(self._client.record(self._session, [*self._outcomes, ToolCalls(batch)]))
            if verdicts[-1].action is Action.HALT:
                break
            ran = [batch[index] for index in verdicts[-1].admitted]
            self._ran += len(ran)
            self._outcomes = [ToolResults([result_of(call) for call in ran])]
        message = verdicts[-1].user_message
        return self._told(verdicts[-1]), "" if message is UNSET else message

    def _told(self, verdict: Verdict) -> Told:
        totals = verdict.totals
        reason = "".join(f": {of_cap(finding) or finding.loop_type}" for finding in verdict.findings)
        answer = f"{verdict.action}{reason}"
        return Told(totals.tool_calls, self._ran, totals.distinct_keys, totals.max_key_repeat, answer)


def parser() -> argparse.ArgumentParser:
    """What the command understands: nothing but `--help`."""
    return Parser(
        prog="turnguard demo",
        description="Starts the daemon and plays turns through it: stuck ones, which it stops, and productive ones, "
        "which go on.",
        epilog="Exits with 0 when every turn came out as it should.",
    )


def of_cap(finding: Finding) -> str | None:
    """Which part of the cap it was; None: it was something else."""
    return str(finding.reason) if finding.loop_type == CAP else None


def main(argv: Sequence[str] | None = None) -> int:
    """Plays all turns; 0 only when every one came out as told here."""
    parser().parse_args(argv)
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH)
    console.print(f"turnguard {__version__}: turns played through its daemon, over stdio\n")
    console.print(ROW.format(*COLUMNS), style="bold")
    surprises = 0
    messages: list[str] = []
    with Client.spawn() as client:
        agents = {session: Agent(client, session, settings) for session, settings in SESSIONS.items()}
        for part in PARTS:
            told, message = agents[part.session].play(part.batches)
            console.print(ROW.format(part.name, *told), style="red" if message else "green")
            messages += [message] if message else []
            if told != part.told:
                surprises += 1
                console.print(f"  expected: {part.told}", style="bold red")
        exit_code = client.shutdown()
    console.print("\nWhat a person reads when the first two of these turns are halted:")
    for message in messages[:2] or ["nothing, and that is wrong"]:
        console.print(f"\n{textwrap.fill(message, console.width)}")
    return 1 if surprises or exit_code else 0
