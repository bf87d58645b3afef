"""`turnguard exec [options] -- COMMAND...`: an agent that runs without a person, guarded.

Its stdin, stdout and stderr pass as they are. A copy of stdout is read; what turnguard says goes to stderr.
"""

import argparse
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from turnguard.arguments import Parser
from turnguard.harmless import harmless
from turnguard.headless import words
from turnguard.headless.live import GuardsFor, Live
from turnguard.headless.readers import FORMATS
from turnguard.headless.stream import Stream
from turnguard.headless.watching import Seen, Watching
from turnguard.process import (
    NOT_EXECUTABLE,
    SEPARATOR,
    NotStartedError,
    Waker,
    open_standard_streams,
    seconds,
    signals_stay_here,
    widen,
)
from turnguard.recording import Transcript, open_transcript, sessions
from turnguard.settings.layers import SettingsError
from turnguard.settings.problems import describe
from turnguard.settings.sources import Sources
from turnguard.told import STDERR, Told
from turnguard_protocol.verdicts import Action, Totals, Verdict

MISUSE = 2
"""The exit code when the arguments cannot be understood, or what they name cannot be used."""

LAST_WORDS_SECONDS = 5.0
"""How long somebody who reads stderr late is waited for at the end."""

ON_LOOP = ("halt", "warn")

LIVE_FORMATS = tuple(each for each in FORMATS if each.is_live)


def main(argv: Sequence[str]) -> int:
    """Runs the command; the exit code. Exits with MISUSE when the arguments cannot be understood."""
    at = argv.index(SEPARATOR) if SEPARATOR in argv else len(argv)
    understood = parser()
    chosen = understood.parse_args(argv[:at])
    command = argv[at + 1 :]
    if not command:
        understood.error("the command is missing: turnguard exec [options] -- COMMAND...")
    if sys.platform == "win32":
        return _complain("turnguard exec does not run on Windows yet")
    sources = Sources("exec", assignments=chosen.set)
    problems = [describe(problem) for problem in sources.own_problems]
    if problems:  # a guard that is not the one that was set would let money be spent
        return _complain("not started, since your settings have mistakes:\n  " + "\n  ".join(problems))
    return _run(command, chosen, sources)


def _run(command: Sequence[str], chosen: argparse.Namespace, sources: Sources) -> int:
    """Runs a command under the guards. To be called once, from the main thread: stdin is no longer turnguard's."""
    from turnguard.headless.job import Job, Signals
    from turnguard.headless.passing import Passing
    from turnguard.headless.run import Run

    open_standard_streams()
    told = Told()

    def say(line: str) -> None:
        told.say(f"turnguard exec: {line}")

    try:
        transcript = None if chosen.record is None else open_transcript(chosen.record, told.say)
        guards_for = _guards(sources, transcript)
        guards_for(None)
    except OSError as error:
        return _complain(f"cannot write {harmless(str(error.filename))}: {error.strerror}")
    except SettingsError as error:
        return _complain(f"not started, since your settings have mistakes: {error}")
    watching = Watching(Stream(LIVE_FORMATS, chosen.format), Live(guards_for), is_halting=chosen.on_loop == "halt")
    signals = Signals()
    try:
        waker = Waker()
        source, theirs = os.pipe()
        widen(source)
        passing = Passing(source, 1, watching, waker.wake)
        job = Job(command, signals, stdout=theirs)
    except NotStartedError as error:
        _complain(str(error))
        return error.exit_code
    except OSError as error:  # too many files are open
        _complain(f"cannot start {harmless(command[0])}: {error.strerror}")
        return NOT_EXECUTABLE
    os.close(theirs)
    with signals_stay_here():
        told.start()
    run = Run(job, passing, watching, signals, waker, say, on_loop=chosen.on_loop, grace=chosen.grace)
    ended = run.until_it_ends()
    job.give_back()
    for line in _last_words(watching, passing.failure, ended.halt):
        say(line)
    if chosen.json:
        told.say(_report(watching, ended.halt))
    told.end(LAST_WORDS_SECONDS)
    if ended.halt is None:
        job.end_like_it()
    return ended.code


def _last_words(watching: Watching, failure: OSError | None, halt: Seen | None) -> Iterator[str]:
    """What there is to say at the end; why it was stopped comes last."""
    stream = watching.stream
    if failure is not None:
        yield f"cannot write to stdout: {failure.strerror}"
    if watching.failure is not None:
        yield words.broken(watching.failure)
    if stream.first_unread is not None:
        yield words.unread(stream.unread, stream.first_unread)
    if halt is not None:
        yield _explanation(watching, halt)


def _explanation(watching: Watching, halt: Seen) -> str:
    return words.stopped(halt.verdict, calls=halt.calls, has_run=halt.has_run, format_name=watching.stream.name)


def _report(watching: Watching, halt: Seen | None) -> str:
    """The line of `--json`: the verdict that stopped it, else the last one, else that there is nothing to say."""
    verdict = watching.last if halt is None else halt.verdict
    if verdict is None:
        totals = Totals(tool_calls=0, steps=0, distinct_keys=0, max_key_repeat=0)
        verdict = Verdict(action=Action.ALLOW, turn_id="", findings=[], admitted=[], totals=totals)
    told = UNSET if halt is None else _explanation(watching, halt)
    verdict = replace(verdict, user_message=told, model_message=UNSET)  # its own words are for a host's buttons
    line = {
        "type": "turnguard",
        "verdict": verdict,
        "stopped": halt is not None,
        "format": watching.stream.name,
    }
    return json.dumps(to_builtins(line), separators=(",", ":"))  # in ASCII: a name may hold what a terminal obeys


def _guards(sources: Sources, transcript: Transcript | None) -> GuardsFor:
    """Makes the guards of conversations in the directory at hand. They raise SettingsError."""
    run_id = f"exec-{secrets.token_hex(8)}"
    session = sessions(sources, transcript)
    cwd = None
    with suppress(OSError):  # it was deleted
        cwd = str(Path.cwd())
    return lambda conversation: session(conversation or run_id, cwd)


def _complain(why: str) -> int:
    with suppress(OSError):
        os.write(STDERR, f"turnguard exec: {why}\n".encode("utf-8", "backslashreplace"))
    return MISUSE


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard exec",
        usage="turnguard exec [options] -- COMMAND...",
        description="Runs an agent that works without a person. Its output passes as it is; when the agent loops, it "
        "is stopped, and stderr says why.",
        epilog="Example: turnguard exec -- codex exec --json 'fix the tests'. Guarded are streams of: "
        f"{', '.join(each.name for each in LIVE_FORMATS)}. Exits with the command's own code, or 128 and the number of "
        "the signal that ended it; with 86 when the guard stopped it, with 127 or 126 when it cannot be started, with "
        "74 when it succeeded and its output could not be written, with 2 when the arguments do not fit.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--on-loop", choices=ON_LOOP, default="halt", help="stop the command, or only warn; default: halt")
    add(
        "--grace",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help="how long a stopped command has after SIGINT before it gets SIGTERM, and then SIGKILL; default: 10",
    )
    add("--json", action="store_true", help="say the verdict as a line of JSON, the last on stderr")
    add(
        "--format",
        choices=[each.name for each in LIVE_FORMATS],
        metavar="FORMAT",
        help="take stdout for a stream of this format from its first line on",
    )
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as `turnguard settings` names it")
    add("--record", type=Path, metavar="FILE", help="append what the guards heard, for `turnguard replay`")
    return parser
