"""Suite loopshield: budgets of consecutive tool calls, as a state machine and as a guard.

These cases name no suite: they are the ones whose config has `shield`. Where building the machine must fail, `expect`
is an object with a `config_error`, here in `Case.config_error`, and there are no events.

As a guard a step is a batch and its end, and of what happened it tells the loops, in its fresh findings; moves are seen
by the state. What only the Python API has, asynchronous transitions, guards that say no and snapshots, is played on
the machine alone.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Case, Mismatch, Op, compare
from turnguard.core.budget.errors import BudgetError
from turnguard.core.budget.guard import LoopShieldGuard
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard.core.budget.states import Context, StateMachine, TransitionGuard
from turnguard.core.guard import Batch
from turnguard_protocol.events import Call, Event, StateChanged, StepFinished, Text, ToolCalls, TurnStarted
from turnguard_protocol.settings import LoopShieldInForce, SettingsInForce
from turnguard_protocol.verdicts import Finding

IN_PROCESS_ONLY = frozenset({"snapshot", "restore"})
GUARD_ERRORS = frozenset({"guard_blocked", "guard_async"})


def play(case: Case) -> Iterator[Mismatch]:
    """Plays a case in this process: the state machine by itself, and the guard where the wire could say it."""
    expected: Any = case.config_error or None
    try:
        script = Script(case.config)
    except BudgetError as error:
        if error.code != expected:
            yield Mismatch("config", expected, error.code)
        return
    if expected:
        yield Mismatch("config", expected, None)
        return
    yield from compare(case, map(script.answer, case.events))
    if is_sayable(case):
        guarded = GuardScript(case.config)
        for index, (op, answer) in enumerate(zip(case.events, case.expect, strict=True)):
            expected, got = seen(answer), guarded.answer(op)
            if got != expected:
                yield Mismatch(index, expected, got)


def is_sayable(case: Case) -> bool:
    """Whether the case can be said wholly on the wire, where no guard is asked before a move."""
    return (
        not case.config_error
        and case.config["snapshot"] is None
        and all(op["op"] not in IN_PROCESS_ONLY for op in case.events)
        and all(answer["error"] not in GUARD_ERRORS for answer in case.expect)
    )


def settings_of(config: dict[str, Any]) -> LoopShieldInForce:
    """The settings that the config of a case stands for."""
    shield = config["shield"] or {"enabled": False, "max": 1}
    return LoopShieldInForce(
        enabled=shield["enabled"],
        max_consecutive_tools=shield["max"],
        mode=shield.get("mode", "consecutive"),
        fallback_state=shield.get("fallback"),
        initial_state=config["initial"],
        states={state: config["tools"].get(state, []) for state in config["states"]},
    )


def seen(answer: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer that can be seen on the wire."""
    return {key: answer[key] for key in ("error", "state", "tools", "tool_choice", "loops")}


def guard_of(kind: str) -> TransitionGuard | None:
    """The guard that the config of a case names."""
    denied = kind.partition(":")[2] or None
    allows = kind.endswith("allow")

    async def answer_later(source: str, target: str, context: Context) -> bool:
        return allows

    def answer(source: str, target: str, context: Context) -> bool:
        return target != denied if denied else allows

    if kind == "none":
        return None
    return answer_later if kind.startswith("async") else answer


class Script:
    """A script as the state machine plays it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.loops: list[dict[str, int]] = []
        self.transitions: list[list[str]] = []
        self.machine = self._machine(config["snapshot"])

    def answer(self, op: Op) -> dict[str, Any]:
        """What the machine says to one event, and how it stands afterwards."""
        self.loops, self.transitions = [], []
        answer: dict[str, Any] = {"error": None}
        try:
            self._do(op)
        except BudgetError as error:
            answer["error"] = error.code
        if op["op"] == "snapshot":
            answer["value"] = self.machine.snapshot()
        choice, tools = self.machine.prepare()
        return answer | {
            "state": self.machine.state,
            "count": self.machine.shield.count,
            "looping": self.machine.looping,
            "tools": list(tools),
            "tool_choice": choice,
            "loops": self.loops,
            "transitions": self.transitions,
        }

    def _do(self, op: Op) -> None:
        match op["op"]:
            case "step":
                self.machine.step(op["calls"], during=op.get("during"))
            case "register":
                self.machine.register(op["tool"])
            case "transition":
                self.machine.transition(op["to"])
            case "transition_async":
                asyncio.run(self.machine.transition_async(op["to"]))
            case "reset":
                self.machine.reset()
            case "begin":
                self.machine.begin()
            case "restore":
                self.machine = self._machine(self.machine.snapshot())
            case "prepare" | "snapshot":
                pass
            case unknown:
                raise ValueError(f"unknown op {unknown!r}")

    def _machine(self, snapshot: dict[str, Any] | None) -> StateMachine:
        settings = settings_of(self.config)
        return StateMachine(
            settings.states,
            self.config["initial"],
            shield=LoopShield(settings.max_consecutive_tools, settings.mode, enabled=settings.enabled),
            fallback=settings.fallback_state,
            guard=guard_of(self.config["guard"]),
            on_transition=lambda source, target: self.transitions.append([source, target]),
            on_loop=self._hear_loop,
            snapshot=snapshot,
        )

    def _hear_loop(self, trip: Trip) -> None:
        self.loops.append({"consecutiveTools": trip.consecutive_tools, "maxAllowed": trip.max_allowed})


class GuardScript:
    """A script as it is told to the guard."""

    def __init__(self, config: dict[str, Any]) -> None:
        settings = SettingsInForce(None, False, True, "batch", "off", loop_shield=settings_of(config))
        self.guard = LoopShieldGuard(settings)

    def answer(self, op: Op) -> dict[str, Any]:
        """What can be seen of one event."""
        error = None
        findings: list[Finding] = []
        try:
            for event in events_of(op):
                findings += self._tell(event)
        except BudgetError as refusal:
            error = refusal.code
        choice, tools, state = self.guard.next_step()
        loops = [{"consecutiveTools": each.count, "maxAllowed": each.threshold} for each in findings if each.fresh]
        return {"error": error, "state": state, "tools": tools, "tool_choice": choice, "loops": loops}

    def _tell(self, event: Event) -> list[Finding]:
        self.guard.validate(event)
        if type(event) is not ToolCalls:
            return list(self.guard.receive(event))
        batch = Batch(event.calls, "run")
        ruling = self.guard.check(batch)
        self.guard.commit(batch, [index for index in range(len(event.calls)) if index not in ruling.refused])
        return list(ruling.findings)


def events_of(op: Op) -> list[Event]:
    """An event of a script as a host tells it; each is a request of its own, and the first refused one is the last."""
    match op["op"]:
        case "step" | "register":
            calls = [op["tool"]] if op["op"] == "register" else op["calls"]
            asked = ToolCalls([Call(tool) for tool in calls]) if calls else Text("All done.")
            moves = [StateChanged(op["during"])] if "during" in op else []
            return [asked, *moves, StepFinished()]
        case "transition" | "transition_async":
            return [StateChanged(op["to"])]
        case "reset" | "begin":
            return [TurnStarted()]
        case "prepare":
            return []
        case unknown:
            raise ValueError(f"unknown op {unknown!r}")
