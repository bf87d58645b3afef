"""A turn of a transcript while it is replayed: which call is which, whose a result is, and when the guards hear of it.

It is read to its end before the guards hear of it. What a result comes to need not be known where nothing is ever
compared with it, which is so for most: the call came once, and did not fail. To find it out takes longer than all else.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from turnguard.core.guard import InvalidEventError
from turnguard.core.identify import identify
from turnguard.core.identity import repeat_key_of
from turnguard.core.masking import progress_outcome
from turnguard.core.rolling.config import limits_of
from turnguard.core.scope import of_scope
from turnguard.core.session import EventError, SessionGuard
from turnguard.headless.replayed import Identity, Mark, Sight, Turn
from turnguard.prose import without_prose
from turnguard_protocol.events import Call, CallRekeyed, Event, Outcomes, Result, ToolCalls, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Verdict

MAX_HELD_BYTES = 8 * 1024 * 1024
"""Of results of a turn, held until it is known whether they are compared with others; if there are more, all are."""

HELD_BESIDES = 1_024
"""Bytes, about, that are held for each of them besides what it says."""

UNCOMPARED = "uncompared"
"""The outcome of a result that is compared with no other."""

Item = TypeVar("Item", Call, Result, CallRekeyed)


class _Held(NamedTuple):
    """A result of which it is not known yet whether it is compared: its call's mark and key, and what it said."""

    mark: Mark
    key: str
    outcome: Outcomes
    said: bytes


