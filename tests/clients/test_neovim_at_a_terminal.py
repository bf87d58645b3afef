"""What a person sees and presses in Neovim who follows the README of clients/neovim."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.clients.terminal import TMUX, Terminal, descendant
from tests.clients.test_neovim import CLIENT, editors, pasted

DEMO = f":luafile {CLIENT / 'demo.lua'}"
WAITS = "Press ENTER"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None and "EDITORS_REQUIRED" not in os.environ, reason="needs tmux"),
]

Started = Callable[..., AbstractContextManager[Terminal]]


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
            terminal.until(lambda screen: "turnguard" in screen and "turnguard off" not in screen, "the daemon")
            yield terminal

    return start


def command(terminal: Terminal, line: str) -> None:
    terminal.types(line)
    terminal.presses("Enter")


def daemon(terminal: Terminal) -> int:
    return descendant(terminal.pid, "turnguard serve")


def test_each_answer(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        seen = [terminal.sees("halted the turn", "agent: is halted", "turnguard 4/3 halted")]
        assert "(0: no" in seen[0]  # the last of its words
        terminal.presses("j", "Enter")
        seen.append(terminal.sees("halted the turn", "turnguard 6/4 halted"))
        terminal.presses("j", "j", "Enter")
        seen.append(terminal.sees("halted the turn", "turnguard 8/7 halted"))
        terminal.presses("q")
        seen.append(terminal.sees("agent: was stopped"))
        assert "halted the turn" not in seen[-1]
        assert WAITS not in "".join(seen)


def test_enter_stops(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", "ENTER takes the line")
        terminal.presses("Enter")
        assert WAITS not in terminal.sees("agent: was stopped")


def test_the_daemon_is_killed_and_started_again(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", "turnguard 4/3 halted")
        os.kill(daemon(terminal), signal.SIGKILL)
        seen = [terminal.sees("ended with code 137", "turnguard off", "halted the turn")]
        terminal.presses("j", "Enter")
        seen.append(terminal.sees("run without the guard"))
        command(terminal, ":TurnguardRestart")
        seen.append(terminal.sees("halted the turn", "turnguard 4/3 halted"))
        assert WAITS not in "".join(seen)


def test_the_daemon_hangs_and_goes_on(started: Started) -> None:
    with started("patience_ms = 250") as terminal:
        hanging = daemon(terminal)
        os.kill(hanging, signal.SIGSTOP)
        command(terminal, DEMO)
        seen = [terminal.sees("does not answer. Calls run without the guard")]
        seen.append(terminal.until(lambda screen: screen.count("agent: reads") > 6, "an agent that goes on"))
        os.kill(hanging, signal.SIGCONT)
        seen.append(terminal.sees("halted the turn"))
        assert WAITS not in "".join(seen)


def test_it_ends_with_a_question_open_and_a_daemon_that_hangs(started: Started) -> None:
    with started() as terminal:
        command(terminal, DEMO)
        terminal.sees("halted the turn", "turnguard 4/3 halted")
        hanging = daemon(terminal)
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
        terminal.presses("q")
        terminal.sees("agent: was stopped")
        command(terminal, ":TurnguardMessages")
        terminal.sees("turnguard: Stopped after 4 tool calls")


def test_a_message_that_waits_would_be_seen_here(started: Started) -> None:
    with started("notify = vim.notify") as terminal:
        command(terminal, ":lua require('turnguard').start({ cmd = { 'no-such-turnguard' } })")
        terminal.sees("no-such-turnguard was not found", WAITS)
