"""Guard: the one shape of all guards.

A batch is first checked by every guard and then committed with what was admitted. Each guard counts where its own rule
says. No guard is sticky: the latch that keeps a halted turn halted is the session's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from turnguard_protocol.events import Call, Event, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Finding

Seal = Callable[[str], str]
"""Turns the identity of a call into a digest that may leave the process."""


class Needs(NamedTuple):
    """What of an event a guard wants to see besides the repeat key; what no guard wants is not computed.

    `facts`: of calls and results; `read`, `rolling`, `progress`: that form of outcomes (and of keys, or the hint);
    `text`: the text itself, not only its length.
    """

    facts: bool = False
    read: bool = False
    rolling: bool = False
    progress: bool = False
    text: bool = False

    @classmethod
    def of_all(cls, needs: Iterable["Needs"]) -> "Needs":
        """What any of these wants."""
        return cls(*map(any, zip(*needs, strict=True)))


NOTHING = Needs()
ALL_BUT_TEXT = Needs(facts=True, read=True, rolling=True, progress=True)


class InvalidEventError(ValueError):
    """An event cannot be taken. `path`: where, from the event; empty where no place is at fault. `message`: why."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{message} - at `{path}`" if path else message)
        self.path = path
        self.message = message


class Batch(Struct, frozen=True, gc=False):
    """The identified calls of one `toolCalls` event. `run_id` None: the host said that there is no run."""

    calls: list[Call]
    run_id: str | None


class Rekeying(Struct, frozen=True, gc=False):
    """A call whose identity became known or changed: as it was told `before`, and as it is `now`, under the same id.

    `is_in_step`: it is one of the step at hand.
    """

    before: Call
    now: Call
    is_in_step: bool


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

    needs: ClassVar[Needs] = NOTHING

    is_judge: ClassVar[bool] = False
    """Whether this guard has a say before a batch runs: it has a `check` of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.is_judge = cls.check is not Guard.check

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        self.settings = settings
        self.seal = seal

    def configure(self, settings: SettingsInForce) -> None:
        """Takes other settings from the next event on; counts stay."""
        self.settings = settings

    def validate(self, event: Event) -> None:
        """Raises InvalidEventError when the event cannot be taken; asked of all events of a record before any of them.

        Nothing changes here.
        """

    def check(self, batch: Batch) -> Ruling:
        """Judges a batch before any of it runs."""
        return PASS

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Hears which calls of the batch just checked may run, by index, in order."""

    def check_rekeyed(self, change: Rekeying) -> Sequence[Finding]:
        """Judges a call as if it had come with its new identity; a block of it comes from here."""
        return NO_FINDINGS

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Hears whether the call just checked may go on. It may have run all the same: it was admitted once."""

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
