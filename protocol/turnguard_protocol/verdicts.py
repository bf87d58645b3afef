"""Verdicts: what the guard answers."""

from enum import StrEnum
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from turnguard_protocol.events import TurnOutcome


class Action(StrEnum):
    """What the host must do, from mildest to strictest.

    `allow`: go on. `warn`: go on, and tell. `restrict`: the next step gets no tools. `block`: at least one call of this
    batch must not run, the turn goes on. `halt`: the turn is over.
    """

    ALLOW = "allow"
    WARN = "warn"
    RESTRICT = "restrict"
    BLOCK = "block"
    HALT = "halt"


class Answer(Struct, rename="camel", gc=False):
    """The base of everything the daemon sends; an optional field that is not set is left out."""


class Finding(Answer, kw_only=True):
    """What one guard says.

    `loop_type` is the name the seeds give the loop, `reason` what exactly fired. `count` was reached where `threshold`
    is allowed or asked for. `fresh` is False when the finding only repeats what was already said in this episode.
    `key_digest` is keyed with a salt that stays in this installation. `setting` is the one setting that governs,
    `setting_source` the file that set it, where a file did.
    """

    guard: str
    action: Action
    loop_type: str
    reason: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    paired_tool: str | UnsetType = UNSET
    count: int
    threshold: int
    fresh: bool = True
    run_id: str | UnsetType = UNSET
    key_digest: str | UnsetType = UNSET
    setting: str | UnsetType = UNSET
    setting_source: str | UnsetType = UNSET


class Totals(Answer):
    """What the turn has seen so far.

    `tool_calls` and `distinct_keys` count calls that were asked for, refused ones included, as Qwen Code does.
    """

    tool_calls: int
    steps: int
    distinct_keys: int
    max_key_repeat: int
    max_key_tool: str | UnsetType = UNSET


class Verdict(Answer, kw_only=True):
    """The answer to `turnguard/record`.

    `admitted` is authoritative: exactly these indexes of the batch may run, whatever the action. `user_message` is for
    the person and names the setting that governs; `model_message` is for the model's next request and never does.
    `notices` are for the person too, each told once: settings that were ignored, and settings that have changed.
    """

    action: Action
    turn_id: str
    findings: list[Finding]
    admitted: list[int]
    user_message: str | UnsetType = UNSET
    model_message: str | UnsetType = UNSET
    totals: Totals
    notices: list[str] | UnsetType = UNSET


SessionState = Literal["idle", "running", "halted", "disabled"]
OverrideAction = Literal["continueOnce", "raiseCap", "disable", "enable"]


class Cap(Answer):
    """The tool-call cap of the turn in force, raises included. `value` None: switched off."""

    value: int | None
    explicit: bool


class AppliedOverride(Answer):
    """An override that holds for the turn at hand. `calls`: by how many calls it raised the cap."""

    action: OverrideAction
    calls: int | UnsetType = UNSET


class SessionStatus(Answer, kw_only=True):
    """How a session stands.

    `blind`: guards that were told no outcome in this turn; all they can go by is how often a call comes in a row whose
    `facts` say that its results are never shown.
    """

    session_id: str
    agent_id: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    turn_id: str | UnsetType = UNSET
    state: SessionState
    totals: Totals
    cap: Cap
    last_finding: Finding | UnsetType = UNSET
    overrides: list[AppliedOverride]
    budget_state: str | UnsetType = UNSET
    blind: list[str] | UnsetType = UNSET


class TurnSummary(Answer, kw_only=True):
    """What a closed session's last turn came to."""

    turn_id: str
    outcome: TurnOutcome
    totals: Totals
    findings: list[Finding]


class NextStep(Answer, kw_only=True):
    """The answer to `turnguard/prepareStep`: what the next model request may use. `active_tools` None: all of them."""

    tool_choice: Literal["auto", "none"]
    active_tools: list[str] | None
    state: str | None
