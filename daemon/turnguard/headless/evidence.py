"""The evidence of a turn: which calls repeated, how often, with which results, and where."""

from collections import Counter
from typing import NamedTuple

from turnguard.headless.replayed import Identity, Mark, Turn


class Repeated(NamedTuple):
    """A call that was made more than once. Calls are numbered from 1; `same`: how many gave the most frequent result.

    `unknown`: how many have no result that is known, `failed`: how many are known to have failed.
    """

    identity: Identity
    times: int
    same: int
    unknown: int
    failed: int
    first_call: int
    last_call: int
    first_place: int | None
    last_place: int | None

    @property
    def results_in_words(self) -> str:
        """What its results were."""
        known = self.times - self.unknown
        if not known:
            return "its results are not in the file"
        if self.same == 1:
            said = "each time another result" if known > 1 else "one result is known"
        elif self.same == known:
            said = "each time the same result" if not self.unknown else f"{self.same} times the same result"
        else:
            said = f"{self.same} times the same result, {known - self.same} times another"
        unknown = f", {self.unknown} not known" if self.unknown else ""
        failed = f"; {self.failed} failed" if self.failed else ""
        return f"{said}{unknown}{failed}"

    @property
    def places_in_words(self) -> str:
        """Where the first and the last of them are in the file; empty where that is not known."""
        return "" if self.first_place is None else f", lines {self.first_place} to {self.last_place}"


def repeated(turn: Turn) -> list[Repeated]:
    """The calls of a turn that were made more than once, the most frequent first."""
    by_identity: dict[int, list[tuple[int, Mark]]] = {}
    for number, mark in enumerate(turn.marks, 1):
        by_identity.setdefault(mark.identity, []).append((number, mark))
    found = [_repeated(turn.identities[each], marks) for each, marks in by_identity.items() if len(marks) > 1]
    return sorted(found, key=lambda each: -each.times)


def _repeated(identity: Identity, marks: list[tuple[int, Mark]]) -> Repeated:
    outcomes = Counter(mark.outcome for _, mark in marks if mark.outcome is not None)
    return Repeated(
        identity=identity,
        times=len(marks),
        same=max(outcomes.values(), default=0),
        unknown=len(marks) - outcomes.total(),
        failed=sum(mark.ok is False for _, mark in marks),
        first_call=marks[0][0],
        last_call=marks[-1][0],
        first_place=marks[0][1].place,
        last_place=marks[-1][1].place,
    )
