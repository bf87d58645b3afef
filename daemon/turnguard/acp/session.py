"""One guarded session: what a verdict leads to, and what passes while a turn is being stopped.

Every method is told of a line that came and answers None to forward it unchanged, or an Out in its place. A verdict
that says nothing new changes no line.

    verdict    while the turn runs                                      while it is stopped, or the user ended it
    halt       by --on-loop: halt stops it, ask asks, warn only tells   nothing
    block      the call's permission request is rejected; told          nothing
    warn       told                                                     nothing
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from turnguard.acp import words
from turnguard.acp.agents.merged import COMPLETED, FAILED
from turnguard.acp.ask import ID_PREFIX, Choice, Question
from turnguard.acp.calls import Calls
from turnguard.acp.control import State
from turnguard.acp.halt import CANCELLED, Halt, Phase, Strikes, cancel, closings
from turnguard.acp.messages import (
    TOOL_CALL,
    TOOL_CALL_UPDATE,
    TOOL_CALLS,
    WORDS,
    PermissionRequest,
    RequestId,
    Update,
)
from turnguard.acp.options import Options
from turnguard.acp.outgoing import Out, cancel_request, failure, is_command, response, whole, with_id, with_note
from turnguard.acp.requests import CANCELLED_PERMISSION, Open, OpenRequests, rejection
from turnguard.acp.tell import Teller
from turnguard.acp.turn import Guarded, Turns, Work
from turnguard.core.messages import CAP
from turnguard.core.turn.cap import CapReason
from turnguard_protocol.events import TurnOutcome
from turnguard_protocol.verdicts import Action, Verdict

REQUEST_CANCELLED = -32800
"""ACP's error for a request that was not carried out because of a cancellation."""

INTERNAL_ERROR = -32603

ENDED = frozenset({COMPLETED, FAILED})
"""The statuses with which a call is over, in version 1."""


class Shared(NamedTuple):
    """What all sessions of a connection have in common.

    `wants_notifications`: the client announced it. `note` is told what goes into the log. `unique`: gives an id that
    nobody gave before.
    """

    options: Options
    open_requests: OpenRequests
    wants_notifications: bool
    note: Callable[[str], None]
    unique: Callable[[], str]


class Held(NamedTuple):
    """A prompt that waits for a stopped turn to end, at the longest until `deadline`."""

    request_id: RequestId
    line: bytes
    deadline: float


