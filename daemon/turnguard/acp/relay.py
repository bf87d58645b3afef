"""What stands between the client and the agent: two pumps, and one decision at a time.

    client -> pump -> | Proxy, under | -> outlet -> agent
    client <- outlet <- | one lock   | <- pump <- agent

What is decided is put into the outlets under the lock, so that each side gets it in the order of the decisions; it is
written outside. A long line that passes whatever is found in it is written first and looked at then: the client does
not wait until a result is weighed. How it all ends is in `watch`.
"""

import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple, Protocol

from turnguard.acp.memory import keep_freed_memory
from turnguard.acp.outgoing import Direction, Later, Route
from turnguard.acp.outlet import Outlet
from turnguard.acp.pump import OBSERVED_BYTES, Pump

LONG_BYTES = 16 * 1024
"""From this length on a line is worth a second look at whether it passes anyhow."""

FAILED = "turnguard: the relay failed and ends: {error} in {thread}"


class Proxy(Protocol):
    """What decides. It is called under a lock and never waits. `said`: what is to be said on stderr, to be emptied."""

    said: list[str]

    @property
    def next_tick(self) -> float | None:
        """When `tick` is to be called."""
        ...

    def from_client(self, line: bytes, now: float) -> Route | None:
        """What happens in place of forwarding a line of the client's; None: it is forwarded."""
        ...

    def from_agent(self, line: bytes, now: float) -> Route | None:
        """What happens in place of forwarding a line of the agent's; None: it is forwarded."""
        ...

    def look_later(self, line: bytes) -> Later | None:
        """How a line of the agent's is looked at once it was forwarded; None: it has to be looked at before."""
        ...

    def unread(self, direction: Direction, start: bytes, now: float) -> Route | None:
        """A line comes that is too long to be looked at. What happens in its place; None: it is forwarded."""
        ...

    def tick(self, now: float) -> Route | None:
        """Does what is due."""
        ...

    def agent_gone(self, now: float) -> Route | None:
        """What the client is to be told after the agent's last line."""
        ...

    def client_gone(self, now: float) -> None:
        """The client's side ended."""
        ...


class Ends(NamedTuple):
    """The file descriptors of both sides. Whoever relays between them owns them."""

    client_in: int
    client_out: int
    agent_in: int
    agent_out: int


class _Way:
    """One direction, as its pump sees it."""

    def __init__(self, relay: "Relay", direction: Direction, out: Outlet, other: Outlet) -> None:
        proxy = relay.proxy
        self._relay = relay
        self._lock = relay.lock
        self._direction: Direction = direction
        self._see = proxy.from_client if direction == "client" else proxy.from_agent
        self._out = out
        self._other = other
        self._is_dropping = False

    @property
    def is_shut(self) -> bool:
        """Whether nobody is there any more to forward to."""
        return self._out.is_shut

    def decide(self, lines: Sequence[bytes], whole: bytes) -> None:
        """Forwards lines, or what stands in for some of them."""
        if len(whole) >= LONG_BYTES and len(lines) == 1 and self._pass_first(whole):
            return
        relay, out, see = self._relay, self._out, self._see
        with self._lock:
            now = monotonic()
            forwarded = at = 0
            for line in lines:
                route = see(line, now)
                at += len(line)
                if route is not None:
                    if forwarded < at - len(line):
                        out.forward(whole[forwarded : at - len(line)])
                    forwarded = at
                    relay.put(route)
            if forwarded < at:
                out.forward(whole[forwarded:] if forwarded else whole)
            relay.look_at_proxy()
        self._write()

    def _pass_first(self, line: bytes) -> bool:
        """Forwards a line and looks at it then, if it passes anyhow. Whether it does."""
        relay, out = self._relay, self._out
        if self._direction == "client":
            return False
        with self._lock:
            look = relay.proxy.look_later(line)
            if look is None:
                return False
            out.forward(line)
        out.flush()
        with self._lock:
            route = look(monotonic())
            if route is not None:
                relay.put(route)
            relay.look_at_proxy()
        self._write()
        return True

    def pass_unread(self, block: bytes, *, is_first: bool) -> None:
        """Forwards a part of a line that is too long to be looked at."""
        with self._lock:
            if is_first:
                route = self._relay.proxy.unread(self._direction, block, monotonic())
                self._is_dropping = route is not None
                if route is not None:
                    self._relay.put(route)
                self._relay.look_at_proxy()
            if not self._is_dropping:
                self._out.forward(block)
        self._write()

    def _write(self) -> None:
        """Has written what was decided. What goes back, a cancel for one, does not wait for who does not read."""
        if self._other.is_waiting:
            self._other.ring()
        self._out.flush()
        self._other.leave()


