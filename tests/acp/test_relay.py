"""Blocks come in as they come, and the same bytes go out; what is put in between stands in the order of decisions."""

import os
import pty
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.daemon import DEADLINE, wait_until
from turnguard.acp import outlet as outlet_module
from turnguard.acp.outgoing import Direction, Later, Route, whole
from turnguard.acp.outlet import Outlet
from turnguard.acp.pump import BLOCK_BYTES, Pump
from turnguard.acp.relay import LONG_BYTES, Ends, Relay

See = Callable[[bytes], Route | None]


def passes(line: bytes) -> Route | None:
    return None


class Passing:
    """A proxy that forwards, or does what a test says. It keeps what it was called with."""

    def __init__(self, client: See = passes, agent: See = passes) -> None:
        self.said: list[str] = []
        self.next_tick: float | None = None
        self.client_lines: list[bytes] = []
        self.agent_lines: list[bytes] = []
        self.unread_from: list[Direction] = []
        self.ends: list[str] = []
        self.last_words: Route | None = None
        self.in_place_of_unread: Route | None = None
        self.passes_anyhow = False
        self._client = client
        self._agent = agent

    def from_client(self, line: bytes, now: float) -> Route | None:
        self.client_lines.append(line)
        return self._client(line)

    def from_agent(self, line: bytes, now: float) -> Route | None:
        self.agent_lines.append(line)
        return self._agent(line)

    def look_later(self, line: bytes) -> Later | None:
        if not (self.passes_anyhow and line.endswith(b"\n")):
            return None

        def look(now: float) -> Route | None:
            route = self.from_agent(line, now)
            return route and route._replace(to_client=[each for each in route.to_client if each is not line])

        return look

    def unread(self, direction: Direction, start: bytes, now: float) -> Route | None:
        self.unread_from.append(direction)
        return self.in_place_of_unread

    def tick(self, now: float) -> Route | None:
        self.next_tick = None
        return Route(to_client=[b"tick\n"], to_agent=[b"tock\n"])

    def agent_gone(self, now: float) -> Route | None:
        self.ends.append("agent")
        return self.last_words

    def client_gone(self, now: float) -> None:
        self.ends.append("client")


class Wired:
    """A relay between a client and an agent that the test plays."""

    def __init__(self, proxy: Passing, *, observed_bytes: int = 1_000_000) -> None:
        client_in, self.client_writes = os.pipe()
        self.client_reads, client_out = os.pipe()
        self.agent_reads, agent_in = os.pipe()
        agent_out, self.agent_writes = os.pipe()
        self.open = {self.client_writes, self.client_reads, self.agent_reads, self.agent_writes}
        self.wakes = 0
        self.said: list[str] = []
        ends = Ends(client_in, client_out, agent_in, agent_out)
        self.relay = Relay(proxy, ends, self._wake, self.said.append, observed_bytes=observed_bytes)
        self.relay.start()

    def _wake(self) -> None:
        self.wakes += 1

    def close(self, fd: int) -> None:
        self.open.discard(fd)
        os.close(fd)

    def at_client(self, size: int) -> bytes:
        return read(self.client_reads, size)

    def at_agent(self, size: int) -> bytes:
        return read(self.agent_reads, size)


def read(fd: int, size: int) -> bytes:
    """So many bytes, or all to the end."""
    data = bytearray()
    while len(data) < size:
        ready, _, _ = select.select((fd,), (), (), DEADLINE)
        assert ready, f"only {bytes(data[:200])!r} came in time"
        block = os.read(fd, size - len(data))
        if not block:
            break
        data += block
    return bytes(data)


def write(fd: int, data: bytes) -> threading.Thread:
    """Writes in a thread of its own."""

    def run() -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


Wire = Callable[..., Wired]


@pytest.fixture
def wire() -> Iterator[Wire]:
    wired: list[Wired] = []

    def wire(proxy: Passing, **options: int) -> Wired:
        wired.append(Wired(proxy, **options))
        return wired[-1]

    yield wire
    for each in wired:
        for fd in tuple(each.open):
            each.close(fd)
        wait_until(lambda relay=each.relay: relay.is_all_told)


# --- what passes before it is looked at -------------------------------------------------------------------------------

LONG = b"x" * LONG_BYTES + b"\n"


