"""Claude Code. Documented at code.claude.com/docs/en/hooks; the rest was seen with version 2.1.

`continue: false` before a call ends the turn of whoever makes it, and with a refusal beside it the call does not run.
In a subagent it ends only that one; its parent hears the same after the call that started it. The stop reason is shown
to the person, and to the model with the next prompt, so it names no setting. `systemMessage` the model never sees, and
beside `continue: false` after a call nobody does.
A prompt that begins with a task notification is Claude Code's own, so the turn goes on.
"""

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError, json

from turnguard.headless.hooks.call import Agent, Answer, Heard, Moment, Place

MOMENTS: dict[str, Moment] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "PreCompact": "compacted",
    "Stop": "ended",
    "SessionEnd": "ended",
}

TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


class _Command(Struct):
    """What a shell command gave."""

    stdout: str | UnsetType = UNSET
    stderr: str | UnsetType = UNSET


_command = json.Decoder(_Command)


def output(response: Raw) -> Raw:
    """What the model is told: of a shell command what it printed, as text, so that times in it can be masked."""
    if not bytes(response).startswith(b'{"stdout":'):
        return response
    try:
        command = _command.decode(response)
    except ValidationError:  # another tool's
        return response
    return Raw(json.encode([text for text in (command.stdout, command.stderr) if text]))


def answer(heard: Heard, said: Answer) -> dict[str, Any]:
    """The answer in Claude Code's form."""
    told: dict[str, Any] = {}
    if said.stop is not None:
        told |= {"continue": False, "stopReason": said.stop}
    if said.person is not None:
        told["systemMessage"] = said.person
    specific: dict[str, Any] = {}
    if said.refusal is not None:
        specific |= {"permissionDecision": "deny", "permissionDecisionReason": said.refusal}
    if said.context is not None:
        specific["additionalContext"] = said.context
    if specific:
        told["hookSpecificOutput"] = {"hookEventName": heard.name, **specific}
    return told


AGENT = Agent(
    "claude",
    MOMENTS,
    answer,
    Place(
        ".claude/settings.json",
        tuple(MOMENTS),
        variable="CLAUDE_CONFIG_DIR",
        within="settings.json",
        with_matcher=TOOLS,
    ),
    output=output,
    shows_after=False,
)
