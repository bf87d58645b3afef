"""The ACP guard proxy: it stands between a client and an agent, and stops a turn that loops."""
