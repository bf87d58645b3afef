"""What a request can fail with, as JSON-RPC error objects."""

import traceback
from typing import Any

from msgspec import UNSET

from turnguard_protocol.methods import PathError

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
PARSE_ERROR = -32700
NOT_INITIALIZED = -32002
UNKNOWN_SESSION = -32004
STALE_TURN = -32801
REQUEST_FAILED = -32803

MessageId = int | str


class RequestError(Exception):
    """A request that is answered with an error and has changed nothing. `data` is what the protocol lists for `code`.

    `request_id` is the request it answers, where only the one who raises knows.
    """

    def __init__(self, code: int, message: str, data: Any = UNSET, *, request_id: MessageId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id


def invalid_params(path: str, message: str) -> RequestError:
    """The params do not fit. `path` is where, `$` being the params."""
    return RequestError(INVALID_PARAMS, f"Invalid params: {message} - at `{path}`", PathError(path, message))


def invalid_params_of(error: Exception, root: str = "$") -> RequestError:
    """The same of a msgspec.ValidationError, which names the path behind its message. `root` is what `$` was there."""
    message, _, path = str(error).rpartition(" - at `")
    if not message:
        return invalid_params(root, str(error))
    return invalid_params(root + path.rstrip("`").removeprefix("$"), message)


def describe_fault(fault: BaseException) -> str:
    """Where an exception came from, for the log: frames and types, no messages, for those may quote arguments."""
    lines: list[str] = []
    error: BaseException | None = fault
    while error is not None:
        frames = "".join(traceback.format_tb(error.__traceback__))
        lines.append(f"{frames}{type(error).__module__}.{type(error).__qualname__}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nwhile handling\n".join(lines)
