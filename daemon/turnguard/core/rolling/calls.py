"""Calls and results as the history takes them from identified events."""

from typing import Any

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.javascript import trim
from turnguard.core.rolling.identity import COMMAND_STATUS, rolling_tool_name
from turnguard.core.turn.counter import CountedKey, counted, read_key, write_key
from turnguard_protocol.events import Call, Keys, Outcomes, Result

UNKNOWN_TOOL = "unknown_tool"
"""The error type of a call of a tool that does not exist. It is an outcome, even when the host tells nothing else."""


def run_of(run_id: str | None) -> str | None:
    """The run that an id names: trimmed, and none when it is blank."""
    return (trim(run_id) or None) if run_id is not None else None


def args_of(key: str | Keys | None) -> CountedKey | None:
    """The hash of the arguments, None when nobody gave it."""
    rolling = key.rolling if isinstance(key, Keys) else key
    return None if rolling is None else counted(rolling)


def args_of_call(call: Call) -> CountedKey | None:
    """The same of a call; a call of fidelity `none` is never identical to another and has none."""
    return None if call.fidelity == "none" else args_of(call.key)


def is_poll(call: Call) -> bool:
    """Whether the call is a poll. Without facts its name alone tells."""
    if call.facts is None:
        return rolling_tool_name(call.name or "") == COMMAND_STATUS
    return call.facts.poll


def outcome_of(result: Result) -> CountedKey | None:
    """The hash of the outcome, None when it has no identity."""
    outcome = result.outcome.rolling if isinstance(result.outcome, Outcomes) else result.outcome
    if outcome is None and result.error_type == UNKNOWN_TOOL:
        return UNKNOWN_TOOL
    return None if outcome is None else counted(outcome)


def unknown_tool_of(result: Result) -> str | None:
    """The tool that does not exist: the one that the error text names, else the one that was called."""
    if result.facts is not None and result.facts.unknown_tool is not None:
        return result.facts.unknown_tool
    return rolling_tool_name(result.name or "") if result.error_type == UNKNOWN_TOOL else None


class AwaitedCalls:
    """Some calls of the step at hand, whose results are looked out for; at most `MAX_OPEN_CALLS`, the latest."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, str, CountedKey | None]] = []

    def add(self, call: Call) -> None:
        """Looks out for the result of a call."""
        self.calls.append((call.id, rolling_tool_name(call.name or ""), args_of(call.key)))
        del self.calls[:-MAX_OPEN_CALLS]

    def drop(self, call: Call) -> bool:
        """Looks out for the result of the call of this id no more; False when it was not looked out for."""
        for index, (call_id, *_) in enumerate(self.calls):
            if call_id is not None and call_id == call.id:
                del self.calls[index]
                return True
        return False

    def take(self, result: Result) -> bool:
        """Whether a result belongs to one of the calls, which then is awaited no more; by id, else by name and key."""
        if not self.calls:
            return False
        identity = (rolling_tool_name(result.name or ""), args_of(result.key))
        for index, (call_id, *call_identity) in enumerate(self.calls):
            if result.id == call_id if result.id is not None else tuple(call_identity) == identity:
                del self.calls[index]
                return True
        return False

    def clear(self) -> None:
        """Looks out for nothing any more."""
        self.calls.clear()

    def written(self) -> list[Any]:
        """The calls as plain values."""
        return [[call_id, tool, write_key(args)] for call_id, tool, args in self.calls]

    @classmethod
    def read(cls, written: list[Any]) -> "AwaitedCalls":
        """The calls that `written` gave."""
        awaited = cls()
        awaited.calls = [(call_id, tool, read_key(args)) for call_id, tool, args in written]
        return awaited
