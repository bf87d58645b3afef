"""Hand-made messages in the shapes that agents send, and a session that is told them."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from turnguard.acp.agents import TABLES
from turnguard.acp.calls import Calls
from turnguard.acp.messages import Message, PermissionRequest, Update, decode
from turnguard.core.guard import ALL_BUT_TEXT
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Event,
    Result,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action, Finding

SESSION = "s"


def line(message: Any) -> bytes:
    """A message as it stands on the wire."""
    return json.dumps(message).encode() + b"\n"


def decoded(message: Any) -> Message:
    """A message, or bytes, as it is read."""
    found = decode(message if isinstance(message, bytes) else line(message))
    assert found is not None
    return found


def update(session_update: str, call_id: str | None = None, /, **more: Any) -> dict[str, Any]:
    """A `session/update`. `meta` is `_meta`."""
    told: dict[str, Any] = {"sessionUpdate": session_update, **more}
    if call_id is not None:
        told["toolCallId"] = call_id
    if "meta" in told:
        told["_meta"] = told.pop("meta")
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": told}}


def call(call_id: str, /, **more: Any) -> dict[str, Any]:
    """A `tool_call`."""
    return update("tool_call", call_id, **more)


def later(call_id: str, /, **more: Any) -> dict[str, Any]:
    """A `tool_call_update`."""
    return update("tool_call_update", call_id, **more)


def permission(call_id: str, /, **more: Any) -> dict[str, Any]:
    """A `session/request_permission`."""
    told = {"toolCallId": call_id, "status": "pending", **more}
    if "meta" in told:
        told["_meta"] = told.pop("meta")
    return {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "session/request_permission",
        "params": {"sessionId": SESSION, "toolCall": told, "options": []},
    }


def usage(**more: Any) -> dict[str, Any]:
    """A `usage_update`."""
    return update("usage_update", used=1, size=10, **more)


def words(text: str = "words", **more: Any) -> dict[str, Any]:
    """An `agent_message_chunk`."""
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def shown(text: str) -> list[dict[str, Any]]:
    """The content of a call that shows a text."""
    return [{"type": "content", "content": {"type": "text", "text": text}}]


class Heard:
    """A session of an agent in a turn, and all that its guards hear. `verdicts`: of every message that told something.

    Counts start anew with each turn.
    """

    def __init__(self, agent: str = "generic", *, tells_text: bool = False, **settings: Any) -> None:
        self.calls = Calls(TABLES[agent], lambda: ALL_BUT_TEXT._replace(text=tells_text))
        in_force = msgspec.structs.replace(Merged([]).in_force(), progress="halt", **settings)
        self.guard = SessionGuard(SESSION, in_force)
        self.events: list[Event] = []
        self.findings: list[Finding] = []
        self.start()

    def start(self) -> "Heard":
        """A prompt goes in."""
        self.guard.record([TurnStarted(), *self.calls.turn_started()])
        self.events.clear()
        self.findings.clear()
        return self

    def hear(self, *messages: Any) -> list[Event]:
        """Messages of the agent; what they told."""
        told: list[Event] = []
        for message in messages:
            params = decoded(message).params
            if params.update is not None:
                told += self._tell(self.calls.see(params.update))
            elif params.tool_call is not None:
                told += self._tell(self.calls.permission(params.tool_call))
        return told

    def replay(self, *messages: Any) -> None:
        """Messages of the agent while a session is loaded."""
        for message in messages:
            self.calls.replay(seen(message))

    def end(self) -> list[Event]:
        """The prompt is answered."""
        told = [*self._tell(self.calls.turn_ended())]
        self.guard.record([TurnEnded()])
        return told

    def _tell(self, events: Sequence[Event]) -> Sequence[Event]:
        if events:
            self.events += events
            self.findings += self.guard.record(events).findings
        return events

    # --- what was told ------------------------------------------------------------------------------------------------

    @property
    def counted(self) -> list[Call]:
        """The calls that were counted, as they were first told."""
        return [call for event in self.events if isinstance(event, ToolCalls) for call in event.calls]

    @property
    def known(self) -> list[Call]:
        """The calls that were counted, as they are known by now."""
        calls = {call.id or "": call for call in self.counted}
        for event in self.events:
            if isinstance(event, CallRekeyed):
                calls[event.id] = Call(
                    event.name, event.id, key=event.key, fidelity=event.fidelity, hint=event.hint, facts=event.facts
                )
        return list(calls.values())

    @property
    def keys(self) -> list[Any]:
        """The identities of the calls; None where there is none."""
        return [None if call.fidelity == "none" else call.key for call in self.known]

    @property
    def rekeyed(self) -> int:
        """How often a call was re-keyed."""
        return sum(isinstance(event, CallRekeyed) for event in self.events)

    @property
    def results(self) -> list[Result]:
        """The results that were told."""
        return [result for event in self.events if isinstance(event, ToolResults) for result in event.results]

    @property
    def outcomes(self) -> list[Any]:
        """What the progress guard knows the results by."""
        return [getattr(result.outcome, "progress", result.outcome) for result in self.results]

    @property
    def steps(self) -> int:
        """How many steps were ended."""
        return sum(isinstance(event, StepFinished) for event in self.events)

    @property
    def total(self) -> int:
        """The calls of the turn, as the guards count them."""
        return self.guard.status().totals.tool_calls

    @property
    def repeats(self) -> int:
        """How often the most repeated call was made."""
        return self.guard.status().totals.max_key_repeat

    @property
    def is_halted(self) -> bool:
        """Whether some guard stopped the turn."""
        return any(finding.action is Action.HALT for finding in self.findings)


def seen(message: Any) -> Update:
    """The update in a message."""
    found = decoded(message).params.update
    assert found is not None
    return found


def asked(message: Any) -> PermissionRequest:
    """The call in a permission request."""
    found = decoded(message).params.tool_call
    assert found is not None
    return found


# --- one whole call of each agent, as it is seen on the wire ----------------------------------------------------------


def claude(call_id: str, command: str = "ls", result: str = "a b", parent: str | None = None) -> list[dict[str, Any]]:
    """Announced with empty arguments; they come without a status. Those of subagents come at once."""
    meta: dict[str, Any] = {"claudeCode": {"toolName": "Bash"}}
    given = {"command": command}
    if parent is not None:
        meta["claudeCode"]["parentToolUseId"] = parent
    first = call(
        call_id,
        meta=meta,
        name="Bash",
        rawInput=given if parent else {},
        status="pending",
        title="Terminal",
        kind="execute",
        content=[],
    )
    middle = [] if parent else [later(call_id, meta=meta, rawInput=given, title=command)]
    response = {"claudeCode": {**meta["claudeCode"], "toolResponse": {"stdout": result, "interrupted": False}}}
    return [
        first,
        *middle,
        later(call_id, meta=response),
        later(call_id, meta=meta, status="completed", rawOutput=result, content=shown(f"```console\n{result}\n```")),
    ]


def codex(
    call_id: str, command: str = "ls", result: str = "a b", *, code: int = 0, number: int = 0
) -> list[dict[str, Any]]:
    """Everything at once, among ids and times that are never equal."""
    event = {
        "call_id": call_id,
        "process_id": str(100 + number),
        "turn_id": f"turn {number}",
        "command": ["/bin/bash", "-lc", command],
        "cwd": "/project",
        "parsed_cmd": [{"type": "unknown", "cmd": command}],
        "source": "unified_exec_startup",
    }
    result_event = {
        **event,
        "completed_at_ms": 1000 + number,
        "stdout": result,
        "stderr": "",
        "aggregated_output": result,
        "formatted_output": result,
        "exit_code": code,
        "duration": {"secs": 0, "nanos": 77 * number},
    }
    return [
        call(
            call_id,
            title=command,
            kind="execute",
            status="in_progress",
            rawInput={**event, "started_at_ms": 9 + number},
        ),
        later(call_id, status="failed" if code else "completed", rawOutput=result_event),
    ]


def codex_request(call_id: str, command: str = "ls", number: int = 0) -> dict[str, Any]:
    """Codex asks before it tells of the call."""
    given = {
        "call_id": call_id,
        "turn_id": f"turn {number}",
        "started_at_ms": number,
        "command": ["/bin/bash", "-lc", command],
        "cwd": "/project",
        "available_decisions": ["approved", "abort"],
        "parsed_cmd": [{"type": "unknown", "cmd": command}],
    }
    return permission(call_id, kind="execute", title=command, content=shown("Proposed Amendment"), rawInput=given)


def codex2(call_id: str, title: str = "Read file 'a'", result: str = "a b") -> list[dict[str, Any]]:
    """No arguments for commands that only read; the output comes in pieces."""
    return [
        call(call_id, name="exec_command", title=title, kind="read", status="in_progress", locations=[{"path": "/a"}]),
        *(later(call_id, meta={"terminal_output_delta": {"data": piece, "terminal_id": call_id}}) for piece in result),
        later(call_id, status="completed", rawOutput={"exit_code": 0}),
    ]


def qwen(
    call_id: str, command: str = "ls", result: str = "a b", *, code: int = 0, pid: int = 1
) -> list[dict[str, Any]]:
    """Arguments come when the call runs; the result names processes."""
    meta = {"toolName": "run_shell_command", "provenance": "builtin"}
    return [
        call(
            call_id, status="pending", title="Shell", kind="execute", rawInput={}, meta={**meta, "phase": "preparing"}
        ),
        later(call_id, status="in_progress", title=f"Shell: {command}", rawInput={"command": command}, meta=meta),
        later(
            call_id,
            status="failed" if code else "completed",
            content=shown(f"Command: {command}\nOutput: {result}\nProcess Group PGID: {pid}\n"),
            meta=meta,
            rawOutput={"type": "shell_result", "text": result, "output": result, "exitCode": code, "pid": pid},
        ),
    ]


def qwen_step() -> dict[str, Any]:
    """The empty chunk that ends a response of qwen's model."""
    return words("", meta={"usage": {"totalTokens": 3}, "durationMs": 5})


