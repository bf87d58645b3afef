"""A transcript through the guards: for each turn, what every guard would have said, and at which call.

The guards only watch (`turnguard.shadow`): all calls of a transcript did run, and after what one guard would have
stopped the others go on, so each is asked for itself. The call of a finding is the first that would not have run, or
that would have been answered with the warning; a halt after the last call of a turn has the next number.
"""

from collections.abc import Iterable, Iterator

import msgspec

from turnguard.core.session import SessionGuard
from turnguard.headless.batches import Batch, batches
from turnguard.headless.open_turn import OpenTurn
from turnguard.headless.replayed import Mark, Turn
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Compacted,
    Event,
    StepFinished,
    ToolCalls,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce


def replay(told: Iterable[Told], settings: SettingsInForce) -> Iterator[Turn]:
    """The turns of one transcript, each when it is over. Events that the guards cannot take are left out."""
    watching = msgspec.structs.replace(settings, shadow=True)
    sessions: dict[str | None, _Session] = {}
    for batch in batches(told):
        name = batch.told.session
        session = sessions.get(name)
        if session is None:
            session = sessions[name] = _Session(name, watching)
        turn = session.hear(batch)
        if turn is not None:
            yield turn
    for session in sessions.values():
        turn = session.end()
        if turn is not None:
            yield turn


class _Session:
    """One conversation: its guards, and the turn at hand."""

    def __init__(self, name: str | None, settings: SettingsInForce) -> None:
        self._name = name
        self._guard = SessionGuard(name or "", settings)
        self._settings = settings
        self._turn: OpenTurn | None = None
        self._turns = 0
        self._held: list[Event] = []
        """What is told with the next calls: a finding of it is before the same call."""

    def hear(self, batch: Batch) -> Turn | None:
        """Takes an event. The turn that it ends, if it does."""
        told, event = batch.told, batch.told.event
        if type(event) is TurnStarted:
            over = self.end()
            self._begin(told, event)
            return over
        if type(event) is TurnEnded:
            return self.end(event.outcome, told.at)
        turn = self._turn or self._begin(told, TurnStarted())
        turn.turn.ended = told.at or turn.turn.ended
        if type(event) is ToolCalls:
            self._tell_calls(turn, event, batch)
        elif type(event) is StepFinished:
            self._held.append(event)
        elif type(event) is Compacted:
            turn.compact()
            self._held.append(event)
        else:
            identified = turn.identified(event, told.scope)
            if identified is not None:
                self._held.append(identified)
        return None

    def end(self, outcome: TurnOutcome | None = None, at: str | None = None) -> Turn | None:
        """The turn at hand, which is over. What its last step shows is found, too."""
        turn, self._turn = self._turn, None
        if turn is None:
            return None
        self._tell(turn, StepFinished())
        turn.close()
        turn.turn.outcome, turn.turn.ended = outcome, at or turn.turn.ended
        turn.turn.steps = self._guard.record([TurnEnded(outcome or "completed")]).totals.steps
        return turn.turn

    def _begin(self, told: Told, event: TurnStarted) -> OpenTurn:
        self._turns += 1
        self._guard.record([event])
        turn = Turn(self._name, self._turns, event.origin, place=told.place, began=told.at, ended=told.at)
        self._turn = OpenTurn(turn, self._guard, self._settings)
        return self._turn

    def _tell_calls(self, turn: OpenTurn, event: ToolCalls, batch: Batch) -> None:
        identified = turn.identified(event, batch.told.scope)
        if not isinstance(identified, ToolCalls):
            return
        marks = [
            Mark(turn.identity(call, batch.told.scope), place, batch.told.at)
            for call, place in zip(identified.calls, batch.places, strict=True)
        ]
        is_one_by_one = self._settings.turn_guard == "stream"
        parts = [slice(at, at + 1) for at in range(len(marks))] if is_one_by_one else [slice(None)]
        for part in parts:
            self._tell(turn, ToolCalls(identified.calls[part], identified.run_id))
            turn.add(identified.calls[part], marks[part])

    def _tell(self, turn: OpenTurn, event: Event) -> None:
        turn.tell([*self._held, event])
        self._held = []
