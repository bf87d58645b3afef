"""What `turnguard replay` costs, beside a plain loop that only parses the JSON.

    python -m benchmarks.replay [--turns 10000] [--rounds 3]

A folder of sessions as Claude Code writes them: 100 files, turns of 1 to 30 calls, some of which repeat themselves,
results of 100 B to 8 KB. Both are processes of their own and take turns; CPU time of the best round, time on the
clock, and the most memory. The goal is half the speed of the loop, with one process.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GOAL = 2.0
"""Times the loop's CPU."""

FILES = 100
MARGIN = {
    "parentUuid": None,
    "isSidechain": False,
    "userType": "external",
    "cwd": "/home/someone/work/project",
    "version": "2.1.318",
    "gitBranch": "main",
}
"""What every line carries besides."""

LOOP = """
import json, sys
from pathlib import Path
lines = 0
for path in sorted(Path(sys.argv[1]).iterdir()):
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
            lines += 1
"""


class Cost(NamedTuple):
    """CPU seconds of all processes, seconds on the clock, and KiB of the largest process."""

    cpu: float
    wall: float
    memory: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size, calls = write(folder, options.turns)
        print(f"{options.turns:,} turns, {calls:,} calls, {size / 1e6:,.0f} MB in {FILES} files\n")
        replay = [sys.executable, "-m", "turnguard", "replay", name]
        commands = {
            "plain loop": [sys.executable, "-c", LOOP, name],
            "replay --json": [*replay, "--json", "--jobs", "1"],
            "replay --html": [*replay, "--html", os.devnull, "--jobs", "1"],
            "all cores": [*replay, "--json"],
        }
        costs = {label: Cost(float("inf"), float("inf"), 0) for label in commands}
        for _ in range(options.rounds):
            for label, command in commands.items():
                cost = run(command)
                best = costs[label]
                costs[label] = Cost(min(best.cpu, cost.cpu), min(best.wall, cost.wall), max(best.memory, cost.memory))
    base = costs["plain loop"].cpu
    for label, cost in costs.items():
        speed = options.turns / cost.cpu
        times = f"{cost.cpu:6.2f} s CPU {cost.wall:6.2f} s"
        print(f"{label:14} {times}  {speed:8,.0f} turns/s  {cost.cpu / base:5.2f} x  {cost.memory / 1024:6.0f} MB")
    ratio = costs["replay --json"].cpu / base
    print(f"\ngoal: at most {GOAL} x the loop: {'met' if ratio <= GOAL else 'missed'}")
    return 0


def run(command: list[str]) -> Cost:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss)


def write(folder: Path, turns: int) -> tuple[int, int]:
    """Writes the sessions: how many bytes, and how many calls."""
    chance = random.Random(1)  # noqa: S311
    size = calls = 0
    for number in range(FILES):
        with (folder / f"{number:03}.jsonl").open("wb") as file:
            for turn in range(turns // FILES):
                for line in lines(f"{number}-{turn}", chance):
                    size += file.write(json.dumps(MARGIN | line).encode() + b"\n")
                    calls += line["type"] == "assistant"
    return size, calls


def lines(name: str, chance: random.Random) -> Iterator[dict[str, object]]:
    prompt = {"role": "user", "content": "please " + "work " * chance.randint(1, 80)}
    at = "2026-01-01T00:00:00.000Z"
    yield {"type": "user", "sessionId": name, "timestamp": at, "uuid": f"p{name}", "message": prompt}
    is_stuck = chance.random() < 0.05
    for number in range(chance.randint(1, 30)):
        call_id = f"toolu_{name}_{number}"
        command = "pytest -q" if is_stuck else f"sed -n {number},{number + 40}p src/{chance.randint(1, 400)}.py"
        output = (
            "1 failed"
            if is_stuck
            else "".join(chance.choices("abcdefgh \n", k=chance.choice((100, 500, 2_000, 8_000))))
        )
        used = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command, "description": "Look"}}
        usage = {
            "input_tokens": 1_000,
            "cache_read_input_tokens": 20_000,
            "output_tokens": 100,
            "service_tier": "standard",
        }
        answer = {"id": f"msg_{name}_{number}", "role": "assistant", "content": [used], "usage": usage}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": False}
        at = f"2026-01-01T00:00:{number:02}.000Z"
        yield {"type": "assistant", "sessionId": name, "timestamp": at, "uuid": f"a{call_id}", "message": answer}
        told = {"role": "user", "content": [result]}
        more = {"stdout": output, "stderr": "", "interrupted": False}
        yield {
            "type": "user",
            "sessionId": name,
            "timestamp": at,
            "uuid": f"u{call_id}",
            "message": told,
            "toolUseResult": more,
        }


if __name__ == "__main__":
    sys.exit(main())
