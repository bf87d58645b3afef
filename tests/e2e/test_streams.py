"""What stands around the messages: streams that nobody reads or that end, threads that fail, file descriptors."""

import json
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Start
from tests.e2e.daemon import DEADLINE, Daemon, body, calls, fails
from turnguard.framing import frame

MIB = 1024 * 1024
FDS = 1_200

FAULTY = """
import sys
from turnguard.service.sessions import Sessions
from turnguard.cli import main

def status(self, params):
    raise LookupError

Sessions.status = status
sys.exit(main(["serve"]))
"""

LOST_OUTPUT = """
import sys
from turnguard.service.output import Output
from turnguard.cli import main

def fail(self):
    raise MemoryError

Output._write_waiting = fail
sys.exit(main(["serve"]))
"""

MANY_FDS = f"""
import os, resource, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({FDS} + 100, most))
for _ in range({FDS}):
    os.dup(2)
"""
SERVE_WITH_MANY_FDS = MANY_FDS + "from turnguard.cli import main\nsys.exit(main(['serve']))\n"
CLIENT_WITH_MANY_FDS = MANY_FDS + (
    "from turnguard.client import Client\n"
    "with Client.spawn() as client:\n"
    "    assert client.open_session('s').session_id == 's'\n"
    "    assert len(client.pipeline('turnguard/status', [{'sessionId': 's'}] * 5_000)) == 5_000\n"
    "    sys.exit(client.shutdown())\n"
)
needs_many_fds = pytest.mark.skipif(
    0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < FDS + 100, reason="too few file descriptors are allowed"
)


def fill_output(daemon: Daemon) -> None:
    """Writes requests with long answers, without reading any, until the daemon does not read any more."""
    assert "result" in daemon.ask("turnguard/openSession", {"sessionId": "s", "cwd": "x" * 500})
    assert daemon.process.stdin is not None
    stdin = daemon.process.stdin.fileno()
    data = frame(body("turnguard/status", {"sessionId": "s"}, 1)) * 1_000
    rest = memoryview(data)
    while select.select((), (stdin,), (), 2)[1]:
        rest = rest[os.write(stdin, rest[:65536]) :] or memoryview(data)


def test_output_that_nobody_reads_is_bounded_and_an_end_is_seen_behind_it(start: Start) -> None:
    daemon = start()
    fill_output(daemon)
    status = Path(f"/proc/{daemon.process.pid}/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        assert int(peak.split()[1]) * 1024 < 4 * 64 * MIB
    daemon.close_stdin()
    assert daemon.exit_code() == 1


def test_a_signal_ends_a_daemon_whose_output_nobody_reads(start: Start) -> None:
    daemon = start()
    fill_output(daemon)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.exit_code() == 1


def test_what_was_sent_before_stdin_ended_is_answered(start: Start) -> None:
    daemon = start()
    count = 2_000
    daemon.send(b"".join(frame(body("turnguard/listSessions", None, n)) for n in range(count)))
    daemon.close_stdin()
    assert [daemon.hear()["id"] for _ in range(count)] == list(range(count))
    assert daemon.exit_code() == 1


def test_a_log_that_nobody_reads_holds_up_nothing(start: Start) -> None:
    reading, writing = os.pipe()
    daemon = start((sys.executable, "-c", FAULTY), stderr=writing)  # type: ignore[arg-type]
    os.close(writing)
    daemon.tell("initialized", {})
    for n in range(500):
        fails(daemon.ask("turnguard/status", {"sessionId": "s"}, n), -32603)
    log = os.read(reading, 10 * MIB)
    assert log.count(b"LookupError") < 500
    fails(daemon.ask("turnguard/status", {"sessionId": "s"}), -32603)
    daemon.ask("shutdown")
    daemon.tell("exit")
    assert daemon.exit_code() == 0
    log = b""
    while piece := os.read(reading, MIB):
        log += piece
    os.close(reading)
    assert b"messages not written: " in log
    assert b"LookupError" in log


def test_a_log_message_is_bounded(start: Start) -> None:
    faulty = FAULTY.replace("raise LookupError", "raise type('X' * 100_000, (Exception,), {})")
    daemon = start((sys.executable, "-c", faulty), stderr=subprocess.PIPE)
    fails(daemon.ask("turnguard/status", {"sessionId": "s"}), -32603)
    daemon.close_stdin()
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        log = stderr.read()
    assert b"internal error" in log
    assert b"\n[...]\n" in log
    assert len(log) < 20_000


def test_a_daemon_that_cannot_write_any_more_ends(start: Start) -> None:
    daemon = start((sys.executable, "-c", LOST_OUTPUT), stderr=subprocess.PIPE)
    daemon.send(frame(body("turnguard/openSession", {"sessionId": "s", "cwd": "x" * 500}, 1)))
    daemon.hear()
    assert daemon.process.stdin is not None
    data = frame(body("turnguard/status", {"sessionId": "s"}, 1)) * 200
    os.set_blocking(daemon.process.stdin.fileno(), True)
    try:
        for _ in range(50):
            os.write(daemon.process.stdin.fileno(), data)
    except BrokenPipeError:
        pass
    assert daemon.exit_code() == 1
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        log = stderr.read()
    assert b"MemoryError" in log
    assert b"output" in log


@needs_many_fds
def test_a_daemon_with_very_many_file_descriptors(start: Start) -> None:
    daemon = start((sys.executable, "-c", SERVE_WITH_MANY_FDS), process_id=os.getpid())
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    count = 5_000
    requests = b"".join(frame(body("turnguard/status", {"sessionId": "s"}, n)) for n in range(count))
    assert daemon.process.stdin is not None
    os.set_blocking(daemon.process.stdin.fileno(), True)
    os.write(daemon.process.stdin.fileno(), requests)
    assert [daemon.hear()["id"] for _ in range(count)] == list(range(count))
    daemon.record("s", calls({"name": "x"}))
    assert daemon.total("s") == 1


@needs_many_fds
def test_a_client_with_very_many_file_descriptors() -> None:
    ran = subprocess.run([sys.executable, "-c", CLIENT_WITH_MANY_FDS], timeout=3 * DEADLINE, check=False)
    assert ran.returncode == 0


def test_many_configurations_hold_up_no_end(start: Start) -> None:
    daemon = start()
    opened = [frame(body("turnguard/openSession", {"sessionId": f"s{n}"}, n)) for n in range(2_000)]
    daemon.send(b"".join(opened))
    for n in range(2_000):
        assert daemon.hear()["id"] == n
    settings = {"turnguard": {"model": {"maxToolCallsPerTurn": 7}}}
    daemon.send(frame(body("workspace/didChangeConfiguration", {"settings": settings})) * 500)
    caps = {json.dumps(status["cap"]) for status in daemon.ask("turnguard/listSessions")["result"]["sessions"]}
    assert caps == {'{"value": 7, "explicit": true}'}
