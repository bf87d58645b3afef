"""The progress guard, ours: it stops a turn that no longer shows anything new.

A turn goes on while calls show something new. A call whose outcome was already seen twice among the last
`PROGRESS_WINDOW` calls adds points, a call that shows something new takes one off; `PROGRESS_WARN` points warn the
model, `PROGRESS_HALT` stop the turn. A step is judged when it closes, all its calls at once, but for those that still
wait for results and are of another run than the one at hand: a subagent works for a call that outlasts its steps.

    class of a call    the same evidence is                          a family besides, whatever the arguments
    edit, not failed   (tool, arguments): the result does not count  -
    final, not failed  (tool, arguments, outcome)                    (tool)
    any that failed    (tool, arguments, outcome)                    (tool, outcome)
    all others         (tool, arguments, outcome)                    -

    points of a call that is not new                      n, m: sights of its evidence and of its family, this one too
    n - 2, at least 0; at least 1 when m > 2
    0     instead, for a call known to have succeeded that is no edit, if a new edit came since it was last seen
    1/4   instead, for a poll
    half  of them, for a call of fidelity `low`, which may be another one than it seems

A warning is given once an episode, which ends when no points are left; no turn is stopped without one, and no step is
found fault with that has no points of its own. Calls without a known outcome say nothing; only of those whose host says
that it never shows their results (`Facts.blind`) is it counted how often one came in a row (`core.streak`).

A call that is re-keyed before its step closes is judged as what it is then; later it makes no difference.
"""

