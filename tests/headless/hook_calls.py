"""Hooks in one process: what agents say, and what they are answered."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from turnguard.headless.hooks.hearing import Hearing
from turnguard.headless.hooks.store import Store
from turnguard.settings.sources import Sources

SALT = bytes(range(32))

CAP = "model.maxToolCallsPerTurn=3"
QUIET = "turnguard.progress.action=off"


class Hooks:
    """The hooks of one person: each call of `hear` is what one process does. `said`: what went to stderr."""

    def __init__(self, directory: Path, *assignments: str, named: str | None = "claude") -> None:
        self.directory = directory
        self.assignments = assignments
        self.named = named
        self.said: list[str] = []
        self.salt: Callable[[], bytes] = lambda: SALT

    def hear(self, given: dict[str, Any]) -> dict[str, Any]:
        """The answer; empty where there is none."""
        sources = Sources("hook", environ={}, assignments=self.assignments)
        hearing = Hearing(Store(self.directory), sources, self.salt, self.said.append)
        answer = hearing.answer(json.dumps(given).encode(), self.named)
        return json.loads(answer) if answer else {}

    def all(self, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.hear(each) for each in calls]

    @property
    def file(self) -> Path:
        """The one session's snapshot."""
        (file,) = self.directory.glob("*.json")
        return file


def said(event: str, *, session: str = "s", agent: str | None = None, **more: Any) -> dict[str, Any]:
    """A call of Claude Code's, as it makes them."""
    given = {"session_id": session, "transcript_path": "/t.jsonl", "cwd": "/nowhere", "hook_event_name": event, **more}
    return given if agent is None else {**given, "agent_id": agent, "agent_type": "general-purpose"}


def prompt(text: str = "Go on.", turn: str = "p1", **more: Any) -> dict[str, Any]:
    return said("UserPromptSubmit", prompt=text, prompt_id=turn, **more)


def before(call: int | str, command: str = "cat notes.txt", **more: Any) -> dict[str, Any]:
    return said("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id=f"t{call}", **more)


def after(call: int | str, output: str = "done", command: str = "cat notes.txt", **more: Any) -> dict[str, Any]:
    response = {"stdout": output, "stderr": "", "interrupted": False}
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"t{call}"}
    return said("PostToolUse", **given, tool_response=response, **more)


def failed(call: int | str, error: str = "Exit code 1", command: str = "cat notes.txt", **more: Any) -> dict[str, Any]:
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": f"t{call}"}
    return said("PostToolUseFailure", **given, error=error, is_interrupt=False, **more)


def run(call: int | str, output: str = "done", command: str = "cat notes.txt", **more: Any) -> list[dict[str, Any]]:
    """A call and its result."""
    return [before(call, command, **more), after(call, output, command, **more)]


def is_refused(answer: dict[str, Any]) -> bool:
    return answer.get("hookSpecificOutput", {}).get("permissionDecision") == "deny"


def is_stopped(answer: dict[str, Any]) -> bool:
    return answer.get("continue") is False


def context(answer: dict[str, Any]) -> str | None:
    return answer.get("hookSpecificOutput", {}).get("additionalContext")
