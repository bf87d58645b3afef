"""`turnguard settings`: what holds in a directory and why, what is wrong in a file, and where files are."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET
from rich.console import Console

from turnguard.arguments import Parser
from turnguard.commands.terminal import BOLD, FINE, QUIET, REFUSED, WARNING, console, line, shown
from turnguard.settings import files, given, places
from turnguard.settings.layers import DEFAULT, PROJECT, USER
from turnguard.settings.problems import listed
from turnguard.settings.reference import schema_text
from turnguard.settings.sources import Sources
from turnguard.settings.table import BY_NAME, FACES
from turnguard_protocol.settings import SettingsProblem, SettingsReport, SettingValue

ACTIONS = {
    "check": "Say what is wrong in one settings file.",
    "path": "Print where your own settings file is, or would be.",
    "schema": "Print the JSON schema of settings files, for editors that complete by it.",
}


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with MISUSE when the arguments cannot be understood."""
    understood = parser()
    arguments = understood.parse_args(argv)
    match arguments.action:
        case "check":
            return _check(understood, arguments.file)
        case "path":
            sys.stdout.write(f"{places.user_file()}\n")
            return FINE
        case "schema":
            sys.stdout.write(schema_text())
            return FINE
        case _:
            return _show(understood, arguments)


def _show(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    project: Path = arguments.project
    if not project.is_dir():
        parser.error(f"{project} is no directory; expected the one that a session runs in")
    wrong = given.read_assignments(arguments.set).problems
    if wrong:
        parser.error("; ".join(map(files.describe, wrong)))
    sources = Sources(arguments.face, environ=os.environ, assignments=arguments.set)
    report = sources.report(str(project), agent_id=arguments.agent)
    problems = [] if report.problems is UNSET else report.problems
    if arguments.json:
        text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
        sys.stdout.write(f"{text}\n")
    else:
        _print_report(console(), report, problems)
    return REFUSED if problems else FINE


def _print_report(out: Console, report: SettingsReport, problems: Sequence[SettingsProblem]) -> None:
    width = max(len(value.name) for value in report.values)
    for value in report.values:
        _print_value(out, value, width)
    if problems:
        out.print()
        out.print(line(("What could not be taken; the rest holds:", BOLD)))
        _print_problems(out, problems)


def _print_value(out: Console, value: SettingValue, width: int) -> None:
    style = QUIET if value.origin == DEFAULT else BOLD
    origin = value.origin if value.source is UNSET else f"{value.origin}, {value.source}"
    if value.origin == DEFAULT:
        origin += "".join(f"; {other} in {listed(faces, 'and')}" for other, faces in _elsewhere(value))
    out.print(line(value.name.ljust(width), "  ", (shown(value.value), style), (f"  ({origin})", QUIET)))
    for ignored in () if value.ignored is UNSET else value.ignored:
        what = f"ignored {shown(ignored.value)} ({ignored.origin}): "
        out.print(line((what, WARNING), ignored.why, indent=4))


def _elsewhere(value: SettingValue) -> list[tuple[str, list[str]]]:
    """Defaults of other commands that differ from a value, and those commands."""
    row = BY_NAME[value.name]
    by_value: dict[str, list[str]] = {}
    for face in FACES:
        if row.default_for(face) != value.value:
            by_value.setdefault(shown(row.default_for(face)), []).append(face)
    return list(by_value.items())


def _print_problems(out: Console, problems: Sequence[SettingsProblem]) -> None:
    for problem in problems:
        out.print(line((files.describe(problem), WARNING)))


def _check(parser: argparse.ArgumentParser, file: Path) -> int:
    """Reads a file as it would be read where it is: one in a directory `.turnguard` is a project's."""
    file = file.absolute()
    is_projects = file.parent.name == places.PROJECT_FILE.parent.name
    origin, beneath = (PROJECT, file.parent.parent) if is_projects else (USER, None)
    reading = files.read_file(file, origin, beneath=beneath)
    if reading.digest is None and not reading.problems:
        parser.error(f"there is no file {file}; yours is {places.user_file()}, also where there is none yet")
    out = console()
    _print_problems(out, reading.problems)
    if not reading.problems:
        out.print(line(f"{file}: nothing is wrong"))
    return REFUSED if reading.problems else FINE


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard settings",
        description="Shows every setting that holds in a directory, where it comes from, and what was ignored.",
        epilog="Example: turnguard settings --face acp. Exits with 0, with 1 when there are problems, with 2 when the "
        "arguments do not fit.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--project", type=Path, default=Path(), metavar="DIR", help="a session's directory; default: where you are")
    add("--face", choices=FACES, default="serve", help="the command that it is for, since some defaults differ")
    add("--agent", metavar="ID", help="for sessions of this agent, whose block in `agents.list` is laid over the rest")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="try a value, as if given to that command")
    add("--json", action="store_true", help="print JSON, the answer to turnguard/settings in docs/protocol.md")
    actions = parser.add_subparsers(dest="action", metavar="action")
    for name, what in ACTIONS.items():
        action = actions.add_parser(name, help=f"{what[0].lower()}{what[1:-1]}", description=what)
        if name == "check":
            action.add_argument("file", type=Path, metavar="FILE", help="one in a directory .turnguard is a project's")
    return parser
