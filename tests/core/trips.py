"""Every rule of every guard, and a turn that trips it: what is told of it and how to get past it is tested by these."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import turnguard.core
from tests.build import call, calls, distinct, raw, results, same, session
from turnguard.core.session import SessionGuard
from turnguard_protocol.events import Compacted, Event, Facts, Result, StepFinished, Text, Thought, TurnStarted
from turnguard_protocol.verdicts import Action, Verdict

Sections = dict[str, dict[str, Any]]

CAP = "model.maxToolCallsPerTurn"
GATE = "model.skipLoopDetection"
FAILURES = "turnguard.repeatedFailures"
BUDGET = "loopShield.maxConsecutiveTools"
PROGRESS = "turnguard.progress.action"
ROLLING = "tools.loopDetection"


class Trip(NamedTuple):
    """A turn that trips a rule at its last event, each event a record of its own.

    `governs`: the setting that governs the rule. `fact`: a part of what the person must be told. `again`: what trips it
    once more, or what the person wants to go on with; `stays`: what that is answered when nobody overrides anything.
    """

    loop_type: str
    reason: str | None
    action: Action
    settings: Sections
    events: Sequence[Event]
    governs: str | None
    fact: str
    again: Event
    stays: Action = Action.HALT

    @property
    def id(self) -> str:
        of = "stream" if "stream" in str(self.settings) else "rolling" if "tools" in self.settings else None
        return " ".join(filter(None, (self.loop_type, self.reason, self.action, of)))

    def play(self, **more: Any) -> tuple[SessionGuard, Verdict]:
        """The session after the turn, and its last verdict. `more`: settings of turnguard besides."""
        sections = {**self.settings, "turnguard": {**self.settings.get("turnguard", {}), **more}}
        guarded = session(**sections)
        verdict = guarded.record([TurnStarted("t")])
        for event in self.events:
            verdict = guarded.record([event])
        return guarded, verdict


# --- events -----------------------------------------------------------------------------------------------------------


def ran(times: int, name: str = "read", args: Any = None, output: Any = "same", error: Any = None) -> list[Event]:
    """A call and what came of it, so many times; each a step of its own."""
    given = raw({} if args is None else args)
    succeeded, failed = (
        Result(name=name, args=given, output=raw(output)),
        Result(name=name, args=given, error=raw(error)),
    )
    return [calls(call(name, args)), results(succeeded if error is None else failed), StepFinished()] * times


def failed(steps: int) -> list[Event]:
    """Steps with one failing execution each."""
    return [
        event
        for n in range(steps)
        for event in (
            calls(call("build", {"n": n}, f"call-{n}")),
            results(Result(id=f"call-{n}", ok=False, error_type="execution")),
            StepFinished(),
        )
    ]


def replayed(*ids: str) -> list[Event]:
    """Calls that were answered, and each of them again under its id."""
    first = [
        event
        for call_id in ids
        for event in (calls(call("edit", {}, call_id)), results(Result(call_id, ok=True)), StepFinished())
    ]
    return [*first, *(calls(call("edit", {}, call_id)) for call_id in ids)]


def varied(times: int, name: str, error: Any = None) -> list[Event]:
    """Calls of one tool, each with arguments of its own, and an output of its own unless all fail in the same way."""
    return [event for n in range(times) for event in ran(1, name, {"n": n}, f"answer {n}", error)]


# --- settings ---------------------------------------------------------------------------------------------------------

OPEN: Sections = {"model": {"skipLoopDetection": False, "maxToolCallsPerTurn": 0}}
STREAM: Sections = {"turnguard": {"turnGuard": "stream"}}
BY_CALL: Sections = {"turnguard": {"admission": "call"}}
HALTING: Sections = {"turnguard": {"progress": {"action": "halt"}}}


def rolling(warning: int = 2, critical: int = 3, max_blocks: int = 0, **more: Any) -> Sections:
    thresholds = {"warningThreshold": warning, "criticalThreshold": critical}
    block = {"enabled": True, "unknownToolThreshold": 2, **thresholds, **more}
    return {"tools": {"loopDetection": block}, "turnguard": {"maxBlocksPerTurn": max_blocks}}


def shield(budget: int = 2, **more: Any) -> Sections:
    return {"loopShield": {"enabled": True, "maxConsecutiveTools": budget, **more}}


STATES = {"states": {"A": ["read"], "B": ["ask"]}, "fallbackState": "B"}

# --- the rules --------------------------------------------------------------------------------------------------------

READ = calls(call("read"))
A, B = ran(1, "read"), ran(1, "edit")
CHANT = Text("We look at the file once more. " * 12)
GIT = [calls(call("run_shell_command", {"command": f"git diff HEAD~{n}"})) for n in range(8)]
THOUGHT = Thought("Plan", "look again")
REJECTED = results(*[Result(name="edit", error_type="invalid_params")] * 3)
NEARLY_STUCK = [distinct(94), *ran(5, "grep", {"q": 1}), distinct(1, 500)]
POLLS = ran(3, "process", {"action": "poll"})
POLL = calls(call("process", {"action": "poll"}))
UNKNOWN = ran(2, "edti", error="Unknown tool: edti")
UNSEEN = [calls(call("shell", facts=Facts(blind=True))), results(Result(name="shell", args=raw({}))), StepFinished()]
NO_DETECTORS: dict[str, Any] = {"detectors": {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False}}

HALT, BLOCK, RESTRICT, WARN, ALLOW = Action.HALT, Action.BLOCK, Action.RESTRICT, Action.WARN, Action.ALLOW

TURN_TRIPS = (
    Trip(
        "turn_tool_call_cap",
        "explicit_cap",
        HALT,
        {"model": {"maxToolCallsPerTurn": 3}},
        [distinct(4)],
        CAP,
        "model.maxToolCallsPerTurn is 3.",
        distinct(4),
    ),
    Trip(
        "turn_tool_call_cap",
        "stuck",
        HALT,
        {},
        [same(6), distinct(94), distinct(4, 100)],
        CAP,
        'past 100 calls a turn must not repeat itself, and "grep" came 6 times',
        distinct(4, 100),
    ),
    Trip(
        "turn_tool_call_cap",
        "backstop",
        HALT,
        {},
        [distinct(1000), distinct(4, 1000)],
        CAP,
        "every turn while none is set: 1000 calls",
        distinct(4, 1000),
    ),
    Trip(
        "turn_tool_call_cap",
        "explicit_cap",
        BLOCK,
        {"model": {"maxToolCallsPerTurn": 5}, **BY_CALL},
        [distinct(3), distinct(4, 3)],
        CAP,
        "model.maxToolCallsPerTurn is 5.",
        distinct(2, 5),
    ),
    Trip(
        "turn_tool_call_cap",
        "stuck",
        BLOCK,
        BY_CALL,
        [*NEARLY_STUCK, calls(call("x"), call("grep", {"q": 1}), call("y"))],
        CAP,
        "past 100 calls a turn must not repeat itself",
        same(1),
    ),
    Trip(
        "turn_tool_call_cap",
        "backstop",
        BLOCK,
        BY_CALL,
        [distinct(999), distinct(4, 999)],
        CAP,
        "every turn while none is set: 1000 calls",
        distinct(3, 1000),
    ),
    Trip(
        "turn_tool_call_cap",
        "explicit_cap",
        HALT,
        {"model": {"maxToolCallsPerTurn": 3}, **STREAM},
        [distinct(4)],
        CAP,
        "model.maxToolCallsPerTurn is 3.",
        distinct(4),
    ),
    Trip(
        "global_tool_call_duplicate",
        None,
        HALT,
        OPEN,
        [same(2), same(4)],
        GATE,
        '"grep" was called 6 times in this turn with the same arguments',
        same(4),
    ),
    Trip(
        "global_tool_call_duplicate",
        None,
        HALT,
        OPEN | STREAM,
        [event for n in range(6) for event in (same(1), calls(call("x", {"n": n}), call("y", {"n": n})))][:-1],
        GATE,
        '"grep" was called 6 times in this turn with the same arguments',
        same(1),
    ),
    Trip(
        "global_tool_call_duplicate",
        "replayed_call_id",
        HALT,
        {},
        [*replayed("a"), calls(call("edit", {}, "a"))],
        None,
        'a call of "edit" that was already answered came again under its old id',
        distinct(1),
    ),
    Trip(
        "global_tool_call_duplicate",
        "replayed_call_id",
        BLOCK,
        {},
        replayed("a"),
        None,
        'a call of "edit" that was already answered came again under its old id',
        distinct(1),
        ALLOW,
    ),
    Trip(
        "invalid_tool_params_stagnation",
        None,
        HALT,
        {},
        [REJECTED],
        None,
        '3 calls of "edit" were rejected: no such tool, or wrong parameters',
        results(Result(name="edit", error_type="invalid_params")),
    ),
    Trip(
        "consecutive_identical_tool_calls",
        None,
        HALT,
        STREAM,
        [same(1)] * 5,
        None,
        '"grep" was called 5 times in a row with the same arguments',
        same(1),
    ),
    Trip(
        "shell_command_stagnation",
        None,
        HALT,
        STREAM,
        GIT,
        None,
        "8 shell commands in a row only looked at the state of the git repository",
        GIT[0],
    ),
    Trip(
        "alternating_tool_call_pattern",
        None,
        HALT,
        OPEN | STREAM,
        [same(1, "read"), same(1, "edit")] * 3,
        GATE,
        'two calls, of "edit" and of "read", alternated 3 times',
        same(1, "read"),
    ),
    Trip(
        "read_file_loop",
        None,
        HALT,
        OPEN | STREAM,
        [*(calls(call(f"read_{n}")) for n in range(8)), same(1)],
        GATE,
        "8 of the last 15 calls only read",
        calls(call("read_9")),
    ),
    Trip(
        "action_stagnation",
        None,
        HALT,
        OPEN | STREAM,
        [distinct(8)],
        GATE,
        '"read_file" was called 8 times in a row',
        distinct(1, 9),
    ),
    Trip(
        "chanting_identical_sentences",
        None,
        HALT,
        OPEN | STREAM,
        [CHANT],
        GATE,
        "the model wrote the same passage 10 times",
        Text("We look at the file once more. "),
    ),
    Trip(
        "repetitive_thoughts",
        None,
        HALT,
        OPEN | STREAM,
        [THOUGHT] * 3,
        GATE,
        "the model had the same thought 3 times in a row",
        THOUGHT,
    ),
)

FAILURE_TRIPS = tuple(
    Trip(
        "repeated_tool_execution_failure",
        reason,
        action,
        {"turnguard": {"repeatedFailures": mode}},
        failed(steps),
        FAILURES,
        f'"build" failed {steps} times with the same kind of error',
        calls(call("build")),
        HALT if action is HALT else ALLOW,
    )
    for reason, action, mode, steps in (
        ("would_warn", ALLOW, "shadow", 8),
        ("warn", WARN, "warn", 8),
        ("would_stop", ALLOW, "warn", 9),
        ("stop", HALT, "enforce", 9),
    )
)

ROLLING_TRIPS = (
    Trip(
        "generic_repeat",
        "warning",
        WARN,
        rolling(),
        [*ran(2), READ],
        f"{ROLLING}.warningThreshold",
        '"read" was called 2 times with the same arguments',
        READ,
        WARN,
    ),
    Trip(
        "generic_repeat",
        "critical",
        BLOCK,
        rolling(),
        [*ran(3), READ],
        f"{ROLLING}.criticalThreshold",
        '"read" was called 3 times with the same arguments',
        READ,
        BLOCK,
    ),
    Trip(
        "known_poll_no_progress",
        "warning",
        WARN,
        rolling(),
        [*POLLS[:6], POLL],
        f"{ROLLING}.warningThreshold",
        '"process" was asked 2 times and nothing had changed',
        POLL,
        WARN,
    ),
    Trip(
        "known_poll_no_progress",
        "critical",
        BLOCK,
        rolling(),
        [*POLLS, POLL],
        f"{ROLLING}.criticalThreshold",
        '"process" was asked 3 times and nothing had changed',
        POLL,
        BLOCK,
    ),
    Trip(
        "ping_pong",
        "warning",
        WARN,
        rolling(3, 4),
        [*A, *B, READ],
        f"{ROLLING}.warningThreshold",
        'two calls, of "read" and of "edit", alternated, 3 calls in all',
        READ,
        ALLOW,
    ),
    Trip(
        "ping_pong",
        "critical",
        BLOCK,
        rolling(3, 4),
        [*A, *B, *A, calls(call("edit"))],
        f"{ROLLING}.criticalThreshold",
        'two calls, of "edit" and of "read", alternated, 4 calls in all',
        calls(call("edit")),
        BLOCK,
    ),
    Trip(
        "unknown_tool_repeat",
        "critical",
        BLOCK,
        rolling(5, 6),
        [*UNKNOWN, calls(call("edti", {"other": 1}))],
        f"{ROLLING}.unknownToolThreshold",
        '"edti" does not exist and was called 2 times',
        calls(call("edti", {"other": 1})),
        BLOCK,
    ),
    Trip(
        "global_circuit_breaker",
        "critical",
        BLOCK,
        rolling(globalCircuitBreakerThreshold=4, **NO_DETECTORS),
        [*ran(4), READ],
        f"{ROLLING}.globalCircuitBreakerThreshold",
        '"read" was called 4 times with the same arguments and the same result',
        READ,
        BLOCK,
    ),
    Trip(
        "compaction_loop_persisted",
        None,
        HALT,
        {},
        [Compacted(), *ran(3)[:-1]],
        f"{ROLLING}.postCompactionGuard.windowSize",
        'after the context was compacted "read" was called 3 times with the same arguments and the same result',
        READ,
    ),
)

BUDGET_TRIPS = (
    Trip(
        "tool_call_budget",
        "exhausted",
        RESTRICT,
        shield(),
        [distinct(3), StepFinished()],
        BUDGET,
        "2 tool calls came in a row, and the budget is 2",
        distinct(1, 5),
        RESTRICT,
    ),
    Trip(
        "tool_call_budget",
        "fallback",
        RESTRICT,
        shield(**STATES),
        [distinct(2), StepFinished()],
        BUDGET,
        "2 tool calls came in a row, and the budget is 2",
        distinct(1, 5),
        ALLOW,
    ),
    Trip(
        "tool_call_budget",
        "exhausted",
        BLOCK,
        shield(admission="call"),
        [distinct(4)],
        BUDGET,
        "2 tool calls came in a row, and the budget is 2",
        distinct(2, 2),
        BLOCK,
    ),
    Trip(
        "tool_call_budget",
        "exhausted",
        WARN,
        shield(mode="repeated"),
        [calls(call("a"), call("a"), call("b")), StepFinished()],
        BUDGET,
        "the budget is 2",
        distinct(1, 5),
        ALLOW,
    ),
)

PROGRESS_TRIPS = tuple(
    Trip(
        "no_new_evidence",
        reason,
        action,
        HALTING if action is HALT else {},
        events,
        PROGRESS,
        fact,
        events[-3],
        HALT if action is HALT else ALLOW,
    )
    for reason, action, events, fact in (
        ("call", WARN, ran(4), '"read" has now given this same result 4 times in the last 20 calls'),
        ("call", HALT, ran(5), '"read" has now given this same result 5 times in the last 20 calls'),
        ("edit", WARN, ran(4, "Edit"), "This same edit has been made 4 times"),
        ("edit", HALT, ran(5, "Edit"), "This same edit has been made 5 times"),
        ("error", WARN, varied(5, "read", error="no"), '5 calls of "read" failed with the same error'),
        ("error", HALT, varied(8, "read", error="no"), '8 calls of "read" failed with the same error'),
        ("final", WARN, varied(5, "finish"), '"finish" has been sent 5 times'),
        ("final", HALT, varied(8, "finish"), '"finish" has been sent 8 times'),
        ("blind", WARN, UNSEEN * 8, '"shell" was called 8 times in a row with the same arguments'),
        ("blind", HALT, UNSEEN * 15, "and this agent does not show results"),
    )
)

LIMIT_TRIPS = (
    Trip(
        "max_blocks_per_turn",
        None,
        HALT,
        rolling(max_blocks=2),
        [*ran(3), READ, READ],
        "turnguard.maxBlocksPerTurn",
        "2 responses of this turn asked for calls that may not run",
        READ,
    ),
    Trip(
        "max_blocks_per_turn",
        None,
        HALT,
        {"turnguard": {"maxBlocksPerTurn": 3}},
        replayed("a", "b", "c"),
        "turnguard.maxBlocksPerTurn",
        "3 responses of this turn asked for calls that may not run",
        distinct(1),
    ),
    Trip(
        "max_steps_per_turn",
        None,
        HALT,
        {"turnguard": {"maxStepsPerTurn": 2}},
        [*ran(1, "a"), *ran(1, "b"), READ],
        "turnguard.maxStepsPerTurn",
        "the turn came to 3 steps, and it may take 2",
        READ,
    ),
)

TRIPS = (*TURN_TRIPS, *FAILURE_TRIPS, *ROLLING_TRIPS, *BUDGET_TRIPS, *PROGRESS_TRIPS, *LIMIT_TRIPS)

REFUSALS = tuple(trip for trip in TRIPS if trip.action in (HALT, BLOCK, RESTRICT))
"""Those that keep something from running."""


# --- what there is in the source --------------------------------------------------------------------------------------


def core_modules() -> Iterator[ModuleType]:
    """Every module of the core."""
    for found in pkgutil.walk_packages(turnguard.core.__path__, "turnguard.core."):
        yield importlib.import_module(found.name)


def loop_types_in_source() -> set[str]:
    """Every loop type that some line of the core puts into a finding or into a loop a finding is made of.

    Those are the values of `loop_type=`, and the first arguments of whatever takes `loop_type` first.
    """
    trees = {module: ast.parse(Path(str(module.__file__)).read_text("utf-8")) for module in core_modules()}
    makers = {name for tree in trees.values() for name in _makers(tree)}
    found: set[str] = set()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                given = [keyword.value for keyword in node.keywords if keyword.arg == "loop_type"]
                if isinstance(node.func, ast.Name) and node.func.id in makers:
                    given += node.args[:1]
                found |= {text for value in given if (text := _text(module, value)) is not None}
    return found


def _makers(tree: ast.AST) -> Iterator[str]:
    """The functions whose first parameter is `loop_type`, and the Structs whose first field is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if [parameter.arg for parameter in node.args.args[:1]] == ["loop_type"]:
                yield node.name
        elif isinstance(node, ast.ClassDef):
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            if fields and isinstance(fields[0], ast.Name) and fields[0].id == "loop_type":
                yield node.name


def _text(module: ModuleType, value: ast.expr) -> str | None:
    """A constant of the module, or a text as it stands; None for anything that is only known at run time."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.Name) and value.id.isupper():
        return getattr(module, value.id)
    return None
