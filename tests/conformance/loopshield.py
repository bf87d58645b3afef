"""Suite loopshield: budgets of consecutive tool calls, as a state machine and over a session.

Where building the machine must fail, `Case.config_error` says for what, and there are no events.

In a session a step is a batch and its end, and of what happened it tells the loops, in its fresh findings; moves are
seen by the state, the budget by `prepareStep`. What only the Python API has, guards that say no and snapshots, is
played on the machine alone; an asynchronous transition that goes through is a move like any other.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from tests.conformance.cases import Case, Mismatch, Op, compare
from tests.conformance.sessions import (
    ALONE,
    NO_CAP,
    LocalSession,
    OpenSession,
    RefusedError,
    Session,
    SettingsError,
)
from turnguard.core.budget.errors import (
    BudgetError,
    FallbackStateError,
    InitialStateError,
    ToolNameRequiredError,
    UnknownStateError,
)
from turnguard.core.budget.guard import LoopShieldGuard
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard.core.budget.states import Context, StateMachine, TransitionGuard
from turnguard_protocol.events import Call, Event, Retry, StateChanged, StepFinished, Text, ToolCalls, TurnStarted
from turnguard_protocol.settings import LoopShieldInForce
from turnguard_protocol.verdicts import Finding

IN_PROCESS_ONLY = frozenset({"snapshot", "restore"})
GUARD_ERRORS = frozenset({"guard_blocked", "guard_async"})

SETTINGS_AT_FAULT = {error.code: error.setting for error in (InitialStateError, FallbackStateError)}
"""The setting that is named when a machine cannot be built; a snapshot is none."""


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
        yield from replay(case, LocalSession)


def is_sayable(case: Case) -> bool:
    """Whether the case can be said wholly on the wire, where no guard is asked before a move."""
    if case.config_error:
        return case.config_error in SETTINGS_AT_FAULT
    return (
        case.config["snapshot"] is None
        and all(op["op"] not in IN_PROCESS_ONLY for op in case.events)
        and all(answer["error"] not in GUARD_ERRORS for answer in case.expect)
    )


def replay(case: Case, open_session: OpenSession) -> Iterator[Mismatch]:
    """Plays a case in a session, and compares what can be seen there."""
    wrong = SETTINGS_AT_FAULT[str(case.config_error)] if case.config_error else None
    try:
        script = SessionScript(open_session(wire_settings(case.config)))
    except SettingsError as error:
        if wrong is None or wrong not in str(error):
            yield Mismatch("config", wrong, str(error))
        return
    if wrong is not None:
        yield Mismatch("config", wrong, None)
        return
    for index, (op, answer) in enumerate(zip(case.events, case.expect, strict=True)):
        expected, got = seen(answer), script.answer(op)
        if got != expected:
            yield Mismatch(index, expected, got)


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


def wire_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The same as a client sends them, this guard alone."""
    settings = settings_of(config)
    block = {
        "enabled": settings.enabled,
        "maxConsecutiveTools": settings.max_consecutive_tools,
        "mode": settings.mode,
        "fallbackState": settings.fallback_state,
        "initialState": settings.initial_state,
        "states": settings.states,
    }
    return {"model": NO_CAP, "turnguard": ALONE, "loopShield": block}


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


class SessionScript:
    """A script as it is told to a session, one event a request."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def answer(self, op: Op) -> dict[str, Any]:
        """What can be seen of one event. A step that fails over a move never came to its end: it is taken back."""
        error = None
        findings: list[Finding] = []
        events = events_of(op)
        try:
            for event in events:
                findings += self.session.record(event).findings
        except RefusedError as refusal:
            error = _code_of(refusal)
            if error == UnknownStateError.code and len(events) > 1:
                self.session.record(Retry())
        after = self.session.prepare_step()
        trips = [finding for finding in findings if finding.guard == LoopShieldGuard.name and finding.fresh]
        trips.sort(key=lambda trip: trip.count)  # a verdict lists the strictest first; calls are counted one by one
        loops = [{"consecutiveTools": trip.count, "maxAllowed": trip.threshold} for trip in trips]
        return {
            "error": error,
            "state": after.state,
            "tools": after.active_tools,
            "tool_choice": after.tool_choice,
            "loops": loops,
        }


def _code_of(refusal: RefusedError) -> str:
    return ToolNameRequiredError.code if refusal.path.endswith(".name") else UnknownStateError.code


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
