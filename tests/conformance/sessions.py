"""Sessions to replay a case in: the same script is played in this process and over the wire."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from tests.conformance.cases import Case, Mismatch, Op, compare, compare_final
from turnguard.core.session import EventError, SessionGuard
from turnguard.settings import layers
from turnguard.settings.layers import CLIENT, Layer, Merged, values_of
from turnguard_protocol.events import Event
from turnguard_protocol.settings import Settings, SettingsInForce
from turnguard_protocol.verdicts import NextStep, Verdict

CAP_SETTING = "maxToolCallsPerTurn"

PRESENT_NULL_CAP = 100
"""A cap that is there but null counts upstream as an explicit one of 100; with us null is not set."""

ALONE: dict[str, Any] = {"progress": {"action": "off"}, "repeatedFailures": "off", "maxBlocksPerTurn": 0}
"""Of `turnguard`: what leaves one guard alone with its case."""

NO_CAP: dict[str, Any] = {"maxToolCallsPerTurn": 0}
"""Of `model`: what keeps the turn guard out of the cases of the others."""


class SettingsError(ValueError):
    """The settings do not fit; the text names the field."""


class RefusedError(ValueError):
    """An event cannot be taken. `path`: where, from the params of the request."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Session(Protocol):
    """Where a script is played."""

    def record(self, *events: Event) -> Verdict:
        """Tells what happened. Raises RefusedError."""
        ...

    def prepare_step(self) -> NextStep:
        """Asks what the next model request may use."""
        ...

    def configure(self, settings: dict[str, Any]) -> None:
        """Has the client set other settings, for all its sessions. Raises SettingsError."""
        ...

    def go_on(self) -> None:
        """Lets a halted turn go on."""
        ...


class OpenSession(Protocol):
    """How a session is opened."""

    def __call__(self, settings: dict[str, Any], agent_id: str | None = None) -> Session:
        """Opens a session with settings of its own. Raises SettingsError."""
        ...


class Script(Protocol):
    """How the events of a suite are told to a session."""

    def __init__(self, session: Session) -> None: ...

    def answer(self, op: Op) -> Any:
        """What the guard says to one event, in the form of `expect`."""
        ...

    def final(self) -> dict[str, Any]:
        """The counters after the last event, as far as they can be seen."""
        ...


class LocalSession:
    """A session in this process."""

    def __init__(self, settings: dict[str, Any], agent_id: str | None = None) -> None:
        self.agent_id = agent_id
        self.settings = _decoded(settings)
        self.guard = SessionGuard("case", self._in_force(None), agent_id=agent_id)

    def record(self, *events: Event) -> Verdict:
        """Tells the session what happened."""
        try:
            return self.guard.record(events)
        except EventError as error:
            raise RefusedError(error.path) from None

    def prepare_step(self) -> NextStep:
        """Asks what the next model request may use."""
        return self.guard.prepare_step()

    def configure(self, settings: dict[str, Any]) -> None:
        """Puts other settings of the client in force."""
        self.guard.configure(self._in_force(_decoded(settings)))

    def go_on(self) -> None:
        """Lets a halted turn go on."""
        self.guard.override("continueOnce")

    def _in_force(self, client: Settings | None) -> SettingsInForce:
        merged = Merged([Layer(CLIENT, values_of(each)) for each in (client, self.settings)], agent_id=self.agent_id)
        try:
            return merged.in_force()
        except layers.SettingsError as error:
            raise SettingsError(str(error)) from None


def _decoded(settings: dict[str, Any]) -> Settings:
    try:
        return msgspec.json.decode(msgspec.json.encode(settings), type=Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(str(error)) from None


def play_script(
    case: Case, open_session: OpenSession, turn_guard: str, script_kind: type[Script]
) -> Iterator[Mismatch]:
    """Plays a case of a turn guard in a session opened for it."""
    try:
        session = open_session(turn_settings(case.config, turn_guard))
    except SettingsError as error:
        if not case.config_error or CAP_SETTING not in str(error):
            yield Mismatch("config", "an error that names it" if case.config_error else "none", str(error))
        return
    if case.config_error:
        yield Mismatch("config", "an error", "none")
        return
    script = script_kind(session)
    yield from compare(case, map(script.answer, case.events))
    yield from compare_final(case, script.final())


def turn_settings(config: dict[str, Any], turn_guard: str) -> dict[str, Any]:
    """The settings that the config of a turn guard's case stands for."""
    model: dict[str, Any] = {"skipLoopDetection": config.get("skip_loop_detection", True)}
    if "max_tool_calls" in config:
        cap = config["max_tool_calls"]
        model[CAP_SETTING] = PRESENT_NULL_CAP if cap is None else cap
    return {"model": model, "turnguard": {**ALONE, "turnGuard": turn_guard}}
