"""How a permission request is answered in the client's place so that its call does not run."""

from typing import Any

import msgspec
from msgspec import Raw

from turnguard.acp.outgoing import members_of

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""Nobody decided; agents take it for the end of the turn, or at least for a no."""

REJECTIONS = ("reject_once", "reject_always")
"""The kinds of option that say no, the one for this call only first."""


def rejection(line: bytes) -> dict[str, Any]:
    """The result that rejects the call of a `session/request_permission`, by what the request offers."""
    try:
        options = msgspec.json.decode(members_of(members_of(line)["params"])["options"], type=list[Raw])
        offered = [members_of(option) for option in options]
        ids = {_text(option["kind"]): _text(option["optionId"]) for option in reversed(offered)}
    except (KeyError, ValueError):
        return CANCELLED
    for kind in REJECTIONS:
        if kind in ids:
            return {"outcome": {"outcome": "selected", "optionId": ids[kind]}}
    return CANCELLED


def _text(raw: Raw) -> str:
    return msgspec.json.decode(raw, type=str)
