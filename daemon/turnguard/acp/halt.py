"""The halt of a turn: the agent is told to stop, and the client gets a proper end of the turn in any case.

    STOPPING   the agent was told `session/cancel` once; what it still does passes, what it asks is answered for it
    ZOMBIE     the grace is over and the client was answered in the agent's place; late words are withheld

The agent's own answer ends either of them: in the first it is rewritten, in the second it is swallowed.
"""

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType

from turnguard.acp.messages import RequestId
from turnguard.acp.options import StopAs
from turnguard.acp.outgoing import encoded, json_of, members_of, notification, session_update
from turnguard.acp.turn import Work
from turnguard.acp.words import Because, explanation
from turnguard.acp.words import error as error_of
from turnguard_protocol.verdicts import Answer, Finding, Totals, Verdict

CANCELLED = "cancelled"
"""The stop reason of a turn that the user ended; it wins over every other."""

HALT_WINDOW = 3
"""A halt for the same reason within so many turns ends as `cancelled`: a driver that goes on by itself is to stop."""


class HaltMeta(Answer, kw_only=True):
    """`_meta.turnguard` of the answer to a halted prompt; in an error it stands in `error.data._meta.turnguard`.

    `guard`, `loop_type`, `reason`, `tool`, `count`, `threshold` and `setting` are those of the finding. `again`: it was
    halted for the same reason as a turn shortly before. `agent_stop_reason`: what the agent itself answered; absent
    where it answered with an error, whose code is `agent_error_code`, or not at all: `answered_by` is `turnguard`.
    """

    halted: Literal[True] = True
    code: Literal["LOOP_DETECTED"] = "LOOP_DETECTED"
    guard: str
    loop_type: str
    reason: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    count: int
    threshold: int
    setting: str | UnsetType = UNSET
    again: bool
    answered_by: Literal["agent", "turnguard"]
    agent_stop_reason: str | UnsetType = UNSET
    agent_error_code: int | UnsetType = UNSET


class Phase(Enum):
    """How far a halt has come."""

    STOPPING = "stopping"
    ZOMBIE = "zombie"


class Halt:
    """One halt. `hidden`: calls that the client has never seen, so that there is nothing to close.

    `deadline`: when the grace is over; in the phase ZOMBIE when the agent is to be killed, None for never.
    """

    __slots__ = ("because", "deadline", "hidden", "is_again", "phase", "stop_as", "verdict", "work")

    def __init__(
        self, work: Work, verdict: Verdict, stop_as: StopAs, deadline: float, *, is_again: bool, because: Because | None
    ) -> None:
        self.work = work
        self.verdict = verdict
        self.stop_as: StopAs = CANCELLED if is_again else stop_as
        self.is_again = is_again
        self.because: Because | None = because
        self.phase = Phase.STOPPING
        self.deadline: float | None = deadline
        self.hidden: set[str] = set()

    @property
    def finding(self) -> Finding:
        """The finding that stopped the turn."""
        return self.verdict.findings[0]

    @property
    def totals(self) -> Totals:
        """What the turn had seen."""
        return self.verdict.totals

    def explanation(self) -> str:
        """What the person reads."""
        return explanation(self.finding, self.totals, is_again=self.is_again, because=self.because)

    def rewritten(self, line: bytes) -> bytes:
        """The agent's answer to the halted prompt as the client gets it: its members are kept, the ending is ours.

        An answer that cannot be taken apart is replaced: whatever it holds, the client gets one that it can read.
        """
        try:
            return self._rewritten(line)
        except Exception:  # not its own fault, whatever it is: unrewritten it would be the first of two answers
            return self.synthesized(self.work.request_id)

    def _rewritten(self, line: bytes) -> bytes:
        """Raises ValueError, or anything else that a line can lead to."""
        line.decode()  # there are clients that read nothing else
        members = members_of(line)
        result = members_of(members["result"]) if "result" in members else None
        error = members_of(members["error"]) if "error" in members and result is None else None
        meta = self._meta("agent")
        if result is not None:
            reason = _text(result.get("stopReason"))
            meta.agent_stop_reason = UNSET if reason is None else reason
        elif error is not None:
            code = _integer(error.get("code"))
            meta.agent_error_code = UNSET if code is None else code
        members.pop("result", None)
        members.pop("error", None)
        if self._ends_as_error():
            members["error"] = json_of(self._error(meta))
        else:
            result = result or {}
            result["stopReason"] = json_of(self._stop_reason())
            result["_meta"] = json_of({**_object(result.get("_meta")), "turnguard": meta})
            members["result"] = json_of(result)
        return encoded(members)

    def synthesized(self, request_id: RequestId | None) -> bytes:
        """The answer to the halted prompt where the agent gives none."""
        meta, message = self._meta("turnguard"), {"jsonrpc": "2.0", "id": request_id}
        if self._ends_as_error():
            return encoded({**message, "error": self._error(meta)})
        return encoded({**message, "result": {"stopReason": self._stop_reason(), "_meta": {"turnguard": meta}}})

    def _ends_as_error(self) -> bool:
        return self.stop_as == "error" and not self.work.is_cancelled

    def _stop_reason(self) -> str:
        return CANCELLED if self.work.is_cancelled else self.stop_as

    def _error(self, meta: HaltMeta) -> dict[str, Any]:
        error = error_of(self.finding, self.totals)
        error["data"] |= {"error": self.explanation(), "_meta": {"turnguard": meta}}
        return error

    def _meta(self, answered_by: Literal["agent", "turnguard"]) -> HaltMeta:
        finding = self.finding
        return HaltMeta(
            guard=finding.guard,
            loop_type=finding.loop_type,
            reason=finding.reason,
            tool=finding.tool,
            count=finding.count,
            threshold=finding.threshold,
            setting=finding.setting,
            again=self.is_again,
            answered_by=answered_by,
        )


class Strikes:
    """Remembers for which reasons the latest turns were halted."""

    __slots__ = ("_halts",)

    def __init__(self) -> None:
        self._halts: list[tuple[int, tuple[str, str]]] = []

    def note(self, turn: int, finding: Finding) -> bool:
        """Notes the halt of a turn. Returns whether a turn shortly before was halted for the same reason."""
        reason = (finding.loop_type, str(finding.tool if finding.key_digest is UNSET else finding.key_digest))
        self._halts = [halt for halt in self._halts if turn - halt[0] <= HALT_WINDOW]
        is_again = any(halt[1] == reason for halt in self._halts)
        self._halts.append((turn, reason))
        return is_again


def cancel(session_id: str) -> bytes:
    """Tells the agent to end what the session does."""
    return notification("session/cancel", {"sessionId": session_id})


def closings(session_id: str, open_calls: Iterable[str]) -> list[bytes]:
    """Ends the calls that the client still shows as running. Version 1 knows no better word for it than `failed`."""
    update = {"sessionUpdate": "tool_call_update", "status": "failed"}
    return [session_update(session_id, {**update, "toolCallId": call}) for call in open_calls]


def _text(raw: Raw | None) -> str | None:
    value = _value(raw)
    return value if isinstance(value, str) else None


def _integer(raw: Raw | None) -> int | None:
    value = _value(raw)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _value(raw: Raw | None) -> Any:
    return None if raw is None else json.loads(bytes(raw))


def _object(raw: Raw | None) -> dict[str, Raw]:
    """The members of `_meta`; one that is no object cannot be kept."""
    try:
        return {} if raw is None else dict(members_of(raw))
    except ValueError:
        return {}
