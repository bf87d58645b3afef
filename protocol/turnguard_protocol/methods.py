"""The JSON-RPC methods: the params of each request, its result, and the notifications."""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from turnguard_protocol.events import MAX_ITEMS, Event
from turnguard_protocol.settings import Positive, Settings, SettingsReport
from turnguard_protocol.verdicts import (
    Answer,
    Finding,
    NextStep,
    OverrideAction,
    SessionStatus,
    TurnSummary,
    Verdict,
)


class Params(Struct, rename="camel", omit_defaults=True):
    """The base of all params. Unknown fields are ignored, so that older daemons serve newer clients."""


class OpenSession(Params):
    """Opens a session, or returns the status of the one that is open under this id.

    `settings` are the user's own; `workspace_settings` come from files a repository can write and may only tighten.
    """

    session_id: str | None = None
    agent_id: str | None = None
    cwd: str | None = None
    settings: Settings | None = None
    workspace_settings: Settings | None = None


class Record(Params):
    """Tells what happened, in order. At most one `toolCalls` event, and last."""

    session_id: str
    events: Annotated[list[Event], Meta(max_length=MAX_ITEMS)]


class PrepareStep(Params):
    """Asks what the next model request may use."""

    session_id: str


class Override(Params):
    """Gets past a halt, or switches the guards off or on. `calls`: by how many calls `raiseCap` raises."""

    session_id: str
    action: OverrideAction
    turn_id: str | None = None
    calls: Positive | None = None


class GetStatus(Params):
    """Asks how a session stands."""

    session_id: str


class ListSessions(Params):
    """Asks for all sessions."""


class GetSettings(Params):
    """Asks which settings hold, for a session or for one that would be opened now."""

    session_id: str | None = None


class CloseSession(Params):
    """Ends the open turn and forgets the session."""

    session_id: str


class SessionList(Answer):
    """The answer to `turnguard/listSessions`."""

    sessions: list[SessionStatus]


class DidDetectLoop(Answer):
    """The notification `turnguard/didDetectLoop`: a fresh finding of warn or worse."""

    session_id: str
    turn_id: str
    finding: Finding
    verdict: Verdict


class InitializationOptions(Params):
    """`initializationOptions` of `initialize`."""

    settings: Settings | None = None


class ServerCapability(Answer):
    """`capabilities.experimental.turnguard` in the answer to `initialize`."""

    protocol_version: int
    methods: list[str]


class PathError(Answer):
    """`data` of error -32602: where the params do not fit, and how."""

    path: str
    message: str


class Method(NamedTuple):
    """The types of one request's params and result."""

    params: type[Struct]
    result: object


METHODS = {
    "turnguard/openSession": Method(OpenSession, SessionStatus),
    "turnguard/record": Method(Record, Verdict),
    "turnguard/prepareStep": Method(PrepareStep, NextStep),
    "turnguard/override": Method(Override, SessionStatus),
    "turnguard/status": Method(GetStatus, SessionStatus),
    "turnguard/listSessions": Method(ListSessions, SessionList),
    "turnguard/settings": Method(GetSettings, SettingsReport),
    "turnguard/closeSession": Method(CloseSession, TurnSummary | None),
}
"""Every request a client may send, by its method."""

NOTIFICATIONS: dict[str, type[msgspec.Struct]] = {
    "turnguard/didDetectLoop": DidDetectLoop,
    "turnguard/didChangeSession": SessionStatus,
}
"""Every notification the daemon sends, by its method."""