def test_a_long_line_that_passes_anyhow_is_with_the_client_before_it_is_looked_at(wire: Wire) -> None:
    is_with_client = threading.Event()

    def see(line: bytes) -> Route:
        assert is_with_client.wait(DEADLINE)
        return Route(to_client=[line, b"found\n"], to_agent=[b"stop\n"])

    proxy = Passing(agent=see)
    proxy.passes_anyhow = True
    wired = wire(proxy)
    write(wired.agent_writes, LONG)
    assert wired.at_client(len(LONG)) == LONG
    is_with_client.set()
    assert wired.at_client(6) == b"found\n"
    assert wired.at_agent(5) == b"stop\n"


@pytest.mark.parametrize("lines", [[LONG], [LONG, b"short\n"], [b"short\n"], [LONG[:-1]]])
@pytest.mark.parametrize("passes_anyhow", [True, False])
def test_a_line_is_told_once_however_it_passes(wire: Wire, lines: list[bytes], passes_anyhow: bool) -> None:
    proxy = Passing(agent=lambda line: Route(to_client=[whole(line), b"more\n"]))
    proxy.passes_anyhow = passes_anyhow
    wired = wire(proxy)
    write(wired.agent_writes, b"".join(lines)).join()
    wired.close(wired.agent_writes)
    due = b"".join(whole(line) + b"more\n" for line in lines)
    assert wired.at_client(len(due) + 1) == due
    assert proxy.agent_lines == lines


def test_a_long_line_that_may_not_pass_is_withheld(wire: Wire) -> None:
    wired = wire(Passing(agent=lambda line: Route() if line == LONG else None))
    write(wired.agent_writes, LONG + b"next\n")
    assert wired.at_client(5) == b"next\n"


def test_a_line_of_the_client_is_always_looked_at_first(wire: Wire) -> None:
    proxy = Passing(client=lambda line: Route(to_client=[b"answer\n"]))
    proxy.passes_anyhow = True
    wired = wire(proxy)
    write(wired.client_writes, LONG)
    assert wired.at_client(7) == b"answer\n"
    wired.close(wired.client_writes)
    assert wired.at_agent(1) == b""


# --- the pump ---------------------------------------------------------------------------------------------------------


class Collected:
    """What a pump did."""

    is_shut = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.passed = b""
        self.starts = 0

    def decide(self, lines: Sequence[bytes], whole: bytes) -> None:
        assert b"".join(lines) == whole
        self.lines += lines
        self.passed += whole

    def pass_unread(self, block: bytes, *, is_first: bool) -> None:
        self.starts += is_first
        self.passed += block


@given(
    st.lists(st.lists(st.sampled_from(b"\n\rx"), max_size=12).map(bytes), max_size=12),
    st.sampled_from([4, 9, 1_000]),
)
def test_blocks_of_any_kind_pass_and_their_lines_are_seen(blocks: list[bytes], observed: int) -> None:
    way = Collected()
    pump = Pump(-1, way, observed_bytes=observed)
    for block in blocks:
        pump.take(block)
    pump.end()
    data = b"".join(blocks)
    assert way.passed == data
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines = [*lines[:-1], *filter(None, [lines[-1][:-1]])]
    if observed == 1_000:
        assert way.lines == lines
    else:  # a long line may be seen, if it came whole; a short one always is
        assert [line for line in way.lines if len(line) <= observed] == [
            line for line in lines if len(line) <= observed
        ]
        assert len(way.lines) + way.starts == len(lines)


def test_a_partial_line_costs_no_more_than_its_length() -> None:
    """Were it joined or searched from its start for every block, this would take minutes."""
    way = Collected()
    pump = Pump(-1, way)
    for _ in range(40_000):
        pump.take(b"x" * 1_000)
    pump.take(b"\n")
    assert [len(line) for line in way.lines] == [40_000_001]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a terminal that is gone ends without an error")
def test_a_terminal_that_is_gone_is_an_end() -> None:
    terminal, other_end = pty.openpty()
    os.write(other_end, b"the last")
    os.close(other_end)
    way = Collected()
    Pump(terminal, way).run()
    assert way.passed == b"the last"


# --- decisions --------------------------------------------------------------------------------------------------------


