"""`turnguard hook [AGENT]`: one call of an agent's hook, from stdin to stdout; `turnguard hook install AGENT`."""

import argparse
import gc
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from turnguard.harmless import harmless

FINE = 0
"""The exit code of a hook, whatever happens: agents take 2 for a refusal."""

STDIN, STDOUT, STDERR = 0, 1, 2
BLOCK_BYTES = 1024 * 1024

AGENTS = ("claude", "codex", "gemini", "qwen", "vscode")

INSTALL = "install"


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. A call of a hook ends the process, with 0; `install` exits with 2 on misuse."""
    if argv and argv[0] == INSTALL:
        from turnguard.commands import hook_install

        return hook_install.main(argv[1:])
    gc.disable()  # there is nothing to collect in a process that lives for one call
    try:
        _hear(argv)
    except Exception as error:  # nothing that is wrong here may stop an agent
        _say(f"turnguard hook: it did not guard this call: {type(error).__name__}")
    os._exit(FINE)  # taking Python down would take longer than all guards together, and nothing is left to be written


def _hear(argv: Sequence[str]) -> None:
    try:
        given, unknown = parser().parse_known_args(argv)
    except ValueError as error:
        _say(f"turnguard hook: it guards nothing: {error}")
        return
    if unknown or given.agent not in (None, *AGENTS):
        _say("turnguard hook: some arguments are not understood, see turnguard hook --help")
    if os.isatty(STDIN):
        _say("turnguard hook: agents run this, with JSON on stdin; see turnguard hook --help")
        return
    data = _read()
    from turnguard.headless.hooks.hearing import Hearing
    from turnguard.headless.hooks.store import Store
    from turnguard.settings.places import lasting_salt, state_dir
    from turnguard.settings.sources import Sources
    from turnguard.transcript import UnreadableError

    store = Store(state_dir() / "sessions")
    hearing = Hearing(store, Sources("hook", assignments=given.set), lasting_salt, _say)
    try:
        answer = hearing.answer(data, given.agent if given.agent in AGENTS else None)
    except UnreadableError as error:
        _say(f"turnguard hook: the input cannot be read: {error.message}")
        return
    _write(answer)


def _read() -> bytes:
    pieces: list[bytes] = []
    while piece := os.read(STDIN, BLOCK_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def _write(answer: bytes) -> None:
    left = memoryview(answer)
    with suppress(BrokenPipeError):
        while left:
            left = left[os.write(STDOUT, left) :]


def _say(words: str) -> None:
    with suppress(OSError):
        os.write(STDERR, f"{words}\n".encode("utf-8", "backslashreplace"))


class _Parser(argparse.ArgumentParser):
    """A parser that never exits because of what it does not understand."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(harmless(message))


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = _Parser(
        prog="turnguard hook",
        usage="turnguard hook [AGENT] [--set NAME=VALUE]\n       turnguard hook install AGENT [options]",
        description="Hears one call of an agent's hook on stdin and answers it on stdout.",
        epilog="Example: turnguard hook install claude --write. Exits with 0 whatever happens: nothing that goes wrong "
        "here stops an agent. `turnguard hook install --help` says how it is set up.",
        allow_abbrev=False,
    )
    parser.add_argument("agent", nargs="?", metavar="AGENT", help=f"{', '.join(AGENTS)}; default: by the input")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    return parser
