"""The command line. What a command needs is imported when it runs: a hook must not wait for a language server.

Each command is a module with `main(argv)`, which returns the exit code, and `parser()`.
"""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from turnguard import __version__
from turnguard.arguments import Parser

INTERRUPTED = 130
"""What shells give for a program that Ctrl-C ended."""

FAILED, MISUSE = 1, 2

UNWRITTEN = 74
"""What was to be printed could not be written (EX_IOERR of sysexits.h), as `turnguard exec` says it."""

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


class _Closed(io.TextIOBase):
    """Stands for a stdout that was closed before turnguard began."""

    _is_missed = False

    def write(self, text: str, /) -> int:
        """Raises OSError."""
        self._is_missed = True
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def flush(self) -> None:
        """Raises OSError, once, when something was to be written: argparse keeps that to itself."""
        is_missed, self._is_missed = self._is_missed, False
        if is_missed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Nowhere(io.TextIOBase):
    """Stands for such a stderr: what is said there is not heard, and that is all."""

    def write(self, text: str, /) -> int:
        """Drops the text."""
        return len(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; its exit code. Exits with 2 when the arguments cannot be understood."""
    argv = sys.argv[1:] if argv is None else argv
    _make_writable()
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()  # what cannot be written is told here, and not when Python ends
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return UNREAD
    except MemoryError:
        _complain("there is not enough memory")
        return FAILED
    except OSError as error:
        if error.filename is not None:
            _complain(f"{error.filename!r}: {error.strerror}")
            return FAILED
        _give_up_stdout()
        _complain(f"cannot write to stdout: {error.strerror or error}")
        return UNWRITTEN


def _run(argv: Sequence[str]) -> int:
    if argv and argv[0] in COMMANDS:
        return load(argv[0]).main(argv[1:])
    if not argv:
        parser().print_help(sys.stderr)
        return MISUSE
    if not argv[0].startswith("-"):
        parser().error(f"there is no command {argv[0]!r}{_meant(argv[0])}")
    if argv[0] not in ("-h", "--help", "--version"):
        parser().error(f"there is no option {argv[0]!r} before a command; turnguard --help lists them")
    parser().parse_args(argv[:1])
    raise AssertionError("argparse has exited")


def _meant(name: str) -> str:
    """A command with nearly this name, in words."""
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {near[0]}?" if near else "; turnguard --help lists them"


def _make_writable() -> None:
    """Lets every character be written, as an escape where the encoding has no other way, and closed streams stand."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = sys.stdout or _Closed()
    sys.stderr = sys.stderr or _Nowhere()


def _give_up_stdout() -> None:
    """Lets what Python would flush at the end go nowhere."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(words: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"turnguard: {words}\n")


def load(name: str) -> Module:
    """The module of a command."""
    return cast("Module", import_module(COMMANDS[name].module))


def parser() -> argparse.ArgumentParser:
    """What stands before a command."""
    parser = Parser(
        prog="turnguard",
        description="Tells a productive long agent turn from a stuck one, and stops the stuck one.",
        epilog="turnguard COMMAND --help says more.",
    )
    parser.add_argument("--version", action="version", version=f"turnguard {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.summary, add_help=False)
    return parser
