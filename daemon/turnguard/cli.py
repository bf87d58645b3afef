"""The command line. What a command needs is imported when it runs: a hook must not wait for a language server."""

import argparse
import sys
from collections.abc import Sequence

from turnguard import __version__

_INTERRUPTED = 130  # what shells give for a program that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code. Exits with 2 when the arguments cannot be understood."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] == "acp":  # what follows `--` is the agent's, and argparse would look at it
        from turnguard.acp.command import main as acp

        return acp(argv[1:])
    arguments, rest = _parser().parse_known_args(argv)
    if arguments.command == "demo":
        from turnguard.demo import main as demo

        return demo(rest)
    if arguments.command == "settings":
        from turnguard.commands.settings import main as settings

        return settings(rest)
    if arguments.command == "trust":
        from turnguard.commands.trust import main as trust

        return trust(rest)
    if rest:
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    return _serve(arguments.set)


def _serve(assignments: Sequence[str]) -> int:
    from turnguard.settings.given import read_assignments
    from turnguard.settings.problems import describe
    from turnguard.settings.sources import Sources

    wrong = read_assignments(assignments).problems
    if wrong:
        _parser().error("; ".join(map(describe, wrong)))
    from turnguard.service.loop import serve

    return serve(Sources("serve", assignments=assignments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="turnguard", description="Tells a productive long agent turn from a stuck one, and stops the stuck one."
    )
    parser.add_argument("--version", action="version", version=f"turnguard {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    serve = commands.add_parser(
        "serve", help="serve an editor or another host over stdio (JSON-RPC, LSP frames)", allow_abbrev=False
    )
    serve.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set a setting; a client's own stand above it"
    )
    serve.add_argument("--stdio", action="store_true", help="accepted because editors pass it; there is no other way")
    commands.add_parser(
        "acp", help="stand in front of an ACP agent: turnguard acp [options] -- AGENT...", add_help=False
    )
    commands.add_parser("settings", help="show which settings hold in a directory, and why", add_help=False)
    commands.add_parser("trust", help="let a project's settings file loosen settings too", add_help=False)
    commands.add_parser("demo", help="show a stuck turn being stopped and a productive one going on", add_help=False)
    return parser
