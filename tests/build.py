"""Short ways to write events and settings in tests."""

from typing import Any

import msgspec
from msgspec import Raw

from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Layer, Merged, values_of
from turnguard_protocol.events import Call, Result, ToolCalls, ToolResults
from turnguard_protocol.settings import Settings, SettingsInForce


def raw(value: Any) -> Raw:
    """A JSON value as the wire carries it."""
    return Raw(msgspec.json.encode(value))


def call(name: str | None = "read_file", args: Any = None, call_id: str | None = None, **more: Any) -> Call:
    """A call in the raw form."""
    return Call(name, call_id, raw({} if args is None else args), **more)


def calls(*batch: Call) -> ToolCalls:
    """A batch."""
    return ToolCalls(list(batch))


def distinct(count: int, start: int = 0) -> ToolCalls:
    """A batch of calls that are all different, and different from those of another start."""
    return calls(*(call(args={"n": n}) for n in range(start, start + count)))


def same(count: int, name: str = "grep") -> ToolCalls:
    """A batch of equal calls."""
    return calls(*(call(name, {"q": 1}) for _ in range(count)))


def results(*outcomes: Result) -> ToolResults:
    """Results."""
    return ToolResults(list(outcomes))


def in_force(**sections: dict[str, Any]) -> SettingsInForce:
    """The settings that hold when a client sent these: `in_force(model={"maxToolCallsPerTurn": 5})`."""
    return Merged([Layer("client", values_of(msgspec.convert(sections, Settings)))]).in_force()


def session(**sections: dict[str, Any]) -> SessionGuard:
    """A session under these settings."""
    return SessionGuard("s", in_force(**sections))
