"""gemini-cli: no arguments and hardly any results, only titles and places.

The title of a command is the command. The tool's name begins the call's id. Where the user is asked, the permission
request stands in place of the call. Files that the user names with @ are shown as calls before the model answers.
"""

from msgspec import UNSET, Raw, UnsetType

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable
from turnguard.core.hint import SHELL_TOOLS
from turnguard.core.javascript import Json

ATTACHMENTS = ("read_many_files-", "resolve-prompt-")
"""How the ids begin under which files named by the user are read, or asked for."""


class Gemini(AgentTable):
    """gemini-cli 0.61."""

    key = "gemini"
    title_is_input = True

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """All but what is read for the user before the model has said or called anything."""
        return has_output or not call.id.startswith(ATTACHMENTS)

    def untold_tool(self, call: MergedCall) -> str | None:
        """What the id begins with: `run_shell_command__fc01`, before that `run_shell_command-1700000000000-1`."""
        name = call.id.partition("__")[0] if "__" in call.id else call.id.partition("-")[0]
        return call.tool_kind if name in ("", call.id) else name

    def signs(self, call: MergedCall) -> dict[str, Json]:
        """The title of a command is the command itself."""
        if call.title is not None and self._is_command(call):
            return {"command": call.title}
        return super().signs(call)

    def content_output(self, call: MergedCall) -> Raw | UnsetType:
        """What came with the end of the call; before it the content is the folder a command runs in."""
        return UNSET if call.content is call.input_content else super().content_output(call)

    def is_blind(self, call: MergedCall) -> bool:
        """A command's result is never shown. Of other tools it is not either, but a title need not tell all they do."""
        return self._is_command(call)

    def _is_command(self, call: MergedCall) -> bool:
        return self.tool(call) in SHELL_TOOLS
