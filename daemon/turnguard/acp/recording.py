"""Recordings of ACP: what went over a wire, read as the proxy would have heard it.

Each line is a message, alone or as `{"dir": "c2a" | "a2c", "t": time, "msg": message}`; there, what was no JSON is
`raw` in place of `msg`. Of a message alone the direction is told by its method, of an answer by what was asked. Where
the agent alone was recorded, the client is made up: a prompt before the first that the agent tells of a turn.

The proxy itself reads the lines, with somebody who only listens in the place of the guards.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.acp.messages import Message, RequestId, decode, member, text
from turnguard.acp.proxy import Proxy
from turnguard.core.guard import ALL_BUT_TEXT, Needs
from turnguard.settings.layers import Merged
from turnguard.transcript import Format, Head, Told, UnreadableError, decoded
from turnguard_protocol.events import Event, TurnEnded, TurnStarted
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import Action, Cap, OverrideAction, SessionStatus, Totals, Verdict

Side = Literal["c2a", "a2c"]
CLIENT: Final = "c2a"
AGENT: Final = "a2c"

EVERYTHING = ALL_BUT_TEXT._replace(text=True)

NOTHING_SEEN = Totals(tool_calls=0, steps=0, distinct_keys=0, max_key_repeat=0)

Line = tuple[Side, bytes]
"""A message and whose it is."""


class Recorded(Struct):
    """A line of a recording with directions; of a message alone it has no field."""

    dir: Side | None = None
    t: Raw | UnsetType = UNSET
    msg: Raw | UnsetType = UNSET
    raw: str | None = None


_recorded = msgspec.json.Decoder(Recorded)


class Reader:
    """Reads a recording."""

    def __init__(self) -> None:
        self._wire = _Wire()
        self._open: dict[Side, dict[RequestId, str]] = {CLIENT: {}, AGENT: {}}
        self._made_up = _MadeUpClient()
        self._at: str | None = None

    def line(self, line: bytes) -> Iterator[Told]:
        """What the guards would have been told at a line."""
        recorded = decoded(_recorded, line)
        if isinstance(recorded.t, Raw):
            self._at = bytes(recorded.t).decode(errors="replace").strip('"')
        if isinstance(recorded.msg, Raw):
            line = bytes(recorded.msg)
        elif recorded.raw is not None:
            line = recorded.raw.encode(errors="replace")
        message = decode(line)
        if message is None:
            raise UnreadableError("no message that can be read")
        side = recorded.dir or self._side_of(message)
        self._note(side, message)
        for each in self._made_up.lines(side, message, line):
            yield from self._told(each)
        self._wire.complain()

    def end(self) -> Iterator[Told]:
        """What is still to be told of turns that have no end; they get none here."""
        prompts = [request_id for request_id, method in self._open[CLIENT].items() if method == PROMPT]
        for request_id in (*prompts, *self._made_up.prompts):
            told = self._told((AGENT, _line(id=request_id, result={"stopReason": "cancelled"})))
            yield from (each for each in told if not isinstance(each.event, TurnStarted | TurnEnded))

    def _told(self, line: Line) -> Iterator[Told]:
        for session_id, event in self._wire.take(*line):
            yield Told(event, session=session_id, at=self._at)

    # --- who asks whom ------------------------------------------------------------------------------------------------

    def _note(self, side: Side, message: Message) -> None:
        """Remembers what is asked until it is answered. The ids of the two sides are two spaces."""
        if message.id is UNSET or message.id is None:
            return
        if message.method is not None:
            self._open[side][message.id] = message.method
        else:
            self._open[CLIENT if side == AGENT else AGENT].pop(message.id, None)

    def _side_of(self, message: Message) -> Side:
        if message.method is not None:
            is_client = message.method.startswith(BY_CLIENTS) and message.method not in BY_AGENTS
            return CLIENT if is_client else AGENT
        if message.id is UNSET or message.id is None:
            return AGENT
        by_client, by_agent = (self._open[side].get(message.id) for side in (CLIENT, AGENT))
        if by_client is None or by_agent is None:
            return AGENT if by_agent is None else CLIENT
        if by_client in OF_AGENTS:
            return AGENT if member(message.result, OF_AGENTS[by_client]) is not UNSET else CLIENT
        return CLIENT if by_agent in OF_CLIENTS and member(message.result, OF_CLIENTS[by_agent]) is not UNSET else AGENT


PROMPT: Final = "session/prompt"
BY_CLIENTS: Final = ("initialize", "authenticate", "logout", "session/", "_turnguard/")
"""How the methods begin that clients call; extensions of others are nearly always the agent's."""

BY_AGENTS: Final = frozenset({"session/update", "session/request_permission"})

OF_AGENTS: Final = {PROMPT: "stopReason", "session/new": "sessionId", "initialize": "protocolVersion"}
OF_CLIENTS: Final = {
    "session/request_permission": "outcome",
    "fs/read_text_file": "content",
    "terminal/create": "terminalId",
    "terminal/output": "output",
    "elicitation/create": "action",
}
"""Members by which an answer is told from one of the other side where both have asked something under the same id."""


# --- the proxy and who listens ----------------------------------------------------------------------------------------


