"""What a session costs in memory, beside the least that its counters could cost.

    python -m benchmarks.state [--sessions 10000] [--calls 20]

Prints bytes per session by tracemalloc: the smallest thing that could count so many calls (a dict of 16-byte digests
and their counts), then a SessionGuard that saw as many distinct calls, one a step, with their results: with Qwen Code's
guards alone, as the gates are meant, and with all guards that are on by default. Every event is
decoded from JSON, as in the daemon, so that no two sessions share a string. Fails when a session at rest costs more
than its gate.
"""

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import msgspec

from turnguard.core.session import SessionGuard
from turnguard.settings.layers import Merged
from turnguard_protocol.events import Event
from turnguard_protocol.settings import SettingsInForce

EVENTS = msgspec.json.Decoder(list[Event])
STEP_FINISHED = b'[{"type":"stepFinished"}]'


class Row(NamedTuple):
    """A layout: how to make one, by its number, and the bytes it may cost."""

    name: str
    make: Callable[[int, int], object]
    gate: int | None = None


def counters(number: int, calls: int) -> dict[bytes, int]:
    return {sha256(f"{number} {call}".encode()).digest()[:16]: 1 for call in range(calls)}


TURN_GUARD_ALONE = msgspec.structs.replace(Merged([]).in_force(), loop_detection=None, progress="off")


def session(
    number: int, calls: int, *, ids: bool = False, at_rest: bool = True, settings: SettingsInForce = TURN_GUARD_ALONE
) -> SessionGuard:
    """A session of one turn; at rest its last step is finished, else the result of the last call is awaited."""
    guard = SessionGuard(f"session-{number}", settings)
    for events in steps(number, calls, ids=ids):
        guard.record(EVENTS.decode(events))
    if at_rest:
        guard.record(EVENTS.decode(STEP_FINISHED))
    return guard


def steps(number: int, calls: int, *, ids: bool) -> Iterator[bytes]:
    for call in range(calls):
        call_id = f'"id":"toolu_{number:010}{call:014}",' if ids else ""
        about = f'{call_id}"name":"read_file","args":{{"path":"src/part{call}.py","session":{number}}}'
        yield f'[{{"type":"toolCalls","calls":[{{{about}}}]}}]'.encode()
        yield f'[{{"type":"toolResults","results":[{{{about},"ok":true,"output":"text {call}"}}]}}]'.encode()


ROWS = (
    Row("counters alone: dict of 16-byte digests", counters),
    Row("Qwen's guards, calls without ids", session, 2_500),
    Row("Qwen's guards, calls with ids", partial(session, ids=True), 5_000),
    Row("Qwen's guards, in the middle of a step", partial(session, ids=True, at_rest=False)),
    Row("all guards as by default, with ids", partial(session, ids=True, settings=Merged([]).in_force())),
)


def bytes_each(row: Row, sessions: int, calls: int) -> float:
    row.make(-1, calls)
    gc.collect()
    tracemalloc.start()
    held = [row.make(number, calls) for number in range(sessions)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (size - sys.getsizeof(held)) / sessions


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of a session.")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    print(f"{options.sessions:,} sessions of {options.calls} distinct calls\n")
    print(f"{'':42} {'bytes each':>10} {'ratio':>6} {'gate':>7}")
    failed = False
    least = 0.0
    for row in ROWS:
        size = bytes_each(row, options.sessions, options.calls)
        least = least or size
        gate = "" if row.gate is None else f"{row.gate:,}"
        is_over = row.gate is not None and size > row.gate
        failed |= is_over
        print(f"{row.name:42} {size:10,.0f} {size / least:6.2f} {gate:>7}{' exceeded' if is_over else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
