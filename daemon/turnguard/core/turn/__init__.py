"""Qwen Code's turn guards: the daemon's mirror and the core client's loop detection, on one cap and one counter."""
