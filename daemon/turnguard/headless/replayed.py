"""A turn of a transcript as it was replayed: its calls, what each came to, and what the guards would have said."""

from collections import Counter

from msgspec import Struct

from turnguard.core.messages import MAX_NAME_LENGTH
from turnguard_protocol.events import TurnOutcome
from turnguard_protocol.verdicts import Action, Finding, Totals


class Sight(Struct, frozen=True):
    """The first finding of its guard, kind and action in a turn.

    `call`: the number of the first call that it was before. `totals`: what the turn had come to.
    """

    call: int
    finding: Finding
    totals: Totals


class Identity(Struct, frozen=True, gc=False):
    """What a call was, as far as it may be shown: its tool, and of a shell call program and sub-command."""

    tool: str
    hint: str | None = None
    scope: str | None = None

    @property
    def shown(self) -> str:
        """In words, a long name cut as messages cut it."""
        tool = self.tool if len(self.tool) <= MAX_NAME_LENGTH else f"{self.tool[: MAX_NAME_LENGTH - 1]}…"
        return f"{tool or 'a tool without a name'}{f' ({self.hint})' if self.hint else ''}"


class Mark(Struct, gc=False):
    """One call of a turn. `identity`: which of the turn's identities; `outcome`: equal numbers are equal results of
    that identity, None: unknown. `place`, `at`: where it is in the file, and when its message came.
    """

    identity: int
    place: int | None = None
    at: str | None = None
    outcome: int | None = None
    ok: bool | None = None


class Turn(Struct):
    """One turn of a transcript, and what was found in it. `began`, `ended`: when its first and its last event came."""

    session: str | None
    number: int
    origin: str = "user"
    outcome: TurnOutcome | None = None
    place: int | None = None
    began: str | None = None
    ended: str | None = None
    steps: int = 0
    marks: list[Mark] = []
    identities: list[Identity] = []
    compactions: list[int] = []
    sights: list[Sight] = []

    @property
    def calls(self) -> int:
        """How many calls it made."""
        return len(self.marks)

    @property
    def saved(self) -> int:
        """How many calls its halt would have left unrun."""
        return 0 if self.halt is None else self.calls - self.halt.call + 1

    def repeats(self) -> list[tuple[Identity, int]]:
        """Every call that it made and how often, the most frequent first."""
        counts = Counter(mark.identity for mark in self.marks)
        return [(self.identities[number], count) for number, count in counts.most_common()]

    def first(self, action: Action) -> Sight | None:
        """The earliest finding of this action; of several at one call the first that was said."""
        sights = [sight for sight in self.sights if sight.finding.action is action]
        return min(sights, key=lambda sight: sight.call, default=None)

    @property
    def halt(self) -> Sight | None:
        """What would have stopped it first."""
        return self.first(Action.HALT)

    @property
    def warning(self) -> Sight | None:
        """What would have warned first."""
        return self.first(Action.WARN)
