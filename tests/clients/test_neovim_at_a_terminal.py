"""What a person sees and presses in Neovim who follows the README of clients/neovim."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.terminal import TMUX, Started, Terminal
from tests.clients.test_neovim import CLIENT, editors, pasted

DEMO = f":luafile {CLIENT / 'demo.lua'}"
WAITS = "Press ENTER"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None and "EDITORS_REQUIRED" not in os.environ, reason="needs tmux"),
]


@pytest.fixture(params=editors())
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Started:
    """Neovim with what the README says to paste; `options` are added to those of `start`."""

    @contextmanager
    def start(options: str = "patience_ms = 20000") -> Iterator[Terminal]:
        init = pasted(CLIENT / "README.md", "lua")[0]
        assert "'serve' } }" in init
        (tmp_path / "init.lua").write_text(init.replace("'serve' } }", f"'serve' }}, {options} }}"), "utf-8")
        homes = {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
        with Terminal([request.param, "-u", str(tmp_path / "init.lua")], os.environ | homes) as terminal:
            terminal.until(lambda screen: re.search(r"turnguard *$", screen, re.MULTILINE), "the daemon")
            yield terminal

    return start


def command(terminal: Terminal, line: str) -> None:
    terminal.types(line)
    terminal.presses("Enter")


def answers(terminal: Terminal, *keys: str) -> None:
    command(terminal, ":TurnguardAnswer")
    terminal.presses(*keys)


def test_each_answer(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        seen = [terminal.sees("halted the turn", "agent: is halted", "turnguard 4/3 halted")]
        assert "(0: no" in seen[0]  # the last of its words
        answers(terminal, "j", "Enter")
        seen.append(terminal.sees("halted the turn", "turnguard 6/4 halted"))
        answers(terminal, "j", "j", "Enter")
        seen.append(terminal.sees("halted the turn", "turnguard 8/7 halted"))
        terminal.types(r"\tq")  # the mapping
        seen.append(terminal.sees("agent: was stopped", "turnguard 8/7 stopped"))
        assert "halted the turn" not in seen[-1]
        assert WAITS not in "".join(seen)


def test_enter_stops(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", ":TurnguardAnswer goes here")
        answers(terminal, "Enter")
        assert WAITS not in terminal.sees("agent: was stopped")


def types_over_a_halt(terminal: Terminal, mode: str) -> str:
    """Runs the demo, and types lines in another window until there is a question and beyond; what was typed."""
    command(terminal, DEMO)
    terminal.presses("C-w", "j")
    terminal.types(mode)
    typed: list[str] = []
    while len(typed) < 3 or "halted the turn" not in terminal.screen or typed[-1] != "q":
        typed.append("q" if len(typed) % 2 else f"line{len(typed)}")
        terminal.types(typed[-1])
        terminal.presses("Enter")
        assert len(typed) < 1000
    return "\n".join(typed) + "\n"


def test_what_is_typed_in_passing_is_kept_and_answers_nothing(started: Started, tmp_path: Path) -> None:
    with started() as terminal:
        typed = types_over_a_halt(terminal, "i")
        terminal.types("more")
        terminal.sees("-- INSERT --", "halted the turn")  # as it was
        terminal.presses("Escape", "Enter")
        terminal.types("jk")
        file, expected = tmp_path / "typed", f"{typed}more\n"
        command(terminal, f":silent w! {file}")
        terminal.until(lambda _: file.is_file() and file.read_text() == expected, f"what was typed, {expected!r}")
        assert "was stopped" not in terminal.sees("halted the turn", "turnguard 4/3 halted")
        answers(terminal, "j", "Enter")
        terminal.sees("turnguard 6/4 halted")


def test_a_command_that_is_typed_keeps_its_keys(started: Started) -> None:
    with started() as terminal:
        command(terminal, ":call timer_start(500, { -> execute('luafile " + DEMO.split()[1] + "') })")
        terminal.types(":echo 'still ")
        terminal.sees("halted the turn")
        command(terminal, "here'")
        terminal.sees("still here", "halted the turn")


def test_the_demo_can_be_run_again(started: Started) -> None:
    with started() as terminal:
        for _ in range(2):
            command(terminal, DEMO)
            terminal.sees("halted the turn", "agent: is halted", "turnguard 4/3 halted")
            answers(terminal, "q")
            terminal.sees("agent: was stopped", "turnguard 4/3 stopped")
            command(terminal, ":bwipeout")


def test_the_daemon_is_killed_and_started_again(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", "turnguard 4/3 halted")
        os.kill(terminal.daemon, signal.SIGKILL)
        seen = [terminal.sees("ended with code 137", "turnguard off", "halted the turn")]
        answers(terminal, "j", "Enter")
        seen.append(terminal.sees("run without the guard"))
        command(terminal, ":TurnguardRestart")
        seen.append(terminal.sees("halted the turn", "turnguard 4/3 halted"))
        assert WAITS not in "".join(seen)


def test_the_daemon_hangs_and_goes_on(started: Started) -> None:
    with started("patience_ms = 250") as terminal:
        hanging = terminal.daemon
        os.kill(hanging, signal.SIGSTOP)
        command(terminal, DEMO)
        seen = [terminal.sees("does not answer. Calls run without the guard", "turnguard no answer")]
        seen.append(terminal.until(lambda screen: screen.count("agent: reads") > 6, "an agent that goes on"))
        os.kill(hanging, signal.SIGCONT)
        seen.append(terminal.sees("halted the turn"))
        assert WAITS not in "".join(seen)


def test_it_ends_with_a_question_open_and_a_daemon_that_hangs(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", "turnguard 4/3 halted")
        hanging = terminal.daemon
        os.kill(hanging, signal.SIGSTOP)
        pid = terminal.pid
        terminal.types(":qall!")
        terminal.presses("Enter")
        terminal.gone(pid)
        terminal.gone(hanging)


def test_the_messages_can_be_read_again(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn")
        answers(terminal, "q")
        terminal.sees("agent: was stopped")
        command(terminal, ":TurnguardMessages")
        terminal.sees("turnguard: Stopped after 4 tool calls")


def test_a_message_that_waits_would_be_seen_here(started: Started) -> None:
    with started("notify = vim.notify") as terminal:
        command(terminal, ":lua require('turnguard').start({ cmd = { 'no-such-turnguard' } })")
        terminal.sees("no-such-turnguard was not found", WAITS)
