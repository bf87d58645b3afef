"""A guarded session that outlives the process: what it was is put into words, and made again from them.

Besides the guards' counts it is kept under which settings they count. So what a file loosens waits for a turn of the
user's also where each call is another process, and what was told once is not told again.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from turnguard.core.joint import JointGuard
from turnguard.core.session import SessionGuard
from turnguard.settings.guarded import InForce
from turnguard.settings.layers import Held
from turnguard.settings.sourced import SourcedSession


class KeptSession(SourcedSession):
    """A session under sources of settings, with a snapshot."""

    __slots__ = ()

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain JSON-like values; what `restore` takes."""
        current = self._current
        return {
            "own": _named(current.own_held),
            "held": None if current.held == current.own_held else _named(current.held),
            "isJoint": isinstance(self._guard, JointGuard),
            "guard": self._guard.snapshot(),
            "told": list(self._newest.notices),
            "notices": list(self._notices),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes what `snapshot` gave, in this process or another; then what the sources say by now."""
        newest = self._newest
        own = _held(state["own"])
        held = own if state["held"] is None else _held(state["held"])
        self._current = self._newest = InForce(own, held, state["told"])
        self._notices = state["notices"]
        guard = SessionGuard(self.session_id, self._current.own, agent_id=self.agent_id, cwd=self.cwd)
        joint = JointGuard(guard, self._current.own, self._current.strictest) if state["isJoint"] else None
        self._guard = joint or guard
        self._guard.restore(state["guard"])
        self.take(newest)

    def may_use(self, tool: str | None) -> bool:
        """Whether a tool is one of those that are left when a budget is used up: those of the state it fell back to."""
        shield, state = self._current.strictest.loop_shield, self.status().budget_state
        return shield is not None and isinstance(state, str) and tool in shield.states.get(state, ())


def _named(held: Mapping[str, Held]) -> dict[str, list[Any]]:
    return {name: [each.value, each.origin, each.source] for name, each in held.items()}


def _held(named: Mapping[str, Any]) -> dict[str, Held]:
    return msgspec.convert(named, dict[str, Held])
