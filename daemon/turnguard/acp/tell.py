"""What is said to the person between the agent's own words: warnings, notices, and why a turn was stopped."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET

from turnguard.acp import words
from turnguard.acp.control import DID_DETECT_LOOP, DID_NOTICE, DidNotice
from turnguard.acp.options import OnLoop
from turnguard.acp.outgoing import notification, session_update
from turnguard.core.bounds import MAX_TOLD_FINDINGS
from turnguard_protocol.methods import DidDetectLoop
from turnguard_protocol.verdicts import Action, Finding, Verdict


class Teller:
    """Says it to one session, as a short agent message or, to a client that wants them, as notifications.

    `has_message_ids`: the agent gives its messages ids. `on_loop`: what a halting verdict does.
    """

    __slots__ = ("_on_loop", "_session_id", "_unique", "_wants_notifications", "has_message_ids")

    def __init__(
        self, session_id: str, *, wants_notifications: bool, on_loop: OnLoop, unique: Callable[[], str]
    ) -> None:
        self.has_message_ids = False
        self._session_id = session_id
        self._wants_notifications = wants_notifications
        self._on_loop: OnLoop = on_loop
        self._unique = unique

    def message(self, text: str) -> bytes:
        """Words as an agent message that is set off from the agent's own.

        Only where the agent itself gives its messages ids can another id set them off; else blank lines do.
        """
        update: dict[str, Any] = {"sessionUpdate": "agent_message_chunk"}
        if self.has_message_ids:
            update["messageId"] = self._unique()
        else:
            text = f"\n\n{text}\n\n"
        return session_update(self._session_id, {**update, "content": {"type": "text", "text": text}})

    def warning(self, verdict: Verdict) -> list[bytes]:
        """Of the findings of a verdict that does not stop the turn, those that were not told yet."""
        if self._wants_notifications:
            return self.detected(verdict)
        findings = fresh(verdict)
        if not findings:
            return []
        return [self.message(words.warning(findings[0], verdict, on_loop=self._on_loop))]

    def detected(self, verdict: Verdict) -> list[bytes]:
        """The notifications of fresh findings, to a client that wants them."""
        if not self._wants_notifications:
            return []
        return [
            notification(DID_DETECT_LOOP, DidDetectLoop(self._session_id, verdict.turn_id, finding, verdict))
            for finding in fresh(verdict)[:MAX_TOLD_FINDINGS]
        ]

    def notices(self, verdict: Verdict) -> list[bytes]:
        """What there is to know besides findings."""
        if self._wants_notifications:
            return [notification(DID_NOTICE, DidNotice(self._session_id, each)) for each in notices_of(verdict)]
        return [self.message(each) for each in notices_of(verdict)]


def fresh(verdict: Verdict) -> list[Finding]:
    """The findings that say something for the first time in their episode."""
    return [finding for finding in verdict.findings if finding.fresh and finding.action is not Action.ALLOW]


def notices_of(verdict: Verdict) -> Sequence[str]:
    """What the verdict wants people to know besides its findings."""
    notices: Any = getattr(verdict, "notices", UNSET)
    return () if notices is UNSET else notices
