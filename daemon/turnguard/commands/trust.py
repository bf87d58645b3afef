"""`turnguard trust`: lets a project's file loosen settings, when a person says so at a terminal.

What is trusted is the very bytes that were shown: the file is read once, and the digest is that of what was read. What
it would change is computed over defaults and the person's own file alone, for every face: variables and options of the
moment would hide what the file does when they are not set.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from turnguard.arguments import Parser
from turnguard.commands.terminal import BOLD, FINE, MISUSE, QUIET, REFUSED, WARNING, console, is_terminal, line, shown
from turnguard.settings import files, places, trust
from turnguard.settings.described import listed
from turnguard.settings.layers import PROJECT, TRUSTED_PROJECT, USER, Layer, Merged
from turnguard.settings.table import FACES, ROWS, Face, Value

YES = "yes"


class Change(NamedTuple):
    """What trust does to one setting: its value before and after, as shown, and the faces in which that is so."""

    name: str
    before: str
    after: str
    faces: tuple[Face, ...]


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with MISUSE when the arguments cannot be understood."""
    arguments = parser().parse_args(argv)
    if arguments.list:
        return _list()
    if arguments.revoke is not None:
        return _revoke(arguments.revoke)
    return _trust(arguments.directory)


def changes(own: Mapping[str, Value], project: Mapping[str, Value]) -> list[Change]:
    """What trusting a project's values changes over a person's own. All of it loosens: what tightens holds anyway.

    Long ones come first, so that none of them moves another out of sight.
    """
    found: dict[tuple[str, str, str], Change] = {}
    for face in FACES:
        before = Merged([Layer(USER, own)], [Layer(PROJECT, project)], face=face).held
        after = Merged([Layer(USER, own), Layer(TRUSTED_PROJECT, project)], face=face).held
        for name in (row.name for row in ROWS if before[row.name].value != after[row.name].value):
            key = (name, shown(before[name].value), shown(after[name].value))
            faces = found[key].faces if key in found else ()
            found[key] = Change(*key, (*faces, face))
    return sorted(found.values(), key=lambda change: -sum(map(len, change[:3])))


def _trust(directory: Path) -> int:
    screen = sys.stdout if is_terminal(sys.stdout) else sys.stderr
    if not (is_terminal(sys.stdin) and is_terminal(screen)):
        return _refused(
            "type this yourself at a terminal: it does not work through a pipe, on stdin or on both stdout and stderr"
        )
    real = Path(places.real_directory(directory))
    file = real / places.PROJECT_FILE
    reading = files.read_file(file, PROJECT, beneath=real)
    if reading.digest is None:
        why = [files.describe(problem) for problem in reading.problems] or [f"there is no file {file}"]
        return _refused(*why)
    out = console(screen)
    _explain(out, file, reading)
    out.print(f"Type {YES} to trust this file as it is now: ", end="")
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        out.print()
    if answer.strip() != YES:
        out.print("Nothing was trusted.")
        return REFUSED
    trust.trust(real, reading.digest, datetime.now(UTC))
    out.print(line(f"{real} is trusted until that file changes; from the next turn on it holds."))
    return FINE


def _explain(out: Console, file: Path, reading: files.Reading) -> None:
    own = files.read_file(places.user_file(), USER)
    out.print(line((str(file), BOLD)))
    for problem in (*own.problems, *reading.problems):
        out.print(line((files.describe(problem), WARNING)))
    loosened = changes(own.values, reading.values)
    out.print("Trusted, it would loosen:" if loosened else "It would loosen nothing as your settings are now.")
    for change in loosened:
        where = "" if len(change.faces) == len(FACES) else f"  (in {listed(change.faces, 'and')})"
        arrow = (f": {change.before} -> {change.after}", WARNING)
        out.print(line(change.name, arrow, (where, QUIET), indent=2))
    already = [name for name in reading.values if name not in {change.name for change in loosened}]
    if already:
        out.print(line(f"Trusted or not, this holds: {', '.join(already)}"))
    out.print("It would stand above your own settings file also when you make that stricter.")


def _list() -> int:
    out = console()
    trusted = trust.trusted()
    if not trusted:
        out.print(line("No project is trusted."))
    for each in trusted:
        out.print(line(each.directory, (f"  since {each.since}  {_state(each)}", QUIET)))
    return FINE


def _state(trusted: trust.Trust) -> str:
    directory = Path(trusted.directory)
    digest = files.read_file(directory / places.PROJECT_FILE, PROJECT, beneath=directory).digest
    if digest is None:
        return "does not hold: there is no such file any more"
    return "holds" if digest == trusted.digest else "does not hold: its file has changed"


def _revoke(directory: Path) -> int:
    real = Path(places.real_directory(directory))
    if not trust.revoke(real):
        return _refused(f"{real} was not trusted; turnguard trust --list shows what is", code=REFUSED)
    console().print(line(f"{real} is not trusted any more."))
    return FINE


def _refused(*why: str, code: int = MISUSE) -> int:
    err = console(sys.stderr)
    for each in why:
        err.print(line(f"turnguard trust: {each}"))
    return code


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard trust",
        description="Lets the settings file of a project loosen settings too. Wants a terminal, and a typed yes.",
        epilog="Example: turnguard trust . Exits with 0, with 1 when it was not done, with 2 when arguments do not fit "
        "or there is no terminal.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="trust its .turnguard/settings.json")
    what.add_argument("--list", action="store_true", help="print what was trusted, and whether it still holds")
    what.add_argument("--revoke", type=Path, metavar="DIR", help="take it back")
    return parser