class Session:
    """A session of the agent's and its guard."""

    def __init__(self, session_id: str, shared: Shared, calls: Calls, guard: Guarded) -> None:
        self.session_id = session_id
        self.turns = Turns(calls, guard)
        self._options = shared.options
        self._open_requests = shared.open_requests
        self._log = shared.note
        self._unique = shared.unique
        self._teller = Teller(
            session_id,
            wants_notifications=shared.wants_notifications,
            on_loop=shared.options.on_loop,
            unique=shared.unique,
        )
        self._halt: Halt | None = None
        self._question: Question | None = None
        self._held: list[Held] = []
        self._strikes = Strikes()
        self._note: str | None = None
        self._blocked: set[str] = set()
        self._set_cap: tuple[int, int] | None = None

    # --- how it stands ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What the session is at."""
        if self._halt is not None:
            return "zombie" if self._is_zombie else "stopping"
        if self._question is not None:
            return "asking"
        return "idle" if self.turns.running is None else "running"

    @property
    def passes_updates(self) -> bool:
        """Whether the client gets all that the agent tells."""
        return self._halt is None

    @property
    def deadline(self) -> float | None:
        """When `tick` has something to do next; None when it has not."""
        deadlines = [held.deadline for held in self._held] if self._is_zombie else []
        if self._halt is not None and self._halt.deadline is not None:
            deadlines.append(self._halt.deadline)
        if self._question is not None:
            deadlines.append(self._question.deadline)
        return min(deadlines, default=None)

    @property
    def _is_zombie(self) -> bool:
        return self._halt is not None and self._halt.phase is Phase.ZOMBIE

    # --- the client's side --------------------------------------------------------------------------------------------

    def prompt(self, request_id: RequestId, line: bytes, now: float) -> Out | None:
        """The client prompts. While a turn is being stopped the prompt waits."""
        out = Out()
        if self._halt is not None:
            self._held.append(Held(request_id, line, now + self._options.hold))
            return out
        forwarded = self._begin_prompt(request_id, line, out, now)
        if out.is_empty and forwarded is line:
            return None
        out.to_agent.insert(0, whole(forwarded))
        return out

    def _begin_prompt(self, request_id: RequestId, line: bytes, out: Out, now: float) -> bytes:
        """Begins the work of a prompt. Returns the line that goes to the agent."""
        is_in_between = bool(self.turns.works) and is_command(line)
        verdict = self.turns.begin(Work(request_id=request_id, is_command=is_in_between))
        if self._note is not None:
            noted = with_note(line, self._note)
            if noted is not None:
                line, self._note = noted, None
        self._obey(verdict, out, now)
        return line

    def is_holding(self, request_id: RequestId) -> bool:
        """Whether this prompt waits here, so that the agent does not know of it."""
        return any(held.request_id == request_id for held in self._held)

    def user_cancels(self, request_id: RequestId | None = None) -> Out:
        """The user ends the session's work, or that of one prompt. It wins over everything turnguard may want.

        Returns what there is to write besides the line. Prompts that wait here are answered.
        """
        out = Out()
        for held in [held for held in self._held if request_id in (None, held.request_id)]:
            self._held.remove(held)
            out.answer(held.request_id, response(held.request_id, {"stopReason": CANCELLED}))
        halted = [] if self._halt is None else [self._halt.work]
        for work in [*halted, *self.turns.works]:
            if request_id in (None, work.request_id):
                work.is_cancelled = True
        self.turns.left = [work for work in self.turns.left if request_id not in (None, work.request_id)]
        running = self.turns.running
        if running is not None and running.is_cancelled:
            self._withdraw_question(out)
        return out

    @property
    def question_id(self) -> str | None:
        """The id of the question that is open."""
        return None if self._question is None else self._question.request_id

    def choose(self, choice: Choice, now: float) -> Out:
        """The person answered the question."""
        out, question = Out(), self._question
        if question is None:
            return out
        self._question = None
        choice = choice if choice in question.choices else "stop"
        out.to_client.append(question.closing(is_allowed=choice != "stop"))
        if choice == "stop":
            self._stop(question.verdict, out, now, "stop")
        else:
            self.turns.guard.override(choice)
            self._obey(self.turns.tell_again(), out, now)
        return out

    def look_again(self, out: Out, now: float) -> None:
        """The guard may have been told something in another way; a question about a lifted halt is taken back."""
        question = self._question
        if question is not None and self.turns.guard.status().state != "halted":
            self._question = None
            out.to_client += [cancel_request(question.request_id), question.closing(is_allowed=True)]
            self._obey(self.turns.tell_again(), out, now)

    # --- the agent's side ---------------------------------------------------------------------------------------------

    def update(self, update: Update, line: bytes, now: float) -> Out | None:
        """The agent tells something."""
        if update.message_id is not None:
            self._teller.has_message_ids = True
        verdict = self.turns.saw(update)
        if self._halt is not None:
            is_late = self._is_zombie and not self.turns.replays.is_shown
            return self._late_update(self._halt, update) if is_late else None
        return None if verdict is None else self._around(line, verdict, now, update.tool_call_id)

    def _late_update(self, halt: Halt, update: Update) -> Out | None:
        """Late words, and calls that nobody would close, are withheld; the end of a call that is shown passes."""
        kind, call = update.kind, update.tool_call_id
        if kind not in WORDS and kind not in TOOL_CALLS:
            return None
        if call is not None and kind in TOOL_CALLS:
            if update.status in ENDED and kind == TOOL_CALL_UPDATE and call not in halt.hidden:
                return None
            if kind == TOOL_CALL:
                halt.hidden.add(call)
        return Out()

    def permission(self, request_id: RequestId, asked: PermissionRequest, line: bytes, now: float) -> Out | None:
        """The agent asks whether a call may run."""
        out, call = Out(), asked.tool_call_id
        if self._halt is not None:
            out.to_agent.append(response(request_id, CANCELLED_PERMISSION))
            return out
        is_shown = call in self.turns.calls.open_calls()
        self._obey(self.turns.asked(asked), out, now, call)
        halt: Halt | None = self._halt
        if halt is not None:
            out.to_agent.insert(0, response(request_id, CANCELLED_PERMISSION))
            if not is_shown:
                halt.hidden.add(call)
        elif call in self._blocked:
            out.to_agent.append(response(request_id, rejection(line)))
        else:
            request = Open(self.session_id, CANCELLED_PERMISSION, rejection(line), call)
            forwarded = self._forwarded(request_id, request, line)
            if out.is_empty and forwarded is line:
                return None
            out.to_client.insert(0, whole(forwarded))
        return out

    def _forwarded(self, request_id: RequestId, request: Open, line: bytes) -> bytes:
        """Notes a request that the agent makes of the client. Returns the line that goes to the client."""
        if self._open_requests.is_answered(request_id):
            told_as = f"{ID_PREFIX}{self._unique()}"
            with suppress(ValueError):  # it cannot be read, and goes as it is
                renamed = with_id(line, told_as)
                self._open_requests.forwarded(request_id, request._replace(told_as=told_as))
                return renamed
        self._open_requests.forwarded(request_id, request)
        return line

    def asks_person(self, request_id: RequestId, cancelled: Mapping[str, Any], line: bytes) -> Out | None:
        """The agent asks the person something that says nothing of a call. `cancelled` answers it in their place."""
        out = Out()
        if self._halt is not None:
            out.to_agent.append(response(request_id, cancelled))
            return out
        forwarded = self._forwarded(request_id, Open(self.session_id, cancelled, cancelled), line)
        if forwarded is line:
            return None
        out.to_client.append(whole(forwarded))
        return out

    def acts(self, request_id: RequestId) -> Out | None:
        """The agent wants to write a file or to start a program; for a turn that the client saw end it may not."""
        if not self._is_zombie:
            return None
        out = Out()
        out.to_agent.append(failure(request_id, REQUEST_CANCELLED, "The turn was stopped"))
        return out

    def agent_begins(self, turn_id: str, origin: str, line: bytes, now: float) -> Out | None:
        """The agent begins a turn by itself."""
        verdict = self.turns.begin(Work(turn_id=turn_id, origin=origin))
        return None if verdict is None or self._halt is not None else self._around(line, verdict, now)

    def agent_ends(self, turn_id: str, line: bytes, now: float) -> Out | None:
        """The turn that the agent began is over."""
        halt = self._halt
        if halt is not None and halt.work.turn_id == turn_id:
            out = Out()
            out.to_client += [*([] if self._is_zombie else self._closings(halt)), whole(line)]
            self._is_over(halt, out, now)
            return out
        work = next((work for work in self.turns.works if work.turn_id == turn_id), None)
        return None if work is None else self._ended(work, "completed", line)

    def answered(self, request_id: RequestId, outcome: TurnOutcome, line: bytes, now: float) -> Out | None:
        """The agent answers a prompt."""
        halt = self._halt
        works = [*self.turns.works, *self.turns.left]
        work = next((work for work in works if work.request_id == request_id), None)
        if halt is not None and work in self.turns.works and work is not halt.work and halt.work.may_be_fed:
            self.turns.leave(halt.work)
            halt.work = work
        if halt is not None and halt.work.request_id == request_id:
            out = Out()
            out.to_client += self._closings(halt)
            out.answer(request_id, halt.rewritten(line))
            self._is_over(halt, out, now)
            return out
        return None if work is None else self._ended(work, outcome, line)

    def answered_late(self, request_id: RequestId, now: float) -> Out:
        """The agent answers a prompt for which the client was answered already; that goes nowhere."""
        out, halt = Out(), self._halt
        if halt is not None and self._is_zombie and halt.work.request_id == request_id:
            self._is_over(halt, out, now)
        return out

    def closed(self, line: bytes, now: float) -> Out | None:
        """The agent has closed the session: a turn that was being stopped is over, and no other answer will come."""
        halt = self._halt
        if halt is None:
            return None
        out = Out()
        if not self._is_zombie:
            self._answer_for(halt, out)
        out.to_client.append(whole(line))
        self._is_over(halt, out, now)
        return out

    def _ended(self, work: Work, outcome: TurnOutcome, line: bytes) -> Out | None:
        """A work that nobody stopped is over. A question about its turn is not worth an answer any more."""
        out, running = Out(), self.turns.running
        self.turns.end(work, outcome)
        if self.turns.running is not running:
            self._withdraw_question(out)
        if running not in self.turns.works:
            self._blocked.clear()
        if out.is_empty:
            return None
        out.to_client.append(whole(line))
        return out

    def _is_over(self, halt: Halt, out: Out, now: float) -> None:
        """The halted turn has ended, and the session can be used again."""
        self._halt = None
        self._blocked.clear()
        self.turns.end(halt.work, "cancelled")
        self._release(out, now)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float, out: Out) -> None:
        """Does what is due."""
        question, halt = self._question, self._halt
        if question is not None and question.deadline <= now:
            self._withdraw_question(out)
            self._stop(question.verdict, out, now, "no answer")
        elif halt is not None and halt.deadline is not None and halt.deadline <= now:
            if halt.phase is Phase.STOPPING:
                self._give_up(halt, out, now)
            else:
                halt.deadline = None
                out.kill_agent = True
        if self._is_zombie:
            self._release_overdue(out, now)

    def _give_up(self, halt: Halt, out: Out, now: float) -> None:
        """The grace is over: tells the agent again, and answers the client in its place."""
        out.to_agent.append(cancel(self.session_id))
        self._answer_for(halt, out)
        self.turns.end(halt.work, "cancelled")
        if self.turns.works:  # the agent is at another prompt, and will perhaps never answer this one
            self._halt = None
            self._release(out, now)
        else:
            kill_after = self._options.kill_after
            halt.phase = Phase.ZOMBIE
            halt.deadline = None if kill_after is None else now + kill_after

    def agent_gone(self, out: Out) -> None:
        """The agent is gone; the client still gets the end of a turn that was being stopped."""
        if self._halt is not None and not self._is_zombie:
            self._answer_for(self._halt, out)
            self._halt = None

    def _answer_for(self, halt: Halt, out: Out) -> None:
        request_id = halt.work.request_id
        out.to_client += self._closings(halt)
        if request_id is not None:
            out.answer(request_id, halt.synthesized(request_id))

    def _closings(self, halt: Halt) -> list[bytes]:
        open_calls = self.turns.calls.open_calls()
        return closings(self.session_id, (call for call in open_calls if call not in halt.hidden))

    def _release_overdue(self, out: Out, now: float) -> None:
        overdue = [held for held in self._held if held.deadline <= now]
        if overdue and self._options.still_running == "forward":
            self._halt = None
            self._release(out, now)
            return
        for held in overdue:
            self._held.remove(held)
            message = "The turn that turnguard stopped has not ended yet"
            data = {"code": "TURN_STILL_RUNNING", "error": message}
            out.answer(held.request_id, failure(held.request_id, INTERNAL_ERROR, message, data))

    def _release(self, out: Out, now: float) -> None:
        """Forwards the prompts that waited."""
        held, self._held = self._held, []
        for each in held:
            out.to_agent.append(whole(self._begin_prompt(each.request_id, each.line, out, now)))

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def _around(self, line: bytes, verdict: Verdict, now: float, call: str | None = None) -> Out | None:
        """What a verdict adds after a line to the client; None when it adds nothing."""
        out = Out()
        self._obey(verdict, out, now, call)
        if out.is_empty:
            return None
        out.to_client.insert(0, whole(line))
        return out

    def _obey(self, verdict: Verdict | None, out: Out, now: float, call: str | None = None) -> None:
        """Does what a verdict says. `call`: the call of which the line tells that led to it."""
        if verdict is None:
            return
        out.to_client += self._teller.notices(verdict)
        running = self.turns.running
        if not verdict.findings or running is None or running.is_cancelled or self._question is not None:
            return
        is_told = self._options.on_loop == "warn"
        if verdict.action is Action.HALT and not is_told:
            verdict = self._with_set_cap(verdict)
            if self._options.on_loop == "ask":
                self._ask(verdict, out, now)
            else:
                self._stop(verdict, out, now)
            return
        if verdict.action is Action.BLOCK and not is_told and call is not None:
            self._block(call, out)
        out.to_client += self._teller.warning(verdict)

    def _with_set_cap(self, verdict: Verdict) -> Verdict:
        """The verdict with the cap as it was set: a person who let a turn pass it is to read of that number again."""
        finding, turn = verdict.findings[0], self.turns.number
        if finding.loop_type != CAP or finding.reason != CapReason.EXPLICIT_CAP:
            return verdict
        if self._set_cap is None or self._set_cap[0] != turn:
            self._set_cap = (turn, finding.threshold)
        finding = replace(finding, threshold=self._set_cap[1])
        return replace(verdict, findings=[finding, *verdict.findings[1:]])

    def _stop(self, verdict: Verdict, out: Out, now: float, because: words.Because | None = None) -> None:
        """Begins the halt."""
        work, options, finding = self.turns.running, self._options, verdict.findings[0]
        if work is None:
            return
        is_again = self._strikes.note(self.turns.worked, finding)
        halt = Halt(work, verdict, options.stop_as, now + options.grace, is_again=is_again, because=because)
        self._halt = halt
        self._log(words.logged(self.session_id, finding))
        self._note = words.note(finding, verdict.totals) if options.note else None
        out.to_client.append(self._teller.message(halt.explanation()))
        if because is None:
            out.to_client += self._teller.detected(verdict)
        for request_id, request in self._open_requests.of(self.session_id):
            self._take_over(request_id, request.cancelled, out)
        out.to_agent.append(cancel(self.session_id))

    def _ask(self, verdict: Verdict, out: Out, now: float) -> None:
        seconds = self._options.answer_within
        self._question = Question(self.session_id, self._unique(), verdict, now + seconds)
        out.to_client += [self._question.asking(seconds), *self._teller.detected(verdict)]

    def _block(self, call: str, out: Out) -> None:
        """Refuses a call where the agent asks for it, be it later or already."""
        self._blocked.add(call)
        for request_id, request in self._open_requests.of(self.session_id, call):
            self._take_over(request_id, request.rejected, out)

    def _take_over(self, request_id: RequestId, result: Mapping[str, Any], out: Out) -> None:
        """Answers a request of the agent in the client's place."""
        told_as = self._open_requests.take_over(request_id)
        out.to_agent.append(response(request_id, result))
        out.to_client.append(cancel_request(told_as))

    def _withdraw_question(self, out: Out) -> None:
        if self._question is not None:
            out.to_client += self._question.withdrawing()
            self._question = None
