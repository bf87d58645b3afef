"""Short ways to write histories, and a host that runs what a guard lets run."""

from collections.abc import Sequence
from typing import Any

from turnguard.core.guard import Batch, Ruling, Seal
from turnguard.core.rolling.config import resolve_loop_detection
from turnguard.core.rolling.detectors import Loop, detect
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard.core.rolling.records import Record
from turnguard_protocol.events import Call, Facts, Result, ToolResults
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Finding

POLL = "poll"
"""The tool whose calls are polls here."""


def settings(**block: Any) -> SettingsInForce:
    """Settings under which loop detection says this and nothing else does anything."""
    return SettingsInForce(
        max_tool_calls_per_turn=None,
        is_cap_explicit=False,
        skip_loop_detection=True,
        turn_guard="batch",
        repeated_failures="off",
        loop_detection=resolve_loop_detection(block),
    )


def history(script: str) -> list[Record]:
    """Records of one run, each of two characters: a tool, and its outcome, `?` for none yet.

    An outcome that is a letter is an error that says that this tool does not exist.
    """
    return [_record(word[0], word[1]) for word in script.split()]


def _record(tool: str, outcome: str) -> Record:
    result = None if outcome == "?" else outcome
    return Record(None, tool, "{}", None, 0, result, outcome if outcome.isalpha() else None)


def found(script: str, tool: str, *, is_poll: bool = False, **block: Any) -> Loop | None:
    """What is found about a call of the tool after this history, with `enabled` unless the block says otherwise."""
    limits = resolve_loop_detection({"enabled": True, **block})
    return detect(history(script), tool, "{}", is_poll, limits)


def brief(loop: Loop | None) -> tuple[str, str, int] | None:
    """Level, type and count of a loop."""
    return None if loop is None else ("critical" if loop.is_critical else "warning", loop.loop_type, loop.count)


def call(tool: str = "read", args: str = "{}", call_id: str | None = None, **more: Any) -> Call:
    """An identified call."""
    return Call(tool, call_id, key=args, facts=Facts(poll=True) if tool == POLL else None, **more)


def result(of: Call, outcome: str | None = "same", **more: Any) -> Result:
    """An identified result of a call."""
    return Result(of.id, of.name, key=of.key, outcome=outcome, **more)


class Host:
    """Runs what the guard lets run; every call ends at once."""

    def __init__(self, seal: Seal | None = None, **block: Any) -> None:
        self.guard = RollingHistoryGuard(settings(**{"enabled": True, **block}), seal)

    def configure(self, **block: Any) -> None:
        """Puts other settings in force."""
        self.guard.configure(settings(**block))

    def run(self, tool: str = "read", args: str = "{}", outcome: str | None = "same", **more: Any) -> Finding | None:
        """One call; what was found about it."""
        return self.run_n(1, tool, args, outcome, **more)[0]

    def run_n(
        self,
        times: int,
        tool: str = "read",
        args: str = "{}",
        outcome: str | None = "same",
        run: str | None = None,
        **more: Any,
    ) -> list[Finding | None]:
        """Several calls one after the other."""
        findings: list[Finding | None] = []
        for _ in range(times):
            made = call(tool, args)
            ruling = self.check([made], run)
            if not ruling.refused:
                self.guard.commit(Batch([made], run), [0])
                self.guard.receive(ToolResults([result(made, outcome, **more)], run))
            findings.append(ruling.findings[0] if ruling.findings else None)
        return findings

    def check(self, calls: Sequence[Call], run: str | None = None) -> Ruling:
        """What the guard says of a batch before it runs."""
        return self.guard.check(Batch(list(calls), run))

    def admit(self, calls: Sequence[Call], admitted: Sequence[int] | None = None, run: str | None = None) -> None:
        """Lets calls run, all of them unless some are named, without asking."""
        indexes = range(len(calls)) if admitted is None else admitted
        self.guard.commit(Batch(list(calls), run), list(indexes))

    def size(self) -> int:
        """How many records there are."""
        return len(self.guard.history.records)

    def pending(self) -> int:
        """How many of them have no outcome."""
        return sum(record.result is None for record in self.guard.history.records)
