"""The sessions of one client: who is open, under which settings, and what the client must be told unasked.

Each method answers one request of the protocol. What it has to tell besides goes into `notices`, to be sent right after
the answer, and into `changed`, to be sent a few times a second.
"""

import hmac
import secrets
import time
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct

from turnguard.core.bounds import IDLE_SESSION_SECONDS, MAX_SESSIONS, MAX_TOLD_FINDINGS
from turnguard.core.guard import Seal
from turnguard.core.session import EventError, SessionGuard, StaleTurnError
from turnguard.service.errors import REQUEST_FAILED, STALE_TURN, UNKNOWN_SESSION, RequestError, invalid_params
from turnguard.settings.layers import CLIENT, SESSION, Layer, Merged, SettingsError
from turnguard_protocol.events import ToolCalls
from turnguard_protocol.methods import (
    CloseSession,
    DidDetectLoop,
    GetSettings,
    GetStatus,
    ListSessions,
    OpenSession,
    Override,
    PrepareStep,
    Record,
    SessionList,
)
from turnguard_protocol.settings import Settings, SettingsInForce, SettingsReport
from turnguard_protocol.verdicts import Action, NextStep, SessionState, SessionStatus, Totals, TurnSummary, Verdict

_SALT_BYTES = 32
_DIGEST_CHARACTERS = 32


class Notice(NamedTuple):
    """A notification to send: its method and its params."""

    method: str
    params: Struct


class Origin:
    """What sessions that were opened alike have in common: what they set, and what is in force for them by that."""

    __slots__ = ("__weakref__", "agent_id", "in_force", "name", "settings", "workspace_settings")

    def __init__(self, name: str, opened: OpenSession, in_force: SettingsInForce) -> None:
        self.name = name
        self.agent_id = opened.agent_id
        self.settings = opened.settings
        self.workspace_settings = opened.workspace_settings
        self.in_force = in_force


class Session:
    """A session: its guard, what it set, when it was last spoken of, and the state the client last heard."""

    __slots__ = ("_guard", "_in_force", "heard", "last_used", "origin")

    def __init__(self, guard: SessionGuard, origin: Origin, now: float) -> None:
        self.origin = origin
        self.last_used = now
        self.heard: tuple[SessionState, Totals] | None = None
        self._guard = guard
        self._in_force = origin.in_force

    @property
    def guard(self) -> SessionGuard:
        """The guard, under the settings that are in force now: it takes them up when it is needed."""
        in_force = self.origin.in_force
        if self._in_force is not in_force:
            self._guard.configure(in_force)
            self._in_force = in_force
        return self._guard


def new_seal() -> Seal:
    """A seal with a salt of its own: its digests can be compared with each other and with nothing else."""
    salt = secrets.token_bytes(_SALT_BYTES)

    def seal(key: str) -> str:
        return hmac.digest(salt, key.encode("utf-8", "surrogatepass"), "sha256").hex()[:_DIGEST_CHARACTERS]

    return seal


