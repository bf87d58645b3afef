"""claude-agent-acp: a call is announced with empty arguments, which come in an update without a status.

Calls of subagents stand in the same session and name the call of the `Agent` tool they belong to. `usage_update` comes
twice a step: when the response begins, and when it ends.
"""

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable

MEMORY_RECALL = "memory_recall"
"""What the adapter itself shows as a call when memories were looked up."""


class Claude(AgentTable):
    """claude-agent-acp 0.49 to 0.101."""

    key = "claude"
    marks_a_step = 2

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """All but the recall of memories."""
        return MEMORY_RECALL not in (self.tool(call), call.title) and not call.id.startswith(MEMORY_RECALL)

    def is_shell(self, call: MergedCall) -> bool:
        """No command's end is in doubt: one that exits with another code than 0 is reported as failed."""
        return False