def gemini(call_id: str, command: str = "ls", **more: Any) -> list[dict[str, Any]]:
    """Neither arguments nor a result."""
    folder = shown("[current working directory /project]")
    return [
        call(call_id, status="in_progress", title=command, content=folder, locations=[], kind="execute", **more),
        later(call_id, status="completed", title=command, content=[], locations=[], kind="execute"),
    ]


def opencode(
    call_id: str, command: str = "ls", result: str = "a b", *, code: int = 0, repeats: int = 3
) -> list[dict[str, Any]]:
    """The same update for each piece of output; the first title is the tool's name."""
    given = {"command": command, "cwd": "/project"}
    running = later(call_id, status="in_progress", kind="execute", title=command, rawInput=given)
    return [
        call(call_id, title="bash", kind="execute", status="pending", rawInput={"cwd": "/project"}),
        *[running] * repeats,
        later(
            call_id,
            status="completed",
            title=command,
            content=shown(result),
            rawOutput={"output": result, "metadata": {"output": result, "exit": code, "truncated": False}},
        ),
    ]


def vibe(call_id: str, command: str = "ls", result: str = "a b") -> list[dict[str, Any]]:
    """All at once, and clean."""
    meta = {"tool_name": "bash"}
    given = {"command": command}
    output = {"stdout": result, "stderr": "", "output": result}
    return [
        call(call_id, title=command, kind="execute", status="in_progress", rawInput=given, meta=meta),
        later(call_id, status="completed", rawOutput=output, content=shown(result), meta=meta),
    ]


