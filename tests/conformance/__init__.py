"""Replays recorded behaviour of Qwen Code 0.24.4 against the guards: `python -m tests.conformance FILE...`.

A vector file is JSON Lines, gzipped or not; each line is one case, a script of events with what upstream answered to
each of them: `{"id", "suite", "config", "events": [...], "expect": [...], "final"?: {...}, "config_error"?: true}`.
"""
