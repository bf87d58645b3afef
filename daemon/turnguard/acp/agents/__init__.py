"""The agents that are known, one table each, and the choice among them by what an agent says of itself."""

from collections.abc import Mapping

from turnguard.acp.agents.claude import Claude
from turnguard.acp.agents.codex import Codex
from turnguard.acp.agents.codex2 import Codex2
from turnguard.acp.agents.fast_agent import FastAgent
from turnguard.acp.agents.gemini import Gemini
from turnguard.acp.agents.generic import Generic
from turnguard.acp.agents.goose import Goose
from turnguard.acp.agents.kimi import Kimi
from turnguard.acp.agents.opencode import OpenCode
from turnguard.acp.agents.qwen import Qwen
from turnguard.acp.agents.table import AgentTable
from turnguard.acp.agents.vibe import Vibe
from turnguard.acp.messages import AgentInfo

TABLES: Mapping[str, AgentTable] = {
    table.key: table
    for table in (
        Claude(),
        Codex(),
        Codex2(),
        FastAgent(),
        Gemini(),
        Generic(),
        Goose(),
        Kimi(),
        OpenCode(),
        Qwen(),
        Vibe(),
    )
}
"""By what status reports call them."""

WORDS: Mapping[str, str] = {
    "claude": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "qwen": "qwen",
    "opencode": "opencode",
    "vibe": "vibe",
    "fast-agent": "fast-agent",
    "goose": "goose",
    "kimi": "kimi",
    "openhands": "kimi",
}
"""A part of an agent's name, in lower case, and the table it calls for; the first that fits."""


def table_of(agent: AgentInfo | None) -> AgentTable:
    """The table of the agent that said this of itself; the generic one when it is not known, or said nothing."""
    name = "" if agent is None else agent.name.lower()
    key = next((key for word, key in WORDS.items() if word in name), Generic.key)
    if agent is not None and key == Codex.key and not agent.version.startswith("0."):
        key = Codex2.key
    return TABLES[key]
