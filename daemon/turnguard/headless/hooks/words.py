"""What a hook tells: the person why a turn was stopped, and the model what to do instead.

Facts are those of `core.messages`. The way on is the next prompt, for a hook has no other.
"""

from collections.abc import Sequence

from msgspec import UNSET

from turnguard.core.messages import fact_of, what_happened
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

WAY_ON = "Send another message to go on: the next turn starts with fresh counts."
ANEW = "turnguard counts this session from here on"
STOPPED = "turnguard: the turn was stopped."


def explanation(finding: Finding, totals: Totals) -> str:
    """What a person reads when the turn was stopped."""
    return (
        f"turnguard stopped the turn: {fact_of(finding, totals)}. Rule: {_rule(finding)}. {WAY_ON}{_setting(finding)}"
    )


def refused(finding: Finding, totals: Totals) -> str:
    """What a person reads when a call was refused and the turn goes on."""
    return f"turnguard refused a call: {fact_of(finding, totals)}. Rule: {_rule(finding)}.{_setting(finding)}"


def stop_reason(finding: Finding, totals: Totals) -> str:
    """What stands beside the end of the turn. Some agents show it to the model as well, so it names no setting."""
    return f"turnguard stopped the turn: {what_happened(finding, totals)}. Another message goes on."


def for_person(verdict: Verdict) -> str | None:
    """What a person should read of a verdict: what they were not told yet, and cannot see from the answer."""
    findings = fresh(verdict)
    if not findings:
        return None
    if verdict.action is Action.ALLOW:  # turnguard.shadow, for which the core has words
        return verdict.user_message or None
    strictest = findings[0]
    match strictest.action:
        case Action.HALT:
            return explanation(strictest, verdict.totals)
        case Action.BLOCK | Action.RESTRICT:
            return refused(strictest, verdict.totals)
        case _:
            return None


def fresh(verdict: Verdict) -> Sequence[Finding]:
    """The findings that say something for the first time."""
    return [finding for finding in verdict.findings if finding.fresh and finding.action is not Action.ALLOW]


def _rule(finding: Finding) -> str:
    return f"{finding.guard}, {finding.loop_type}"


def _setting(finding: Finding) -> str:
    if finding.setting is UNSET:
        return ""
    source = "" if finding.setting_source is UNSET else f", set in {finding.setting_source}"
    return f" Setting: {finding.setting}{source}."
