"""One recorded turn through the daemon, under one setting."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.corpus.turns import RecordedCall, RecordedTurn
from turnguard.client import Client
from turnguard_protocol.events import Call, Event, Result, StepFinished, ToolCalls, ToolResults
from turnguard_protocol.settings import ModelSettings, ProgressSettings, Settings, TurnguardSettings
from turnguard_protocol.verdicts import Action


class Setting(NamedTuple):
    """What a run is called, and what the client sets for it. With `one_by_one` every call is a batch."""

    name: str
    settings: Settings
    one_by_one: bool = False


NO_CAP = ModelSettings(max_tool_calls_per_turn=0)
NO_PROGRESS = ProgressSettings(action="off")
ONLY_TURN_GUARD = TurnguardSettings(progress=NO_PROGRESS)

SETTINGS = (
    Setting("adaptive", Settings(turnguard=ONLY_TURN_GUARD)),
    Setting("explicit 100", Settings(ModelSettings(max_tool_calls_per_turn=100), turnguard=ONLY_TURN_GUARD)),
    Setting(
        "identical 5",
        Settings(NO_CAP, turnguard=TurnguardSettings(turn_guard="stream", progress=NO_PROGRESS)),
        one_by_one=True,
    ),
    Setting(
        "duplicate 6",
        Settings(ModelSettings(max_tool_calls_per_turn=0, skip_loop_detection=False), turnguard=ONLY_TURN_GUARD),
    ),
    Setting("progress", Settings(NO_CAP, turnguard=TurnguardSettings(progress=ProgressSettings(action="halt")))),
)


class Played(NamedTuple):
    """What became of a turn under a setting.

    `halt_at` is the number of the first call that did not run, one more than the turn has when it was halted after its
    last call; `warn_at` the number of the first call of the batch that was answered with a warning.
    """

    setting: str
    turn: RecordedTurn
    halt_at: int | None = None
    loop_type: str | None = None
    warn_at: int | None = None

    @property
    def is_halted(self) -> bool:
        """Whether the halt counts: after the last call it saves nothing, unless the turn went nowhere."""
        return self.halt_at is not None and (self.halt_at <= self.turn.calls or self.turn.group == "stuck")

    @property
    def wasted(self) -> int | None:
        """How many calls ran from the one on at which a person would have stopped the turn."""
        if self.turn.stuck_from is None:
            return None
        end = self.turn.calls + 1 if self.halt_at is None else self.halt_at
        return max(0, end - self.turn.stuck_from)


def play(client: Client, turn: RecordedTurn, setting: Setting) -> Played:
    """Plays a turn in a session of its own, up to its halt or its end."""
    client.open_session(session_id=turn.id, settings=setting.settings)
    ran, warn_at = 0, None
    try:
        for batch, events in records(turn, one_by_one=setting.one_by_one):
            verdict = client.record(turn.id, events)
            if verdict.action is Action.HALT:
                return Played(setting.name, turn, ran + 1, verdict.findings[0].loop_type, warn_at)
            if verdict.action is Action.WARN and warn_at is None:
                warn_at = ran + 1
            ran += batch
        return Played(setting.name, turn, warn_at=warn_at)
    finally:
        client.close_session(turn.id)


def records(turn: RecordedTurn, *, one_by_one: bool) -> Iterator[tuple[int, list[Event]]]:
    """What a host would record, each with how many calls it asks for: a batch, with what became of the one before."""
    before: list[Event] = []
    for step in turn.steps:
        calls = [Call(name=call.tool, key=key_of(call), hint=call.hint) for call in step]
        for batch in ([call] for call in calls) if one_by_one else [calls]:
            yield len(batch), [*before, ToolCalls(batch)]
            before = []
        before = outcomes(step)
    yield 0, before


def outcomes(step: Sequence[RecordedCall]) -> list[Event]:
    return [ToolResults([result_of(call) for call in step]), StepFinished()]


def key_of(call: RecordedCall) -> str:
    return f"{call.tool}:{call.args}"


def result_of(call: RecordedCall) -> Result:
    is_known = call.result_normalised is not None or call.status is not None
    return Result(
        name=call.tool,
        key=key_of(call),
        outcome=call.result_normalised,
        ok=None if call.status is None else call.status == "ok",
        status="done" if is_known else "unknown",
    )
