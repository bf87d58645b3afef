"""T1 to T5 of the proxy's acceptance tests: nothing changes in either direction, and all ends as the agent does."""

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import DEADLINE, wait_until
from tests.e2e.relayed import ACP, ROOT, Relayed, agent, is_running, pid_in, seconds_until_ended

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the signal at a parent's death")

Start = Callable[..., Relayed]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `turnguard acp` in front of an agent; it ends with the test."""
    started: list[Relayed] = []

    def start(command: list[str], *options: str, **others: Any) -> Relayed:
        started.append(Relayed(command, *options, **others))
        return started[-1]

    yield start
    for relayed in started:
        relayed.close()


# --- T1 and T2: bytes -------------------------------------------------------------------------------------------------


def update(**members: object) -> bytes:
    params = {"sessionId": "s", "update": members}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()


ODD: dict[str, bytes] = {
    "an unknown method": b'{"jsonrpc":"2.0","id":7,"method":"session/unheard","params":{"sessionId":"s"}}',
    "an extension": b'{"jsonrpc":"2.0","id":8,"method":"_acme.dev/thing","params":[1,2]}',
    "an unknown update": update(sessionUpdate="never_heard_of", x=1),
    "a _meta": update(sessionUpdate="tool_call", toolCallId="c1", title="t", _meta={"traceparent": "00-1-2-01"}),
    "big integers": b'{"jsonrpc":"2.0","id":12345678901234567890123456,"result":{"n":1e400,"m":1844674407370955161}}',
    "a 1.0": b'{"jsonrpc":"2.0","id":1.0,"result":{"a":1.0,"b":1,"c":-0,"d":1E+2}}',
    "duplicate keys": b'{"jsonrpc":"2.0","id":9,"id":10,"method":"a","method":"session/update","params":{"a":1,"a":2}}',
    "escapes": b'{"jsonrpc":"2.0","method":"\\u0073ession\\/update","params":{"sessionId":"s","x":"\\ud83d\\ude00"}}',
    "a lone surrogate": update(sessionUpdate="tool_call", toolCallId="c2", title="\ud83d", rawInput={"a": "\udc00"}),
    "the order of keys": b'{"result":{"b":1,"a":2},"id":11,"jsonrpc":"2.0"}',
    "spaces": b'  { "jsonrpc" : "2.0" ,\t"id" : 12 , "result" : null }  ',
    "a CRLF": b'{"jsonrpc":"2.0","id":13,"result":{}}\r',
    "a lone CR": b'{"jsonrpc":"2.0",\r"id":14,"result":{}}',
    "a blank line": b"",
    "a line of spaces": b"   \t ",
    "no JSON": b"warning: this is not JSON {",
    "half a JSON": b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_ca',
    "a batch": b'[{"jsonrpc":"2.0","id":15,"result":{}},' + update(sessionUpdate="plan", entries=[]) + b"]",
    "an empty batch": b"[]",
    "scalars": b'null\n1\ntrue\n"x"',
    "no UTF-8": b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"\xff\xfe\x80"}}',
    "separators of other alphabets": '{"jsonrpc":"2.0","id":16,"result":"a\u2028b\u2029c\x85d\x0be\x1cf"}'.encode(),
    "a NUL": b'{"jsonrpc":"2.0","id":17,"result":"\x00"}\x00',
    "deep nesting": b'{"jsonrpc":"2.0","id":18,"result":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "a line of 20 MB": update(sessionUpdate="tool_call_update", toolCallId="c3", rawOutput="x" * 20_000_000),
    "version 2": b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"agentInfo":{"name":"a","version":"1"}}}',
}

HANDSHAKE: dict[str, bytes] = {
    "client": b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}\n'
    b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}\n',
    "agent": b'{"id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"x","version":"1"}},"jsonrpc":"2.0"}\n'
    b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}\n',
}


def passed(start: Start, tmp_path: Path, from_client: bytes, from_agent: bytes) -> tuple[bytes, bytes]:
    """What arrives at the agent, and at the client."""
    sends, received = tmp_path / "sends", tmp_path / "received"
    sends.write_bytes(from_agent)
    relayed = start(agent("tap", sends, received))
    writer = threading.Thread(target=_send_all, args=(relayed, from_client))
    writer.start()
    at_client = relayed.read_all()
    writer.join(DEADLINE)
    assert relayed.exit_code() == 0
    return received.read_bytes(), at_client


def _send_all(relayed: Relayed, data: bytes) -> None:
    relayed.send(data)
    relayed.send_end()


@pytest.mark.parametrize("handshake", [True, False], ids=["in a turn", "without a handshake"])
def test_t1_odd_lines_pass_to_the_byte_in_both_directions(start: Start, tmp_path: Path, handshake: bool) -> None:
    odd = b"".join(line + b"\n" for line in ODD.values())
    before = HANDSHAKE if handshake else {"client": b"", "agent": b""}
    from_client, from_agent = before["client"] + odd, before["agent"] + odd
    at_agent, at_client = passed(start, tmp_path, from_client, from_agent)
    assert hashlib.sha256(at_agent).digest() == hashlib.sha256(from_client).digest()
    assert hashlib.sha256(at_client).digest() == hashlib.sha256(from_agent).digest()


@pytest.mark.slow
def test_t1_a_line_longer_than_anybody_looks_at_passes_unread(start: Start, tmp_path: Path) -> None:
    line = update(sessionUpdate="tool_call", toolCallId="c", title="x" * (70 * 1024 * 1024)) + b"\n"
    at_agent, at_client = passed(start, tmp_path, b"{}\n" + line + b"[]\n", line * 2 + b"{}")
    assert hashlib.sha256(at_agent).digest() == hashlib.sha256(b"{}\n" + line + b"[]\n").digest()
    assert hashlib.sha256(at_client).digest() == hashlib.sha256(line * 2 + b"{}").digest()


def test_t1_a_last_line_without_an_end_passes(start: Start, tmp_path: Path) -> None:
    assert passed(start, tmp_path, b'{"a":1}\n{"b"', b"\r\n{") == (b'{"a":1}\n{"b"', b"\r\n{")


def test_t1_a_part_of_a_line_waits_for_the_rest(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("waiting", tmp_path / "pid"))
    relayed.send(b'{"jsonrpc":"2.0",')
    relayed.send(b'"id":1,"result":{}}\n{"json')
    assert relayed.read_until(b"\n") == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    relayed.send(b'rpc":"2.0"}\n')
    assert relayed.read_until(b"\n") == b'{"jsonrpc":"2.0"}\n'


def test_t2_ids_that_look_alike_pass_in_both_directions(start: Start, tmp_path: Path) -> None:
    ids = (b"1", b'"1"', b"0", b"null", b"-1", b"1.0", b'""', b"18446744073709551617")
    prompt = b'{"jsonrpc":"2.0","id":%b,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}\n'
    params = b'{"sessionId":"s","toolCall":{"toolCallId":"c","rawInput":{"a":1}},"options":[]}'
    asked = b'{"jsonrpc":"2.0","id":%b,"method":"session/request_permission","params":' + params + b"}\n"
    answer = b'{"jsonrpc":"2.0","id":%b,"result":{"stopReason":"end_turn"}}\n'
    chosen = b'{"jsonrpc":"2.0","id":%b,"result":{"outcome":{"outcome":"cancelled"}}}\n'
    from_client = HANDSHAKE["client"] + b"".join(prompt % each + chosen % each for each in ids)
    from_agent = HANDSHAKE["agent"] + b"".join(asked % each + answer % each for each in reversed(ids))
    assert passed(start, tmp_path, from_client, from_agent) == (from_client, from_agent)


# --- T3: stderr -------------------------------------------------------------------------------------------------------


def test_t3_stderr_passes_and_stdout_is_the_protocol_alone(start: Start) -> None:
    relayed = start(agent("noisy", "a word of the agent"), stderr=subprocess.PIPE)
    relayed.send(b'{"a":1}\n')
    assert relayed.read_until(b"\n") == b'{"a":1}\n'
    relayed.send_end()
    assert relayed.read_all() == b""
    assert relayed.process.stderr is not None
    with relayed.process.stderr:
        assert relayed.process.stderr.read() == b"a word of the agent\n"


def test_t3_what_turnguard_says_goes_to_stderr_and_into_the_log(start: Start, tmp_path: Path) -> None:
    log, sends = tmp_path / "log", tmp_path / "sends"
    sends.write_bytes(b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}\n')
    relayed = start(["sh", "-c", f'read x; cat "{sends}"; cat'], "--log", str(log), stderr=subprocess.PIPE)
    relayed.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}\n')
    assert relayed.read_until(b"\n") == sends.read_bytes()
    relayed.send_end()
    assert relayed.read_all() == b""
    assert relayed.exit_code() == 0
    assert relayed.process.stderr is not None
    with relayed.process.stderr:
        said = relayed.process.stderr.read().decode()
    assert said.count("version 2") == 1
    assert "version 2" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("what", ["stderr is full", "stderr is closed"])
def test_t3_a_stderr_that_nobody_reads_stops_nothing(start: Start, tmp_path: Path, what: str) -> None:
    sends = tmp_path / "sends"
    sends.write_bytes(b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}\n')
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    if what == "stderr is closed":
        os.close(reader)
    with os.fdopen(writer, "wb", 0) as stderr:
        relayed = start(["sh", "-c", f'read x; cat "{sends}"; cat'], stderr=stderr)
    relayed.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}\n')
    assert relayed.read_until(b"\n") == sends.read_bytes()
    relayed.send(b"{}\n")
    assert relayed.read_until(b"\n") == b"{}\n"
    relayed.send_end()
    assert relayed.exit_code() == 0
    if what == "stderr is full":
        os.close(reader)


def test_t3_a_stderr_that_nobody_reads_does_not_keep_the_agent_from_starting(tmp_path: Path) -> None:
    """What is said before: here, that there is no place for a salt."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    (tmp_path / "state").write_text("no directory")
    ran = subprocess.run(
        [*ACP, "--", "cat"],
        input=b"{}\n",
        stdout=subprocess.PIPE,
        stderr=writer,
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)},
        timeout=DEADLINE,
        check=False,
    )
    os.close(reader)
    os.close(writer)
    assert (ran.returncode, ran.stdout) == (0, b"{}\n")


