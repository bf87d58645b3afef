"""The agent of VS Code. Documented at code.visualstudio.com/docs/agents/reference/hooks-reference; not tried here.

Its form is Claude Code's, and it reads Claude Code's settings too: with hooks there it needs none of its own. Calls
that fail are not told, they stay without a result.
"""

from msgspec import UNSET

from turnguard.headless.hooks.agents import claude
from turnguard.headless.hooks.call import Agent, Input, Moment, Place

MOMENTS: dict[str, Moment] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PreCompact": "compacted",
    "Stop": "ended",
}


def is_sure(given: Input) -> bool:
    """It says when, which Claude Code does not; or, in some versions, its own words in camel case."""
    return given.session_in_camel_case is not None or (given.timestamp is not UNSET and given.prompt_id is None)


AGENT = Agent(
    "vscode",
    MOMENTS,
    claude.answer,
    Place(".github/hooks/turnguard.json", tuple(MOMENTS), is_for_projects_only=True, is_grouped=False),
    is_sure=is_sure,
)
