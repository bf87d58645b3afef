"""Arguments that say why, not what: words that a model writes anew beside the same command.

A command that is run again is the same call whatever the model says of it this time. What a host of the service tells
is taken as it is; of agents that turnguard reads by itself (ACP, transcripts, hooks) these members are left out.
"""

from typing import Final

import msgspec
from msgspec import Raw

from turnguard.core.hint import is_shell
from turnguard_protocol.events import Call, CallRekeyed, Event, ToolCalls

OF_SHELLS: Final = frozenset({"description", "explanation", "justification", "goal"})
"""Of tools that run commands: Claude Code, Qwen Code, Gemini CLI and opencode; Cursor; Codex; VS Code."""

OF_ALL: Final = frozenset({"task_progress"})
"""Cline's, with any tool: the list of what was done."""

_MARKS: Final = tuple(f'"{name}"'.encode() for name in OF_SHELLS | OF_ALL)

_members = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


def without_prose(event: Event) -> Event:
    """The event with such members left out of the arguments of its calls; itself where there are none."""
    if isinstance(event, ToolCalls):
        calls = [_bare(call) for call in event.calls]
        return event if calls == event.calls else ToolCalls(calls, event.run_id)
    if isinstance(event, CallRekeyed) and isinstance(event.args, Raw) and event.name is not None:
        return msgspec.structs.replace(event, args=bare(event.name, event.args))
    return event


def bare(tool: str, args: Raw) -> Raw:
    """Arguments without them; as they are when they are no object."""
    text = bytes(args)
    if not any(mark in text for mark in _MARKS):
        return args
    try:
        members = _members.decode(args)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return args
    names = OF_ALL | OF_SHELLS if is_shell(tool) else OF_ALL
    kept = {name: value for name, value in members.items() if name not in names}
    return args if len(kept) == len(members) else Raw(_encode(kept))


def _bare(call: Call) -> Call:
    args = bare(call.name or "", call.args) if isinstance(call.args, Raw) else call.args
    return call if args is call.args else msgspec.structs.replace(call, args=args)
