"""Who a tool call is: its canonical name, its repeat key, and what its name and command say of it.

The rules are Qwen Code 0.24.4's, byte for byte, so that a key made here equals the key made there. A key is 64 hex
digits: the SHA-256 of ``canonicalName:JSON(arguments)``, the JSON being JavaScript's with sorted keys.
"""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import cast

import msgspec
from msgspec import UNSET

from turnguard.core.javascript import WHITE_SPACE, parse, restringify, stringify, trim, utf8
from turnguard_protocol.events import Keys

# --- names ------------------------------------------------------------------------------------------------------------

ALIASES: Mapping[str, str] = {"search_file_content": "grep_search", "replace": "edit", "task": "agent"}
"""Old names of tools, all of them. Display names (Edit, Shell, Task, SearchFiles) are not aliases."""

ENVELOPE_TOOL = "tool_call"
"""The tool through which the core client's models may call another tool."""

_READ_LIKE_NAMES = frozenset({"read_file", "read_many_files", "list_directory", "zoom_image"})
_READ_LIKE_PREFIXES = ("read_", "list_")


def canonical_tool_name(name: str) -> str:
    """Return the name under which a tool counts: its new name for an old one, exact and case-sensitive."""
    return ALIASES.get(name, name)


def is_read_like(name: str) -> bool:
    """Tell whether the read loop detector counts a tool, by its raw name, as a read."""
    return name in _READ_LIKE_NAMES or name.startswith(_READ_LIKE_PREFIXES)


# --- the repeat key ---------------------------------------------------------------------------------------------------

_MEMO_FROM = 512
"""Bytes of JSON from which a key is remembered; for less, looking it up costs as much as making it again."""

_MEMO_SIZE = 2048
"""Most texts remembered: about half a megabyte, whatever the size of the arguments."""

_memo: dict[bytes, bytes] = {}
"""The SHA-256 of (kind, name, JSON text) → the key's 32 bytes, or two keys. Digests only, which only save time."""


def tool_call_repeat_key(name: str, args: object = UNSET) -> str:
    """Return the 64 hex digits under which repeats of a call are counted (getToolCallRepeatKey).

    args: JSON text as bytes or msgspec.Raw (the fast way), or a plain value as msgspec or json decodes it. UNSET stands
    for arguments that are undefined, None for null; they are different keys.
    Raises NotJsonError or NestingError (both ValueError), and TypeError for a value that JSON does not have.
    """
    canonical = utf8(canonical_tool_name(name))
    if isinstance(args, bytes | msgspec.Raw):
        return _key_of_text(canonical, bytes(args))
    text = b"undefined" if args is UNSET else stringify(args, sort_keys=True).encode()
    return _digest(canonical, text).hex()


def repeat_key_of(key: str | Keys | None) -> str | None:
    """The repeat key in the identity of a call."""
    return key.turn if isinstance(key, Keys) else key


def _key_of_text(canonical: bytes, text: bytes) -> str:
    """Return the key of a call whose arguments are JSON text."""
    return recalled(b"key", canonical, text, lambda: _digest(canonical, restringify(text, sort_keys=True))).hex()


def recalled(kind: bytes, name: bytes, text: bytes, make: Callable[[], bytes]) -> bytes:
    """Return what make returns, digests that a name and a text lead to; of long text it costs one SHA-256 next time.

    kind: what is made of them.
    """
    if len(text) < _MEMO_FROM:
        return make()
    # The length tells where the name ends, so no other name and text have the same digest.
    seen = _digest(b"%b:%d:%b" % (kind, len(name), name), text)
    made = _memo.get(seen)
    if made is None:
        made = make()
        if len(_memo) >= _MEMO_SIZE:
            _memo.clear()  # one step, so it is safe between threads; a loop refills it with its next call
        _memo[seen] = made
    return made


def _digest(name: bytes, text: bytes) -> bytes:
    hasher = sha256(name + b":")
    hasher.update(text)
    return hasher.digest()


# --- the envelope -----------------------------------------------------------------------------------------------------

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def unwrap_envelope(name: str, args: object) -> tuple[str, str] | None:
    """Return (tool, key) of the call inside a ``tool_call`` envelope, or None when the call is no envelope.

    Core client only; the daemon does not unwrap. The target is alias, then lower case, in that order, of the string
    ``name``; its arguments are ``arguments`` if that is an object, else the whole envelope. One level only.
    ``unwrap_envelope(name, args) or (name, tool_call_repeat_key(name, args))`` is the core client's identity of a call.
    args and errors are those of tool_call_repeat_key.
    """
    members = _members(args) if name == ENVELOPE_TOOL else None
    if members is None:
        return None
    target = members.get("name")
    if isinstance(target, msgspec.Raw):
        target = parse(bytes(target))
    if not isinstance(target, str):
        return None
    tool = canonical_tool_name(target).lower()
    inner = members.get("arguments")
    return tool, tool_call_repeat_key(tool, inner if _is_object(inner) else args)


