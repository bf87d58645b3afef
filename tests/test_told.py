"""What turnguard says is written, and never waited for."""

import os
from pathlib import Path

import pytest

from tests.e2e.daemon import DEADLINE
from turnguard import appended as appended_module
from turnguard import told as told_module
from turnguard.appended import append, open_to_append
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


# --- the files --------------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for file in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file") as refused:
            open_to_append(file)
        assert refused.value.filename == str(file)


def test_the_protocols_own_streams_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("wb") as out:
        monkeypatch.setattr(appended_module, "OF_THE_PROTOCOL", (out.fileno(), 10_000))
        with pytest.raises(OSError, match="stdin or stdout"):
            open_to_append(tmp_path / "out")
        os.close(open_to_append(tmp_path / "other"))


def test_all_is_written_however_little_is_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd, write = open_to_append(tmp_path / "log"), os.write
    monkeypatch.setattr(appended_module.os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    append(fd, bytes(range(100)))
    os.close(fd)
    assert (tmp_path / "log").read_bytes() == bytes(range(100))


def test_only_the_owner_can_read_what_is_made(tmp_path: Path) -> None:
    os.close(open_to_append(tmp_path / "log"))
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
