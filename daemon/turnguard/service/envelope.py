"""JSON-RPC messages as bytes: decoded in one pass where possible, leniently where not, and encoded in any case.

The one pass leaves arguments and outputs as the bytes they came in. The lenient way is taken by everything that is not
a well-formed turnguard request: LSP messages, mistakes, and messages with a lone surrogate, which Node writes when it
cuts an emoji in two and which msgspec refuses wherever it stands.
"""

import codecs
import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, NoReturn, Union, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from turnguard.core.bounds import MAX_NESTING
from turnguard.service.errors import (
    INVALID_REQUEST,
    PARSE_ERROR,
    MessageId,
    RequestError,
    invalid_params,
    invalid_params_of,
)
from turnguard_protocol.methods import METHODS

# --- in, one pass -----------------------------------------------------------------------------------------------------


def _request_type(method: str, params: type[Struct]) -> type[Struct]:
    """The Struct of one method's requests. Params may be absent where all of them are optional."""
    has_to_be_there = any(field.required for field in msgspec.structs.fields(params))
    absent: Any = msgspec.NODEFAULT if has_to_be_there else params
    fields: list[Any] = [
        ("id", MessageId),
        ("jsonrpc", Literal["2.0"]),
        ("params", params, msgspec.field(default_factory=absent)),
    ]
    return msgspec.defstruct(f"{params.__name__}Request", fields, tag_field="method", tag=method, gc=False)


REQUEST_TYPES = {method: _request_type(method, types.params) for method, types in METHODS.items()}
"""For every turnguard request the Struct `{id, jsonrpc, params}` that it decodes into."""

decode_request: Callable[[bytes], Any] = msgspec.json.Decoder(cast("Any", Union[tuple(REQUEST_TYPES.values())])).decode  # noqa: UP007
"""Decodes a turnguard request into its Struct. Raises one of `NOT_A_REQUEST` for everything else, mistakes included."""

NOT_A_REQUEST = (msgspec.DecodeError, UnicodeError, RecursionError)


# --- in, leniently ----------------------------------------------------------------------------------------------------

_VERBATIM = ("args", "output", "error")
"""The fields of calls and results that are `msgspec.Raw`."""

_MANY_DIGITS = 400
"""An integer of so many digits is no double; JavaScript reads it as Infinity."""

_TOKENS = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[{]++|[\]}]++', re.DOTALL)
"""Strings, be it without their end, and runs of brackets. What was begun is never looked at again: it is linear."""

_LONG = 4 * 1024 * 1024
"""So far the `id` of a message is looked for that nests too deep."""

_PIECE_BYTES = 1024 * 1024


class Message(NamedTuple):
    """A request, or a notification if `id` is None. `params` is None when there are none."""

    method: str
    id: MessageId | None
    params: Any


def is_utf8(body: bytes) -> bool:
    """Whether a body is UTF-8 throughout; `decode_request` does not look into arguments and outputs."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(body), _PIECE_BYTES):  # a text as a whole can take four times its bytes
            decoder.decode(body[at : at + _PIECE_BYTES], final=at + _PIECE_BYTES >= len(body))
    except UnicodeDecodeError:
        return False
    return True


def parse_message(body: bytes) -> Message | None:
    """The message in a body; None for a response, which nobody awaits, for the daemon sends no requests.

    Raises RequestError, with `request_id` where it is known, when the body is neither.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RequestError(PARSE_ERROR, f"Not UTF-8, at byte {error.start}") from None
    try:
        return _checked(_load(text))
    except RecursionError:
        message = _checked(_load(_envelope_of(text)))
        if message is not None and message.id is not None:
            error = _too_deep()
            error.request_id = message.id
            raise error from None
        return message


def params_of(message: Message) -> Any:
    """The params of a turnguard request as the Struct they are. Raises RequestError when they do not fit."""
    params: Any = {} if message.params is None else message.params
    session_id: Any = cast("dict[str, Any]", params).get("sessionId") if isinstance(params, dict) else None
    if isinstance(session_id, str) and not _is_whole(session_id):
        raise invalid_params("$.sessionId", "Expected a text without half a character (a lone surrogate)")
    try:
        _keep_verbatim(params)
    except RecursionError:
        raise _too_deep() from None
    return convert(params, METHODS[message.method].params)


def convert(value: Any, kind: Any, root: str = "$") -> Any:
    """The parsed value as a typed one. Raises RequestError when it does not fit; `root` is its path in the params."""
    try:
        try:
            return msgspec.convert(value, kind)
        except UnicodeEncodeError:  # a lone surrogate where only certain words may stand
            return msgspec.convert(_mended(value), kind)
    except msgspec.ValidationError as error:
        raise invalid_params_of(error, root) from None
    except RecursionError:
        raise _too_deep(root) from None


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_int, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise RequestError(PARSE_ERROR, f"Not JSON: {error.msg}, at {where}") from None


def _int(digits: str) -> int | float:
    """An integer, or where it has too many digits what JavaScript reads, which is an integer nowhere."""
    return int(digits) if len(digits) < _MANY_DIGITS else float(digits)


