"""The proxy without its pipes: lines go in, and what is to be done with them comes out.

It knows whose line it is, by direction, method, request id and session; what is done with it is the session's part.
Ids of the two directions are two spaces, and in each `1` and `"1"` are two ids. What comes out is None, which means to
forward the line as it is, wherever nothing was found; and so it is for everything that is not understood.
"""

from collections.abc import Callable
from uuid import uuid4

from turnguard.acp.agent_lines import AgentLines
from turnguard.acp.client_lines import ClientLines
from turnguard.acp.connection import Connection, Given
from turnguard.acp.messages import decode, decode_at_once, entries, is_batch
from turnguard.acp.options import Options
from turnguard.acp.outgoing import Direction, Later, Out, Route
from turnguard.acp.turn import Guarded

FORWARD = None
"""The line is passed on as it came."""

FAULT = "turnguard: an error of its own, the lines pass on unguarded where it occurs: {where}"

MAX_SAID = 20
"""Different things that are said on stderr; nothing is said twice."""

_FRAMES = 3


def _unique() -> str:
    return str(uuid4())


def _nowhere(words: str) -> None:
    """There is no log."""


class Proxy:
    """One client, one agent, and what passes between them.

    `guard_for` makes the guards of a session, from its id and its directory where that is known. `said` collects lines
    for stderr, without line ends; whoever reads them empties it. `note` is told what goes into the log, and must not
    wait. `unique` gives texts that it never gave before.
    """

    def __init__(
        self,
        guard_for: Callable[[str, str | None], Guarded],
        options: Options | None = None,
        *,
        version: str,
        note: Callable[[str], None] = _nowhere,
        unique: Callable[[], str] = _unique,
    ) -> None:
        self.said: list[str] = []
        self._already_said: set[str] = set()
        self._connection = Connection(Given(guard_for, options or Options(), version, note, unique))
        self._take_client = ClientLines(self._connection).take
        self._agent_lines = AgentLines(self._connection, self._say)
        self._take_agent = self._agent_lines.take
        self._is_killed = False

    @property
    def next_tick(self) -> float | None:
        """When `tick` must be called next, in the clock of `now`; it may change with every call."""
        return self._connection.next_tick

    def from_client(self, line: bytes, now: float) -> Route | None:
        """A line of the client's, with its line end. None: forward it unchanged."""
        try:
            message = decode(line)
            if message is None:
                return _taken_apart(line, now, self.from_client, "client")
            out = self._take_client(message, line, now)
            return FORWARD if out is None else out.route()
        except Exception as error:
            self._fault(error)
            return FORWARD

    def from_agent(self, line: bytes, now: float) -> Route | None:
        """A line of the agent's, with its line end. None: forward it unchanged."""
        if self._connection.is_unguarded:
            return FORWARD
        try:
            message = decode(line)
            if message is not None:
                out = self._take_agent(message, line, now)
            elif is_batch(line):
                return _taken_apart(line, now, self.from_agent, "agent")
            else:
                self._connection.unread += bool(line.strip())
                out = self._agent_lines.take_unread(line, now)
            return FORWARD if out is None else out.route()
        except Exception as error:
            self._fault(error)
            return FORWARD

    def look_later(self, line: bytes) -> Later | None:
        """How a line of the agent's is looked at once it was forwarded; None: it has to be looked at before.

        It passes whatever is found in it, though others may follow. (One without an end would get one.)
        """
        if self._connection.is_unguarded:
            return None
        message = decode_at_once(line) if line.endswith(b"\n") else None
        if message is None or not self._agent_lines.passes(message):
            return None

        def look(now: float) -> Route | None:
            try:
                out = self._take_agent(message, line, now)
            except Exception as error:
                self._fault(error)
                return None
            if out is None:
                return None
            out.to_client = [each for each in out.to_client if each is not line]
            return out.route()

        return look

    def unread(self, direction: Direction, start: bytes, now: float) -> Route | None:
        """A line comes that is too long to be looked at, of which this is the start. None: forward it unchanged."""
        if direction == "client" or self._connection.is_unguarded:
            return FORWARD
        self._connection.unread += 1
        try:
            out = self._agent_lines.take_unread(start, now, is_whole=False)
            return FORWARD if out is None else out.route()
        except Exception as error:
            self._fault(error)
            return FORWARD

    def tick(self, now: float) -> Route | None:
        """Does what is due."""
        out = Out()
        try:
            self._connection.tick(now, out)
            if out.kill_agent:
                self._is_killed = True
                self._connection.fail_pending(out)
        except Exception as error:
            self._fault(error)
        return None if out.is_empty else out.route()

    def agent_gone(self, now: float) -> Route | None:
        """The agent's output ended: what the client is still to be told.

        It is the end of a turn that was being stopped, and after `--kill-after` an error for everything it waits for.
        """
        out = Out()
        try:
            self._connection.agent_gone(out)
            if self._is_killed:
                self._connection.fail_pending(out)
        except Exception as error:
            self._fault(error)
        self._connection.rest()
        return None if out.is_empty else out.route()

    def client_gone(self, now: float) -> None:
        """The client's side ended: nobody is left to tell anything, and nothing is to be done in time."""
        self._connection.rest()

    def _fault(self, error: Exception) -> None:
        """An error of our own changes nothing for the others. Only where it was is said: what came is private."""
        self._connection.faults += 1
        frames: list[str] = []
        at = error.__traceback__
        while at is not None:
            frames.append(f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}")
            at = at.tb_next
        where = " < ".join(reversed(frames[-_FRAMES:]))
        self._say(FAULT.format(where=f"{type(error).__name__} in {where}"))

    def _say(self, words: str) -> None:
        if words not in self._already_said and len(self._already_said) < MAX_SAID:
            self._already_said.add(words)
            self.said.append(words)


def _taken_apart(
    line: bytes, now: float, take: Callable[[bytes, float], Route | None], sender: Direction
) -> Route | None:
    """What becomes of a batch, or of a line that is none; None: forward it unchanged.

    `take` is told each entry as a line of its own. When one of them is not forwarded unchanged the array is made anew,
    of what would go out in the entries' place.
    """
    batch = entries(line)
    routes = [take(entry, now) for entry in batch]
    if all(route is None for route in routes):
        return None
    onward: list[bytes] = []
    back: list[bytes] = []
    for entry, route in zip(batch, routes, strict=True):
        if route is None:
            onward.append(entry)
        elif sender == "agent":
            onward += route.to_client
            back += route.to_agent
        else:
            onward += route.to_agent
            back += route.to_client
    array = [b"[" + b",".join(each.strip() for each in onward) + b"]\n"] if onward else []
    return Route(array, back) if sender == "agent" else Route(back, array)
