"""In-band control: what a client can ask the proxy itself, under `_turnguard/`. The agent never hears of it.

    _turnguard/status    {sessionId?}                              -> ProxyStatus
    _turnguard/override  {sessionId, action, turnId?, calls?}      -> SessionStatus
    _turnguard/settings  {sessionId?}                              -> SettingsReport

The errors are those of the service: -32602 params do not fit, -32004 unknown session, -32801 a stale `turnId`.

A client that announces `_meta.turnguard.notifications: true` in its capabilities gets `_turnguard/didDetectLoop`
(`DidDetectLoop`) for every fresh finding of warn or worse, and `_turnguard/didNotice` (`DidNotice`) for everything else
there is to know, in place of short agent messages.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from turnguard.acp.options import OnLoop, StopAs
from turnguard.core.session import StaleTurnError
from turnguard_protocol.methods import GetSettings, Override, Params, PathError
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import Answer, SessionStatus

STATUS = "_turnguard/status"
OVERRIDE = "_turnguard/override"
SETTINGS = "_turnguard/settings"
METHODS = frozenset({STATUS, OVERRIDE, SETTINGS})
DID_DETECT_LOOP = "_turnguard/didDetectLoop"
DID_NOTICE = "_turnguard/didNotice"

INVALID_PARAMS = -32602
UNKNOWN_SESSION = -32004
STALE_TURN = -32801

State = Literal["idle", "running", "asking", "stopping", "zombie"]
"""What the proxy is at: `asking`, a person was asked whether to stop; `zombie`, a stopped turn has not ended yet."""


class GetProxyStatus(Params):
    """Asks how the proxy stands, with all its sessions or one."""

    session_id: str | None = None


class SessionReport(Answer, kw_only=True):
    """One session. `fidelity`: calls seen so far by how much of their identity was known, and those not decoded.

    `guard` is absent until the session's first turn.
    """

    session_id: str
    state: State
    fidelity: Mapping[str, int]
    guard: SessionStatus | UnsetType = UNSET


class ProxyStatus(Answer, kw_only=True):
    """How the proxy stands.

    `is_guarding` is false before the handshake and when it came to a version of the protocol that passes unguarded.
    `table` says as which agent its messages are read. `unread` counts lines of the agent that could not be looked at,
    `faults` the errors of turnguard itself; either way the lines were forwarded.
    """

    version: str
    is_guarding: bool = msgspec.field(name="guarding")
    agent: str | UnsetType = UNSET
    agent_version: str | UnsetType = UNSET
    table: str | UnsetType = UNSET
    on_loop: OnLoop
    stop_as: StopAs
    unread: int
    faults: int
    sessions: list[SessionReport]


class DidNotice(Answer):
    """Something a person should know that is no finding, for example a setting that is not in force."""

    session_id: str
    message: str


class ControlError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str, data: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class UnknownSessionError(Exception):
    """There is no session of this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Unknown session {session_id!r}")
        self.session_id = session_id


class Controlled(Protocol):
    """What control can reach. All of it raises UnknownSessionError for a session that is not there."""

    def proxy_status(self, session_id: str | None) -> ProxyStatus:
        """The status, with all sessions or with one."""
        ...

    def override(self, wanted: Override) -> SessionStatus:
        """Applies an override. Raises StaleTurnError for another turn than the current one."""
        ...

    def settings_report(self, session_id: str | None) -> SettingsReport:
        """The settings of a session, or of one that would be opened now."""
        ...


def announces_notifications(line: bytes) -> bool:
    """Whether the capabilities in an `initialize` ask for notifications."""
    try:
        announced: Any = json.loads(line)["params"]["clientCapabilities"]["_meta"]["turnguard"]["notifications"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
    return announced is True


P = TypeVar("P", bound=Params)


def answer(method: str, params: bytes, controlled: Controlled) -> Answer:
    """The result of one of `METHODS`. `params` as JSON, empty when there are none. Raises ControlError."""
    try:
        if method == STATUS:
            return controlled.proxy_status(_params(params, GetProxyStatus).session_id)
        if method == OVERRIDE:
            return controlled.override(_params(params, Override))
        return controlled.settings_report(_params(params, GetSettings).session_id)
    except UnknownSessionError as error:
        data = {"errorKind": "session_not_found", "sessionId": error.session_id}
        raise ControlError(UNKNOWN_SESSION, "Unknown session", data) from error
    except StaleTurnError as error:
        raise ControlError(STALE_TURN, "Another turn is the current one", {"turnId": error.turn_id}) from error


def _params(params: bytes, kind: type[P]) -> P:
    try:
        try:
            return msgspec.json.decode(params or b"{}", type=kind)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:  # half a surrogate pair, for example in the id of a session
            return msgspec.convert(json.loads(params), type=kind)
    except (ValueError, RecursionError) as error:
        message, _, path = str(error).partition(" - at `")
        where = f"$.params{path.removeprefix('$').removesuffix('`')}"
        raise ControlError(INVALID_PARAMS, f"Invalid params: {message}", PathError(where, message)) from error
