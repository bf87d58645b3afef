"""The main thread: time, signals, and the end. The agent is real, the proxy is played."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, thread_time

import pytest

from tests.acp.test_relay import Passing, read, write
from tests.e2e.daemon import DEADLINE, wait_until
from tests.e2e.relayed import agent, is_running, pid_in
from turnguard.acp import watch as watch_module
from turnguard.acp.child import Child
from turnguard.acp.outgoing import Route
from turnguard.acp.relay import Ends, Relay
from turnguard.acp.watch import Signals, Unchanged, Watch
from turnguard.process import Waker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class Untouched(Signals):
    """The process keeps what it does with signals."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.was_ignored: list[signal.Signals] = []


class InThread(Waker):
    """Signals do not wake it, since it is not the main thread's."""

    def on_signals(self) -> None:
        pass


class Watched:
    """A relay in front of an agent, watched in a thread."""

    def __init__(self, proxy: Passing, command: list[str]) -> None:
        self.child = Child(command)
        client_in, self.client_writes = os.pipe()
        self.client_reads, client_out = os.pipe()
        self.open = {self.client_writes, self.client_reads}
        self.signals, self.waker = Untouched(), InThread()
        ends = Ends(client_in, client_out, self.child.stdin, self.child.stdout)
        self.relay = Relay(proxy, ends, self.waker.wake, lambda words: None)
        self.watch = Watch(self.relay, self.child, self.waker, self.signals, ends)
        self.code: int | None = None
        self.cpu = 0.0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.code = self.watch.run()
        self.cpu = thread_time()

    def exit_code(self) -> int | None:
        """The code, once it is over. The end of the agent is looked for now and then: no signal tells it here."""
        wait_until(self._is_over)
        return self.code

    def _is_over(self) -> bool:
        self.waker.wake()
        self.thread.join(0.02)
        return not self.thread.is_alive()

    def close_client_in(self) -> None:
        self.open.discard(self.client_writes)
        os.close(self.client_writes)

    def close(self) -> None:
        if self.thread.is_alive():
            self.child.send(signal.SIGKILL)
            self.signals.came.append(signal.SIGKILL)
            self.exit_code()
        for fd in self.open:
            os.close(fd)


Start = Callable[[Passing, list[str]], Watched]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Watched] = []

    def start(proxy: Passing, command: list[str]) -> Watched:
        started.append(Watched(proxy, command))
        return started[-1]

    yield start
    for each in started:
        each.close()


class Ticking(Passing):
    """Wants to be called ten times, and notes when."""

    def __init__(self, apart: float) -> None:
        super().__init__()
        self.ticks: list[float] = []
        self.apart = apart
        self.next_tick = monotonic() + apart

    def tick(self, now: float) -> Route | None:
        self.ticks.append(now)
        assert self.next_tick is not None
        self.next_tick = self.next_tick + self.apart if len(self.ticks) < 10 else None
        return Route(to_client=[b"t%d\n" % len(self.ticks)])


def test_ticks_come_in_time_and_cost_nothing_in_between(start: Start) -> None:
    proxy = Ticking(0.05)
    due = proxy.next_tick
    assert due is not None
    watched = start(proxy, ["cat"])
    os.write(watched.client_writes, b"{}\n")
    told = read(watched.client_reads, 34)
    assert sorted(told.split()) == sorted([b"{}", *(b"t%d" % number for number in range(1, 11))])
    for number, at in enumerate(proxy.ticks):
        assert due + number * 0.05 <= at < due + number * 0.05 + 1
    os.close(watched.client_writes)
    watched.open.discard(watched.client_writes)
    assert watched.exit_code() == 0
    assert watched.cpu < 0.2


def test_a_tick_that_is_always_due_does_not_take_the_machine(start: Start) -> None:
    proxy = Ticking(0.0)
    proxy.next_tick = 0.0
    began = monotonic()
    start(proxy, ["cat"])
    wait_until(lambda: len(proxy.ticks) == 10)
    assert monotonic() - began >= 9 * watch_module.LEAST_SECONDS