@pytest.mark.parametrize("option", ["--record", "--log"])
def test_files_that_could_hold_everything_up_are_refused_before_the_agent_starts(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    for file in (str(tmp_path / "fifo"), "/dev/stdout"):
        command = [*ACP, option, file, "--", "touch", str(tmp_path / "started")]
        ran = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert b"not a regular file" in ran.stderr
        assert not (tmp_path / "started").exists()


# --- T4: back-pressure ------------------------------------------------------------------------------------------------


CANCEL = b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n'


def read_lines(relayed: Relayed, lines: int) -> None:
    """Reads so many lines."""
    while lines > 0:
        block = relayed.read()
        assert block, f"the end came {lines} lines early"
        lines -= block.count(b"\n")
    assert lines == 0


@only_linux
def test_t4_a_slow_client_costs_no_memory_and_its_cancel_gets_out(start: Start, tmp_path: Path) -> None:
    updates, received = 50_000, tmp_path / "received"
    relayed = start(agent("flood", updates, received))
    relayed.send(HANDSHAKE["client"])
    lines = relayed.read().count(b"\n")
    before = relayed.megabytes()
    relayed.send(CANCEL)
    wait_until(lambda: received.exists() and received.read_bytes().endswith(CANCEL))
    read_lines(relayed, updates - lines)
    assert relayed.megabytes() - before < 8
    relayed.send_end()
    assert relayed.exit_code() == 0


def test_t4_an_agent_that_writes_before_it_reads_gets_everything(start: Start, tmp_path: Path) -> None:
    updates, received = 20_000, tmp_path / "received"
    relayed = start(agent("busy", updates, received))
    sent = HANDSHAKE["client"] + b'{"jsonrpc":"2.0","method":"_x","params":"%b"}\n' % (b"x" * 5_000_000) + CANCEL
    writer = threading.Thread(target=relayed.send, args=(sent,))
    writer.start()
    read_lines(relayed, updates)
    writer.join(DEADLINE)
    relayed.send_end()
    assert relayed.exit_code() == 0
    assert received.read_bytes() == sent


# --- T5: the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_t5_the_exit_code_is_the_agents_and_its_last_words_are_delivered(start: Start, code: int) -> None:
    relayed = start(agent("ends", code, '{"a":1}\n{"last'))
    assert relayed.read_all() == b'{"a":1}\n{"last'
    assert relayed.exit_code() == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_t5_a_signal_that_ended_the_agent_is_told_as_shells_do(start: Start, number: int) -> None:
    relayed = start(agent("dies", int(number)))
    assert relayed.read_all() == b""
    assert relayed.exit_code() == 128 + number


@pytest.mark.parametrize(("command", "code"), [("no-such-agent", 127), ("/", 126)])
def test_t5_an_agent_that_cannot_be_started_is_told_in_one_line(command: str, code: int) -> None:
    ran = subprocess.run([*ACP, "--", command], capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (code, b"", 1)
    assert command.encode() in ran.stderr


@only_linux
def test_t5_too_few_open_files_are_told_in_one_line() -> None:
    command = ["sh", "-c", 'ulimit -n 6; exec "$@"', "sh", *ACP, "--", "cat"]
    ran = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (126, b"", 1)


@pytest.mark.parametrize("which", ["stdin", "stdout"])
def test_t5_pipes_that_somebody_made_nonblocking_are_no_end(which: str) -> None:
    to_us, from_us = os.pipe(), os.pipe()
    os.set_blocking(to_us[0] if which == "stdin" else from_us[1], False)
    process = subprocess.Popen([*ACP, "--", "cat"], stdin=to_us[0], stdout=from_us[1], cwd=ROOT)
    os.close(to_us[0])
    os.close(from_us[1])
    line = b'{"x":"' + b"a" * 5_000 + b'"}\n'
    writer = threading.Thread(target=lambda: [os.write(to_us[1], line) for _ in range(100)])
    writer.start()
    taken = bytearray()
    while len(taken) < 100 * len(line):
        assert select.select((from_us[0],), (), (), DEADLINE)[0]
        block = os.read(from_us[0], 10_000)
        assert block, "the end came early"
        taken += block
    writer.join(DEADLINE)
    os.close(to_us[1])
    assert process.wait(DEADLINE) == 0
    os.close(from_us[0])
    assert taken == 100 * line


def test_t5_the_agents_stdin_ends_with_the_clients(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("waiting", tmp_path / "pid"))
    relayed.send(b"{}\n")
    relayed.send_end()
    assert relayed.read_all() == b"{}\n"
    assert relayed.exit_code() == 0


def test_t5_an_agent_that_ignores_the_end_of_its_stdin_gets_sigterm(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("terminated", 9, tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    began = time.monotonic()
    relayed.send_end()
    assert relayed.exit_code() == 9
    assert time.monotonic() - began >= 0.9


@pytest.mark.slow
def test_t5_an_agent_that_ignores_sigterm_too_is_killed(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("stubborn", tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    relayed.send_end()
    assert relayed.exit_code() == 128 + signal.SIGKILL
    assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_t5_a_signal_for_turnguard_is_for_the_agent(start: Start, tmp_path: Path, number: int) -> None:
    relayed = start(agent("waiting", tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    relayed.process.send_signal(number)
    assert relayed.exit_code() == 128 + number


def test_t5_sigint_is_the_agents_affair(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("waiting", tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    relayed.process.send_signal(signal.SIGINT)
    relayed.send(b"{}\n")
    assert relayed.read_until(b"\n") == b"{}\n"
    os.kill(pid, signal.SIGINT)
    assert relayed.exit_code() not in (0, None)


def test_t5_the_agent_inherits_no_ignored_signal_and_the_process_group(start: Start) -> None:
    relayed = start(agent("signals"))
    ignored, group = relayed.read_all().decode().splitlines()
    assert ignored == "SIGPIPE SIGXFSZ"  # what Python itself ignores
    assert int(group) == os.getpgrp()


def test_t5_what_was_ignored_before_turnguard_stays_ignored() -> None:
    command = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *ACP, "--", *agent("signals")]
    ran = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE, stdin=subprocess.DEVNULL, check=True)
    assert ran.stdout.split(b"\n")[0] == b"SIGHUP SIGINT SIGPIPE SIGXFSZ"


def test_t5_an_agent_that_closes_its_stdout_is_still_heard(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("speechless", tmp_path / "pid"))
    assert relayed.read_all() == b""
    assert is_running(pid_in(tmp_path / "pid"))
    relayed.send_end()
    relayed.exit_code()


def test_t5_the_end_does_not_wait_for_what_the_agent_left_running(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("leaves", tmp_path / "pid"))
    try:
        assert relayed.read_all() == b"last words\n"
        assert relayed.exit_code() == 5
    finally:
        os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


@only_linux
def test_t5_a_client_that_reads_late_gets_all_of_an_agent_that_has_ended(start: Start) -> None:
    words = '{"a":1}\n' * 12_000
    relayed = start(agent("ends", 3, words))
    wait_until(relayed.is_readable)
    wait_until(lambda: not children(relayed.process.pid))
    time.sleep(1.5)  # longer than anything is waited for at the end; nothing can be seen in the meantime
    assert relayed.read_all() == words.encode()
    assert relayed.exit_code() == 3


@only_linux
def test_t5_sigterm_ends_what_waits_for_a_client_that_does_not_read(start: Start) -> None:
    relayed = start(agent("ends", 3, '{"a":1}\n' * 12_000))
    assert relayed.read(1) == b"{"
    wait_until(lambda: not children(relayed.process.pid))
    relayed.process.send_signal(signal.SIGTERM)
    assert relayed.exit_code() == 3


def children(pid: int) -> list[str]:
    """The children of a process. Linux only."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


# --- T5: and when something is killed in the middle of a turn ---------------------------------------------------------


def in_a_turn(relayed: Relayed) -> None:
    relayed.send(HANDSHAKE["client"])
    assert relayed.read_until(HANDSHAKE["client"]) == HANDSHAKE["client"]


def test_t5_kill_of_the_agent(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("waiting", tmp_path / "pid"))
    in_a_turn(relayed)
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)
    assert relayed.read_all() == b""
    assert relayed.exit_code() == 128 + signal.SIGKILL


@only_linux
@pytest.mark.parametrize("what", ["waiting", "deaf", "stubborn", "drip"])
def test_t5_kill_of_turnguard(start: Start, tmp_path: Path, what: str) -> None:
    relayed = start(agent(what, tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    relayed.send(HANDSHAKE["client"])
    relayed.process.kill()
    assert seconds_until_ended(pid) < 5
    assert relayed.exit_code() == -signal.SIGKILL


CLIENT = """
import os, subprocess, sys
turnguard = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
turnguard.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s"}}' + b"\\n")
turnguard.stdin.write(b"x" * int(os.environ["BACKLOG"]) + b"\\n")
turnguard.stdin.flush()
print(turnguard.pid, flush=True)
os.read(0, 1)
"""


@only_linux
@pytest.mark.parametrize(
    ("what", "backlog"),
    [
        ("waiting", 0),
        ("terminated", 0),
        ("drip", 0),
        pytest.param("deaf", 10_000, marks=pytest.mark.slow),
        pytest.param("stubborn", 0, marks=pytest.mark.slow),
    ],
)
def test_t5_kill_of_the_client(tmp_path: Path, what: str, backlog: int) -> None:
    arguments = (3, tmp_path / "pid") if what == "terminated" else (tmp_path / "pid",)
    command = [sys.executable, "-c", CLIENT, *ACP, "--", *agent(what, *arguments)]
    environment = {**os.environ, "BACKLOG": str(backlog)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as client:
        assert client.stdout is not None
        turnguard = int(client.stdout.readline())
        pid = pid_in(tmp_path / "pid")
        client.kill()
        assert seconds_until_ended(turnguard) < 15
        assert not is_running(pid)


@only_linux
def test_t5_kill_of_a_client_that_left_more_than_the_agent_takes(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("terminated", 3, tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    writer = threading.Thread(target=_send_till_it_breaks, args=(relayed,), daemon=True)
    writer.start()
    wait_until(lambda: _is_full(relayed))
    relayed.stop_reading()  # it cannot be seen at stdin that a client is gone while the agent takes nothing
    assert relayed.exit_code() == 3
    writer.join(DEADLINE)


def _send_till_it_breaks(relayed: Relayed) -> None:
    try:
        while True:
            relayed.send(b"{}\n" * 10_000)
    except BrokenPipeError:
        pass


def _is_full(relayed: Relayed) -> bool:
    assert relayed.process.stdin is not None
    return not select.select((), (relayed.process.stdin,), (), 0.2)[1]


@only_linux
def test_t5_a_client_that_stops_reading_is_gone_for_the_agent_too(start: Start, tmp_path: Path) -> None:
    relayed = start(agent("drip", tmp_path / "pid"))
    relayed.read()
    relayed.stop_reading()
    assert seconds_until_ended(pid_in(tmp_path / "pid")) < 5
    relayed.exit_code()


@only_linux
@pytest.mark.parametrize("what", ["waiting", "terminated", "drip"])
def test_t5_a_client_whose_pipes_are_sockets(tmp_path: Path, what: str) -> None:
    """Node makes them so; and a process that is killed closes both."""
    arguments = (3, tmp_path / "pid") if what == "terminated" else (tmp_path / "pid",)
    (stdin, their_stdin), (stdout, their_stdout) = socket.socketpair(), socket.socketpair()
    command = [*ACP, "--", *agent(what, *arguments)]
    with subprocess.Popen(command, stdin=their_stdin.fileno(), stdout=their_stdout.fileno(), cwd=ROOT) as turnguard:
        their_stdin.close()
        their_stdout.close()
        pid = pid_in(tmp_path / "pid")
        stdin.sendall(b"{}\n")
        if what != "terminated":
            assert stdout.recv(1)
        stdin.close()
        stdout.close()
        turnguard.wait(DEADLINE)
        assert not is_running(pid)


# --- the start --------------------------------------------------------------------------------------------------------


def test_t5_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    code = "import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules, file=sys.stderr))"
    code += "; from turnguard.cli import main; sys.exit(main(['acp', '--', 'true']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True)
    modules = ran.stderr.splitlines()[-1].split()
    assert modules[0] == "loaded"
    assert {"pygls", "lsprotocol", "asyncio", "rich"}.isdisjoint(modules)
