"""Suites rolling, post_compaction and outcome_hash: OpenClaw's loop detection, by its guards and over a session.

An event with `n` stands for n of them, and `{i}` in its strings for the number of each. `expect` has one entry for each
of those; `{"n": k, "e": value}` stands for k equal ones.

In a session the config is what the client set, the agent's block under `agents.list`; one that strict validation does
not let a client set is said in other words. A call is a step: a batch of one, and where it may run its result, by the
id of the call; `run` is the `runId` of both. What a session does not tell, it is not asked for: the state of a guard
that says nothing, and the classes of hashes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from tests.conformance.cases import Case, Mismatch, Op, raw
from tests.conformance.sessions import ALONE, NO_CAP, LocalSession, OpenSession
from turnguard.core.guard import Batch
from turnguard.core.outcome import rolling_outcome, unknown_tool_name
from turnguard.core.rolling.calls import run_of
from turnguard.core.rolling.config import limits_of, merge, resolve_loop_detection, validate_loop_detection
from turnguard.core.rolling.detectors import detect
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard.core.rolling.identity import is_poll_call, outcome_action, rolling_arguments_hash, rolling_tool_name
from turnguard.core.rolling.post_compaction import PostCompactionGuard
from turnguard.core.turn.counter import counted
from turnguard_protocol.events import (
    Call,
    Compacted,
    Facts,
    Keys,
    Outcomes,
    Result,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Verdict

INDEX = "{i}"


def play_rolling(case: Case) -> Iterator[Mismatch]:
    """Plays a case of suite rolling: the guard by itself, and a session where the wire could say it."""
    yield from _compare(case, Rolling(case.config).answer)
    if is_rolling_sayable(case):
        yield from replay_rolling(case, LocalSession)


def is_rolling_sayable(case: Case) -> bool:
    """Whether the case can be said on the wire: calls of one session."""
    return _is_said(case, frozenset({"call", "set"}))


def replay_rolling(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case of suite rolling in a session, and compares the decisions."""
    yield from _compare(case, SessionScript(case.config, open_session).decide)


def play_post_compaction(case: Case) -> Iterator[Mismatch]:
    """Plays a case of suite post_compaction: the guard by itself, and a session where the wire could say it."""
    yield from _compare(case, PostCompaction(case.config).answer)
    if is_post_compaction_sayable(case):
        yield from replay_post_compaction(case, LocalSession)


def is_post_compaction_sayable(case: Case) -> bool:
    """Whether the case can be said on the wire: calls, compactions and runs."""
    return _is_said(case, frozenset({"call", "arm", "new_run", "set"}))


