"""Words for people and for the model.

A message to a person names the rule, the call, the count and the one setting that governs it; a message to the model
says what happened and what to do instead, and never names a setting. Both are true for the case at hand.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from turnguard.core.bounds import MAX_TOLD_REASONS
from turnguard.core.progress import Standing
from turnguard.core.thresholds import PROGRESS_HALT, PROGRESS_WINDOW, READ_FILE_LOOP_WINDOW
from turnguard.core.turn.cap import CapReason
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Totals

CAP = "turn_tool_call_cap"
PROGRESS = "no_new_evidence"
BLIND = "blind"
BUDGET = "tool_call_budget"
MAX_BLOCKS = "max_blocks_per_turn"

QUOTE = '"'
"""Encloses names; inside one it could end it and let the rest pass for words of ours."""

MAX_NAME_LENGTH = 60
"""Characters of a tool's name that a message shows."""

UNSHOWN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that could steer a terminal, reorder the text around them or hide in it."""

TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
"""Escape sequences that colour, move or name a terminal (ECMA-48 CSI and OSC)."""

LOOP_ERROR_CODE = -32603
"""The JSON-RPC error with which Qwen Code's daemon rejects a prompt whose turn was stopped."""

WHAT_HAPPENED = {
    "action_stagnation": "{tool} was called {count} times in a row",
    "alternating_tool_call_pattern": "two calls, of {tool} and of {paired_tool}, alternated {count} times",
    "chanting_identical_sentences": "the model wrote the same passage {count} times",
    "compaction_loop_persisted": "after the context was compacted {tool} was called {count} times with the same "
    "arguments and the same result",
    "consecutive_identical_tool_calls": "{tool} was called {count} times in a row with the same arguments",
    "generic_repeat": "{tool} was called {count} times with the same arguments",
    "global_circuit_breaker": "{tool} was called {count} times with the same arguments and the same result",
    "global_tool_call_duplicate": "{tool} was called {count} times in this turn with the same arguments",
    "invalid_tool_params_stagnation": "{count} calls of {tool} were rejected: no such tool, or wrong parameters",
    "known_poll_no_progress": "{tool} was asked {count} times and nothing had changed",
    "max_blocks_per_turn": "{count} responses of this turn asked for calls that may not run",
    "max_steps_per_turn": "the turn came to {count} steps, and it may take {threshold}",
    "ping_pong": "two calls, of {tool} and of {paired_tool}, alternated, {count} calls in all",
    "read_file_loop": f"{{count}} of the last {READ_FILE_LOOP_WINDOW} calls only read",
    "repeated_tool_execution_failure": "{tool} failed {count} times with the same kind of error",
    "repetitive_thoughts": "the model had the same thought {count} times in a row",
    "shell_command_stagnation": "{count} shell commands in a row only looked at the state of the git repository",
    "tool_call_budget": "{count} tool calls came in a row, and the budget is {threshold}",
    "turn_tool_call_cap": "the turn came to {count} tool calls, more than it may make",
    "unknown_tool_repeat": "{tool} does not exist and was called {count} times",
}
"""By loop type, for people and the model alike."""

WHAT_HAPPENED_FOR = {
    "replayed_call_id": "a call of {tool} that was already answered came again under its old id",
    "call": f"{{tool}} has now given this same result {{count}} times in the last {PROGRESS_WINDOW} calls",
    "edit": "this same edit has been made {count} times",
    "error": "{count} calls of {tool} failed with the same error",
    "final": "{tool} has been sent {count} times; it does not end this turn",
    BLIND: "{tool} was called {count} times in a row with the same arguments, and this agent does not show results",
}
"""The same where the reason of a finding says more than its loop type."""

REPEATED = "the turn repeated itself"
"""For a loop type of another version, which a transcript can hold."""

SETTING_EFFECTS = {
    "model.skipLoopDetection": "true leaves this check out",
    "turnguard.repeatedFailures": "warn reminds the model and never stops it",
    "turnguard.maxBlocksPerTurn": "0: never",
}
"""What a setting can do about it, where its name does not say so."""

LEADS = {Action.HALT: "Stopped", Action.BLOCK: "Refused", Action.RESTRICT: "Limited", Action.WARN: "Warning"}
SHADOW_LEADS = {
    Action.HALT: "Would have stopped",
    Action.BLOCK: "Would have refused",
    Action.RESTRICT: "Would have limited",
    Action.WARN: "Warning",
}
SHADOW = "turnguard only watches here (turnguard.shadow), so nothing was stopped."
ALWAYS_ON = "No setting governs this check."
WAY_OUT = "You can continue once."

HEDGED_CAP = (
    "Stopped after {count} tool calls: this turn passed its tool-call cap, either the one set in "
    "model.maxToolCallsPerTurn or, when none is set, the adaptive one for long turns that repeat themselves."
)
"""The fixed sentence that covers every part of the cap, as the design document asks for; the fact follows it."""

