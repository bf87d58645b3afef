"""Settings given in passing: environment variables, and NAME=VALUE on the command line.

Numbers, `true` and `false` and words stand bare; lists and objects are JSON5.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_origin

import msgspec

from turnguard.settings.document import DocumentError, Node, parse
from turnguard.settings.kinds import INVALID, expected, taken, without_null
from turnguard.settings.layers import COMMAND_LINE, ENVIRONMENT
from turnguard.settings.problems import Problems, brief, nearest, nearest_setting
from turnguard.settings.table import BY_NAME, ENVIRONMENT_PREFIX, ROWS, Row, Value, type_of
from turnguard_protocol.settings import SettingsProblem

OPTION = "--set"

BY_VARIABLE = {row.variable: row for row in ROWS}

MAX_GIVEN_CHARACTERS = 64 * 1024
"""Of one value."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_BOOLEANS = {"true": True, "false": False}


class Given(NamedTuple):
    """What was given: values by the names of settings, only what is set, and what could not be taken."""

    values: dict[str, Value]
    problems: list[SettingsProblem]


def read_environment(environ: Mapping[str, str]) -> Given:
    """What the variables of an environment set. An empty one sets nothing."""
    values: dict[str, Value] = {}
    problems: list[SettingsProblem] = []
    for variable in sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX)):
        text = _writable(environ[variable]).strip()
        if not text:
            continue
        found = Problems(ENVIRONMENT, _writable(variable), has_lines=False)
        row = BY_VARIABLE.get(variable)
        if row is None:
            near = nearest(variable, BY_VARIABLE)
            found.add("$", f"there is no such variable{f'; did you mean {near}?' if near else ''}")
        else:
            _take(row, text, values, found)
        problems += found.all
    return Given(values, problems)


def read_assignments(given: Sequence[str]) -> Given:
    """What assignments `NAME=VALUE` set; of two for one name, the later one."""
    values: dict[str, Value] = {}
    problems = Problems(COMMAND_LINE, OPTION, has_lines=False)
    for assignment in map(_writable, given):
        name, equals, text = (part.strip() for part in assignment.partition("="))
        row = BY_NAME.get(name)
        if row is None:
            near = nearest_setting(name)
            hint = f"did you mean {near}?" if near else "turnguard settings prints the names"
            problems.add("$", f"there is no setting {brief(name)}; {hint}")
        elif not equals or not text:
            problems.add(f"$.{name}", f"expected {name}=VALUE, where the value is {expected(type_of(name))}")
        else:
            _take(row, text, values, problems)
    return Given(values, problems.all)


def _take(row: Row, text: str, values: dict[str, Value], problems: Problems) -> None:
    path, kind = f"$.{row.name}", without_null(type_of(row.name))
    if len(text) > MAX_GIVEN_CHARACTERS:
        problems.add(path, f"expected at most {MAX_GIVEN_CHARACTERS} characters")
        return
    try:
        node = _node(text, kind)
    except DocumentError as error:
        problems.add(path, f"expected {expected(kind)} in JSON5: {error.message}")
        return
    value = taken(node, kind, problems, path)
    if value is not INVALID:
        values[row.name] = value


def _node(text: str, kind: Any) -> Node:
    """A text as a value of a kind, or as the text where it is none. Raises DocumentError."""
    if get_origin(kind) in (list, dict):
        return parse(text) or Node(text, 0)
    if _accepts(kind, True):
        return Node(_BOOLEANS.get(text, text), 0)
    is_number = _accepts(kind, 1) and _INTEGER.fullmatch(text)
    return Node(int(text) if is_number else text, 0)


def _accepts(kind: Any, value: Value) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _writable(text: str) -> str:
    """A text as UTF-8 can say it: what an environment holds need not be."""
    return text.encode("utf-8", "replace").decode("utf-8")
