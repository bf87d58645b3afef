"""What all guards together cost, beside the turn guard alone, and what a session holds at full history.

    python -m benchmarks.stack [--rounds 7] [--batches 2000]

CPU of one `SessionGuard.record` of a batch of one call with 1 KB of arguments that was never seen before, and of the
whole step with its result and its end; best round of each. Then the memory of a session whose rolling history, progress
window and counters are full, by tracemalloc. The goal is a batch at twice the CPU of the turn guard alone.

What it does not show: results, whose outcomes are masked and hashed by their length (`benchmarks.progress`).
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from benchmarks.key import base_document, numbered
from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Layer, Merged, values_of
from turnguard_protocol.events import Call, Result, StepFinished, ToolCalls, ToolResults, TurnStarted
from turnguard_protocol.settings import Settings, SettingsInForce

GOAL = 2.0
ARGUMENT_BYTES = 1_000
CALLS_A_TURN = 40
SESSIONS = 500


def in_force(**sections: Any) -> SettingsInForce:
    """The settings that hold when a client sent these and switched the cap off."""
    given = {"model": {"maxToolCallsPerTurn": 0}, **sections}
    return Merged([Layer("client", values_of(msgspec.convert(given, Settings)))]).in_force()


ALONE = msgspec.structs.replace(
    in_force(turnguard={"progress": {"action": "off"}, "repeatedFailures": "off"}), loop_detection=None
)
STACKS = {
    "the turn guard alone": ALONE,
    "as set by default": in_force(),
    "every guard on": in_force(
        tools={"loopDetection": {"enabled": True}},
        loopShield={"enabled": True, "maxConsecutiveTools": 1_000_000},
        turnguard={"progress": {"action": "halt"}, "repeatedFailures": "enforce"},
    ),
}


class Cost(NamedTuple):
    """Microseconds of CPU: of one batch, and of the whole step with the batch, its result and its end."""

    batch: float
    step: float


def cost(settings: SettingsInForce, documents: Sequence[bytes]) -> Cost:
    """Plays a step for each document: a call, its result, the end."""
    guard = SessionGuard("s", settings)
    batches = steps = 0.0
    for number, document in enumerate(documents):
        if number % CALLS_A_TURN == 0:
            guard.record([TurnStarted()])
        batch = [ToolCalls([Call("edit", f"call-{number}", Raw(document))])]
        rest = [ToolResults([Result(f"call-{number}", ok=True, output=Raw(b'"done %d"' % number))]), StepFinished()]
        start = time.process_time()
        guard.record(batch)
        batches += time.process_time() - start
        guard.record(rest)
        steps += time.process_time() - start
    return Cost(batches / len(documents) * 1e6, steps / len(documents) * 1e6)


def bytes_each(settings: SettingsInForce) -> float:
    """Bytes that a session holds after a turn long enough to fill every window."""

    def full(number: int) -> SessionGuard:
        guard = SessionGuard(f"session-{number}", settings)
        for call in range(CALLS_A_TURN):
            args, call_id = Raw(b'{"path":"%d-%d"}' % (number, call)), f"toolu_{number:08}{call:08}"
            guard.record([ToolCalls([Call("read_file", call_id, args)])])
            guard.record([ToolResults([Result(call_id, ok=True, output=Raw(b'"text %d"' % call))])])
        return guard

    full(-1)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [full(number) for number in range(SESSIONS)]
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / len(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=2_000)
    options = parser.parse_args()
    base = base_document(ARGUMENT_BYTES)
    numbers = count()
    best = dict.fromkeys(STACKS, Cost(float("inf"), float("inf")))
    for _ in range(options.rounds):
        for name, settings in STACKS.items():
            # numbers not used before, so that no key is remembered
            new = [numbered(base, next(numbers), 1)[0] for _ in range(options.batches)]
            best[name] = Cost(*map(min, best[name], cost(settings, new)))
    print(f"{'CPU us, one call of 1 KB':<26}{'batch':>8}{'ratio':>7}{'step':>8}{'ratio':>7}{'KB held':>9}")
    alone = best["the turn guard alone"]
    for name, settings in STACKS.items():
        batch, step = best[name]
        ratios = batch / alone.batch, step / alone.step
        held = bytes_each(settings) / 1_000
        print(f"{name:<26}{batch:>8.1f}{ratios[0]:>7.2f}{step:>8.1f}{ratios[1]:>7.2f}{held:>9.1f}")
    worst = max(each.batch / alone.batch for each in best.values())
    print(
        f"goal: a batch at most {GOAL} times the turn guard alone: {'ok' if worst <= GOAL else 'missed'}, {worst:.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
