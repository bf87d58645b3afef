"""What the proxy costs between an agent and a client, beside things that copy, and one that reads and writes again.

    python -m benchmarks.acp [--rounds 7] [--sdk-python PYTHON]

One direction, from the agent to the client, in the middle of a turn. All run at the same time and are fed in turn,
round by round; CPU is that of the whole process. *Piped*: many messages in flight, CPU for each, the best round. *One*:
a message at a time, from the first byte in to the last one out; the median of the best round. Before each result of a
call the agent says a few words: results are weighed after they were passed on, and an agent asks its model then. Fails
when a gate is missed. Linux only.

- cat: the program, which knows no lines
- loop: a loop that reads, takes the lines apart, looks at none of them and writes
- unparsed: the same relay with a proxy that looks at nothing
- turnguard: the relay, the proxy, and the guards with their defaults
- models: parse, validate and serialise again with the models of the official Python SDK, read and written as here
- sdk: the same through asyncio's streams, as the SDK does it. Both run if `--sdk-python` (or TURNGUARD_SDK_PYTHON) is a
  Python that has `agent-client-protocol==0.12.1`

After that, 200,000 updates through the real command to a client that reads slowly: what it holds, and when the client's
cancel arrives at the agent.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from threading import Thread
from typing import NamedTuple

import msgspec

from benchmarks.load import Meter
from benchmarks.service import Line

GATE_UNPARSED = 5.0
GATE_SDK = 3.0
GATE_CAT_100KB = 2.0
GATE_HELD = 1.2

UPDATES = 200_000
CLIENT_BLOCK, CLIENT_PAUSE = 64 * 1024, 0.002
"""How the slow client reads: 64 KiB, and then nothing for 2 ms."""

LOOP_BLOCK = 256 * 1024

SDK_SCRIPT = Path(__file__).with_name("acp_sdk.py")

ROLES = ("loop", "unparsed", "turnguard")
"""What stands between, apart from `cat` and the SDK."""

SESSION = "0b3a1cf2-7a4e-4f0c-9d59-1f5c3f1f2a77"


# --- messages ---------------------------------------------------------------------------------------------------------


def message(**members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members}) + b"\n"


def update(**members: object) -> bytes:
    return message(method="session/update", params={"sessionId": SESSION, "update": members})


def chunk(number: int) -> bytes:
    """About 200 bytes of text from the agent."""
    content = {"type": "text", "text": f" word{number:07d} and"}
    return update(sessionUpdate="agent_message_chunk", content=content)


def output(number: int, status: str) -> bytes:
    """About 100 KB of a call's output."""
    text = "".join(f"{number:07d} line {line}: nothing special\n" for line in range(2_600))
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    return update(sessionUpdate="tool_call_update", toolCallId=f"call-{number}", status=status, content=content)


def call(number: int) -> bytes:
    raw_input = {"command": f"make part{number}"}
    return update(sessionUpdate="tool_call", toolCallId=f"call-{number}", title="make", rawInput=raw_input)


HANDSHAKE = (
    message(id=0, method="initialize", params={"protocolVersion": 1, "clientCapabilities": {}}),
    message(id=1, method="session/new", params={"cwd": "/", "mcpServers": []}),
    message(id=2, method="session/prompt", params={"sessionId": SESSION, "prompt": []}),
)
ANSWERS = (
    message(id=0, result={"protocolVersion": 1, "agentInfo": {"name": "an agent", "version": "1"}}),
    message(id=1, result={"sessionId": SESSION}),
)
CANCEL = message(method="session/cancel", params={"sessionId": SESSION})


# --- what stands between ----------------------------------------------------------------------------------------------


def loop() -> None:
    """The prototype that the gate is from: a read, the lines, a write of the whole."""
    rest = b""
    while block := os.read(0, LOOP_BLOCK):
        *_lines, rest = (rest + block).split(b"\n")
        out = memoryview(block)
        while out:
            out = out[os.write(1, out) :]