KILL = Route(to_client=[b"failed\n"], kill_agent=True)


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    code = """if True:
        import os, signal
        from turnguard.acp.watch import Signals
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signals = Signals()
        for each in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), each)
        assert signals.came == [signal.SIGTERM], signals.came
        assert signals.was_ignored == [signal.SIGHUP], signals.was_ignored
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE)


def test_an_agent_that_is_to_be_killed_may_end_with_its_stdin(start: Start, tmp_path: Path) -> None:
    script = f'trap "" TERM; touch "{tmp_path}/ready"; cat > /dev/null; exit 4'
    watched = start(Passing(client=lambda line: KILL), ["sh", "-c", script])
    wait_until((tmp_path / "ready").exists)
    os.write(watched.client_writes, b"{}\n")
    assert watched.exit_code() == 4


@pytest.mark.parametrize("what", ["stubborn", "waiting"])
def test_an_agent_that_is_to_be_killed_is_and_what_it_started_too(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(watch_module, "END_SECONDS", 0.5)
    script = f'sleep 600 > /dev/null & echo $! > "{tmp_path}/left"; exec "$@"'
    proxy = Passing(client=lambda line: KILL)
    proxy.last_words = Route(to_client=[b"the end\n"])
    watched = start(proxy, ["sh", "-c", script, "sh", *agent(what, tmp_path / "pid")])
    pid, left = pid_in(tmp_path / "pid"), pid_in(tmp_path / "left")
    neighbour = subprocess.Popen(["sleep", "600"])
    os.write(watched.client_writes, b"{}\n")
    assert read(watched.client_reads, 15) == b"failed\nthe end\n"
    assert watched.exit_code() in ((137,) if what == "stubborn" else (143, 0))  # its stdin ends before it is told
    assert not is_running(pid)
    wait_until(lambda: not is_running(left))
    assert is_running(neighbour.pid), "the process group is the client's"
    neighbour.kill()
    neighbour.wait(DEADLINE)


LINE = b"x" * 999 + b"\n"


def test_a_client_that_left_more_than_the_agent_takes_is_gone_for_both(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "TERM_SECONDS", 0.3)
    watched = start(Passing(), ["sleep", "600"])
    write(watched.client_writes, LINE * 300).join(DEADLINE)
    watched.close_client_in()
    assert watched.exit_code() == 128 + signal.SIGTERM


def test_it_is_noticed_how_long_something_stays_the_same() -> None:
    left = Unchanged()
    assert [left.seconds(seen, now) for seen, now in ((1, 5.0), (1, 6.0), (2, 7.0), (2, 9.5), (1, 9.75))] == [
        0.0,
        1.0,
        0.0,
        2.5,
        0.0,
    ]


def test_a_client_that_wants_an_end_and_reads_nothing_is_not_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "TERM_SECONDS", 0.1)
    monkeypatch.setattr(watch_module, "KILL_SECONDS", 0.5)
    watched = start(Passing(), ["yes"])
    wait_until(lambda: watched.relay.to_client[0] > 0)
    watched.close_client_in()
    assert watched.exit_code() == 128 + signal.SIGTERM


def test_what_the_agent_left_running_may_not_write_on_for_ever(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "CHATTER_SECONDS", 0.5)
    script = "echo first; (while echo more; do sleep 0.05; done) & exit 3"
    watched = start(Passing(), ["sh", "-c", script])
    assert watched.exit_code() == 3
    assert read(watched.client_reads, 6) == b"first\n"


def test_after_the_clients_end_come_sigterm_and_sigkill(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "TERM_SECONDS", 0.1)
    monkeypatch.setattr(watch_module, "KILL_SECONDS", 0.4)
    watched = start(Passing(), agent("stubborn", tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    sent: list[int] = []
    send = watched.child.send
    monkeypatch.setattr(watched.child, "send", lambda number: (sent.append(number), send(number)))
    os.close(watched.client_writes)
    watched.open.discard(watched.client_writes)
    assert watched.exit_code() == 137
    assert sent == [signal.SIGTERM, signal.SIGKILL]


def test_when_turnguard_fails_the_agent_is_not_left_behind(start: Start, tmp_path: Path) -> None:
    class Failing(Passing):
        def from_client(self, line: bytes, now: float) -> Route | None:
            raise ValueError

    watched = start(Failing(), agent("stubborn", tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    os.write(watched.client_writes, b"{}\n")
    assert watched.exit_code() == watch_module.BROKEN
    wait_until(lambda: not is_running(pid))
