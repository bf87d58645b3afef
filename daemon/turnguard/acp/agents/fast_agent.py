"""fast-agent: commands run in terminals of the client, so what they print is in the client's answers.

The tool's name is the first word of the first title. Arguments come with the permission request or when the call runs.
"""

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable


class FastAgent(AgentTable):
    """fast-agent-mcp 0.10."""

    key = "fast-agent"

    def untold_tool(self, call: MergedCall) -> str | None:
        """The first title up to its arguments: `execute`, `server/tool(...)`."""
        words = (call.first_title or "").partition("(")[0].split()
        return words[0] if words else call.tool_kind

    def is_title_telling(self, call: MergedCall) -> bool:
        """A title of its own says no more than the name."""
        return False

    def transcript(self, call: MergedCall) -> str | None:
        """What the client's terminal showed, where the call ran in one."""
        return call.terminal_output if call.terminal_output is not None else super().transcript(call)
