"""The sessions of one client: who is open, under which settings, and what the client must be told unasked.

Each method answers one request of the protocol. What it has to tell besides goes into `notices`, to be sent right after
the answer, and into `changed`, to be sent a few times a second.
"""

import contextlib
import secrets
import time
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple
from weakref import WeakValueDictionary

from msgspec import Struct

from turnguard.core.bounds import IDLE_SESSION_SECONDS, MAX_SESSIONS, MAX_TOLD_FINDINGS
from turnguard.core.session import EventError, StaleTurnError
from turnguard.service.errors import REQUEST_FAILED, STALE_TURN, UNKNOWN_SESSION, RequestError, invalid_params
from turnguard.settings.guarded import GuardedSession, InForce, in_force_of
from turnguard.settings.layers import CLIENT, WORKSPACE, Layer, Merged, SettingsError, values_of
from turnguard.settings.places import install_salt, seal_of
from turnguard.settings.problems import describe
from turnguard.settings.sources import Found, Sources, reported
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
from turnguard_protocol.settings import Settings, SettingsReport
from turnguard_protocol.verdicts import Action, NextStep, SessionStatus, TurnSummary, Verdict


class Notice(NamedTuple):
    """A notification to send: its method and its params."""

    method: str
    params: Struct


class Origin:
    """What sessions that were opened alike have in common: what they set, what was found of files where they run, and
    what is in force for them by that. `directory`: where `cwd` led when they were opened.
    """

    __slots__ = ("__weakref__", "agent_id", "directory", "found", "in_force", "name", "settings", "workspace_settings")

    def __init__(self, name: str, opened: OpenSession, directory: str | None, found: Found, in_force: InForce) -> None:
        self.name = name
        self.agent_id = opened.agent_id
        self.directory = directory
        self.settings = opened.settings
        self.workspace_settings = opened.workspace_settings
        self.found = found
        self.in_force = in_force


class Session:
    """A session: its guard, what it set, when it was last spoken of, and the status the client last heard."""

    __slots__ = ("_guard", "heard", "last_used", "origin")

    def __init__(self, guard: GuardedSession, origin: Origin, now: float) -> None:
        self.origin = origin
        self.last_used = now
        self.heard: SessionStatus | None = None
        self._guard = guard

    @property
    def guard(self) -> GuardedSession:
        """The guard, which takes up what is in force now when it is needed."""
        self._guard.take(self.origin.in_force)
        return self._guard


