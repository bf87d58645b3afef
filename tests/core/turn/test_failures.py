"""The repeated-failure guard: every row of its table, what a session tells of it, and rules that always hold."""

from itertools import count, pairwise
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.build import in_force, session
from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.guard import Batch
from turnguard.core.session import SessionGuard
from turnguard.core.thresholds import REPEATED_FAILURE_MIN_BATCHES, REPEATED_FAILURE_MIN_FAILURES
from turnguard.core.turn.failures import (
    RESET_REASONS,
    Decision,
    Observation,
    ObservedBatch,
    RepeatedFailureGuard,
    RepeatedFailures,
    observation_of,
    parse_mode,
)
from turnguard_protocol.events import (
    Call,
    Event,
    Fallback,
    Result,
    ResultState,
    Retry,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.settings import RepeatedFailuresMode
from turnguard_protocol.verdicts import Action, Finding

MODES: tuple[RepeatedFailuresMode, ...] = get_args(RepeatedFailuresMode)
WATCHING = [mode for mode in MODES if mode != "off"]


def failed(tool: str | None = "a", error_type: str | None = "x") -> Observation:
    return Observation(tool, "error", "error", error_type)


def succeeded(tool: str | None = "a") -> Observation:
    return Observation(tool, "success", "success")


def batch(*observations: Observation, reasons: tuple[str, ...] = ()) -> ObservedBatch:
    observed = ObservedBatch()
    for observation in observations:
        observed.add(observation)
    observed.reset_reasons.update(reasons)
    return observed


def tracking(failures: int = 7) -> RepeatedFailures:
    machine = RepeatedFailures()
    assert machine.observe(batch(*[failed()] * failures), "enforce").decision == "tracked"
    return machine


def warned() -> RepeatedFailures:
    machine = tracking()
    assert machine.observe(batch(failed()), "enforce").decision == "warn"
    return machine


def said(decision: Decision) -> tuple[str, Any, str, int, int, int]:
    reason = decision.reason if isinstance(decision.reason, str) else None
    return decision.decision, reason, decision.phase, decision.failures, decision.batches, decision.candidate


# --- the table ---


def test_idle_tracks_the_first_key() -> None:
    assert said(RepeatedFailures().observe(batch(failed(), failed()), "enforce")) == (
        "tracked",
        None,
        "tracking",
        2,
        1,
        1,
    )


def test_tracking_adds_the_same_key() -> None:
    assert said(tracking(3).observe(batch(failed(), failed()), "enforce")) == ("tracked", None, "tracking", 5, 2, 1)


@pytest.mark.parametrize("other", [failed("b"), failed("a", "y")])
def test_another_key_is_tracked_instead(other: Observation) -> None:
    for machine in (tracking(), warned()):
        assert said(machine.observe(batch(other, other), "enforce")) == ("tracked", None, "tracking", 2, 1, 2)


def test_a_key_that_comes_back_counts_anew() -> None:
    machine = tracking()
    machine.observe(batch(failed("b")), "enforce")
    assert said(machine.observe(batch(failed()), "enforce")) == ("tracked", None, "tracking", 1, 1, 3)


@pytest.mark.parametrize(("mode", "decision"), [("shadow", "would_warn"), ("warn", "warn"), ("enforce", "warn")])
def test_enough_failures_over_enough_batches_warn(mode: RepeatedFailuresMode, decision: str) -> None:
    machine = tracking(REPEATED_FAILURE_MIN_FAILURES - 2)
    assert machine.observe(batch(failed()), mode).decision == "tracked"
    assert said(machine.observe(batch(failed()), mode)) == (decision, None, "warned", 8, 3, 1)


def test_enough_failures_in_one_batch_only_track() -> None:
    assert REPEATED_FAILURE_MIN_BATCHES == 2
    machine = tracking(REPEATED_FAILURE_MIN_FAILURES)
    assert said(machine.observe(batch(failed()), "enforce")) == ("warn", None, "warned", 9, 2, 1)


@pytest.mark.parametrize(("mode", "decision"), [("shadow", "would_stop"), ("warn", "would_stop"), ("enforce", "stop")])
def test_the_next_failing_batch_after_the_warning_latches(mode: RepeatedFailuresMode, decision: str) -> None:
    assert said(warned().observe(batch(failed(), failed()), mode)) == (decision, None, "latched", 10, 3, 1)


@pytest.mark.parametrize("then", [batch(failed()), batch(succeeded()), batch(reasons=("external_input",))])
def test_latched_says_nothing_more(then: ObservedBatch) -> None:
    machine = warned()
    machine.observe(batch(failed()), "enforce")
    assert said(machine.observe(then, "enforce")) == ("none", None, "latched", 9, 3, 1)


@pytest.mark.parametrize("reason", RESET_REASONS)
def test_every_reason_resets_and_tells_so_only_where_something_was_tracked(reason: str) -> None:
    for machine in (tracking(), warned()):
        decision = machine.observe(batch(failed(), reasons=(reason,)), "enforce")
        assert said(decision) == ("reset", reason, "idle", 0, 0, 0)
        assert machine.observe(batch(failed(), reasons=(reason,)), "enforce").decision == "none"


@pytest.mark.parametrize(("stronger", "weaker"), list(pairwise(RESET_REASONS)))
def test_the_reason_that_comes_first_is_named(stronger: str, weaker: str) -> None:
    assert tracking().observe(batch(reasons=(weaker, stronger)), "enforce").reason == stronger


def test_the_order_of_reasons_is_upstreams() -> None:
    assert RESET_REASONS == (
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


def test_a_success_of_the_tracked_tool_resets() -> None:
    assert said(tracking().observe(batch(succeeded()), "enforce")) == ("reset", "success", "idle", 0, 0, 0)


def test_a_success_of_another_tool_changes_nothing() -> None:
    assert said(tracking().observe(batch(succeeded("b")), "enforce")) == ("none", None, "tracking", 7, 1, 1)
    assert said(RepeatedFailures().observe(batch(succeeded()), "enforce")) == ("none", None, "idle", 0, 0, 0)


def test_a_batch_without_observations_changes_nothing() -> None:
    assert said(tracking().observe(batch(), "enforce")) == ("none", None, "tracking", 7, 1, 1)


def test_failures_of_a_tool_that_also_succeeded_do_not_count() -> None:
    machine = tracking()
    assert said(machine.observe(batch(failed("b"), succeeded("b")), "enforce"))[:3] == ("none", None, "tracking")
    assert said(machine.observe(batch(failed(), succeeded()), "enforce"))[:3] == ("reset", "success", "idle")
    # What is left of the batch counts, be it that of another tool.
    assert said(tracking().observe(batch(failed("b"), failed(), succeeded()), "enforce"))[2:] == ("tracking", 1, 1, 2)


def test_two_keys_in_a_batch_reset() -> None:
    assert said(tracking().observe(batch(failed(), failed("b")), "enforce"))[:3] == ("reset", "mixed", "idle")
    assert said(RepeatedFailures().observe(batch(failed(), failed("a", "y")), "enforce"))[:3] == ("none", None, "idle")


def test_candidates_are_counted_over_the_whole_turn() -> None:
    machine = tracking()
    machine.observe(batch(succeeded()), "enforce")
    assert machine.observe(batch(failed()), "enforce").candidate == 2


# --- enforcement ---


@pytest.mark.parametrize("reason", ["unreliable_input", "contract_violation", "unknown"])
def test_what_cannot_be_trusted_disables_enforcement_for_good(reason: str) -> None:
    machine = RepeatedFailures()
    first = machine.observe(batch(reasons=(reason,)), "enforce")
    assert said(first) == ("reset", reason, "idle", 0, 0, 0)
    assert first.enforcement_disabled
    assert machine.observe(batch(reasons=(reason,)), "enforce").decision == "none"
    decisions = [machine.observe(batch(*[failed()] * 4), "enforce").decision for _ in range(4)]
    assert decisions == ["tracked", "warn", "would_stop", "none"]


def test_a_doubt_counts_under_another_reason_but_not_in_a_batch_that_is_not_read() -> None:
    assert RepeatedFailures().observe(batch(reasons=("cancelled", "unknown")), "enforce").enforcement_disabled
    for reason in ("external_input", "queued_prompt", "incomplete"):
        assert not tracking().observe(batch(reasons=(reason, "unknown")), "enforce").enforcement_disabled


@pytest.mark.parametrize("reason", ["cancelled", "not_started", "post_execution_failure", "incomplete"])
def test_other_reasons_leave_enforcement_alone(reason: str) -> None:
    assert not tracking().observe(batch(reasons=(reason,)), "enforce").enforcement_disabled


def test_off_decides_nothing_and_keeps_what_was_tracked() -> None:
    machine = tracking()
    assert said(machine.observe(batch(failed(), reasons=("unknown",)), "off")) == ("none", None, "tracking", 7, 1, 1)
    assert machine.observe(batch(failed()), "enforce").decision == "warn"


# --- observations ---


@pytest.mark.parametrize(
    ("terminal", "execution", "kind"),
    [
        ("success", "success", "success"),
        ("success", "not_started", "success"),
        ("success", "error", "contract_violation"),
        ("success", "cancelled", "contract_violation"),
        ("success", "unknown", "unknown"),
        ("success", None, "unknown"),
        ("error", "error", "failure"),
        ("error", "success", "post_execution_failure"),
        ("error", "cancelled", "cancelled"),
        ("error", "not_started", "not_started"),
        ("error", "unknown", "unknown"),
        ("error", None, "unknown"),
        ("cancelled", "success", "cancelled"),
        ("cancelled", None, "cancelled"),
        ("unknown", "success", "unknown"),
    ],
)
def test_observations_are_classified(terminal: str, execution: str | None, kind: str) -> None:
    assert Observation("a", terminal, execution, "x").classify() == kind


@pytest.mark.parametrize("tool", [None, ""])
def test_without_a_tool_neither_success_nor_failure_is_known(tool: str | None) -> None:
    assert (succeeded(tool).classify(), failed(tool).classify()) == ("unknown", "unknown")
    assert Observation(tool, "cancelled").classify() == "cancelled"


@pytest.mark.parametrize("error_type", [None, "", "unknown"])
def test_a_failure_without_an_error_type_is_unknown(error_type: str | None) -> None:
    assert failed("a", error_type).classify() == "unknown"


def test_a_batch_of_too_many_tools_is_incomplete() -> None:
    observed = batch(*(succeeded(str(n)) for n in range(MAX_OPEN_CALLS)))
    assert observed.reset_reason() is None
    observed.add(failed())
    assert (observed.reset_reason(), observed.failures) == ("incomplete", {})


@pytest.mark.parametrize(
    ("ok", "status", "error_type", "kind"),
    [
        (True, "done", None, "success"),
        (True, "done", "x", "success"),
        (False, "done", "x", "failure"),
        (None, "done", "x", "failure"),
        (False, "done", None, "unknown"),
        (None, "done", None, "unknown"),
        (False, "done", "execution", "failure"),
        (False, "done", "denied", "not_started"),
        (None, "done", "invalid_params", "not_started"),
        (False, "done", "unknown_tool", "not_started"),
        (False, "done", "cancelled", "cancelled"),
        (True, "done", "cancelled", "success"),
        (None, "cancelled", None, "cancelled"),
        (True, "cancelled", None, "cancelled"),
        (None, "notStarted", None, "not_started"),
        (True, "notStarted", None, "success"),
        (False, "unknown", "x", "unknown"),
        (True, "unknown", None, "unknown"),
    ],
)
def test_results_are_observations(ok: bool | None, status: ResultState, error_type: str | None, kind: str) -> None:
    assert observation_of(Result(name="a", ok=ok, status=status, error_type=error_type)).classify() == kind


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        *((mode, mode) for mode in MODES),
        (" Warn\n", "warn"),
        ("\ufeffOFF", "off"),
        ("on", None),
        ("", None),
        (None, None),
    ],
)
def test_modes_are_parsed(text: str | None, mode: str | None) -> None:
    assert parse_mode(text) == mode


