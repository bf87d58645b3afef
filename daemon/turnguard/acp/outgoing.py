"""Lines that turnguard writes itself, and lines of others of which it changes a member.

What is changed is taken apart only as far as the members that change; every other member keeps its bytes. Lines that
need no change never come here: they are forwarded as they came.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Raw, Struct

from turnguard.acp.messages import RequestId

Members = dict[str, Raw]
"""The members of a JSON object, each value as the bytes it came in."""

_members: Callable[[bytes | Raw], Members] = msgspec.json.Decoder(Members).decode


Direction = Literal["client", "agent"]
"""Who sent a line."""


class Route(NamedTuple):
    """What happens in place of forwarding a line unchanged.

    Whole lines, each with its line end, in order. `kill_agent`: the time of `--kill-after` is up.
    """

    to_client: Sequence[bytes] = ()
    to_agent: Sequence[bytes] = ()
    kill_agent: bool = False


Later = Callable[[float], Route | None]
"""Looks at a line that was forwarded already, at a time. What follows it; None: nothing."""


class Out:
    """A Route in the making. `answered`: the client's requests that it answers in the agent's place."""

    __slots__ = ("answered", "kill_agent", "to_agent", "to_client")

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        self.to_agent: list[bytes] = []
        self.kill_agent = False
        self.answered: list[RequestId] = []

    def answer(self, request_id: RequestId, line: bytes) -> None:
        """Answers a request of the client."""
        self.to_client.append(line)
        self.answered.append(request_id)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write or to do."""
        return not (self.to_client or self.to_agent or self.kill_agent)

    def route(self) -> Route:
        """The Route."""
        return Route(self.to_client, self.to_agent, self.kill_agent)


def whole(line: bytes) -> bytes:
    """A line with its end; the last one of a stream may lack it, and others are to follow."""
    return line if line.endswith(b"\n") else line + b"\n"


def encoded(message: Any) -> bytes:
    """A message as a line."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, for example in an id that is sent back
        return _escaped(message) + b"\n"


def _escaped(value: Any) -> bytes:
    """The same JSON with all but ASCII as escapes, which can write half a surrogate pair."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, Struct):
        return _escaped(msgspec.to_builtins(value))
    if isinstance(value, Mapping):
        told = cast("Mapping[str, Any]", value)
        return b"{%b}" % b",".join(b"%b:%b" % (_escaped(name), _escaped(each)) for name, each in told.items())
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(_escaped, cast("list[Any]", value)))
    return json.dumps(value).encode()


def notification(method: str, params: Any) -> bytes:
    """A notification as a line."""
    return encoded({"jsonrpc": "2.0", "method": method, "params": params})


def request(request_id: RequestId, method: str, params: Any) -> bytes:
    """A request as a line."""
    return encoded({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def response(request_id: RequestId | None, result: Any) -> bytes:
    """The answer to a request as a line."""
    return encoded({"jsonrpc": "2.0", "id": request_id, "result": result})


def failure(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    """The error that answers a request, as a line."""
    error = {"code": code, "message": message}
    return encoded({"jsonrpc": "2.0", "id": request_id, "error": error if data is None else {**error, "data": data}})


def with_id(line: bytes, request_id: RequestId) -> bytes:
    """A message under another id. Raises ValueError when it cannot be taken apart."""
    members = members_of(line)
    members["id"] = json_of(request_id)
    return encoded(members)


def with_request_id(line: bytes, request_id: RequestId) -> bytes:
    """A `$/cancel_request` for another request. Raises ValueError or KeyError when it cannot be taken apart."""
    members = members_of(line)
    params = members_of(members["params"])
    params["requestId"] = json_of(request_id)
    members["params"] = json_of(params)
    return encoded(members)


def session_update(session_id: str, update: Mapping[str, Any]) -> bytes:
    """A `session/update` notification as a line."""
    return notification("session/update", {"sessionId": session_id, "update": update})


def cancel_request(request_id: RequestId) -> bytes:
    """Tells the receiver that an answer to its open request is not needed any more."""
    return notification("$/cancel_request", {"requestId": request_id})


def members_of(value: bytes | Raw) -> Members:
    """The members of a JSON object. Raises ValueError when the value is no object, or no JSON."""
    try:
        return _members(value)
    except msgspec.ValidationError as error:
        raise ValueError("Expected an object") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _leniently(bytes(value))


COMMAND = "/"
"""A prompt that begins with it is a command of the agent's, and what is added could be taken for its arguments."""


def json_of(value: Any) -> Raw:
    """A value as a member."""
    return Raw(encoded(value)[:-1])


def with_note(line: bytes, note: str) -> bytes | None:
    """The line of a `session/prompt` with the note as its last block; None where there is no place for it now."""
    try:
        message = members_of(line)
        params = members_of(message["params"])
        blocks = _items_of(params["prompt"])
        if not blocks or _is_command(blocks[0]):
            return None
    except (KeyError, ValueError):
        return None
    params["prompt"] = json_of([*blocks, {"type": "text", "text": note}])
    message["params"] = json_of(params)
    return encoded(message)


def is_command(line: bytes) -> bool:
    """Whether a `session/prompt` is a command to the agent itself, like `/status`."""
    try:
        blocks = _items_of(members_of(members_of(line)["params"])["prompt"])
        return bool(blocks) and _is_command(blocks[0])
    except (KeyError, ValueError):
        return False


def _items_of(value: Raw) -> list[Raw]:
    """The items of an array, also with half a surrogate pair in it. Raises ValueError when it is none."""
    try:
        return msgspec.json.decode(value, type=list[Raw])
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        found: Any = json.loads(bytes(value))
        if not isinstance(found, list):
            raise
        return [Raw(json.dumps(each).encode()) for each in cast("list[Any]", found)]


def _is_command(block: Raw) -> bool:
    text = members_of(block).get("text")
    if text is None:
        return False
    words: Any = json.loads(bytes(text))  # half a surrogate pair, too
    if not isinstance(words, str):
        raise ValueError("Expected a text")
    return words.lstrip().startswith(COMMAND)


def _leniently(value: bytes) -> Members:
    """The same where a half of a surrogate pair keeps msgspec from reading; what is written back means the same.

    `NaN` and the infinities, which some agents write and JSON does not have, become null, as JavaScript writes them.
    """
    try:
        found: Any = json.loads(value, parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("Nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("Expected an object")
    return {name: Raw(json.dumps(each).encode()) for name, each in cast("dict[str, Any]", found).items()}
