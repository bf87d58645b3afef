"""Reading one settings file: what is right in it holds, and every part that is not is a problem with its line."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnguard.settings.document import DocumentError, Members, parse
from turnguard.settings.kinds import INVALID, taken
from turnguard.settings.layers import values_of
from turnguard.settings.problems import Problems, describe
from turnguard.settings.regular_file import RefusedFileError, read_regular
from turnguard.settings.table import Value
from turnguard_protocol.settings import Settings, SettingsProblem

__all__ = ["MAX_FILE_BYTES", "Reading", "describe", "read_file"]

MAX_FILE_BYTES = 256 * 1024
"""A settings file that sets everything has four thousand."""

EXPECTED = f"expected a regular file of its own, of {MAX_FILE_BYTES // 1024} KiB at most, that can be read"


class Reading(NamedTuple):
    """What a file says.

    `values`: by the names of settings, only what is set. `problems`: what could not be taken. `digest`: the SHA-256 of
    its bytes in hexadecimal; None where there is no file, and where it was not read, which is a problem then.
    """

    values: dict[str, Value]
    problems: list[SettingsProblem]
    digest: str | None


def read_file(path: Path, origin: str, *, beneath: Path | None = None) -> Reading:
    """Reads a settings file.

    `origin`: the layer that it is. `beneath`: for a project's file, the project's directory: nothing from there down to
    the file may be a link. Without it the file itself may be one, as tools that keep a person's files make it.
    """
    problems = Problems(origin, str(path))
    try:
        contents = read_regular(path, MAX_FILE_BYTES, beneath=beneath, may_be_link=beneath is None)
    except RefusedFileError as error:
        problems.add("$", f"nothing of it was read: {error}; {EXPECTED}")
        return Reading({}, problems.all, None)
    if contents is None:
        return Reading({}, [], None)
    return Reading(_values(contents.data, problems), problems.all, hashlib.sha256(contents.data).hexdigest())


def _values(data: bytes, problems: Problems) -> dict[str, Value]:
    try:
        node = parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add("$", "nothing of it was read: it is not UTF-8; save it as UTF-8", line=line)
        return {}
    except DocumentError as error:
        problems.add("$", f"nothing of it was read: it is not JSON5: {error.message}", line=error.line)
        return {}
    if node is None:
        return {}
    if not isinstance(node.value, Members):
        problems.add("$", "nothing of it was read: expected an object, { ... }", line=node.line, value=node.plain)
        return {}
    sections = taken(node, Settings, problems, "$")
    return {} if sections is INVALID else values_of(msgspec.convert(sections, Settings))
