"""`turnguard replay PATH...`: where the guards would have stopped the turns of transcripts."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import repeat, tee
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from turnguard import __version__
from turnguard.arguments import Parser
from turnguard.commands.terminal import BOLD, QUIET, REFUSED, WARNING, console, is_terminal, line, print_json
from turnguard.commands.transcripts import PRESETS, RECOGNISED, Reading, is_preset, path_in, settings_of
from turnguard.core.messages import fact_of
from turnguard.harmless import harmless
from turnguard.headless.files import Transcript, find, kept_by, once
from turnguard.headless.processes import MAX_JOBS, can_be_shared, in_order, worthwhile
from turnguard.headless.replay import replay
from turnguard.headless.replayed import Sight, Turn
from turnguard.headless.report import Report
from turnguard.headless.rows import row_of
from turnguard.headless.words import WOULD_HAVE, many
from turnguard.settings.given import read_assignments
from turnguard.settings.problems import describe
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action

Pair = tuple[Turn, Turn | None]
"""A turn, and the same turn under the settings of `--compare`."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with MISUSE when the arguments cannot be understood."""
    understood = parser()
    arguments = understood.parse_args(argv)
    settings = settings_of(understood, arguments.set)
    other = _compared(understood, arguments)
    named = [Path(each) for each in arguments.path if not is_preset(each)]
    try:
        found = find(named)
    except FileNotFoundError as error:
        understood.error(f"there is no {error.args[0]}; expected a path, or one of: {', '.join(sorted(PRESETS))}")
    kept = {each: kept_by(PRESETS[each].kept) for each in arguments.path if is_preset(each)}
    files = once([*found.files, *(file for files in kept.values() for file in files)])
    reading = Reading(named, arguments.format, found)
    for name in (name for name, files in kept.items() if not files):
        reading.note_absent(name)
    jobs = worthwhile(files) if arguments.jobs is None else arguments.jobs
    replayed = _replayed(reading, files, settings, other, jobs)
    wanted = (each for each in replayed if _is_wanted(each.pair, arguments.only))
    if arguments.html is not None:
        _write_report(understood, arguments, wanted)
    elif arguments.json:
        for each in wanted:
            _print_row(each)
    else:
        _print_turns(console(), wanted, reading, is_compared=other is not None)
    return reading.conclude(console(sys.stderr), is_verbose=arguments.verbose)


class Replayed(NamedTuple):
    """A turn and where it comes from."""

    file: Path
    format_name: str
    pair: Pair


