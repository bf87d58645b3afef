"""`turnguard explain FILE`: the evidence of one turn, in plain words."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console

from turnguard.arguments import Parser
from turnguard.commands.terminal import BOLD, FINE, QUIET, REFUSED, console, line
from turnguard.commands.transcripts import FORMATS_ARE_TOLD, RECOGNISED, is_preset, path_in, say_problems, settings_of
from turnguard.core.messages import fact_of
from turnguard.headless.evidence import Repeated, repeated
from turnguard.headless.files import open_transcript
from turnguard.headless.pieces import is_in_pieces
from turnguard.headless.replay import replay
from turnguard.headless.replayed import Turn
from turnguard.headless.words import WOULD_HAVE, many
from turnguard.transcript import UnreadableError

MAX_REPEATED = 12
"""Repeated calls that are listed; there is a word for the rest."""

MAX_DIGITS = 12
"""Of the number of a turn."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with MISUSE when the arguments cannot be understood."""
    understood = parser()
    arguments = understood.parse_args(argv)
    settings = settings_of(understood, arguments.set)
    file = Path(arguments.file)
    try:
        if is_preset(arguments.file):
            understood.error(f"{file} is an agent; expected one transcript, and turnguard replay {file} lists its own")
        if file.is_dir() and not is_in_pieces(file):
            understood.error(f"{file} is a folder; expected one transcript of it")
        transcript = open_transcript(file, RECOGNISED, name=arguments.format)
        turns = list(replay(transcript, settings))
    except UnreadableError as error:
        understood.error(f"{file}: {error.message}. {FORMATS_ARE_TOLD}")
    except OSError as error:
        understood.error(f"{file}: {error.strerror or error}")
    say_problems(console(sys.stderr), transcript.problems, transcript.unread)
    out = console()
    turn = _chosen(turns, arguments.turn, arguments.session)
    if turn is None:
        console(sys.stderr).print(line(f"{file} has no such turn; it has {_in_sessions(turns)}."))
        return REFUSED
    _explain(out, f"{file}", transcript.format.name, turn, turns)
    return FINE


def _in_sessions(turns: Sequence[Turn]) -> str:
    """How many turns there are, by session where there are several."""
    by_session = Counter(each.session for each in turns)
    if len(by_session) < 2:
        return many(len(turns), "turn")
    parts = [
        f"{count:,} of {f'session {name}' if name else 'its first session'}"
        for name, count in by_session.most_common(5)
    ]
    more = f" and of {len(by_session) - 5:,} more sessions" if len(by_session) > 5 else ""
    return f"{many(len(turns), 'turn')}: {', '.join(parts)}{more}"


def _chosen(turns: Sequence[Turn], number: int | None, session: str | None) -> Turn | None:
    """The turn that was asked for; else the first that would have been stopped or warned, or the longest."""
    wanted = [turn for turn in turns if number in (None, turn.number) and session in (None, turn.session)]
    if number is not None:
        return next(iter(wanted), None)
    halted = [turn for turn in wanted if turn.halt] or [turn for turn in wanted if turn.sights]
    return halted[0] if halted else max(wanted, key=lambda turn: turn.calls, default=None)


def _explain(out: Console, file: str, format_name: str, turn: Turn, turns: Sequence[Turn]) -> None:
    sessions = len({each.session for each in turns})
    name = f"session {turn.session}" if turn.session else "the first session"
    of = f", {name} of {sessions}" if sessions > 1 else f", {name}" if turn.session else ""
    count = sum(each.session == turn.session for each in turns)
    out.print(
        line((f"Turn {turn.number}", BOLD), f" of {many(count, 'turn')} in {file}", (f"  {format_name}{of}", QUIET))
    )
    lasted = _seconds(turn.began, turn.ended)
    took = f" It took {_shown(lasted)}." if lasted else ""
    repeats = turn.repeats()
    out.print(
        line(f"{many(turn.calls, 'call')} in {many(turn.steps, 'step')}, {len(repeats):,} of them different.{took}")
    )
    if turn.compactions:
        where = ", ".join(str(each) for each in turn.compactions[:10])
        out.print(line(f"The context was compacted after call {where}."))
    _print_repeated(out, repeated(turn))
    _print_said(out, turn)


def _print_repeated(out: Console, found: Sequence[Repeated]) -> None:
    out.print()
    if not found:
        out.print(line("No call was made twice."))
        return
    out.print(line(("Calls that were made more than once", BOLD)))
    for each in found[:MAX_REPEATED]:
        out.print(line(f"{each.times:>4} times  ", (each.identity.shown, BOLD), f": {each.results_in_words}", indent=2))
        out.print(line((f"call {each.first_call} to {each.last_call}{each.places_in_words}", QUIET), indent=14))
    if len(found) > MAX_REPEATED:
        out.print(line((f"and {many(len(found) - MAX_REPEATED, 'other')} less often.", QUIET), indent=2))


def _print_said(out: Console, turn: Turn) -> None:
    out.print()
    if not turn.sights:
        out.print(line("No guard would have said anything."))
        return
    out.print(line(("What the guards would have said", BOLD)))
    for sight in turn.sights:
        finding = sight.finding
        would = WOULD_HAVE[finding.action]
        setting = f"  {finding.setting}" if isinstance(finding.setting, str) else ""
        what = f"before call {sight.call}, {would}: {fact_of(finding, sight.totals)}."
        out.print(line(what, (f"  {finding.guard}{setting}", QUIET), indent=2))
    halt = turn.halt
    if halt is None:
        return
    out.print()
    if not turn.saved:
        out.print(line("Nothing ran any more after that."))
        return
    began = turn.marks[halt.call - 1].at
    lasted = _seconds(began, turn.ended)
    time = f" and {_shown(lasted)}" if lasted else ""
    out.print(
        line((f"Stopped before call {halt.call}", BOLD), f", {many(turn.saved, 'call')}{time} would have been saved.")
    )


def _seconds(began: str | None, ended: str | None) -> float | None:
    """What lies between two times, None where one is not known."""
    try:
        return (datetime.fromisoformat(ended or "") - datetime.fromisoformat(began or "")).total_seconds()
    except (ValueError, TypeError):  # no such time, or one with a zone and one without
        return None


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} seconds" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0
    if number < 1:
        raise argparse.ArgumentTypeError("expected the number of a turn, from 1")
    return number


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard explain",
        description="Explains one turn of a transcript: which calls repeated, with which results and where, what the "
        "guards would have said, and what a halt would have saved. Arguments and outputs are not shown.",
        epilog="Example: turnguard explain session.jsonl --turn 3. Exits with 0, with 1 when there is no such turn, "
        "with 2 when the file or the arguments cannot be understood.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", type=path_in, metavar="FILE", help="a transcript")
    add("--turn", type=_number, metavar="N", help="default: the first that would have been stopped, or the longest")
    add("--session", metavar="ID", help="of which session, where the file has several")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as `turnguard settings` names it")
    add(
        "--format",
        choices=[each.name for each in RECOGNISED],
        metavar="FORMAT",
        help="what the file is; default: it is recognised",
    )
    return parser