def test_a_block_without_a_finding_is_written_as_it_was_read(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy)
    data = b'{"a":1}\r\n\n \r\x0b\x0c\x1c\x85\nlast'
    os.write(wired.agent_writes, data)
    wired.close(wired.agent_writes)
    assert wired.at_client(1_000) == data
    assert proxy.agent_lines == [b'{"a":1}\r\n', b"\n", b" \r\x0b\x0c\x1c\x85\n", b"last"]
    assert proxy.ends == ["agent"]


def test_what_stands_in_for_a_line_stands_in_its_place(wire: Wire) -> None:
    def see(line: bytes) -> Route | None:
        if line == b"3\n":
            return Route(to_client=[b"three\n", b"and more\n"], to_agent=[b"stop\n"])
        return Route() if line == b"5\n" else None

    wired = wire(Passing(agent=see))
    os.write(wired.agent_writes, b"1\n2\n3\n4\n5\n6\n7\n")
    due = b"1\n2\nthree\nand more\n4\n6\n7\n"
    assert wired.at_client(len(due)) == due
    assert wired.at_agent(5) == b"stop\n"


def test_what_the_client_asks_turnguard_is_answered_to_the_client(wire: Wire) -> None:
    wired = wire(Passing(client=lambda line: Route(to_client=[b"answer\n"]) if line == b"status\n" else None))
    os.write(wired.client_writes, b"1\nstatus\n2\n")
    assert wired.at_client(7) == b"answer\n"
    assert wired.at_agent(4) == b"1\n2\n"


def test_each_side_gets_things_in_the_order_of_decisions(wire: Wire) -> None:
    """Were a cancel written after a prompt that was decided on later, it would end that prompt."""
    order: list[bytes] = []

    def forwarded(line: bytes) -> Route | None:
        order.append(line)
        return None

    def injected(line: bytes) -> Route | None:
        order.append(b"cancel " + line)
        return Route(to_client=[line], to_agent=[b"cancel " + line])

    wired = wire(Passing(client=forwarded, agent=injected))
    prompts = b"".join(b"prompt %06d\n" % number for number in range(20_000))
    updates = b"".join(b"update %06d\n" % number for number in range(20_000))
    threads = [write(wired.client_writes, prompts), write(wired.agent_writes, updates)]
    seen = write_to_nowhere(wired.client_reads, len(updates))
    at_agent = wired.at_agent(20_000 * (14 + 21))
    for thread in (*threads, seen):
        thread.join(DEADLINE)
    assert at_agent.splitlines(keepends=True) == order


def write_to_nowhere(fd: int, size: int) -> threading.Thread:
    """Reads so much in a thread of its own."""
    thread = threading.Thread(target=read, args=(fd, size), daemon=True)
    thread.start()
    return thread


def test_last_words_follow_what_the_agent_wrote(wire: Wire) -> None:
    proxy = Passing()
    proxy.last_words = Route(to_client=[b"the end\n"])
    wired = wire(proxy)
    os.write(wired.agent_writes, b"1\n")
    wired.close(wired.agent_writes)
    assert wired.at_client(1_000) == b"1\nthe end\n"


def test_last_words_do_not_run_into_a_line_that_was_not_ended(wire: Wire) -> None:
    proxy = Passing()
    proxy.last_words = Route(to_client=[b"the end\n", b"of it\n"])
    wired = wire(proxy)
    os.write(wired.agent_writes, b"1\n{")
    wired.close(wired.agent_writes)
    assert wired.at_client(1_000) == b"1\n{\nthe end\nof it\n"


# --- long lines -------------------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_streams_through_and_is_counted(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy, observed_bytes=1_000)
    os.write(wired.client_writes, b"1\n" + b"x" * 5_000)
    assert wired.at_agent(5_002) == b"1\n" + b"x" * 5_000, "it does not wait for its end"
    os.write(wired.client_writes, b"y\n2\n")
    assert wired.at_agent(4) == b"y\n2\n"
    assert (proxy.client_lines, proxy.unread_from) == ([b"1\n", b"2\n"], ["client"])


def test_a_long_line_of_several_blocks_is_counted_once(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy, observed_bytes=3 * BLOCK_BYTES)
    line = b"x" * (8 * BLOCK_BYTES) + b"\n"
    writer = write(wired.agent_writes, line)
    assert wired.at_client(len(line)) == line
    writer.join(DEADLINE)
    assert proxy.unread_from == ["agent"]


