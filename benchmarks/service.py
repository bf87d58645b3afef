"""What the service costs, beside servers that do less or the same with other means.

    python -m benchmarks.service [--rounds 7]

All servers run at the same time and are asked in turn, round by round. CPU is that of the server's whole process, taken
from its CPU clock around a run of requests; the best round of each server counts, so that noise of other processes
counts little. Fails when a gate is missed. Linux only.

Two things are measured against the echo. The service alone: a request that asks nothing of the guards, so that only
reading, decoding, answering and writing count. The full record: one with a call, which also has to be identified and
judged. What the second has on top is the key of the call's arguments, which `benchmarks.key` measures by itself, and
the guards; the shares are printed, so that it can be seen where the time goes.

- echo: six lines of Python that read a frame and send its body back, and know no JSON
- pygls: the same method as a custom feature of plain pygls, with an answer of the same shape
- node: the same on vscode-jsonrpc 8.2.1 (left out where npm cannot install it)

What it does not show: results and text, which are cheaper than calls; a host that sends several calls at once; a
machine whose cores are busy; Windows.
"""

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.key import base_document, numbered, time_keys
from turnguard.client import Connection
from turnguard.framing import frame

GATE_ECHO, GOAL_ECHO = 2.5, 2.2
GATE_PYGLS, GOAL_PYGLS, GOAL_PYGLS_100KB = 5.0, 20.0, 100.0
GOAL_FIRST_100KB, GOAL_REPEATED_100KB = 5.5, 2.5
GOAL_NODE = 0.8
GOAL_PIPELINED = 0.5
IN_FLIGHT = 1_000

KB = 1_000
VERDICT = {
    "action": "allow",
    "turnId": "turn-1",
    "findings": [],
    "admitted": [0],
    "totals": {"toolCalls": 1, "steps": 1, "distinctKeys": 1, "maxKeyRepeat": 1, "maxKeyTool": "read_file"},
}
CALLS_A_TURN = 5
"""One more with the same arguments would be a loop."""

NODE_SCRIPT = Path(__file__).with_name("service_node.mjs")


# --- the other servers ------------------------------------------------------------------------------------------------


def serve_echo() -> None:
    read, write = sys.stdin.buffer, sys.stdout.buffer
    while header := read.readline():
        read.readline()
        body = read.read(int(header.split(b":")[1]))
        write.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        write.flush()


def serve_pygls() -> None:
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("plain", "1")

    @server.feature("turnguard/openSession")
    def _open(params: Any) -> Any:
        return {"sessionId": params.sessionId}

    @server.feature("turnguard/prepareStep")
    def _prepare_step(params: Any) -> Any:
        assert params.sessionId
        return {"toolChoice": "auto"}

    @server.feature("turnguard/record")
    def _record(params: Any) -> Any:
        assert params.events[-1].calls
        return VERDICT

    server.start_io()


# --- requests ---------------------------------------------------------------------------------------------------------


_numbers = itertools.count()


def record(size: int, *, is_new: bool) -> bytes:
    """Return a frame with a record of one call whose arguments are about size bytes long.

    Its call id is used once: a used one would be a replay, and be refused.
    """
    number = next(_numbers)
    args = numbered(base_document(size), number if is_new else 0, 1)[0]
    call = {"id": f"call-{number}", "name": "edit", "args": msgspec.Raw(args)}
    events: list[object] = [{"type": "turnStarted"}] if number % CALLS_A_TURN == 0 else []
    return request(
        number, "turnguard/record", {"sessionId": "s", "events": [*events, {"type": "toolCalls", "calls": [call]}]}
    )


def prepare_step(size: int) -> bytes:
    """Return a frame with a request about size bytes long that asks nothing of the guards."""
    return request(next(_numbers), "turnguard/prepareStep", {"sessionId": "s", "unknown": "x" * size})


def request(number: int, method: str, params: object) -> bytes:
    return frame(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))


class Server(Connection):
    """One of the servers, initialized and with a session."""

    def __init__(self, argv: Sequence[str]) -> None:
        super().__init__(argv, stderr=subprocess.DEVNULL)
        self._clock = (~self.process.pid << 3) | 2  # CLOCK_PROCESS_CPUTIME_ID of another process
        options = {"settings": {"model": {"maxToolCallsPerTurn": 0}}}
        params = {"processId": os.getpid(), "capabilities": {}, "initializationOptions": options}
        for method, given in (("initialize", params), ("turnguard/openSession", {"sessionId": "s"})):
            message = {"jsonrpc": "2.0", "id": method, "method": method, "params": given}
            self.send(frame(msgspec.json.encode(message)))
            self.receive_answer()

    def cpu(self) -> float:
        return time.clock_gettime(self._clock)

    def receive_answer(self) -> bytes:
        body = self.receive()
        while b'"id"' not in body[:40] and b'"error"' not in body[:20]:  # a notification
            body = self.receive()
        assert b'"error"' not in body, body
        assert b'"guard"' not in body, body
        return body


