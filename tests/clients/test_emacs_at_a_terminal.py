"""What a person sees and presses in `emacs -nw` who follows the README of clients/emacs."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.terminal import TMUX, Started, Terminal
from tests.clients.test_emacs import CLIENT
from tests.clients.test_neovim import BROKEN, pasted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (TMUX is None or shutil.which("emacs") is None) and "EDITORS_REQUIRED" not in os.environ,
        reason="needs Emacs and tmux",
    ),
]


@pytest.fixture
def started(tmp_path: Path) -> Started:
    """Emacs with what the README says to paste.

    `patience`: seconds of `turnguard-patience`; `command`: of another daemon, which is not waited for. The init file
    ends with a message.
    """

    @contextmanager
    def start(patience: float = 20, command: Sequence[str] = ()) -> Iterator[Terminal]:
        init = pasted(CLIENT / "README.md", "lisp")[0]
        stated = f'("{Path(sys.executable).with_name("turnguard")}" "serve")'
        assert stated in init
        if command:
            init = init.replace(stated, f"({' '.join(map(json.dumps, command))})")
        end = '(run-at-time 0 nil (lambda () (message "the rest of the init file")))'
        (tmp_path / "init.el").write_text(f"{init}(setq turnguard-patience {patience}){end}", "utf-8")
        emacs = ["emacs", "-nw", "-Q", "-l", str(tmp_path / "init.el")]
        with Terminal(emacs, os.environ | {"HOME": str(tmp_path)}) as terminal:
            if not command:
                terminal.sees(" turnguard-")
            yield terminal

    return start


def command(terminal: Terminal, name: str) -> None:
    terminal.presses("M-x")
    terminal.types(name)
    terminal.presses("Enter")


def answers(terminal: Terminal, *keys: str) -> None:
    command(terminal, "turnguard-answer")
    terminal.presses(*keys)


def test_each_answer(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        seen = terminal.sees("halted the turn", "turnguard 4/3 halt", "[Stop]", "[Continue once]", "[Raise the cap]")
        assert "(0: no cap)." in seen  # the last of its words
        answers(terminal, "Tab", "Enter")
        terminal.sees("halted the turn", "turnguard 6/4 halt")
        terminal.presses("C-x", "o")
        terminal.presses("Tab", "Tab", "Enter")
        terminal.sees("halted the turn", "turnguard 8/7 halt")
        answers(terminal, "q")
        assert "halted the turn" not in terminal.sees("agent: was stopped", "turnguard 8/7 stop")


def test_what_is_typed_in_passing_is_kept_and_answers_nothing(started: Started, tmp_path: Path) -> None:
    file = tmp_path / "typed.txt"
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.presses("C-x", "C-f")
        terminal.types(str(file))
        terminal.presses("Enter")
        typed: list[str] = []
        while len(typed) < 3 or "halted the turn" not in terminal.screen or typed[-1] != "q":
            typed.append("q" if len(typed) % 2 else f"line{len(typed)}")
            terminal.types(typed[-1])
            terminal.presses("Enter")
            assert len(typed) < 1000
        terminal.types("more")
        terminal.presses("Enter", "C-x", "C-s")
        expected = "\n".join([*typed, "more"]) + "\n"
        terminal.until(lambda _: file.is_file() and file.read_text() == expected, f"what was typed, {expected!r}")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        answers(terminal, "Enter")
        terminal.sees("turnguard 4/3 stop")


def test_the_minibuffer_keeps_what_is_typed_and_the_question_outlives_it(started: Started) -> None:
    with started() as terminal:
        terminal.presses("M-:")
        terminal.types('(run-at-time 1 nil (lambda () (turnguard-ask "s" nil (function ignore))))')
        terminal.presses("Enter", "M-x")
        terminal.sees("M-x", "[Stop]")
        terminal.types("turnguard-demo")
        terminal.presses("Enter")
        terminal.sees("agent: is halted", "turnguard halted the turn")
        terminal.presses("M-:")
        terminal.types('(message "%s questions, %s windows" (length (turnguard--questions)) (count-windows))')
        terminal.presses("Enter")
        terminal.sees("2 questions, 3 windows")


def test_no_guard_keeps_an_init_file_from_going_on(started: Started) -> None:
    with started(command=["no-such-turnguard", "serve"]) as terminal:
        terminal.sees("turnguard off", "no-such-turnguard was not found", "the rest of the init file")


def test_a_silent_daemon_keeps_emacs_from_nothing(started: Started) -> None:
    with started(command=[*BROKEN, "deaf"]) as terminal:
        terminal.sees("turnguard start")
        command(terminal, "turnguard-demo")
        terminal.sees("is still starting; calls run without the guard")
        terminal.until(lambda screen: screen.count("agent: reads") > 6, "an agent that is not kept waiting")


def test_the_demo_can_be_run_again(started: Started) -> None:
    with started() as terminal:
        for _ in range(2):
            command(terminal, "turnguard-demo")
            terminal.sees("halted the turn", "agent: is halted", "turnguard 4/3 halt")
            answers(terminal, "q")
            terminal.sees("agent: was stopped", "turnguard 4/3 stop")


def test_the_daemon_is_killed_and_started_again(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        os.kill(terminal.daemon, signal.SIGKILL)
        terminal.sees("the daemon ended; M-x turnguard-start starts it again", "turnguard off", "halted the turn")
        answers(terminal, "Tab", "Enter")
        terminal.sees("the daemon is not running, see M-x turnguard-start")
        command(terminal, "turnguard-start")
        terminal.sees("halted the turn", "turnguard 4/3 halt")


def test_the_daemon_hangs_and_goes_on(started: Started) -> None:
    with started(patience=0.25) as terminal:
        hanging = terminal.daemon
        os.kill(hanging, signal.SIGSTOP)
        command(terminal, "turnguard-demo")
        terminal.sees("the daemon does not answer; calls run without the guard", "turnguard no answer")
        terminal.until(lambda screen: screen.count("agent: reads") > 6, "an agent that is not kept waiting")
        os.kill(hanging, signal.SIGCONT)
        terminal.sees("halted the turn")


def test_it_ends_with_a_question_open_and_a_daemon_that_hangs(started: Started) -> None:
    with started() as terminal:
        command(terminal, "turnguard-demo")
        terminal.sees("halted the turn", "turnguard 4/3 halt")
        hanging, pid = terminal.daemon, terminal.pid
        os.kill(hanging, signal.SIGSTOP)
        terminal.presses("C-x", "C-c")
        terminal.gone(pid)
        os.kill(hanging, signal.SIGCONT)  # its stdin is at its end
        terminal.gone(hanging)
