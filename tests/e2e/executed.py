"""`turnguard exec` as a process, and what it left behind."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.daemon import DEADLINE

ROOT = Path(__file__).parents[2]
EXEC = (sys.executable, "-m", "turnguard", "exec")
LOOP = ["make"] * 8
"""Commands of an agent that is stuck."""

WORK = [f"make part{number}" for number in range(8)]


def agent(how: str, commands: Sequence[str] = LOOP) -> list[str]:
    """The command of a streaming agent."""
    return [sys.executable, "-m", "tests.e2e.agents.streaming", how, *commands]


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def run(command: Sequence[str], *options: str, data: bytes = b"", **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """A command under `turnguard exec`, over pipes, to its end."""
    return subprocess.run(
        [*EXEC, *options, "--", *command], cwd=ROOT, input=data, capture_output=True, timeout=DEADLINE * 3, **more
    )


def start(command: Sequence[str], *options: str, **more: Any) -> "subprocess.Popen[bytes]":
    """The same while it runs. Its stdin, stdout and stderr are pipes unless something else is said."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen[bytes]([*EXEC, *options, "--", *command], cwd=ROOT, bufsize=0, **(pipes | more))


def children_of(pid: int) -> list[int]:
    """The processes that a process started. Linux only."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read_line(process: "subprocess.Popen[bytes]") -> bytes:
    """The next line of its stdout."""
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: "subprocess.Popen[bytes]") -> tuple[int, bytes, bytes]:
    """The exit code and the rest of what it wrote, once it has ended."""
    try:
        out, errors = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    return process.returncode, out or b"", errors or b""


def close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
