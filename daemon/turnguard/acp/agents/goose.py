"""goose: arguments are given in permission requests only, and newer titles are written by a model.

So a call that runs without being asked for is known by its name at most, and such calls are never taken for equal.
"""

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable
from turnguard.core.javascript import Json


class Goose(AgentTable):
    """goose as of 2026, and older ones."""

    key = "goose"

    def untold_tool(self, call: MergedCall) -> str | None:
        """Older ones: the title the call was announced with."""
        return self.named_by(call.first_title, call)

    def signs(self, call: MergedCall) -> dict[str, Json]:
        """Places and content come with the result; nothing tells of the arguments."""
        return {}
