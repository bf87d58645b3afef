"""Replays recorded behaviour against the guards: `python -m tests.conformance FILE...`.

Behaviour of Qwen Code 0.24.4 and OpenClaw 2026.7.1, of loopShield's seed, and of the progress guard's reference. A file
of vectors is JSON Lines, gzipped or not; each line is one case, a script of events with what was answered to each:
`{"id", "suite", "config", "events": [...], "expect": [...], "final"?: {...}, "config_error"?: true}`. The lines of
loopShield and of the progress guard have forms of their own, see `forms.py`.
"""