# --- in a session ---


def guarded(mode: str = "enforce", origin: str = "user") -> SessionGuard:
    watched = session(model={"maxToolCallsPerTurn": 0}, turnguard={"repeatedFailures": mode})
    watched.record([TurnStarted(origin=origin)])
    return watched


def step(
    watched: SessionGuard, *results: Result, calls: int | None = None, then: tuple[Event, ...] = ()
) -> list[Finding]:
    """A step of calls named as their results; `calls` more or fewer than those. What closing it finds."""
    names = [result.name or "a" for result in results]
    if calls is not None:
        names = ["a"] * calls
    asked = [Call(name, f"c{next(CALL_IDS)}") for name in names]
    watched.record([ToolCalls(asked)])
    paired = [msgspec.structs.replace(result, id=call.id) for result, call in zip(results, asked, strict=False)]
    return watched.record([ToolResults(paired), *then, StepFinished()]).findings


CALL_IDS = count()
FAILED = Result(ok=False, error_type="x")


def reasons(findings: list[Finding]) -> list[Any]:
    return [finding.reason for finding in findings if finding.guard == "repeatedFailures"]


def steps(watched: SessionGuard, times: int) -> list[Any]:
    return [reason for _ in range(times) for reason in reasons(step(watched, FAILED, FAILED, FAILED, FAILED))]


