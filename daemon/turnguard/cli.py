"""The command line. What a command needs is imported when it runs: a hook must not wait for a language server.

Each command is a module with `main(argv)`, which returns the exit code, and `parser()`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from turnguard import __version__

INTERRUPTED = 130
"""What shells give for a program that Ctrl-C ended."""

MISUSE = 2

UNREAD = 141
"""The same for one that wrote to a pipe that nobody reads any more."""


class Command(NamedTuple):
    """A command: its module, and what it does."""

    module: str
    summary: str


COMMANDS: Final = {
    "acp": Command("turnguard.acp.command", "stand in front of an ACP agent: turnguard acp [options] -- AGENT..."),
    "serve": Command("turnguard.service.command", "serve an editor or another host over stdio (JSON-RPC, LSP frames)"),
    "exec": Command("turnguard.headless.exec", "run an agent without a person, guarded: turnguard exec -- COMMAND..."),
    "hook": Command("turnguard.commands.hook", "guard an agent through its hooks; `turnguard hook install` sets it up"),
    "replay": Command("turnguard.commands.replay", "show where turns of transcripts would have been stopped"),
    "explain": Command("turnguard.commands.explain", "explain one turn of a transcript: what repeated, and where"),
    "settings": Command("turnguard.commands.settings", "show which settings hold in a directory, and why"),
    "trust": Command("turnguard.commands.trust", "let a project's settings file loosen settings too"),
    "completion": Command("turnguard.reference", "print a script that completes commands in a shell"),
    "demo": Command("turnguard.demo", "show a stuck turn being stopped and a productive one going on"),
}


class Module(Protocol):
    """The module of a command."""

    def main(self, argv: Sequence[str], /) -> int:
        """Runs the command; its exit code. Exits with 2 when the arguments cannot be understood."""
        ...

    def parser(self) -> argparse.ArgumentParser:
        """What it understands."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code. Exits with 2 when the arguments cannot be understood."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv and argv[0] in COMMANDS:
            return load(argv[0]).main(argv[1:])
        if not argv:
            parser().print_help(sys.stderr)
            return MISUSE
        parser().parse_args(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python would flush at the end
        return UNREAD
    raise AssertionError("argparse has exited")


def load(name: str) -> Module:
    """The module of a command."""
    return cast("Module", import_module(COMMANDS[name].module))


def parser() -> argparse.ArgumentParser:
    """What stands before a command."""
    parser = argparse.ArgumentParser(
        prog="turnguard",
        description="Tells a productive long agent turn from a stuck one, and stops the stuck one.",
        epilog="turnguard COMMAND --help says more.",
    )
    parser.add_argument("--version", action="version", version=f"turnguard {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary, add_help=False)
    return parser
