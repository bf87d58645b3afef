"""codex-acp, the TypeScript adapter: of commands that only read it shows no arguments, and output comes in pieces.

A web search has no arguments but an id until it is over. `usage_update` comes once a step.
"""

from turnguard.acp.agents.codex import COMPACTION, STARTUP
from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable

FILE_SEARCH = "fuzzyFileSearch."
"""A search that the user makes while typing."""


class Codex2(AgentTable):
    """@agentclientprotocol/codex-acp 2.6."""

    key = "codex2"
    marks_a_step = 1
    title_is_input = True
    volatile = frozenset({"id", "status", "agentsStates", "processId", "process_id", "duration", "durationMs"})
    no_input = frozenset({"cwd", "id", "status", "agentsStates"})

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """MCP servers that start, compaction and the user's own searches are shown as calls."""
        return not call.id.startswith((STARTUP, FILE_SEARCH)) and (call.title or "").lower() != COMPACTION
