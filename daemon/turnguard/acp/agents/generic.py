"""Agents that nobody knows."""

from turnguard.acp.agents.table import AgentTable


class Generic(AgentTable):
    """By the protocol alone. A title counts only where there is no name, and when it is more than one itself."""
