"""The repeated-failure guard of Qwen Code's daemon: one tool that goes on failing for the same reason.

It looks at each batch once all its results are there. What it tracks is a key, (tool, error type):

    phase     a batch whose failures have one key                                   decision
    idle      any key: track it                                                     tracked
    tracking  another key: track that one instead                                   tracked
              the same key: add; at 8 failures over 2 batches, warned               tracked, then warn or would_warn
    warned    another key: track that one instead                                   tracked
              the same key: latched                                                 stop or would_stop
    latched   nothing more in this turn                                             none

Everything else a batch can be resets to idle, by the first reason of `RESET_REASONS` that holds; or it says nothing:
failures of a tool that also succeeded in the batch do not count, and a batch of other tools' successes changes nothing.

A result counts for the tool that its call was known to be of when it came: re-keying a call later changes nothing here.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from msgspec import UNSET, Struct, UnsetType

from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.guard import NO_FINDINGS, Batch, Guard, Seal
from turnguard.core.javascript import trim
from turnguard.core.thresholds import REPEATED_FAILURE_MIN_BATCHES, REPEATED_FAILURE_MIN_FAILURES
from turnguard_protocol.events import Event, Fallback, Result, Retry, StepFinished, ToolResults, TurnStarted, UserInput
from turnguard_protocol.settings import RepeatedFailuresMode, SettingsInForce
from turnguard_protocol.verdicts import Action, Finding

REPEATED_TOOL_EXECUTION_FAILURE = "repeated_tool_execution_failure"

Phase = Literal["idle", "tracking", "warned", "latched"]
Kind = Literal["none", "tracked", "warn", "would_warn", "stop", "would_stop", "reset"]
FailureKey = tuple[str, str]
"""A tool and the type of the error its execution ended with."""

RESET_REASONS = (
    "unreliable_input",
    "external_input",
    "queued_prompt",
    "incomplete",
    "contract_violation",
    "cancelled",
    "unknown",
    "not_started",
    "post_execution_failure",
)
"""Why a batch says nothing about the tracked key, in the order in which one is named."""

UNREAD = frozenset({"external_input", "queued_prompt", "incomplete"})
"""Reasons for which the observations of the batch are not looked at."""

DISTRUSTED = frozenset({"unreliable_input", "contract_violation", "unknown"})
"""What disables enforcement for the rest of the turn, also where another reason of a batch that is read is named."""

ACTIONS: dict[Kind, Action] = {
    "warn": Action.WARN,
    "would_warn": Action.ALLOW,
    "stop": Action.HALT,
    "would_stop": Action.ALLOW,
}
"""The decisions that are findings."""

OFF_ORIGINS = frozenset({"channel", "cron", "notification", "hook"})
"""Turns that nobody watches: upstream runs the guard for foreground prompts only."""

NOT_STARTED_ERROR_TYPES = frozenset({"denied", "invalid_params", "unknown_tool"})
"""Errors of calls that never came to be executed."""


def parse_mode(value: str | None) -> RepeatedFailuresMode | None:
    """The mode that a text names, in any case and with blanks around it; None when it names none."""
    word = trim(value or "").lower()
    return next((mode for mode in get_args(RepeatedFailuresMode) if mode == word), None)


class Observation(Struct, frozen=True, gc=False):
    """What became of one call: how it ended for the model, and how its execution did.

    `terminal`: success, error, cancelled or unknown. `execution`: the same, or not_started, or None: not known.
    """

    tool: str | None
    terminal: str
    execution: str | None = None
    error_type: str | None = None

    def classify(self) -> str:
        """`failure`, `success`, or the reset reason that this is."""
        match self.terminal, self.execution:
            case "cancelled", _:
                return "cancelled"
            case "success", "success" | "not_started":
                return "success" if self.tool else "unknown"
            case "success", "error" | "cancelled":
                return "contract_violation"
            case "error", "error":
                is_known = self.tool and self.error_type and self.error_type != "unknown"
                return "failure" if is_known else "unknown"
            case "error", "success":
                return "post_execution_failure"
            case "error", "cancelled" | "not_started" as execution:
                return execution
            case _:
                return "unknown"


class ObservedBatch:
    """What is known of a batch, gathered as it comes in: failures by key, tools that succeeded, reasons to reset.

    Copies that the provider sent twice are no observations; leave them out.
    """

    __slots__ = ("failures", "reset_reasons", "succeeded")

    def __init__(self) -> None:
        self.failures: dict[FailureKey, int] = {}
        self.succeeded: set[str] = set()
        self.reset_reasons: set[str] = set()

    def add(self, observation: Observation, times: int = 1) -> None:
        """Gathers one observation, or several equal ones. A batch of too many tools stays incomplete."""
        kind, tool = observation.classify(), observation.tool or ""
        if len(self.failures) + len(self.succeeded) >= MAX_OPEN_CALLS:
            self.reset_reasons.add("incomplete")
        elif kind == "success":
            self.succeeded.add(tool)
        elif kind == "failure":
            key = tool, observation.error_type or ""
            self.failures[key] = self.failures.get(key, 0) + times
        else:
            self.reset_reasons.add(kind)

    def reset_reason(self) -> str | None:
        """The reason that is named, None when there is none to reset."""
        return next((reason for reason in RESET_REASONS if reason in self.reset_reasons), None)

    def is_distrusted(self) -> bool:
        """Whether the host contradicts itself here or does not know, so that no turn should be stopped by its word."""
        return not self.reset_reasons.isdisjoint(DISTRUSTED) and self.reset_reason() not in UNREAD

    def standing_failures(self) -> list[tuple[FailureKey, int]]:
        """The failures of tools that did not also succeed."""
        return [(key, times) for key, times in self.failures.items() if key[0] not in self.succeeded]

    def snapshot(self) -> list[Any]:
        """The batch as plain values."""
        failures = [[*key, times] for key, times in self.failures.items()]
        return [failures, sorted(self.succeeded), sorted(self.reset_reasons)]

    @classmethod
    def restored(cls, state: list[Any]) -> "ObservedBatch":
        """The batch that `snapshot` gave."""
        batch = cls()
        failures, succeeded, reset_reasons = state
        batch.failures = {(tool, error_type): times for tool, error_type, times in failures}
        batch.succeeded, batch.reset_reasons = set(succeeded), set(reset_reasons)
        return batch


class Decision(Struct, frozen=True, gc=False):
    """What a batch led to, and where the guard stands after it.

    `candidate`: the ordinal of the tracked key in this turn, a key that comes back counted anew; 0 when idle.
    """

    decision: Kind
    phase: Phase
    failures: int
    batches: int
    candidate: int
    enforcement_disabled: bool
    reason: str | UnsetType = UNSET


class RepeatedFailures:
    """The state machine at the head of this module, over one turn."""

    __slots__ = ("batches", "candidates", "enforcement_disabled", "failures", "key", "phase")

    def __init__(self) -> None:
        self.candidates = 0
        self.enforcement_disabled = False
        self.forget()

    def forget(self) -> None:
        """Tracks nothing; what this turn has seen otherwise stays."""
        self.phase: Phase = "idle"
        self.key: FailureKey | None = None
        self.failures = self.batches = 0

    def observe(self, batch: ObservedBatch, mode: RepeatedFailuresMode) -> Decision:
        """Judges one batch, all of whose results are there or never will be."""
        if mode == "off" or self.phase == "latched":
            return self._decide("none")
        reason = batch.reset_reason()
        newly_disabled = not self.enforcement_disabled and batch.is_distrusted()
        self.enforcement_disabled |= newly_disabled
        if reason is not None:
            return self._reset(reason, is_news=newly_disabled)
        failures = batch.standing_failures()
        if not failures:
            is_tracked = self.key is not None and self.key[0] in batch.succeeded
            return self._reset("success") if is_tracked else self._decide("none")
        if len(failures) > 1:
            return self._reset("mixed")
        return self._decide(self._count(*failures[0], mode))

    def _count(self, key: FailureKey, failures: int, mode: RepeatedFailuresMode) -> Kind:
        if key != self.key:
            self.candidates += 1
            self.phase, self.key, self.failures, self.batches = "tracking", key, failures, 1
            return "tracked"
        self.failures += failures
        self.batches += 1
        if self.phase == "warned":
            self.phase = "latched"
            return "stop" if mode == "enforce" and not self.enforcement_disabled else "would_stop"
        if self.failures < REPEATED_FAILURE_MIN_FAILURES or self.batches < REPEATED_FAILURE_MIN_BATCHES:
            return "tracked"
        self.phase = "warned"
        return "would_warn" if mode == "shadow" else "warn"

    def _reset(self, reason: str, *, is_news: bool = False) -> Decision:
        """Tracks nothing any more; where nothing was tracked, that is only told when it is news."""
        if self.phase == "idle" and not is_news:
            return self._decide("none")
        self.forget()
        return self._decide("reset", reason)

    def _decide(self, decision: Kind, reason: str | UnsetType = UNSET) -> Decision:
        candidate = 0 if self.phase == "idle" else self.candidates
        return Decision(decision, self.phase, self.failures, self.batches, candidate, self.enforcement_disabled, reason)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "phase": self.phase,
            "key": None if self.key is None else list(self.key),
            "failures": self.failures,
            "batches": self.batches,
            "candidates": self.candidates,
            "enforcementDisabled": self.enforcement_disabled,
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "RepeatedFailures":
        """The state that `snapshot` gave."""
        machine = cls()
        machine.phase, machine.failures, machine.batches = state["phase"], state["failures"], state["batches"]
        machine.key = None if state["key"] is None else (state["key"][0], state["key"][1])
        machine.candidates, machine.enforcement_disabled = state["candidates"], state["enforcementDisabled"]
        return machine


def observation_of(result: Result) -> Observation:
    """What a result says of its call.

    A named error type means that the call failed; where the host says neither that nor `ok`, the outcome is unknown.
    """
    tool, error_type = result.name, result.error_type
    has_failed = result.ok is False or (result.ok is None and error_type is not None)
    if result.status == "cancelled" or (has_failed and error_type == "cancelled"):
        return Observation(tool, "cancelled")
    if result.status == "notStarted" or (has_failed and error_type in NOT_STARTED_ERROR_TYPES):
        return Observation(tool, "success" if result.ok else "error", "not_started")
    if result.status == "unknown" or not (result.ok or has_failed):
        return Observation(tool, "unknown")
    terminal = "error" if has_failed else "success"
    return Observation(tool, terminal, terminal, error_type)


class RepeatedFailureGuard(Guard):
    """`RepeatedFailures` in the shape of a guard: a step is a batch, and it is judged when the step finishes.

    `open_calls` were admitted in this step and have no result yet, `refused_calls` were refused and may still be
    answered; an answer to one of those says nothing of the tool. Tools that do not fail cost no memory between steps.
    """

    __slots__ = ("batch", "is_off", "machine", "open_calls", "refused_calls", "user_input")

    name = "repeatedFailures"

    def __init__(self, settings: SettingsInForce, seal: Seal | None = None) -> None:
        super().__init__(settings, seal)
        self._start_turn("user")

    def _start_turn(self, origin: str) -> None:
        self.is_off = origin in OFF_ORIGINS
        self.machine: RepeatedFailures | None = None
        self.user_input: str | None = None
        self._start_step()

    def _start_step(self) -> None:
        self.batch: ObservedBatch | None = None
        self.open_calls = self.refused_calls = 0

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Notes of how many calls a result is expected."""
        self.open_calls += len(admitted)
        self.refused_calls += len(batch.calls) - len(admitted)

    def receive(self, event: Event) -> Sequence[Finding]:
        """Gathers the results of the step, and judges them at its end."""
        if type(event) is TurnStarted:
            self._start_turn(event.origin)
        elif self.is_off:
            return NO_FINDINGS
        elif type(event) is ToolResults:
            for result in event.results:
                self._gather(result)
        elif type(event) is StepFinished:
            return self._judge()
        elif type(event) is UserInput:
            is_queued = event.queued and self.user_input != "external_input"
            self.user_input = "queued_prompt" if is_queued else "external_input"
        elif type(event) is Retry or type(event) is Fallback:
            self._start_step()
        return NO_FINDINGS

    def forgive(self, finding: Finding) -> None:
        """Forgets the failures that led to the halt."""
        if self.machine is not None:
            self.machine.forget()

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain JSON-like values."""
        return {
            "isOff": self.is_off,
            "machine": None if self.machine is None else self.machine.snapshot(),
            "userInput": self.user_input,
            "batch": None if self.batch is None else self.batch.snapshot(),
            "openCalls": self.open_calls,
            "refusedCalls": self.refused_calls,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.is_off, self.user_input = state["isOff"], state["userInput"]
        self.machine = None if state["machine"] is None else RepeatedFailures.restored(state["machine"])
        self.batch = None if state["batch"] is None else ObservedBatch.restored(state["batch"])
        self.open_calls, self.refused_calls = state["openCalls"], state["refusedCalls"]

    def _gather(self, result: Result) -> None:
        if self.refused_calls and (result.duplicate or result.status == "notStarted"):
            self.refused_calls -= 1
            return
        self.open_calls = max(self.open_calls - 1, 0)
        if not result.duplicate:
            batch = self.batch = self.batch or ObservedBatch()
            batch.add(observation_of(result))

    def _judge(self) -> Sequence[Finding]:
        batch = self.batch or ObservedBatch()
        if self.user_input is not None:
            batch.reset_reasons.add(self.user_input)
        if self.open_calls:
            batch.reset_reasons.add("incomplete")
        self.user_input = None
        self._start_step()
        if self.machine is None:
            if not batch.failures and not batch.is_distrusted():
                return NO_FINDINGS
            self.machine = RepeatedFailures()
        decision = self.machine.observe(batch, self.settings.repeated_failures)
        action, key = ACTIONS.get(decision.decision), self.machine.key
        if action is None or key is None:
            return NO_FINDINGS
        return [
            Finding(
                guard=self.name,
                action=action,
                loop_type=REPEATED_TOOL_EXECUTION_FAILURE,
                reason=decision.decision,
                tool=key[0],
                count=decision.failures,
                threshold=REPEATED_FAILURE_MIN_FAILURES,
                setting="turnguard.repeatedFailures",
            )
        ]
