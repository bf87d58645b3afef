"""`--on-loop ask`: the person is asked in the client's own permission dialog, while the agent goes on.

The request is turnguard's, under an id that nobody else uses, so its answer is never forwarded. The call it names is
shown by clients like any other and is therefore closed again once there is an answer, or no need for one.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from turnguard.acp.outgoing import cancel_request, members_of, request, session_update
from turnguard.acp.words import LIMITED, question
from turnguard_protocol.verdicts import Verdict

ID_PREFIX = "turnguard:"
"""The ids of turnguard's own requests and of what they name begin with it."""

Choice = Literal["stop", "continueOnce", "raiseCap", "disable"]
"""What a person can choose; all but the first are overrides of the guard."""


class Option(NamedTuple):
    """One button: what it is called, and how clients present it."""

    name: str
    kind: str


OPTIONS: dict[Choice, Option] = {
    "stop": Option("Stop", "reject_once"),
    "continueOnce": Option("Continue once", "allow_once"),
    "raiseCap": Option("Raise the cap", "allow_once"),
    "disable": Option("Stop guarding this session", "allow_always"),
}

OF_A_LOOP: Sequence[Choice] = ("stop", "continueOnce", "disable")
OF_A_CAP: Sequence[Choice] = ("raiseCap", "continueOnce", "stop", "disable")
"""What is offered, in order. Past a cap every call would be asked about again, so raising it comes first."""


class Question:
    """A question that waits for its answer until `deadline`, in seconds. `verdict`: the halt that it is about."""

    __slots__ = ("deadline", "request_id", "session_id", "verdict")

    def __init__(self, session_id: str, unique: str, verdict: Verdict, deadline: float) -> None:
        self.session_id = session_id
        self.request_id = f"{ID_PREFIX}{unique}"
        self.verdict = verdict
        self.deadline = deadline

    @property
    def choices(self) -> Sequence[Choice]:
        """What is offered."""
        return OF_A_CAP if self.verdict.findings[0].loop_type in LIMITED else OF_A_LOOP

    def asking(self, seconds: float) -> bytes:
        """The request to the client. `seconds`: how long the person has."""
        text = question(self.verdict.findings[0], self.verdict.totals, seconds)
        call: dict[str, Any] = {
            "toolCallId": self.request_id,
            "title": "turnguard: go on with this turn?",
            "kind": "other",
            "status": "pending",
            "content": [{"type": "content", "content": {"type": "text", "text": text}}],
        }
        options = [
            {"optionId": choice, "name": OPTIONS[choice].name, "kind": OPTIONS[choice].kind} for choice in self.choices
        ]
        params = {"sessionId": self.session_id, "toolCall": call, "options": options}
        return request(self.request_id, "session/request_permission", params)

    def closing(self, *, is_allowed: bool) -> bytes:
        """Ends the call that the client shows for the question. `is_allowed`: the turn goes on."""
        status = "completed" if is_allowed else "failed"
        update = {"sessionUpdate": "tool_call_update", "toolCallId": self.request_id, "status": status}
        return session_update(self.session_id, update)

    def withdrawing(self) -> list[bytes]:
        """Takes the question back."""
        return [cancel_request(self.request_id), self.closing(is_allowed=False)]


def choice_of(line: bytes) -> Choice:
    """What the client's answer says. Anything but one of the options, errors included, means to stop."""
    try:
        outcome = members_of(members_of(members_of(line)["result"])["outcome"])
        chosen: Any = msgspec.json.decode(outcome["optionId"])
    except (ValueError, KeyError):
        return "stop"
    is_selected = bytes(outcome.get("outcome", Raw(b""))) == b'"selected"'
    return chosen if is_selected and isinstance(chosen, str) and chosen in OPTIONS else "stop"
