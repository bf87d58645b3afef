"""Settings files are looked at without anybody waiting long, wherever they lie."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from turnguard.acp import unhurried
from turnguard.acp.unhurried import UnhurriedSources
from turnguard.settings import places
from turnguard.settings.sourced import SourcedSession
from turnguard.settings.sources import LOOK_SECONDS
from turnguard_protocol.events import TurnStarted

DEADLINE = 10.0


class Files:
    """A person's file, in a file system that hangs when it is told to."""

    def __init__(self, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.user = user
        self.answers = Event()
        self.answers.set()
        self.looks = 0

        def project_file(directory: str) -> Path:
            self.looks += 1
            assert self.answers.wait(DEADLINE)
            return Path(directory) / "settings.json"

        monkeypatch.setattr(places, "user_file", lambda: user)
        monkeypatch.setattr(places, "project_file", project_file)

    def say(self, cap: int) -> None:
        self.user.write_text(f'{{"model": {{"maxToolCallsPerTurn": {cap}}}}}')


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    monkeypatch.setattr(unhurried, "PATIENCE", 0.05)
    files = Files(tmp_path / "user.json", monkeypatch)
    files.say(7)
    yield files
    files.answers.set()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(clock: Callable[[], float]) -> UnhurriedSources:
    return UnhurriedSources("acp", environ={}, clock=clock)


def cap(sources: UnhurriedSources, directory: str) -> object:
    return sources.merged(sources.found(directory)).in_force().max_tool_calls_per_turn


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_change_holds_at_the_next_look(files: Files) -> None:
    clock = Clock()
    sources = made(clock)
    assert cap(sources, "/a") == 7
    files.say(8)
    assert cap(sources, "/a") == 7
    clock.now += LOOK_SECONDS
    assert cap(sources, "/a") == 8
    assert sources.found("/a") is sources.found("/a")


def test_where_a_name_leads_is_asked_once_for_each_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent puts in the place of its own directory later is not followed; a session that begins then is new."""
    monkeypatch.setattr(unhurried, "PATIENCE", DEADLINE)
    monkeypatch.setattr(places, "user_file", lambda: tmp_path / "user.json")
    for name, cap in (("here", 3), ("there", 4)):
        (tmp_path / name / ".turnguard").mkdir(parents=True)
        (tmp_path / name / ".turnguard/settings.json").write_text(f'{{"model": {{"maxToolCallsPerTurn": {cap}}}}}')
    link = tmp_path / "link"
    link.symlink_to("here")
    clock = Clock()
    sources = made(clock)

    def cap_of(session: SourcedSession) -> object:
        clock.now += LOOK_SECONDS
        session.record([TurnStarted()])
        return session.status().cap.value

    first = SourcedSession("first", sources, directory=sources.directory(f"{link}/."))
    assert cap_of(first) == 3
    link.unlink()
    link.symlink_to("there")
    assert cap_of(first) == 3
    assert cap_of(SourcedSession("second", sources, directory=sources.directory(f"{link}/."))) == 4
    assert cap_of(first) == 3


def test_a_name_that_is_not_followed_in_time_is_taken_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Event()

    def hangs(cwd: str) -> str:
        assert answers.wait(DEADLINE)
        return f"/real{cwd}"

    monkeypatch.setattr(unhurried, "PATIENCE", 0.05)
    monkeypatch.setattr(places, "real_directory", hangs)
    sources = made(Clock())
    assert [sources.directory("/a"), sources.directory("/b")] == ["/a", "/b"]
    monkeypatch.setattr(unhurried, "PATIENCE", DEADLINE)
    answers.set()
    wait_for(lambda: sources.directory("/a") == "/real/a")


def test_a_file_system_that_hangs_is_waited_for_once_and_what_was_known_holds(files: Files) -> None:
    clock = Clock()
    sources = made(clock)
    assert cap(sources, "/a") == 7
    files.answers.clear()
    files.say(8)
    clock.now += LOOK_SECONDS
    looks = files.looks
    for _ in range(100):
        assert cap(sources, "/a") == 7
    assert files.looks == looks + 1
    files.answers.set()
    wait_for(lambda: cap(sources, "/a") == 8)


def test_of_many_directories_the_own_settings_stay_known(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unhurried, "MAX_DIRECTORIES", 3)
    sources = made(Clock())
    for number in range(10):
        assert cap(sources, f"/{number}") == 7
    files.answers.clear()
    assert cap(sources, "/new") == 7


def test_without_another_thread_what_was_known_holds(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    del files
    sources = made(Clock())

    def refuse(thread: Thread) -> None:
        raise RuntimeError(thread.name)

    monkeypatch.setattr(Thread, "start", refuse)
    assert cap(sources, "/a") == 7


def test_where_nothing_is_known_yet_the_own_settings_hold(files: Files) -> None:
    sources = made(Clock())
    files.answers.clear()
    assert cap(sources, "/new") == 7
    assert sources.found("/new").project is None
    files.answers.set()
    wait_for(lambda: sources.found("/new").project is not None)
