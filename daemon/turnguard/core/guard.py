"""Guard: the one shape of all guards.

A batch is first checked by every guard and then committed with what was admitted. Each guard counts where its own rule
says. No guard is sticky: the latch that keeps a halted turn halted is the session's.
"""

from collections.abc import Callable, Sequence
from enum import Flag, auto
from typing import Any, ClassVar

from msgspec import Struct

from turnguard_protocol.events import Call, Event, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Finding

Seal = Callable[[str], str]
"""Turns the identity of a call into a digest that may leave the process."""


class Needs(Flag):
    """What of an event a guard wants to see besides the repeat key; what no guard wants is not computed."""

    NOTHING = 0
    FACTS = auto()
    """`Call.facts` and `Result.facts`."""
    READ = auto()
    """`Outcomes.read`."""
    TEXT = auto()
    """The text itself, not only its length."""


class Batch(Struct, frozen=True, gc=False):
    """The identified calls of one `toolCalls` event. `run_id` None: the host said that there is no run."""

    calls: list[Call]
    run_id: str | None


class Ruling(Struct, frozen=True, gc=False):
    """What a guard says of a batch: its findings, and the indexes of the calls it does not let run.

    A call may be refused without a finding: a copy that the provider sent twice is nothing to tell anybody.
    """

    findings: Sequence[Finding] = ()
    refused: frozenset[int] = frozenset()


PASS = Ruling()
"""Nothing to say."""

NO_FINDINGS: Sequence[Finding] = ()


class Guard:
    """A state machine over identified events. Subclasses say which events they care about."""

    __slots__ = ("seal", "settings")

    name: ClassVar[str]
    """What findings call this guard."""

    needs: ClassVar[Needs] = Needs.NOTHING

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        self.settings = settings
        self.seal = seal

    def configure(self, settings: SettingsInForce) -> None:
        """Takes other settings from the next event on; counts stay."""
        self.settings = settings

    def check(self, batch: Batch) -> Ruling:
        """Judges a batch before any of it runs."""
        return PASS

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Hears which calls of the batch just checked may run, by index, in order."""

    def receive(self, event: Event) -> Sequence[Finding]:
        """Hears every event that is not a batch. Results carry the name and key of the call they belong to."""
        return NO_FINDINGS

    def receive_late(self, event: ToolResults) -> None:
        """Hears results that came after the turn was halted or ended: they only complete the history."""

    def forgive(self, finding: Finding) -> None:
        """Clears the counter behind a finding of this guard, and only that, so that the turn can go on."""

    def snapshot(self) -> Any:
        """The whole state as plain JSON-like values."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Takes a state that `snapshot` gave."""
        raise NotImplementedError