class OpenTurn:
    """A turn while it goes on: which call is which, whose a result is, and what the guards have still to be told."""

    def __init__(self, turn: Turn, guard: SessionGuard, settings: SettingsInForce) -> None:
        self.turn = turn
        self._guard = guard
        # OpenClaw's identities are only told where they can matter. Its history can say nothing while it is switched
        # off, and nobody switches it on in a transcript; the guard after a compaction hears what came after one.
        self._set_needs(rolling=guard.needs.rolling and limits_of(settings).enabled is True)
        self._identities: dict[tuple[str | None, str], int] = {}
        self._times: dict[str, int] = {}
        self._outcomes: dict[tuple[int, str], int] = {}
        self._open: dict[str, tuple[Mark, Call]] = {}
        self._said: set[tuple[str, str, Action]] = set()
        self._to_tell: list[tuple[int, Sequence[Event]]] = []
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._is_holding = True

    def _set_needs(self, *, rolling: bool) -> None:
        self._needs = self._guard.needs._replace(progress=True, rolling=rolling)
        self._needs_while_held = self._needs._replace(progress=False)

    def compact(self) -> None:
        """The context was compacted."""
        self.turn.compactions.append(self.turn.calls)
        self._set_needs(rolling=self._guard.needs.rolling)

    def identified(self, event: Event, scope: str | None) -> Event | None:
        """The event without anything that may not be kept; None when it cannot be taken."""
        event = without_prose(self._of_turn(event))
        if type(event) is CallRekeyed and event.name is None and event.id in self._open:
            event = msgspec.structs.replace(event, name=self._open[event.id][1].name)
        results = event.results if type(event) is ToolResults else ()
        is_held = bool(results) and self._is_holding and all(map(self._may_be_held, results))
        try:
            identified = identify(event, self._needs_while_held if is_held else self._needs, self._call_of)
        except InvalidEventError:
            return None
        identified = of_scope(identified, scope)
        if type(identified) is ToolResults:
            for raw, result in zip(results, identified.results, strict=True):
                self._end(result, raw.output if is_held else UNSET)
        elif type(identified) is CallRekeyed:
            self._rekey(identified)
        return identified

    def _of_turn(self, event: Event) -> Event:
        """The event with ids that no other turn has: programs that number calls begin again with each prompt."""
        if type(event) is ToolCalls:
            return ToolCalls([self._with_id(call) for call in event.calls], event.run_id)
        if type(event) is ToolResults:
            return ToolResults([self._with_id(result) for result in event.results], event.run_id)
        if type(event) is CallRekeyed:
            return self._with_id(event)
        return event

    def _with_id(self, item: Item) -> Item:
        return item if item.id is None else msgspec.structs.replace(item, id=f"{self.turn.number}:{item.id}")

    def add(self, calls: Sequence[Call], marks: Sequence[Mark]) -> None:
        """The calls came."""
        self.turn.marks += marks
        for call, mark in zip(calls, marks, strict=True):
            if call.id is not None:
                if call.id in self._open:  # the guards may take its result for the other's
                    self._hold_no_more()
                self._open[call.id] = mark, call

    def tell(self, events: Sequence[Event]) -> None:
        """Tells the guards of these events, as soon as all that came before is known."""
        if self._held_bytes > MAX_HELD_BYTES:
            self._hold_no_more()
        if self._is_holding:
            self._to_tell.append((self.turn.calls, events))
        else:
            self._record(events, self.turn.calls)

    def close(self) -> None:
        """The turn is over: the guards hear of what they were not told yet."""
        self._settle(lambda held: self._times[held.key] > 1)

    def _hold_no_more(self) -> None:
        """From now on, and for all that is held, each result may be compared with any other."""
        self._is_holding = False
        self._settle(lambda _: True)

    def _settle(self, is_compared: Callable[[_Held], bool]) -> None:
        for held in self._held:
            digest = progress_outcome(Raw(held.said), UNSET) if is_compared(held) else UNCOMPARED
            held.outcome.progress = digest
            self._note_outcome(held.mark, digest)
        for calls, events in self._to_tell:
            self._record(events, calls)
        self._held, self._held_bytes, self._to_tell = [], 0, []

    def _record(self, events: Sequence[Event], calls: int) -> None:
        try:
            self._look(self._guard.record(events), calls)
        except EventError:
            for each in events:
                with suppress(EventError):
                    self._look(self._guard.record([each]), calls)

    def _look(self, verdict: Verdict, calls: int) -> None:
        """Of what a guard says again and again the first time counts. `calls`: how many the turn had made."""
        for finding in verdict.findings:
            kind = (finding.guard, finding.loop_type, finding.action)
            if finding.fresh and kind not in self._said:
                self._said.add(kind)
                self.turn.sights.append(Sight(calls + 1, finding, verdict.totals))

    def _call_of(self, result: Result) -> Call | None:
        known = None if result.id is None else self._open.get(result.id)
        return None if known is None else known[1]

    def identity(self, call: Call, scope: str | None) -> int:
        """Which of the turn's identities a call is."""
        key = _key_of(call)
        self._times[key] = self._times.get(key, 0) + 1
        if call.fidelity == "none":  # never the same as another
            key = f"{len(self.turn.identities)}"
        number = self._identities.setdefault((call.name, key), len(self.turn.identities))
        if number == len(self.turn.identities):
            self.turn.identities.append(Identity(call.name or "", call.hint, scope))
        return number

    def _rekey(self, event: CallRekeyed) -> None:
        self._hold_no_more()  # to the guards an earlier call may now be this one
        known = self._open.get(event.id)
        if known is None:
            return
        mark = known[0]
        now = Call(event.name, event.id, UNSET, event.key, event.fidelity, event.hint, event.facts)
        mark.identity = self.identity(now, self.turn.identities[mark.identity].scope)
        self._open[event.id] = mark, now

    def _may_be_held(self, result: Result) -> bool:
        """Whether a result may turn out to be compared with no other: one that did not fail, of a call that is known.

        What is no text may be nested too deep to be taken, and that is to be found out at once.
        """
        is_text = isinstance(result.output, Raw) and bytes(result.output).startswith(b'"')
        return is_text and result.error is UNSET and result.ok is not False and result.id in self._open

    def _end(self, result: Result, said: Raw | UnsetType) -> None:
        """The result came. `said`: what it says, where its outcome is not known yet."""
        known = None if result.id is None else self._open.pop(result.id, None)
        if known is None:
            return
        mark, call = known
        mark.ok = result.ok
        outcome = result.outcome
        if isinstance(said, Raw) and isinstance(outcome, Outcomes):
            held = _Held(mark, _key_of(call), outcome, bytes(said))
            self._held.append(held)
            self._held_bytes += len(held.said) + HELD_BESIDES
            return
        digest = outcome.progress if isinstance(outcome, Outcomes) else outcome
        if digest is not None:
            self._note_outcome(mark, digest)

    def _note_outcome(self, mark: Mark, digest: str) -> None:
        mark.outcome = self._outcomes.setdefault((mark.identity, digest), len(self._outcomes))


def _key_of(call: Call) -> str:
    return repeat_key_of(call.key) or ""