def _no_constant(name: str) -> NoReturn:
    raise RequestError(PARSE_ERROR, f"Not JSON: {name}")


def _checked(content: Any) -> Message | None:
    """The message, by the rules of JSON-RPC 2.0 without batches, as LSP has it."""
    if isinstance(content, list):
        raise RequestError(INVALID_REQUEST, "Expected one message, got a batch")
    if not isinstance(content, dict):
        raise RequestError(INVALID_REQUEST, "Expected a message, which is an object")
    content = cast("dict[str, Any]", content)
    request_id = content.get("id")
    if "method" not in content and ("result" in content or "error" in content):
        return None
    if "id" in content and type(request_id) is not int and type(request_id) is not str:
        raise RequestError(INVALID_REQUEST, "Expected an integer or a string as `id`")
    if isinstance(request_id, str) and not _is_whole(request_id):
        raise RequestError(INVALID_REQUEST, "Expected an `id` without half a character (a lone surrogate)")
    if content.get("jsonrpc") != "2.0":
        raise RequestError(INVALID_REQUEST, 'Expected "2.0" as `jsonrpc`', request_id=request_id)
    method = content.get("method")
    if not isinstance(method, str):
        raise RequestError(INVALID_REQUEST, "Expected a string as `method`", request_id=request_id)
    return Message(method, request_id, content.get("params"))


def _envelope_of(text: str) -> str:
    """The outermost object with null in place of everything nested, for a text too deep to be parsed whole.

    It ends before what is too deep if `id` and `method` came before. Raises RequestError when they do not come soon.
    """
    pieces: list[str] = []
    depth = start = 0
    is_first = True
    for token in _TOKENS.finditer(text):
        at, size = token.start(), token.end() - token.start()
        if text[at] == '"':
            continue
        if text[at] in "[{":
            if depth < 2 <= depth + size:
                pieces.append(text[start : at + 1 - depth])
            depth += size
        else:
            if depth >= 2 > depth - size:
                pieces.append("null")
                start = at + depth - 1
            depth -= size
        if at > _LONG or (is_first and depth > MAX_NESTING):
            is_first = False
            head = "".join([*pieces, "null}"])
            if _has_id_and_method(head):
                return head
            if at > _LONG:
                raise RequestError(INVALID_REQUEST, f"Expected at most {MAX_NESTING} levels of nesting")
    return "".join([*pieces, text[start:]]) if depth == 0 else text[:0]


def _has_id_and_method(text: str) -> bool:
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and {"id", "method"} <= cast("dict[str, Any]", content).keys()


def _too_deep(path: str = "$") -> RequestError:
    return invalid_params(path, f"Expected at most {MAX_NESTING} levels of nesting")


def _is_whole(text: str) -> bool:
    """Whether a text has no lone surrogate. One that has cannot be answered, and two of them would look alike."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mended(value: Any) -> Any:
    """The same with every lone surrogate replaced."""
    if isinstance(value, str):
        return _mended_text(value)
    if isinstance(value, list):
        return [_mended(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {_mended_text(name): _mended(member) for name, member in members.items()}
    return value


def _mended_text(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _keep_verbatim(params: Any) -> None:
    """Puts the JSON text of arguments and outputs in their place, as the one pass leaves them."""
    for event in _objects(params, "events"):
        for item in (event, *_objects(event, "calls"), *_objects(event, "results")):
            for name in _VERBATIM:
                if name in item:
                    item[name] = _verbatim(item[name])


def _verbatim(value: Any) -> Raw:
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_without_infinity(value))
    return Raw(text.encode())


def _without_infinity(value: Any) -> Any:
    """The same as JavaScript writes it: with null where a number is too big for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_without_infinity(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _without_infinity(member) for name, member in cast("dict[str, Any]", value).items()}
    return value


def _objects(parent: Any, name: str) -> list[dict[str, Any]]:
    """The objects in an array that is a member of an object, as far as there are such."""
    members: Any = cast("dict[str, Any]", parent).get(name) if isinstance(parent, dict) else None
    return [item for item in cast("list[Any]", members) if isinstance(item, dict)] if isinstance(members, list) else []


# --- out --------------------------------------------------------------------------------------------------------------


class Reply(Struct, gc=False):
    """What a request came to."""

    id: MessageId
    result: Any
    jsonrpc: str = "2.0"


class ErrorObject(Struct, gc=False):
    """The `error` of a failed request."""

    code: int
    message: str
    data: Any = UNSET


class Failure(Struct, gc=False):
    """A request that failed; `id` None when it is not known which."""

    id: MessageId | None
    error: ErrorObject
    jsonrpc: str = "2.0"


class Notification(Struct, gc=False):
    """Something the client is told unasked."""

    method: str
    params: Any
    jsonrpc: str = "2.0"


_encode = msgspec.json.Encoder().encode


def encode(message: Reply | Failure | Notification) -> bytes:
    """The message as a body. A lone surrogate, which UTF-8 does not have, becomes U+FFFD. Numbers not in JSON: null."""
    try:
        return _encode(message)
    except UnicodeEncodeError:
        return _encode(_mended(msgspec.to_builtins(message)))
