"""What both directions of a connection share: its sessions, what was agreed on, and who waits for an answer."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import UNSET

from turnguard.acp.agents import table_of
from turnguard.acp.calls import Calls
from turnguard.acp.control import ProxyStatus, SessionReport, UnknownSessionError
from turnguard.acp.messages import AgentInfo, Initialized, Message, RequestId
from turnguard.acp.options import Options
from turnguard.acp.outgoing import Out, failure
from turnguard.acp.requests import ClientRequests, OpenRequests
from turnguard.acp.session import INTERNAL_ERROR, Session, Shared
from turnguard.acp.turn import Guarded
from turnguard.core.bounds import MAX_SESSIONS
from turnguard_protocol.methods import Override
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import SessionStatus

GUARDED_VERSION = 1
"""The version of ACP that is understood here; the draft of version 2 passes unguarded."""

Handler = Callable[[Message, bytes, float], Out | None]
"""Takes a message, its line and the time; None forwards the line as it is."""


class Given(NamedTuple):
    """What a connection is given: how guards are made for a session, from its id and, where known, its directory;
    the options; the version of turnguard; what is told what goes into the log; and what gives texts that it never gave
    before.
    """

    guard_for: Callable[[str, str | None], Guarded]
    options: Options
    version: str
    note: Callable[[str], None]
    unique: Callable[[], str]


class Connection:
    """One client and one agent.

    `asked` are the client's requests, `open_requests` the agent's. `questions`: our own requests to the client, and
    whose session they are about; `terminal_outputs`: whose and which terminal the agent asks the client to read.
    `next_tick`: when some session has something to do, None when none has.
    """

    def __init__(self, given: Given) -> None:
        self.asked = ClientRequests()
        self.open_requests = OpenRequests()
        self.questions: dict[str, str] = {}
        self.terminal_outputs: dict[RequestId, tuple[Session, str]] = {}
        self.sessions: dict[str, Session] = {}
        self.wants_notifications = False
        self.is_unguarded = False
        self.next_tick: float | None = None
        self.unread = 0
        self.faults = 0
        self._given = given
        self._agreed: int | None = None
        self._agent = AgentInfo()
        self._table = table_of(None)
        self._timed: dict[str, Session] = {}

    # --- the handshake ------------------------------------------------------------------------------------------------

    def handshake(self, *, wants_notifications: bool) -> None:
        """The client asks which version is to be spoken; what was agreed on before holds no longer."""
        self.is_unguarded = False
        self.wants_notifications = wants_notifications

    def agree(self, initialized: Initialized) -> int:
        """The agent answers the handshake. Returns the version that was agreed on."""
        agreed = GUARDED_VERSION if initialized.protocol_version is None else initialized.protocol_version
        self._agreed = agreed
        self.is_unguarded = agreed > GUARDED_VERSION
        self._agent = initialized.agent_info or AgentInfo()
        self._table = table_of(initialized.agent_info)
        return agreed

    # --- sessions -----------------------------------------------------------------------------------------------------

    def known(self, session_id: str | None) -> Session | None:
        """The session of this id, if there is one."""
        return None if session_id is None else self.sessions.get(session_id)

    def session(self, session_id: str, cwd: str | None = None) -> Session:
        """The session of this id, which is made when it is not there."""
        session = self.sessions.get(session_id)
        if session is None:
            if len(self.sessions) >= MAX_SESSIONS:
                self._make_room()
            given = self._given
            shared = Shared(given.options, self.open_requests, self.wants_notifications, given.note, given.unique)
            guard = given.guard_for(session_id, cwd)
            session = Session(session_id, shared, Calls(self._table, lambda: guard.needs), guard)
            self.sessions[session_id] = session
        return session

    def waiting(self, request_id: RequestId) -> Session | None:
        """The session where a prompt under this id waits, so that the agent cannot have answered that one."""
        asked = self.asked.pending(request_id)
        session = None if asked is None else self.known(asked.session_id)
        return session if session is not None and session.is_holding(request_id) else None

    def only_asked(self) -> RequestId | None:
        """The one request of the client that the agent has to answer; None where there are none, or several."""
        pending = [request_id for request_id, _ in self.asked.all_pending() if self.waiting(request_id) is None]
        return pending[0] if len(pending) == 1 else None

    def only_at_work(self) -> Session | None:
        """The one session that is at something; None where none is, or several are."""
        at_work = [session for session in self.sessions.values() if session.state != "idle"]
        return at_work[0] if len(at_work) == 1 else None

    def drop(self, session_id: str | None) -> None:
        """Forgets a session that is at nothing."""
        session = self.known(session_id)
        if session is not None and session.state == "idle":
            self._forget(session)

    def _make_room(self) -> None:
        """Forgets the oldest session that is at nothing, or else one that nobody waits for, or else the oldest."""
        for states in (("idle",), ("running", "zombie"), ("asking", "stopping")):
            for session in self.sessions.values():
                if session.state in states:
                    self._forget(session)
                    return

    def _forget(self, session: Session) -> None:
        del self.sessions[session.session_id]
        self._timed.pop(session.session_id, None)
        self.open_requests.forget(session.session_id)

    def settled(self, session: Session, out: Out | None) -> Out | None:
        """What a session wants done, after it was noted what that means for the others."""
        if out is not None:
            self.settle(session, out)
        return out

    def settle(self, session: Session, out: Out) -> None:
        """Notes what was answered in the agent's place, and when the session has to be looked at again."""
        for request_id in out.answered:
            self.asked.answered(request_id, session.session_id)
        out.answered.clear()
        question = session.question_id
        if question is not None:
            self.questions[question] = session.session_id
        if session.deadline is None:
            self._timed.pop(session.session_id, None)
        else:
            self._timed[session.session_id] = session
        deadlines = (each.deadline for each in self._timed.values())
        self.next_tick = min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- time and ends ------------------------------------------------------------------------------------------------

    def tick(self, now: float, out: Out) -> None:
        """Does what is due."""
        for session in list(self._timed.values()):
            deadline = session.deadline
            if deadline is not None and deadline <= now:
                session.tick(now, out)
                self.settle(session, out)

    def look_again(self, out: Out, now: float) -> None:
        """A guard may have been told something by control."""
        for session in list(self._timed.values()):
            session.look_again(out, now)
            self.settle(session, out)

    def agent_gone(self, out: Out) -> None:
        """The agent is gone: the turns that were being stopped end."""
        for session in self.sessions.values():
            session.agent_gone(out)
            self.settle(session, out)

    def fail_pending(self, out: Out) -> None:
        """The agent was ended: everything that the client waits for fails."""
        for request_id, asked in self.asked.all_pending():
            message = "turnguard ended the agent: a turn that it stopped did not end"
            data = {"code": "AGENT_KILLED", "error": message}
            out.to_client.append(failure(request_id, INTERNAL_ERROR, message, data))
            self.asked.answered(request_id, asked.session_id)

    def rest(self) -> None:
        """Nothing is to be done in time any more."""
        self._timed.clear()
        self.next_tick = None

    # --- control ------------------------------------------------------------------------------------------------------

    def proxy_status(self, session_id: str | None) -> ProxyStatus:
        """The status, with all sessions or with one. Raises UnknownSessionError."""
        sessions = list(self.sessions.values()) if session_id is None else [self._expected(session_id)]
        return ProxyStatus(
            version=self._given.version,
            is_guarding=self._agreed == GUARDED_VERSION,
            agent=self._agent.name or UNSET,
            agent_version=self._agent.version or UNSET,
            table=self._table.key,
            on_loop=self._given.options.on_loop,
            stop_as=self._given.options.stop_as,
            unread=self.unread,
            faults=self.faults,
            sessions=[
                SessionReport(
                    session_id=session.session_id,
                    state=session.state,
                    fidelity=dict(session.turns.calls.fidelity),
                    guard=session.turns.guard.status(),
                )
                for session in sessions
            ],
        )

    def override(self, wanted: Override) -> SessionStatus:
        """Applies an override. Raises UnknownSessionError, and StaleTurnError for another turn than the current one."""
        guard = self._expected(wanted.session_id).turns.guard
        guard.override(wanted.action, turn_id=wanted.turn_id, calls=wanted.calls)
        return guard.status()

    def settings_report(self, session_id: str | None) -> SettingsReport:
        """The settings of a session, or of one that would be opened now. Raises UnknownSessionError."""
        if session_id is None:
            return self._given.guard_for("", None).report()
        return self._expected(session_id).turns.guard.report()

    def _expected(self, session_id: str) -> Session:
        session = self.sessions.get(session_id)
        if session is None:
            raise UnknownSessionError(session_id)
        return session


def id_of(message: Message) -> RequestId | None:
    """The id under which a message is answered, or answers; None when there is none that could be told from others."""
    return None if message.id is UNSET else message.id