CAP_WAY_OUT = "You can continue once, raise the cap for this turn, or set model.maxToolCallsPerTurn (0: no cap)."
CAP_REFUSAL = "this call does not fit under the tool-call cap of the turn any more."

STOPPED_ADVICE = "Do not call tools again for this. Sum up what is known and say what blocks you."
STOPPED_WORDS_ADVICE = "Do not go on like this. Sum up what is known and say what blocks you."
WORDS = frozenset({"chanting_identical_sentences", "repetitive_thoughts"})
"""Loops without tools."""

RESTRICTIONS = {
    "exhausted": "; the next step gets no tools",
    "fallback": "; the next step gets the tools of another state",
}
RESTRICTED_ADVICE = {
    "exhausted": "Answer in words: the next step has no tools.",
    "fallback": "Go on with the tools that the next step has.",
}
REFUSED_ADVICE = {
    "replayed_call_id": "It was not run again; use the answer you have.",
    CAP: "It was not run. Sum up what is known.",
    BUDGET: "It was not run. Answer in words before you call tools again.",
}
REFUSED_OTHERWISE = "It was not run. Do something else, or say what blocks you."
WARNED_ADVICE = {
    "call": "Repeating it will not show anything new. Use what you know, change the approach, or say what blocks you",
    "edit": "Check the file's present content before editing it again",
    "error": "Change the approach rather than the arguments",
    "final": "Stop calling tools and answer",
    BLIND: "If the call shows you nothing new, change the approach, or say what blocks you",
}
WARNED_OTHERWISE = "Change the approach, or say what blocks you"
LAST_CHANCE = "the turn is stopped if the next calls show nothing new either"
BLIND_LAST_CHANCE = "the turn is stopped if the same call keeps coming"


def shown_name(name: str) -> str:
    """A tool's name as messages show it: quoted, shortened, and without characters that could mislead a reader."""
    name = TERMINAL_SEQUENCE.sub("", name)
    shown = "".join(character for character in name if unicodedata.category(character) not in UNSHOWN_CATEGORIES)
    if len(shown) > MAX_NAME_LENGTH:
        shown = shown[: MAX_NAME_LENGTH - 1] + "…"
    return QUOTE + shown.replace(QUOTE, "'") + QUOTE


def what_happened(finding: Finding, totals: Totals) -> str:
    """The fact behind a finding, without a full stop."""
    if finding.reason == CapReason.STUCK:
        return repetition(finding, totals)
    template = WHAT_HAPPENED_FOR.get(str(finding.reason)) or WHAT_HAPPENED.get(finding.loop_type, REPEATED)
    return template.format(
        count=finding.count,
        threshold=finding.threshold,
        tool="a tool without a name" if finding.tool is UNSET else shown_name(finding.tool),
        paired_tool="another tool" if finding.paired_tool is UNSET else shown_name(finding.paired_tool),
    )


def repetition(finding: Finding, totals: Totals) -> str:
    """Which call made the turn a stuck one, and how often it came."""
    repeated = "one call" if finding.tool is UNSET else shown_name(finding.tool)
    return f"{repeated} came {totals.max_key_repeat} times with the same arguments"


def fact_of(finding: Finding, totals: Totals) -> str:
    """What was seen, without a full stop; of the cap also which part of it."""
    fact = what_happened(finding, totals)
    if finding.loop_type != CAP:
        return fact
    match str(finding.reason):
        case CapReason.EXPLICIT_CAP:
            return f"the turn came to {finding.count} tool calls, and the cap that was set is {finding.threshold}"
        case CapReason.STUCK:
            evidence = repetition(finding, totals)
            return f"past {finding.threshold} tool calls a turn must not repeat itself, and {evidence}"
        case _:
            return f"the turn came to {finding.count} tool calls; without a set cap the limit is {finding.threshold}"


# --- for people -------------------------------------------------------------------------------------------------------


def user_message(
    findings: Sequence[Finding], settings: SettingsInForce, totals: Totals, standing: Standing | None = None
) -> str:
    """What a person reads of findings of which the first, the strictest, is of warn or worse.

    `standing`: that of the progress guard, where it runs.
    """
    finding = findings[0]
    message = _user_message(finding, settings, totals, standing)
    blocked = next((each for each in findings if each.action is Action.BLOCK), None)
    if finding.loop_type == MAX_BLOCKS and blocked is not None:
        fact = what_happened(blocked, totals)
        message = f"{message} Last time: {fact}."
    return f"{SHADOW} {message}" if settings.shadow else message


def _user_message(finding: Finding, settings: SettingsInForce, totals: Totals, standing: Standing | None) -> str:
    lead = (SHADOW_LEADS if settings.shadow else LEADS).get(finding.action, "Seen")
    hint = _setting_hint(finding, settings)
    if finding.loop_type == CAP:
        hedged = HEDGED_CAP.format(count=finding.count).removeprefix(LEADS[Action.HALT])
        what = f"{lead}{hedged}" if finding.action is Action.HALT else f"{lead}: {CAP_REFUSAL}"
        return f"{what} {cap_fact(finding, settings, totals)} {hint if settings.shadow else CAP_WAY_OUT}"
    fact = what_happened(finding, totals)
    if finding.action is Action.RESTRICT:
        fact += RESTRICTIONS.get(str(finding.reason), "")
    if _is_by_points(finding) and standing is not None:
        return f"{lead}: {_progress_fact(finding, fact, standing, settings)} {hint}"
    return f"{lead}: {fact}. {hint}".rstrip()


