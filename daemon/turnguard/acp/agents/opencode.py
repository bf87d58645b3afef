"""opencode: the title of a call's first message is the tool's name; later ones are made of arguments and results.

Arguments come with the first update and are repeated with each piece of output. A permission request gives the same
call other arguments. Its own question about loops (`per_...`) is no call. A call that ended may be announced again.
"""

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable

PERMISSION = "per_"


class OpenCode(AgentTable):
    """opencode 1.18."""

    key = "opencode"
    permission_has_input = False

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """All but permissions that belong to no call."""
        return not call.id.startswith(PERMISSION)

    def untold_tool(self, call: MergedCall) -> str | None:
        """The title the call was announced with."""
        return self.named_by(call.first_title, call)

    def is_title_telling(self, call: MergedCall) -> bool:
        """Titles change with the status."""
        return False
