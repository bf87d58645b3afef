"""The agent's process: how it is started, what it inherits, and that it is gone when it should be."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import DEADLINE, wait_until
from tests.e2e.relayed import is_running, pid_in
from turnguard.acp.child import Child
from turnguard.acp.descendants import Descendants
from turnguard.process import NotStartedError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the signal at a parent's death")

ROOT = Path(__file__).parents[2]


def run(*argv: str) -> tuple[int, bytes]:
    """The exit code of a child without input, and its output."""
    child = Child(argv)
    os.close(child.stdin)
    with os.fdopen(child.stdout, "rb") as stdout:
        output = stdout.read()
    wait_until(lambda: child.exit_code() is not None)
    code = child.exit_code()
    assert code is not None
    return code, output


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_its_exit_code_is_what_a_shell_would_say(script: str, code: int) -> None:
    assert run("sh", "-c", script) == (code, b"")


def test_its_stdin_and_stdout_are_pipes() -> None:
    child = Child(["cat"])
    os.write(child.stdin, b"through\n")
    assert os.read(child.stdout, 100) == b"through\n"
    assert child.exit_code() is None
    os.close(child.stdin)
    assert os.read(child.stdout, 100) == b""
    os.close(child.stdout)
    wait_until(lambda: child.exit_code() == 0)
    child.send(signal.SIGTERM)  # an ended one gets none


@pytest.mark.parametrize(
    ("command", "code"), [("no-such-agent", 127), ("/", 126), (__file__, 126), (f"{__file__}/x", 127)]
)
def test_what_cannot_be_started_is_told_as_shells_do(command: str, code: int) -> None:
    with pytest.raises(NotStartedError, match=f"^cannot start {command}: [A-Z]") as told:
        Child([command])
    assert told.value.exit_code == code


def open_files() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/dev/fd").iterdir()))


def test_nothing_stays_open_of_what_cannot_be_started() -> None:
    before = open_files()
    for _ in range(3):
        with pytest.raises(NotStartedError):
            Child(["no-such-agent"])
    assert open_files() == before


SHOW = "import signal; print(*sorted(each.name for each in signal.Signals if signal.getsignal(each) == signal.SIG_IGN))"


@pytest.mark.parametrize("was_ignored", [(), (signal.SIGHUP,), (signal.SIGINT, signal.SIGHUP)])
def test_sigint_is_not_ignored_because_turnguard_ignores_it(was_ignored: tuple[signal.Signals, ...]) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = Child([sys.executable, "-c", SHOW], was_ignored=was_ignored)
    finally:
        signal.signal(signal.SIGINT, before)
    os.close(child.stdin)
    with os.fdopen(child.stdout) as stdout:
        ignored = set(stdout.read().split()) - {"SIGPIPE", "SIGXFSZ"}  # what Python itself ignores
    assert ignored == {each.name for each in was_ignored}
    wait_until(lambda: child.exit_code() == 0)


def python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


@only_linux
def test_it_dies_with_its_parent() -> None:
    code = "import time; from turnguard.acp.child import Child\n"
    code += "print(Child(['sh', '-c', 'trap \"\" TERM; while :; do sleep 1; done']).pid, flush=True); time.sleep(60)"
    with python(code) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
        wait_until(lambda: not is_running(pid))


@only_linux
def test_it_dies_also_when_the_parent_was_quicker() -> None:
    """What is to run between fork and exec runs here in a grandchild: its parent is not the one it was made for."""
    code = """if True:
        import os
        from turnguard import process
        prepare = process._prepared((), None)
        if os.fork() == 0:
            if os.fork() == 0:
                prepare()
                os._exit(0)
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    with python(code) as process:
        assert process.communicate(timeout=DEADLINE)[0] == "137\n"


# --- descendants ------------------------------------------------------------------------------------------------------


FAMILY = """
import os, subprocess, sys, time
if sys.argv[1] != "0":
    child = subprocess.Popen([sys.executable, "-c", os.environ["FAMILY"], str(int(sys.argv[1]) - 1), sys.argv[2]],
                             start_new_session=sys.argv[1] == "2")
with open(sys.argv[2] + sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(file.name, file.name[:-4])
time.sleep(600)
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The ids of a process, of its child in a session of its own, and of that one's child."""
    monkeypatch.setenv("FAMILY", FAMILY)
    with subprocess.Popen([sys.executable, "-c", FAMILY, "2", f"{tmp_path}/"]) as process:
        pids = [pid_in(tmp_path / str(number)) for number in (2, 1, 0)]
        yield pids
        for pid in pids:
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
        process.wait(DEADLINE)


@only_linux
def test_all_below_a_process_are_found_and_killed_and_nobody_else(family: list[int]) -> None:
    first, second, third = family
    descendants = Descendants(first)
    descendants.look()
    descendants.kill()
    wait_until(lambda: not is_running(second) and not is_running(third))
    assert is_running(first)
    descendants.kill()  # there are none any more


@only_linux
def test_those_that_were_found_are_kept_when_their_parent_is_gone(family: list[int]) -> None:
    first, second, third = family
    descendants = Descendants(first)
    descendants.look()
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: not is_running(second))
    descendants.look()
    descendants.kill()
    wait_until(lambda: not is_running(third))


@only_linux
def test_an_id_that_another_process_has_by_now_says_nothing(family: list[int]) -> None:
    first, second, third = family
    descendants = Descendants(first)
    descendants.look()
    held = descendants._held  # pyright: ignore[reportPrivateUsage]
    os.close(held.pop(third).fd)
    held[second] = held[second]._replace(began=held[second].began - 1)
    descendants._pid = -1  # pyright: ignore[reportPrivateUsage]
    descendants.look()
    assert third not in held
    os.close(held.pop(second).fd)


@only_linux
def test_nothing_stays_open_of_descendants(family: list[int]) -> None:
    before = open_files()
    descendants = Descendants(family[0])
    descendants.look()
    descendants.look()
    assert open_files() == before + 2
    descendants.kill()
    assert open_files() == before