@pytest.mark.parametrize(
    ("mode", "reason", "action"),
    [
        ("shadow", ["would_warn", "would_stop"], [Action.ALLOW, Action.ALLOW]),
        ("warn", ["warn", "would_stop"], [Action.WARN, Action.ALLOW]),
        ("enforce", ["warn", "stop"], [Action.WARN, Action.HALT]),
    ],
)
def test_what_a_session_tells(mode: str, reason: list[str], action: list[Action]) -> None:
    watched = guarded(mode)
    assert step(watched, *[FAILED] * 7) == []
    findings = [finding for _ in range(2) for finding in step(watched, FAILED)]
    assert ([finding.reason for finding in findings], [finding.action for finding in findings]) == (reason, action)
    assert [finding.count for finding in findings] == [8, 9]
    for finding in findings:
        assert finding.loop_type == "repeated_tool_execution_failure"
        assert (finding.tool, finding.threshold, finding.fresh) == ("a", 8, True)
        assert finding.setting == "turnguard.repeatedFailures"


def test_an_error_counts_as_a_failure() -> None:
    watched = guarded()
    error = Result(error=msgspec.Raw(b'"no"'), error_type="x")
    assert [reasons(step(watched, *[error] * 4)) for _ in range(3)] == [[], ["warn"], ["stop"]]


