"""What the progress guard costs: microseconds a call, and bytes a session.

    python -m benchmarks.progress [--calls 20000] [--rounds 9]

The baseline of the same run is the batch turn guard alone; each row is the best of its rounds, measured in turns, in
CPU time. Calls and results are in the identified form, since guards see no other. The second table is what comes before
it, once a result and once a shell call: the outcome, beside SHA-256 of the same text, and the hint, beside the repeat
key. The third is what a session holds of a turn of as many distinct calls as the guard remembers.
"""

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from hashlib import sha256
from time import process_time_ns

import msgspec
from msgspec import UNSET, Raw

from turnguard.core.guard import Batch, Guard
from turnguard.core.hint import call_hint
from turnguard.core.identity import tool_call_repeat_key
from turnguard.core.masking import progress_outcome
from turnguard.core.progress import ProgressGuard
from turnguard.core.thresholds import PROGRESS_WINDOW
from turnguard.core.turn.batch_turn import BatchTurnGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import Call, Event, Keys, Outcomes, Result, StepFinished, ToolResults

SETTINGS = msgspec.structs.replace(Merged([]).in_force(), progress="warn", max_tool_calls_per_turn=None)
STEP_FINISHED = StepFinished()
LOG_LINE = "2026-11-30 01:02:03,456 INFO worker[41]: fetched part 17 of src/app/main.py in 12.5 ms\n"
COMMAND = "cd /srv/app && RUST_LOG=debug timeout 600 cargo test --workspace 2>&1 | tail -50"

Step = tuple[Batch, Event]


def steps_of(calls: int, keys: int, batch: int, ok: bool | None) -> list[Step]:
    """Steps of so many calls each, over so many keys and as many outcomes."""
    made: list[Step] = []
    for first in range(0, calls, batch):
        numbers = range(first, first + batch)
        asked = [Call("run_shell_command", f"{n}", key=Keys(digest(n % keys)), hint="cargo test") for n in numbers]
        told = [Result(f"{n}", outcome=Outcomes(progress=digest(n % keys)), ok=ok) for n in numbers]
        made.append((Batch(asked, None), ToolResults(told)))
    return made


def digest(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def play(guard: Guard, steps: Sequence[Step]) -> None:
    for batch, results in steps:
        guard.check(batch)
        guard.commit(batch, range(len(batch.calls)))
        guard.receive(results)
        guard.receive(STEP_FINISHED)


def cpu(run: Callable[..., object], *args: object, times: int = 1) -> float:
    """CPU microseconds of one run."""
    gc.collect()
    before = process_time_ns()
    for _ in range(times):
        run(*args)
    return (process_time_ns() - before) / 1_000 / times


def guards(calls: int, rounds: int) -> None:
    print(f"{'guards, us a call':34} {'turn guard':>10} {'progress':>10} {'ratio':>6}")
    for name, keys, batch, ok in (
        ("all calls new", calls, 1, True),
        ("period of 7, stale", 7, 1, None),
        ("failing alike", calls, 1, False),
        ("batches of 10, new", calls, 10, True),
    ):
        steps = steps_of(calls, keys, batch, ok)
        kinds: tuple[type[Guard], ...] = (BatchTurnGuard, ProgressGuard)
        best = [float("inf")] * len(kinds)
        for _ in range(rounds):
            best = [min(least, cpu(play, kind(SETTINGS), steps)) for least, kind in zip(best, kinds, strict=True)]
        row(name, best[0] / calls, best[1] / calls)


def identities(rounds: int) -> None:
    print(f"\n{'before the guards, us once each':34} {'baseline':>10} {'ours':>10} {'ratio':>6}")
    for size in (100, 1_000, 10_000, 100_000):
        text = (LOG_LINE * (size // len(LOG_LINE) + 1))[:size]
        raw, times = Raw(msgspec.json.encode(text)), max(3, 200_000 // size)
        base = min(cpu(sha256, text.encode(), times=times) for _ in range(rounds))
        ours = min(cpu(progress_outcome, raw, UNSET, times=times) for _ in range(rounds))
        row(f"outcome of {size:,} B, to SHA-256", base, ours)
    args = Raw(msgspec.json.encode({"command": COMMAND, "description": "Run the tests", "timeout": 600_000}))
    base = min(cpu(tool_call_repeat_key, "bash", args, times=2_000) for _ in range(rounds))
    row("hint of a shell call, to its key", base, min(cpu(call_hint, "bash", args, times=2_000) for _ in range(rounds)))


def row(name: str, base: float, ours: float, form: str = "10,.2f") -> None:
    print(f"{name:34} {base:{form}} {ours:{form}} {ours / base:6.2f}", flush=True)


def memory(sessions: int = 1_000) -> None:
    print(f"\n{f'bytes held, {PROGRESS_WINDOW} calls, at rest':34} {'turn guard':>10} {'progress':>10} {'ratio':>6}")
    for name, ok in (("all calls new", True), ("all failed", False)):
        steps = steps_of(PROGRESS_WINDOW, PROGRESS_WINDOW, 1, ok)
        sizes = [bytes_each(kind, steps, sessions) for kind in (BatchTurnGuard, ProgressGuard)]
        row(name, *sizes, form="10,.0f")


def bytes_each(kind: type[Guard], steps: Sequence[Step], sessions: int) -> float:
    play(kind(SETTINGS), steps)
    gc.collect()
    tracemalloc.start()
    held = [kind(SETTINGS) for _ in range(sessions)]
    for guard in held:
        play(guard, steps)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (size - sys.getsizeof(held)) / sessions


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of the progress guard.")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    guards(options.calls, options.rounds)
    identities(options.rounds)
    memory()
    return 0


if __name__ == "__main__":
    sys.exit(main())
