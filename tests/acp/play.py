"""A Proxy between a client and an agent that a test plays by hand, with a clock that a test moves."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from turnguard.acp.options import Options
from turnguard.acp.outgoing import Route
from turnguard.acp.proxy import Proxy
from turnguard.acp.session import Session
from turnguard.acp.turn import Guarded
from turnguard.core.guard import Needs
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import Event
from turnguard_protocol.settings import SettingsInForce, SettingsReport
from turnguard_protocol.verdicts import OverrideAction, SessionStatus, Verdict

HALTING: SettingsInForce = msgspec.structs.replace(Merged([]).in_force(), progress="halt")
"""The defaults of this face."""

CALLS_TO_HALT = 6
"""The progress guard stops one call with one result after 5; that step closes when the 6th is first seen."""

CALLS_TO_WARNING = 5


class Guard:
    """The guards of a session, and what they were told."""

    def __init__(self, session_id: str, settings: SettingsInForce, cwd: str | None) -> None:
        self.session = SessionGuard(session_id, settings, cwd=cwd, seal=lambda key: f"sealed {key}")
        self.events: list[Event] = []
        self.notices: list[str] = []
        self.was_found = False
        self.change: Callable[[Sequence[Event], Verdict], None] | None = None

    @property
    def needs(self) -> Needs:
        return self.session.needs

    def record(self, events: Sequence[Event]) -> Verdict:
        self.events += events
        verdict = self.session.record(events)
        self.was_found = self.was_found or bool(verdict.findings)
        if self.notices:
            verdict.notices, self.notices = self.notices, []
        if self.change is not None:
            self.change(events, verdict)
        return verdict

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        self.session.override(action, turn_id=turn_id, calls=calls)

    def status(self) -> SessionStatus:
        return self.session.status()

    def report(self) -> SettingsReport:
        return Merged([]).report()


class Play:
    """The proxy, and what came out at both of its ends, as messages and as bytes."""

    def __init__(self, *, settings: SettingsInForce = HALTING, agent: str = "an agent", **options: Any) -> None:
        self.now = 0.0
        self.settings = settings
        self.guards: dict[str, Guard] = {}
        self.at_client: list[Any] = []
        self.at_agent: list[Any] = []
        self.kills = 0
        self.noted: list[str] = []
        numbers = itertools.count(1)
        self.proxy = Proxy(
            self._guard, Options(**options), version="1.2.3", note=self.noted.append, unique=lambda: f"u{next(numbers)}"
        )
        self._agent = agent
        self._calls = itertools.count(1)

    def _guard(self, session_id: str, cwd: str | None) -> Guarded:
        return self.guards.setdefault(session_id, Guard(session_id, self.settings, cwd))

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions as the proxy has them."""
        return self.proxy._connection.sessions  # pyright: ignore[reportPrivateUsage]

    # --- lines --------------------------------------------------------------------------------------------------------

    def client(self, message: Any) -> Route | None:
        """The client sends a message, or bytes."""
        line = line_of(message)
        route = self.proxy.from_client(line, self.now)
        self._deliver(Route(to_agent=[line]) if route is None else whole(route))
        return route

    def agent(self, message: Any) -> Route | None:
        """The agent sends a message, or bytes. One that is said to pass anyhow does."""
        line = line_of(message)
        passes = self.proxy.look_later(line) is not None
        route = self.proxy.from_agent(line, self.now)
        assert not passes or route is None or route.to_client[0] is line
        self._deliver(Route(to_client=[line]) if route is None else whole(route))
        return route

    def wait(self, seconds: float) -> None:
        """Time passes; the proxy is called when it wants to be."""
        end = self.now + seconds
        while self.proxy.next_tick is not None and self.proxy.next_tick <= end:
            self.now = max(self.now, self.proxy.next_tick)
            due = self.proxy.next_tick
            route = self.proxy.tick(self.now)
            if route is not None:
                self._deliver(whole(route))
            assert self.proxy.next_tick != due, "a deadline that is never met"
        self.now = end

    def _deliver(self, route: Route) -> None:
        self.at_client += map(parsed, route.to_client)
        self.at_agent += map(parsed, route.to_agent)
        self.kills += route.kill_agent

    # --- a session ----------------------------------------------------------------------------------------------------

    def start(self, *sessions: str, capabilities: Any = None, version: int = 1) -> "Play":
        """The handshake, and a new session for each name, `s` without one. What was exchanged is forgotten."""
        self.client(request("i", "initialize", {"protocolVersion": version, "clientCapabilities": capabilities or {}}))
        result = {"protocolVersion": version, "agentInfo": {"name": self._agent, "version": "9"}}
        self.agent(result_of("i", result))
        for session_id in sessions or ("s",):
            self.client(request(f"new {session_id}", "session/new", {"cwd": "/project", "mcpServers": []}))
            self.agent(result_of(f"new {session_id}", {"sessionId": session_id}))
        self.forget()
        return self

    def forget(self) -> None:
        """What came out so far is not looked at."""
        self.at_client.clear()
        self.at_agent.clear()

    def prompt(self, request_id: Any, session_id: str = "s", text: str = "go") -> Route | None:
        return self.client(prompt(request_id, session_id, text))

    def call(self, args: Any = None, output: Any = "same", session_id: str = "s", call_id: str | None = None) -> str:
        """The agent makes a call, which ends at once."""
        call_id = self.open_call(args, session_id, call_id)
        update = {"toolCallId": call_id, "status": "completed", "rawOutput": output}
        self.agent(session_update(session_id, "tool_call_update", **update))
        return call_id

    def open_call(self, args: Any = None, session_id: str = "s", call_id: str | None = None) -> str:
        """The agent makes a call, which runs."""
        call_id = call_id or f"call {next(self._calls)}"
        rest = {
            "title": "Looking",
            "name": "look",
            "kind": "read",
            "status": "in_progress",
            "rawInput": args or {"path": "a"},
        }
        self.agent(session_update(session_id, "tool_call", toolCallId=call_id, **rest))
        return call_id

    def loop(self, session_id: str = "s", **call: Any) -> None:
        """The agent makes the same call until the guard has had enough; the last one stays open."""
        for _ in range(CALLS_TO_HALT - 1):
            self.call(session_id=session_id, **call)
        self.open_call(call.get("args"), session_id)

    def halted(self, request_id: Any = 1, *sessions: str, **start: Any) -> "Play":
        """A session in which the prompt was given and its turn is being stopped."""
        self.start(*sessions, **start)
        session_id = sessions[0] if sessions else "s"
        self.prompt(request_id, session_id)
        self.loop(session_id)
        return self

    def answers_to(self, request_id: Any) -> list[Any]:
        """What the client was answered under an id."""
        return answers(self.at_client, request_id)

    def texts(self) -> list[str]:
        """The agent messages that the client saw."""
        updates = [message["params"]["update"] for message in self.at_client if is_update(message)]
        return [each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"]

    def cancels(self, session_id: str = "s") -> int:
        """How often the agent was told to stop."""
        return self.at_agent.count(notification("session/cancel", {"sessionId": session_id}))


def line_of(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def whole(route: Route) -> Route:
    """A route all of whose lines have their ends."""
    for line in (*route.to_client, *route.to_agent):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
    return route


def parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line


def request(request_id: Any, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result_of(request_id: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_of(request_id: Any, code: int, message: str = "no") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def prompt(request_id: Any, session_id: str = "s", text: str = "go") -> dict[str, Any]:
    return request(request_id, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})


def session_update(session_id: str, what: str, /, **update: Any) -> dict[str, Any]:
    return notification("session/update", {"sessionId": session_id, "update": {"sessionUpdate": what, **update}})


def chunk(text: str, session_id: str = "s", **more: Any) -> dict[str, Any]:
    return session_update(session_id, "agent_message_chunk", content={"type": "text", "text": text}, **more)


OPTIONS = (
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
)


def permission(
    request_id: Any, call_id: str, session_id: str = "s", options: Sequence[Any] = OPTIONS, **call: Any
) -> dict[str, Any]:
    params = {"sessionId": session_id, "toolCall": {"toolCallId": call_id, **call}, "options": list(options)}
    return request(request_id, "session/request_permission", params)


def is_update(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "session/update"


def answers(messages: Sequence[Any], request_id: Any) -> list[Any]:
    return [each for each in messages if isinstance(each, dict) and "method" not in each and is_id(each, request_id)]


def is_id(message: dict[str, Any], request_id: Any) -> bool:
    return type(message.get("id")) is type(request_id) and message.get("id") == request_id