@pytest.mark.parametrize("origin", ["channel", "cron", "notification", "hook"])
def test_turns_that_nobody_watches_are_left_alone(origin: str) -> None:
    watched = guarded(origin=origin)
    assert steps(watched, 4) == []
    watched.record([TurnStarted()])
    assert steps(watched, 3) == ["warn", "stop"]


@pytest.mark.parametrize("origin", ["user", "goal", "something else"])
def test_other_turns_are_watched(origin: str) -> None:
    assert steps(guarded(origin=origin), 3) == ["warn", "stop"]


def test_a_new_turn_starts_afresh() -> None:
    watched = guarded()
    steps(watched, 2)
    watched.record([TurnStarted()])
    assert steps(watched, 2) == ["warn"]


def test_a_call_without_a_result_makes_the_step_incomplete() -> None:
    watched = guarded()
    steps(watched, 2)
    step(watched, FAILED, calls=2)
    assert steps(watched, 2) == ["warn"]


def test_a_step_of_text_or_of_results_alone_is_complete() -> None:
    watched = guarded()
    steps(watched, 2)
    assert watched.record([StepFinished()]).findings == []
    failed_alone = Result(name="a", ok=False, error_type="x")
    assert reasons(watched.record([ToolResults([failed_alone]), StepFinished()]).findings) == ["stop"]


