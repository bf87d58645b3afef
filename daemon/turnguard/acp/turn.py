"""The turn machine of one ACP session: when a turn begins and ends, and what of the traffic belongs to it.

Updates carry no prompt id, so they belong to the session's work at hand:

    work      what the session was asked to do by a prompt, or what the agent said it began by itself; in order
    running   the first of the works; its turn is the guard's turn
    a turn    begins when a work comes to the front, ends when that work does
    history   all updates while no work is there, and those of a session that is being loaded, resumed or forked

The answer to a later prompt takes the works before it with it: an agent that feeds a prompt into the running turn never
answers that prompt (codex-acp). An error does not: it can mean that a second prompt was refused (mistral-vibe). Should
the agent make another call while such a prompt is unanswered, it was at that prompt all along (a command like `/status`
was answered in between): its work is taken up again, as a turn of its own.
"""

from collections.abc import Sequence
from typing import Protocol

from turnguard.acp.calls import MAX_OPEN, Calls
from turnguard.acp.messages import TOOL_CALLS, PermissionRequest, RequestId, ToolCall, Update
from turnguard.core.guard import Needs
from turnguard.settings.guarded import USER_ORIGIN
from turnguard_protocol.events import CallRekeyed, Event, TurnEnded, TurnOutcome, TurnStarted, UserInput
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import Action, OverrideAction, SessionStatus, Verdict

AGENT = "agent"
"""The origin of a turn that the agent began without saying why."""

MAX_LEFT = 100
"""Prompts that were passed over by the answer to a later one and are remembered; the oldest are forgotten first."""

SOURCES = {"background_notification": "notification"}
"""What agents call the origin of a turn, and what events call it."""


def origin_of(source: str | None) -> str:
    """The origin of a turn that the agent began."""
    return AGENT if source is None else SOURCES.get(source, source)


class Guarded(Protocol):
    """The guards of one session. Identified and raw events go in, verdicts come out."""

    @property
    def needs(self) -> Needs:
        """What they want to see of the next event."""
        ...

    def record(self, events: Sequence[Event], /) -> Verdict:
        """Applies events in order and answers one verdict over all of them."""
        ...

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Gets past a halt, or switches the guards off or on. Raises StaleTurnError for another turn's id."""
        ...

    def status(self) -> SessionStatus:
        """How the session stands."""
        ...

    def report(self) -> SettingsReport:
        """Which settings hold, and where they came from."""
        ...


class Work:
    """Something a session does: for the prompt `request_id`, or as the turn `turn_id` that the agent began.

    `is_cancelled`: the user has had enough of it.
    """

    __slots__ = ("is_cancelled", "origin", "request_id", "turn_id")

    def __init__(
        self, *, request_id: RequestId | None = None, turn_id: str | None = None, origin: str = USER_ORIGIN
    ) -> None:
        self.request_id = request_id
        self.turn_id = turn_id
        self.origin = origin
        self.is_cancelled = False


class Turns:
    """The turns of one session. Nothing here decides anything: verdicts are handed on as the guard gave them.

    `number` counts the turns that began. `left`: works for prompts that were not answered when a later one was.
    `_unheard`: what calls turned out to be while the guard was halted, when it
    takes nothing; it hears of it when the turn goes on.
    """

    __slots__ = ("_replays", "_unheard", "calls", "guard", "left", "number", "works")

    def __init__(self, calls: Calls, guard: Guarded) -> None:
        self.calls = calls
        self.guard = guard
        self.works: list[Work] = []
        self.left: list[Work] = []
        self.number = 0
        self._replays: set[RequestId] = set()
        self._unheard: list[CallRekeyed] = []

    @property
    def running(self) -> Work | None:
        """The work whose turn it is."""
        return self.works[0] if self.works else None

    @property
    def is_live(self) -> bool:
        """Whether what the agent tells now belongs to a turn."""
        return bool(self.works) and not self._replays

    @property
    def is_replaying(self) -> bool:
        """Whether what the agent tells now is the session's past."""
        return bool(self._replays)

    # --- beginnings and ends ------------------------------------------------------------------------------------------

    def begin(self, work: Work) -> Verdict | None:
        """A prompt went to the agent, or the agent began something by itself.

        Nobody prompts while they wait for a session's past: a request for it that still has no answer will get none.
        """
        if work.request_id is not None:
            self._replays.clear()
        self.works.append(work)
        if len(self.works) == 1:
            return self._start(work)
        return self.guard.record([UserInput(queued=True)]) if work.request_id is not None else None

    def end(self, work: Work, outcome: TurnOutcome) -> None:
        """A work is over. What is found at a turn's very end stops nothing any more, so no verdict is given."""
        if work in self.left:
            self.left.remove(work)
        if work not in self.works:
            return
        at = self.works.index(work)
        if at and outcome == "failed":
            del self.works[at]
            return
        passed_over = [each for each in self.works[:at] if each.request_id is not None]
        self.left = [*self.left, *passed_over][-MAX_LEFT:]
        del self.works[: at + 1]
        self.guard.record([*self.calls.turn_ended(), TurnEnded(outcome)])
        if self.works:
            self._start(self.works[0])

    def _start(self, work: Work) -> Verdict:
        self.number += 1
        self._unheard = []
        return self.guard.record([TurnStarted(origin=work.origin), *self.calls.turn_started()])

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay_began(self, request_id: RequestId) -> None:
        """The client asked for the session's past; until that request is answered updates are history."""
        self._replays.add(request_id)

    def replay_ended(self, request_id: RequestId) -> None:
        """The request was answered, by a result or by an error."""
        self._replays.discard(request_id)

    # --- what is told -------------------------------------------------------------------------------------------------

    def saw(self, update: Update) -> Verdict | None:
        """The agent told something; None when it is nothing to the guards."""
        started = self._take_up(update.tool_call_id, update) if update.kind in TOOL_CALLS else None
        if not self.works or self._replays:
            self.calls.replay(update)
            return None
        return self.tell(self.calls.see(update)) or started

    def asked(self, asked: PermissionRequest) -> Verdict | None:
        """The agent asks whether a call may run, which may be the first that is heard of it."""
        started = self._take_up(asked.tool_call_id, asked)
        if not self.is_live:
            return None
        return self.tell(self.calls.permission(asked)) or started

    def _take_up(self, call_id: str | None, told: ToolCall) -> Verdict | None:
        """Takes up a prompt that is still unanswered when the agent makes a call that is new."""
        if self.works or self._replays or not self.left or not call_id or not self.calls.is_new(call_id, told):
            return None
        work = self.left.pop(0)
        self.works.append(work)
        return self._start(work)

    def tell(self, events: Sequence[Event]) -> Verdict | None:
        """Tells the guard what was found out."""
        if not events or not self.is_live:
            return None
        verdict = self.guard.record(events)
        if verdict.action is Action.HALT:
            self._unheard += [event for event in events if isinstance(event, CallRekeyed)]
            del self._unheard[:-MAX_OPEN]
        return verdict

    def tell_again(self) -> Verdict | None:
        """The turn goes on after a halt: tells what was not heard."""
        unheard, self._unheard = self._unheard, []
        return self.tell(unheard)
