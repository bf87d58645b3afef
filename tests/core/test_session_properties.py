"""Properties of a session that hold for any events, and the histogram of what the runs reached."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.build import call, in_force, raw
from turnguard.core.guard import Batch, Guard, Rekeying, Ruling
from turnguard.core.session import STRICTNESS, EventError, SessionGuard
from turnguard.core.stack import GuardStack
from turnguard_protocol.events import (
    CallRekeyed,
    Compacted,
    Event,
    Fallback,
    Result,
    Retry,
    StateChanged,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
    UserInput,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Verdict

Strategy = st.SearchStrategy[Any]

seen_events: Counter[str] = Counter()
seen_actions: Counter[str] = Counter()
seen_loops: Counter[str] = Counter()
stacked_actions: Counter[str] = Counter()
"""What the stack answered where it was compared with its guards alone."""

POLL = {"action": "poll"}
STATES = {"A": ["read_file", "grep"], "B": ["task_list"], "F": ["grep"]}

names: Strategy = st.sampled_from(["read_file", "grep", "run_shell_command", "task_list", "process", "tool_call", None])
ids: Strategy = st.sampled_from([None, "i1", "i2", "i3", "i4"])
args: Strategy = st.sampled_from(
    [{}, {"n": 1}, {"n": 2}, {"command": "git status"}, {"action": "poll"}, {"name": "grep", "arguments": {"n": 1}}]
)
one_call: Strategy = st.builds(
    lambda name, args, call_id, fidelity: call(name, args, call_id, fidelity=fidelity),
    names,
    args,
    ids,
    st.sampled_from(["full"] * 6 + ["low", "none"]),
)
rekeyed: Strategy = st.builds(
    lambda call_id, name, args, fidelity: CallRekeyed(call_id, name, raw(args), fidelity=fidelity),
    st.sampled_from(["i1", "i2", "i3", "i4"]),
    st.one_of(st.none(), names),
    args,
    st.sampled_from(["full", "full", "full", "none"]),
)
batches: Strategy = st.one_of(
    st.lists(one_call, max_size=6),
    st.builds(lambda each, count: [each] * count, one_call, st.integers(1, 7)),
)
one_result: Strategy = st.builds(
    Result,
    id=ids,
    name=names,
    ok=st.sampled_from([None, True, False, False]),
    error_type=st.sampled_from([None, "invalid_params", "execution", "execution"]),
    status=st.sampled_from(["done", "done", "done", "notStarted", "cancelled", "unknown"]),
    output=st.sampled_from([msgspec.Raw(b'"same"'), msgspec.Raw(b"1")]),
)
words: Strategy = st.sampled_from(["abcdefghij ", "- item\n", "```", "x" * 60, "Lorem ipsum dolor sit amet, "])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ToolCalls, batches),
    st.builds(ToolCalls, batches),
    st.builds(ToolCalls, batches),
    st.builds(ToolResults, st.lists(one_result, max_size=4)),
    st.builds(ToolResults, st.builds(lambda each, n: [each] * n, one_result, st.integers(1, 4))),
    st.builds(lambda word, n: Text(word * n), words, st.integers(1, 120)),
    st.builds(Thought, st.sampled_from(["", "s"]), st.just("d")),
    rekeyed,
    st.just(StepFinished()),
    st.builds(Retry, st.booleans()),
    st.just(Fallback()),
    st.just(Compacted()),
    st.builds(StateChanged, st.sampled_from(sorted(STATES))),
    st.builds(UserInput, st.booleans()),
    st.builds(TurnStarted, st.none(), st.sampled_from(["user", "user", "cron"])),
    st.builds(TurnEnded),
)
failing_step: Strategy = st.builds(
    lambda count: [
        [ToolCalls([call("grep", {"n": 1})] * count)],
        [ToolResults([Result(name="grep", args=msgspec.Raw(b'{"n":1}'), ok=False, error_type="execution")] * count)],
        [StepFinished()],
    ],
    st.integers(1, 5),
)
answered: Strategy = st.builds(
    lambda names, output, ending: [
        record
        for name in names
        for record in (
            [ToolCalls([call(name, POLL)])],
            [ToolResults([Result(name=name, args=raw(POLL), output=msgspec.Raw(output))])],
            *ending,
        )
    ],
    st.one_of(
        st.builds(lambda name, n: [name] * n, st.sampled_from(["grep", "process", "edit"]), st.integers(2, 7)),
        st.builds(lambda n: ["grep", "read_file"] * n, st.integers(2, 4)),
    ),
    st.sampled_from([b'"same"', b"1"]),
    st.sampled_from([[], [[StepFinished()]]]),
)
"""Calls that come again with the same answer, or by turns: what loops look like."""
unknown: Strategy = st.builds(
    lambda n: [
        record
        for _ in range(n)
        for record in (
            [ToolCalls([call("edti", {"n": 1})])],
            [
                ToolResults(
                    [Result(name="edti", args=msgspec.Raw(b'{"n":1}'), error=msgspec.Raw(b'"unknown tool: edti"'))]
                )
            ],
        )
    ],
    st.integers(2, 4),
)
compacted: Strategy = st.builds(lambda loop: [[Compacted()], *loop], answered)
rejected: Strategy = st.builds(
    lambda count: [[ToolResults([Result(name="grep", ok=False, error_type="invalid_params")] * count)]],
    st.integers(1, 3),
)
fragments: Strategy = st.one_of(
    *[st.just([[TurnStarted()]])] * 3,
    rejected,
    unknown,
    compacted,
    *[answered] * 3,
    *[st.lists(st.lists(events, min_size=1, max_size=3), min_size=1, max_size=4)] * 4,
    st.builds(lambda step, times: step * times, failing_step, st.integers(1, 4)),
)
begun: Strategy = st.builds(lambda starts, part: [[TurnStarted()]] * starts + part, st.booleans(), fragments)
records: Strategy = st.lists(begun, min_size=3, max_size=12).map(
    lambda parts: [record for part in parts for record in part]
)
overrides: Strategy = st.sampled_from([None] * 12 + ["continueOnce", "raiseCap", "disable", "enable"])
switched: Strategy = st.sampled_from([None, True, True, True, False])
detection: Strategy = st.fixed_dictionaries(
    {
        "enabled": switched,
        "historySize": st.sampled_from([None, 4, 12]),
        "warningThreshold": st.sampled_from([2, 3]),
        "criticalThreshold": st.sampled_from([4, 5]),
        "unknownToolThreshold": st.sampled_from([2, 3]),
        "globalCircuitBreakerThreshold": st.sampled_from([None, 6]),
        "detectors": st.fixed_dictionaries({"genericRepeat": switched, "pingPong": switched}),
        "postCompactionGuard": st.fixed_dictionaries({"windowSize": st.sampled_from([None, 1, 2])}),
    }
)
modes: Strategy = st.sampled_from(["consecutive", "consecutive", "repeated"])
admissions: Strategy = st.sampled_from(["batch", "batch", "call"])
no_shield: Strategy = st.just({})
plain_shield: Strategy = st.fixed_dictionaries(
    {
        "enabled": st.just(True),
        "maxConsecutiveTools": st.sampled_from([0, 1, 2, 3, 6]),
        "mode": modes,
        "admission": admissions,
    }
)
shield_with_states: Strategy = st.fixed_dictionaries(
    {
        "enabled": st.sampled_from([True, True, True, False]),
        "maxConsecutiveTools": st.sampled_from([1, 2, 3, 6]),
        "mode": modes,
        "states": st.just(STATES),
        "initialState": st.sampled_from([None, "B"]),
        "fallbackState": st.sampled_from([None, "F", "A"]),
        "admission": admissions,
    }
)
sections: Strategy = st.fixed_dictionaries(
    {
        "model": st.fixed_dictionaries(
            {
                "maxToolCallsPerTurn": st.sampled_from([None, None, 0, 4, 9, 30]),
                "skipLoopDetection": st.sampled_from([True, True, False]),
            }
        ),
        "tools": st.fixed_dictionaries({"loopDetection": st.one_of(st.just({}), detection, detection, detection)}),
        "loopShield": st.one_of(no_shield, no_shield, no_shield, plain_shield, shield_with_states),
        "turnguard": st.fixed_dictionaries(
            {
                "turnGuard": st.sampled_from(["batch", "batch", "stream"]),
                "repeatedFailures": st.sampled_from(["off", "shadow", "warn", "enforce"]),
                "admission": admissions,
                "maxBlocksPerTurn": st.sampled_from([None, 0, 1, 2]),
                "maxStepsPerTurn": st.sampled_from([None, None, None, None, 2, 12]),
                "shadow": st.sampled_from([False, False, False, True]),
                "progress": st.fixed_dictionaries({"action": st.sampled_from(["off", "warn", "halt"])}),
            }
        ),
    }
)
REACHED = {
    "compaction_loop_persisted",
    "consecutive_identical_tool_calls",
    "generic_repeat",
    "global_tool_call_duplicate",
    "invalid_tool_params_stagnation",
    "known_poll_no_progress",
    "max_blocks_per_turn",
    "max_steps_per_turn",
    "no_new_evidence",
    "ping_pong",
    "repeated_tool_execution_failure",
    "tool_call_budget",
    "turn_tool_call_cap",
    "unknown_tool_repeat",
}
"""Loops that any run of these properties comes to."""

many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def note(record: list[Event], verdict: Verdict) -> None:
    seen_events.update(type(event).__name__ for event in record)
    seen_actions[verdict.action.value] += 1
    seen_loops.update(str(finding.loop_type) for finding in verdict.findings if finding.fresh)


def copied(guarded: SessionGuard, in_force_now: SettingsInForce) -> SessionGuard:
    """The same session after its state went through JSON."""
    restored = SessionGuard("s", in_force_now)
    restored.restore(msgspec.json.decode(msgspec.json.encode(guarded.snapshot())))
    return restored


def is_takable(record: Sequence[Event], now: SettingsInForce, *, is_disabled: bool = False) -> bool:
    """Whether the settings allow the record: a budget of repeated calls cannot count those without a name."""
    shield = now.loop_shield
    if shield is None or not shield.enabled or shield.mode == "consecutive" or is_disabled:
        return True
    return all(each.name for event in record if type(event) is ToolCalls for each in event.calls)


def play(guarded: SessionGuard, record: list[Event], action: Any, now: SettingsInForce) -> Verdict | None:
    """What a record is answered after an override; None where it is one that cannot be taken, and was not."""
    if action is not None:
        guarded.override(action, calls=3)
    if not is_takable(record, now, is_disabled=guarded.status().state == "disabled"):
        before = guarded.snapshot()
        with pytest.raises(EventError, match="tool name"):
            guarded.record(record)
        assert guarded.snapshot() == before
        return None
    verdict = guarded.record(record)
    note(record, verdict)
    return verdict


@many
@given(sections, records)
def test_admitted_fits_the_batch_and_the_strictest_finding_decides(given_sections: Any, script: Any) -> None:
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    for record in script:
        verdict = play(guarded, record, None, now)
        if verdict is None:
            continue
        ranks = [STRICTNESS[finding.action] for finding in verdict.findings]
        assert ranks == sorted(ranks, reverse=True)
        assert STRICTNESS[verdict.action] == (0 if now.shadow else max(ranks, default=0))
        assert len(set(verdict.admitted)) == len(verdict.admitted)
        assert verdict.admitted == sorted(verdict.admitted)
        if verdict.action is Action.HALT:
            assert verdict.admitted == []
        if type(record[-1]) is ToolCalls:
            everything = list(range(len(record[-1].calls)))
            assert set(verdict.admitted) <= set(everything)
            may_be_copies = any(each.id is not None for each in record[-1].calls)
            if now.shadow or (verdict.action not in (Action.BLOCK, Action.HALT) and not may_be_copies):
                assert verdict.admitted == everything


@many
@given(sections, records)
def test_a_halt_is_repeated_until_a_turn_starts(given_sections: Any, script: Any) -> None:
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    halt: Verdict | None = None
    for record in script:
        verdict = play(guarded, record, None, now)
        if verdict is None:
            continue
        if any(type(event) is TurnStarted for event in record):
            halt = None
        if halt is not None:
            assert verdict.action is Action.HALT
            assert [f.loop_type for f in verdict.findings] == [f.loop_type for f in halt.findings]
            assert not any(finding.fresh for finding in verdict.findings)
            assert verdict.totals == halt.totals
            assert (verdict.user_message, verdict.model_message) == (halt.user_message, halt.model_message)
        elif verdict.action is Action.HALT:
            halt = verdict
        assert (guarded.status().state == "halted") == (verdict.action is Action.HALT)


@many
@given(sections, records, st.lists(overrides, min_size=8, max_size=40), st.booleans())
def test_snapshot_and_restore_change_no_later_verdict(
    given_sections: Any, script: Any, actions: Any, prepares: bool
) -> None:
    now = in_force(**given_sections)
    guarded, restored = SessionGuard("s", now), SessionGuard("s", now)
    for record, action in zip(script, cycle(actions), strict=False):
        restored = copied(restored, now)
        if prepares:
            assert guarded.prepare_step() == restored.prepare_step()
            restored = copied(restored, now)
        assert play(guarded, record, action, now) == play(restored, record, action, now)
        assert guarded.status() == restored.status()
        assert guarded.snapshot() == restored.snapshot()


@many
@given(sections, records, st.lists(overrides, min_size=8, max_size=40))
def test_a_record_that_fails_changes_nothing(given_sections: Any, script: Any, actions: Any) -> None:
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    bad = ToolCalls([call(), msgspec.structs.replace(call(), args=msgspec.Raw(b"{"))])
    for record, action in zip(script, cycle(actions), strict=False):
        before = guarded.snapshot()
        with pytest.raises(EventError):
            guarded.record([TurnStarted(), *record, bad])
        assert guarded.snapshot() == before
        play(guarded, record, action, now)


@many
@given(sections, records)
def test_in_shadow_every_call_runs_and_no_turn_ends(given_sections: Any, script: Any) -> None:
    given_sections["turnguard"]["shadow"] = True
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    for record in script:
        verdict = play(guarded, record, None, now)
        if verdict is not None:
            assert verdict.action is Action.ALLOW
            assert guarded.status().state != "halted"
            assert guarded.prepare_step().tool_choice == "auto"
            if type(record[-1]) is ToolCalls:
                assert verdict.admitted == list(range(len(record[-1].calls)))


@many
@given(sections, records)
def test_a_disabled_session_says_nothing(given_sections: Any, script: Any) -> None:
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    guarded.override("disable")
    for record in script:
        verdict = guarded.record(record)
        assert (verdict.action, verdict.findings) == (Action.ALLOW, [])
        assert guarded.prepare_step().tool_choice == "auto"
        if type(record[-1]) is ToolCalls:
            assert verdict.admitted == list(range(len(record[-1].calls)))


@many
@given(st.integers(1, 30), sections, records)
def test_no_turn_runs_more_calls_than_an_explicit_cap(cap: int, given_sections: Any, script: Any) -> None:
    """Whatever the other guards do, and whether a batch is refused whole or call by call."""
    given_sections["model"]["maxToolCallsPerTurn"] = cap
    given_sections["turnguard"]["shadow"] = False
    now = in_force(**given_sections)
    guarded = SessionGuard("s", now)
    ran: Counter[str] = Counter()
    retried: set[str] = set()
    for record in script:
        verdict = play(guarded, record, None, now)
        if verdict is None:
            continue
        if any(type(event) in (Retry, TurnStarted) for event in record):
            retried.add(verdict.turn_id)
        if type(record[-1]) is ToolCalls:
            ran[verdict.turn_id] += len(verdict.admitted)
    # a retried response's calls are taken back, so its turn may run them twice
    assert all(count <= cap for turn, count in ran.items() if turn not in retried)


# --- the guards alone -------------------------------------------------------------------------------------------------


class AloneStack(GuardStack):
    """A stack of one guard. What it refuses is noted; `admitted` says what runs, as the whole stack said it."""

    def __init__(self, now: SettingsInForce, index: int) -> None:
        super().__init__(now)
        self.guards = (self.guards[index],)
        if self.shield is not self.guards[0]:
            self.shield = None
        self.admitted: Sequence[int] = ()
        self.refused: frozenset[int] = frozenset()

    def check(self, batch: Batch) -> Ruling:
        """What the one guard says; but what is refused is what the whole stack refused."""
        ruling = self.guards[0].check(batch)
        self.refused = ruling.refused
        return Ruling(ruling.findings, frozenset(range(len(batch.calls))) - frozenset(self.admitted))

    def commit(self, batch: Batch, admitted: Sequence[int]) -> None:
        """Marks as refused what the whole stack refused."""
        self.guards[0].commit(batch, self.admitted)

    def check_rekeyed(self, change: Rekeying) -> list[Finding]:
        """What the one guard says of a call as it is now."""
        return list(self.guards[0].check_rekeyed(change))

    def tell(self, event: Event) -> list[Finding]:
        """What the one guard says to an event that is no batch."""
        return list(self.guards[0].receive(event))


class Alone:
    """A session with one guard of the stack, and nothing else that could speak."""

    def __init__(self, now: SettingsInForce, index: int) -> None:
        self.session = SessionGuard("alone", now)
        self.stack = self.session._stack = AloneStack(now, index)

    @property
    def guard(self) -> Guard:
        return self.stack.guards[0]

    def record(self, event: Event, admitted: Sequence[int]) -> Verdict:
        """The same event, of whose calls run those that ran under the whole stack."""
        self.stack.admitted, self.stack.refused = admitted, frozenset()
        return self.session.record([event])


def one_by_one(script: Sequence[Sequence[Event]]) -> Iterator[Event]:
    """The events of a script, with each end of a step said, so that no event is two."""
    has_results = False
    for record in script:
        for event in record:
            if has_results and type(event) in (ToolCalls, Text):
                yield StepFinished()
                has_results = False
            has_results |= type(event) is ToolResults
            has_results &= type(event) not in (StepFinished, TurnStarted, TurnEnded)
            yield event


@settings(many, max_examples=300)
@given(sections, records)
def test_the_stack_is_as_strict_as_its_strictest_guard_and_each_guard_counts_as_if_alone(
    given_sections: Any, script: Any
) -> None:
    """Up to a halt, after which the guards hear nothing but late results.

    Each guard alone hears which calls the stack refused. Until the first refusal that is nothing, so it is the guard
    run alone; from then on it is the guard run alone with the refused calls marked refused.
    """
    for section in (given_sections["turnguard"], given_sections["loopShield"]):
        section["admission"] = "batch"
    given_sections["turnguard"] |= {"maxBlocksPerTurn": 0, "maxStepsPerTurn": None, "shadow": False}
    now = in_force(**given_sections)
    stacked = SessionGuard("s", now)
    count = len(stacked._stack.guards)
    alone = [Alone(now, index) for index in range(count)]
    for event in one_by_one(script):
        if not is_takable([event], now):
            continue
        if stacked.status().state == "halted":
            if type(event) is not TurnStarted:
                continue
            alone = [Alone(now, index) for index in range(count)]
            for other, guard in zip(alone, stacked._stack.guards, strict=True):
                other.session.restore({**stacked.snapshot(), "guards": {guard.name: guard.snapshot()}})
        verdict = stacked.record([event])
        note([event], verdict)
        stacked_actions[verdict.action.value] += 1
        verdicts = [other.record(event, verdict.admitted) for other in alone]
        assert verdict.action is max((each.action for each in verdicts), key=STRICTNESS.__getitem__)
        assert sorted(map(repr, verdict.findings)) == sorted(repr(f) for each in verdicts for f in each.findings)
        for other, guard in zip(alone, stacked._stack.guards, strict=True):
            assert other.guard.snapshot() == guard.snapshot()
        if type(event) is ToolCalls:
            refused = frozenset[int]().union(*(other.stack.refused for other in alone))
            if verdict.action is Action.HALT:
                refused = frozenset(range(len(event.calls)))
            assert verdict.admitted == [index for index in range(len(event.calls)) if index not in refused]


@pytest.fixture(scope="module", autouse=True)
def print_histogram() -> Iterator[None]:
    yield
    for name, histogram in (("events", seen_events), ("actions", seen_actions), ("loops", seen_loops)):
        print(f"\n{name}: " + ", ".join(f"{key} {count}" for key, count in histogram.most_common()))
    print("\nstacked: " + ", ".join(f"{key} {count}" for key, count in stacked_actions.most_common()))
    assert len(seen_events) == len(Event.__args__), "some kind of event was never played"
    assert set(seen_actions) == set(Action)
    assert set(stacked_actions) == set(Action)
    assert set(seen_loops) >= REACHED