def test_what_the_user_says_resets() -> None:
    for said_now in (UserInput(), UserInput(queued=True)):
        watched = guarded()
        steps(watched, 2)
        assert step(watched, FAILED, then=(said_now,)) == []
        assert steps(watched, 2) == ["warn"]


@pytest.mark.parametrize(
    ("queued", "reason"), [([True], "queued_prompt"), ([False], "external_input"), ([False, True], "external_input")]
)
def test_words_that_are_read_now_outweigh_queued_ones(queued: list[bool], reason: str) -> None:
    guard = RepeatedFailureGuard(in_force())
    for each in queued:
        guard.receive(UserInput(queued=each))
    assert guard.user_input == reason


def test_what_the_user_says_between_steps_resets_at_the_next() -> None:
    watched = guarded()
    steps(watched, 2)
    watched.record([UserInput()])
    assert steps(watched, 3) == ["warn"]


def test_copies_say_nothing_but_answer_their_call() -> None:
    watched = guarded()
    steps(watched, 2)
    copy = msgspec.structs.replace(FAILED, duplicate=True)
    assert step(watched, copy) == []
    assert reasons(step(watched, copy, FAILED)) == ["stop"]


def test_answers_to_refused_calls_say_nothing_and_do_not_stand_for_results() -> None:
    guard = RepeatedFailureGuard(in_force(turnguard={"repeatedFailures": "enforce"}))
    batch_of_two = Batch([Call("a", "1", key="k"), Call("a", "2", key="k")], None)
    refused = Result("2", "a", ok=False, status="notStarted")
    paired = Result("1", "a", ok=False, error_type="x")
    copy = msgspec.structs.replace(refused, status="done", duplicate=True)
    for answer in (refused, copy, refused):
        guard.commit(batch_of_two, [0])
        guard.receive(ToolResults([answer, paired]))
        guard.receive(StepFinished())
    assert guard.machine is not None
    assert guard.machine.failures == 3
    guard.commit(batch_of_two, [0])
    guard.receive(ToolResults([refused]))
    guard.receive(StepFinished())
    assert guard.machine.phase == "idle"


@pytest.mark.parametrize("again", [Retry(), Fallback()])
def test_a_response_that_comes_again_drops_its_observations(again: Event) -> None:
    watched = guarded()
    watched.record([ToolCalls([Call("a", f"before-{n}") for n in range(4)])])
    watched.record([ToolResults([msgspec.structs.replace(FAILED, id=f"before-{n}") for n in range(4)]), again])
    assert steps(watched, 2) == ["warn"]


@pytest.mark.parametrize("again", [Retry(), Fallback()])
def test_a_response_that_comes_again_waits_for_none_of_its_results(again: Event) -> None:
    watched = guarded()
    steps(watched, 1)
    watched.record([ToolCalls([Call("a", "before")])])
    watched.record([again])
    assert steps(watched, 2) == ["warn", "stop"]


def test_only_the_failures_are_forgiven_after_a_stop() -> None:
    watched = guarded()
    assert steps(watched, 3) == ["warn", "stop"]
    assert watched.status().state == "halted"
    watched.override("continueOnce")
    assert watched.status().state == "running"
    assert steps(watched, 3) == ["warn", "stop"]


def test_another_mode_keeps_what_was_tracked() -> None:
    watched = guarded("shadow")
    assert steps(watched, 2) == ["would_warn"]
    watched.configure(in_force(model={"maxToolCallsPerTurn": 0}, turnguard={"repeatedFailures": "enforce"}))
    assert steps(watched, 1) == ["stop"]


