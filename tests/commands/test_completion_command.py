"""The script for bash, used as bash uses it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands.process import DEADLINE, Home

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

COMPLETE = """\
source "$1"
shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_turnguard "$@"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(home: Home) -> Path:
    (home.project / "transcript.jsonl").touch()
    (home.project / "tests").mkdir()
    return home.write(home.root / "script", home.run("completion", "bash").stdout)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("repl", {"replay"}),
        ("replay --com", {"--compare"}),
        ("replay cla", {"claude"}),
        ("replay t", {"transcript.jsonl", "tests"}),
        ("replay a b tr", {"transcript.jsonl"}),
        ("replay --html tr", {"transcript.jsonl"}),
        ("explain tr", {"transcript.jsonl"}),
        ("settings --project t", {"tests"}),
        ("settings check tr", {"transcript.jsonl"}),
        ("hook inst", {"install"}),
        ("hook install cla", {"claude"}),
        ("hook install claude --wr", {"--write"}),
        ("exec -- ls t", {"transcript.jsonl", "tests"}),
        ("acp -- t", {"transcript.jsonl", "tests"}),
    ],
)
def test_bash(home: Home, script: Path, words: str, expected: set[str]) -> None:
    ran = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", script, "turnguard", *words.split()],
        cwd=home.project,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert {word.rstrip("/") for word in ran.stdout.split()} == expected


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells(home: Home, shell: str) -> None:
    assert "claude" in home.run("completion", shell).stdout