class Sessions:
    """All open sessions. `clock`: monotonic seconds. `limit`: how many may be open at once. `sources`: of settings."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        limit: int = MAX_SESSIONS,
        sources: Sources | None = None,
    ) -> None:
        self.notices: list[Notice] = []
        self.changed: dict[str, Session] = {}
        self._clock = clock
        self._limit = limit
        self._sessions: dict[str, Session] = {}
        self._origins: WeakValueDictionary[str, Origin] = WeakValueDictionary()
        self._next_expiry = clock() + IDLE_SESSION_SECONDS
        self._client_settings: Settings | None = None
        self._seal = seal_of(install_salt())
        self._sources = Sources("serve") if sources is None else sources

    def configure(self, settings: Settings | None, root: str) -> None:
        """Puts what the client set in force, for every session from its next event on. `root`: its path in the message.

        Raises RequestError, with everything as it was, when that makes no sense with what some session set.
        """
        previous, self._client_settings = self._client_settings, settings
        try:
            origins = {session.origin for session in self._sessions.values()}
            in_force = [(origin, self._in_force(origin, origin.found)) for origin in origins]
            self._in_force(OpenSession(), self._sources.found(None))
        except SettingsError as error:
            self._client_settings = previous
            raise invalid_params(f"{root}.{error.name}", error.message) from None
        for origin, settings_in_force in in_force:
            origin.in_force = settings_in_force
        self._origins = WeakValueDictionary({origin.name: origin for origin in origins})
        self.changed.update(self._sessions)

    def complaints(self) -> list[str]:
        """What is wrong in the person's own settings, which hold for every session."""
        return [f"turnguard: {describe(problem)}" for problem in self._sources.own_problems]

    def take_changes(self) -> list[Notice]:
        """What to tell of the sessions whose status is another than the client last heard: how they stand now."""
        notices: list[Notice] = []
        for session_id, session in self.changed.items():
            status = session.guard.status()
            is_current = self._sessions.get(session_id, session) is session
            if is_current and status != session.heard:
                session.heard = status
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
        guard = GuardedSession(session_id, origin.in_force, agent_id=params.agent_id, cwd=params.cwd, seal=self._seal)
        session = self._sessions[session_id] = Session(guard, origin, now)
        session.heard = guard.status()
        return session.heard

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
            opened, found = OpenSession(), self._sources.found(None, now=True)
        else:
            opened = self._session(params.session_id, afresh=True).origin
            found = opened.found
        return reported(self._merged(opened, found), found)

    def close(self, params: CloseSession) -> TurnSummary | None:
        """`turnguard/closeSession`."""
        session = self._session(params.session_id)
        summary = session.guard.close()
        del self._sessions[params.session_id]
        self.changed[params.session_id] = session
        return summary

    # --- the table ---

    def _session(self, session_id: str, *, afresh: bool = False) -> Session:
        """The open session of this id, which is hereby spoken of. Raises RequestError when there is none.

        `afresh`: files are looked at again, however shortly ago they were.
        """
        now = self._clock()
        if now >= self._next_expiry:
            self._drop_idle(now)
        session = self._sessions.get(session_id)
        if session is None:
            data = {"errorKind": "session_not_found", "sessionId": session_id}
            raise RequestError(UNKNOWN_SESSION, "Unknown session: expected the `sessionId` of an open one", data)
        session.last_used = now
        self._refresh(session.origin, afresh=afresh)
        return session

    def _refresh(self, origin: Origin, *, afresh: bool = False) -> None:
        """Takes up what files say by now."""
        found = self._sources.found(origin.directory, now=afresh)
        if found is origin.found:
            return
        origin.found = found
        # What a client says need not make sense without the other half in a file: then what held goes on.
        with contextlib.suppress(SettingsError):
            origin.in_force = self._in_force(origin, found)
            self.changed.update((key, each) for key, each in self._sessions.items() if each.origin is origin)

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

    def _merged(self, opened: OpenSession | Origin, found: Found) -> Merged:
        client = [Layer(CLIENT, values_of(each)) for each in (self._client_settings, opened.settings)]
        workspace = [Layer(WORKSPACE, values_of(opened.workspace_settings))]
        return self._sources.merged(found, client, workspace, agent_id=opened.agent_id)

    def _in_force(self, opened: OpenSession | Origin, found: Found) -> InForce:
        """What is in force for sessions that are opened so. Raises SettingsError when that makes no sense."""
        return in_force_of(self._merged(opened, found), found)

    def _origin(self, opened: OpenSession) -> Origin:
        """The origin of a session that is opened so. Raises RequestError when its settings make no sense."""
        directory = self._sources.directory(opened.cwd)
        name = repr((opened.agent_id, directory, opened.settings, opened.workspace_settings))
        origin = self._origins.get(name)
        if origin is not None:
            self._refresh(origin)
            return origin
        found = self._sources.found(directory, now=True)
        try:
            in_force = self._in_force(opened, found)
        except SettingsError as error:
            raise invalid_params(f"$.settings.{error.name}", error.message) from None
        origin = self._origins[name] = Origin(name, opened, directory, found, in_force)
        return origin

    def _tell_findings(self, session_id: str, verdict: Verdict) -> None:
        fresh = (finding for finding in verdict.findings if finding.fresh and finding.action is not Action.ALLOW)
        for finding in islice(fresh, MAX_TOLD_FINDINGS):
            loop = DidDetectLoop(session_id, verdict.turn_id, finding, verdict)
            self.notices.append(Notice("turnguard/didDetectLoop", loop))
