"""Files that several processes read."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children
from pathlib import Path

import pytest

from turnguard.headless.processes import WORTHWHILE_BYTES, can_be_shared, in_order, worthwhile


def size_of(file: Path) -> int:
    return len(file.read_bytes())


def die(file: Path) -> int:
    os._exit(len(file.name))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{size}" for size in range(10)]
    for size, file in enumerate(files):
        file.write_bytes(size * b"x")
    return files


def test_results_come_in_the_order_of_the_files(files: list[Path]) -> None:
    assert list(in_order(size_of, files, 2)) == list(range(10))
    assert active_children() == []


def test_what_fails_there_is_raised_here_and_nothing_stays_behind(files: list[Path]) -> None:
    files[3].unlink()
    results = in_order(size_of, files, 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FileNotFoundError):
        next(results)
    assert active_children() == []


def test_who_stops_early_leaves_no_process_behind(files: list[Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody ever writes into it
    results = in_order(size_of, [files[1], pipe, pipe], 2)
    assert next(results) == 1
    assert active_children() != []
    results.close()
    assert active_children() == []


def test_a_process_that_dies_is_told(files: list[Path]) -> None:
    with pytest.raises(BrokenProcessPool):
        list(in_order(die, files, 2))


def test_processes_are_for_much_to_read(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert worthwhile(files) == 1
    with files[0].open("wb") as file:
        file.truncate(WORTHWHILE_BYTES)
    assert worthwhile(files) == 3
    assert worthwhile(files[:2]) == 2
    assert worthwhile([*files[:2], files[0].parent / "gone"]) == 3


def test_what_only_this_process_can_read(files: list[Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert can_be_shared(files[0])
    assert can_be_shared(tmp_path)
    assert not any(map(can_be_shared, [tmp_path / "pipe", Path("/dev/stdin"), Path("/proc/self/fd/0")]))


def ignores_interrupts(file: Path) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_interrupts_that_were_ignored_stay_so(files: list[Path]) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert list(in_order(ignores_interrupts, files[:1], 1)) == [True]
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(in_order(ignores_interrupts, files[:1], 1)) == [False]


def test_a_process_that_dies_while_it_is_started_is_one_that_died(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(self: ProcessPoolExecutor, *_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with pytest.raises(BrokenProcessPool):
        list(in_order(size_of, files, 2))
