"""`turnguard demo`, run as a process, into a pipe."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from turnguard import demo
from turnguard.core.messages import HEDGED_CAP


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "turnguard", "demo", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_turn_comes_out_as_told_and_the_message_ends_it() -> None:
    answer = run()
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert [line.split()[-5:] for line in lines[3:5]] == [
        ["100", "100", "99", "2", "allow"],
        ["241", "241", "240", "2", "allow"],
    ]
    assert [" ".join(line.split()[-6:]) for line in lines[5:9]] == [
        "11 11 7 5 halt: no_new_evidence",
        "101 100 82 20 halt: stuck",
        "101 100 101 1 halt: explicit_cap",
        "105 95 105 1 halt: explicit_cap",
    ]
    message = " ".join(line.strip() for line in lines[lines.index("") :])
    assert HEDGED_CAP.format(count=101) in message
    assert message.endswith("set model.maxToolCallsPerTurn (0: no cap).")


def test_piped_it_has_no_colours_and_fits_80_columns() -> None:
    output = run().stdout
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80


def test_it_says_how_it_is_called() -> None:
    assert "usage: turnguard demo" in run("--help").stdout
    assert run("--fast").returncode == 2


def test_another_outcome_than_told_is_shown_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts: Sequence[demo.Part] = [part._replace(told=part.told._replace(calls=102)) for part in demo.PARTS[3:4]]
    monkeypatch.setattr(demo, "PARTS", parts)
    assert demo.main([]) == 1
    assert "expected: Told(calls=102, " in capsys.readouterr().out