def _members(args: object) -> Mapping[str, object] | None:
    """Return the members of an object, as Raw if args is text that msgspec can read; None if args is no object."""
    if isinstance(args, bytes | msgspec.Raw):
        try:
            return _MEMBERS.decode(args)
        except (msgspec.DecodeError, RecursionError):  # not an object, lone surrogates, or not JSON at all
            args = parse(bytes(args))
    return cast("dict[str, object]", args) if isinstance(args, dict) else None


def _is_object(value: object) -> bool:
    return bytes(value).startswith(b"{") if isinstance(value, msgspec.Raw) else isinstance(value, dict)


# --- git inspection ---------------------------------------------------------------------------------------------------

_BLANK = f"[{WHITE_SPACE}]"
_WORD = f"[^{WHITE_SPACE}]+"
_SEGMENT_ENDS = re.compile(r"&&|\|\||[;&|\n]")
_BLANKS = re.compile(f"{_BLANK}+")
# ASCII stands for JavaScript's own \b and its case folding, which never leads from outside ASCII into it.
_GIT_OVERVIEW = re.compile(
    rf"git(?:{_BLANK}+(?:-C{_BLANK}+{_WORD}|--no-pager))*{_BLANK}+(status|diff|ls-files)\b",
    re.ASCII | re.IGNORECASE,
)
_REVISION = re.compile(rf"(?:HEAD|@)(?:[~^][0-9]*)*|[0-9A-Fa-f]{{7,40}}|{_WORD}\.\.\.?{_WORD}")


def is_git_overview(command: str) -> bool:
    """Tell whether a shell command only looks at a git work tree: status, ls-files, or diff without a path.

    Every part of the command line must; parts end at ``&&``, ``||``, ``;``, ``&``, ``|`` and newline, quoted or not.
    """
    segments = [segment for part in _SEGMENT_ENDS.split(command) if (segment := trim(part))]
    return bool(segments) and all(_is_overview_segment(segment) for segment in segments)


def _is_overview_segment(segment: str) -> bool:
    match = _GIT_OVERVIEW.match(segment)
    if match is None:
        return False
    return match[1].lower() != "diff" or _is_overview_diff(segment[match.end() :])


def _is_overview_diff(rest: str) -> bool:
    """Tell whether what follows ``git diff`` names no path: only options and revisions, and nothing after ``--``."""
    words = _BLANKS.split(trim(rest)) if trim(rest) else []
    if "--" in words[:-1]:
        return False
    return all(word.startswith("-") or _REVISION.fullmatch(word) for word in words)


# --- results of stateful reads ----------------------------------------------------------------------------------------

NO_RESPONSE = b"{}"
_STUB_START = "<persisted-output>"
_STUB = re.compile(rf'(?<!\\)"{_STUB_START}[^"\\]*(?:\\.[^"\\]*)*"(?!:)')
_STUB_DIGEST = re.compile(r"\nFull output sha256: ([0-9a-f]{64})(?![^\r\n])")


def read_outcome(response: bytes | msgspec.Raw | None) -> str:
    """Return the fingerprint of what a stateful read (``task_list``) returned: 64 hex digits.

    response: the result as JSON text; no response, and null, count as an empty object, as upstream has it.
    Keys keep their order, so results that differ only in it are different. A string that begins with
    ``<persisted-output>`` and holds a line ``Full output sha256: `` + 64 hex digits counts as that digest: the stub for
    an output too large to show names a new file every time. Raises NotJsonError or NestingError.
    """
    text = NO_RESPONSE if response is None else restringify(bytes(response), sort_keys=False)
    if text == b"null":
        text = NO_RESPONSE
    if _STUB_START.encode() in text:
        text = _STUB.sub(_reduce_stub, text.decode()).encode()
    return sha256(text).hexdigest()


def _reduce_stub(stub: re.Match[str]) -> str:
    """Return a quoted stub as its quoted digest, or as it is when it has none."""
    digest = _STUB_DIGEST.search(cast("str", parse(stub[0])))
    return f'"{digest[1]}"' if digest else stub[0]
