"""A session under settings that may change while it runs.

What a client says holds at once. What a file says holds at once where it is stricter than what was in force, and where
it is looser only from the next turn on that the user starts: an agent can write files, and must not loosen the guard
that watches it. Both are told.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from turnguard.core.guard import Needs, Seal
from turnguard.core.joint import JointGuard
from turnguard.core.session import SessionGuard
from turnguard.harmless import harmless
from turnguard.settings.layers import (
    CLIENT,
    LOOP_SHIELD,
    OF_AGENTS,
    PROJECT,
    WORKSPACE,
    Held,
    Merged,
    SettingsError,
    in_force,
    is_from_file,
)
from turnguard.settings.problems import brief, describe
from turnguard.settings.sources import Found
from turnguard.settings.table import BY_NAME, is_stricter
from turnguard_protocol.events import Event, TurnStarted
from turnguard_protocol.settings import IgnoredValue, SettingsInForce
from turnguard_protocol.verdicts import NextStep, OverrideAction, SessionStatus, TurnSummary, Verdict

USER_ORIGIN = "user"
"""The origin of a turn that the user started."""

NO_NOTICES: Sequence[str] = ()


class InForce:
    """What holds for sessions that were opened alike: a person's own settings, and the same as tightened by files.

    `tightened` None: nothing tightens. `notices`: what to tell of it once. Raises SettingsError when the settings make
    no sense together.
    """

    __slots__ = ("held", "notices", "own", "own_held", "tightened")

    def __init__(self, own: Mapping[str, Held], held: Mapping[str, Held], notices: Sequence[str] = ()) -> None:
        self.own_held = own
        self.held = held
        self.notices = notices
        self.own = in_force(own)
        tightened = in_force(held)
        self.tightened = None if replace(tightened, places=self.own.places) == self.own else tightened

    @property
    def strictest(self) -> SettingsInForce:
        """The settings with everything that tightens."""
        return self.own if self.tightened is None else self.tightened

    def without_loosening(self, before: "InForce") -> "InForce":
        """The same, but for what files loosened against `before`; itself when they loosened nothing."""
        own = _restrained(self.own_held, before.own_held)
        held = _restrained(self.held, before.held)
        if own is self.own_held and held is self.held:
            return self
        try:
            return InForce(own, held, self.notices)
        except SettingsError:
            return InForce(_with_shield_of(own, before.own_held), _with_shield_of(held, before.held), self.notices)


def in_force_of(merged: Merged, found: Found) -> InForce:
    """What merged settings come to. Raises SettingsError."""
    return InForce(merged.own, merged.held, notices_of(merged, found))


class GuardedSession:
    """One conversation with one agent, guarded under what is in force for it. Takes what `SessionGuard` takes.

    `take` hands it other settings whenever there are any.
    """

    __slots__ = ("_current", "_guard", "_newest", "_notices", "agent_id", "cwd", "session_id")

    def __init__(
        self,
        session_id: str,
        settings: InForce,
        *,
        agent_id: str | None = None,
        cwd: str | None = None,
        seal: Seal | None = None,
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.cwd = cwd
        self._current = self._newest = settings
        self._notices: Sequence[str] = settings.notices
        own = SessionGuard(session_id, settings.own, agent_id=agent_id, cwd=cwd, seal=seal)
        self._guard = own if settings.tightened is None else JointGuard(own, settings.own, settings.tightened)

    @property
    def needs(self) -> Needs:
        """What its guards want to see of the next event."""
        return self._guard.needs

    def take(self, newest: InForce) -> None:
        """Hears what is in force now for sessions like this one."""
        if newest is self._newest:
            return
        told = {*self._newest.notices, *self._notices}
        self._newest = newest
        self._notices = [*self._notices, *(notice for notice in newest.notices if notice not in told)]
        self._put_in_force(newest.without_loosening(self._current))

    def record(self, events: Sequence[Event]) -> Verdict:
        """Applies events in order and answers one verdict over all of them. Raises EventError."""
        if self._is_waiting and any(map(_is_start_by_user, events)):
            # A record that cannot be taken changes nothing, so it is looked at before.
            self._own.validate(events)
            self._put_in_force(self._newest)
            self._guard = self._own if self._current.tightened is None else self._guard
        verdict = self._guard.record(events)
        if self._notices:
            verdict.notices, self._notices = list(self._notices), NO_NOTICES
        return verdict

    def prepare_step(self) -> NextStep:
        """Closes the step at hand and says what the next model request may use."""
        return self._guard.prepare_step()

    def override(self, action: OverrideAction, *, turn_id: str | None = None, calls: int | None = None) -> None:
        """Gets past a halt, or switches all guards of the session off or on. Raises StaleTurnError."""
        self._guard.override(action, turn_id=turn_id, calls=calls)

    def close(self) -> TurnSummary | None:
        """Ends the open turn and sums the last one up; None when there never was one."""
        return self._guard.close()

    def status(self) -> SessionStatus:
        """How the session stands."""
        return self._guard.status()

    @property
    def _is_waiting(self) -> bool:
        """Whether something waits for a turn of the user's: what files loosened, or to be without the second guard."""
        is_joint = isinstance(self._guard, JointGuard)
        return self._current is not self._newest or (is_joint and self._current.tightened is None)

    @property
    def _own(self) -> SessionGuard:
        return self._guard.own if isinstance(self._guard, JointGuard) else self._guard

    def _put_in_force(self, settings: InForce) -> None:
        before, self._current = self._current, settings
        if not isinstance(self._guard, JointGuard) and settings.tightened is not None:
            self._guard = JointGuard(self._guard, before.own, settings.tightened)
        if isinstance(self._guard, JointGuard):
            # Also where nothing tightens any more: what the second guard halted stays halted for its turn.
            self._guard.configure(settings.own, settings.strictest)
        else:
            self._guard.configure(settings.own)
        changes = [
            f"{name} is now {brief(held.value)} ({held.origin}), it was {brief(before.held[name].value)}"
            for name, held in settings.held.items()
            if held.value != before.held[name].value
            and (is_from_file(held.origin) or is_from_file(before.held[name].origin))
        ]
        if changes:
            told = harmless(f"Settings have changed: {'; '.join(changes)}.")
            self._notices = [*self._notices, told]


