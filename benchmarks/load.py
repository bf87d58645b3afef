"""Many sessions at once through one daemon: does it keep up, and what does it hold?

    python -m benchmarks.load [--sessions 1000] [--batches 100] [--calls 1]

Round by round every session asks for one batch and tells the results of the one before; the requests of a round are all
in flight together. Prints batches per second, the daemon's CPU and its memory (Linux). Fails on any error, and when a
verdict is not the one that is due: allow, all admitted, and the totals of this session and no other.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from turnguard.client import Client

TIMEOUT_SECONDS = 600.0


def record(session: int, batch: int, calls: int) -> dict[str, Any]:
    """Batch number `batch` of a session: calls that are new in its turn, and the results of the batch before."""

    def call(batch: int, place: int) -> dict[str, Any]:
        path = f"src/part{batch}/file{place}.py"
        return {"id": f"call_{session}_{batch}_{place}", "name": "read_file", "args": {"path": path, "limit": 200}}

    def result(place: int) -> dict[str, Any]:
        return {**call(batch - 1, place), "ok": True, "output": "The file is as long as this sentence."}

    before = [{"type": "toolResults", "results": [result(place) for place in range(calls)]}] if batch else []
    asked = {"type": "toolCalls", "calls": [call(batch, place) for place in range(calls)]}
    return {"sessionId": f"session-{session}", "events": [*before, asked]}


class Meter:
    """Reads the memory and the CPU time of a process. Linux only; elsewhere everything is 0."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._clock = ~pid << 3 | 2  # its CPU clock, as clock_getcpuclockid(3) makes it

    def megabytes(self, field: str = "VmRSS") -> float:
        if sys.platform != "linux":
            return 0.0
        lines = self._status.read_text("ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))

    def cpu_seconds(self) -> float:
        return time.clock_gettime(self._clock) if sys.platform == "linux" else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Many sessions at once through one daemon.")
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--calls", type=int, default=1, help="calls in a batch")
    options = parser.parse_args()
    sessions, batches, calls = options.sessions, options.batches, options.calls
    print(f"{sessions:,} sessions at once, {batches} batches each, {calls} calls in a batch, one daemon\n")
    with Client.spawn() as client:
        meter = Meter(client.connection.process.pid)
        started = meter.megabytes()
        opened = [{"sessionId": f"session-{session}"} for session in range(sessions)]
        client.pipeline("turnguard/openSession", opened, TIMEOUT_SECONDS)
        wall, cpu, wrong = 0.0, meter.cpu_seconds(), 0
        for batch in range(batches):
            requests = [record(session, batch, calls) for session in range(sessions)]
            due = ("allow", list(range(calls)), (batch + 1) * calls)
            start = time.perf_counter()
            verdicts = client.pipeline("turnguard/record", requests, TIMEOUT_SECONDS)
            wall += time.perf_counter() - start
            got = [(each["action"], each["admitted"], each["totals"]["toolCalls"]) for each in verdicts]
            wrong += sum(each != due for each in got)
            client.notifications.clear()
        cpu = meter.cpu_seconds() - cpu
        now, peak = meter.megabytes(), meter.megabytes("VmHWM")
        exit_code = client.shutdown()
    records = sessions * batches
    print(f"verdicts           {records:,}, {wrong} of them wrong; exit code {exit_code}")
    print(f"throughput         {records / wall:,.0f} batches/s, the client's own work included")
    print(f"CPU of the daemon  {cpu / records * 1e6:.0f} us a batch")
    print(f"memory             {started:.0f} MB at the start, {now:.0f} MB at the end, {peak:.0f} MB at the most")
    print(f"                   {(now - started) / sessions * 1024:.1f} KB a session")
    return 1 if wrong or exit_code else 0


if __name__ == "__main__":
    sys.exit(main())
