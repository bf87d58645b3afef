"""A person at a terminal of 80 by 24, which is one of tmux: what is on the screen, and keys."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from tests.e2e.executed import children_of
from tests.e2e.relayed import is_running

TMUX = shutil.which("tmux")
WAIT_SECONDS = 40


class Terminal:
    """A program, and the screen that it draws on. To be used with `with`; the program is gone after that."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = Path(mkdtemp(prefix="tg"))  # a short path, since it is one of a socket
        self._environment = {**environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        self._tmux("new-session", "-d", "-x", "80", "-y", "24", *command)
        self._tmux("set-option", "-s", "escape-time", "0")
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def _tmux(self, *args: str) -> str:
        tmux = [TMUX or "tmux", "-u", "-S", str(self._folder / "socket"), "-f", "/dev/null", *args]
        ran = subprocess.run(tmux, env=self._environment, capture_output=True, text=True, check=True, timeout=30)
        return ran.stdout

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def pid(self) -> int:
        return int(self._tmux("list-panes", "-F", "#{pane_pid}"))

    @property
    def daemon(self) -> int:
        """The process of the daemon that the program has started; there has to be exactly one."""
        (found,) = (each for each in _below(self.pid) if "turnguard serve" in _command_line(each))
        return found

    def types(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def presses(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `Escape`, `C-g`, `j`."""
        self._tmux("send-keys", *keys)

    def until(self, condition: Callable[[str], object], what: str) -> str:
        """The first screen for which that holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition(screen := self.screen):
            assert time.monotonic() < deadline, f"waited for {what}; on the screen:\n{screen}"
            time.sleep(0.05)
        return screen

    def sees(self, *parts: str) -> str:
        """The first screen with all of these on it."""
        return self.until(lambda screen: all(part in screen for part in parts), " and ".join(map(repr, parts)))

    def gone(self, pid: int) -> None:
        """Waits for the end of a process; one that nobody has waited for yet is over, too."""
        self.until(lambda _: not is_running(pid), f"the end of {pid}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._folder)


Started = Callable[..., AbstractContextManager[Terminal]]
"""Starts an editor with the client in it, and a daemon."""


def _below(pid: int) -> Iterator[int]:
    for child in children_of(pid):
        yield child
        yield from _below(child)


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
