"""What the main thread does: it keeps the time, takes signals, and sees to it that everything ends when one side does.

- The client's stdin ends: the agent's is closed, after a second it gets SIGTERM, and SIGKILL if it ignores that. The
  same when the client has closed its end and for a second the agent takes nothing of what it left.
- Nobody reads the client's stdout any more: the same. (A write of the agent's fails then, as it would without us.)
- SIGTERM and SIGHUP go to the agent. SIGINT is ignored: a terminal sends it to the agent as well, and what becomes of
  it is the agent's affair.
- The agent ends: what it wrote is delivered first, and its exit code is ours. Nobody is waited for without end: neither
  a client that has closed its end and reads nothing, nor what the agent left running and that writes on.
"""

import select
import signal
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from turnguard.acp.child import Child
from turnguard.acp.descendants import Descendants
from turnguard.acp.relay import Ends, Relay
from turnguard.process import Waker

TERM_SECONDS = 1.0
"""From the client's end to the SIGTERM for the agent."""

KILL_SECONDS = 6.0
"""From the client's end to the SIGKILL for the agent. Agents that end by themselves do so within 2 seconds."""

END_SECONDS = 2.0
"""From SIGTERM to SIGKILL for an agent whose turn could not be ended otherwise."""

LAST_WORDS_SECONDS = 1.0
"""What is waited for after the agent's end: output of what it left running, and a client that wants an end itself."""

CHATTER_SECONDS = 3.0
"""How long what the agent left running may go on writing."""

CHATTER_READS = 3
"""Blocks read since the agent's end after which all of its own was: one that was being read, and what the pipe held."""

LEAST_SECONDS = 0.01
"""Between two ticks, whatever the proxy says."""

LOOK_SECONDS = 0.1
"""Between two looks whether an agent that has ended has said everything."""

BROKEN: Final = 70
"""The exit code when turnguard itself failed."""

HUNG_UP = getattr(select, "POLLRDHUP", 0)
"""What is waited for to hear that the other side of a socket writes no more; of a pipe one hears it in any case."""

FORWARDED = () if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)


class Signals:
    """What the process does with signals from now on. `came`: those for the agent, in order."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.was_ignored = [each for each in (signal.SIGINT, *FORWARDED) if signal.getsignal(each) == signal.SIG_IGN]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for each in FORWARDED:
            if each not in self.was_ignored:
                signal.signal(each, lambda number, _frame: self.came.append(number))
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # so that it wakes


class Unchanged:
    """How long something has been the same."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since = 0.0

    def seconds(self, seen: object, now: float) -> float:
        """Since when it is what it is now, as far as it was asked."""
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since


