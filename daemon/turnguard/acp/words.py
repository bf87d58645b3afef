"""What the proxy tells people, and the one thing it tells the model.

The facts are those of `core.messages`. The ways on differ from a service's: here the turn is over when it was stopped,
and the way on is the next prompt.
"""

from typing import Any, Literal

from msgspec import UNSET

from turnguard.acp.options import OnLoop
from turnguard.core.limits import MAX_STEPS
from turnguard.core.messages import (
    BLIND_LAST_CHANCE,
    BUDGET,
    CAP,
    LAST_CHANCE,
    daemon_error,
    fact_of,
    shown_name,
    what_happened,
)
from turnguard.core.progress import BLIND
from turnguard.core.turn.cap import CapReason
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict

Because = Literal["stop", "no answer"]
"""Why a person who was asked has the turn stopped: they said so, or they said nothing."""

STOPPED_BECAUSE: dict[Because | None, str] = {
    None: "",
    "stop": " You chose to stop it.",
    "no answer": " The question whether to go on was not answered.",
}
WAY_ON = "Send another message to go on: the next turn starts with fresh counts."
CHOICE = "To be asked or only warned: turnguard acp --on-loop ask or warn."
NO_HELP = "The same again will not help: take"
SESSION_GOES_ON = "The session goes on with the next prompt."
AGAIN = (
    "It is stopped for the same reason as a turn shortly before, so it ends as cancelled: a program that sends the "
    "next prompt by itself should not go on. You can go on with another message."
)
LIMITED = {CAP: "tool calls", BUDGET: "tool calls in a row", MAX_STEPS: "steps"}
"""What is counted by limits that say nothing of repetition."""


def is_limit(finding: Finding) -> bool:
    """Whether the turn came to a limit, repeated or not."""
    return finding.loop_type in LIMITED and finding.reason != CapReason.STUCK


def explanation(finding: Finding, totals: Totals, *, is_again: bool = False, because: Because | None = None) -> str:
    """What a person reads when the turn was stopped. `is_again`: for the same reason as one shortly before."""
    stopped = f"turnguard stopped this turn: {fact_of(finding, totals)}.{STOPPED_BECAUSE[because]}"
    choice = f" {CHOICE}" if because is None else ""
    return f"{stopped} {AGAIN if is_again else WAY_ON}{_setting(finding)}{choice}"


def error(finding: Finding, totals: Totals) -> dict[str, Any]:
    """The JSON-RPC error that answers a prompt whose turn was stopped."""
    told = daemon_error(finding.loop_type)
    if is_limit(finding):
        told["message"] = f"turnguard stopped this turn: {fact_of(finding, totals)}. {SESSION_GOES_ON}"
    return told


def warning(finding: Finding, verdict: Verdict, *, on_loop: OnLoop) -> str:
    """What a person reads of a finding that does not stop the turn. `on_loop`: with `warn` nothing is carried out."""
    if verdict.action is Action.ALLOW and verdict.user_message:  # turnguard.shadow, for which the core has words
        return verdict.user_message
    fact = fact_of(finding, verdict.totals)
    if on_loop == "warn" and finding.action in (Action.HALT, Action.BLOCK):
        more = " turnguard only warns here (--on-loop warn), so the turn goes on."
    elif finding.action is Action.BLOCK:
        return f"turnguard: {fact}. It is refused where the agent asks for permission.{_setting(finding)}"
    else:
        more = IF_THAT_GOES_ON[on_loop] if _has_last_chance(verdict) else ""
    seems = "" if is_limit(finding) else "this turn may be stuck: "
    return f"turnguard: {seems}{fact}.{more}{_setting(finding)}"


IF_THAT_GOES_ON: dict[OnLoop, str] = {
    "halt": " If that goes on, it will be stopped.",
    "ask": " If that goes on, you will be asked whether to stop it.",
    "warn": "",
}


def _has_last_chance(verdict: Verdict) -> bool:
    """Whether a halt is to follow, which depends on settings: the guards tell the model so."""
    told = verdict.model_message or ""
    return LAST_CHANCE in told or BLIND_LAST_CHANCE in told


def question(finding: Finding, totals: Totals, seconds: float) -> str:
    """What a person is asked before a turn is stopped. `seconds`: how long they have."""
    if finding.loop_type == CAP and finding.reason == CapReason.EXPLICIT_CAP:
        seen = f"This turn came to your cap of {finding.threshold} tool calls: it has made {finding.count}. Go on?"
    elif is_limit(finding):
        seen = f"This turn came to a limit: {fact_of(finding, totals)}. Go on?"
    else:
        seen = f"This turn seems to be stuck: {fact_of(finding, totals)}."
    return (
        f"{seen} The agent goes on meanwhile; without an answer within {seconds:g} seconds the turn is stopped."
        f"{_setting(finding)}"
    )


def note(finding: Finding, totals: Totals) -> str:
    """What the model reads with the prompt after a halt. It never names a setting."""
    if is_limit(finding):
        return (
            "[Note by turnguard, which watches this session for loops: the previous turn was stopped at its limit of "
            f"{finding.threshold} {LIMITED[finding.loop_type]}, not for repeating itself. Go on from where you were.]"
        )
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
