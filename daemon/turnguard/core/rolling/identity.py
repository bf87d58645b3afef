"""Who a tool call is to OpenClaw: its tool's name, the hash of its arguments, and what kind of call it is.

The names of tools that the functions here take are those that `rolling_tool_name` gives.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Raw

from turnguard.core.bounds import MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAMES
from turnguard.core.identity import canonical_tool_name
from turnguard.core.javascript import trim, utf8
from turnguard.core.rolling.canonical import canonical, digest, may_overflow, plain

COMMAND_STATUS = "command_status"
EXEC = "exec"
MESSAGE = "message"
PROCESS = "process"
SESSIONS_SEND = "sessions_send"

TOOL_ALIASES: Mapping[str, str] = {"bash": EXEC, "apply-patch": "apply_patch"}
NAMELESS_TOOL = "tool"
"""What a tool without a name is called."""

POLL_ACTIONS = frozenset({"poll", "log"})
"""Actions of `process` that ask for the state of something that runs."""

SEND_ACTIONS = frozenset(
    {
        "send",
        "broadcast",
        "reply",
        "thread-reply",
        "sendWithEffect",
        "sendAttachment",
        "upload-file",
        "sticker",
        "poll",
    }
)
"""Actions of `message` that send something; exact and case-sensitive."""

KNOWN_ACTIONS: Mapping[str, frozenset[str]] = {PROCESS: POLL_ACTIONS, MESSAGE: SEND_ACTIONS}


def rolling_tool_name(name: str) -> str:
    """The name under which a tool stands in the history: trimmed, in lower case, its new name for an old one."""
    return _remembered_name(name) if len(name) <= MAX_REMEMBERED_NAME else _tool_name(name)


def _tool_name(name: str) -> str:
    tool = trim(name).lower()
    return TOOL_ALIASES.get(tool, tool) or NAMELESS_TOOL


_remembered_name = lru_cache(maxsize=MAX_REMEMBERED_NAMES)(_tool_name)


def rolling_arguments_hash(tool: str, args: object) -> str:
    """The 64 hex digits that stand for a tool and the arguments of a call of it.

    args: JSON text (bytes or msgspec.Raw) or a plain value, of any JSON type. The tool's name is taken as it stands.
    Raises as `canonical` does.
    """
    return digest(utf8(tool) + b":" + canonical(args))


def rolling_key(name: str, args: Raw, turn_key: str) -> str:
    """`rolling_arguments_hash` of a call by its raw name, whose repeat key is at hand and in most cases the same.

    Both are the SHA-256 of the tool's name and the arguments; only names and overflowing numbers are treated otherwise.
    """
    tool = rolling_tool_name(name)
    if tool == canonical_tool_name(name) and not may_overflow(bytes(args)):
        return turn_key
    return rolling_arguments_hash(tool, args)


def outcome_action(tool: str, args: object) -> str | None:
    """The `action` among the arguments of a `process` or `message` call, where it is one that is treated apart."""
    known = KNOWN_ACTIONS.get(tool)
    if known is None:
        return None
    members = plain(args)
    action = members.get("action") if isinstance(members, dict) else None
    return action if isinstance(action, str) and action in known else None


def is_poll_call(tool: str, args: object) -> bool:
    """Whether a call asks for the state of something that runs."""
    return tool == COMMAND_STATUS or (tool == PROCESS and outcome_action(tool, args) is not None)


def is_send(tool: str, action: str | None) -> bool:
    """Whether a call, of which `outcome_action` gave the action, sends a message."""
    return tool == SESSIONS_SEND or (tool == MESSAGE and action in SEND_ACTIONS)