def test_nothing_is_put_into_the_midst_of_a_long_line(wire: Wire) -> None:
    proxy = Passing(client=lambda line: Route(to_client=[line]))
    wired = wire(proxy, observed_bytes=1_000)
    os.write(wired.agent_writes, b"x" * 5_000)
    assert wired.at_client(5_000) == b"x" * 5_000
    os.write(wired.client_writes, b"answer\n")
    wait_until(lambda: proxy.client_lines == [b"answer\n"])
    with wired.relay.lock:  # now it is decided
        pass
    os.write(wired.agent_writes, b"y" * 1_000)
    assert wired.at_client(1_000) == b"y" * 1_000
    os.write(wired.agent_writes, b"z\n2\n")
    assert wired.at_client(11) == b"z\nanswer\n2\n"


def test_what_stands_in_for_a_long_line_is_put_once_and_the_line_goes_nowhere(wire: Wire) -> None:
    proxy = Passing()
    proxy.in_place_of_unread = Route(to_client=[b"instead\n"])
    wired = wire(proxy, observed_bytes=3 * BLOCK_BYTES)
    write(wired.agent_writes, b"1\n" + b"x" * (8 * BLOCK_BYTES) + b"\n2\n")
    assert wired.at_client(12) == b"1\ninstead\n2\n"


@pytest.mark.parametrize("what", ["client_in", "client_out"])
def test_pipes_that_somebody_made_nonblocking_are_waited_for(what: str) -> None:
    client_in, client_writes = os.pipe()
    client_reads, client_out = os.pipe()
    agent_reads, agent_in = os.pipe()
    agent_out, agent_writes = os.pipe()
    os.set_blocking(client_in if what == "client_in" else client_out, False)
    relay = Relay(Passing(), Ends(client_in, client_out, agent_in, agent_out), lambda: None, lambda words: None)
    relay.start()
    lines = b"x" * 999 + b"\n"
    write(agent_writes, lines * 1_000)
    wait_until(lambda: relay.to_client[1] > 0)
    os.write(client_writes, b"late\n")
    assert read(agent_reads, 5) == b"late\n"
    assert read(client_reads, 1_000_000) == lines * 1_000
    for fd in (client_writes, agent_writes):
        os.close(fd)
    wait_until(lambda: relay.is_all_told)
    for fd in (client_reads, agent_reads):
        os.close(fd)


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_an_agent_that_does_not_read_while_it_writes_is_read(wire: Wire) -> None:
    """More is told to it than its pipe takes, while the client writes to it, too; it reads only when it has written."""
    lines = 5_000
    told = b"t" * 999 + b"\n"
    wired = wire(Passing(agent=lambda line: Route(to_client=[line], to_agent=[told])))
    prompts = b"p" * 999 + b"\n"
    clients = write(wired.client_writes, prompts * 500)
    agents = write(wired.agent_writes, b"u" * 99 + b"\n" + b"".join(b"%099d\n" % each for each in range(1, lines)))
    reader = write_to_nowhere(wired.client_reads, lines * 100)
    agents.join(DEADLINE)
    assert not agents.is_alive()
    at_agent = wired.at_agent((lines + 500) * 1_000)
    assert (at_agent.count(told), at_agent.count(prompts)) == (lines, 500)
    clients.join(DEADLINE)
    reader.join(DEADLINE)


def test_the_cancel_of_a_client_that_does_not_read_gets_out(wire: Wire) -> None:
    """Even while there is something to tell that client."""
    wired = wire(Passing(client=lambda line: Route(to_client=[line * 1_000], to_agent=[line])))
    agents = write(wired.agent_writes, b"update\n" * 200_000)
    wait_until(lambda: wired.relay.agent_blocks is None)
    for number in range(50):
        os.write(wired.client_writes, b"%05d cancel\n" % number)
        assert wired.at_agent(13) == b"%05d cancel\n" % number
    assert wired.at_client(200_000 * 7 + 50 * 13_000).count(b"update\n") == 200_000
    agents.join(DEADLINE)


@pytest.mark.parametrize("passes_anyhow", [True, False])
def test_what_stops_the_agent_does_not_wait_for_a_client_that_does_not_read(wire: Wire, passes_anyhow: bool) -> None:
    why = b"w" * 1_000_000 + b"\n"
    proxy = Passing(agent=lambda line: Route(to_client=[line, why], to_agent=[b"stop\n"]))
    proxy.passes_anyhow = passes_anyhow
    wired = wire(proxy)
    os.write(wired.agent_writes, LONG)
    assert wired.at_agent(5) == b"stop\n"
    assert wired.at_client(len(LONG) + len(why)) == LONG + why


