"""Transcripts made by hand: what a reader would tell."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Raw

from turnguard.headless.replay import replay
from turnguard.headless.replayed import Turn
from turnguard.settings.guarded import in_force_of
from turnguard.settings.sources import Sources
from turnguard.transcript import Told
from turnguard_protocol.events import Call, Result, ToolCalls, ToolResults, TurnStarted
from turnguard_protocol.settings import SettingsInForce


def told(turns: Iterable[Sequence[Told]]) -> Iterator[Told]:
    for place, turn in enumerate(turns, 1):
        yield Told(TurnStarted(), place=1_000 * place, at=f"2026-01-01T00:{place:02}:00Z")
        yield from turn


def step(
    number: int,
    *commands: str,
    output: str | None = "done",
    ok: bool | None = True,
    scope: str | None = None,
    tool: str = "Bash",
) -> list[Told]:
    """A message that asks for commands, all with one output; None: nothing is known of them."""
    name = f"{scope or ''}m{number}"
    at = f"2026-01-01T00:00:{number:02}Z"
    calls = [
        Call(tool, f"{name}c{index}", Raw(f'{{"command":"{command}"}}'.encode()))
        for index, command in enumerate(commands)
    ]
    lines = [Told(ToolCalls([call]), scope, name, place=number, at=at) for call in calls]
    if output is None:
        return lines
    results = [Result(call.id, output=Raw(f'"{output}"'.encode()), ok=ok) for call in calls]
    return [*lines, *(Told(ToolResults([result]), scope, place=number, at=at) for result in results)]


def steps(*of: list[Told]) -> list[Told]:
    return [each for one in of for each in one]


def settings(*assignments: str) -> SettingsInForce:
    sources = Sources("replay", environ={}, assignments=assignments)
    found = sources.found(None)
    return in_force_of(sources.merged(found), found).own


def replayed(*turns: Sequence[Told], sets: Sequence[str] = ()) -> list[Turn]:
    return list(replay(told(turns), settings(*sets)))
