"""Commands of turnguard run as people run them: in a home of their own, over pipes or at a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

DEADLINE = 20.0
"""Seconds after which something will not happen any more, on a slow machine."""


class Home:
    """The directories of one person: their own settings file, turnguard's state, and a project to work in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.project.mkdir()
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TURNGUARD_", "XDG_"))},
            "HOME": str(root),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_STATE_HOME": str(root / "state"),
            "TERM": "xterm-256color",
        }
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            self.environ.pop(name, None)

    @property
    def user_file(self) -> Path:
        return self.root / "config/turnguard/settings.json"

    @property
    def project_file(self) -> Path:
        return self.project / ".turnguard/settings.json"

    @property
    def state(self) -> dict[str, bytes]:
        """Every file of the state directory, by its name."""
        state = self.root / "state/turnguard"
        return {file.name: file.read_bytes() for file in state.iterdir()} if state.exists() else {}

    def write(self, file: Path, text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def run(self, *args: object, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """A command over pipes, in the project."""
        return subprocess.run(
            command(*args),
            cwd=self.project,
            env=self.environ | environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def at_terminal(self, *args: object, environ: Mapping[str, str] | None = None, **streams: Any) -> "Terminal":
        """A command at a terminal, in the project. `streams`: those of its three that go elsewhere."""
        return Terminal(command(*args), self.project, self.environ | dict(environ or {}), streams)


class Ended(NamedTuple):
    """How a command at a terminal ended, and all that could be read there."""

    returncode: int
    text: str


class Terminal:
    """A command whose streams are a terminal."""

    def __init__(self, argv: list[str], cwd: Path, environ: Mapping[str, str], streams: Mapping[str, Any]) -> None:
        self._master, slave = pty.openpty()
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=environ,
                start_new_session=True,
                **{"stdin": slave, "stdout": slave, "stderr": slave, **streams},
            )
        finally:
            os.close(slave)
        self._text = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)

    def wait_for(self, text: str) -> None:
        """Reads until a text was shown."""
        while text.encode() not in self._text:
            assert self._read(), self._text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C comes to."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        """Reads until the command ended."""
        while self._read():
            pass
        return Ended(self._process.wait(DEADLINE), self._text.decode().replace("\r\n", "\n"))

    def _read(self) -> bool:
        """Reads what there is; whether there can be more."""
        ready, _, _ = select.select([self._master], [], [], DEADLINE)
        assert ready, self._text
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # Linux's way to say that nobody has the other end any more
            return False
        self._text += chunk
        return chunk != b""


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "turnguard", *map(str, args)]
