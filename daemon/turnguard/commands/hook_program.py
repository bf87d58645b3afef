"""The program that an agent's hooks run: by its whole path, or by its name where a file goes to other people."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

NAME = "turnguard"


def command(agent: str, assignments: Sequence[str], *, by_name: bool) -> str:
    """The command of an agent's hooks, for a shell. `assignments`: settings, as `--set` takes them."""
    words = [*([NAME] if by_name else _own()), "hook", agent]
    words += [word for each in assignments for word in ("--set", each)]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def why_not_found() -> str | None:
    """Why agents may not find this program by its name, for people; None where nothing speaks against it.

    It goes by the PATH of this process. Agents have their own: that of another shell, or of the desktop.
    """
    found = shutil.which(NAME)
    if found is None:
        return f"no {NAME} is on this PATH"
    if not _is_this(found):
        return f"on this PATH it is {Path(found).absolute()}, another one than this"
    if sys.prefix != sys.base_prefix and Path(found).parent == Path(sys.executable).parent:
        return f"it is on this PATH by the environment {sys.prefix}, which an agent may be started without"
    return None


def _own() -> list[str]:
    script = _script()
    return [str(script)] if script.exists() else [sys.executable, "-m", NAME]


def _script() -> Path:
    return Path(sys.executable).with_name(f"{NAME}.exe" if os.name == "nt" else NAME)


def _is_this(found: str) -> bool:
    for own in (_script(), Path(sys.argv[0])):
        with suppress(OSError):  # one that is not there
            if own.samefile(found):
                return True
    return False
