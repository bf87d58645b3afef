"""Calls: the tool calls of one ACP session, as identified events for the guards.

A call is counted once, when it is first heard of, with whatever is known of it then; when its identity becomes known,
or changes, it is re-keyed. How its agent is read a table says (`turnguard.acp.agents`).

    the agent tells                                     the guards hear
    of a call for the first time                        toolCalls, of one call
    its arguments; later other ones                     callRekeyed
    its end                                             toolResults, and stepFinished (`turnguard.acp.steps`)
    its end again, or anything after it                 nothing
    the same id once more, with other arguments         toolCalls: another call
    of calls of earlier turns, and of replayed ones     nothing

Arguments and results are held only while a call is open. Calls of subagents are never equal to those of another
subagent or of the main conversation: their scope is part of the key, and is the run they belong to.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.acp.agents.merged import COMPLETED, ENDS, FAILED, IN_PROGRESS, MergedCall, digest_of, is_given
from turnguard.acp.agents.table import AgentTable
from turnguard.acp.messages import (
    MESSAGE_CHUNK,
    TOOL_CALL,
    TOOL_CALLS,
    WORDS,
    PermissionRequest,
    TerminalOutput,
    ToolCall,
    UndecodedRequest,
    UndecodedUpdate,
    Update,
    member,
    read,
    text,
)
from turnguard.acp.steps import ROOT, Running, Scope, Steps
from turnguard.core.bounds import MAX_REMEMBERED_CALL_IDS
from turnguard.core.guard import ALL_BUT_TEXT, InvalidEventError, Needs
from turnguard.core.identify import identify
from turnguard.core.scope import scoped
from turnguard.prose import bare
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Event,
    Facts,
    Keys,
    Result,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
)

MAX_OPEN = 1_000
"""Calls that are held at once; the oldest are then taken to have ended without a result."""

UNDECODED = "undecoded"

Events = Sequence[Event]
NOTHING: Events = ()

UNKNOWN_KEY = ""
"""Stands where a key must be and none is known; a call of fidelity `none` has no other."""

BLIND = Facts(blind=True)


class EndedCall(Struct, gc=False):
    """What is remembered of a call of this turn that has ended."""

    key: str | Keys | None
    name: str | None
    first_title: str | None
    generation: int


class OpenCall(Struct, gc=False):
    """A call that has not ended. `told`: as the guards know it.

    `generation` counts the calls of one id in a turn. `earlier`: the one before, as long as this may still turn out to
    be a repetition of its announcement, which counts for nothing.
    """

    merged: MergedCall
    told: Call
    generation: int = 1
    earlier: EndedCall | None = None
    is_keyed: bool = False

    @property
    def scope(self) -> Scope:
        """The call of which this one's subagent was started, None in the main conversation."""
        return self.merged.parent


