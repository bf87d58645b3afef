"""What is kept of sessions: one process at a time, whole or not at all, and not for ever."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turnguard.headless.hooks import lock
from turnguard.headless.hooks.lock import BusyError, locked
from turnguard.headless.hooks.store import KEEP_SECONDS, SWEEP_SECONDS, Store, StoreError

HOLD = """
import sys
from pathlib import Path
from turnguard.headless.hooks.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "turnguard/sessions")


def write(store: Store, name: str, data: bytes) -> None:
    with store.opened(name) as entry:
        entry.write(data)


def read(store: Store, name: str) -> bytes | None:
    with store.opened(name) as entry:
        return entry.data


def test_what_is_written_is_read(store: Store) -> None:
    assert read(store, "a") is None
    write(store, "a", b"one")
    write(store, "a", b"two")
    write(store, "b", b"other")
    assert (read(store, "a"), read(store, "b")) == (b"two", b"other")


def test_nobody_else_can_read_it(store: Store, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(store, "a", b"one")
        store.sweep()
    finally:
        os.umask(before)
    left = [tmp_path / "turnguard", *(tmp_path / "turnguard").rglob("*")]
    assert {each.name for each in left} == {"turnguard", "sessions", "a.json", "a.lock", "swept"}
    assert all(stat.S_IMODE(each.stat().st_mode) == (0o700 if each.is_dir() else 0o600) for each in left)


def test_a_process_that_was_killed_while_it_wrote_leaves_what_was_there(store: Store, tmp_path: Path) -> None:
    write(store, "a", b"one")
    (tmp_path / "turnguard/sessions/a.new").write_bytes(b"hal")
    assert read(store, "a") == b"one"
    write(store, "a", b"two")
    assert read(store, "a") == b"two"


def test_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    write(store, "a", b"one")
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    for suffix in ("json", "new"):
        file = tmp_path / f"turnguard/sessions/a.{suffix}"
        file.unlink(missing_ok=True)
        file.symlink_to(target)
    with store.opened("a") as entry:
        assert entry.problem is not None
        with pytest.raises(StoreError):
            entry.write(b"two")
    assert target.read_bytes() == b"precious"


def test_one_process_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError), locked(file, seconds=0.05):
            pass
        holder.kill()
        holder.wait()
        with locked(file, seconds=5):
            pass


def test_a_lock_whose_file_was_thrown_away_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, take, thrown = tmp_path / "lock", lock._lock, list[int]()

    def throw_away_first(descriptor: int) -> bool:
        if not thrown:
            thrown.append(descriptor)
            file.unlink()
        return take(descriptor)

    monkeypatch.setattr(lock, "_lock", throw_away_first)
    with locked(file):
        assert thrown
        with pytest.raises(BusyError), locked(file, seconds=0):
            pass


def test_files_that_nobody_used_for_a_week_go(store: Store, tmp_path: Path) -> None:
    directory = tmp_path / "turnguard/sessions"
    old = time.time() - KEEP_SECONDS - 60
    for name in ("old", "new", "used"):
        write(store, name, b"x")
        os.utime(directory / f"{name}.lock", (old, old))
    (directory / "old.new").write_bytes(b"y")
    for each in (directory / "old.new", directory / "old.json"):
        os.utime(each, (old, old))
    store.sweep()
    assert {each.name for each in directory.iterdir()} == {"new.json", "new.lock", "used.json", "used.lock", "swept"}


def test_a_session_at_work_does_not_go(store: Store, tmp_path: Path) -> None:
    directory = tmp_path / "turnguard/sessions"
    write(store, "a", b"x")
    old = time.time() - KEEP_SECONDS - 60
    for each in directory.iterdir():
        os.utime(each, (old, old))
    with locked(directory / "a.lock"):
        store.sweep()
    assert (directory / "a.json").exists()


def test_it_is_looked_once_a_day(store: Store, tmp_path: Path) -> None:
    directory = tmp_path / "turnguard/sessions"
    write(store, "a", b"x")
    store.sweep()
    old = time.time() - KEEP_SECONDS - 60
    for each in (directory / "a.json", directory / "a.lock"):
        os.utime(each, (old, old))
    store.sweep()
    assert (directory / "a.json").exists()
    yesterday = time.time() - SWEEP_SECONDS - 60
    os.utime(directory / "swept", (yesterday, yesterday))
    store.sweep()
    assert not (directory / "a.json").exists()


def test_a_sweep_where_nothing_can_be_kept_is_nothing(tmp_path: Path) -> None:
    Store(tmp_path / "missing").sweep()
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError), Store(tmp_path / "sessions").opened("a"):
        pass


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("")
    with pytest.raises(StoreError), Store(tmp_path / "sessions").opened("a"):
        pass