def relay(*, is_parsing: bool) -> None:
    """Relays from stdin, as the agent's stdout, to stdout; the client says nothing any more."""
    from turnguard import __version__
    from turnguard.acp.proxy import Proxy
    from turnguard.acp.relay import Ends, Relay
    from turnguard.process import widen
    from turnguard.recording import sessions
    from turnguard.settings.sources import Sources

    class Unparsed(Proxy):
        def from_agent(self, line: bytes, now: float) -> None:
            return None

        def look_later(self, line: bytes) -> None:
            return None

    proxy = (Proxy if is_parsing else Unparsed)(sessions(Sources("acp")), version=__version__)
    for line in HANDSHAKE:
        proxy.from_client(line, time.monotonic())
    for line in ANSWERS:
        proxy.from_agent(line, time.monotonic())
    (silent, _), (_, unheard) = os.pipe(), os.pipe()
    widen(0)  # as the command does with the agent's
    end, wake = os.pipe()
    running = Relay(proxy, Ends(silent, 1, unheard, 0), lambda: os.close(wake) if running.is_all_told else None, print)
    running.start()
    os.read(end, 1)


class Between:
    """A process that writes to its stdout what it reads from its stdin."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.cpu = Meter(self._process.pid).cpu_seconds
        self.one((chunk(0),))

    def piped(self, lines: Sequence[bytes]) -> float:
        """CPU seconds a message, with all of them in flight."""
        data = b"".join(lines)
        cpu = self.cpu()
        writer = Thread(target=self._write, args=(data,))
        writer.start()
        self._read(len(lines))
        writer.join()
        return (self.cpu() - cpu) / len(lines)

    def one(self, lines: Sequence[bytes], words: Sequence[bytes] = ()) -> "One":
        """Seconds, with one message in flight. `words`: a message before each, whose time does not count."""
        took: list[float] = []
        cpu = self.cpu()
        for number, line in enumerate(lines):
            if words:
                self._write(words[number])
                self._read(1)
            start = time.perf_counter()
            self._write(line)
            self._read(1)
            took.append(time.perf_counter() - start)
        return One((self.cpu() - cpu) / len(lines), median(took))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def _read(self, lines: int) -> None:
        while lines > 0:
            block = os.read(self._out, 1_000_000)
            assert block
            lines -= block.count(b"\n")

    def close(self) -> None:
        os.close(self._in)
        self._process.wait()


class One(NamedTuple):
    """Seconds a message: CPU, and the median from the first byte in to the last one out."""

    cpu: float
    p50: float


# --- the runs ---------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """The best rounds: CPU seconds of a message of 200 B that is piped, and a message of each kind by itself."""

    piped: float
    small: One
    large: One
    last: One

    def better(self, other: "Result") -> "Result":
        pairs = zip((self.small, self.large, self.last), (other.small, other.large, other.last), strict=True)
        ones = (One(min(a.cpu, b.cpu), min(a.p50, b.p50)) for a, b in pairs)
        return Result(min(self.piped, other.piped), *ones)


def measure(betweens: dict[str, Between], rounds: int) -> dict[str, Result]:
    best: dict[str, Result] = {}
    for number in range(rounds):
        calls = range(number * 100, number * 100 + 100)
        small = [chunk(each) for each in range(2_000)]
        piped = [chunk(each) for each in range(40_000)]
        large = [output(each, "in_progress") for each in calls]
        last = [output(each, "completed") for each in calls]
        for name, between in betweens.items():
            for each in calls:
                between.one((call(each),))
            result = Result(between.piped(piped), between.one(small), between.one(large), between.one(last, small))
            best[name] = result.better(best.get(name, result))
    return best


def commands(sdk_python: str | None) -> dict[str, Sequence[str]]:
    me = (sys.executable, "-m", "benchmarks.acp", "--as")
    found: dict[str, Sequence[str]] = {"cat": ("cat",), **{role: (*me, role) for role in ROLES}}
    if sdk_python is not None:
        models = (sdk_python, "-P", str(SDK_SCRIPT))  # -P: beside the script this module is called acp, too
        found |= {"models": models, "sdk": (*models, "asyncio")}
    return found


def compare(best: dict[str, Result]) -> Sequence[Line]:
    ours, unparsed, loop, cat = best["turnguard"], best["unparsed"], best["loop"], best["cat"]
    lines = [
        Line("200 B piped, CPU against the relay unparsed", ours.piped / unparsed.piped, GATE_UNPARSED, GATE_UNPARSED),
        Line("the same, against the loop", ours.piped / loop.piped, None, GATE_UNPARSED),
        Line("100 KB, one at a time, p50 against cat", ours.large.p50 / cat.large.p50, GATE_CAT_100KB, GATE_CAT_100KB),
        Line("the same, with the result of a call", ours.last.p50 / cat.last.p50, None, GATE_CAT_100KB),
    ]
    if "sdk" in best:
        models, sdk = best["models"], best["sdk"]
        lines += [
            Line(
                "200 B piped, CPU of the SDK's models against ours", models.piped / ours.piped, GATE_SDK, GATE_SDK, True
            ),
            Line("200 B, one at a time, the same", models.small.cpu / ours.small.cpu, None, GATE_SDK, True),
            Line("200 B, one at a time, with asyncio", sdk.small.cpu / ours.small.cpu, None, GATE_SDK, True),
            Line("100 KB, one at a time, models alone", models.large.cpu / ours.large.cpu, None, GATE_SDK, True),
        ]
    return lines


# --- the slow client --------------------------------------------------------------------------------------------------


def flood() -> None:
    """An agent that writes updates as fast as it can, and says on stderr when it is told to stop."""

    def hear() -> None:
        heard = b""
        while CANCEL not in heard:
            heard += os.read(0, 4096)
        os.write(2, b"cancelled\n")

    Thread(target=hear, daemon=True).start()
    out = sys.stdout.buffer
    out.writelines(ANSWERS)
    for number in range(UPDATES):
        out.write(chunk(number))
    out.flush()


def slow_client() -> Sequence[Line]:
    """What the real command holds while a client reads slowly."""
    command = (sys.executable, "-m", "turnguard", "acp", "--", sys.executable, "-m", "benchmarks.acp", "--as", "flood")
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(HANDSHAKE))
        lines = os.read(process.stdout.fileno(), CLIENT_BLOCK).count(b"\n")
        meter = Meter(process.pid)
        before, start = meter.megabytes(), time.perf_counter()
        process.stdin.write(CANCEL)
        arrived: float | None = None
        held = before
        while block := os.read(process.stdout.fileno(), CLIENT_BLOCK):
            lines += block.count(b"\n")
            if arrived is None and os.fstat(stderr.fileno()).st_size:
                arrived = time.perf_counter() - start
            if lines < UPDATES // 100 * 99:
                held = meter.megabytes("VmHWM")
            time.sleep(CLIENT_PAUSE)
        took = time.perf_counter() - start
        code = process.wait()
        process.stdin.close()
        process.stdout.close()
    print(
        f"{UPDATES:,} updates to a client that reads slowly ({took:.1f} s): {before:.1f} MB at the start, "
        f"{held:.1f} MB at the most; the client's cancel arrived after "
        + ("no time that ended" if arrived is None else f"{arrived * 1e3:.0f} ms")
    )
    assert (code, lines) == (0, UPDATES + len(ANSWERS)), (code, lines)
    assert arrived is not None
    return (Line("what a slow client has us hold more than before", held / before, GATE_HELD, GATE_HELD),)


def main() -> int:
    parser = argparse.ArgumentParser(description="What the proxy costs between an agent and a client.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sdk-python", default=os.environ.get("TURNGUARD_SDK_PYTHON"))
    parser.add_argument("--as", dest="role", choices=(*ROLES, "flood"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "flood":
        flood()
        return 0
    if options.role == "loop":
        loop()
        return 0
    if options.role is not None:
        relay(is_parsing=options.role == "turnguard")
        return 0

    betweens = {name: Between(argv) for name, argv in commands(options.sdk_python).items()}
    best = measure(betweens, options.rounds)
    for between in betweens.values():
        between.close()
    print(f"one direction; a small message has {len(chunk(0))} B, a large one {len(output(0, 'in_progress')):,} B")
    print(f"{'us a message':<34}" + "".join(f"{name:>12}" for name in best))
    rows = {
        "200 B piped, CPU": [result.piped for result in best.values()],
        "200 B one at a time, CPU": [result.small.cpu for result in best.values()],
        "200 B one at a time, p50": [result.small.p50 for result in best.values()],
        "100 KB one at a time, CPU": [result.large.cpu for result in best.values()],
        "100 KB one at a time, p50": [result.large.p50 for result in best.values()],
        "100 KB result of a call, CPU": [result.last.cpu for result in best.values()],
        "100 KB result of a call, p50": [result.last.p50 for result in best.values()],
    }
    for name, seconds in rows.items():
        print(f"{name:<34}" + "".join(f"{each * 1e6:12.2f}" for each in seconds))
    lines = [*compare(best), *slow_client()]
    if "sdk" not in best:
        print("sdk: left out, no Python that has it was named")
    print(*lines, sep="\n")
    return 0 if all(line.gate is None or line.holds(line.gate) for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
