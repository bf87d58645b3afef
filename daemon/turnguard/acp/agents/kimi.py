"""kimi-cli: the text of the arguments grows in the content of a call in progress, until the result takes its place.

The title grows too: `Shell: ls`. So a call is known when it is asked for, or when it is over.
"""

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable, items
from turnguard.core.javascript import Json


class Kimi(AgentTable):
    """kimi-cli 1.51; OpenHands-CLI does the same."""

    key = "kimi"
    streams_input = True

    def untold_tool(self, call: MergedCall) -> str | None:
        """The title up to its argument."""
        return self.named_by((call.title or "").partition(":")[0].strip(), call)

    def signs(self, call: MergedCall) -> dict[str, Json]:
        """The text that was shown before the result."""
        words: list[str] = []
        for item in items(call.input_content):
            content = item.get("content")
            told = content.get("text") if isinstance(content, dict) else None
            if isinstance(told, str):
                words.append(told)
        return {"arguments": "\n".join(words)} if any(words) else {}
