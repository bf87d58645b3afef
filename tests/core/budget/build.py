"""Short ways to build machines and guards, and to see what they do."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tests.build import in_force
from turnguard.core.budget.guard import LoopShieldGuard
from turnguard.core.budget.shield import LoopShield, Trip
from turnguard.core.budget.states import StateMachine, TransitionGuard
from turnguard.core.guard import Batch
from turnguard_protocol.events import Call, StepFinished
from turnguard_protocol.settings import Admission, LoopShieldInForce, SettingsInForce, ShieldMode
from turnguard_protocol.verdicts import Finding

STATES: dict[str, list[str]] = {"A": ["read", "grep"], "B": ["edit"], "ESCALATION": ["ask_human"]}


class Heard(NamedTuple):
    """What the callbacks of a machine heard, in order: `[from, to]` of a move, `(run, budget)` of a loop."""

    machine: StateMachine
    notices: list[Any]

    @property
    def loops(self) -> list[tuple[int, int]]:
        return [notice for notice in self.notices if isinstance(notice, tuple)]

    @property
    def moves(self) -> list[list[str]]:
        return [notice for notice in self.notices if isinstance(notice, list)]


def heard(
    max_allowed: int = 2,
    mode: ShieldMode = "consecutive",
    *,
    enabled: bool = True,
    fallback: str | None = None,
    guard: TransitionGuard | None = None,
    states: Mapping[str, Sequence[str]] = STATES,
    initial: str = "A",
) -> Heard:
    """A machine in state A whose callbacks are heard."""
    notices: list[Any] = []

    def on_transition(source: str, target: str) -> None:
        notices.append([source, target])

    def on_loop(trip: Trip) -> None:
        notices.append((trip.consecutive_tools, trip.max_allowed))

    machine = StateMachine(
        states,
        initial,
        shield=LoopShield(max_allowed, mode, enabled=enabled),
        fallback=fallback,
        guard=guard,
        on_transition=on_transition,
        on_loop=on_loop,
    )
    return Heard(machine, notices)


Said = tuple[str, str, int, bool]
"""Action, reason, count and freshness of a finding."""


def shield(max_allowed: int = 2, **more: Any) -> LoopShieldInForce:
    config: dict[str, Any] = {
        "enabled": True,
        "max_consecutive_tools": max_allowed,
        "mode": "consecutive",
        "fallback_state": None,
        "initial_state": None,
        "states": {},
    }
    return LoopShieldInForce(**{**config, **more})


def settings(loop_shield: LoopShieldInForce | None) -> SettingsInForce:
    return msgspec.structs.replace(in_force(), loop_shield=loop_shield)


def guard(max_allowed: int = 2, admission: Admission = "batch", **more: Any) -> LoopShieldGuard:
    return LoopShieldGuard(settings(shield(max_allowed, admission=admission, **more)))


def batch(tools: Sequence[str | None]) -> Batch:
    return Batch([Call(tool) for tool in tools], "run")


def send(budget: LoopShieldGuard, *tools: str | None, refused: Sequence[int] = ()) -> tuple[list[int], list[Said]]:
    """Sends a batch of which another guard refuses some: the calls that run, and what was said of it."""
    sent = batch(tools)
    ruling = budget.check(sent)
    admitted = [index for index in range(len(tools)) if index not in ruling.refused and index not in refused]
    budget.commit(sent, admitted)
    return admitted, said(ruling.findings)


def step(budget: LoopShieldGuard, *tools: str | None) -> list[Said]:
    """A whole step, and what was said at its end."""
    send(budget, *tools)
    return finish(budget)


def finish(budget: LoopShieldGuard) -> list[Said]:
    return said(budget.receive(StepFinished()))


def said(findings: Sequence[Finding]) -> list[Said]:
    return [(finding.action.value, str(finding.reason), finding.count, finding.fresh) for finding in findings]
