"""`turnguard exec` at a terminal, under a shell with job control: everything is as if the program stood there alone."""

import os
import pty
import re
import select
import shutil
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import DEADLINE, wait_until
from tests.e2e.executed import EXEC, ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="needs a shell with jobs"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

TG = " ".join([*EXEC, "--"])
PROMPT = "ready> "
CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"


class Shell:
    """An interactive shell at a terminal, or another program. What was waited for is not found again."""

    def __init__(self, *argv: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.environ |= {"PS1": PROMPT, "HISTFILE": "", "TERM": "dumb", "INPUTRC": os.devnull}
            os.execvp(argv[0], argv)  # noqa: S606
        termios.tcsetwinsize(self.fd, (100, 1000))
        self._text = ""

    def wait(self, pattern: str) -> str:
        """Reads until something was shown; the first group of the pattern."""
        deadline = time.monotonic() + DEADLINE
        while (found := re.search(pattern, self._text)) is None:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, (pattern, self._text)
            self._text += os.read(self.fd, 65536).decode()
        self._text = self._text[found.end() :]
        return found[found.re.groups]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def run(self, line: str) -> None:
        """Types a command at the prompt."""
        self.type(f"{line}\n")
        self.wait("\n")

    def code(self) -> int:
        """What the last command exited with, once there is a prompt."""
        self.wait(PROMPT)
        self.run("echo code=$?.")
        code = int(self.wait(r"code=(\d+)\."))
        self.wait(PROMPT)
        return code

    def is_echoed(self, word: str) -> None:
        """A line goes to a program that writes back what it reads."""
        self.type(f"{word}\n")
        self.wait(f"{word}\r\n{word}\r\n")

    def fetch(self) -> None:
        """Brings the job to the foreground."""
        self.run("fg")
        self.wait("\n")
        wait_until(lambda: self.foreground() != self.pid)

    def foreground(self) -> int:
        return os.tcgetpgrp(self.fd)

    def close(self) -> None:
        os.close(self.fd)  # the terminal is gone, and with it all that ran there
        os.waitpid(self.pid, 0)


@pytest.fixture
def shell() -> Iterator[Shell]:
    shell = Shell("bash", "--norc", "--noprofile", "-i")
    shell.wait(PROMPT)
    shell.run("set -b -o pipefail")  # jobs are told of at once
    shell.wait(PROMPT)
    yield shell
    shell.close()


CAT = f"{TG} sh -c 'echo begun; exec cat'"
SLEEP = f"{TG} sh -c 'echo begun; exec sleep 100'"
TRAP = f"""{TG} sh -c 'trap "exit 9" INT; echo begun; while :; do read x; done'"""


def begin(shell: Shell, line: str) -> None:
    shell.run(line)
    shell.wait("begun\r\n")


def test_it_reads_the_terminal(shell: Shell) -> None:
    begin(shell, CAT)
    shell.is_echoed("hello")
    shell.type(CTRL_D)
    assert shell.code() == 0


def test_its_group_is_the_terminals_foreground_while_it_runs(shell: Shell) -> None:
    shell.run(f"{TG} sh -c 'echo pid $$ begun; exec cat'")
    shell.wait("pid ")
    shell.wait("begun\r\n")
    foreground = shell.foreground()
    assert foreground != shell.pid
    assert Path(f"/proc/{foreground}/comm").read_text() in ("cat\n", "sh\n")
    shell.type(CTRL_D)
    assert shell.code() == 0
    assert shell.foreground() == shell.pid


@pytest.mark.parametrize(("line", "code"), [(SLEEP, 130), (TRAP, 9), (f"{CAT} | cat", 130)])
def test_ctrl_c(shell: Shell, line: str, code: int) -> None:
    begin(shell, line)
    shell.type(CTRL_C)
    assert shell.code() == code


@pytest.mark.parametrize("reads", [False, True])
def test_ctrl_c_ends_the_loop_of_a_script(shell: Shell, reads: bool) -> None:
    """The program that reads has got the terminal from the script, so that Ctrl-C does not reach the script itself."""
    line = (CAT if reads else SLEEP).replace("'", '"')
    begin(shell, f"bash -c 'for each in 1 2 3; do {line}; done; echo never'")
    if reads:
        shell.is_echoed("word")
    shell.type(CTRL_C)
    assert shell.code() == 130


def test_a_script_has_the_terminal_again(shell: Shell) -> None:
    line = CAT.replace("'", '"')
    begin(shell, f"bash -c '{line}; echo next; cat; exit 7'")
    shell.is_echoed("word")
    shell.type(CTRL_D)
    shell.wait("next\r\n")
    shell.is_echoed("other")
    shell.type(CTRL_D)
    assert shell.code() == 7


@pytest.mark.parametrize("line", [CAT, f"{CAT} | cat", f"""bash -c '{CAT.replace("'", '"')}; exit $?'"""])
def test_ctrl_z_and_fg(shell: Shell, line: str) -> None:
    begin(shell, line)
    for word in ("one", "two"):
        shell.is_echoed(word)
        shell.type(CTRL_Z)
        shell.wait("Stopped")
        shell.wait(PROMPT)
        shell.fetch()
    shell.is_echoed("three")
    shell.type(CTRL_D)
    assert shell.code() == 0


def test_bg(shell: Shell) -> None:
    begin(shell, SLEEP)
    shell.type(CTRL_Z)
    shell.wait("Stopped")
    shell.wait(PROMPT)
    shell.run("bg")
    shell.wait(PROMPT)
    shell.run("jobs")
    shell.wait("Running")
    shell.wait(PROMPT)
    shell.fetch()
    shell.type(CTRL_C)
    assert shell.code() == 130


def test_a_job_in_the_background_is_stopped_when_it_reads(shell: Shell) -> None:
    shell.run(f"{TG} cat &")
    shell.wait("Stopped")
    shell.fetch()
    wait_until(lambda: Path(f"/proc/{shell.foreground()}/comm").read_text() == "cat\n")
    shell.is_echoed("now")
    shell.type(CTRL_D)
    assert shell.code() == 0


def test_signals_come_to_the_main_thread_only(shell: Shell) -> None:
    """Else one that turnguard sends to itself may be taken after it believes that it was."""
    shell.run(f"{TG} sh -c 'echo turnguard=$PPID; exec cat'")
    turnguard = int(shell.wait(r"turnguard=(\d+)\r\n"))
    deaf = [
        int(re.search(r"SigBlk:\t(\w+)", status.read_text())[1], 16) & 1 << number - 1  # type: ignore[index]
        for status in Path(f"/proc/{turnguard}/task").glob("*/status")
        if status.parent.name != str(turnguard)
        for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGINT)
    ]
    assert len(deaf) == 6 and all(deaf)
    shell.type(CTRL_D)
    assert shell.code() == 0


