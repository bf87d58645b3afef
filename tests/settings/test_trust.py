"""The trust store: for which directory and which bytes it holds, and what it takes to be believed."""

import fcntl
import json
import os
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from turnguard.settings import trust as store
from turnguard.settings.places import write_private
from turnguard.settings.trust import Trust, is_trusted, revoke, trust, trusted

NOW = datetime(2026, 3, 4, 5, 6, 7, 891011, UTC)
DIGEST, OTHER = "a" * 64, "b" * 64


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A person's directories that are not those of who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store._say_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield tmp_path
    store._say_once.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def file(home: Path) -> Path:
    return home / "state/turnguard/trust.json"


def test_nothing_is_trusted_to_begin_with(home: Path, project: Path) -> None:
    assert (trusted(), is_trusted(project, DIGEST), revoke(project)) == ([], False, False)


def test_trust_holds_for_a_directory_and_a_digest(project: Path, tmp_path: Path) -> None:
    trust(project, DIGEST, NOW)
    assert is_trusted(project, DIGEST)
    assert not is_trusted(project, OTHER)
    assert not is_trusted(tmp_path, DIGEST)
    assert not is_trusted(project / "inner", DIGEST)
    assert trusted() == [Trust(str(project), DIGEST, "2026-03-04T05:06:07+00:00")]


def test_the_time_is_utc(project: Path) -> None:
    trust(project, DIGEST, NOW.astimezone(timezone(timedelta(hours=9))))
    assert trusted()[0].since == "2026-03-04T05:06:07+00:00"


def test_trust_holds_for_the_real_path(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    trust(link, DIGEST, NOW)
    assert is_trusted(project, DIGEST)
    assert trusted()[0].directory == str(project)
    project.rename(tmp_path / "moved")
    project.symlink_to(tmp_path)
    assert not is_trusted(project, DIGEST)


def test_trust_is_not_reached_through_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    trust(project, DIGEST, NOW)
    assert not is_trusted(tmp_path / "link", DIGEST)
    assert not is_trusted(project / "..", DIGEST)
    assert not is_trusted(project.parent / "x" / ".." / project.name, DIGEST)


def test_a_newer_digest_takes_the_place_of_the_older_one(project: Path) -> None:
    trust(project, DIGEST, NOW)
    trust(project, OTHER, NOW)
    assert (is_trusted(project, DIGEST), is_trusted(project, OTHER), len(trusted())) == (False, True, 1)


def test_trust_is_taken_back(project: Path, tmp_path: Path) -> None:
    trust(project, DIGEST, NOW)
    trust(tmp_path, DIGEST, NOW)
    assert revoke(project) is True
    assert (is_trusted(project, DIGEST), is_trusted(tmp_path, DIGEST)) == (False, True)
    assert revoke(project) is False


def test_a_directory_that_is_gone_can_be_taken_back(project: Path) -> None:
    trust(project, DIGEST, NOW)
    project.rmdir()
    assert revoke(project) is True


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    project = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    trust(project, DIGEST, NOW)
    assert is_trusted(project, DIGEST)
    assert revoke(project)


def test_the_store_is_private(project: Path, file: Path) -> None:
    trust(project, DIGEST, NOW)
    revoke(project)
    for each in file.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


# --- a store that is not believed -------------------------------------------------------------------------------------


def forged(project: Path) -> bytes:
    return json.dumps({"trusted": [{"directory": str(project), "digest": DIGEST, "since": "2026"}]}).encode()


def test_what_the_forgeries_below_lack_is_only_what_they_lack(project: Path, file: Path) -> None:
    write_private(file, forged(project))
    assert is_trusted(project, DIGEST)


def assert_not_believed(project: Path, why: str, caplog: pytest.LogCaptureFixture) -> None:
    assert (is_trusted(project, DIGEST), trusted()) == (False, [])
    (record,) = caplog.records
    assert why in record.getMessage()


def test_a_link_is_not_believed(project: Path, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_private(file.with_name("other"), forged(project))
    file.symlink_to("other")
    assert_not_believed(project, "is a link", caplog)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_may_write_is_not_believed(
    project: Path, file: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    write_private(file, forged(project))
    file.chmod(mode)
    assert_not_believed(project, "others may write it", caplog)


def test_what_is_somebody_elses_is_not_believed(
    project: Path, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_private(file, forged(project))
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    assert_not_believed(project, "it belongs to somebody else", caplog)


BROKEN = [
    *(b"", b"{", b"[]", b"\xff", b'"\xff"'),
    *(b'{"trusted": {}}', b'{"trusted": [5]}', b'{"trusted": [{"directory": "/"}]}'),
]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_store_trusts_nothing(
    project: Path, file: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write_private(file, data)
    assert_not_believed(project, "cannot be used", caplog)


def test_a_store_that_blocks_or_is_huge_trusts_nothing(
    project: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_private(file, forged(project).ljust(store.MAX_STORE_BYTES + 1))
    assert_not_believed(project, "longer", caplog)
    file.unlink()
    os.mkfifo(file)
    assert not is_trusted(project, DIGEST)


def test_after_a_broken_store_there_can_be_trust_again(project: Path, file: Path) -> None:
    write_private(file, b"{")
    trust(project, DIGEST, NOW)
    assert is_trusted(project, DIGEST)


def test_trusting_writes_over_a_link_and_not_through_it(project: Path, file: Path, tmp_path: Path) -> None:
    write_private(file, b"")
    file.unlink()
    (tmp_path / "theirs").write_text("theirs")
    file.symlink_to(tmp_path / "theirs")
    trust(project, DIGEST, NOW)
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert is_trusted(project, DIGEST)


# --- changes at the same time -----------------------------------------------------------------------------------------


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    def change(worker: int) -> None:
        for n in range(5):
            trust(tmp_path / f"{worker}-{n}", DIGEST, NOW)
        revoke(tmp_path / f"{worker}-0")

    workers = [threading.Thread(target=change, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(trusted()) == 4 * 4


def test_a_change_does_not_wait_for_ever(project: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(project, DIGEST, NOW)
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    with file.with_suffix(".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError):
            trust(project, OTHER, NOW)
        with pytest.raises(TimeoutError):
            revoke(project)
        assert is_trusted(project, DIGEST)
    revoke(project)
    assert not is_trusted(project, DIGEST)
