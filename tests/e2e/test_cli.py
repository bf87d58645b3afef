import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.daemon import DEADLINE, body
from turnguard import __version__, cli
from turnguard.framing import frame


def run(*arguments: str, argv: Sequence[str] = ("-m", "turnguard")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def test_version() -> None:
    ran = run("--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"turnguard {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help(arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.returncode == 0
    assert "usage: turnguard" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.parametrize(
    "arguments", [[], ["bogus"], ["--bogus"], ["serve", "--bogus"], ["serve", "bogus"], ["serve", "--std"]]
)
def test_misuse_is_2_and_no_traceback(arguments: list[str]) -> None:
    ran = run(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "usage: turnguard" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("arguments", [["serve"], ["serve", "--stdio"]])
def test_serve_without_input_ends_as_without_a_client(arguments: list[str]) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "")


@pytest.mark.skipif(os.name != "posix", reason="the shell's way to close a stream")
@pytest.mark.parametrize(
    ("redirected", "name"),
    [
        ("<&-", "stdin"),
        (">&-", "stdout"),
        ("<&- >&-", "stdin"),
        ("0>/dev/null", "stdin"),
        ("1</dev/null", "stdout"),
        ("0<>/dev/null >&-", "stdout"),
    ],
)
def test_serve_needs_its_streams(redirected: str, name: str) -> None:
    command = f"exec {sys.executable} -m turnguard serve {redirected}"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"turnguard: expected {name} to be open")
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="the shell's way to close a stream")
@pytest.mark.parametrize(("redirected", "code"), [("2>&-", 1), ("2>&- <&-", 2), ("2>&- >&-", 2), ("2>&- <&- >&-", 2)])
def test_serve_does_without_a_stderr(redirected: str, code: int) -> None:
    command = f"exec {sys.executable} -m turnguard serve {redirected}"
    message = body("turnguard/listSessions", None, 1)
    ran = subprocess.run(
        ["sh", "-c", command], input=frame(message), capture_output=True, timeout=DEADLINE, check=False
    )
    assert (ran.returncode, ran.stderr) == (code, b"")
    assert (b"-32002" in ran.stdout) == (code == 1)


@pytest.mark.skipif(os.name != "posix", reason="the shell's way to close a stream")
@pytest.mark.parametrize("command", ["completion bash", "settings", "demo", "--help", "settings path"])
@pytest.mark.parametrize(("redirected", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left")])
def test_output_that_cannot_be_written(command: str, redirected: str, why: str) -> None:
    if "full" in redirected and not Path("/dev/full").exists():
        pytest.skip("no such device")
    shell = f"PYTHONUNBUFFERED= exec {sys.executable} -m turnguard {command} {redirected}"
    ran = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert ran.returncode == 74
    assert ran.stderr.startswith(f"turnguard: cannot write to stdout: {why}")
    assert ran.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="the shell's way to close a stream")
def test_what_is_said_on_a_closed_stderr_is_not_output() -> None:
    shell = f"exec {sys.executable} -m turnguard replay /dev/null 2>&-"
    ran = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")


def test_no_memory_is_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def load(name: str) -> None:
        raise MemoryError

    monkeypatch.setattr(cli, "load", load)
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "turnguard: there is not enough memory\n"


@pytest.mark.parametrize("command", ["--version", "--help"])
def test_what_starts_often_does_not_wait_for_a_language_server(command: str) -> None:
    ran = run(command, argv=("-X", "importtime", "-m", "turnguard"))
    assert ran.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
    assert "argparse" in imported
    assert imported.isdisjoint({"pygls", "lsprotocol", "asyncio", "msgspec", "logging"})


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
def test_serve_on_a_terminal_says_what_it_waits_for() -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "turnguard", "serve"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "waiting for an editor" in process.stderr.readline()
    os.write(ours, b"\x04")
    out, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out, errors) == (1, "", "")
    os.close(ours)
    os.close(theirs)