def test_nothing_is_held_while_nothing_fails() -> None:
    guard = RepeatedFailureGuard(in_force())
    guard.commit(Batch([Call("a", "1", key="k")], None), [0])
    guard.receive(ToolResults([Result("1", "a", ok=True)]))
    guard.receive(StepFinished())
    assert (guard.machine, guard.batch) == (None, None)


# --- what always holds ---

TOOLS = st.sampled_from(["a", "b"])
RESULTS = st.lists(
    st.builds(
        Result,
        name=TOOLS,
        ok=st.sampled_from([False, False, False, True, None]),
        error_type=st.sampled_from(["x", "x", "y", None]),
        status=st.sampled_from(["done", "done", "done", "done", "notStarted", "cancelled", "unknown"]),
        duplicate=st.sampled_from([False, False, False, True]),
    ),
    max_size=8,
)
FAILURES = st.lists(st.builds(Result, name=TOOLS, ok=st.just(False), error_type=st.just("x")), min_size=1, max_size=8)


class GuardLaws(RuleBasedStateMachine):
    """Random steps under every mode, by a guard and by one that is taken down and set up again before each event."""

    @initialize(mode=st.sampled_from(MODES))
    def start(self, mode: RepeatedFailuresMode) -> None:
        self.mode = mode
        self.settings = in_force(turnguard={"repeatedFailures": mode})
        self.guard = RepeatedFailureGuard(self.settings)
        self.stored = self.guard.snapshot()
        self.is_off = False
        self.told: list[Any] = []

    def tell(self, event: Event) -> list[Finding]:
        again = RepeatedFailureGuard(self.settings)
        again.restore(msgspec.json.decode(msgspec.json.encode(self.stored)))
        findings = list(self.guard.receive(event))
        assert list(again.receive(event)) == findings
        assert again.snapshot() == self.guard.snapshot()
        self.stored = again.snapshot()
        self.told += [finding.reason for finding in findings]
        return findings

    @rule(results=RESULTS | FAILURES, withheld=st.sampled_from([0, 0, 0, 1]), refused=st.integers(0, 1))
    def play_step(self, results: list[Result], withheld: int, refused: int) -> None:
        calls = [Call("a", key="k")] * (len(results) + withheld + refused)
        self.guard.commit(Batch(calls, None), range(len(results) + withheld))
        self.stored = self.guard.snapshot()
        was_tracked = self.guard.machine.key if self.guard.machine else None
        was_latched = self.guard.machine is not None and self.guard.machine.phase == "latched"
        self.tell(ToolResults(results))
        findings = self.tell(StepFinished())
        if self.is_off or self.mode == "off" or was_latched:
            assert findings == []
        elif was_tracked and any(each.name == was_tracked[0] and self.has_succeeded(each) for each in results):
            assert self.guard.machine is not None
            assert self.guard.machine.key != was_tracked

    @staticmethod
    def has_succeeded(result: Result) -> bool:
        return result.ok is True and result.status == "done" and not result.duplicate

    @rule(queued=st.booleans())
    def speak(self, queued: bool) -> None:
        self.tell(UserInput(queued=queued))

    @rule(again=st.sampled_from([Retry(), Fallback()]))
    def come_again(self, again: Event) -> None:
        self.tell(again)

    @rule(origin=st.sampled_from(["user", "goal", "cron"]))
    def start_turn(self, origin: str) -> None:
        self.tell(TurnStarted(origin=origin))
        self.is_off = origin == "cron"
        self.told = []

    @invariant()
    def a_turn_is_stopped_at_most_once_and_after_a_warning(self) -> None:
        stops = [index for index, reason in enumerate(self.told) if "stop" in reason]
        assert len(stops) <= 1
        assert all("warn" in self.told[index - 1] and index > 0 for index in stops)
        if self.mode != "enforce":
            assert "stop" not in self.told

    @invariant()
    def no_count_without_a_key(self) -> None:
        machine = self.guard.machine
        if machine is not None:
            assert (machine.key is None) == (machine.phase == "idle") == (machine.failures == 0)
            assert machine.batches <= machine.failures


TestGuardLaws = GuardLaws.TestCase
