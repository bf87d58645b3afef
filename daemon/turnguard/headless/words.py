"""What the commands tell people. The facts are those of `core.messages`; the ways on are those of `turnguard exec`."""

from collections.abc import Sequence

from msgspec import UNSET

from turnguard.core.messages import ALWAYS_ON, CAP, HEDGED_CAP, SETTING_EFFECTS, fact_of
from turnguard_protocol.verdicts import Action, Finding, Verdict

RESUMED_BY = {
    "claude-stream": "claude --continue",
    "codex-exec": "codex exec resume --last",
    "gemini-stream": "gemini --resume latest",
    "opencode-stream": "opencode run --continue",
    "qwen-stream": "qwen --continue",
}
"""How agents go on with their last session, by the format of their stream."""

WOULD_HAVE = {
    Action.ALLOW: "noted",
    Action.WARN: "warned",
    Action.RESTRICT: "left without tools",
    Action.BLOCK: "refused",
    Action.HALT: "stopped",
}
"""What a guard would have done with the turn, or the call."""

CAP_SETTING, NO_CAP = "model.maxToolCallsPerTurn", "0: no cap"


def fresh(verdict: Verdict) -> list[Finding]:
    """The findings that say something for the first time in their episode."""
    return [finding for finding in verdict.findings if finding.fresh and finding.action is not Action.ALLOW]


def notices_of(verdict: Verdict) -> Sequence[str]:
    """What the verdict wants people to know besides its findings."""
    return () if verdict.notices is UNSET else verdict.notices


def stopped(verdict: Verdict, *, calls: int, has_run: bool, format_name: str | None = None) -> str:
    """Why the agent was stopped, and how to go on. `calls`: so many the turn had shown; `has_run`: all had results."""
    finding, totals = verdict.findings[0], verdict.totals
    fact = fact_of(finding, totals)
    what = f"{HEDGED_CAP.format(count=finding.count)} Here {fact}." if finding.loop_type == CAP else f"Stopped: {fact}."
    last = f"The last call, number {calls} of the turn, {'had already run' if has_run else 'may have begun'}."
    resumed_by = RESUMED_BY.get(format_name or "")
    session = f"its session ({resumed_by})" if resumed_by else "its session"
    way_on = f"To go on, start the agent again or resume {session}: counts begin anew."
    return f"{what} {last} {rule_of(finding)} {way_on}"


def warning(verdict: Verdict, *, is_only_told: bool) -> str:
    """What a person reads of the first fresh finding of a verdict that stops nothing.

    `is_only_told`: `--on-loop warn` is in force.
    """
    finding = fresh(verdict)[0]
    is_shadow = verdict.action is Action.ALLOW
    if is_shadow and verdict.user_message:  # turnguard.shadow, for which the core has words
        return verdict.user_message
    more = ""
    if is_only_told and finding.action is Action.HALT:
        more = " It goes on, since --on-loop is warn."
    elif finding.action in (Action.BLOCK, Action.RESTRICT):
        more = " It goes on: a running agent's single calls cannot be refused from here."
    return f"Warning: {fact_of(finding, verdict.totals)}.{more} {rule_of(finding)}"


def too_late(verdict: Verdict) -> str:
    """What would have stopped an agent that ended by itself meanwhile."""
    finding = verdict.findings[0]
    return f"Warning: {fact_of(finding, verdict.totals)}. The agent had ended by itself. {rule_of(finding)}"


def unknown() -> str:
    """That nothing was guarded."""
    return (
        "Nothing is guarded: stdout is no agent's stream that is known. `turnguard exec --help` names those that are."
    )


def deaf() -> str:
    """That nothing is guarded any more."""
    return "Nothing is guarded any more: the command has no stdout any more, and goes on."


def unread(lines: int, first: tuple[int, str]) -> str:
    """That lines of the stream were passed over."""
    number, why = first
    count = many(lines, "line")
    return f"{count} of the stream could not be read and passed unguarded; the first was line {number}: {why}."


def broken(error: str) -> str:
    """That turnguard itself failed. `error`: the name of what was raised."""
    return f"Nothing is guarded any more, turnguard itself has failed ({error})."


def many(count: int, what: str) -> str:
    """A number of things."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def rule_of(finding: Finding) -> str:
    """The rule by its names, and the one setting that governs it."""
    rule = f"Rule: {finding.loop_type} of the guard {finding.guard}."
    if finding.setting is UNSET:
        return f"{rule} {ALWAYS_ON}"
    effect = NO_CAP if finding.setting == CAP_SETTING else SETTING_EFFECTS.get(finding.setting)
    source = "" if finding.setting_source is UNSET else f", set in {finding.setting_source}"
    return f"{rule} Setting: {finding.setting}{f' ({effect})' if effect else ''}{source}."
