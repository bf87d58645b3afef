"""What a hook tells: the person why a turn was stopped, and the model what to do instead.

Facts are those of `core.messages`. The way on is the next prompt, for a hook has no other.
"""

from turnguard.core.messages import CAP, HEDGED_CAP, fact_of, what_happened
from turnguard.headless.words import fresh, rule_of
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

WAY_ON = "Send another message to go on: the next turn starts with fresh counts."
ANEW = "turnguard counts this session from here on"
STOPPED = "turnguard stopped the turn."


def explanation(finding: Finding, totals: Totals) -> str:
    """What a person reads when the turn was stopped."""
    fact = fact_of(finding, totals)
    what = f"{HEDGED_CAP.format(count=finding.count)} Here {fact}." if finding.loop_type == CAP else f"Stopped: {fact}."
    return f"turnguard: {what} {rule_of(finding)} {WAY_ON}"


def refused(finding: Finding, totals: Totals) -> str:
    """What a person reads when a call was refused and the turn goes on."""
    return f"turnguard: Refused a call: {fact_of(finding, totals)}. {rule_of(finding)}"


def stop_reason(finding: Finding, totals: Totals) -> str:
    """What stands beside the end of the turn. Some agents show it to the model as well, so it names no setting."""
    return f"turnguard stopped the turn: {what_happened(finding, totals)}. Another message goes on."


def for_person(verdict: Verdict, *, is_refused: bool) -> str | None:
    """What a person should read of a verdict: what they were not told yet. `is_refused`: a call was."""
    findings = fresh(verdict)
    if not findings:
        return None
    if verdict.action is Action.ALLOW:  # turnguard.shadow, for which the core has words
        return f"turnguard: {verdict.user_message}" if verdict.user_message else None
    strictest = findings[0]
    match strictest.action:
        case Action.HALT:
            return explanation(strictest, verdict.totals)
        case Action.BLOCK | Action.RESTRICT if is_refused:
            return refused(strictest, verdict.totals)
        case _:
            return None
