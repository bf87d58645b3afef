"""What `turnguard exec` costs: `python -m benchmarks.exec`.

Each case is run bare (the program writes into a pipe that is read), behind `cat` and behind `turnguard exec`. `start`:
seconds until a program that does nothing is over. `stream`: lines of an agent, all of them read by the guards, as fast
as they come. `bytes`: output that is no stream. `line`: from an agent's write to the reader, one line at a time.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from tests.e2e.agents.streaming import stream

EXEC = (sys.executable, "-m", "turnguard", "exec", "--set", "turnguard.shadow=true", "--")
CAT = ("sh", "-c", '"$@" | cat', "sh")
WAYS: dict[str, Sequence[str]] = {"bare": (), "cat": CAT, "exec": EXEC}

CALLS = 20_000
MEGABYTES = 1_000
PINGS = 2_000


def seconds(command: Sequence[str]) -> float:
    """How long a command takes whose output is read to the end."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while process.stdout.read(1 << 20):
            pass
    return time.perf_counter() - start


def latency(prefix: Sequence[str]) -> float:
    """Seconds for a line there and back."""
    line = stream("make").splitlines()[1]
    code = "import os, sys\nwhile os.read(0, 1): os.write(1, sys.argv[1].encode() + b'\\n')"
    command = [*prefix, sys.executable, "-c", code, line.decode()]
    took: list[float] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(PINGS):
            start = time.perf_counter()
            process.stdin.write(b"\n")
            process.stdout.readline()
            took.append(time.perf_counter() - start)
        process.stdin.close()
    return median(took)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines")
        lines.write_bytes(stream(*(f"make part{number}" for number in range(CALLS))))
        size = lines.stat().st_size
        count = f"head -c {MEGABYTES}000000 /dev/zero"
        cases: dict[str, Callable[[Sequence[str]], str]] = {
            "start, s": lambda prefix: f"{median(seconds([*prefix, 'true']) for _ in range(9)):.3f}",
            f"stream, lines/s ({2 * CALLS:,} lines, {size / 1e6:.0f} MB)": lambda prefix: (
                f"{2 * CALLS / min(seconds([*prefix, 'cat', str(lines)]) for _ in range(3)):,.0f}"
            ),
            f"bytes, MB/s ({MEGABYTES:,} MB)": lambda prefix: (
                f"{MEGABYTES / min(seconds([*prefix, 'sh', '-c', count]) for _ in range(3)):,.0f}"
            ),
            "line, us": lambda prefix: f"{latency(prefix) * 1e6:.0f}",
        }
        print(f"{'':48}", *(f"{way:>12}" for way in WAYS))
        for name, case in cases.items():
            print(f"{name:48}", *(f"{case(prefix):>12}" for prefix in WAYS.values()))


if __name__ == "__main__":
    main()
