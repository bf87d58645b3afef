"""What a person sees and presses in `emacs -nw` who follows the README of clients/emacs."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.clients.terminal import TMUX, Terminal, descendant
from tests.clients.test_emacs import CLIENT
from tests.clients.test_neovim import pasted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (TMUX is None or shutil.which("emacs") is None) and "EDITORS_REQUIRED" not in os.environ,
        reason="needs Emacs and tmux",
    ),
]

Started = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Emacs with what the README says to paste, and with `turnguard-patience`, in seconds."""

    @contextmanager
    def start(patience: float = 20) -> Iterator[Terminal]:
        init = pasted(CLIENT / "README.md", "lisp")[0]
        (tmp_path / "init.el").write_text(f"{init}(setq turnguard-patience {patience})", "utf-8")
        emacs = ["emacs", "-nw", "-Q", "-l", str(tmp_path / "init.el")]
        with Terminal(emacs, os.environ | {"HOME": str(tmp_path)}) as terminal:
            terminal.until(lambda screen: " turnguard-" in screen and "turnguard off" not in screen, "the daemon")
            yield terminal

    return start


def command(terminal: Terminal, name: str) -> None:
    terminal.presses("M-x")
    terminal.types(name)
    terminal.presses("Enter")


def daemon(terminal: Terminal) -> int:
    return descendant(terminal.pid, "turnguard serve")


def test_each_answer(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        seen = terminal.sees("halted the turn", "turnguard 4/3 halt", "[Stop]", "[Continue once]", "[Raise the cap]")
        assert "(0: no cap)." in seen  # the last of its words
        terminal.presses("Tab", "Enter")
        terminal.sees("halted the turn", "turnguard 6/4 halt")
        terminal.presses("Tab", "Tab", "Enter")
        terminal.sees("halted the turn", "turnguard 8/7 halt")
        terminal.presses("q")
        assert "halted the turn" not in terminal.sees("agent: was stopped")


def test_what_is_typed_in_passing_is_no_answer(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        terminal.types("scr")
        terminal.sees("is undefined", "[Stop]")
        terminal.presses("Enter")
        terminal.sees("agent: was stopped")


def test_the_minibuffer_keeps_what_is_typed(started: Started) -> None:
    with started() as terminal:
        terminal.presses("M-:")
        terminal.types('(run-at-time 1 nil (lambda () (turnguard-ask "s" nil (function ignore))))')
        terminal.presses("Enter", "M-x")
        terminal.sees("M-x", "[Stop]")
        terminal.types("turnguard-demo")
        terminal.presses("Enter")
        terminal.sees("agent: is halted")


def test_the_daemon_is_killed_and_started_again(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        os.kill(daemon(terminal), signal.SIGKILL)
        terminal.sees("the daemon ended; M-x turnguard-start starts it again", "turnguard off", "halted the turn")
        terminal.presses("Tab", "Enter")
        terminal.sees("the daemon is not running, see M-x turnguard-start")
        command(terminal, "turnguard-start")
        terminal.sees("halted the turn", "turnguard 4/3 halt")


def test_the_daemon_hangs_and_goes_on(started: Started) -> None:
    with started(patience=0.25) as terminal:
        hanging = daemon(terminal)
        os.kill(hanging, signal.SIGSTOP)
        command(terminal, "turnguard-demo")
        terminal.sees("the daemon does not answer; calls run without the guard")
        terminal.until(lambda screen: screen.count("agent: reads") > 6, "an agent that is not kept waiting")
        os.kill(hanging, signal.SIGCONT)
        terminal.sees("halted the turn")


def test_it_ends_with_a_question_open_and_a_daemon_that_hangs(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        hanging, pid = daemon(terminal), terminal.pid
        os.kill(hanging, signal.SIGSTOP)
        terminal.presses("C-x", "C-c")
        terminal.gone(pid)
        os.kill(hanging, signal.SIGCONT)  # its stdin is at its end
        terminal.gone(hanging)