class Watch:
    """Over one relay and its agent. `ends`: the descriptors of the relay."""

    def __init__(self, relay: Relay, child: Child, waker: Waker, signals: Signals, ends: Ends) -> None:
        self._relay = relay
        self._child = child
        self._waker = waker
        self._signals = signals
        self._client_in, self._client_out = ends.client_in, ends.client_out
        self._deadlines: list[tuple[float, Callable[[], None]]] = []
        self._is_client_gone = False
        self._is_killing = False
        self._last_tick = 0.0
        self._asked_to_end_at: float | None = None
        self._ended_at: float | None = None
        self._reads_at_end = 0
        self._silent_since: tuple[int, float] | None = None
        self._has_hung_up = False
        self._left = Unchanged()
        self._untold = Unchanged()
        self._descendants = Descendants(child.pid)

    def run(self) -> int:
        """Relays until the agent has ended; the code to exit with."""
        self._waker.on_signals()
        self._relay.start()
        while True:
            code = self._look(monotonic())
            if code is not None:
                return code
            self._wait(monotonic())

    def _look(self, now: float) -> int | None:
        """Does what is due. The code to exit with, once there is nothing left to do."""
        relay = self._relay
        if relay.has_failed:
            self._kill()
            return None if self._child.exit_code() is None else BROKEN
        while self._signals.came:
            self._send(self._signals.came.pop(0))
            self._asked_to_end_at = now
        if relay.is_agent_to_be_killed and not self._is_killing:
            self._end_agent(now)
        if not self._is_client_gone:
            self._look_at_client(now)
        for deadline in [each for each in self._deadlines if each[0] <= now]:
            self._deadlines.remove(deadline)
            deadline[1]()
        if relay.next_tick is not None and relay.next_tick <= now:
            self._last_tick = now
            relay.tick(now)
        code = self._child.exit_code()
        return None if code is None or not self._is_over(now) else code

    def _wait(self, now: float) -> None:
        due = [at for at, _ in self._deadlines]
        if self._relay.next_tick is not None:
            due.append(max(self._relay.next_tick, self._last_tick + LEAST_SECONDS))
        is_stalling = self._has_hung_up and not self._is_client_gone
        if self._ended_at is not None or self._relay.has_failed or is_stalling:
            due.append(now + LOOK_SECONDS)
        poll = select.poll()
        poll.register(self._waker.fd, select.POLLIN)
        if self._relay.is_client_out_open and not self._is_client_gone:
            poll.register(self._client_out, 0)  # tells only that nobody reads any more
        if self._relay.is_client_in_open and not self._has_hung_up and not self._is_client_gone:
            poll.register(self._client_in, HUNG_UP)  # tells only that nobody writes any more
        for fd, _ in poll.poll(None if not due else max(0.0, min(due) - now) * 1000):
            if fd == self._client_out and self._relay.is_client_out_open:
                self._client_gone(now)
            elif fd == self._client_in and self._relay.is_client_in_open:
                self._has_hung_up = True
        self._waker.take()

    # --- the client's end ---------------------------------------------------------------------------------------------

    def _look_at_client(self, now: float) -> None:
        """A client that closed its end is gone once all it wrote was taken, or nothing of it is taken any more."""
        if self._relay.is_client_gone:
            self._client_gone(now)
        elif self._has_hung_up:
            seconds = self._left.seconds(self._relay.from_client, now)
            if seconds >= TERM_SECONDS:
                self._client_gone(now - seconds)

    def _client_gone(self, now: float) -> None:
        self._is_client_gone = True
        self._deadlines += [(now + TERM_SECONDS, self._terminate), (now + KILL_SECONDS, self._kill)]

    def _terminate(self) -> None:
        self._relay.close_agent_in()
        self._send(signal.SIGTERM)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        self._child.send(number)

    # --- the agent's end ----------------------------------------------------------------------------------------------

    def _end_agent(self, now: float) -> None:
        """Ends an agent that goes on with a stopped turn, and what it started."""
        self._is_killing = True
        self._descendants.look()
        self._terminate()
        self._deadlines.append((now + END_SECONDS, self._kill_all))

    def _kill_all(self) -> None:
        if self._child.exit_code() is None:  # else its id could be another's by now
            self._descendants.look()
        self._kill()
        self._descendants.kill()

    def _is_over(self, now: float) -> bool:
        """Whether the client got everything of an agent that has ended, or will not get it."""
        if self._ended_at is None:
            self._ended_at = now
            self._reads_at_end = self._relay.to_client[0]
            self._descendants.kill()
        if self._relay.is_all_told:
            return True
        if self._asked_to_end_at is not None:
            return now - max(self._ended_at, self._asked_to_end_at) >= LAST_WORDS_SECONDS
        if self._is_client_gone and self._untold.seconds(self._relay.to_client, now) >= KILL_SECONDS:
            return True
        self._cut_off(now, now - self._ended_at)
        return False

    def _cut_off(self, now: float, since_end: float) -> None:
        """What the agent left running may hold its stdout open for ever, silently or not."""
        blocks = self._relay.agent_blocks
        if since_end >= CHATTER_SECONDS and self._relay.to_client[0] - self._reads_at_end >= CHATTER_READS:
            self._relay.cut_agent_off()
        elif blocks is None:
            self._silent_since = None
        elif self._silent_since is None or self._silent_since[0] != blocks:
            self._silent_since = (blocks, now)
        elif now - self._silent_since[1] >= LAST_WORDS_SECONDS:
            self._relay.cut_agent_off()
            self._silent_since = (blocks, now)
