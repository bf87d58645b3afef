"""What a call of `turnguard hook` takes, beside `python -c pass` and `python -m turnguard --version`.

    python -m benchmarks.hook [--rounds 20] [--calls 300]

Each is a process of its own, and they take turns; the best wall and CPU time of each. The calls of the hook are those
before and after a tool, in a session that is new, and in one whose turn has made many calls already. The goal is 100 ms
for each.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from turnguard.headless.hooks.hearing import Hearing
from turnguard.headless.hooks.store import Store
from turnguard.settings.places import lasting_salt, state_dir
from turnguard.settings.sources import Sources

GOAL_SECONDS = 0.1

OUTPUT = "src/module.py:12: in test_it\n    assert answer == 42\n" * 40
"""What the tool prints: 2 KB."""

LAST = b"LAST"
"""Stands for the number of the round, so that no round repeats another."""

HOOK = (sys.executable, "-m", "turnguard", "hook", "claude", "--set", "model.maxToolCallsPerTurn=1000000")


class Asked(NamedTuple):
    """Something to run, and what it is given."""

    name: str
    argv: Sequence[str]
    data: bytes = b""


class Cost(NamedTuple):
    """Seconds."""

    wall: float = float("inf")
    cpu: float = float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hook")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=300, help="that the long turn has made already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"XDG_STATE_HOME": name, "XDG_CONFIG_HOME": name}
        fill(options.calls)
        asked = [
            Asked("python -c pass", (sys.executable, "-c", "pass")),
            Asked("turnguard --version", (sys.executable, "-m", "turnguard", "--version")),
            *(
                Asked(f"hook, {when} a call, {which} turn", HOOK, call(event, session, LAST.decode()))
                for session, which in (("new", "new"), ("long", f"{options.calls} calls'"))
                for event, when in (("PreToolUse", "before"), ("PostToolUse", "after"))
            ),
        ]
        costs = [Cost()] * len(asked)
        for number in range(options.rounds):
            rounds = [each._replace(data=each.data.replace(LAST, f"r{number}".encode())) for each in asked]
            costs = [best(cost, measured(each)) for each, cost in zip(rounds, costs, strict=True)]
        sizes = sorted(file.stat().st_size for file in sessions().glob("*.json"))
    print(f"best of {options.rounds}, milliseconds")
    for each, cost in zip(asked, costs, strict=True):
        print(f"  {each.name:<36} {cost.wall * 1000:7.1f} wall  {cost.cpu * 1000:7.1f} CPU")
    print(f"a session kept: {sizes[0]:,} B new, {sizes[-1]:,} B after {options.calls} calls")
    slow = max(cost.wall for cost in costs)
    print(f"goal {GOAL_SECONDS * 1000:g} ms a call: {'met' if slow < GOAL_SECONDS else 'missed'}")
    return 0


def fill(calls: int) -> None:
    """A session with a long turn of calls that show something new each time."""
    hearing = Hearing(Store(sessions()), Sources("hook", assignments=HOOK[-1:]), lasting_salt, print)
    hearing.answer(call("UserPromptSubmit", "new", "0"), "claude")
    hearing.answer(call("UserPromptSubmit", "long", "0"), "claude")
    for number in range(calls):
        for event in ("PreToolUse", "PostToolUse"):
            hearing.answer(call(event, "long", f"{number}"), "claude")


def sessions() -> Path:
    return state_dir() / "sessions"


def call(event: str, session: str, number: str) -> bytes:
    given: dict[str, Any] = {
        "session_id": session,
        "cwd": "/nowhere",
        "hook_event_name": event,
        "prompt_id": "p",
        "tool_name": "Bash",
        "tool_input": {"command": f"pytest tests/test_{number}.py", "description": "Run one test"},
        "tool_use_id": f"toolu_{number}",
    }
    if event == "PostToolUse":
        given["tool_response"] = {"stdout": f"{OUTPUT}{number}", "stderr": "", "interrupted": False}
    return json.dumps(given).encode()


def measured(asked: Asked) -> Cost:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(asked.argv, input=asked.data, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(one: Cost, other: Cost) -> Cost:
    return Cost(min(one.wall, other.wall), min(one.cpu, other.cpu))


if __name__ == "__main__":
    sys.exit(main())