class Cost(NamedTuple):
    """Seconds per request."""

    cpu: float
    wall: float


def one_at_a_time(server: Server, frames: Sequence[bytes]) -> Cost:
    cpu, wall = server.cpu(), time.perf_counter()
    for each in frames:
        server.send(each)
        server.receive_answer()
    return Cost((server.cpu() - cpu) / len(frames), (time.perf_counter() - wall) / len(frames))


def all_at_once(server: Server, frames: Sequence[bytes]) -> Cost:
    data = b"".join(frames)
    cpu, wall = server.cpu(), time.perf_counter()
    server.send(data)
    for _ in frames:
        server.receive_answer()
    return Cost((server.cpu() - cpu) / len(frames), (time.perf_counter() - wall) / len(frames))


# --- the runs ---------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A kind of request, how many of them a round has, and how they are sent."""

    name: str
    requests: int
    make: Callable[[], bytes]
    send: Callable[[Server, Sequence[bytes]], Cost] = one_at_a_time


ALONE = Run("1 KB service alone", 1_000, lambda: prepare_step(1 * KB))
FIRST = Run("1 KB record, new", 1_000, lambda: record(1 * KB, is_new=True))
REPEATED = Run("1 KB record, seen", 1_000, lambda: record(1 * KB, is_new=False))
PIPELINED = Run("1 KB record, piped", IN_FLIGHT, lambda: record(1 * KB, is_new=True), all_at_once)
FIRST_100 = Run("100 KB record, new", 50, lambda: record(100 * KB, is_new=True))
REPEATED_100 = Run("100 KB record, seen", 50, lambda: record(100 * KB, is_new=False))
RUNS = (ALONE, FIRST, REPEATED, PIPELINED, FIRST_100, REPEATED_100)

SLOW = 20
"""Plain pygls gets so many times fewer requests a round: it needs so much longer."""


Costs = dict[tuple[str, Run], Cost]


