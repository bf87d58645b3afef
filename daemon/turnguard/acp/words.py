"""What the proxy tells people, and the one thing it tells the model.

The facts are those of `core.messages`. The ways on differ from a service's: here the turn is over when it was stopped,
and the way on is the next prompt.
"""

from typing import Literal

from msgspec import UNSET

from turnguard.core.messages import fact_of, shown_name, what_happened
from turnguard.core.progress import BLIND
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

Because = Literal["stop", "no answer"]
"""Why a person who was asked has the turn stopped: they said so, or they said nothing."""

STOPPED_BECAUSE: dict[Because | None, str] = {
    None: "",
    "stop": " You chose to stop it.",
    "no answer": " The question whether to go on was not answered.",
}
WAY_ON = "Send another message to go on: the next turn starts with fresh counts."
NO_HELP = "The same again will not help: take"
AGAIN = (
    "It is stopped for the same reason as a turn shortly before, so it ends as cancelled: a program that sends the "
    "next prompt by itself should not go on."
)


def explanation(finding: Finding, totals: Totals, *, is_again: bool = False, because: Because | None = None) -> str:
    """What a person reads when the turn was stopped. `is_again`: for the same reason as one shortly before."""
    stopped = f"turnguard stopped this turn: {fact_of(finding, totals)}.{STOPPED_BECAUSE[because]}"
    return f"{stopped} {AGAIN if is_again else WAY_ON}{_setting(finding)}"


def warning(finding: Finding, verdict: Verdict, *, is_only_told: bool) -> str:
    """What a person reads of a finding that does not stop the turn.

    `is_only_told`: `--on-loop warn` is in force, so a halt or a refusal is carried out in words only.
    """
    is_shadow = verdict.action is Action.ALLOW  # turnguard.shadow, for which the core has words
    if finding is verdict.findings[0] and verdict.user_message and (finding.action is Action.WARN or is_shadow):
        return verdict.user_message
    more = ""
    if is_only_told and finding.action in (Action.HALT, Action.BLOCK):
        more = " turnguard only warns here (--on-loop warn), so the turn goes on."
    elif finding.action is Action.BLOCK:
        more = " It is refused where the agent asks for permission."
    return f"Warning: {fact_of(finding, verdict.totals)}.{more}{_setting(finding)}"


def question(finding: Finding, totals: Totals, seconds: float) -> str:
    """What a person is asked before a turn is stopped. `seconds`: how long they have."""
    return (
        f"This turn seems to be stuck: {fact_of(finding, totals)}. The agent goes on meanwhile; without an answer "
        f"within {seconds:g} seconds the turn is stopped.{_setting(finding)}"
    )


def note(finding: Finding, totals: Totals) -> str:
    """What the model reads with the prompt after a halt. It never names a setting."""
    advice = "Unless each of them showed you something new, take" if finding.reason == BLIND else NO_HELP
    return (
        f"[Note by turnguard, which watches this session for loops: the previous turn was stopped, because "
        f"{what_happened(finding, totals)}. {advice} another approach, or say what blocks you.]"
    )


def logged(session_id: str, finding: Finding) -> str:
    """The line that `--log` gets of a halt. It says nothing of arguments."""
    rule = f"{finding.guard} {finding.loop_type}" + ("" if finding.reason is UNSET else f" {finding.reason}")
    tool = "" if finding.tool is UNSET else f", tool {shown_name(finding.tool)}"
    return f"halted: session {shown_name(session_id)}, {rule}{tool}, count {finding.count}"


def _setting(finding: Finding) -> str:
    if finding.setting is UNSET:
        return ""
    source = "" if finding.setting_source is UNSET else f", set in {finding.setting_source}"
    return f" Setting: {finding.setting}{source}."
