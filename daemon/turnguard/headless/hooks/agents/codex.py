"""Codex CLI. Documented at developers.openai.com/codex/hooks; the rest was seen with version 0.171.

No hook can end a turn: before a call `continue: false` is an error that lets the call run, after one it hides the
result and the turn goes on. So a halted turn is one in which every call is refused, until the model gives up. Calls
that fail are told like all others.
"""

from typing import Any

from turnguard.headless.hooks.agents import claude
from turnguard.headless.hooks.call import Agent, Answer, Heard, Input, Moment, Place

MOMENTS: dict[str, Moment] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PreCompact": "compacted",
    "Stop": "ended",
}


def answer(heard: Heard, said: Answer) -> dict[str, Any]:
    """The answer in Codex's form: Claude Code's without the end of the turn."""
    return claude.answer(heard, said._replace(stop=None))


def is_sure(given: Input) -> bool:
    """It alone numbers turns."""
    return given.turn_id is not None


AGENT = Agent(
    "codex",
    MOMENTS,
    answer,
    Place(
        ".codex/hooks.json",
        tuple(MOMENTS),
        variable="CODEX_HOME",
        within="hooks.json",
        after="Codex runs hooks only when they are trusted: say /hooks to it.",
    ),
    is_sure=is_sure,
    is_failure_known=False,
)