def test_a_running_job_that_is_fetched_gets_the_terminal_when_it_reads(shell: Shell, tmp_path: Path) -> None:
    wait = f"while [ ! -e {tmp_path}/go ]; do :; done"
    begin(shell, f"{TG} sh -c 'echo begun; {wait}; exec cat' &")
    shell.fetch()
    (tmp_path / "go").touch()
    shell.is_echoed("hello")
    shell.type(CTRL_D)
    assert shell.code() == 0


def test_the_other_end_of_a_pipe_may_use_the_terminal(shell: Shell) -> None:
    """As a pager does, which reads keys."""
    reads_key = "sh -c 'cat >/dev/null; echo begun; read key </dev/tty; echo got $key'"
    begin(shell, f"{TG} true | {reads_key}")
    shell.type("k\n")
    shell.wait("got k\r\n")
    shell.wait(PROMPT)


def test_a_terminal_that_stops_writers_does_not_stop_turnguard(shell: Shell) -> None:
    shell.run("stty tostop")
    shell.wait(PROMPT)
    shell.run(f"{TG} sh -c 'echo one; echo two'")
    shell.wait("one\r\ntwo\r\n")
    assert shell.code() == 0


def test_what_cannot_be_started_leaves_the_terminal_alone(shell: Shell) -> None:
    shell.run(f"{TG} no-such-program")
    shell.wait("cannot start")
    assert shell.code() == 127


def test_where_nobody_could_continue_it_nothing_stops() -> None:
    """Turnguard leads the session: there is no shell."""
    alone = Shell(*EXEC, "--", "sh", "-c", "echo begun; exec cat")
    alone.wait("begun\r\n")
    alone.type(CTRL_Z)
    alone.is_echoed("still here")
    alone.type(CTRL_D)
    assert os.waitstatus_to_exitcode(os.waitpid(alone.pid, 0)[1]) == 0
    os.close(alone.fd)


def test_a_terminal_that_goes_away_takes_it_along(tmp_path: Path) -> None:
    shell = Shell("bash", "--norc", "--noprofile", "-i")
    shell.wait(PROMPT)
    shell.run(f"{TG} sh -c 'echo $$ > {tmp_path}/pid; echo begun; exec sleep 100'")
    shell.wait("begun\r\n")
    pid = int((tmp_path / "pid").read_text())
    shell.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
