"""The turn machine of one ACP session: when a turn begins and ends, and what of the traffic belongs to it.

Updates carry no prompt id, so they belong to the session's work at hand:

    work      what the session was asked to do by a prompt, or what the agent said it began by itself; in order
    running   the first of the works; its turn is the guard's turn
    a turn    begins when a work comes to the front, ends when that work does
    history   all updates while no work is there, and those of the session's past that is being shown (`replay`)

The answer to a later prompt says nothing for certain of the works before it. An agent that feeds a prompt into the
running turn never answers that prompt (codex-acp); another answers a command like `/status` in between; an error can
mean that a second prompt was refused (mistral-vibe). So the turn is not over by it, only presumed to be, unless it was
an error:

    then comes                the turn
    the next prompt           has ended, unless the prompt is a command
    a call that is new        goes on with what it has counted, and no later answer casts doubt on it any more
    more of a call of its     is where it was; what was told is heard should it go on

While prompts wait that came after the answered one the agent is at one of them, or still at an earlier one. Then the
turn runs on, with what it has counted, and has ended only when the next prompt comes before any call.
"""

from collections.abc import Sequence
from typing import Protocol

from turnguard.acp.agents.merged import ENDS
from turnguard.acp.calls import MAX_OPEN, Calls
from turnguard.acp.messages import TOOL_CALLS, PermissionRequest, RequestId, ToolCall, Update
from turnguard.acp.replay import Replays
from turnguard.core.guard import Needs
from turnguard.settings.guarded import USER_ORIGIN
from turnguard_protocol.events import (
    CallRekeyed,
    Event,
    StepFinished,
    ToolCalls,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.settings import SettingsReport
from turnguard_protocol.verdicts import Action, OverrideAction, SessionStatus, Verdict

AGENT = "agent"
"""The origin of a turn that the agent began without saying why."""

MAX_LEFT = 100
"""Prompts that were never answered and are remembered; the oldest are forgotten first."""

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

    `is_command`: the prompt is one to the agent itself, like `/status`. `is_cancelled`: the user has had enough of it.
    `has_waited`: another work was there when it came. `may_be_fed`: the next prompt came before anything was done for
    it, so it may have been fed into the turn before, and will then not be answered.
    """

    __slots__ = ("has_waited", "is_cancelled", "is_command", "may_be_fed", "origin", "request_id", "turn_id")

    def __init__(
        self,
        *,
        request_id: RequestId | None = None,
        turn_id: str | None = None,
        origin: str = USER_ORIGIN,
        is_command: bool = False,
    ) -> None:
        self.request_id = request_id
        self.is_command = is_command
        self.turn_id = turn_id
        self.origin = origin
        self.is_cancelled = False
        self.has_waited = False
        self.may_be_fed = False


class Turns:
    """The turns of one session. Nothing here decides anything: verdicts are handed on as the guard gave them.

    `number` counts the turns that began, `worked` those of them in which the model did something. `left`: works whose
    prompts were never answered when their turn was presumed to be over, and then ended; should the agent go on with
    one, that is another turn. `_presumed`: how the turn at hand is presumed to have ended, `_held`: what was told of
    its calls since. `_doubted`: how it has ended if the next prompt comes before any call. `_going_on`: works of which
    one goes on whatever later prompts are answered. `_unheard`: what calls turned out to be while the guard was halted,
    when it takes nothing; it hears of it when the turn goes on.
    """

    __slots__ = (
        "_doubted",
        "_going_on",
        "_has_worked",
        "_held",
        "_presumed",
        "_unheard",
        "calls",
        "guard",
        "left",
        "number",
        "replays",
        "worked",
        "works",
    )

    def __init__(self, calls: Calls, guard: Guarded) -> None:
        self.calls = calls
        self.guard = guard
        self.replays = Replays(calls)
        self.works: list[Work] = []
        self.left: list[Work] = []
        self.number = 0
        self.worked = 0
        self._has_worked = False
        self._presumed: TurnOutcome | None = None
        self._doubted: TurnOutcome | None = None
        self._held: list[Event] = []
        self._going_on: Sequence[Work] = ()
        self._unheard: list[CallRekeyed] = []

    @property
    def running(self) -> Work | None:
        """The work whose turn it is."""
        return self.works[0] if self.works and self._presumed is None else None

    @property
    def is_live(self) -> bool:
        """Whether what the agent tells now belongs to a turn."""
        return bool(self.works) and self._presumed is None and not self.replays.is_shown

    # --- beginnings and ends ------------------------------------------------------------------------------------------

    def begin(self, work: Work) -> Verdict | None:
        """A prompt went to the agent, or the agent began something by itself."""
        if work.request_id is not None:
            self.replays.prompted()
        over = self._presumed or self._doubted
        if over is not None and not work.is_command:
            unanswered = [each for each in self.works if each.request_id is not None]
            self.left = [*self.left, *unanswered][-MAX_LEFT:]
            self.works = []
            self._end(over)
        if self.works:
            first = self.works[0]
            first.may_be_fed = first.may_be_fed or (first.has_waited and not self._has_worked and not work.is_command)
            work.has_waited = True
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
        if work in self._going_on:
            self._going_on = ()
        at = self.works.index(work)
        del self.works[at]
        if not at:
            self._end(outcome)
            if self.works:
                self._start(self.works[0])
        elif outcome != "failed" and all(each.is_cancelled for each in self._going_on):
            if at == len(self.works):
                self._presumed = outcome
            else:
                self._doubted = outcome

    def leave(self, work: Work) -> None:
        """A work that was fed into the turn of another: what is at hand is done for the next one."""
        self.works.remove(work)
        self.left = [*self.left, work][-MAX_LEFT:]
        if work in self._going_on:
            self._going_on = ()

    def _start(self, work: Work) -> Verdict:
        self.number += 1
        self._has_worked = False
        self._unheard = []
        return self.guard.record([TurnStarted(origin=work.origin), *self.calls.turn_started()])

    def _end(self, outcome: TurnOutcome) -> None:
        held, self._held = self._held, []
        self._presumed = self._doubted = None
        self.guard.record([*held, *self.calls.turn_ended(), TurnEnded(outcome)])

    # --- the past -----------------------------------------------------------------------------------------------------

    def replay_began(self, request_id: RequestId) -> None:
        """The client asked for the session's past."""
        self.replays.began(request_id, in_turn=bool(self.works))

    def replay_ended(self, request_id: RequestId) -> None:
        """The request was answered."""
        self.replays.ended(request_id)

    # --- what is told -------------------------------------------------------------------------------------------------

    def saw(self, update: Update) -> Verdict | None:
        """The agent told something; None when it is nothing to the guards."""
        if self.replays.is_asked:
            self.replays.look(update)
        started = self._take_up(update.tool_call_id, update) if update.kind in TOOL_CALLS else None
        if self.is_live or self._ends_call(update):
            events = self.calls.see(update)
            return self._tell(events) or started if events else started
        if update.kind in TOOL_CALLS and self._may_be_of_turn(update.tool_call_id):
            return self._hold(self.calls.see(update))
        self.calls.replay(update)
        return None

    def asked(self, asked: PermissionRequest) -> Verdict | None:
        """The agent asks whether a call may run, which may be the first that is heard of it. No past is shown so."""
        started = self._take_up(asked.tool_call_id, asked)
        if self.running is not None:
            return self._tell(self.calls.permission(asked)) or started
        if self._may_be_of_turn(asked.tool_call_id):
            return self._hold(self.calls.permission(asked))
        return None

    def _ends_call(self, update: Update) -> bool:
        """Whether a call of the turn that runs ends by this; that is so, also where the past tells it."""
        call_id = update.tool_call_id
        if self.running is None or update.kind not in TOOL_CALLS or update.status not in ENDS or call_id is None:
            return False
        return self.calls.is_open(call_id)

    def _may_be_of_turn(self, call_id: str | None) -> bool:
        """Whether a call was made in a turn that is presumed to be over and that nobody cancelled."""
        if self._presumed is None or self.replays.is_shown or all(work.is_cancelled for work in self.works):
            return False
        return call_id is not None and self.calls.is_of_turn(call_id)

    def _hold(self, events: Sequence[Event]) -> Verdict | None:
        """Keeps what is told while the turn is presumed to be over. Another call under the same id goes on with it."""
        if not any(isinstance(event, ToolCalls) for event in events):
            self._held = [*self._held, *events][-MAX_OPEN:]
            return None
        self._go_on()
        return self._tell(events)

    def _take_up(self, call_id: str | None, told: ToolCall) -> Verdict | None:
        """Goes on with what was presumed to be over when the agent makes a call that is new."""
        works = self.works if self._presumed is not None else self.left if not self.works else ()
        if self.replays.is_shown or all(work.is_cancelled for work in works):
            return None
        if not call_id or not self.calls.is_new(call_id, told):
            return None
        if self._presumed is not None:
            self._go_on()
            return None
        self._going_on = tuple(works)
        self.works, self.left = self.left, []
        return self._start(self.works[0])

    def _go_on(self) -> None:
        """The turn at hand was not over."""
        self._going_on = tuple(self.works)
        self._presumed = self._doubted = None

    def tell(self, events: Sequence[Event]) -> Verdict | None:
        """Tells the guard what was found out."""
        return self._tell(events) if self.is_live else None

    def _tell(self, events: Sequence[Event]) -> Verdict | None:
        if not events:
            return None
        if self._held:
            events, self._held = [*self._held, *events], []
        if self._doubted is not None and any(isinstance(event, ToolCalls) for event in events):
            self._doubted = None
        if not self._has_worked and any(isinstance(event, ToolCalls | StepFinished) for event in events):
            self._has_worked = True
            self.worked += 1
        verdict = self.guard.record(events)
        if verdict.action is Action.HALT:
            self._unheard += [event for event in events if isinstance(event, CallRekeyed)]
            del self._unheard[:-MAX_OPEN]
        return verdict

    def tell_again(self) -> Verdict | None:
        """The turn goes on after a halt: tells what was not heard."""
        unheard, self._unheard = self._unheard, []
        return self.tell(unheard)