class Relay:
    """Between one client and one agent. `wake` is called, from any thread, when something has changed:

    `next_tick`: when `tick` is to be called. `is_client_gone`: nobody writes to us any more, or nobody reads.
    `is_all_told`: the client got everything that it will get. `is_agent_to_be_killed`: the proxy wants that.
    `has_failed`: an error of our own.
    """

    def __init__(
        self,
        proxy: Proxy,
        ends: Ends,
        wake: Callable[[], None],
        say: Callable[[str], None],
        *,
        observed_bytes: int = OBSERVED_BYTES,
    ) -> None:
        self.lock = threading.Lock()
        self.proxy = proxy
        self.next_tick = proxy.next_tick
        self.is_client_gone = False
        self.is_all_told = False
        self.is_agent_to_be_killed = False
        self.has_failed = False
        self._wake = wake
        self._say = say
        self._has_agent_ended = False
        self._to_client = Outlet(ends.client_out, "to client")
        self._to_agent = Outlet(ends.agent_in, "to agent")
        client_way = _Way(self, "client", self._to_agent, self._to_client)
        agent_way = _Way(self, "agent", self._to_client, self._to_agent)
        self._from_client = Pump(ends.client_in, client_way, observed_bytes=observed_bytes)
        self._from_agent = Pump(ends.agent_out, agent_way, observed_bytes=observed_bytes)

    # --- what the main thread does ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the pumps."""
        keep_freed_memory()
        self._spawn("from client", self._pump_client)
        self._spawn("from agent", self._pump_agent)

    def tick(self, now: float) -> None:
        """Has the proxy do what is due."""
        with self.lock:
            route = self.proxy.tick(now)
            if route is not None:
                self.put(route)
            self.look_at_proxy()
        for outlet in (self._to_client, self._to_agent):
            if outlet.is_waiting:
                outlet.ring()

    def close_agent_in(self) -> None:
        """Closes the agent's stdin, if nobody is just writing there."""
        self._to_agent.close_now()

    @property
    def is_client_in_open(self) -> bool:
        """Whether the client is still read."""
        return self._from_client.is_open

    @property
    def from_client(self) -> tuple[int, int]:
        """What changes as long as something of the client's is read, or written to the agent."""
        return self._from_client.reads, self._to_agent.gone_bytes

    @property
    def to_client(self) -> tuple[int, int]:
        """What changes as long as something of the agent's is read, or written to the client."""
        return self._from_agent.reads, self._to_client.gone_bytes

    @property
    def is_client_out_open(self) -> bool:
        """Whether the client can still be told something."""
        return not self._to_client.is_shut

    @property
    def agent_blocks(self) -> int | None:
        """How often something was read of the agent's, while its pump waits for more; None while it has work."""
        return self._from_agent.reads if self._from_agent.is_reading else None

    def cut_agent_off(self) -> None:
        """The agent is taken to have said everything, though somebody still holds its stdout."""
        self._spawn("agent cut off", self._agent_ended)

    # --- under the lock -----------------------------------------------------------------------------------------------

    def put(self, route: Route) -> None:
        """Puts what is to be written into the outlets."""
        if route.to_client:
            self._to_client.inject(route.to_client)
        if route.to_agent:
            self._to_agent.inject(route.to_agent)
        if route.kill_agent:
            self.is_agent_to_be_killed = True
            self._wake()

    def look_at_proxy(self) -> None:
        """Takes notice of what the proxy wants besides."""
        proxy = self.proxy
        if proxy.next_tick != self.next_tick:
            self.next_tick = proxy.next_tick
            self._wake()
        if proxy.said:
            for words in proxy.said:
                self._say(words)
            proxy.said.clear()

    # --- threads ------------------------------------------------------------------------------------------------------

    def _pump_client(self) -> None:
        self._from_client.run()
        if not self._to_agent.is_shut:
            self._client_ended()
            with self.lock:
                self._to_agent.source_ended()
            self._to_agent.close()
            self.is_client_gone = True
            self._wake()

    def _pump_agent(self) -> None:
        self._from_agent.run()
        if self._to_client.is_shut:
            self._client_ended()
            self.is_client_gone = True
        self._agent_ended()

    def _client_ended(self) -> None:
        with self.lock:
            self.proxy.client_gone(monotonic())
            self.look_at_proxy()

    def _agent_ended(self) -> None:
        with self.lock:
            if self._has_agent_ended:
                return
            self._has_agent_ended = True
            route = self.proxy.agent_gone(monotonic())
            self._to_client.source_ended()
            if route is not None:
                self.put(route)
            self.look_at_proxy()
        self._to_client.close()
        self.is_all_told = True
        self._wake()

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        threading.Thread(target=self._run, args=(name, run), name=name, daemon=True).start()

    def _run(self, name: str, run: Callable[[], None]) -> None:
        """A pump must not die alone: the other side would wait for ever. Only the kind of error is said."""
        try:
            run()
        except Exception as error:
            self._say(FAILED.format(error=type(error).__name__, thread=name))
            self.has_failed = True
            self._wake()
