"""The guard after a compaction: a loop that survives it would compact and go on without end.

Armed by a compaction, it watches as many outcomes as its window is wide. When all of them are one and the same (tool,
arguments, outcome), it ends the run; a single other one in between, and the window is over without a word. Calls before
the compaction, calls that were refused and calls without an outcome are not watched. Another compaction starts anew.

A call that is re-keyed before its outcome comes is watched as what it is then; later it makes no difference.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from turnguard.core.guard import NO_FINDINGS, Batch, Guard, Needs, Rekeying, Seal
from turnguard.core.rolling.calls import AwaitedCalls, args_of, args_of_call, outcome_of
from turnguard.core.rolling.config import SECTION, limits_of
from turnguard.core.rolling.identity import rolling_tool_name
from turnguard.core.turn.counter import CountedKey, read_key, write_key
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Fallback,
    Retry,
    StepFinished,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

COMPACTION_LOOP_PERSISTED = "compaction_loop_persisted"

Triple = tuple[str, CountedKey, CountedKey]
"""A tool, the hash of its arguments and the hash of what came of it."""


class PostCompactionGuard(Guard):
    """Takes its settings when a turn starts. `window`: outcomes that are watched; 0: loop detection is switched off.

    `remaining`: outcomes still to be watched; 0: not armed. `first`: the first one watched, `equal`: how many are equal
    to it, itself included. `admitted`: calls since the compaction whose outcomes are to come, `unkeyed` the same of
    those that have no identity yet.
    """

    __slots__ = ("admitted", "equal", "first", "remaining", "unkeyed", "window")

    name = "postCompaction"
    needs = Needs(rolling=True)

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self.admitted = AwaitedCalls()
        self.unkeyed = AwaitedCalls()
        self.start_run()

    def start_run(self) -> None:
        """A new run: not armed, under the settings that hold now."""
        limits = limits_of(self.settings)
        self.window = 0 if limits.enabled is False else limits.post_compaction_window_size
        self.arm(0)

    def arm(self, outcomes: int) -> None:
        """Watches the next so many outcomes."""
        self.remaining = outcomes
        self.first: Triple | None = None
        self.equal = 0
        self._await_nothing()

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Notes whose outcomes to watch."""
        if self.remaining:
            for index in admitted:
                self._awaited(batch.calls[index]).add(batch.calls[index])

    def commit_rekeyed(self, change: Rekeying, *, is_admitted: bool) -> None:
        """Watches the call as what it is now; if it was refused and runs all the same, its outcome is one too."""
        if self._awaited(change.before).drop(change.before):
            self._awaited(change.now).add(change.now)

    def receive(self, event: Event) -> Sequence[Finding]:
        """Watches outcomes, and follows the run."""
        if type(event) is ToolResults:
            return self._watch(event)
        if type(event) is Compacted:
            self.arm(self.window)
        elif type(event) is TurnStarted:
            self.start_run()
        elif type(event) is StepFinished or type(event) is Retry or type(event) is Fallback:
            self._await_nothing()
        return NO_FINDINGS

    def observe(self, tool: str, args: CountedKey, outcome: CountedKey) -> Finding | None:
        """Watches one outcome of an admitted call; the finding that ends the run when the loop went on."""
        if not self.remaining:
            return None
        triple = tool, args, outcome
        self.remaining -= 1
        self.first = self.first or triple
        self.equal += triple == self.first
        if self.equal < self.window:
            return None
        return Finding(
            guard=self.name,
            action=Action.HALT,
            loop_type=COMPACTION_LOOP_PERSISTED,
            tool=tool,
            count=self.equal,
            threshold=self.window,
            key_digest=UNSET if self.seal is None else self.seal(str(args)),
            setting=f"{SECTION}.postCompactionGuard.windowSize",
        )

    def forgive(self, finding: Finding) -> None:
        """Watches no more, until the next compaction."""
        self.arm(0)

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        first = self.first
        return {
            "window": self.window,
            "remaining": self.remaining,
            "first": None if first is None else [first[0], write_key(first[1]), write_key(first[2])],
            "equal": self.equal,
            "admitted": self.admitted.written(),
            "unkeyed": self.unkeyed.written(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.window, self.remaining, self.equal = state["window"], state["remaining"], state["equal"]
        self.admitted = AwaitedCalls.read(state["admitted"])
        self.unkeyed = AwaitedCalls.read(state["unkeyed"])
        self.first = None
        if state["first"] is not None:
            tool, *keys = state["first"]
            args, outcome = map(read_key, keys)
            if args is not None and outcome is not None:
                self.first = tool, args, outcome

    def _awaited(self, call: Call) -> AwaitedCalls:
        """Where a call stands until its outcome comes."""
        return self.unkeyed if args_of_call(call) is None else self.admitted

    def _await_nothing(self) -> None:
        self.admitted.clear()
        self.unkeyed.clear()

    def _watch(self, event: ToolResults) -> Sequence[Finding]:
        if not self.remaining:
            return NO_FINDINGS
        findings: list[Finding] = []
        for result in event.results:
            args, outcome = args_of(result.key), outcome_of(result)
            if not self.remaining or not self.admitted.take(result) or args is None or outcome is None:
                continue
            finding = self.observe(rolling_tool_name(result.name or ""), args, outcome)
            findings += [finding] if finding else []
        return findings
