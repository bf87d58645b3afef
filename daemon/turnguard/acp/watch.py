"""What the main thread does: it keeps the time, takes signals, and sees to it that everything ends when one side does.

- The client's stdin ends: the agent's is closed, after a second it gets SIGTERM, and SIGKILL if it ignores that.
- Nobody reads the client's stdout any more: the same. (A write of the agent's fails then, as it would without us.)
- SIGTERM and SIGHUP go to the agent. SIGINT is ignored: a terminal sends it to the agent as well, and what becomes of
  it is the agent's affair.
- The agent ends: what it wrote is delivered first, and its exit code is ours.
"""

import select
import signal
import sys
from collections.abc import Callable
from time import monotonic
from typing import Final

from turnguard.acp.child import Child
from turnguard.acp.descendants import Descendants
from turnguard.acp.relay import Relay
from turnguard.process import Waker

TERM_SECONDS = 1.0
"""From the client's end to the SIGTERM for the agent."""

KILL_SECONDS = 6.0
"""From the client's end to the SIGKILL for the agent. Agents that end by themselves do so within 2 seconds."""

END_SECONDS = 2.0
"""From SIGTERM to SIGKILL for an agent whose turn could not be ended otherwise."""

LAST_WORDS_SECONDS = 1.0
"""What is waited for after the agent's end: output of what it left running, and a client that wants an end itself."""

LEAST_SECONDS = 0.01
"""Between two ticks, whatever the proxy says."""

LOOK_SECONDS = 0.1
"""Between two looks whether an agent that has ended has said everything."""

BROKEN: Final = 70
"""The exit code when turnguard itself failed."""

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


class Watch:
    """Over one relay and its agent. `client_out`: the descriptor that the relay writes to."""

    def __init__(self, relay: Relay, child: Child, waker: Waker, signals: Signals, client_out: int) -> None:
        self._relay = relay
        self._child = child
        self._waker = waker
        self._signals = signals
        self._client_out = client_out
        self._deadlines: list[tuple[float, Callable[[], None]]] = []
        self._is_client_gone = False
        self._is_killing = False
        self._last_tick = 0.0
        self._asked_to_end_at: float | None = None
        self._ended_at: float | None = None
        self._silent_since: tuple[int, float] | None = None
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
        if relay.is_client_gone and not self._is_client_gone:
            self._client_gone(now)
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
        if self._ended_at is not None or self._relay.has_failed:
            due.append(now + LOOK_SECONDS)
        poll = select.poll()
        poll.register(self._waker.fd, select.POLLIN)
        if self._relay.is_client_out_open and not self._is_client_gone:
            poll.register(self._client_out, 0)  # tells only that nobody reads any more
        for fd, _ in poll.poll(None if not due else max(0.0, min(due) - now) * 1000):
            if fd == self._client_out and self._relay.is_client_out_open:
                self._client_gone(now)
        self._waker.take()

    # --- the client's end ---------------------------------------------------------------------------------------------

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
            self._descendants.kill()
        if self._relay.is_all_told:
            return True
        if self._asked_to_end_at is not None:
            return now - max(self._ended_at, self._asked_to_end_at) >= LAST_WORDS_SECONDS
        self._cut_off_when_silent(now)
        return False

    def _cut_off_when_silent(self, now: float) -> None:
        """What the agent left running may hold its stdout open for ever."""
        blocks = self._relay.agent_blocks
        if blocks is None:
            self._silent_since = None
        elif self._silent_since is None or self._silent_since[0] != blocks:
            self._silent_since = (blocks, now)
        elif now - self._silent_since[1] >= LAST_WORDS_SECONDS:
            self._relay.cut_agent_off()
            self._silent_since = (blocks, now)