class Sessions:
    """All open sessions. `clock`: monotonic seconds. `limit`: how many may be open at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, limit: int = MAX_SESSIONS) -> None:
        self.notices: list[Notice] = []
        self.changed: dict[str, Session] = {}
        self._clock = clock
        self._limit = limit
        self._sessions: dict[str, Session] = {}
        self._origins: WeakValueDictionary[str, Origin] = WeakValueDictionary()
        self._next_expiry = clock() + IDLE_SESSION_SECONDS
        self._client_settings: Settings | None = None
        self._seal = new_seal()

    def configure(self, settings: Settings | None, root: str) -> None:
        """Puts what the client set in force, for every session from its next event on. `root`: its path in the message.

        Raises RequestError, with everything as it was, when that makes no sense with what some session set.
        """
        previous, self._client_settings = self._client_settings, settings
        try:
            origins = {session.origin for session in self._sessions.values()}
            in_force = [(origin, self._merged_of(origin).in_force()) for origin in origins]
            self._merged(None, None).in_force()
        except SettingsError as error:
            self._client_settings = previous
            raise invalid_params(f"{root}.{error.name}", error.message) from None
        for origin, settings_in_force in in_force:
            origin.in_force = settings_in_force
        self._origins = WeakValueDictionary({origin.name: origin for origin in origins})

    def take_changes(self) -> list[Notice]:
        """What to tell of the sessions whose state or totals are others than the client last heard; their last ones."""
        notices: list[Notice] = []
        for session_id, session in self.changed.items():
            status = session.guard.status()
            heard = (status.state, status.totals)
            is_current = self._sessions.get(session_id, session) is session
            if is_current and heard != session.heard:
                session.heard = heard
                notices.append(Notice("turnguard/didChangeSession", status))
        self.changed = {}
        return notices

    # --- requests ---

    def open(self, params: OpenSession) -> SessionStatus:
        """`turnguard/openSession`."""
        now = self._clock()
        self._drop_idle(now)
        session_id = params.session_id if params.session_id is not None else f"session-{secrets.token_hex(8)}"
        session = self._sessions.get(session_id)
        if session is not None:
            session.last_used = now
            return session.guard.status()
        if len(self._sessions) >= self._limit:
            data = {"errorKind": "too_many_sessions", "limit": self._limit}
            raise RequestError(REQUEST_FAILED, f"Expected at most {self._limit} open sessions; close one first", data)
        origin = self._origin(params)
        guard = SessionGuard(session_id, origin.in_force, agent_id=params.agent_id, cwd=params.cwd, seal=self._seal)
        session = self._sessions[session_id] = Session(guard, origin, now)
        status = guard.status()
        session.heard = (status.state, status.totals)
        return status

    def record(self, params: Record) -> Verdict:
        """`turnguard/record`."""
        session = self._session(params.session_id)
        for index, event in enumerate(params.events[:-1]):
            if type(event) is ToolCalls:
                raise invalid_params(f"$.events[{index}]", "Expected `toolCalls` once and as the last event")
        try:
            verdict = session.guard.record(params.events)
        except EventError as error:
            raise invalid_params(error.path, error.message) from None
        self.changed[params.session_id] = session
        if verdict.findings:
            self._tell_findings(params.session_id, verdict)
        return verdict

    def prepare_step(self, params: PrepareStep) -> NextStep:
        """`turnguard/prepareStep`."""
        session = self._session(params.session_id)
        self.changed[params.session_id] = session
        return session.guard.prepare_step()

    def override(self, params: Override) -> SessionStatus:
        """`turnguard/override`."""
        session = self._session(params.session_id)
        try:
            session.guard.override(params.action, turn_id=params.turn_id, calls=params.calls)
        except StaleTurnError as error:
            message = "Stale turn: another turn than `turnId` is the current one by now"
            raise RequestError(STALE_TURN, message, {"turnId": error.turn_id}) from None
        self.changed[params.session_id] = session
        return session.guard.status()

    def status(self, params: GetStatus) -> SessionStatus:
        """`turnguard/status`."""
        return self._session(params.session_id).guard.status()

    def list_all(self, params: ListSessions) -> SessionList:
        """`turnguard/listSessions`."""
        self._drop_idle(self._clock())
        return SessionList([session.guard.status() for session in self._sessions.values()])

    def settings(self, params: GetSettings) -> SettingsReport:
        """`turnguard/settings`."""
        if params.session_id is None:
            return self._merged(None, None).report()
        return self._merged_of(self._session(params.session_id).origin).report()

    def close(self, params: CloseSession) -> TurnSummary | None:
        """`turnguard/closeSession`."""
        session = self._session(params.session_id)
        summary = session.guard.close()
        del self._sessions[params.session_id]
        self.changed[params.session_id] = session
        return summary

    # --- the table ---

    def _session(self, session_id: str) -> Session:
        """The open session of this id, which is hereby spoken of. Raises RequestError when there is none."""
        now = self._clock()
        if now >= self._next_expiry:
            self._drop_idle(now)
        session = self._sessions.get(session_id)
        if session is None:
            data = {"errorKind": "session_not_found", "sessionId": session_id}
            raise RequestError(UNKNOWN_SESSION, "Unknown session: expected the `sessionId` of an open one", data)
        session.last_used = now
        return session

    def _drop_idle(self, now: float) -> None:
        """Forgets the sessions nobody spoke of for too long; looks only when the first of them can be due."""
        if now < self._next_expiry:
            return
        self._sessions = {
            session_id: session
            for session_id, session in self._sessions.items()
            if now - session.last_used < IDLE_SESSION_SECONDS
        }
        oldest = min((session.last_used for session in self._sessions.values()), default=now)
        self._next_expiry = oldest + IDLE_SESSION_SECONDS

    def _merged(self, settings: Settings | None, workspace: Settings | None, agent_id: str | None = None) -> Merged:
        return Merged([Layer(CLIENT, self._client_settings), Layer(SESSION, settings)], workspace, agent_id=agent_id)

    def _merged_of(self, opened: OpenSession | Origin) -> Merged:
        return self._merged(opened.settings, opened.workspace_settings, opened.agent_id)

    def _origin(self, opened: OpenSession) -> Origin:
        """The origin of a session that is opened so. Raises RequestError when its settings make no sense."""
        name = repr((opened.agent_id, opened.settings, opened.workspace_settings))
        origin = self._origins.get(name)
        if origin is None:
            try:
                in_force = self._merged_of(opened).in_force()
            except SettingsError as error:
                raise invalid_params(f"$.settings.{error.name}", error.message) from None
            origin = self._origins[name] = Origin(name, opened, in_force)
        return origin

    def _tell_findings(self, session_id: str, verdict: Verdict) -> None:
        fresh = (finding for finding in verdict.findings if finding.fresh and finding.action is not Action.ALLOW)
        for finding in islice(fresh, MAX_TOLD_FINDINGS):
            loop = DidDetectLoop(session_id, verdict.turn_id, finding, verdict)
            self.notices.append(Notice("turnguard/didDetectLoop", loop))
