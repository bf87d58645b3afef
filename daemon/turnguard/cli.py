"""The command line. What a command needs is imported when it runs: a hook must not wait for a language server."""

import argparse
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
    arguments, rest = _parser().parse_known_args(argv)
    if arguments.command == "demo":
        from turnguard.demo import main as demo

        return demo(rest)
    if rest:
        _parser().error(f"unrecognized arguments: {' '.join(rest)}")
    from turnguard.service.loop import serve

    return serve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="turnguard", description="Tells a productive long agent turn from a stuck one, and stops the stuck one."
    )
    parser.add_argument("--version", action="version", version=f"turnguard {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    serve = commands.add_parser(
        "serve", help="serve an editor or another host over stdio (JSON-RPC, LSP frames)", allow_abbrev=False
    )
    serve.add_argument("--stdio", action="store_true", help="accepted because editors pass it; there is no other way")
    commands.add_parser("demo", help="show a stuck turn being stopped and a productive one going on", add_help=False)
    return parser