def kimi(call_id: str, arguments: str = '{"command": "ls"}', result: str = "a b") -> list[dict[str, Any]]:
    """The text of the arguments grows while the call is said to be in progress; the result takes its place."""
    first = call(call_id, title="Shell", status="in_progress", content=shown(arguments[:3]))
    grown = [
        later(call_id, title=f"Shell: {arguments[:end]}", status="in_progress", content=shown(arguments[:end]))
        for end in range(4, len(arguments) + 1)
    ]
    return [first, *grown, later(call_id, status="completed", content=shown(result))]


def goose(call_id: str, result: str = "a b", title: str = "Listed the files") -> list[dict[str, Any]]:
    """Only a name; titles are written by a model."""
    meta = {"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}}
    return [
        call(call_id, title="shell", status="pending", meta=meta),
        later(call_id, title=title),
        later(call_id, status="completed", content=shown(result)),
    ]


def fast_agent(call_id: str, command: str = "ls", terminal: str = "t1") -> list[dict[str, Any]]:
    """Runs its commands in terminals of the client."""
    given = {"command": command}
    return [
        call(call_id, title="execute", kind="execute", status="pending"),
        permission(call_id, title="execute", rawInput=given),
        later(call_id, status="in_progress", rawInput=given, content=[{"type": "terminal", "terminalId": terminal}]),
        later(call_id, status="completed"),
    ]