def notices_of(merged: Merged, found: Found) -> list[str]:
    """What a person should hear of a session's settings: problems in files, values that do not hold, and why."""
    notices = [f"Settings: {describe(problem)}" for problem in found.problems]
    by_origin: dict[str, list[str]] = {}
    for name, values in merged.ignored.items():
        for ignored in values:
            by_origin.setdefault(ignored.origin, []).append(_ignored(name, ignored))
    for origin, values in by_origin.items():
        way_out = f" To accept them: turnguard trust {found.project}" if origin == PROJECT else ""
        where = f"the {origin}'s file {found.tightening[0].source}" if origin == PROJECT else f"the {origin}"
        notices.append(harmless(f"Settings of {where} that do not hold: {'; '.join(values)}.{way_out}"))
    return notices


def _ignored(name: str, ignored: IgnoredValue) -> str:
    return f"{name} {brief(ignored.value)} ({ignored.why})"


def _is_start_by_user(event: Event) -> bool:
    return type(event) is TurnStarted and event.origin == USER_ORIGIN


def _restrained(newest: Mapping[str, Held], before: Mapping[str, Held]) -> Mapping[str, Held]:
    """The newest values, with those of before where a file loosened them; the newest mapping itself if none did."""
    kept = {name: before[name] for name, held in newest.items() if _is_loosened_by_file(name, held, before[name])}
    return {**newest, **kept} if kept else newest


def _is_loosened_by_file(name: str, held: Held, before: Held) -> bool:
    if held.value == before.value or (held.value is not None and is_stricter(BY_NAME[name], held.value, before.value)):
        return False
    if before.origin.startswith(CLIENT):
        return before.origin == CLIENT and _is_agents_of_file(held.origin)
    if held.origin.startswith(CLIENT):
        return before.origin in {PROJECT, WORKSPACE} or _is_agents_of_file(before.origin)
    return True


def _is_agents_of_file(origin: str) -> bool:
    """Whether a value comes from an agent's block in a file, which stands above what a client says for all agents."""
    return origin.endswith(OF_AGENTS) and is_from_file(origin)


def _with_shield_of(held: Mapping[str, Held], before: Mapping[str, Held]) -> Mapping[str, Held]:
    """Values with loopShield as it was before: half of an old table and half of a new one need not fit together."""
    return {name: before[name] if name.startswith(LOOP_SHIELD) else each for name, each in held.items()}
