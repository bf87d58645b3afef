"""JSON-RPC batches, which version 1 of ACP does not know but which pass like everything else.

Each entry is taken as a line of its own. When one of them is not forwarded unchanged the array is made anew, of what
would go out in the entries' place.
"""

from collections.abc import Callable
from typing import Literal

from turnguard.acp.messages import entries
from turnguard.acp.outgoing import Route

BATCH = b"["
"""How a batch begins."""

Direction = Literal["client", "agent"]
"""Who sent a line."""


def taken_apart(
    line: bytes, now: float, take: Callable[[bytes, float], Route | None], sender: Direction
) -> Route | None:
    """What becomes of a batch, or of a line that is none; None: forward it unchanged. `take` is told every entry."""
    batch = entries(line)
    routes = [take(entry, now) for entry in batch]
    if all(route is None for route in routes):
        return None
    onward: list[bytes] = []
    back: list[bytes] = []
    for entry, route in zip(batch, routes, strict=True):
        if route is None:
            onward.append(entry)
        elif sender == "agent":
            onward += route.to_client
            back += route.to_agent
        else:
            onward += route.to_agent
            back += route.to_client
    array = [b"[" + b",".join(each.strip() for each in onward) + b"]\n"] if onward else []
    return Route(array, back) if sender == "agent" else Route(back, array)
