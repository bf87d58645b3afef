"""What `replay` and `explain` have in common: the transcripts that are asked for, and what of them cannot be read."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from turnguard.acp import recording
from turnguard.commands.terminal import FINE, QUIET, REFUSED, WARNING, line
from turnguard.headless.files import Found, Problem, Transcript, folders_of, open_transcript
from turnguard.headless.readers import FORMATS
from turnguard.headless.words import many
from turnguard.settings.guarded import in_force_of
from turnguard.settings.problems import describe
from turnguard.settings.sources import Sources
from turnguard.transcript import Format, UnreadableError
from turnguard_protocol.settings import SettingsInForce

RECOGNISED: tuple[Format, ...] = (*FORMATS, recording.FORMAT)

PRESETS = {format_.name: format_ for format_ in RECOGNISED if format_.kept}
"""Agents whose own folder is known, by the name that stands for it in place of a path."""

MAX_SHOWN_PROBLEMS = 20

FORMATS_ARE_TOLD = "turnguard replay --help names the formats that are read."


def is_preset(argument: str) -> bool:
    """Whether an argument is the name of an agent, and of no file."""
    return argument in PRESETS and not Path(argument).exists()


def path_in(text: str) -> str:
    """A path that was given. Raises ArgumentTypeError for one that is empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, which is not empty")
    return text


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