import struct
from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.guard import NO_FINDINGS, Batch, Guard, Needs, Rekeying, Seal
from turnguard.core.hint import CallClass, call_class
from turnguard.core.identity import repeat_key_of
from turnguard.core.streak import Streak
from turnguard.core.thresholds import (
    BLIND_HALT,
    BLIND_WARN,
    PROGRESS_FAMILY,
    PROGRESS_FREE_SIGHTS,
    PROGRESS_HALT,
    PROGRESS_NEW,
    PROGRESS_POLL,
    PROGRESS_WARN,
    PROGRESS_WARNINGS_TOLD,
    PROGRESS_WINDOW,
)
from turnguard.core.turn.counter import counted
from turnguard.core.turn.turn_guard import turn_key
from turnguard_protocol.events import (
    Call,
    Event,
    Fallback,
    Outcomes,
    Result,
    Retry,
    StepFinished,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

NO_NEW_EVIDENCE = "no_new_evidence"

# --- the rule ---------------------------------------------------------------------------------------------------------

QUARTERS = 4
"""Points are held as whole quarters: a poll adds one."""

FREE = QUARTERS * PROGRESS_FREE_SIGHTS
NEW = QUARTERS * PROGRESS_NEW
FAMILY = QUARTERS * PROGRESS_FAMILY
POLL = int(QUARTERS * PROGRESS_POLL)
WARN = QUARTERS * PROGRESS_WARN
HALT = QUARTERS * PROGRESS_HALT
MOST_AFTER_WARNING = HALT - QUARTERS
"""A warned model gets one more step whatever the warned one came to."""

Kind = Literal["call", "edit", "error", "final", "blind"]
"""What repeats: the whole call, an edit, an error with other arguments, a final answer with other words; or a call
whose results are never shown."""


class SeenCall(Struct, gc=False):
    """A call and what became of it. `args`, `outcome`: identities; `outcome` None: unknown, `ok` None: not said.

    `is_keyed`: it has an identity, without which it says nothing. `is_sure`: that is known in full. `is_blind`: its
    result is never shown. `run`: whose call it is.
    """

    tool: str
    args: str
    outcome: str | None = None
    ok: bool | None = None
    hint: str | None = None
    id: str | None = None
    is_keyed: bool = True
    is_blind: bool = False
    is_sure: bool = True
    run: str | None = None


class Sight(Struct, gc=False):
    """A call of the step beside what was seen before it.

    `evidence` and `family` are tokens, `family` 0 for none; `sights` and `relatives` how often they were seen, this
    time included, `relatives` 0 where they do not count.
    """

    call: SeenCall
    kind: CallClass
    evidence: int
    family: int
    sights: int
    relatives: int
    is_new: bool


class Trouble(Struct, frozen=True, gc=False):
    """What the rule says of a step: stop the turn or warn the model, and which of its calls says so the loudest."""

    is_halt: bool
    call: SeenCall
    kind: Kind
    count: int


class Standing(Struct, frozen=True, gc=False):
    """Where the turn stands: its points, its calls so far, and how many came after the warning of this episode."""

    points: float
    calls: int
    since_warning: int | None


BLIND: Literal["blind"] = "blind"

NO_FAMILY = 0

_FIRST_64_BITS = struct.Struct(">Q")


def _token(*parts: str) -> int:
    """A number that stands for these texts; state is held in such numbers, since every session holds some."""
    return _FIRST_64_BITS.unpack_from(sha256(repr(parts).encode()).digest())[0]


class Progress:
    """The rule at the head of this module, over one turn.

    `evidence`, `families` and `edits_at` have an entry for each of the last calls: what it showed, its family, and how
    many new edits there had been. `score` is in quarters; `warned_at` is the number of calls at the warning of this
    episode, None before it. `known` counts the calls whose outcome was known.
    """

    __slots__ = ("calls", "edits", "edits_at", "evidence", "families", "known", "score", "warned_at")

    def __init__(self) -> None:
        self.calls = self.known = self.edits = 0
        self.forgive()

    def forgive(self) -> None:
        """Forgets what was seen, and with it the points."""
        self.evidence, self.families, self.edits_at = array("Q"), array("Q"), array("I")
        self.score = 0
        self.warned_at: int | None = None

    def step(self, calls: Sequence[SeenCall]) -> Trouble | None:
        """Judges the calls of one step, all of whose outcomes are known or never will be."""
        self.calls += len(calls)
        sights = self._look(calls)
        new = 0
        for sight in sights:
            if sight.is_new:
                new += 1
                self.edits += _is_applied_edit(sight.call, sight.kind)
        points = [0 if sight.is_new else self._points(sight) for sight in sights]
        self._remember(sights)
        self.score = max(0, self.score + sum(points) - NEW * new)
        if self.score == 0:
            self.warned_at = None
        most = max(points, default=0)
        return self._judge(sights[points.index(most)]) if most else None

    def _look(self, calls: Sequence[SeenCall]) -> list[Sight]:
        """What each call shows beside what was seen before the step; the same evidence counts once a step."""
        sights: list[Sight] = []
        in_step: set[int] = set()
        for call in calls:
            if call.outcome is None or not call.is_keyed:
                continue
            self.known += 1
            kind = call_class(call.tool, call.hint)
            evidence, family = _tokens(call, kind, call.outcome)
            if evidence in in_step:
                continue
            times = 1 + self.evidence.count(evidence)
            is_second = family in in_step
            relatives = 0 if family == NO_FAMILY or is_second else 1 + self.families.count(family)
            is_new = times == 1 and relatives <= 1 and not is_second
            in_step.add(evidence)
            if family != NO_FAMILY:
                in_step.add(family)
            sights.append(Sight(call, kind, evidence, family, times, relatives, is_new))
        return sights

    def _points(self, sight: Sight) -> int:
        points = max(0, QUARTERS * sight.sights - FREE)
        if sight.relatives > PROGRESS_FREE_SIGHTS:
            points = max(points, FAMILY)
        if points and sight.call.ok and sight.kind in ("other", "poll") and self._was_edited_since(sight.evidence):
            return 0
        if points and sight.kind == "poll":
            return POLL
        return points if sight.call.is_sure else points // 2

    def _was_edited_since(self, evidence: int) -> bool:
        """Whether there was a new edit since this was last seen, so that it was worth checking again."""
        last_seen = dict(zip(self.evidence, self.edits_at, strict=True))
        return self.edits > last_seen[evidence]

    def _remember(self, sights: Sequence[Sight]) -> None:
        """Adds the entries of a step. Slices take no more memory than they need, unlike arrays that grew."""
        for sight in sights:
            self.evidence.append(sight.evidence)
            self.families.append(sight.family)
            self.edits_at.append(self.edits)
        self.evidence = self.evidence[-PROGRESS_WINDOW:]
        self.families = self.families[-PROGRESS_WINDOW:]
        self.edits_at = self.edits_at[-PROGRESS_WINDOW:]

    def _judge(self, worst: Sight) -> Trouble | None:
        """What the score calls for after a step with points."""
        is_warned = self.warned_at is not None
        is_halt = is_warned and self.score >= HALT
        if not is_halt and (is_warned or self.score < WARN):
            return None
        if not is_halt:
            self.warned_at = self.calls
            self.score = min(self.score, MOST_AFTER_WARNING)
        if worst.sights > PROGRESS_FREE_SIGHTS:
            kind: Kind = "edit" if _is_applied_edit(worst.call, worst.kind) else "call"
            return Trouble(is_halt, worst.call, kind, worst.sights)
        return Trouble(is_halt, worst.call, "error" if worst.call.ok is False else "final", worst.relatives)

    def standing(self) -> Standing:
        """Where the turn stands."""
        since = None if self.warned_at is None else self.calls - self.warned_at
        return Standing(self.score / QUARTERS, self.calls, since)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "calls": self.calls,
            "known": self.known,
            "edits": self.edits,
            "evidence": list(self.evidence),
            "families": list(self.families),
            "editsAt": list(self.edits_at),
            "score": self.score,
            "warnedAt": self.warned_at,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Progress":
        """The state that `snapshot` gave."""
        progress = cls()
        progress.calls, progress.known, progress.edits = state["calls"], state["known"], state["edits"]
        progress.evidence, progress.families = array("Q", state["evidence"]), array("Q", state["families"])
        progress.edits_at = array("I", state["editsAt"])
        progress.score, progress.warned_at = state["score"], state["warnedAt"]
        return progress


def _is_applied_edit(call: SeenCall, kind: CallClass) -> bool:
    return kind == "edit" and call.ok is not False


def _tokens(call: SeenCall, kind: CallClass, outcome: str) -> tuple[int, int]:
    """What a call shows, and the family it belongs to.

    The result of an edit is ignored: a file that grows with each copy of one edit has a new result every time.
    """
    if _is_applied_edit(call, kind):
        return _token("edit", call.tool, call.args), NO_FAMILY
    evidence = _token("call", call.tool, call.args, outcome)
    if call.ok is False:
        return evidence, _token("error", call.tool, outcome)
    return evidence, _token("final", call.tool) if kind == "final" else NO_FAMILY


# --- the guard --------------------------------------------------------------------------------------------------------


class OpenStep:
    """The calls of the step at hand that run, in order; `waiting` are those of them that have no result yet.

    It holds the steps of several runs. `run` is the one that something was last heard of.
    """

    __slots__ = ("calls", "run", "waiting")

    def __init__(self) -> None:
        self.calls: list[SeenCall] = []
        self.waiting: dict[int, SeenCall] = {}
        self.run: str | None = None

    def add(self, call: Call, run: str | None) -> None:
        """Adds a call that may run. One that never will be identical to another waits for nothing: it says nothing."""
        self.run = run
        if len(self.calls) > MAX_OPEN_CALLS:
            self.calls, self.waiting = [], {}
        key = turn_key(call)
        seen = SeenCall(
            call.name or "",
            key or "",
            hint=call.hint,
            id=call.id,
            is_keyed=key is not None,
            is_blind=_is_blind(call),
            is_sure=_is_sure(call),
            run=run,
        )
        if seen.is_keyed or call.id is not None:
            self.waiting[len(self.calls)] = seen
        self.calls.append(seen)

    def rekey(self, call: Call) -> None:
        """The latest call of this id is another one now."""
        key = turn_key(call)
        for seen in reversed(self.calls):
            if seen.id == call.id:
                seen.tool, seen.args, seen.hint, seen.is_keyed = call.name or "", key or "", call.hint, key is not None
                seen.is_blind, seen.is_sure = _is_blind(call), _is_sure(call)
                return

    def close(self) -> Sequence[SeenCall]:
        """Takes out the calls to judge; what other runs wait for stays."""
        if not self.waiting:
            closed, self.calls = self.calls, []
            return closed
        staying = {place: call for place, call in self.waiting.items() if call.run != self.run}
        closed = [call for place, call in enumerate(self.calls) if place not in staying]
        self.calls = list(staying.values())
        self.waiting = dict(enumerate(self.calls))
        return closed

    def settle(self, result: Result) -> None:
        """Notes what became of a call; an answer to a copy that the provider sent is none."""
        place = None if result.duplicate else self._place(result)
        if place is None:
            return
        call = self.waiting.pop(place)
        self.run = call.run
        call.ok = result.ok
        if result.status == "done":
            outcome = result.outcome
            call.outcome = outcome.progress if isinstance(outcome, Outcomes) else outcome

    def _place(self, result: Result) -> int | None:
        """Where the call is that this result belongs to, paired as the session pairs them."""
        waiting = self.waiting.items()
        if result.id is not None:
            return next((place for place, call in waiting if call.id == result.id), None)
        name, key = result.name or "", repeat_key_of(result.key)
        return next((place for place, call in waiting if call.tool == name and call.args == key), None)

    def snapshot(self) -> dict[str, Any]:
        """The step as plain values."""
        return {"calls": msgspec.to_builtins(self.calls), "waiting": list(self.waiting), "run": self.run}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "OpenStep":
        """The step that `snapshot` gave."""
        step = cls()
        step.calls = msgspec.convert(state["calls"], list[SeenCall])
        step.waiting, step.run = {place: step.calls[place] for place in state["waiting"]}, state["run"]
        return step


def _is_blind(call: Call) -> bool:
    return call.facts is not None and call.facts.blind


def _is_sure(call: Call) -> bool:
    return call.fidelity == "full"


class ProgressGuard(Guard):
    """`Progress` in the shape of a guard: it gathers the calls of a step with their results, and judges at its end.

    With the action `warn` a halt is told as a warning; `is_halt_told`: that was said in this episode. `warnings`: those
    of the turn so far; later ones than the first two are for the model, and are nothing new to people. `progress`,
    `step` and `streak` are None until there is something to hold, so that a host without results pays nothing.
    """

    __slots__ = ("is_halt_told", "progress", "step", "streak", "warnings")

    name = "progress"
    needs = Needs(progress=True)

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self._start_turn()

    def _start_turn(self) -> None:
        self.progress: Progress | None = None
        self.step: OpenStep | None = None
        self.streak: Streak | None = None
        self.is_halt_told = False
        self.warnings = 0

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Opens the calls that run; refused ones are not part of the step."""
        if self.settings.progress == "off":
            return
        for index in admitted:
            self.step = self.step or OpenStep()
            self.step.add(batch.calls[index], batch.run_id)

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Takes a call of the step as what it is now. One that is refused stays: it may run, or its result says not.

        A call of a step that is closed was judged already.
        """
        if self.step is not None:
            self.step.rekey(change.now)

    def receive(self, event: Event) -> Sequence[Finding]:
        """Gathers the results of the step, and judges it when it closes."""
        if type(event) is ToolResults:
            self._gather(event)
        elif type(event) is StepFinished:
            return self._judge()
        elif type(event) is TurnStarted:
            self._start_turn()
        elif type(event) in (Retry, Fallback, TurnEnded):
            self.step = None
        return NO_FINDINGS

    def receive_late(self, event: ToolResults) -> None:
        """Hears results of the step at hand when another guard halted the turn, which may yet go on."""
        self._gather(event)

    def forgive(self, finding: Finding) -> None:
        """Forgets what the turn has seen, and with it the points; or the streak, where that is what was found."""
        self.warnings = 0
        if finding.reason == BLIND:
            self.streak = None
        elif self.progress is not None:
            self.progress.forgive()

    def standing(self) -> Standing:
        """Where the turn stands, for the words of a finding."""
        return (self.progress or Progress()).standing()

    def is_blind(self) -> bool:
        """Whether the host tells no outcomes, so that this guard has at most streaks to go by."""
        return self.progress is not None and self.progress.known == 0

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        return {
            "progress": None if self.progress is None else self.progress.snapshot(),
            "step": None if self.step is None else self.step.snapshot(),
            "streak": None if self.streak is None else msgspec.to_builtins(self.streak),
            "isHaltTold": self.is_halt_told,
            "warnings": self.warnings,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.progress = None if state["progress"] is None else Progress.restored(state["progress"])
        self.step = None if state["step"] is None else OpenStep.restored(state["step"])
        self.streak = msgspec.convert(state["streak"], Streak | None)
        self.is_halt_told, self.warnings = state["isHaltTold"], state["warnings"]

    def _gather(self, event: ToolResults) -> None:
        if self.step is not None:
            for result in event.results:
                self.step.settle(result)

    def _judge(self) -> Sequence[Finding]:
        step, self.step = self.step, None
        if step is None or self.settings.progress == "off":
            return NO_FINDINGS
        calls = step.close()
        self.step = step if step.calls else None
        self.progress = self.progress or Progress()
        trouble = self.progress.step(calls)
        if self.progress.warned_at is None:
            self.is_halt_told = False
        found = [each for each in (trouble, self._judge_streak(calls)) if each is not None]
        return [self._finding(each) for each in found] if found else NO_FINDINGS

    def _judge_streak(self, calls: Sequence[SeenCall]) -> Trouble | None:
        """Goes on with the streak, or ends it: what it calls for after a step."""
        for call in calls:
            if not call.is_blind or not call.is_keyed or call.outcome is not None:
                self.streak = None
                continue
            token = _token(BLIND, call.tool, call.args)
            if self.streak is None or self.streak.token != token:
                self.streak = Streak(token)
            else:
                self.streak.count += 1
        verdict = None if self.streak is None else self.streak.judge()
        if self.streak is None or verdict is None:
            return None
        return Trouble(verdict == "halt", calls[-1], BLIND, self.streak.count)

    def _finding(self, trouble: Trouble) -> Finding:
        is_halt = trouble.is_halt and self.settings.progress == "halt"
        fresh = is_halt or (not (trouble.is_halt and self.is_halt_told) and self.warnings < PROGRESS_WARNINGS_TOLD)
        self.warnings += not is_halt
        self.is_halt_told |= trouble.is_halt
        return Finding(
            guard=self.name,
            action=Action.HALT if is_halt else Action.WARN,
            loop_type=NO_NEW_EVIDENCE,
            reason=trouble.kind,
            tool=trouble.call.tool or UNSET,
            count=trouble.count,
            threshold=_threshold(trouble),
            fresh=fresh,
            key_digest=self._digest(trouble),
            setting="turnguard.progress.action",
        )

    def _digest(self, trouble: Trouble) -> str | UnsetType:
        """The identity of the call that repeats; where only an error or a tool repeats there is no such call."""
        if self.seal is None or trouble.kind not in ("call", "edit", BLIND):
            return UNSET
        return self.seal(str(counted(trouble.call.args)))


def _threshold(trouble: Trouble) -> int:
    """What the count of a finding is measured by."""
    if trouble.kind == BLIND:
        return BLIND_HALT if trouble.is_halt else BLIND_WARN
    return PROGRESS_FREE_SIGHTS
