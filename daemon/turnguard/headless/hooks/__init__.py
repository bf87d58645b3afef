"""Hooks of agents: each call of a hook is a process that hears one thing, answers it, and is gone."""
