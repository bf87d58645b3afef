"""Lines as Claude Code writes them, made by hand."""

import json
from collections.abc import Sequence
from typing import Any

Asked = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what it returned."""


def claude(session: str, *messages: Sequence[Asked], prompt: str = "please") -> bytes:
    """A session with one turn: a message of the model's is a list of calls."""
    lines: list[dict[str, Any]] = [user(session, prompt)]
    for number, calls in enumerate(messages):
        ids = [f"{session}-{number}-{at}" for at in range(len(calls))]
        for call_id, (tool, args, _) in zip(ids, calls, strict=True):
            block = {"type": "tool_use", "id": call_id, "name": tool, "input": args}
            message = {"id": f"msg_{number}", "role": "assistant", "content": [block]}
            lines.append(line(session, "assistant", message, number))
        for call_id, (_, _, output) in zip(ids, calls, strict=True):
            block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
            lines.append(line(session, "user", {"role": "user", "content": [block]}, number))
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)


def user(session: str, prompt: str) -> dict[str, Any]:
    return line(session, "user", {"role": "user", "content": prompt}, 0)


def line(session: str, kind: str, message: dict[str, Any], number: int) -> dict[str, Any]:
    at = f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"
    return {"type": kind, "isSidechain": False, "sessionId": session, "timestamp": at, "message": message}
