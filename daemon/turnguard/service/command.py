"""`turnguard serve`: the service for editors and other hosts."""

import argparse
from collections.abc import Sequence

from turnguard.arguments import Parser
from turnguard.settings.given import read_assignments
from turnguard.settings.problems import describe
from turnguard.settings.sources import Sources


def main(argv: Sequence[str]) -> int:
    """Serves until the client is gone; the exit code. Exits with 2 when the arguments cannot be understood."""
    understood = parser()
    arguments = understood.parse_args(argv)
    wrong = read_assignments(arguments.set).problems
    if wrong:
        understood.error("; ".join(map(describe, wrong)))
    from turnguard.service.loop import serve

    return serve(Sources("serve", assignments=arguments.set))


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard serve",
        description="Serves one client over stdin and stdout: JSON-RPC in LSP frames, as docs/protocol.md says.",
        epilog="Exits with 0 after `shutdown` and `exit`, with 1 when the client is gone without them, with 2 when the "
        "arguments do not fit.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="set a setting; a client's own stand above it"
    )
    parser.add_argument("--stdio", action="store_true", help="accepted because editors pass it; there is no other way")
    return parser
