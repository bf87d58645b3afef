"""`turnguard acp` as a process, spoken to in raw bytes, and what is left running."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.e2e.daemon import DEADLINE, wait_until

ROOT = Path(__file__).parents[2]
ACP = (sys.executable, "-m", "turnguard", "acp")


def agent(what: str, *arguments: object) -> list[str]:
    """The command of one of the raw agents."""
    return [sys.executable, "-m", "tests.e2e.agents.raw", what, *map(str, arguments)]


class Relayed:
    """The client's ends of a `turnguard acp` in front of an agent."""

    def __init__(self, command: Sequence[str], *options: str, stderr: int | IO[bytes] | None = None) -> None:
        self.process = subprocess.Popen(
            [*ACP, *options, "--", *command],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def send(self, data: bytes) -> None:
        """Writes, waiting as long as it takes."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdin.fileno(), view) :]

    def send_end(self) -> None:
        """Closes stdin."""
        self._stdin.close()

    def read(self, most: int = 65536) -> bytes:
        """Some bytes; none at the end."""
        ready, _, _ = select.select((self._stdout,), (), (), DEADLINE)
        assert ready, "nothing came in time"
        return os.read(self._stdout.fileno(), most)

    def is_readable(self) -> bool:
        """Whether there is something to read, or the end."""
        return bool(select.select((self._stdout,), (), (), 0)[0])

    def read_until(self, end: bytes) -> bytes:
        """All bytes up to some that they end with."""
        data = b""
        while not data.endswith(end):
            block = self.read()
            assert block, f"the end came before {end!r}"
            data += block
        return data

    def read_all(self) -> bytes:
        """All bytes to the end."""
        blocks: list[bytes] = []
        while block := self.read():
            blocks.append(block)
        return b"".join(blocks)

    def stop_reading(self) -> None:
        """Closes stdout."""
        self._stdout.close()

    def exit_code(self) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(DEADLINE)

    def megabytes(self) -> float:
        """The most memory it ever held. Linux only."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text("ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))

    def close(self) -> None:
        """Ends it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self._stdin.close()
        self._stdout.close()
        self.process.wait(DEADLINE)


def pid_in(file: Path) -> int:
    """The process id that a file tells, once it does."""
    wait_until(file.exists)
    return int(file.read_text())


def is_running(pid: int) -> bool:
    """Whether a process runs; one that was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :][:1] not in b"ZX"


def seconds_until_ended(pid: int) -> float:
    """How long a process still runs."""
    start = time.monotonic()
    wait_until(lambda: not is_running(pid))
    return time.monotonic() - start
