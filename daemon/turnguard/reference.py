"""All commands at once: `turnguard completion SHELL`, and the page docs/cli.md (`python -m turnguard.reference`)."""

import argparse
import sys
from collections.abc import Iterator, Sequence

import shtab

from turnguard.cli import COMMANDS, load
from turnguard.cli import parser as top

WHERE = {
    "bash": "turnguard completion bash > ~/.local/share/bash-completion/completions/turnguard",
    "zsh": 'turnguard completion zsh > "${fpath[1]}/_turnguard"',
    "tcsh": "turnguard completion tcsh >> ~/.tcshrc",
}
"""The shells, and where each looks for the script."""

INTRODUCTION = """\
# The command line

<!-- Made by `python -m turnguard.reference > docs/cli.md`; a test keeps it so. -->

`turnguard --version` prints the version, `turnguard COMMAND --help` this page's text. Colours only at a terminal, and
never where `NO_COLOR` is set. What goes wrong is one line on stderr, and an exit code that is not 0.
"""


def main(argv: Sequence[str]) -> int:
    """Prints a script that completes commands. Exits with 2 when the arguments cannot be understood."""
    shell = parser().parse_args(argv).shell
    sys.stdout.write(f"{shtab.complete(whole(), shell=shell)}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """What `turnguard completion` understands."""
    lines = "\n".join(f"  {line}" for line in WHERE.values())
    parser = argparse.ArgumentParser(
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
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            action.choices |= {name: load(name).parser() for name in COMMANDS}  # pyright: ignore[reportUnknownMemberType]
    return parser


def page() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *(line for name in COMMANDS for line in _section(load(name).parser()))])


def _section(parser: argparse.ArgumentParser, *, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {parser.prog}\n"
    if parser.description:
        yield f"{parser.description}\n"
    rows: list[str] = []
    below: list[argparse.ArgumentParser] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            below += action.choices.values()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif not isinstance(action, argparse._HelpAction):  # pyright: ignore[reportPrivateUsage]
            rows.append(f"| {_names(action)} | {_help(action)} |")
    if rows:
        yield "\n".join(["| | |", "| --- | --- |", *rows, ""])
    if parser.epilog:
        yield f"{_epilog(parser.epilog)}\n"
    for each in below:
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