class _Wire:
    """The proxy, of which only what it tells the guards counts."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, Event]] = []
        numbers = count(1)
        self._proxy = Proxy(self._listener, version="", unique=lambda: f"turnguard {next(numbers)}")

    def _listener(self, session_id: str, cwd: str | None) -> "_Listener":
        return _Listener(session_id, cwd, self._heard)

    def take(self, side: Side, line: bytes) -> Sequence[tuple[str, Event]]:
        """What the guards of which session are told at a line."""
        self._heard.clear()
        (self._proxy.from_client if side == CLIENT else self._proxy.from_agent)(line + b"\n", 0.0)
        return list(self._heard)

    def complain(self) -> None:
        """Raises UnreadableError when the proxy has something to say: it does not read on, or it failed."""
        if self._proxy.said:
            words, self._proxy.said[:] = "; ".join(self._proxy.said), []
            raise UnreadableError(words)


class _Listener:
    """Stands where the guards of a session are, and finds nothing."""

    def __init__(self, session_id: str, cwd: str | None, heard: list[tuple[str, Event]]) -> None:
        self._session_id = session_id
        self._cwd = cwd
        self._heard = heard

    @property
    def needs(self) -> Needs:
        """Everything: who replays it chooses."""
        return EVERYTHING

    def record(self, events: Sequence[Event]) -> Verdict:
        """Hears the events."""
        self._heard += [(self._session_id, event) for event in events]
        return Verdict(action=Action.ALLOW, turn_id="", findings=[], admitted=[], totals=NOTHING_SEEN)

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Nothing was found, so there is nothing to get past."""

    def status(self) -> SessionStatus:
        """As that of a session in which nothing happened."""
        cap = Cap(value=None, explicit=False)
        return SessionStatus(session_id=self._session_id, state="running", totals=NOTHING_SEEN, cap=cap, overrides=[])

    def report(self) -> SettingsReport:
        """The defaults."""
        return Merged([]).report()


# --- the agent alone --------------------------------------------------------------------------------------------------

USER_MESSAGE: Final = "user_message_chunk"
OF_A_TURN: Final = frozenset(
    {USER_MESSAGE, "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)
"""Updates that an agent sends in a turn only."""


class _MadeUpClient:
    """The client that is missing where only the agent was recorded.

    It asks who the agent is when that answers it, prompts when a turn begins, and what the agent answers to a prompt is
    the answer to that one. A message of the user that the agent shows begins another turn.
    """

    def __init__(self) -> None:
        self._is_needed: bool | None = None
        self._numbers = count(1)
        self._prompted: dict[str, str] = {}
        self._last: dict[str, str] = {}

    @property
    def prompts(self) -> Sequence[str]:
        """The ids of prompts that are not answered."""
        return list(self._prompted.values())

    def lines(self, side: Side, message: Message, line: bytes) -> Iterator[Line]:
        """The lines in place of one: itself, with those of the client that are missing."""
        if side == CLIENT and message.method is not None:
            self._is_needed = False
        if side == CLIENT or self._is_needed is False:
            yield side, line
        elif message.is_response:
            yield from self._answered(message, line)
        else:
            yield from self._before(message)
            yield side, line

    def _before(self, message: Message) -> Iterator[Line]:
        session_id, update = message.params.session_id, message.params.update
        if session_id is None or (update is None and message.method != "session/request_permission"):
            return
        kind = "" if update is None else update.kind
        if update is not None and kind not in OF_A_TURN:
            return
        if kind == USER_MESSAGE and self._last.get(session_id) != USER_MESSAGE and session_id in self._prompted:
            yield AGENT, _line(id=self._prompted.pop(session_id), result={"stopReason": "end_turn"})
        self._last[session_id] = kind
        if session_id not in self._prompted:
            self._prompted[session_id] = f"made up {next(self._numbers)}"
            yield CLIENT, _line(id=self._prompted[session_id], method=PROMPT, params={"sessionId": session_id})

    def _answered(self, message: Message, line: bytes) -> Iterator[Line]:
        if isinstance(member(message.result, "protocolVersion"), Raw):
            yield CLIENT, _line(id=message.id, method="initialize", params={})
            yield AGENT, line
            return
        reason = text(member(message.result, "stopReason"))
        session_id = next((each for each in reversed(self._last) if each in self._prompted), None)
        if reason is not None and session_id is not None:
            self._last.pop(session_id)
            yield AGENT, _line(id=self._prompted.pop(session_id), result={"stopReason": reason})


def _line(**members: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


# --- the format -------------------------------------------------------------------------------------------------------

METHODS: Final = BY_AGENTS | {"session/new", "session/load", PROMPT}
ANSWERED: Final = frozenset({"agentCapabilities", "stopReason"})


def _recognises(head: Head) -> bool:
    return any(_is_recorded(each) or _is_message(each) for each in head.objects)


def _is_recorded(line: Mapping[str, Any]) -> bool:
    return line.get("dir") in (CLIENT, AGENT) and _is_message(_object(line.get("msg")))


def _is_message(line: Mapping[str, Any]) -> bool:
    if line.get("jsonrpc") != "2.0":
        return False
    if line.get("method") == "initialize":  # of a server of MCP the version is a text
        return isinstance(_object(line.get("params")).get("protocolVersion"), int)
    return line.get("method") in METHODS or not ANSWERED.isdisjoint(_object(line.get("result")))


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


FORMAT = Format("acp", _recognises, Reader)
