"""What a program wrote is delivered, and what it left running does not hold turnguard up."""

import os
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.e2e.daemon import DEADLINE, wait_until

from turnguard.headless import passing as passing_module
from turnguard.headless.live import Live
from turnguard.headless.passing import Passing
from turnguard.headless.stream import Stream
from turnguard.headless.watching import Watching

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="turnguard exec does not run there")


def nobody(name: str | None) -> None:
    raise AssertionError(name)


class Pipes:
    """A thread that passes what is written into one pipe to another. `left`: the end that a program left open."""

    def __init__(self) -> None:
        source, self.left = os.pipe()
        self.reads, sink = os.pipe()
        self.woken = threading.Event()
        watching = Watching(Stream(()), Live(nobody), is_halting=True)  # pyright: ignore[reportArgumentType]
        self.passing = Passing(source, sink, watching, self.woken.set)
        self._sink = sink

    def is_over(self) -> bool:
        return self.passing.is_over

    def close(self) -> None:
        self.passing.cut()
        os.close(self.reads)
        self.passing.join(DEADLINE)
        os.close(self._sink)
        os.close(self.left)


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipes]:
    monkeypatch.setattr(passing_module, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(passing_module, "PIPE_BYTES", 1000)
    pipes = Pipes()
    yield pipes
    pipes.close()


def test_all_that_the_program_wrote_passes_however_late_it_is_read(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing_module, "LEFT_SECONDS", 0.0)
    os.set_blocking(pipes.left, False)
    written = 0
    pipes.passing.start()
    while written < 1_000_000:  # until neither pipe holds more
        try:
            written += os.write(pipes.left, b"x" * 4096)
        except BlockingIOError:
            break
    pipes.passing.program_ended()
    read = 0
    while read < written:
        read += len(os.read(pipes.reads, 65536))
    assert read == written
    wait_until(pipes.is_over)


def test_what_says_nothing_is_not_waited_for(pipes: Pipes) -> None:
    pipes.passing.start()
    os.write(pipes.left, b"last")
    assert os.read(pipes.reads, 10) == b"last"
    assert not pipes.passing.is_over
    pipes.passing.program_ended()
    wait_until(pipes.is_over)
    assert pipes.woken.is_set()


def test_what_goes_on_is_heard_for_a_while(pipes: Pipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing_module, "SILENT_SECONDS", DEADLINE * 2)
    monkeypatch.setattr(passing_module, "LEFT_SECONDS", 0.2)
    os.set_blocking(pipes.reads, False)
    pipes.passing.start()
    pipes.passing.program_ended()

    def is_over_while_it_writes() -> bool:
        if not pipes.passing.is_over:
            os.write(pipes.left, b"x")
        return pipes.passing.is_over

    try:
        wait_until(is_over_while_it_writes)
    except BrokenPipeError:  # just then
        wait_until(pipes.is_over)
    assert len(os.read(pipes.reads, 65536)) > 1


def test_it_can_be_cut(pipes: Pipes) -> None:
    pipes.passing.start()
    pipes.passing.cut()
    wait_until(pipes.is_over)


def test_the_program_is_cut_off_when_the_reader_has_gone(pipes: Pipes) -> None:
    pipes.passing.start()
    os.close(pipes.reads)
    pipes.reads = os.open(os.devnull, os.O_RDONLY)
    wait_until(pipes.is_over)
    with pytest.raises(BrokenPipeError):
        os.write(pipes.left, b"x")
    assert pipes.passing.failure is None


def test_a_sink_that_does_not_block_is_waited_for(pipes: Pipes) -> None:
    """Somebody else has it, too, and made it so."""
    os.set_blocking(pipes._sink, False)  # pyright: ignore[reportPrivateUsage]
    pipes.passing.start()
    writer = threading.Thread(target=lambda: [os.write(pipes.left, b"x" * 1000) for _ in range(500)])
    writer.start()
    read = 0
    while read < 500_000:
        read += len(os.read(pipes.reads, 65536))
    writer.join(DEADLINE)
    assert read == 500_000
