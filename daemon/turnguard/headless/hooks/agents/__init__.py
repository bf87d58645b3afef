"""The agents whose hooks are understood, one file each. The order is that in which they are tried."""

from turnguard.headless.hooks.agents import claude, codex, gemini, qwen, vscode
from turnguard.headless.hooks.call import Agent, Input

AGENTS: tuple[Agent, ...] = (gemini.AGENT, qwen.AGENT, codex.AGENT, vscode.AGENT, claude.AGENT)

BY_NAME = {agent.name: agent for agent in AGENTS}


def agent_of(given: Input, named: str | None = None) -> Agent:
    """Who says this: who was named; else, by what is said, who must; else Claude Code, whose form others took over.

    Who was named Claude Code may be another all the same: VS Code runs the hooks of Claude Code's settings, too.
    """
    if named is not None and named != claude.AGENT.name:
        return BY_NAME[named]
    return next((agent for agent in AGENTS if agent.is_sure(given)), claude.AGENT)
