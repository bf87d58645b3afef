"""Who the outcome of a call is to OpenClaw, so that a call that makes no progress can be told.

A result is known by what it says, not by how long it took: depending on the tool, volatile parts are left out. Rules in
the order in which they hold: an error is its message; no result has no identity; a result that is not an object is its
value; the answer to a vetoed call has no identity; `exec`, `process` and sends are what their row below says; any other
result is its details and its text.

    exec, running                             status, tail
    exec, completed or failed                 status, exit code, timed out, output
    exec, waiting for approval or never to    status, reason, host, command, warning
    process, poll                             status, exit code and signal, aggregated, text
    process, log                              status, lines, characters, truncated, exit code and signal, text
    a send                                    details without ids and times
"""

import re

import msgspec
from msgspec import UNSET, DecodeError, Raw

from turnguard.core.javascript import WHITE_SPACE, Json, trim
from turnguard.core.rolling.canonical import canonical, digest, number_word, plain
from turnguard.core.rolling.identity import EXEC, PROCESS, is_send

Details = dict[str, Json]

ERROR_PREFIX = b"error:"
"""No JSON text begins so: an error is never a result."""

VETO = ("blocked", "tool-loop")
"""Status and reason of the answer to a call that loop detection vetoed."""

FINISHED = frozenset({"completed", "failed"})
NEEDS_APPROVAL = frozenset({"approval-pending", "approval-unavailable"})

POLL_FACTS = ("exitCode", "exitSignal", "aggregated")
LOG_FACTS = ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")

VOLATILE = frozenset(
    {
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    }
)
"""What differs from one sending of the same message to the next."""

PARTY = ("direction", "senderId", "accountId")
"""What an object that is a message has at least one of, as text; or a conversation."""


def rolling_outcome(tool: str, action: str | None, output: object = UNSET, error: object = UNSET) -> str | None:
    """The 64 hex digits that stand for what a call came to; None when that has no identity.

    tool: as `rolling_tool_name` gives it. action: as `outcome_action` gives it. output, error: JSON text (bytes or
    msgspec.Raw) or plain values; UNSET: there is none. With both the error counts. Raises as `canonical` does.
    """
    if error is not UNSET:
        return digest(ERROR_PREFIX + canonical(error_text(error)))
    if output is UNSET:
        return None
    if isinstance(output, bytes | Raw) and not bytes(output).lstrip().startswith(b"{"):
        return digest(canonical(output))
    result = plain(output)
    if not isinstance(result, dict):
        return digest(canonical(result))
    given = result.get("details")
    details: Details = given if isinstance(given, dict) else {}
    if (details.get("status"), details.get("deniedReason")) == VETO:
        return None
    text = _text_of(result)
    facts = _facts(tool, action, details, text)
    if facts is not None:
        return digest(canonical(facts))
    written = canonical(_as_written(output, details) if details else details)
    return digest(b'{"details":%b,"text":%b}' % (written, canonical(text)))


def error_text(error: object) -> str:
    """The message of an error: a string as it is, any other value as JavaScript writes it."""
    value = plain(error)
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_word(value)
    return canonical(value).decode()


# --- unavailable tools ------------------------------------------------------------------------------------------------

_QUOTE = "[\"']?"
_NAME = f"{_QUOTE}([a-z0-9_.-]+)"
_BLANKS = f"[{WHITE_SPACE}]+"
# ASCII: JavaScript's case folding never leads from outside ASCII into it.
_UNKNOWN_TOOL = re.compile(f"unknown tool[:{WHITE_SPACE}]+{_NAME}", re.ASCII | re.IGNORECASE)
_UNAVAILABLE_TOOL = re.compile(
    f"tool{_BLANKS}{_NAME}{_QUOTE}{_BLANKS}(?:not found|is not available)", re.ASCII | re.IGNORECASE
)


def unknown_tool_name(error: object) -> str | None:
    """The name of the tool that an error says is not available, in lower case; None when it says no such thing.

    error: JSON text (bytes or msgspec.Raw) or a plain value.
    """
    text = error_text(error)
    match = _UNKNOWN_TOOL.search(text) or _UNAVAILABLE_TOOL.search(text)
    return match[1].lower() if match else None


# --- results ----------------------------------------------------------------------------------------------------------

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])


def _facts(tool: str, action: str | None, details: Details, text: str) -> dict[str, Json] | None:
    """What of a result counts, by the row of the tool; None: it has no row."""
    if tool == EXEC:
        return _exec_facts(details, text)
    if tool == PROCESS and action == "poll":
        return _process_facts(details, text, POLL_FACTS)
    if tool == PROCESS and action == "log":
        return _process_facts(details, text, LOG_FACTS)
    return {"details": _stable(details)} if is_send(tool, action) else None


def _as_written(output: object, details: Details) -> object:
    """The details as they stand in the text of a result: their canonical form is made much faster from there."""
    if not isinstance(output, bytes | Raw):
        return details
    try:
        return _MEMBERS.decode(output)["details"]
    except (DecodeError, RecursionError):  # lone surrogates, or bytes that are not UTF-8
        return details


def _text_of(result: Details) -> str:
    """The text of all entries of the content that have some, whatever their type."""
    content = result.get("content")
    texts = map(_entry_text, content) if isinstance(content, list) else ()
    return trim("\n".join(text for text in texts if text is not None))


def _entry_text(entry: Json) -> str | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        return None
    return _string(entry, "text")


def _exec_facts(details: Details, text: str) -> dict[str, Json] | None:
    """What of a command's result counts; None for a status that is not treated apart."""
    status = _string(details, "status")
    if status == "running":
        return {"status": status, "tail": _string(details, "tail") or ""}
    if status in FINISHED:
        exit_code = details.get("exitCode")
        is_number = isinstance(exit_code, int | float) and not isinstance(exit_code, bool)
        return {
            "status": status,
            "exitCode": exit_code if is_number else None,
            "timedOut": details.get("timedOut") is True,
            "output": trim(_string(details, "aggregated") or "") or text,
        }
    if status in NEEDS_APPROVAL:
        return {
            "status": status,
            "reason": _string(details, "reason"),
            "host": _string(details, "host"),
            "command": _string(details, "command") or "",
            "warningText": _string(details, "warningText") or "",
        }
    return None


def _process_facts(details: Details, text: str, names: tuple[str, ...]) -> dict[str, Json]:
    """A missing fact counts as null, except for the status."""
    facts: dict[str, Json] = {name: details.get(name) for name in names}
    if "status" in details:
        facts["status"] = details["status"]
    facts["text"] = text
    return facts


def _string(details: Details, name: str) -> str | None:
    value = details.get(name)
    return value if isinstance(value, str) else None


def _stable(value: Json) -> Json:
    """A value without what differs between sendings, at any depth."""
    if isinstance(value, list):
        return list(map(_stable, value))
    if not isinstance(value, dict):
        return value
    dropped = VOLATILE | {"id"} if _is_message(value) else VOLATILE
    kept = {name: member for name, member in value.items() if name not in dropped}
    return dict(zip(kept, map(_stable, kept.values()), strict=True))


def _is_message(value: Details) -> bool:
    if _string(value, "id") is None or _string(value, "text") is None:
        return False
    return any(_string(value, name) is not None for name in PARTY) or isinstance(value.get("conversation"), dict)
