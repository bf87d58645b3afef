"""What a transcript is to turnguard: events of the vocabulary, each with whose it is and where it stands.

A reader knows one format and does no I/O: lines in, `Told` out. It says what the file says, in the file's order, as
soon as it can: which calls are one batch, and when a step is over, is decided by who reads (`batches`, `live`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from turnguard_protocol.events import Event

HEAD_BYTES = 256 * 1024
"""How much of a file may be looked at to find out its format."""

HEAD_LINES = 50

T = TypeVar("T")

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Told(NamedTuple):
    """One event of a transcript.

    `scope`: the subagent that did it, None: the agent itself. `message`: the model's message that calls and words
    belong to, by an id that is unique in the transcript; None: the file does not say. `session`: which conversation it
    is, where a file holds several. `place`: the number of its line, or of its message where a file is one document,
    from 1; a reader of lines leaves that to who reads. `at`: when, as the file writes it.
    """

    event: Event
    scope: str | None = None
    message: str | None = None
    session: str | None = None
    place: int | None = None
    at: str | None = None


class UnreadableError(ValueError):
    """A line, or a part of a document, cannot be read. The message never holds anything of what it says."""

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Reader(Protocol):
    """Reads one transcript. Both methods may raise UnreadableError, after which the reader goes on."""

    def line(self, line: bytes) -> Iterable[Told]:
        """What a line says. It may end with a line feed."""
        ...

    def end(self) -> Iterable[Told]:
        """What can be said only now that there are no more lines."""
        ...


class Head(NamedTuple):
    """The beginning of a transcript: `objects`, the JSON objects of its first whole lines, and its first bytes."""

    objects: Sequence[Mapping[str, Any]]
    start: bytes


class Kept(NamedTuple):
    """Where an agent keeps its transcripts: `pattern` (a glob) in the directory of `variable`, or else in `directory`.

    `directory` is relative to the person's home. `within`: between the variable's directory and the pattern.
    """

    variable: str | None
    directory: str
    pattern: str
    within: str = ""


class Format(NamedTuple):
    """One format. `name`: in the words of its users; `is_live`: an agent writes it to stdout while it works."""

    name: str
    recognises: Callable[[Head], bool]
    reader: Callable[[], Reader]
    kept: Sequence[Kept] = ()
    is_live: bool = False


def head_of(lines: Sequence[bytes]) -> Head:
    """The head that these first lines make."""
    objects: list[Mapping[str, Any]] = []
    for line in lines[:HEAD_LINES]:
        with suppress(UnreadableError):
            objects.append(decoded(_OBJECT, line))
    return Head(objects, b"".join(lines)[:HEAD_BYTES])


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """JSON as the decoder's type. Raises UnreadableError.

    What is no Unicode (a lone surrogate, which JavaScript writes when it cuts a character in two; bytes that are no
    UTF-8) is replaced, since one such character must not hide a call.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnreadableError(_without_values(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error
    try:
        text = json.dumps(json.loads(data.decode("utf-8", "replace")), ensure_ascii=False)
        return decoder.decode(text.encode("utf-8", "replace"))
    except msgspec.ValidationError as error:
        raise UnreadableError(_without_values(str(error))) from error
    except ValueError as error:
        raise UnreadableError("not JSON") from error
    except RecursionError as error:
        raise UnreadableError("nested too deep") from error


def decoded_where(
    is_read: Callable[[Any], bool], whole: msgspec.json.Decoder[T], kind: msgspec.json.Decoder[Any], data: bytes
) -> T | None:
    """JSON as `whole` has it, None where nobody reads such. Raises UnreadableError.

    `kind`: enough to tell whether it is read. What is not read may be anything that this fits.
    """
    try:
        value = decoded(whole, data)
    except UnreadableError:
        if is_read(decoded(kind, data)):
            raise
        return None
    return value if is_read(value) else None


def _without_values(message: str) -> str:
    """What msgspec says of a value that does not fit; it quotes values of enumerations and of tags."""
    return message if "Invalid" not in message else f"a value that is not known here{message[message.rfind(' - at') :]}"
