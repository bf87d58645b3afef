"""All commands at once: `turnguard completion SHELL`, and the page docs/cli.md (`python -m turnguard.reference`)."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import shtab

from turnguard.arguments import Parser
from turnguard.cli import COMMANDS, load
from turnguard.cli import parser as top
from turnguard.commands import hook, hook_install, transcripts

WHERE = {
    "bash": "turnguard completion bash > ~/.local/share/bash-completion/completions/turnguard",
    "zsh": 'turnguard completion zsh > "${fpath[1]}/_turnguard"',
    "tcsh": "turnguard completion tcsh >> ~/.tcshrc",
}
"""The shells, and where each looks for the script."""

WHAT_IT_NAMES = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
"""How what a word stands for is completed, by the word that a command's help has for it."""

SEPARATED = ("acp", "exec")
"""Commands with another one behind `--`, whose words are completed as files."""

INTRODUCTION = """\
# The command line

<!-- Made by `python -m turnguard.reference > docs/cli.md`; a test keeps it so. -->

`turnguard --version` prints the version, `turnguard COMMAND --help` this page's text. Colours only at a terminal, and
never where `NO_COLOR` is set. What goes wrong is a line on stderr, after the usage where arguments do not fit, and an
exit code that is not 0: 74 when the output could not be written, 130 after Ctrl-C, 141 when nobody reads it any more.
"""


def main(argv: Sequence[str]) -> int:
    """Prints a script that completes commands. Exits with 2 when the arguments cannot be understood."""
    shell = parser().parse_args(argv).shell
    functions: Any = _functions()  # shtab takes one text for each shell too, which its types do not say
    sys.stdout.write(f"{shtab.complete(whole(), shell=shell, preamble=functions)}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """What `turnguard completion` understands."""
    lines = "\n".join(f"  {line}" for line in WHERE.values())
    parser = Parser(
        prog="turnguard completion",
        description="Prints a script that completes turnguard's commands and options in a shell.",
        epilog=f"Where it goes:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=sorted(WHERE), help="which shell")
    return parser


def whole() -> argparse.ArgumentParser:
    """One parser for all commands. Nothing that runs a command makes it, since it loads the modules of all of them."""
    parser = top()
    parsers = {name: load(name).parser() for name in COMMANDS} | {"hook": _hook()}
    for name in SEPARATED:
        parsers[name].add_argument("command", nargs="*", metavar="FILE", help="the command")
    _fill(parser, parsers)
    _complete_names(parser)
    [path] = [action for action in parsers["replay"]._actions if action.dest == "path"]  # pyright: ignore[reportPrivateUsage]
    path.complete = {"bash": "_turnguard_transcript", "zsh": "_turnguard_transcript", "tcsh": "f"}  # pyright: ignore[reportAttributeAccessIssue]
    return parser


def _hook() -> argparse.ArgumentParser:
    """`turnguard hook` with its first word as a command. It parses that itself, since a hook must never exit with 2."""
    parser = Parser(prog="turnguard hook")
    below = parser.add_subparsers()
    for name in (*hook.AGENTS, hook.INSTALL):
        below.add_parser(name, help=name)
    _fill(parser, {hook.INSTALL: hook_install.parser()})
    return parser


def _fill(parser: argparse.ArgumentParser, parsers: Mapping[str, argparse.ArgumentParser]) -> None:
    """Puts the parsers of commands in place of those that stand there."""
    for choices in _commands(parser):
        choices |= parsers


def _complete_names(parser: argparse.ArgumentParser) -> None:
    """Says of all arguments that are names of files that they are."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        kind = WHAT_IT_NAMES.get(str(action.metavar))
        if kind is not None:
            action.complete = kind  # pyright: ignore[reportAttributeAccessIssue]
    for choices in _commands(parser):
        for each in choices.values():
            _complete_names(each)


def _commands(parser: argparse.ArgumentParser) -> Iterator[dict[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            yield cast("dict[str, argparse.ArgumentParser]", action.choices)  # pyright: ignore[reportUnknownMemberType]


def _functions() -> dict[str, str]:
    """What the scripts call to complete what `turnguard replay` takes: an agent's name, or a file."""
    agents = " ".join(sorted(transcripts.PRESETS))
    return {
        "bash": f'_turnguard_transcript() {{\n  compgen -W \'{agents}\' -- "$1"\n  _shtab_compgen_files "$1"\n}}\n',
        "zsh": f"_turnguard_transcript() {{\n  _alternative 'agents:agent:({agents})' 'files:file:_files'\n}}\n",
    }


def page() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *(line for name in COMMANDS for line in _section(load(name).parser()))])


def _section(parser: argparse.ArgumentParser, *, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {parser.prog}\n"
    if parser.description:
        yield f"{parser.description}\n"
    unlisted = (argparse._HelpAction, argparse._SubParsersAction)  # pyright: ignore[reportPrivateUsage]
    actions = [each for each in parser._actions if not isinstance(each, unlisted)]  # pyright: ignore[reportPrivateUsage]
    rows = [f"| {_names(action)} | {_help(action)} |" for action in actions]
    if rows:
        yield "\n".join(["| | |", "| --- | --- |", *rows, ""])
    if parser.epilog:
        yield f"{_epilog(parser.epilog)}\n"
    for choices in _commands(parser):
        for each in choices.values():
            yield from _section(each, level=level + 1)


def _names(action: argparse.Action) -> str:
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest)
    if not action.option_strings:
        return f"`{value}`"
    names = ", ".join(action.option_strings)
    return f"`{names}`" if action.nargs == 0 else f"`{names} {value}`"


def _help(action: argparse.Action) -> str:
    return ((action.help or "") % vars(action)).replace("|", "\\|")


def _epilog(text: str) -> str:
    """Lines that are indented are commands."""
    if "\n" not in text:
        return text
    first, *commands = text.splitlines()
    return "\n".join([first, "", "```sh", *(line.strip() for line in commands), "```"])


if __name__ == "__main__":
    sys.stdout.write(page())
