"""Takes what a source says as far as it is valid, and reports each part that is not.

What is valid is what the types of `Settings` say, bounds included; nothing of it is written down here again. Of an
object with names of its own only the bad member is left out, of the list of agents only the bad entry. Every other
value is taken whole or not at all: half a table of states would be another table.
"""

import functools
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from turnguard.core.rolling.config import ORDERED, validate_loop_detection
from turnguard.settings.described import listed
from turnguard.settings.document import Items, Members, Node
from turnguard.settings.problems import Problems, member, nearest_here, shown
from turnguard_protocol.settings import MAX_SAFE_INTEGER, LoopDetectionSettings, Settings

SCHEMA_POINTER = "$schema"
"""A name that may stand at the top of a file, where an editor looks for the schema."""

SECOND_TIME = "stands here a second time; the first one holds"

INVALID: Any = object()
"""What is left of a value that cannot be taken."""


def taken(node: Node, kind: Any, problems: Problems, path: str) -> Any:
    """The valid part of a value that should be of a kind, as JSON has it; INVALID where there is none of it."""
    kind = without_null(kind)
    if node.value is None:
        problems.add(path, "leave it out where it should not be set", line=node.line, value=None)
        return INVALID
    if is_section(kind):
        return _section(node, kind, problems, path)
    if get_origin(kind) is list:
        return _list(node, kind, problems, path)
    if get_origin(kind) is dict:
        return _table(node, kind, problems, path)
    try:
        return msgspec.convert(node.plain, kind)
    except msgspec.ValidationError:
        _refuse(node, kind, problems, path)
        return INVALID


def is_section(kind: Any) -> bool:
    """Whether a kind is an object with names of its own."""
    return isinstance(kind, type) and issubclass(kind, Struct)


def without_null(kind: Any) -> Any:
    """A kind without the None that stands for not set."""
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    return kind


def expected(kind: Any) -> str:
    """What is allowed of a kind: `an integer of 1 or more`, `"batch" or "call"`."""
    kind = without_null(kind)
    base, meta = _unwrapped(kind)
    if get_origin(base) is Literal:
        return listed([shown(word) for word in get_args(base)], "or")
    if base is int:
        return "an integer" if meta.ge in (None, -MAX_SAFE_INTEGER) else f"an integer of {meta.ge} or more"
    if base is str:
        return "a string that is not empty" if meta.min_length else "a string"
    if base is bool:
        return "true or false"
    return "a list" if get_origin(base) is list else "an object"


def _unwrapped(kind: Any) -> tuple[Any, Meta]:
    """A kind without its bounds, and these."""
    if isinstance(metadata := getattr(kind, "__metadata__", None), tuple):
        return get_args(kind)[0], next(each for each in metadata if isinstance(each, Meta))  # pyright: ignore
    return kind, Meta()


def _refuse(node: Node, kind: Any, problems: Problems, path: str) -> None:
    value, (base, meta) = node.plain, _unwrapped(without_null(kind))
    message = f"expected {expected(kind)}"
    if base is int and isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > 1:
        if meta.le is not None and value > meta.le:
            message = f"{message}, and of {meta.le} or less"
        elif meta.ge is not None and value < meta.ge == -MAX_SAFE_INTEGER:
            message = f"{message} of {meta.ge} or more"
    elif base in (int, bool) and isinstance(value, str):
        message = f"{message}, without quotes" if problems.has_lines else message
    problems.add(path, message, line=node.line, value=value)


@functools.cache
def _fields(section: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a section, by their names in a file."""
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def _section(node: Node, section: type[Struct], problems: Problems, path: str) -> Any:
    members = node.value
    if not isinstance(members, Members):
        _refuse(node, section, problems, path)
        return INVALID
    fields = _fields(section)
    lines: dict[str, int] = {}
    values: dict[str, Any] = {}
    for name, line, value_node in members:
        inner = member(path, name)
        if name in lines:
            problems.add(inner, SECOND_TIME, line=line)
            continue
        if name in fields:
            value = taken(value_node, fields[name].type, problems, inner)
            if value is not INVALID:
                values[name] = value
        elif section is Settings and name == SCHEMA_POINTER:
            taken(value_node, str, problems, inner)
        else:
            hint = "" if problems.is_full else nearest_here(name, fields)
            problems.add(inner, f"there is no such setting; {hint}", line=line)
            continue
        lines[name] = line
    if section is LoopDetectionSettings:
        _put_in_order(values, lines, problems, path)
    missing = [name for name, field in fields.items() if field.required and name not in values]
    for name in missing:
        if name not in lines:
            problems.add(path, f'expected an object with "{name}"', line=node.line)
    return INVALID if missing else values


def _put_in_order(values: dict[str, Any], lines: dict[str, int], problems: Problems, path: str) -> None:
    """Leaves out thresholds that are not above the one before them in the same block."""
    before = {higher: lower for lower, higher in ORDERED}
    misordered = {name: values[name] for name in validate_loop_detection(values)}
    for name, value in misordered.items():
        lower = before[name]
        message = f"expected more than {lower}, which is {values[lower]}"
        problems.add(member(path, name), message, line=lines[name], value=value)
    for name in misordered:
        del values[name]


def _list(node: Node, kind: Any, problems: Problems, path: str) -> Any:
    if not isinstance(node.value, Items):
        _refuse(node, kind, problems, path)
        return INVALID
    (item,) = get_args(kind)
    values = [taken(each, item, problems, f"{path}[{at}]") for at, each in enumerate(node.value)]
    good = [value for value in values if value is not INVALID]
    return good if len(good) == len(values) or is_section(item) else INVALID


def _table(node: Node, kind: Any, problems: Problems, path: str) -> Any:
    if not isinstance(node.value, Members):
        _refuse(node, kind, problems, path)
        return INVALID
    name_kind, value_kind = get_args(kind)
    values: dict[str, Any] = {}
    for name, line, value_node in node.value:
        inner = member(path, name)
        if name in values:
            problems.add(inner, SECOND_TIME, line=line)
            continue
        is_name = taken(Node(name, line), name_kind, problems, inner) is not INVALID
        value = taken(value_node, value_kind, problems, inner)
        values[name] = value if is_name else INVALID
    return INVALID if INVALID in values.values() else values
