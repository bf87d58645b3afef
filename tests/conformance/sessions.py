"""Sessions to replay a case in: the same script is played in this process and over the wire."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from tests.conformance.cases import Case, Mismatch, Op, compare, compare_final
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import SESSION, Layer, Merged
from turnguard_protocol.events import Event
from turnguard_protocol.settings import Settings
from turnguard_protocol.verdicts import Verdict

CAP_SETTING = "maxToolCallsPerTurn"

PRESENT_NULL_CAP = 100
"""A cap that is there but null counts upstream as an explicit one of 100; with us null is not set."""


class SettingsError(ValueError):
    """The settings do not fit; the text names the field."""


class Session(Protocol):
    """Where a script is played."""

    def record(self, *events: Event) -> Verdict:
        """Tells what happened."""
        ...


OpenSession = Callable[[dict[str, Any]], Session]
"""Opens a session under settings as a client sends them. Raises SettingsError."""


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

    def __init__(self, settings: dict[str, Any]) -> None:
        try:
            decoded = msgspec.json.decode(msgspec.json.encode(settings), type=Settings)
        except msgspec.ValidationError as error:
            raise SettingsError(str(error)) from None
        self.guard = SessionGuard("case", Merged([Layer(SESSION, decoded)]).in_force())

    def record(self, *events: Event) -> Verdict:
        """Tells the session what happened."""
        return self.guard.record(events)


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
    return {"model": model, "turnguard": {"turnGuard": turn_guard}}
