"""Properties of the guards that hold whatever comes, over a machine that plays a host."""

import json
from collections import Counter

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.core.rolling.build import POLL, call, result, settings
from turnguard.core.guard import Batch
from turnguard.core.rolling.calls import args_of, is_poll, run_of
from turnguard.core.rolling.config import limits_of
from turnguard.core.rolling.detectors import detect
from turnguard.core.rolling.evidence import no_progress_streak, of_call
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard.core.rolling.post_compaction import PostCompactionGuard
from turnguard.core.thresholds import MAX_LOOP_WARNING_KEYS
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
from turnguard_protocol.verdicts import Action

SMALL = {"warningThreshold": 2, "criticalThreshold": 3, "globalCircuitBreakerThreshold": 5, "unknownToolThreshold": 2}
BLOCKS = [
    {"enabled": True, "historySize": 6, **SMALL},
    {"enabled": True, "historySize": 9, **SMALL, "detectors": {"pingPong": False}},
    {"enabled": True, "historySize": 8, **SMALL, "detectors": {"genericRepeat": False}},
    {"historySize": 4},
    {"enabled": False, "historySize": 3},
]

runs = st.sampled_from([None, "r", " r "])
ids = st.sampled_from([None, "1", "2"])
calls = st.builds(
    call,
    st.sampled_from(["read", "read", POLL]),
    st.sampled_from(["a", "b"]),
    ids,
    fidelity=st.sampled_from(["full", "full", "full", "none"]),
)
outcomes = st.sampled_from(["x", "x", "x", "x", "y", None])
events = st.sampled_from([StepFinished(), Retry(), Fallback(), Compacted(), TurnStarted(), TurnStarted("s")])


class Machine(RuleBasedStateMachine):
    """A host that sends anything in any order, and now and then puts the guard away and takes it out again."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = settings(**BLOCKS[0])
        self.guard = RollingHistoryGuard(self.settings, str)
        self.after_compaction = PostCompactionGuard(self.settings, str)

    @rule(batch=st.lists(calls, max_size=4), run=runs, others_refuse=st.sets(st.integers(0, 3)))
    def ask(self, batch: list[Call], run: str | None, others_refuse: set[int]) -> None:
        asked = Batch(batch, run)
        before = self.guard.snapshot()["history"]
        expected = [self._detect(made, run) for made in batch]
        ruling = self.guard.check(asked)
        assert self.guard.snapshot()["history"] == before
        assert self.guard.check(asked).refused == ruling.refused
        critical = {index for index, level in enumerate(expected) if level is Action.BLOCK}
        assert ruling.refused == critical
        assert [finding.action for finding in ruling.findings] == [level for level in expected if level]
        assert all(finding.fresh for finding in ruling.findings if finding.action is Action.BLOCK)
        admitted = [index for index in range(len(batch)) if index not in ruling.refused | others_refuse]
        for guard in (self.guard, self.after_compaction):
            guard.commit(asked, admitted)
        recorded = 0 if limits_of(self.settings).enabled is False else self._identified(batch, admitted)
        assert len(self.guard.history.records) == min(len(before) + recorded, self._size(len(before), recorded))

    @rule(made=calls, outcome=outcomes, run=runs, times=st.integers(1, 5), is_compacted=st.booleans())
    def loop(self, made: Call, outcome: str | None, run: str | None, times: int, is_compacted: bool) -> None:
        """A call that is answered at once, again and again."""
        if is_compacted:
            self.hear(Compacted())
        for _ in range(times):
            self.ask([made], run, set())
            self.answer(made, outcome, run)

    @rule(made=calls, outcome=outcomes, run=runs)
    def answer(self, made: Call, outcome: str | None, run: str | None) -> None:
        counts = self._counts(exclude=(made.name, made.key))
        event = ToolResults([result(made, outcome)], run)
        self.guard.receive(event)
        findings = self.after_compaction.receive(event)
        assert len(findings) <= 1
        assert all(now <= counts[of] for of, now in self._counts(exclude=(made.name, made.key)).items())

    @rule(event=events)
    def hear(self, event: Event) -> None:
        before = len(self.guard.history.records)
        assert not self.guard.receive(event)
        assert not self.after_compaction.receive(event)
        assert len(self.guard.history.records) <= before

    @rule(block=st.sampled_from(BLOCKS))
    def configure(self, block: dict[str, object]) -> None:
        self.settings = settings(**block)
        before = self.guard.snapshot()
        for guard in (self.guard, self.after_compaction):
            guard.configure(self.settings)
        assert self.guard.snapshot() == before

    @rule(made=calls, run=runs)
    def forgive(self, made: Call, run: str | None) -> None:
        """A veto that is forgiven is none any more, and no other call in this run or another is better off."""
        self.loop(made, "x", run, 3, is_compacted=False)
        ruling = self.guard.check(Batch([made], run))
        if ruling.refused:
            counts = self._counts(exclude=(made.name, made.key))
            self.guard.forgive(ruling.findings[0])
            assert not self.guard.check(Batch([made], run)).refused
            assert self._counts(exclude=(made.name, made.key)) == counts

    @rule()
    def restore(self) -> None:
        """Nobody can tell a guard that was restored from the one that was put away."""
        snapshots = [json.loads(json.dumps(guard.snapshot())) for guard in (self.guard, self.after_compaction)]
        self.guard = RollingHistoryGuard(self.settings, str)
        self.after_compaction = PostCompactionGuard(self.settings, str)
        self.guard.restore(snapshots[0])
        self.after_compaction.restore(snapshots[1])

    @invariant()
    def nothing_grows_without_end(self) -> None:
        assert len(self.guard.history.records) <= max(int(str(block.get("historySize"))) for block in BLOCKS)
        assert len(self.guard.buckets.reported) <= MAX_LOOP_WARNING_KEYS
        assert 0 <= self.after_compaction.remaining <= self.after_compaction.window

    def _detect(self, made: Call, run: str | None) -> Action | None:
        """What the detectors alone say of a call."""
        args = None if made.fidelity == "none" else args_of(made.key)
        if args is None:
            return None
        history = self.guard.history.of_run(run_of(run))
        loop = detect(history, made.name or "", args, is_poll(made), limits_of(self.settings))
        return None if loop is None else Action.BLOCK if loop.is_critical else Action.WARN

    def _identified(self, batch: list[Call], admitted: list[int]) -> int:
        return sum(batch[index].fidelity != "none" for index in admitted)

    def _size(self, before: int, recorded: int) -> int:
        """The most records there may be: a longer history of earlier settings stays until something is recorded."""
        return limits_of(self.settings).history_size if recorded else before

    def _counts(self, exclude: tuple[object, object]) -> Counter[object]:
        """How often each call came in each run, and the length of its streak; but for one call."""
        counts: Counter[object] = Counter()
        for record in self.guard.history.records:
            if record.args is None or (record.tool, record.args) == exclude or str(record.args).startswith("forgiven"):
                continue
            of = (record.run, record.tool, record.args)
            history = self.guard.history.of_run(record.run)
            counts["streak", of] = no_progress_streak(of_call(history, record.tool, record.args)).count
            counts["recent", of] = len(of_call(history, record.tool, record.args))
        return counts


Machine.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRollingGuards = Machine.TestCase