def measure(servers: dict[str, Server], rounds: int) -> Costs:
    """Return the best of each (server, run): least CPU and least wall time."""
    best: Costs = {}
    for _ in range(rounds):
        for run in RUNS:
            for name, server in servers.items():
                is_slow = name == "pygls" and run.send is one_at_a_time
                requests = max(2, run.requests // SLOW) if is_slow else run.requests
                cost = run.send(server, [run.make() for _ in range(requests)])
                old = best.get((name, run), cost)
                best[name, run] = Cost(min(old.cpu, cost.cpu), min(old.wall, cost.wall))
    return best


def node_modules() -> Path | None:
    """Return a directory from which vscode-jsonrpc 8.2.1 can be required; None where npm cannot bring it."""
    directory = Path(tempfile.gettempdir()) / "turnguard-vscode-jsonrpc-8.2.1"
    if not (directory / "node_modules" / "vscode-jsonrpc").is_dir():
        npm = shutil.which("npm")
        if npm is None:
            return None
        install = [npm, "install", "--prefix", str(directory), "--no-audit", "--no-fund", "vscode-jsonrpc@8.2.1"]
        if subprocess.run(install, capture_output=True, timeout=120, check=False).returncode != 0:
            return None
    return directory


def node_client(modules: Path, requests: int, size: int, argv: Sequence[str]) -> float:
    """Return the median seconds a vscode-jsonrpc client waits for one answer."""
    command = ["node", str(NODE_SCRIPT), str(modules), "client", str(requests), str(size), *argv]
    return float(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout) / 1_000


class Line(NamedTuple):
    """One line of the comparison: what was reached, the gate that must hold and the goal that should."""

    name: str
    reached: float
    gate: float | None
    goal: float
    is_at_least: bool = False

    def holds(self, limit: float) -> bool:
        return self.reached >= limit if self.is_at_least else self.reached <= limit

    def __str__(self) -> str:
        sign = ">=" if self.is_at_least else "<="
        gate = "" if self.gate is None else f"gate {sign} {self.gate:g} {'ok' if self.holds(self.gate) else 'MISSED'}"
        goal = f"goal {sign} {self.goal:g} {'ok' if self.holds(self.goal) else 'missed'}"
        return f"{self.name:<58}{self.reached:8.2f}x  {gate:<20}{goal}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What the service costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--as", dest="role", choices=("echo", "pygls"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is not None:
        (serve_echo if options.role == "echo" else serve_pygls)()
        return 0

    us = (sys.executable, "-m", "turnguard", "serve")
    commands: dict[str, Sequence[str]] = {
        "echo": (sys.executable, "-m", "benchmarks.service", "--as", "echo"),
        "pygls": (sys.executable, "-m", "benchmarks.service", "--as", "pygls"),
        "turnguard": us,
    }
    modules = node_modules()
    if modules is not None:
        commands["node"] = ("node", str(NODE_SCRIPT), str(modules), "server")
    servers = {name: Server(argv) for name, argv in commands.items()}
    best = measure(servers, options.rounds)
    for server in servers.values():
        server.close()

    print(f"{'CPU us per request':<22}" + "".join(f"{name:>14}" for name in servers))
    for run in RUNS:
        print(f"{run.name:<22}" + "".join(f"{best[name, run].cpu * 1e6:14.1f}" for name in servers))
    for size, run in ((1 * KB, FIRST), (100 * KB, FIRST_100)):
        print_shares(run, size, best, options.rounds)
    lines = list(compare(best))
    if modules is None:
        print("node: left out, npm could not install vscode-jsonrpc")
    else:
        lines += compare_node(modules, options.rounds, us, commands["node"])
    print(*lines, sep="\n")
    return 0 if all(line.gate is None or line.holds(line.gate) for line in lines) else 1


def print_shares(run: Run, size: int, best: Costs, rounds: int) -> None:
    whole, alone = best["turnguard", run].cpu * 1e6, best["turnguard", ALONE].cpu * 1e6
    base = base_document(size)
    key = min(time_keys(numbered(base, number * run.requests, run.requests)) for number in range(rounds))
    shares = {"1 KB service alone": alone, "the key": key, "the rest, mostly the guards": whole - alone - key}
    parts = (f"{name} {cost:.1f} ({cost / whole:.0%})" for name, cost in shares.items())
    print(f"{run.name}: {whole:.1f} us, of which {', '.join(parts)}")


def compare(best: Costs) -> Sequence[Line]:
    def to_echo(run: Run) -> float:
        return best["turnguard", run].cpu / best["echo", run].cpu

    def to_pygls(run: Run) -> float:
        return best["pygls", run].cpu / best["turnguard", run].cpu

    throughput = best["echo", PIPELINED].wall / best["turnguard", PIPELINED].wall
    return (
        Line("1 KB service alone (no call), CPU against the echo", to_echo(ALONE), GATE_ECHO, GOAL_ECHO),
        Line("1 KB full record, new call, CPU against the echo", to_echo(FIRST), GATE_ECHO, GOAL_ECHO),
        Line("1 KB full record, seen call, CPU against the echo", to_echo(REPEATED), GATE_ECHO, GOAL_ECHO),
        Line("100 KB full record, new call, CPU against the echo", to_echo(FIRST_100), None, GOAL_FIRST_100KB),
        Line("100 KB full record, seen call, CPU against the echo", to_echo(REPEATED_100), None, GOAL_REPEATED_100KB),
        Line("1 KB full record, CPU of plain pygls against ours", to_pygls(FIRST), GATE_PYGLS, GOAL_PYGLS, True),
        Line("100 KB full record, the same", to_pygls(FIRST_100), None, GOAL_PYGLS_100KB, True),
        Line("1,000 x 1 KB in flight, answers per second to the echo's", throughput, None, GOAL_PIPELINED, True),
    )


def compare_node(modules: Path, rounds: int, us: Sequence[str], node: Sequence[str]) -> Sequence[Line]:
    lines: list[Line] = []
    for name, requests, size in (("1 KB", 1_000, 1 * KB), ("100 KB", 50, 100 * KB)):
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            ours.append(node_client(modules, requests, size, us))
            theirs.append(node_client(modules, requests, size, node))
        print(f"Node client, {name}, p50 us: turnguard {min(ours) * 1e6:.0f}, node {min(theirs) * 1e6:.0f}")
        lines.append(
            Line(f"{name}, p50 of a Node client against a Node server", min(ours) / min(theirs), None, GOAL_NODE)
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
