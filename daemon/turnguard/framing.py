"""Frames of the LSP base protocol, without any I/O: bytes go in as they come, whole message bodies come out.

A frame is header lines, an empty line, and a body of `Content-Length` bytes. Lines may end in CRLF or in LF, header
names may have any case, blanks around a value do not count, other headers are ignored.
"""

import re

from turnguard.core.bounds import MAX_FRAME_BYTES, MAX_HEADER_BYTES

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

_END_OF_HEADERS = re.compile(rb"\r?\n\r?\n")
_LONGEST_END = 4  # bytes of CRLF CRLF
_USUAL_HEADER = b"Content-Length: "
_FEW_DIGITS = 8  # less than this, and a length is below every limit
_MANY_DIGITS = 19  # more than any length has that fits in memory


class FramingError(ValueError):
    """The sender lost its framing: nothing after this point can be read. `code` is the JSON-RPC error to answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def frame(body: bytes) -> bytes:
    """The body as a frame."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Takes bytes apart into bodies, however they were split; the work is linear in the bytes received."""

    __slots__ = ("_at", "_body", "_data", "_error", "_missing", "_searched")

    def __init__(self) -> None:
        self._data = b""  # received and not yet consumed from `_at` on; while a body is awaited, nothing is left
        self._at: int = 0
        self._searched = 0  # the end of the headers does not begin before here
        self._body: list[bytes] = []
        self._missing = 0  # bytes of the body still to come
        self._error: FramingError | None = None

    @property
    def is_inside_frame(self) -> bool:
        """Whether the bytes received so far end inside a frame."""
        return self._missing > 0 or self._at < len(self._data)

    def receive(self, data: bytes) -> None:
        """Takes the next bytes; `next_body` must have answered None before."""
        if self._missing:
            piece = data[: self._missing] if len(data) > self._missing else data
            self._body.append(piece)
            self._missing -= len(piece)
            self._data, self._at = data, len(piece)
        else:
            # What is left is a piece of headers, so never longer than MAX_HEADER_BYTES.
            self._data, self._at = self._data[self._at :] + data, 0

    def next_body(self) -> bytes | None:
        """The next whole body, or None when more bytes are needed.

        Raises FramingError when the headers cannot be read or announce more than `MAX_FRAME_BYTES`, and from then on.
        """
        if self._body:
            return self._finished_body()
        if self._at == len(self._data):
            return None
        if self._error is not None:
            raise self._error
        end = _END_OF_HEADERS.search(self._data, self._at + self._searched)
        if (end.start() if end else len(self._data)) - self._at > MAX_HEADER_BYTES:
            raise self._fail(INVALID_REQUEST, f"Expected at most {MAX_HEADER_BYTES} bytes of headers before a message")
        if end is None:
            self._searched = max(0, len(self._data) - self._at - _LONGEST_END + 1)
            return None
        length = self._content_length(self._data[self._at : end.start()])
        start, stop = end.end(), end.end() + length
        self._searched = 0
        if stop <= len(self._data):
            self._at = stop
            return self._data[start:stop]
        self._body, self._missing = [self._data[start:]], stop - len(self._data)
        self._data, self._at = b"", 0
        return None

    def _finished_body(self) -> bytes | None:
        if self._missing:
            return None
        body = b"".join(self._body)
        self._body = []
        return body

    def _content_length(self, headers: bytes) -> int:
        usual = headers[len(_USUAL_HEADER) :]
        if len(usual) < _FEW_DIGITS and usual.isdigit() and headers.startswith(_USUAL_HEADER):
            return int(usual)
        value: bytes | None = None
        for line in headers.split(b"\n"):
            name, colon, text = line.partition(b":")
            if name.strip().lower() != b"content-length":
                if line.strip() and not colon:
                    raise self._fail(PARSE_ERROR, "Expected `Name: value` in every header line before a message")
                continue
            if value is not None and value != text.strip():
                raise self._fail(PARSE_ERROR, "Expected one Content-Length before a message, got two different ones")
            value = text.strip()
        if value is None:
            raise self._fail(PARSE_ERROR, "Expected a Content-Length header before a message")
        if not value.isdigit():
            raise self._fail(PARSE_ERROR, "Expected a Content-Length of digits only")
        if len(value) >= _MANY_DIGITS or int(value) > MAX_FRAME_BYTES:
            raise self._fail(INVALID_REQUEST, f"Expected a message of at most {MAX_FRAME_BYTES} bytes")
        return int(value)

    def _fail(self, code: int, message: str) -> FramingError:
        self._error = FramingError(code, message)
        return self._error