class Calls:
    """The calls of one session of an agent. `needs`: what the guards want to see of what comes next."""

    def __init__(self, table: AgentTable, needs: Callable[[], Needs] = lambda: ALL_BUT_TEXT) -> None:
        self.table = table
        self._needs = needs
        self._tells_text = False
        self._steps = Steps(table.marks_a_step)
        self._turn = 0
        self._has_output = False
        self._open: dict[str, OpenCall] = {}
        self._ended: dict[str, EndedCall] = {}
        self._past: dict[str, None] = {}
        self._let_go: dict[str, None] = {}
        self._fidelity = {"full": 0, "low": 0, "none": 0, UNDECODED: 0}

    @property
    def fidelity(self) -> Mapping[str, int]:
        """The calls so far by how well they are known, and how many of those with `none` could not be read at all."""
        return self._fidelity

    def open_calls(self) -> Sequence[str]:
        """The ids of the calls of this turn that have not ended, also of those that are held no more."""
        return [*self._let_go, *(call_id for call_id, call in self._open.items() if call.earlier is None)]

    def is_open(self, call_id: str) -> bool:
        """Whether a call was made and has not ended."""
        return call_id in self._open

    def is_of_turn(self, call_id: str) -> bool:
        """Whether a call was made in the turn at hand."""
        return call_id in self._open or call_id in self._ended

    def is_new(self, call_id: str, told: ToolCall) -> bool:
        """Whether a message tells of a call that the model made and that was not heard of, in this turn or before."""
        if self.is_of_turn(call_id) or call_id in self._past:
            return False
        merged = MergedCall(call_id)
        merged.merge(told)
        return self.table.is_call(merged, has_output=True)

    # --- turns --------------------------------------------------------------------------------------------------------

    def turn_started(self) -> Events:
        """A prompt went in: what was open, or has ended, is of the past. What is to be told after the turn's start."""
        for call_id in (*self._open, *self._ended):
            self._forget(call_id)
        self._open, self._ended, self._let_go = {}, {}, {}
        self._steps.begin()
        self._turn += 1
        self._has_output = False
        self._tells_text = self._needs().text
        return [StepFinished()]  # by this the guards know that the ends of steps will be told, and nothing else is one

    def turn_ended(self) -> Events:
        """What is still to be told before the turn's end."""
        events: list[Event] = []
        for call in self._open.values():
            if not call.is_keyed and call.earlier is None:
                events += self._key(call)
        return [*events, *self._steps.results()]

    def replay(self, update: Update) -> None:
        """Remembers a call that is told while no turn is at hand; it never counts."""
        call_id = update.tool_call_id
        if update.kind not in TOOL_CALLS or call_id is None:
            return
        if call_id not in self._open:
            self._forget(call_id)
        elif update.status in ENDS:
            del self._open[call_id]
            self._forget(call_id)

    def _forget(self, call_id: str) -> None:
        self._past.pop(call_id, None)
        self._past[call_id] = None
        if len(self._past) > MAX_REMEMBERED_CALL_IDS:
            del self._past[next(iter(self._past))]

    # --- what the agent tells -----------------------------------------------------------------------------------------

    def see(self, update: Update) -> Events:
        """What an update of the turn at hand tells the guards."""
        kind = update.kind
        if kind in TOOL_CALLS:
            if isinstance(update, UndecodedUpdate):
                return self._see_undecoded(update)
            call_id = update.tool_call_id
            return self._hear(call_id, update, begins=kind == TOOL_CALL) if call_id else NOTHING
        events = NOTHING
        if kind in WORDS:
            self._has_output = True
            events = self._steps.words_begin(self._running()) if self._steps.answered else NOTHING
            if self._tells_text:
                events = [*events, *_words(update)]
        if self._steps.marks_a_step and self.table.marks_step(update):
            events = [*events, *self._steps.mark(self._running())]
        return events

    def permission(self, request: PermissionRequest) -> Events:
        """What a permission request tells: who the call is, and perhaps that there is one."""
        if not request.tool_call_id:
            return self._count_undecoded()
        is_read = not isinstance(request, UndecodedRequest)
        events = self._hear(request.tool_call_id, request, begins=True, is_permission=is_read)
        self._fidelity[UNDECODED] += bool(events) and not is_read
        return events

    def terminal(self, terminal_id: str, answer: Raw) -> Events:
        """Takes in what the client answered `terminal/output` for a terminal: the result of a call that runs in it.

        The guards hear of it when the call ends.
        """
        shown = read(answer, TerminalOutput)
        running = [call.merged for call in self._open.values()]
        named = [merged for merged in running if terminal_id in merged.terminals]
        commands = [merged for merged in running if self.table.is_shell(merged)]
        for merged in (named or commands)[:1]:
            merged.terminal_output = shown.output
            merged.terminal_exit = None if shown.exit_status is None else shown.exit_status.exit_code
        return NOTHING

    def _see_undecoded(self, update: UndecodedUpdate) -> Events:
        """A call that could not be read: it counts when it is announced, or when its id is certain and new."""
        call_id = update.tool_call_id
        if call_id is None:
            return self._count_undecoded() if update.kind == TOOL_CALL else NOTHING
        events = self._hear(call_id, update, begins=update.kind == TOOL_CALL)
        self._fidelity[UNDECODED] += bool(events)
        return events

    def _count_undecoded(self) -> Events:
        """A call of which not even the id is known; nobody will hear of its end."""
        self._fidelity[UNDECODED] += 1
        self._fidelity["none"] += 1
        call = Call(None, f"{self._turn}:{UNDECODED}-{self._fidelity[UNDECODED]}", key=UNKNOWN_KEY, fidelity="none")
        return [*self._steps.call_begins(ROOT, self._running()), ToolCalls([call])]

    # --- one call -----------------------------------------------------------------------------------------------------

    def _hear(self, call_id: str, told: ToolCall, *, begins: bool, is_permission: bool = False) -> Events:
        """Takes in a message about a call. `begins`: it is one that announces calls."""
        if told.status in ENDS:
            self._let_go.pop(call_id, None)
        call = self._open.get(call_id)
        is_new = call is None
        if call is None:
            call = self._opened(call_id, told, begins=begins)
            if call is None:
                return NOTHING
        merged = call.merged
        keeps_input = is_permission and not self.table.permission_has_input and self.table.has_input(merged)
        merged.merge(told, with_input=not keeps_input)
        if is_new and not self.table.is_call(merged, has_output=self._has_output):
            del self._open[call_id]
            self._forget(call_id)
            return NOTHING
        is_due = self._is_due(call, told, is_permission=is_permission)
        if call.earlier is not None:
            if not is_due:
                return NOTHING
            self._identify(call)
            if call.told.fidelity == "none" or call.told.key == call.earlier.key:
                del self._open[call_id]
                return NOTHING
            call.earlier, is_new = None, True
            del self._ended[call_id]
        events = self._first_sight(call, is_due=is_due) if is_new else self._key(call) if is_due else NOTHING
        if merged.has_ended:
            return [*events, *self._end(call)]
        merged.shrink()
        return events

    def _opened(self, call_id: str, told: ToolCall, *, begins: bool) -> OpenCall | None:
        """A call that was not open, None when the message is about one of which nothing counts any more."""
        ended = self._ended.get(call_id)
        is_past = call_id in self._past
        if (ended is not None or is_past) and not begins:
            return None
        if is_past and ended is None and told.status in ENDS:
            return None
        merged, generation = MergedCall(call_id), 1
        if ended is not None:
            merged.name, merged.first_title = ended.name, ended.first_title
            generation = ended.generation + 1
        turn = f"{self._turn}.{generation}" if generation > 1 else str(self._turn)
        unknown = Call(None, f"{turn}:{call_id}", key=UNKNOWN_KEY, fidelity="none")
        if len(self._open) >= MAX_OPEN:
            oldest = next(iter(self._open))
            if self._open.pop(oldest).earlier is None:
                self._let_go[oldest] = None
                if len(self._let_go) > MAX_REMEMBERED_CALL_IDS:
                    del self._let_go[next(iter(self._let_go))]
            self._forget(oldest)
        call = self._open[call_id] = OpenCall(merged, unknown, generation, ended)
        return call

    def _is_due(self, call: OpenCall, told: ToolCall, *, is_permission: bool) -> bool:
        """Whether it is time to say who the call is, for the first time or again."""
        merged = call.merged
        if is_permission or (merged.has_ended and not call.is_keyed):
            return True
        if self.table.streams_input:
            return False
        if call.is_keyed:
            return is_given(told.raw_input)
        return merged.status == IN_PROGRESS or self.table.has_input(merged)

    def _first_sight(self, call: OpenCall, *, is_due: bool) -> Events:
        """Counts a call, as what it is known to be."""
        before = self._steps.call_begins(call.scope, self._running(without=call.merged.id))
        if is_due:
            self._identify(call)
        else:
            call.told = msgspec.structs.replace(call.told, name=self.table.tool(call.merged))
        self._fidelity[call.told.fidelity] += 1
        return [*before, ToolCalls([call.told], UNSET if call.scope is ROOT else call.scope)]

    def _key(self, call: OpenCall) -> Events:
        """Re-keys a call when that changes anything."""
        before = call.told
        self._identify(call)
        now = call.told
        if now == before:
            return NOTHING
        self._fidelity[before.fidelity] -= 1
        self._fidelity[now.fidelity] += 1
        return [CallRekeyed(now.id or "", now.name, UNSET, now.key, now.fidelity, now.hint, now.facts)]

    def _identify(self, call: OpenCall) -> None:
        """Notes who a call is. What was known before is never given up for nothing."""
        identity = self.table.identity(call.merged)
        told = Call(identity.name, call.told.id, key=UNKNOWN_KEY, fidelity="none")
        if isinstance(identity.args, Raw):
            facts = BLIND if self.table.is_blind(call.merged) else None
            args = bare(identity.name or "", identity.args)
            named = Call(identity.name, call.told.id, args, fidelity=identity.fidelity, facts=facts)
            told = self._identified(named, args)
            scope = call.scope
            told.key = told.key if scope is None else scoped(told.key, scope)
        if told.fidelity != "none" or call.told.fidelity == "none":
            call.told = told
        call.is_keyed = call.told.fidelity != "none"

    def _identified(self, named: Call, args: Raw) -> Call:
        try:
            identified = identify(ToolCalls([named]), self._needs())
        except InvalidEventError:  # no JSON after all, or nested too deep: equal where the text is
            digested = msgspec.structs.replace(named, args=digest_of(args))
            identified = identify(ToolCalls([digested]), self._needs())
        return cast("ToolCalls", identified).calls[0]

    def _end(self, call: OpenCall) -> Events:
        """What became of a call."""
        merged, told = call.merged, call.told
        del self._open[merged.id]
        self._ended[merged.id] = EndedCall(told.key, merged.name, merged.first_title, call.generation)
        return self._steps.call_ended(call.scope, self._result(call), self._running())

    def _result(self, call: OpenCall) -> Result:
        output, ok = self.table.outcome(call.merged)
        result = Result(call.told.id, call.told.name, ok=ok)
        if call.merged.status not in (COMPLETED, FAILED):
            result.status = "cancelled"
        try:
            return self._identified_result(call, result, output)
        except InvalidEventError:  # nested too deep
            return self._identified_result(call, result, digest_of(output))

    def _identified_result(self, call: OpenCall, result: Result, told: Raw | UnsetType) -> Result:
        if call.merged.status == FAILED:
            result.error = told
        else:
            result.output = told
        identified = identify(ToolResults([result]), self._needs(), lambda _: call.told)
        return cast("ToolResults", identified).results[0]

    def _running(self, *, without: str | None = None) -> Running:
        return {
            call_id: call.scope for call_id, call in self._open.items() if call_id != without and call.earlier is None
        }


def _words(update: Update) -> Events:
    """What the model wrote."""
    written = text(member(update.content, "text"))
    if written is None:
        return NOTHING
    return [Text(written)] if update.kind == MESSAGE_CHUNK else [Thought(description=written)]
