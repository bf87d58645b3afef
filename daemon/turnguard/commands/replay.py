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
from turnguard.acp import recording
from turnguard.arguments import Parser
from turnguard.commands.terminal import (
    BOLD,
    FINE,
    QUIET,
    REFUSED,
    WARNING,
    console,
    is_terminal,
    line,
    print_json,
)
from turnguard.core.messages import fact_of
from turnguard.harmless import harmless
from turnguard.headless.files import Found, Problem, Transcript, find, folders_of, kept_by, once, open_transcript
from turnguard.headless.processes import MAX_JOBS, can_be_shared, in_order, worthwhile
from turnguard.headless.readers import FORMATS
from turnguard.headless.replay import Sight, Turn, replay
from turnguard.headless.report import Report
from turnguard.headless.rows import row_of
from turnguard.settings.given import read_assignments
from turnguard.settings.guarded import in_force_of
from turnguard.settings.problems import describe
from turnguard.settings.sources import Sources
from turnguard.transcript import Format, UnreadableError
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action

RECOGNISED: tuple[Format, ...] = (*FORMATS, recording.FORMAT)

PRESETS = {format_.name: format_ for format_ in RECOGNISED if format_.kept}
"""Agents whose own folder is known, by the name that stands for it in place of a path."""

MAX_SHOWN_PROBLEMS = 20

FORMATS_ARE_TOLD = "turnguard replay --help names the formats that are read."

WOULD_HAVE = {
    Action.ALLOW: "noted",
    Action.WARN: "warned",
    Action.RESTRICT: "no tools",
    Action.BLOCK: "refused",
    Action.HALT: "stopped",
}
"""What a guard would have done, in a word."""

Pair = tuple[Turn, Turn | None]
"""A turn, and the same turn under the settings of `--compare`."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with MISUSE when the arguments cannot be understood."""
    understood = parser()
    arguments = understood.parse_args(argv)
    settings = settings_of(understood, arguments.set)
    other = _compared(understood, arguments)
    named = [Path(each) for each in arguments.path if not _is_preset(each)]
    try:
        found = find(named)
    except FileNotFoundError as error:
        understood.error(f"there is no {error.args[0]}; expected a path, or one of: {', '.join(sorted(PRESETS))}")
    kept = {each: kept_by(PRESETS[each].kept) for each in arguments.path if _is_preset(each)}
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


class Reading:
    """What came of reading: how many transcripts there were, and what could not be read.

    `named`: the paths that were asked for.
    """

    def __init__(self, named: Iterable[Path], format_name: str | None, found: Found | None = None) -> None:
        self._named = set(named)
        self._format_name = format_name
        self._problems: list[Problem] = [] if found is None else list(found.problems)
        self._problems_within: list[Problem] = []
        self._unknown: list[Path] = []
        self._absent: list[str] = []
        self.transcripts = self._unread = 0

    def note_absent(self, name: str) -> None:
        """Nothing is kept by the agent of this name."""
        where = ", ".join(dict.fromkeys(str(folder) for folder in folders_of(PRESETS[name].kept)))
        self._absent.append(f"{name}: it keeps no transcripts in {where}; give the path where they are")

    def fresh(self) -> "Reading":
        """Another one of the same paths, of which nothing was read yet."""
        return Reading(self._named, self._format_name)

    def open(self, path: Path) -> Transcript | None:
        """A transcript; None when there is none that can be read."""
        try:
            transcript = open_transcript(path, RECOGNISED, name=self._format_name)
        except UnreadableError as error:
            if path in self._named:
                self._problems.append(Problem(path, None, error.message))
            else:
                self._unknown.append(path)
            return None
        except OSError as error:
            self._problems.append(Problem(path, None, f"it cannot be read: {error.strerror or error}"))
            return None
        self.transcripts += 1
        return transcript

    def close(self, transcript: Transcript) -> None:
        """Notes what could not be read of a transcript that was read to its end."""
        self._unread += transcript.unread
        self._problems_within += transcript.problems

    def add(self, other: "Reading") -> None:
        """Adds what came of reading other files."""
        self._problems += other._problems
        self._problems_within += other._problems_within
        self.transcripts += other.transcripts
        self._unread += other._unread
        self._unknown += other._unknown

    def conclude(self, err: Console, *, is_verbose: bool) -> int:
        """Says what could not be read. The exit code: REFUSED when that is everything, or a file that was named."""
        say_problems(err, [*self._problems, *self._problems_within], self._unread)
        for path in self._unknown if is_verbose else ():
            err.print(line((f"{path}: no transcript of a format that is known", QUIET)))
        if self._unknown:
            err.print(line((f"{many(len(self._unknown), 'file')} of no known format left out.", QUIET)))
        for words in self._absent:
            err.print(line(words))
        if not self.transcripts:
            err.print(line(("There was no transcript to replay.", WARNING), f" {FORMATS_ARE_TOLD}"))
        return REFUSED if self._problems or not self.transcripts else FINE


def say_problems(err: Console, problems: Sequence[Problem], unread: int) -> None:
    """Says what could not be read. `unread`: how many lines."""
    for problem in problems[:MAX_SHOWN_PROBLEMS]:
        where = f"{problem.file}:{problem.line}" if problem.line is not None else str(problem.file)
        err.print(line(f"{where}: ", (problem.message, WARNING)))
    if unread or len(problems) > MAX_SHOWN_PROBLEMS:
        err.print(line(f"{many(unread, 'line')} could not be read; the rest was."))


def settings_of(parser: argparse.ArgumentParser, assignments: Sequence[str]) -> SettingsInForce:
    """What holds for a replay: the person's own settings and these; a project's belong to sessions in its directory."""
    sources = Sources("replay", assignments=assignments)
    if sources.own_problems:
        parser.error("; ".join(map(describe, sources.own_problems)))
    found = sources.found(None)
    return in_force_of(sources.merged(found), found).own


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
    title = ", ".join(each if _is_preset(each) else Path(each).resolve().name or each for each in arguments.path)
    report = Report(title=title, version=__version__, compared=", ".join(arguments.compare) or None)
    folders = [Path(each) for each in arguments.path if Path(each).is_dir()]
    for each in replayed:
        turns = [turn for turn in each.pair if turn is not None]
        report.add(harmless(_short(each.file, folders)), each.format_name, *turns)
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


def many(count: int, what: str) -> str:
    """A number of things, in words."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _progress() -> Progress:
    """A bar on stderr, where that is a terminal; it is gone when the work is done."""
    err = console(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = is_terminal(sys.stderr)
    return Progress(*columns, console=err, transient=True, disable=not is_shown, redirect_stdout=False)


def _is_preset(argument: str) -> bool:
    return argument in PRESETS and not Path(argument).exists()


def path_in(text: str) -> str:
    """A path that was given. Raises ArgumentTypeError for one that is empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, which is not empty")
    return text


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
