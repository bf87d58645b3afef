"""Who a tool call is to OpenClaw: its tool's name, the hash of its arguments, and what kind of call it is.

The names of tools that the functions here take are those that `rolling_tool_name` gives.
"""

from collections.abc import Mapping
from hashlib import sha256

from msgspec import Raw

from turnguard.core.identity import canonical_tool_name, recalled
from turnguard.core.javascript import restringify, trim, utf8
from turnguard.core.names import remembered
from turnguard.core.rolling.canonical import canonical, may_overflow, plain

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

HASH_SIZE = 32
"""Bytes of a SHA-256."""

OVERFLOWED = b"null"
"""What JavaScript writes for a number that is too large."""

KNOWN_ACTIONS: Mapping[str, frozenset[str]] = {PROCESS: POLL_ACTIONS, MESSAGE: SEND_ACTIONS}


@remembered
def rolling_tool_name(name: str) -> str:
    """The name under which a tool stands in the history: trimmed, in lower case, its new name for an old one."""
    tool = trim(name).lower()
    return TOOL_ALIASES.get(tool, tool) or NAMELESS_TOOL


def rolling_arguments_hash(tool: str, args: object) -> str:
    """The 64 hex digits that stand for a tool and the arguments of a call of it.

    args: JSON text (bytes or msgspec.Raw) or a plain value, of any JSON type. The tool's name is taken as it stands.
    Raises as `canonical` does.
    """
    return _hash_of(tool, canonical(args)).hex()


def keys_of_call(name: str, args: Raw) -> tuple[str, str]:
    """The repeat key of a call and its `rolling_arguments_hash`, by its raw name.

    Raises NotJsonError or NestingError.
    """
    text = bytes(args)
    both = recalled(b"both", utf8(name), text, lambda: _keys_of_call(name, text))
    turn, rolling = both[:HASH_SIZE], both[HASH_SIZE:]
    key = turn.hex()
    return key, key if rolling == turn else rolling.hex()


def _keys_of_call(name: str, text: bytes) -> bytes:
    """Both are the SHA-256 of the tool's name and the arguments; only names and overflowing numbers differ."""
    written = restringify(text, sort_keys=True)
    tool, canonical_name = rolling_tool_name(name), canonical_tool_name(name)
    turn = _hash_of(canonical_name, written)
    if OVERFLOWED in written and may_overflow(text):
        return turn + _hash_of(tool, canonical(text))
    return turn + (turn if tool == canonical_name else _hash_of(tool, written))


def _hash_of(tool: str, arguments: bytes) -> bytes:
    hasher = sha256(utf8(tool) + b":")
    hasher.update(arguments)
    return hasher.digest()


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
