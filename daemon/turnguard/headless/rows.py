"""What `turnguard replay --json` prints: one object a turn. docs/headless.md has the fields; names are stable."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType

from turnguard.headless.replayed import Sight, Turn
from turnguard_protocol.verdicts import Action

T = TypeVar("T")


class Row(Struct, rename="camel", omit_defaults=True):
    """The base of all of them; what is not known is left out."""


class FindingRow(Row, kw_only=True):
    """What a guard would have said. `call`: the first call that this is before, from 1."""

    call: int
    action: Action
    guard: str
    loop_type: str
    reason: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    paired_tool: str | UnsetType = UNSET
    count: int
    threshold: int
    setting: str | UnsetType = UNSET


class TurnRow(Row, kw_only=True):
    """One turn. `first_line`: where it begins in its file; `began`, `ended`: times as the file writes them.

    `max_repeat_tool`, `max_repeat_hint`: the most frequent call. `halt`, `warning`: the first of `findings` that would
    have ended the turn, and the first that would have been a warning. `saved_calls`: how many calls the halt would have
    left unrun. `compared`: the findings under the other settings of `--compare`.
    """

    file: str
    format: str
    session: str | UnsetType = UNSET
    turn: int
    origin: str
    outcome: str | UnsetType = UNSET
    first_line: int | UnsetType = UNSET
    began: str | UnsetType = UNSET
    ended: str | UnsetType = UNSET
    calls: int
    steps: int
    distinct_calls: int
    max_repeat: int
    max_repeat_tool: str | UnsetType = UNSET
    max_repeat_hint: str | UnsetType = UNSET
    halt: FindingRow | None
    warning: FindingRow | None
    saved_calls: int
    findings: Sequence[FindingRow]
    compared: Sequence[FindingRow] | UnsetType = UNSET


def row_of(file: str, format_name: str, turn: Turn, other: Turn | None = None) -> TurnRow:
    """The row of a turn; `other`: the same turn under other settings."""
    repeats = turn.repeats()
    most, count = repeats[0] if repeats else (None, 0)
    return TurnRow(
        file=file.encode("utf-8", "backslashreplace").decode(),  # names may be any bytes; JSON is Unicode
        format=format_name,
        session=_known(turn.session),
        turn=turn.number,
        origin=turn.origin,
        outcome=_known(turn.outcome),
        first_line=_known(turn.place),
        began=_known(turn.began),
        ended=_known(turn.ended),
        calls=turn.calls,
        steps=turn.steps,
        distinct_calls=len(repeats),
        max_repeat=count,
        max_repeat_tool=_known(most and most.tool),
        max_repeat_hint=_known(most and most.hint),
        halt=_finding(turn.halt),
        warning=_finding(turn.warning),
        saved_calls=turn.saved,
        findings=[_row(sight) for sight in turn.sights],
        compared=UNSET if other is None else [_row(sight) for sight in other.sights],
    )


def _finding(sight: Sight | None) -> FindingRow | None:
    return None if sight is None else _row(sight)


def _row(sight: Sight) -> FindingRow:
    finding = sight.finding
    return FindingRow(
        call=sight.call,
        action=finding.action,
        guard=finding.guard,
        loop_type=finding.loop_type,
        reason=finding.reason,
        tool=finding.tool,
        paired_tool=finding.paired_tool,
        count=finding.count,
        threshold=finding.threshold,
        setting=finding.setting,
    )


def _known(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
