"""OpenClaw's loop detection over a rolling history of calls, and its guard after a compaction."""