def replay_post_compaction(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case of suite post_compaction in a session, and compares what ends the run or refuses a call."""
    yield from _compare(case, SessionScript(case.config, open_session).watch, _is_told)


def play_outcome_hash(case: Case) -> Iterator[Mismatch]:
    """Plays a case of suite outcome_hash."""
    yield from _compare(case, OutcomeHash().answer)


def is_outcome_hash_sayable(case: Case) -> bool:
    """Whether the case can be said on the wire."""
    return _is_said(case, frozenset({"call"}))


def replay_outcome_hash(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Tells a session of the calls of suite outcome_hash; all run, and that is all it says of them."""
    script = SessionScript({}, open_session)
    for index, op in enumerate(performed(case.events)):
        got = script.decide(op)
        if got != "ok":
            yield Mismatch(index, "ok", got)


# --- the shorthand of the files ---------------------------------------------------------------------------------------


def performed(events: Iterable[Op]) -> Iterator[Op]:
    """Each event as often as it is performed."""
    for op in events:
        for index in range(int(op.get("n", 1))):
            yield _numbered(op, str(index))


def expanded(expect: Iterable[Any]) -> Iterator[Any]:
    """One expectation for each event that is performed."""
    return chain.from_iterable(
        repeat(entry["e"], int(entry["n"])) if isinstance(entry, dict) and entry.keys() == {"n", "e"} else [entry]
        for entry in expect
    )


def _numbered(value: Any, index: str) -> Any:
    if isinstance(value, str):
        return value.replace(INDEX, index)
    if isinstance(value, dict):
        return {name: _numbered(member, index) for name, member in value.items()}
    if isinstance(value, list):
        return [_numbered(item, index) for item in value]
    return value


def _whole(expected: Any) -> Any:
    return expected


def _is_told(expected: Any) -> Any:
    """What of a guard's state a session tells: that it ended the run, or that the call was refused before it."""
    return expected if isinstance(expected, list) and expected[0] in ("abort", "blocked") else None


def _compare(case: Case, answer: Callable[[Op], Any], seen: Callable[[Any], Any] = _whole) -> Iterator[Mismatch]:
    for index, (op, expected) in enumerate(zip(performed(case.events), expanded(case.expect), strict=True)):
        got = answer(op)
        if got != seen(expected):
            yield Mismatch(index, seen(expected), got)


def _output_of(op: Op) -> Raw | UnsetType:
    """The result of a call; UNSET: there is none."""
    if "result" in op:
        return raw(op["result"])
    output: dict[str, Any] = {}
    if "text" in op:
        output["content"] = [{"type": "text", "text": op["text"]}]
    if "details" in op:
        output["details"] = op["details"]
    return raw(output) if output else UNSET


class Identified:
    """What is known of a call and its outcome without their content; the tool's name is taken as it stands."""

    def __init__(self, op: Op, tool: str) -> None:
        args = raw(op.get("args", {}))
        error = raw(op["error"]) if "error" in op else UNSET
        self.args = rolling_arguments_hash(tool, args)
        self.is_poll = is_poll_call(tool, args)
        self.outcome = rolling_outcome(tool, outcome_action(tool, args), _output_of(op), error)
        self.unknown_tool = None if error is UNSET else unknown_tool_name(error)


# --- the suites -------------------------------------------------------------------------------------------------------


def _settings(config: dict[str, Any]) -> SettingsInForce:
    return SettingsInForce(
        max_tool_calls_per_turn=None,
        is_cap_explicit=False,
        skip_loop_detection=True,
        turn_guard="batch",
        repeated_failures="off",
        loop_detection=resolve_loop_detection(config.get("global"), config.get("agent")),
    )


class GuardedCall:
    """A call as an event carries it, and its result."""

    def __init__(self, op: Op, call_id: str | None) -> None:
        known = Identified(op, rolling_tool_name(op["tool"]))
        self.run: str | None = op.get("run")
        self.call = Call(op["tool"], call_id, key=Keys("", known.args), facts=Facts(poll=known.is_poll))
        self.batch = Batch([self.call], self.run)
        self.result = Result(
            call_id,
            op["tool"],
            key=self.call.key,
            outcome=Outcomes(rolling=known.outcome),
            facts=Facts(unknown_tool=known.unknown_tool),
        )
        self.results = ToolResults([self.result], self.run)
        self.args = counted(known.args)
        self.is_poll = known.is_poll


class Rolling:
    """The sessions of a script, each with its own history, and the settings that hold for all."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.settings = _settings(config)
        self.guards: dict[str, RollingHistoryGuard] = {}
        self.calls = 0

    def answer(self, op: Op) -> Any:
        """What the guard says to one event of the script."""
        guard = self.guards.setdefault(op.get("session", "main"), RollingHistoryGuard(self.settings))
        guard.configure(self.settings)
        match op.get("op", "call"):
            case "call":
                return self._call(guard, op)
            case "check":
                return self._look(guard, GuardedCall(op, None))
            case "record":
                return self._record(guard, GuardedCall(op, op.get("id")))
            case "outcome":
                return self._settle(guard, GuardedCall(op, op.get("id")))
            case "set":
                self.settings = _settings(op["config"])
                return "ok"
            case "size":
                return len(guard.history.records)
            case "resolve":
                return _resolved(self.settings)
            case "validate":
                paths = validate_loop_detection(op["block"])
                return {"ok": not paths, "paths": paths}
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")

    def _call(self, guard: RollingHistoryGuard, op: Op) -> Any:
        self.calls += 1
        guarded = GuardedCall(op, op.get("id", f"call-{self.calls}"))
        ruling = guard.check(guarded.batch)
        if not ruling.refused:
            guard.commit(guarded.batch, [0])
            guard.receive(guarded.results)
        return _decision(ruling.findings[0]) if ruling.findings else "ok"

    def _look(self, guard: RollingHistoryGuard, guarded: GuardedCall) -> Any:
        history = guard.history.of_run(run_of(guarded.run))
        tool = rolling_tool_name(guarded.call.name or "")
        loop = detect(history, tool, guarded.args, guarded.is_poll, limits_of(self.settings))
        if loop is None:
            return "ok"
        level = "critical" if loop.is_critical else "warning"
        paired = [] if loop.paired_tool is None else [loop.paired_tool]
        return [level, loop.loop_type, loop.count, None, *paired]

    def _record(self, guard: RollingHistoryGuard, guarded: GuardedCall) -> str:
        """Records a call even where loop detection is switched off."""
        limits = replace(limits_of(self.settings), enabled=None)
        guard.configure(replace(self.settings, loop_detection=limits))
        guard.commit(guarded.batch, [0])
        guard.configure(self.settings)
        guard.receive(guarded.results)
        return "ok"

    def _settle(self, guard: RollingHistoryGuard, guarded: GuardedCall) -> str:
        """An outcome that no call waited for is the newest record now."""
        before = guard.history.records[-1:]
        guard.receive(guarded.results)
        if guarded.result.outcome == Outcomes():
            return "none"
        return "matched" if before and guard.history.records[-1] is before[0] else "appended"


def _resolved(settings: SettingsInForce) -> Any:
    limits = limits_of(settings)
    return {
        "enabled": limits.enabled is True,
        "historySize": limits.history_size,
        "warningThreshold": limits.warning_threshold,
        "unknownToolThreshold": limits.unknown_tool_threshold,
        "criticalThreshold": limits.critical_threshold,
        "globalCircuitBreakerThreshold": limits.global_circuit_breaker_threshold,
        "detectors": {
            "genericRepeat": limits.generic_repeat,
            "knownPollNoProgress": limits.known_poll_no_progress,
            "pingPong": limits.ping_pong,
        },
        "guardEnabled": limits.enabled is not False,
        "windowSize": limits.post_compaction_window_size,
    }


def _decision(finding: Finding) -> list[Any]:
    paired = [] if finding.paired_tool is UNSET else [finding.paired_tool]
    return [finding.reason, finding.loop_type, finding.count, int(finding.fresh), *paired]


class PostCompaction:
    """A run and its guard, beside the rolling history."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.rolling = RollingHistoryGuard(_settings(config))
        self.guard = PostCompactionGuard(_settings(config))
        self.calls = 0

    def answer(self, op: Op) -> Any:
        """What the guard says to one event of the script."""
        match op.get("op", "call"):
            case "call":
                return self._call(op)
            case "observe":
                was_armed = self.guard.remaining > 0
                return self._state(was_armed, self.guard.observe(op["tool"], op["a"], op["r"]))
            case "arm":
                self.guard.receive(Compacted())
                return ["armed", self.guard.remaining] if self.guard.window else "off"
            case "new_run":
                self.guard.receive(TurnStarted())
                return "ok"
            case "set":
                self.guard.configure(_settings(op["config"]))
                self.rolling.configure(_settings(op["config"]))
                return "ok"
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")

    def _call(self, op: Op) -> Any:
        self.calls += 1
        guarded = GuardedCall(op, op.get("id", f"call-{self.calls}"))
        ruling = self.rolling.check(guarded.batch)
        if ruling.refused:
            return ["blocked", ruling.findings[0].loop_type, ruling.findings[0].count]
        was_armed = self.guard.remaining > 0
        self.rolling.commit(guarded.batch, [0])
        self.guard.commit(guarded.batch, [0])
        self.rolling.receive(guarded.results)
        findings = self.guard.receive(guarded.results)
        if guarded.result.outcome == Outcomes():
            return "unseen"
        return self._state(was_armed, findings[0] if findings else None)

    def _state(self, was_armed: bool, finding: Finding | None) -> Any:
        if finding is not None:
            return ["abort", finding.count, finding.tool]
        if self.guard.remaining:
            return ["armed", self.guard.remaining]
        return "closed" if was_armed else "idle"


class OutcomeHash:
    """Hashes are numbered in the order in which they first appear."""

    def __init__(self) -> None:
        self.args: dict[str, int] = {}
        self.outcomes: dict[str, int] = {}

    def answer(self, op: Op) -> Any:
        """The classes of one call's arguments and outcome, and the tool that its error says does not exist."""
        known = Identified(op, op["tool"])
        outcome = None if known.outcome is None else self.outcomes.setdefault(known.outcome, len(self.outcomes))
        return [self.args.setdefault(known.args, len(self.args)), outcome, known.unknown_tool]


# --- over a session ---------------------------------------------------------------------------------------------------

AGENT = "agent"
CRITICAL = "criticalThreshold"


def _is_said(case: Case, ops: frozenset[str]) -> bool:
    return all(op.get("op", "call") in ops and "session" not in op and "id" not in op for op in case.events)


def _client_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a case as a client's settings, with the other guards out of the way."""
    settings: dict[str, Any] = {"model": NO_CAP, "turnguard": ALONE}
    blocks = {name: config[name] for name in ("global", "agent") if name in config}
    if any(map(validate_loop_detection, blocks.values())):
        blocks = _respelled(blocks)
    if "global" in blocks:
        settings["tools"] = {"loopDetection": blocks["global"]}
    if "agent" in blocks:
        settings["agents"] = {"list": [{"id": AGENT, "tools": {"loopDetection": blocks["agent"]}}]}
    return settings


def _respelled(blocks: dict[str, Any]) -> dict[str, Any]:
    """The same for a config that a client may not send, in a form that it may send and that comes to the same.

    A value that is no good runs as if it were absent. The order of thresholds is asked of each block by itself: with
    one of them in the agent's block the daemon puts them in order itself, when it runs.
    """
    given = [block if isinstance(block := blocks.get(name), dict) else {} for name in ("global", "agent")]
    whole = _sound(merge(*given))
    return {
        "global": {name: value for name, value in whole.items() if name != CRITICAL},
        "agent": {name: value for name, value in whole.items() if name == CRITICAL},
    }


def _sound(block: Mapping[str, Any], section: str | None = None) -> dict[str, Any]:
    """What of a merged block, or of a section of one, is good by itself."""
    sound: dict[str, Any] = {}
    for name, value in block.items():
        if section is None and isinstance(value, dict):
            sound[name] = _sound(value, name)
        elif not validate_loop_detection({name: value} if section is None else {section: {name: value}}):
            sound[name] = value
    return sound


class SessionScript:
    """A script as it is told to a session of the agent."""

    def __init__(self, config: dict[str, Any], open_session: OpenSession) -> None:
        self.session = open_session({}, AGENT)
        self.session.configure(_client_settings(config))
        self.session.record(TurnStarted())
        self.calls = 0

    def decide(self, op: Op) -> Any:
        """The decision on a call, which then runs if it may."""
        if self._tell(op):
            return "ok"
        finding, _ = self._call(op)
        return "ok" if finding is None else _decision(finding)

    def watch(self, op: Op) -> Any:
        """What ended the run, or refused the call. A script goes on after that."""
        if self._tell(op):
            return None
        refusal, halt = self._call(op)
        if halt is not None:
            self.session.go_on()
            return ["abort", halt.count, halt.tool]
        if refusal is not None and refusal.action is Action.BLOCK:
            return ["blocked", refusal.loop_type, refusal.count]
        return None

    def _tell(self, op: Op) -> bool:
        """Tells of an event that is no call; whether it is one."""
        match op.get("op", "call"):
            case "call":
                return False
            case "set":
                self.session.configure(_client_settings(op["config"]))
            case "arm":
                self.session.record(Compacted())
            case "new_run":
                self.session.record(TurnStarted())
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")
        return True

    def _call(self, op: Op) -> tuple[Finding | None, Finding | None]:
        """Tells of a call and, where it may run, of its result; what is said of the one and of the other."""
        self.calls += 1
        call_id, run = f"call-{self.calls}", op.get("run")
        asked = self.session.record(ToolCalls([Call(op["tool"], call_id, raw(op.get("args", {})))], run))
        finding = _only(asked, RollingHistoryGuard.name)
        is_refused = finding is not None and finding.action is Action.BLOCK
        if asked.admitted != ([] if is_refused else [0]):
            raise AssertionError(f"admitted {asked.admitted} with {asked.action.value}")
        if is_refused:
            self.session.record(StepFinished())
            return finding, None
        result = Result(call_id, output=_output_of(op), error=raw(op["error"]) if "error" in op else UNSET)
        answered = self.session.record(ToolResults([result], run), StepFinished())
        return finding, _only(answered, PostCompactionGuard.name)


def _only(verdict: Verdict, guard: str) -> Finding | None:
    """What one guard says; nobody else says anything."""
    if any(finding.guard != guard for finding in verdict.findings) or len(verdict.findings) > 1:
        raise AssertionError(f"findings of {[finding.guard for finding in verdict.findings]}")
    return verdict.findings[0] if verdict.findings else None
