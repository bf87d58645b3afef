"""Suite repeat_key: the identity of a call."""

from collections.abc import Iterator

from msgspec import UNSET

from tests.conformance.cases import Case, Mismatch, Op, compare, json_bytes
from turnguard.core.identity import tool_call_repeat_key


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process."""
    yield from compare(case, map(_key, case.events))


def _key(op: Op) -> str:
    args = op.get("args_json")
    return tool_call_repeat_key(op["tool"], UNSET if args is None else json_bytes(args))
