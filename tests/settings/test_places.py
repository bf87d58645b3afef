"""Where files are, files that nobody else may read, and the salt that is made once."""

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnguard.settings import places

STARTED_AT_ONCE = 6


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A person's directories that are not those of who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    places.install_salt.cache_clear()
    yield tmp_path
    places.install_salt.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_where_things_are(home: Path) -> None:
    assert places.config_dir() == home / "config/turnguard"
    assert places.user_file() == home / "config/turnguard/settings.json"
    assert places.state_dir() == home / "state/turnguard"


def test_asking_makes_nothing(home: Path) -> None:
    places.user_file()
    places.state_dir()
    places.project_file(home)
    assert list(home.iterdir()) == []


# --- a project's file -------------------------------------------------------------------------------------------------


def put(directory: Path) -> Path:
    file = directory / ".turnguard/settings.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return file


def test_the_nearest_project_file_upwards(home: Path) -> None:
    outer, inner = put(home / "a"), put(home / "a/b/c")
    (home / "a/b/c/d/e").mkdir(parents=True)
    assert places.project_file(home / "a/b/c/d/e") == inner
    assert places.project_file(str(home / "a/b/c")) == inner
    assert places.project_file(home / "a/b") == outer
    assert places.project_file(home / "a/b/not there") == outer
    assert places.project_file(home) is None


def test_a_relative_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = put(home / "a")
    (home / "a/b").mkdir()
    monkeypatch.chdir(home / "a/b")
    assert places.project_file(".") == file


def test_what_is_no_file_is_found_too_and_not_passed_over(home: Path) -> None:
    put(home)
    for name, make in {
        "link": lambda path: path.symlink_to("/nonexistent"),
        "fifo": os.mkfifo,
        "directory": Path.mkdir,
    }.items():
        path = home / name / ".turnguard/settings.json"
        path.parent.mkdir(parents=True)
        make(path)
        assert places.project_file(home / name) == path


def test_an_impossible_directory_has_none() -> None:
    assert places.project_file("/a\0b") is None


# --- private files ----------------------------------------------------------------------------------------------------


def test_a_private_file_is_private(home: Path) -> None:
    path = home / "state/turnguard/file"
    before = os.umask(0)
    try:
        places.write_private(path, b"data")
    finally:
        os.umask(before)
    assert (path.read_bytes(), mode(path), mode(path.parent)) == (b"data", 0o600, 0o700)
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_writing_replaces_what_was_there_and_follows_no_link(home: Path) -> None:
    target, path = home / "target", home / "file"
    target.write_bytes(b"theirs")
    path.symlink_to(target)
    places.write_private(path, b"ours")
    assert (target.read_bytes(), path.read_bytes(), path.is_symlink()) == (b"theirs", b"ours", False)
    places.write_private(path, b"anew")
    assert (path.read_bytes(), mode(path)) == (b"anew", 0o600)


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_what_cannot_be_written_leaves_what_was_there(home: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = home / "file"
    path.write_bytes(b"before")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(step, fail)
        places.write_private(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(home.iterdir()) == [path]


# --- the salt ---------------------------------------------------------------------------------------------------------


def salt_file() -> Path:
    return places.state_dir() / "salt"


def test_the_salt_is_made_once_and_kept() -> None:
    salt = places.install_salt()
    assert len(salt) == 32
    assert (salt_file().read_bytes(), mode(salt_file()), mode(salt_file().parent)) == (salt, 0o600, 0o700)
    places.install_salt.cache_clear()
    assert places.install_salt() == salt
    assert [each.name for each in salt_file().parent.iterdir()] == ["salt"]


def test_another_installation_has_another_salt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    salt = places.install_salt()
    places.install_salt.cache_clear()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert places.install_salt() != salt


def test_processes_that_start_at_once_have_one_salt(home: Path) -> None:
    code = "from turnguard.settings.places import install_salt; print(install_salt().hex())"
    children = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ.copy())
        for _ in range(STARTED_AT_ONCE)
    ]
    said = {child.communicate(timeout=60)[0].strip() for child in children}
    assert said == {salt_file().read_bytes().hex()}


def test_who_comes_second_takes_the_salt_of_who_was_first(monkeypatch: pytest.MonkeyPatch) -> None:
    really_link = Path.hardlink_to

    def somebody_is_faster(self: Path, target: Path) -> None:
        places.write_private(self, b"f" * 32)
        really_link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", somebody_is_faster)
    assert places.install_salt() == b"f" * 32
    assert [each.name for each in salt_file().parent.iterdir()] == ["salt"]


def short(file: Path) -> None:
    places.write_private(file, b"short")


def long(file: Path) -> None:
    places.write_private(file, b"x" * 33)


def empty(file: Path) -> None:
    places.write_private(file, b"")


def readable_for_the_group(file: Path) -> None:
    places.write_private(file, b"s" * 32)
    file.chmod(0o640)


def a_link(file: Path) -> None:
    file.parent.mkdir(parents=True)
    places.write_private(file.parent / "other", b"s" * 32)
    file.symlink_to("other")


def a_fifo(file: Path) -> None:
    file.parent.mkdir(parents=True)
    os.mkfifo(file)


def a_file_for_a_directory(file: Path) -> None:
    file.parent.parent.mkdir(parents=True)
    file.parent.write_text("")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (short, "it is not 32 bytes long"),
        (long, "it is longer than 32 bytes"),
        (empty, "it is not 32 bytes long"),
        (readable_for_the_group, "others may read it"),
        (a_link, "is a link"),
        (a_fifo, "it is not a regular file"),
        (a_file_for_a_directory, "is no directory"),
    ],
)
def test_a_salt_that_is_no_good_is_not_used(
    spoil: Callable[[Path], None], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(salt_file())
    with caplog.at_level(logging.WARNING):
        salt = places.install_salt()
        assert places.install_salt() == salt
    assert (len(salt), salt in (b"s" * 32, b"x" * 32)) == (32, False)
    (record,) = caplog.records
    assert why in record.getMessage()
    assert salt.hex() not in record.getMessage()


def test_a_salt_of_somebody_else_is_not_used(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    salt = places.install_salt()
    places.install_salt.cache_clear()
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    assert places.install_salt() != salt
    assert "it belongs to somebody else" in caplog.text


def test_without_a_place_for_it_there_is_a_salt_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    assert len(places.install_salt()) == 32
    assert "Read-only file system" in caplog.text
    assert list(salt_file().parent.iterdir()) == []