def test_who_tells_more_than_is_kept_waits(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet_module, "MAX_WAITING_BYTES", 100_000)
    proxy = Passing(agent=lambda line: Route(to_agent=[line]))
    wired = wire(proxy)
    agents = write(wired.agent_writes, (b"x" * 999 + b"\n") * 5_000)
    wait_until(lambda: wired.relay.agent_blocks is None and is_full(wired.agent_writes))
    assert len(proxy.agent_lines) < 2_000
    assert wired.at_agent(5_000_000) == (b"x" * 999 + b"\n") * 5_000
    agents.join(DEADLINE)


def is_full(fd: int) -> bool:
    """Whether a pipe takes nothing for a while."""
    return not select.select((), (fd,), (), 0.2)[1]


def test_what_cannot_come_before_the_end_of_a_line_is_bounded() -> None:
    reader, writer = os.pipe()
    out = Outlet(writer, "test")
    out.forward(b"x")
    for _ in range(70):
        out.inject([b"y" * 1_000_000])
    out.forward(b"z\n")
    kept = sum(map(len, out._queue))  # pyright: ignore[reportPrivateUsage]
    assert 60_000_000 < kept <= outlet_module.MAX_WAITING_BYTES + 3
    os.close(reader)
    out.close()


def test_a_write_that_a_signal_cut_short_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    out, write = Outlet(writer, "test"), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    out.forward(b"0123456789\n")
    out.close()
    assert read(reader, 100) == b"0123456789\n"
    os.close(reader)


# --- ends -------------------------------------------------------------------------------------------------------------


def test_the_agents_stdin_ends_after_the_clients_last_line(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy)
    os.write(wired.client_writes, b"1\n2")
    wired.close(wired.client_writes)
    assert wired.at_agent(1_000) == b"1\n2"
    assert proxy.ends == ["client"]
    wait_until(lambda: wired.relay.is_client_gone)
    os.write(wired.agent_writes, b"still heard\n")
    assert wired.at_client(12) == b"still heard\n"


def test_a_client_that_reads_no_more_breaks_the_agents_pipe(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy)
    wired.close(wired.client_reads)
    os.write(wired.agent_writes, b"1\n")
    wait_until(lambda: breaks(wired.agent_writes))
    wait_until(lambda: wired.relay.is_client_gone)
    assert "client" in proxy.ends


def test_an_agent_that_hears_no_more_breaks_the_clients_pipe(wire: Wire) -> None:
    proxy = Passing()
    wired = wire(proxy)
    wired.close(wired.agent_reads)
    os.write(wired.client_writes, b"1\n")
    wait_until(lambda: breaks(wired.client_writes))
    assert not wired.relay.is_client_gone
    os.write(wired.agent_writes, b"still speaking\n")
    assert wired.at_client(15) == b"still speaking\n"


def breaks(fd: int) -> bool:
    """Whether nobody reads a pipe."""
    try:
        os.write(fd, b"?\n")
    except BrokenPipeError:
        return True
    return False


def test_the_proxy_is_called_in_time_and_what_it_says_is_said(wire: Wire) -> None:
    proxy = Passing()

    def see(line: bytes) -> None:
        proxy.next_tick = monotonic() + 5
        proxy.said.append("a word")

    proxy._agent = see  # pyright: ignore[reportPrivateUsage]
    wired = wire(proxy)
    os.write(wired.agent_writes, b"1\n")
    assert wired.at_client(2) == b"1\n"
    assert (wired.relay.next_tick, wired.wakes, wired.said, proxy.said) == (proxy.next_tick, 1, ["a word"], [])
    wired.relay.tick(0.0)
    assert (wired.at_client(5), wired.at_agent(5)) == (b"tick\n", b"tock\n")
    assert wired.relay.next_tick is None


def test_an_error_of_our_own_is_said_without_what_it_was_about(wire: Wire) -> None:
    def see(line: bytes) -> Route | None:
        raise ValueError(line)

    wired = wire(Passing(agent=see))
    os.write(wired.agent_writes, b"a secret\n")
    wait_until(lambda: wired.relay.has_failed)
    assert wired.said == ["turnguard: the relay failed and ends: ValueError in from agent"]
    wired.relay.cut_agent_off()
