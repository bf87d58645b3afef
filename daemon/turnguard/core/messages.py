"""Words for people and for the model.

A message to a person names the rule, the call, the count and the one setting that governs it; a message to the model
says what happened and what to do instead, and never names a setting. Both are true for the case at hand.
"""

import re
import unicodedata
from typing import Any

from msgspec import UNSET

from turnguard.core.thresholds import READ_FILE_LOOP_WINDOW
from turnguard.core.turn.cap import CapReason
from turnguard_protocol.settings import SettingsInForce
from turnguard_protocol.verdicts import Action, Finding, Totals

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
    "alternating_tool_call_pattern": "{tool} and {paired_tool} were called in turn {count} times",
    "chanting_identical_sentences": "the model wrote the same passage {count} times",
    "consecutive_identical_tool_calls": "{tool} was called {count} times in a row with the same arguments",
    "global_tool_call_duplicate": "{tool} was called {count} times in this turn with the same arguments",
    "invalid_tool_params_stagnation": "{count} calls of {tool} were rejected for their parameters",
    "read_file_loop": f"{{count}} of the last {READ_FILE_LOOP_WINDOW} calls only read",
    "repeated_tool_execution_failure": "{tool} failed {count} times with the same kind of error",
    "repetitive_thoughts": "the model had the same thought {count} times in a row",
    "shell_command_stagnation": "{count} shell commands in a row only looked at the state of the git repository",
    "turn_tool_call_cap": "the turn came to {count} tool calls, more than it may make",
}
"""By loop type, for people and the model alike."""

REPEATED = "the turn repeated itself"
"""For a loop type of another version, which a transcript can hold."""

REPLAYED = "a call of {tool} that was already answered came again under its old id"

SETTING_HINTS = {
    "model.skipLoopDetection": "Setting: model.skipLoopDetection (true leaves this check out).",
    "turnguard.repeatedFailures": "Setting: turnguard.repeatedFailures (warn reminds the model and never stops it).",
}
LEADS = {Action.HALT: "Stopped", Action.BLOCK: "Refused"}
ALWAYS_ON = "No setting governs this check. You can continue once."

HEDGED_CAP = (
    "Stopped after {count} tool calls: this turn passed its tool-call cap, either the one set in "
    "model.maxToolCallsPerTurn or, when none is set, the adaptive one for long turns that repeat themselves."
)
"""The fixed sentence that covers every part of the cap, as the design document asks for; the fact follows it."""

CAP_WAY_OUT = "You can continue once, raise the cap for this turn, or set model.maxToolCallsPerTurn (0: no cap)."

STOPPED_ADVICE = "Do not call tools again for this. Sum up what is known and say what blocks you."
REFUSED_ADVICE = "It was not run again; use the answer you have."
WARNED_ADVICE = "Change the approach, or say what blocks you."


def shown_name(name: str) -> str:
    """A tool's name as messages show it: quoted, shortened, and without characters that could mislead a reader."""
    name = TERMINAL_SEQUENCE.sub("", name)
    shown = "".join(character for character in name if unicodedata.category(character) not in UNSHOWN_CATEGORIES)
    if len(shown) > MAX_NAME_LENGTH:
        shown = shown[: MAX_NAME_LENGTH - 1] + "…"
    return f'"{shown}"'


def what_happened(finding: Finding, totals: Totals) -> str:
    """The fact behind a finding, without a full stop."""
    if finding.reason == CapReason.STUCK:
        return repetition(finding, totals)
    template = REPLAYED if finding.reason == "replayed_call_id" else WHAT_HAPPENED.get(finding.loop_type, REPEATED)
    return template.format(
        count=finding.count,
        tool="a tool without a name" if finding.tool is UNSET else shown_name(finding.tool),
        paired_tool="another tool" if finding.paired_tool is UNSET else shown_name(finding.paired_tool),
    )


def user_message(finding: Finding, settings: SettingsInForce, totals: Totals) -> str:
    """What a person reads of a finding of warn or worse."""
    if finding.loop_type == "turn_tool_call_cap":
        return f"{HEDGED_CAP.format(count=finding.count)} {cap_fact(finding, settings, totals)} {CAP_WAY_OUT}"
    lead = LEADS.get(finding.action, "Warning")
    if finding.setting is not UNSET:
        return f"{lead}: {what_happened(finding, totals)}. {SETTING_HINTS[finding.setting]}"
    return f"{lead}: {what_happened(finding, totals)}. {ALWAYS_ON if finding.action is Action.HALT else ''}".rstrip()


def repetition(finding: Finding, totals: Totals) -> str:
    """Which call made the turn a stuck one, and how often it came."""
    repeated = "one call" if finding.tool is UNSET else shown_name(finding.tool)
    return f"{repeated} came {totals.max_key_repeat} times with the same arguments"


def cap_fact(finding: Finding, settings: SettingsInForce, totals: Totals) -> str:
    """Which part of the cap it was this time, and on what evidence."""
    limit = finding.threshold
    if finding.reason == CapReason.EXPLICIT_CAP:
        is_raised = limit != settings.max_tool_calls_per_turn
        how = f"it was raised to {limit} for this turn" if is_raised else f"model.maxToolCallsPerTurn is {limit}"
        return f"Here it was the cap that was set: {how}."
    if finding.reason == CapReason.BACKSTOP:
        return f"Here it was the limit that holds for every turn while none is set: {limit} calls, repeated or not."
    repeated = "one call" if finding.tool is UNSET else shown_name(finding.tool)
    times = f"{totals.max_key_repeat} times with the same arguments"
    return (
        f"Here it was the adaptive one: past {limit} calls a turn must not repeat itself, and {repeated} came {times}."
    )


def model_message(finding: Finding, totals: Totals) -> str:
    """What the model reads of a finding of warn or worse, with its next request."""
    fact = what_happened(finding, totals)
    if finding.action is Action.HALT:
        return f"The turn was stopped: {fact}. {STOPPED_ADVICE}"
    if finding.action is Action.BLOCK:
        return f"This call was refused: {fact}. {REFUSED_ADVICE}"
    return f"Note: {fact}. {WARNED_ADVICE}"


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
