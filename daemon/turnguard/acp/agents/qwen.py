"""qwen-code: arguments come when the call runs, or only in the permission request.

Each model response ends with an empty message chunk that carries its usage. Results of commands name processes.
"""

import re

from msgspec import Raw

from turnguard.acp.agents.table import AgentTable
from turnguard.acp.messages import MESSAGE_CHUNK, Update, member


class Qwen(AgentTable):
    """qwen-code 0.24."""

    key = "qwen"
    marks_a_step = 1
    volatile = frozenset({"pid"})
    masks = (re.compile(r"^Process Group PGID: .*+\n?", re.MULTILINE),)

    def marks_step(self, update: Update) -> bool:
        """The chunk with the usage of the response."""
        return update.kind == MESSAGE_CHUNK and isinstance(member(update.meta, "usage"), Raw)