def _compared(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> SettingsInForce | None:
    """What holds under `--compare`; None where there is nothing to compare with."""
    if not arguments.compare:
        return None
    problems = [
        msgspec.structs.replace(each, source="--compare") for each in read_assignments(arguments.compare).problems
    ]
    if problems:
        parser.error("; ".join(map(describe, problems)))
    return settings_of(parser, [*arguments.set, *arguments.compare])


def _replayed(
    reading: Reading, files: Sequence[Path], settings: SettingsInForce, other: SettingsInForce | None, jobs: int
) -> Iterator[Replayed]:
    """The turns of all files, in their order; with more than one job other processes read the files."""
    with _progress() as progress:
        if jobs == 1 or not all(map(can_be_shared, files)):
            for path in progress.track(files, description="replaying"):
                yield from _of_file(path, reading, settings, other)
            return
        work = partial(_read, reading=reading.fresh(), settings=settings, other=other)
        try:
            for read, turns in progress.track(in_order(work, files, jobs), total=len(files), description="replaying"):
                reading.add(read)
                yield from turns
        except BrokenProcessPool:
            words = "A process that read a file was killed; with --jobs 1 there is only one."
            console(sys.stderr).print(line((words, WARNING)))
            raise SystemExit(REFUSED) from None


def _read(
    path: Path, reading: Reading, settings: SettingsInForce, other: SettingsInForce | None
) -> tuple[Reading, list[Replayed]]:
    """What came of reading one file, in a process of its own."""
    replayed = list(_of_file(path, reading, settings, other))
    return reading, replayed


def _of_file(
    path: Path, reading: Reading, settings: SettingsInForce, other: SettingsInForce | None
) -> Iterator[Replayed]:
    transcript = reading.open(path)
    if transcript is not None:
        for pair in _turns(transcript, settings, other):
            yield Replayed(path, transcript.format.name, pair)
        reading.close(transcript)


def _turns(transcript: Transcript, settings: SettingsInForce, other: SettingsInForce | None) -> Iterable[Pair]:
    if other is None:
        return zip(replay(transcript, settings), repeat(None), strict=False)
    first, second = tee(transcript)
    return zip(replay(first, settings), replay(second, other), strict=True)


def _is_wanted(pair: Pair, only: str | None) -> bool:
    """Whether a turn is to be shown. Both settings of a comparison count."""
    turns = [turn for turn in pair if turn is not None]
    match only:
        case "halted":
            return any(turn.halt for turn in turns)
        case "warned":
            return any(turn.sights for turn in turns)
        case _:
            return True


def _write_report(
    understood: argparse.ArgumentParser, arguments: argparse.Namespace, replayed: Iterable[Replayed]
) -> None:
    file: Path = arguments.html
    title = ", ".join(each if is_preset(each) else Path(each).resolve().name or each for each in arguments.path)
    report = Report(title=title, version=__version__, compared=", ".join(arguments.compare) or None)
    folders = [Path(each) for each in arguments.path if Path(each).is_dir()]
    for each in replayed:
        turns = [turn for turn in each.pair if turn is not None]
        report.add(_short(each.file, folders), each.format_name, *turns)
        if arguments.json:
            _print_row(each)
    try:
        file.write_bytes(report.page().encode("utf-8", "backslashreplace"))
    except OSError as error:
        understood.error(f"cannot write {file}: {error.strerror or error}")
    console(sys.stderr).print(line(f"Written to {file}: {many(report.turns, 'turn')}, {report.drawn:,} of them drawn."))


def _print_row(replayed: Replayed) -> None:
    print_json(msgspec.json.encode(row_of(str(replayed.file), replayed.format_name, *replayed.pair)))


def _short(file: Path, folders: Sequence[Path]) -> str:
    """A file by its place in the folder that was asked for; else by its name: a page may be shown to others."""
    for folder in folders:
        if file.is_relative_to(folder):
            return str(file.relative_to(folder))
    return file.name


# --- for people -------------------------------------------------------------------------------------------------------


class Totals:
    """What all turns come to."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.turns = self.calls = self.longest = 0
        self.by_guard: Counter[tuple[str, str, Action, bool]] = Counter()
        self.saved = Counter[bool]()
        self.halted = Counter[bool]()

    def add(self, each: Replayed) -> None:
        """Counts a turn."""
        turn = each.pair[0]
        self.files.add(each.file)
        self.turns += 1
        self.calls += turn.calls
        self.longest = max(self.longest, turn.calls)
        for is_other, under in enumerate(each.pair):
            if under is not None:
                self.halted[bool(is_other)] += under.halt is not None
                self.saved[bool(is_other)] += under.saved
                for sight in under.sights:
                    finding = sight.finding
                    self.by_guard[finding.guard, finding.loop_type, finding.action, bool(is_other)] += 1


def _print_turns(out: Console, replayed: Iterable[Replayed], reading: Reading, *, is_compared: bool) -> None:
    """A line a turn that made calls, and a line for each thing that a guard would have said; then the totals."""
    totals = Totals()
    shown: Path | None = None
    for each in replayed:
        totals.add(each)
        if not each.pair[0].calls:
            continue
        if each.file != shown:
            shown = each.file
            out.print(line((str(shown), BOLD), (f"  {each.format_name}", QUIET)))
        _print_turn(out, each.pair)
    if totals.turns:
        _print_totals(out, totals, is_compared)
    elif reading.transcripts:
        out.print(line(f"No turns to show in {many(reading.transcripts, 'transcript')}."))


def _print_turn(out: Console, pair: Pair) -> None:
    turn, other = pair
    (most, count), distinct = turn.repeats()[0], len(turn.repeats())
    session = f" of {turn.session}" if turn.session else ""
    most_often = f", {most.shown} {count} times" if count > 1 else ""
    line_number = f"  line {turn.place}" if turn.place is not None else ""
    what = f"{many(turn.calls, 'call')}, {distinct:,} distinct{most_often}"
    out.print(line(f"turn {turn.number}{session}: {what}", (line_number, QUIET), indent=2))
    for sight in turn.sights:
        _print_sight(out, turn, sight, "")
    if other is not None and [_what(sight) for sight in other.sights] != [_what(sight) for sight in turn.sights]:
        for sight in other.sights:
            _print_sight(out, other, sight, "compared: ")
        if not other.sights:
            out.print(line(("compared: nothing", QUIET), indent=4))


def _print_sight(out: Console, turn: Turn, sight: Sight, lead: str) -> None:
    finding = sight.finding
    style = {Action.HALT: "bold red", Action.WARN: WARNING}.get(finding.action, "")
    saved = f" ({many(turn.saved, 'call')} saved)" if sight is turn.halt and turn.saved else ""
    parts: list[str | tuple[str, str]] = [
        (f"{lead}before call {sight.call}: ", QUIET),
        (f"{WOULD_HAVE[finding.action]}, ", style),
        f"{fact_of(finding, sight.totals)}{saved}",
        (f"  {finding.guard}", QUIET),
    ]
    out.print(line(*parts, indent=4))


def _what(sight: Sight) -> tuple[object, ...]:
    return sight.call, sight.finding.guard, sight.finding.loop_type, sight.finding.action


def _print_totals(out: Console, totals: Totals, is_compared: bool) -> None:
    count = len(totals.files)
    out.print()
    out.print(
        line(
            (f"{many(totals.turns, 'turn')} in {many(count, 'transcript')}", BOLD),
            f", {many(totals.calls, 'call')}, {totals.longest:,} in the longest turn.",
        )
    )
    for is_other in (False, True) if is_compared else (False,):
        under = "Under --compare they" if is_other else "The guards"
        stopped, saved = totals.halted[is_other], totals.saved[is_other]
        out.print(line(f"{under} would have stopped {many(stopped, 'turn')} and saved {many(saved, 'call')}."))
    kinds = sorted({key[:3] for key in totals.by_guard}, key=lambda key: (key[0], key[1], key[2].value))
    if not kinds:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=QUIET)
    table.add_column("guard")
    table.add_column("loop")
    table.add_column("would have")
    table.add_column("turns", justify="right")
    if is_compared:
        table.add_column("under --compare", justify="right")
    for guard, loop, action in kinds:
        counts = [totals.by_guard[guard, loop, action, is_other] for is_other in (False, True)]
        shown = counts if is_compared else counts[:1]
        table.add_row(guard, harmless(loop), action.value, *(f"{each:,}" for each in shown))
    out.print(table)


def _progress() -> Progress:
    """A bar on stderr, where that is a terminal; it is gone when the work is done."""
    err = console(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = is_terminal(sys.stderr)
    return Progress(*columns, console=err, transient=True, disable=not is_shown, redirect_stdout=False)


def _jobs(text: str) -> int:
    jobs = int(text) if text.isdecimal() else 0
    if not 1 <= jobs <= MAX_JOBS:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MAX_JOBS}")
    return jobs


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard replay",
        description="Replays transcripts of agents through the guards and shows, for every turn, where each would have "
        "warned or stopped it. Nothing of what the agents did is shown but names of tools and commands.",
        epilog=f"Example: turnguard replay claude --only halted. Names that stand for an agent's own folder: "
        f"{', '.join(sorted(PRESETS))}. Formats: {', '.join(format_.name for format_ in RECOGNISED)}. "
        "Exits with 0, with 1 when a named file could not be read or there was nothing to replay, with 2 when the "
        "arguments do not fit.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("path", nargs="+", type=path_in, metavar="PATH", help="a transcript, a folder of them, or the name of an agent")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, as `turnguard settings` names it")
    add(
        "--compare",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="replay also with this set, and show both side by side",
    )
    add("--only", choices=("halted", "warned"), help="only turns that would have been stopped, or at least warned")
    add(
        "--format",
        choices=[format_.name for format_ in RECOGNISED],
        metavar="FORMAT",
        help="take all files for transcripts of this format",
    )
    add("--jobs", type=_jobs, metavar="N", help="read files with N processes at once; by default as many as pay")
    add("--html", type=Path, metavar="FILE", help="write a page with distributions and a timeline of each such turn")
    add("--json", action="store_true", help="one object a turn; docs/headless.md has the fields")
    add("-v", "--verbose", action="store_true", help="name the files that are no transcripts of a known format, too")
    return parser
