"""`turnguard acp [options] -- AGENT...`: an ACP agent with the guard in front of it."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnguard import __version__
from turnguard.acp.child import Child
from turnguard.acp.options import OnLoop, Options, StillRunning, StopAs
from turnguard.acp.proxy import Proxy
from turnguard.acp.relay import Ends, Relay
from turnguard.acp.turn import Guarded
from turnguard.acp.unhurried import UnhurriedSources
from turnguard.acp.watch import Signals, Watch
from turnguard.arguments import Parser
from turnguard.harmless import harmless
from turnguard.process import NOT_EXECUTABLE, SEPARATOR, NotStartedError, Waker, open_standard_streams, seconds
from turnguard.recording import Transcript, open_transcript, sessions
from turnguard.settings.problems import describe
from turnguard.told import STDERR, Told

MISUSE = 2
"""The exit code when the arguments cannot be understood, or a file of theirs cannot be written."""

STOP_AS: tuple[StopAs, ...] = ("max_turn_requests", "cancelled", "error")
ON_LOOP: tuple[OnLoop, ...] = ("halt", "ask", "warn")
STILL_RUNNING: tuple[StillRunning, ...] = ("forward", "fail")

GuardFor = Callable[[str, str | None], Guarded]
"""Makes the guards of a session, from its id and, where known, its directory."""


class Choices(NamedTuple):
    """What was chosen: the agent's command, options of the proxy, settings as NAME=VALUE, and files to write."""

    agent: Sequence[str]
    options: Options
    assignments: Sequence[str] = ()
    record: Path | None = None
    log: Path | None = None


def main(argv: Sequence[str]) -> int:
    """Runs the command; the agent's exit code. Exits with MISUSE when the arguments cannot be understood."""
    choices = choices_of(argv)
    if sys.platform == "win32":
        return _complain("turnguard acp does not run on Windows yet")
    sources = UnhurriedSources("acp", assignments=choices.assignments)
    problems = [describe(problem) for problem in sources.own_problems]
    if problems:  # a guard that is not the one that was set would let money be spent
        return _complain("not started, since your settings have mistakes:\n  " + "\n  ".join(problems))
    return run(choices, lambda transcript: sessions(sources, transcript))


def choices_of(argv: Sequence[str]) -> Choices:
    """The choices that arguments make. Exits when they cannot be understood."""
    at = argv.index(SEPARATOR) if SEPARATOR in argv else len(argv)
    understood = parser()
    given = understood.parse_args(argv[:at])
    agent = argv[at + 1 :]
    if not agent:
        understood.error("the agent's command is missing: turnguard acp [options] -- AGENT...")
    options = Options(
        stop_as=given.stop_as,
        on_loop=given.on_loop,
        note=given.note,
        grace=given.grace,
        still_running=given.still_running,
        kill_after=given.kill_after,
    )
    return Choices(agent, options, given.set, given.record, given.log)


def run(choices: Choices, guards: Callable[[Transcript | None], GuardFor]) -> int:
    """Starts the agent and stands in front of it until it has ended; the code to exit with.

    To be called once, from the main thread: from now on stdin and stdout belong to the protocol. What is logged while
    the guards are made is said as everything else, since nobody may read stderr.
    """
    open_standard_streams()
    try:
        told = Told(choices.log)
        logging.getLogger("turnguard").addHandler(_Saying(told.say))
        guard_for = guards(None if choices.record is None else open_transcript(choices.record, told.say))
    except OSError as error:
        return _complain(f"cannot write {harmless(str(error.filename))}: {error.strerror}")
    proxy = Proxy(guard_for, choices.options, version=__version__, note=told.note)
    signals = Signals()
    try:
        waker = Waker()
        client_in, client_out = _client_ends()
        child = Child(choices.agent, was_ignored=signals.was_ignored)
    except NotStartedError as error:
        _complain(str(error))
        return error.exit_code
    except OSError as error:
        _complain(f"cannot start {harmless(choices.agent[0])}: {error.strerror}")
        return NOT_EXECUTABLE
    told.start()
    told.note(f"turnguard {__version__} in front of {choices.agent[0]}, process {child.pid}")
    ends = Ends(client_in, client_out, agent_in=child.stdin, agent_out=child.stdout)
    relay = Relay(proxy, ends, waker.wake, told.say)
    code = Watch(relay, child, waker, signals, ends).run()
    told.note(f"the agent has ended, exit code {code}")
    told.end()
    return code


class _Saying(logging.Handler):
    """Says what is logged."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Says a record."""
        self._say(f"turnguard: {record.getMessage()}")


def _client_ends() -> tuple[int, int]:
    """The client's ends, taken away from stdin and stdout: what is printed must not go there. Raises OSError."""
    ends = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return ends


def _complain(words: str) -> int:
    with suppress(OSError):
        os.write(STDERR, f"turnguard acp: {words}\n".encode("utf-8", "backslashreplace"))
    return MISUSE


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard acp",
        usage="turnguard acp [options] -- AGENT...",
        description="Starts an ACP agent and stands between it and the client. Nothing changes until the agent loops; "
        "then its turn ends, and the client is told why.",
        epilog="Example: turnguard acp -- claude-agent-acp. Exits with the agent's exit code, or 128 and the number of "
        "the signal that ended it; with 127 or 126 when it cannot be started, with 2 when the arguments do not fit.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--on-loop", choices=ON_LOOP, default="halt", help="end the turn, ask first, or only warn; default: halt")
    add(
        "--stop-as",
        choices=STOP_AS,
        default="max_turn_requests",
        help="the stop reason that the client gets; default: %(default)s",
    )
    add(
        "--grace",
        type=seconds,
        default=15.0,
        metavar="SECONDS",
        help="how long a stopped agent has to end its turn; default: 15",
    )
    add(
        "--still-running",
        choices=STILL_RUNNING,
        default="forward",
        help="what becomes of a prompt that waited 15 seconds for a stopped turn, which does not end; "
        "default: %(default)s",
    )
    add(
        "--kill-after",
        type=seconds,
        metavar="SECONDS",
        help="kill an agent that still works so long after the grace; default: never",
    )
    add("--no-note", dest="note", action="store_false", help="do not tell the model what was stopped")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as `turnguard settings` names it")
    add("--record", type=Path, metavar="FILE", help="append what the guards heard, for `turnguard replay`")
    add("--log", type=Path, metavar="FILE", help="append what turnguard says and stops, with times")
    return parser
