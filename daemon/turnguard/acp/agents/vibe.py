"""mistral-vibe: arguments and the tool's name come at once; a permission request carries the call's id only."""

from turnguard.acp.agents.table import AgentTable


class Vibe(AgentTable):
    """mistral-vibe 3.0: `usage_update` comes once a step."""

    key = "vibe"
    marks_a_step = 1