def _setting_hint(finding: Finding, settings: SettingsInForce) -> str:
    """The setting that governs, and the way past a halt where no other words tell it."""
    is_halt = finding.action is Action.HALT
    if finding.setting is UNSET:
        hint = ALWAYS_ON if is_halt else ""
    else:
        effect = SETTING_EFFECTS.get(finding.setting) if is_halt else None
        place = settings.places.get(finding.setting)
        hint = f"Setting: {finding.setting}{f' ({effect})' if effect else ''}{f', set in {place}' if place else ''}."
    return f"{hint} {WAY_OUT}" if is_halt and not settings.shadow and not _is_by_points(finding) else hint


def _is_by_points(finding: Finding) -> bool:
    """Whether it is of the progress guard, and by its points."""
    return finding.loop_type == PROGRESS and finding.reason != BLIND


def cap_fact(finding: Finding, settings: SettingsInForce, totals: Totals) -> str:
    """Which part of the cap it was this time, and on what evidence."""
    limit = finding.threshold
    if finding.reason == CapReason.EXPLICIT_CAP:
        is_as_set = limit == settings.max_tool_calls_per_turn
        how = f"model.maxToolCallsPerTurn is {limit}" if is_as_set else f"for this turn it was {limit}"
        place = settings.places.get("model.maxToolCallsPerTurn")
        return f"Here it was the cap that was set: {how}{f', by {place}' if place else ''}."
    if finding.reason == CapReason.BACKSTOP:
        return f"Here it was the limit that holds for every turn while none is set: {limit} calls, repeated or not."
    evidence = repetition(finding, totals)
    return f"Here it was the adaptive one: past {limit} calls a turn must not repeat itself, and {evidence}."


def _progress_fact(finding: Finding, fact: str, standing: Standing, settings: SettingsInForce) -> str:
    points = f"no new evidence. {fact[0].upper()}{fact[1:]}; {standing.points:g} points (limit {PROGRESS_HALT})"
    if finding.action is not Action.HALT:
        return f"{points}."
    since = standing.since_warning or 0
    warned = f"warned {since} call{'' if since == 1 else 's'} ago"
    if settings.shadow:
        return f"{points}, {warned}."
    return f"{points}, {warned}. Nothing was run after call {standing.calls}. Continue anyway: clears the score."


# --- for the model ----------------------------------------------------------------------------------------------------


def model_message(findings: Sequence[Finding], settings: SettingsInForce, totals: Totals) -> str:
    """What the model reads, with its next request, of findings of which the first is of warn or worse.

    Where calls were refused for several reasons it reads all of them, for each call is answered with the same words.
    """
    if findings[0].action is not Action.BLOCK:
        return _model_message(findings[0], settings, totals)
    blocked = [_model_message(finding, settings, totals) for finding in findings if finding.action is Action.BLOCK]
    return " ".join(list(dict.fromkeys(blocked))[:MAX_TOLD_REASONS])


def _model_message(finding: Finding, settings: SettingsInForce, totals: Totals) -> str:
    fact, reason = what_happened(finding, totals), str(finding.reason)
    if finding.action is Action.HALT:
        advice = STOPPED_WORDS_ADVICE if finding.loop_type in WORDS else STOPPED_ADVICE
        return f"The turn was stopped: {fact}. {advice}"
    if finding.action is Action.BLOCK:
        advice = REFUSED_ADVICE.get(reason) or REFUSED_ADVICE.get(finding.loop_type, REFUSED_OTHERWISE)
        return f"Refused: {fact}. {advice}"
    if finding.action is Action.RESTRICT:
        return f"Note: {fact}. {RESTRICTED_ADVICE.get(reason, WARNED_OTHERWISE)}"
    closing = ""
    if finding.loop_type == PROGRESS and settings.progress == "halt":
        closing = f"; {LAST_CHANCE if _is_by_points(finding) else BLIND_LAST_CHANCE}"
    return f"{fact[0].upper()}{fact[1:]}. {WARNED_ADVICE.get(reason, WARNED_OTHERWISE)}{closing}."


def daemon_error(loop_type: str | None) -> dict[str, Any]:
    """The JSON-RPC error of a stopped prompt, with code and data as Qwen Code's daemon gives them."""
    data = {"code": "LOOP_DETECTED", "errorKind": "loop_detected"}
    if loop_type is not None:
        data["loopType"] = loop_type
    return {
        "code": LOOP_ERROR_CODE,
        "message": "The turn was stopped because it repeated itself. The session goes on with the next prompt.",
        "data": data,
    }
