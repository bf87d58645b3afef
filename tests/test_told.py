"""What turnguard says is written, and never waited for."""

import os
from pathlib import Path

import pytest

from tests.e2e.daemon import DEADLINE
from turnguard import told as told_module
from turnguard.told import MAX_WAITING, Told


def test_everything_is_logged_before_the_end_and_after_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("before\n")
    told = Told(file)
    told.note("before the start")
    told.start()
    for number in range(900):
        told.note(f"line {number} \ud800")
    told.end()
    first, *lines = file.read_text("utf-8").splitlines()
    assert first == "before"
    words = [line.partition(" ")[2] for line in lines]
    assert words == ["before the start", *(f"line {number} \\ud800" for number in range(900))]


def test_a_stderr_that_takes_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(told_module, "STDERR", writer)
    told = Told(tmp_path / "log")
    told.start()
    for _ in range(3 * MAX_WAITING):
        told.say("x" * 1_000)
    monkeypatch.setattr(told_module, "END_SECONDS", 0.01)
    told.end()
    os.close(reader)
    monkeypatch.setattr(told_module, "END_SECONDS", DEADLINE)
    told.end()  # nobody reads any more: it ends before another test's file gets the number of `writer`
    os.close(writer)
