"""codex-acp, the Rust adapter: events of Codex as they are, full of ids and times.

The permission request comes before the call. Commands have no tool name; `usage_update` ends each model response, while
a slow command of it may still run. Calls of one response run one after another.
"""

import re

from msgspec import Raw

from turnguard.acp.agents.merged import MergedCall
from turnguard.acp.agents.table import AgentTable, object_of

COMMAND = frozenset({"command", "cwd", "interaction_input"})
"""What makes a command what it is; the rest is decoration that differs between the request and the call."""

COMPACTION = "compact conversation"
STARTUP = "mcp_startup"


class Codex(AgentTable):
    """@zed-industries/codex-acp 0.16."""

    key = "codex"
    marks_a_step = 1
    title_is_input = True
    volatile = frozenset(
        {"call_id", "process_id", "turn_id", "started_at_ms", "completed_at_ms", "duration", "id", "status"}
        | {"agentsStates", "proposed_execpolicy_amendment", "available_decisions", "source", "reason"}
    )
    masks = (re.compile(r"(?<=^thread ')[^'\n]*+' \([0-9]++\)(?= panicked at )", re.MULTILINE),)
    """Its sandbox helper names the thread's id when it fails."""

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """MCP servers that start, and compaction, are shown as calls."""
        return not call.id.startswith(STARTUP) and (call.title or "").lower() != COMPACTION

    def untold_tool(self, call: MergedCall) -> str | None:
        """The tool as Codex calls it, by what its event holds."""
        inputs = self._inputs(call)
        if "interaction_input" in inputs:
            return "write_stdin"
        if "command" in inputs:
            return "exec_command"
        return "apply_patch" if call.tool_kind == "edit" else call.tool_kind

    def arguments(self, call: MergedCall) -> Raw:
        """Of a command what is run and where; of anything else the event without what is never equal."""
        inputs = self._inputs(call)
        if "command" in inputs:
            return object_of({name: value for name, value in inputs.items() if name in COMMAND})
        return super().arguments(call)
