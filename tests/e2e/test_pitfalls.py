"""The pitfalls of pygls, by the numbers of the table in which we found them, stimulus by stimulus, from outside.

16, 17 and 21 need a fault of our own and stand in `tests/service/test_dispatch.py`; here they run in a process as well.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Start
from tests.e2e.daemon import DEADLINE, SERVE, Daemon, body, call, calls, fails, wait_until
from turnguard.core.bounds import MAX_FRAME_BYTES, MAX_NESTING
from turnguard.framing import frame

EXIT_SECONDS = 5.0


def test_pitfall_01_a_message_inside_arguments_is_only_arguments(daemon: Daemon) -> None:
    daemon.ask("turnguard/openSession", {"sessionId": "p1"})
    inner = {"jsonrpc": "2.0", "id": 5, "method": "shutdown", "params": {"jsonrpc": "2.0", "result": 1}}
    answer = daemon.record("p1", calls(call(**inner), call(message=[inner])))
    assert answer["result"]["admitted"] == [0, 1]
    output = {"type": "toolResults", "results": [{"name": "read_file", "output": inner}]}
    assert daemon.record("p1", output)["result"]["action"] == "allow"


def test_pitfall_02_absent_params_and_extra_members_are_fine(daemon: Daemon) -> None:
    assert daemon.say(b'{"jsonrpc":"2.0","id":1,"method":"turnguard/listSessions"}')["result"]
    assert daemon.say(b'{"jsonrpc":"2.0","id":2,"method":"turnguard/listSessions","params":null}')["result"]
    assert daemon.say(b'{"jsonrpc":"2.0","id":3,"method":"turnguard/listSessions","meta":{"x":1}}')["result"]
    assert daemon.say(b'{"meta":[],"id":4,"params":{"a":1},"method":"turnguard/listSessions","jsonrpc":"2.0"}')[
        "result"
    ]
    data = fails(daemon.say(b'{"jsonrpc":"2.0","id":5,"method":"turnguard/status"}'), -32602)
    assert data == {"path": "$", "message": "Object missing required field `sessionId`"}


def test_pitfall_03_names_that_are_no_identifiers_are_told_apart(daemon: Daemon) -> None:
    daemon.ask("turnguard/openSession", {"sessionId": "p3"})
    names = ("a-b", "a_b", "class", "_x", "type_name", "", "0")
    batch = [{"name": "read_file", "args": {name: 1}} for name in names]
    totals = daemon.record("p3", calls(*batch, *batch))["result"]["totals"]
    assert (totals["toolCalls"], totals["distinctKeys"], totals["maxKeyRepeat"]) == (14, 7, 2)


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH: %d\r\n\r\n",
        b"Content-Length:%d\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"Content-Length: %d\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf8\r\ncontent-LENGTH :  %d \r\n\r\n",
    ],
)
def test_pitfall_05_headers_as_people_write_them(daemon: Daemon, header: bytes) -> None:
    message = body("turnguard/status", {"sessionId": "kept"}, "p5")
    daemon.send(header % len(message) + message + frame(body("turnguard/listSessions", None, "next")))
    assert [daemon.hear()["id"], daemon.hear()["id"]] == ["p5", "next"]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"Content-Length: 99999999999999\r\n\r\n", -32600),
        (b"Content-Length: %d\r\n\r\n" % (MAX_FRAME_BYTES + 1), -32600),
        (b"Content-Length: five\r\n\r\n", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"shutdown"}\n\n', -32700),
        (b"x" * 10_000, -32600),
    ],
)
def test_pitfall_06_a_stream_that_cannot_be_followed_is_answered_and_closed(
    start: Start, header: bytes, code: int
) -> None:
    daemon = start()
    daemon.send(frame(body("turnguard/listSessions", None, "before")) + header)
    assert daemon.hear()["result"] == {"sessions": []}
    answer = daemon.hear()
    fails(answer, code)
    assert answer["id"] is None
    assert daemon.exit_code(EXIT_SECONDS) == 1
    assert daemon.raw() == b""


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"turnguard/listSessions",}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"turnguard/listSessions"} x', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"x"}', -32700),
        (b"[" * 100_000, -32700),
        (b"[" * 100_000 + b"]" * 100_000, -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"turnguard/listSessions"}]', -32600),
        (b'"hello"', -32600),
        (b"null", -32600),
        (b"{}", -32600),
    ],
)
def test_pitfall_07_what_is_no_message_is_answered_with_id_null(daemon: Daemon, message: bytes, code: int) -> None:
    answer = daemon.say(message)
    fails(answer, code)
    assert answer["id"] is None
    assert not any(told["method"] == "window/showMessage" for told in daemon.told)


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 2_000, 100_000])
def test_pitfall_07_what_is_too_deep_fails_alone_and_by_its_id(daemon: Daemon, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    record = b'{"name":"x","args":%b}' % deep
    record = b'{"sessionId":"kept","events":[{"type":"toolCalls","calls":[%b]}]}' % record
    answer = daemon.say(b'{"jsonrpc":"2.0","id":"deep","method":"turnguard/record","params":%b}' % record)
    assert answer["id"] == "deep"
    assert str(MAX_NESTING) in fails(answer, -32602)["message"]


def test_pitfall_08_params_that_do_not_fit_are_answered(start: Start) -> None:
    daemon = start(is_initialized=False)
    data = fails(daemon.ask("initialize", {"processId": "me", "capabilities": {}}), -32602)
    assert data["path"] == "$.processId"
    assert "result" in daemon.ask("initialize", {"processId": None, "capabilities": {}})
    assert fails(daemon.ask("textDocument/hover", {"position": 5}), -32601) == {"method": "textDocument/hover"}
    assert daemon.told == []


def test_pitfall_09_a_request_after_shutdown_is_answered(start: Start) -> None:
    daemon = start()
    assert daemon.ask("shutdown")["result"] is None
    for method in ("turnguard/listSessions", "shutdown", "initialize", "unknown"):
        fails(daemon.ask(method), -32600)
    daemon.tell("$/setTrace", {"value": "off"})
    daemon.tell("exit")
    assert daemon.exit_code(EXIT_SECONDS) == 0


def test_pitfall_10_initialize_comes_first_and_once(start: Start) -> None:
    daemon = start(is_initialized=False)
    for method in ("turnguard/listSessions", "turnguard/record", "shutdown", "unknown"):
        fails(daemon.ask(method), -32002)
    initialize = {"processId": None, "capabilities": {}}
    assert "result" in daemon.ask("initialize", initialize)
    fails(daemon.ask("initialize", initialize), -32600)
    assert daemon.ask("turnguard/listSessions")["result"] == {"sessions": []}


@pytest.mark.parametrize("is_initialized", [False, True])
def test_pitfall_11_exit_without_shutdown_is_1(start: Start, is_initialized: bool) -> None:
    daemon = start(is_initialized=is_initialized)
    daemon.tell("exit")
    assert daemon.exit_code(EXIT_SECONDS) == 1


@pytest.mark.parametrize("last", [b"", b"Content-Le", b'Content-Length: 50\r\n\r\n{"jsonrpc":'])
def test_pitfall_12_the_end_of_stdin_is_the_end(start: Start, last: bytes) -> None:
    daemon = start(stderr=subprocess.PIPE)
    daemon.send(frame(body("turnguard/listSessions", None, "last")) + last)
    daemon.close_stdin()
    assert daemon.hear()["id"] == "last"
    assert daemon.exit_code(EXIT_SECONDS) == 1
    assert daemon.raw() == b""
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        errors = stderr.read()
    assert (b"inside a message" in errors) == bool(last)
    assert b"Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pitfall_13_a_signal_ends_it_though_stdin_is_open(start: Start, number: int) -> None:
    daemon = start(stderr=subprocess.PIPE)
    daemon.process.send_signal(number)
    assert daemon.exit_code(EXIT_SECONDS) == 1
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        assert stderr.read() == b""


def test_pitfall_13_a_signal_leaves_no_answer_behind(start: Start) -> None:
    daemon = start()
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    daemon.record("s", calls(call()))
    daemon.process.send_signal(signal.SIGTERM)
    told = daemon.raw()
    assert daemon.exit_code(EXIT_SECONDS) == 1
    assert told.count(b"Content-Length") == told.count(b"turnguard/didChangeSession") <= 1


def test_pitfall_14_it_ends_with_its_client_though_stdin_is_open(start: Start) -> None:
    """The client is a process of its own that is killed and, being our child, stays a zombie; we hold the pipes."""
    client = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        daemon = start(process_id=client.pid)
        assert daemon.is_silent()
        client.send_signal(signal.SIGKILL)
        assert daemon.exit_code(EXIT_SECONDS) == 1
    finally:
        client.kill()
        client.communicate()


def test_pitfall_14_it_ends_with_a_client_that_had_already_ended(start: Start) -> None:
    client = subprocess.Popen([sys.executable, "-c", ""])
    client.wait(DEADLINE)
    daemon = start(process_id=client.pid)
    assert daemon.exit_code(EXIT_SECONDS) == 1


def test_pitfall_14_a_parent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    """The daemon is the child of a client that is killed and that told it no `processId`: its stdin ends."""
    script = (
        "import subprocess, sys\n"
        f"daemon = subprocess.Popen({SERVE!r}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
        "print(daemon.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        client.kill()
        wait_until(lambda: not is_running(pid), 2 * EXIT_SECONDS)
    finally:
        client.kill()
        client.communicate()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


NOISY = """
import os, subprocess, sys
from turnguard.service.sessions import Sessions
from turnguard.cli import main

quiet = Sessions.status

def noisy(self, params):
    print("print", flush=True)
    sys.stdout.write("write\\n")
    os.write(1, b"os.write\\n")
    subprocess.run([sys.executable, "-c", "print('child', input())"], stderr=subprocess.DEVNULL)
    os.system("echo shell; cat")
    return quiet(self, params)

Sessions.status = noisy
sys.exit(main(["serve"]))
"""


def test_pitfall_15_nothing_gets_between_the_frames(start: Start) -> None:
    daemon = start((sys.executable, "-c", NOISY), stderr=subprocess.PIPE)
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    for n in range(3):
        assert daemon.ask("turnguard/status", {"sessionId": "s"}, n)["result"]["sessionId"] == "s"
    daemon.ask("shutdown")
    daemon.tell("exit")
    assert daemon.raw() == b""
    assert daemon.exit_code() == 0
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        noise = stderr.read()
    for word in (b"print", b"write", b"os.write", b"shell"):
        assert noise.count(b"\n" + word + b"\n") + noise.startswith(word + b"\n") == 3
    assert b"child" not in noise


FAULTY = """
import math, sys
from turnguard.service.sessions import Sessions
from turnguard.cli import main

def status(self, params):
    if params.session_id == "nan":
        return {"ratio": math.nan}
    raise LookupError(params.session_id)

Sessions.status = status
sys.exit(main(["serve"]))
"""


def test_pitfall_16_and_17_a_fault_of_ours_costs_one_answer(start: Start) -> None:
    daemon = start((sys.executable, "-c", FAULTY), stderr=subprocess.PIPE)
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    assert daemon.ask("turnguard/status", {"sessionId": "nan"})["result"] == {"ratio": None}
    answer = daemon.ask("turnguard/status", {"sessionId": "hunter2"}, "fault")
    error_id = fails(answer, -32603)["errorId"]
    assert [status["sessionId"] for status in daemon.ask("turnguard/listSessions")["result"]["sessions"]] == ["s"]
    assert [told["method"] for told in daemon.told] == ["window/logMessage"]
    daemon.close_stdin()
    daemon.exit_code()
    assert daemon.process.stderr is not None
    with daemon.process.stderr as stderr:
        errors = stderr.read().decode()
    assert error_id in errors
    assert "LookupError" in errors
    assert "hunter2" not in errors + json.dumps([answer, daemon.told])


def test_pitfall_18_a_cancel_comes_after_the_answer(daemon: Daemon) -> None:
    """Requests are answered in their order, each at once: when a cancel is read, what it cancels is answered."""
    status = [frame(body("turnguard/status", {"sessionId": "kept"}, n)) for n in range(3)]
    cancel = [frame(body("$/cancelRequest", {"id": n})) for n in (0, 1, 2, "unknown", None)]
    daemon.send(cancel[1] + status[0] + cancel[0] + status[1] + status[2] + cancel[2] + cancel[3] + cancel[4])
    for n in range(3):
        answer = daemon.hear()
        assert (answer["id"], answer["result"]["sessionId"]) == (n, "kept")
    assert daemon.is_silent()


def test_pitfall_19_a_response_to_nothing_is_nothing(daemon: Daemon) -> None:
    status = body("turnguard/status", {"sessionId": "kept"}, 1)
    for response in (b'"result":null', b'"result":{"a":1}', b'"error":{"code":1,"message":"x"}'):
        daemon.send(frame(b'{"jsonrpc":"2.0","id":1,%b}' % response) + frame(status))
        assert daemon.hear()["result"]["sessionId"] == "kept"
    assert daemon.is_silent()


@pytest.mark.parametrize("request_id", ["null", "1.5", "1.0", "1e3", "true", "[]", "{}"])
@pytest.mark.parametrize("method", ["turnguard/listSessions", "shutdown", "unknown"])
def test_pitfall_20_ids_are_integers_or_strings(daemon: Daemon, request_id: str, method: str) -> None:
    answer = daemon.say(f'{{"jsonrpc":"2.0","id":{request_id},"method":"{method}"}}'.encode())
    fails(answer, -32600)
    assert answer["id"] is None


@pytest.mark.parametrize("request_id", [0, -1, 2**53, 2**70, "", "7", "é😀", "null"])
def test_pitfall_20_an_id_comes_back_as_it_was(daemon: Daemon, request_id: Any) -> None:
    assert daemon.ask("turnguard/status", {"sessionId": "kept"}, request_id)["result"]["sessionId"] == "kept"


def test_pitfall_20_an_id_used_twice_is_answered_twice(daemon: Daemon) -> None:
    """No request is in flight when the next is read, so no id can be in flight twice."""
    one = frame(body("turnguard/status", {"sessionId": "kept"}, 5))
    other = frame(body("turnguard/status", {"sessionId": "nope"}, 5))
    daemon.send(one + other + one)
    answers = [daemon.hear() for _ in range(3)]
    assert [answer["id"] for answer in answers] == [5, 5, 5]
    assert ["result" in answer for answer in answers] == [True, False, True]


def write_all(daemon: Daemon, data: bytes) -> None:
    """Writes without reading anything, as long as the daemon goes on reading."""
    assert daemon.process.stdin is not None
    stdin = daemon.process.stdin.fileno()
    rest = memoryview(data)
    while rest:
        _, ready, _ = select.select((), (stdin,), (), DEADLINE)
        assert ready, "the daemon has stopped reading"
        rest = rest[os.write(stdin, rest[:65536]) :]


def test_pitfall_22_a_client_that_does_not_read_freezes_nothing(start: Start) -> None:
    daemon = start()
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    count = 20_000
    requests = [frame(body("turnguard/status", {"sessionId": "s"}, n)) for n in range(count)]
    write_all(daemon, b"".join(requests))
    assert [daemon.hear()["id"] for _ in range(count)] == list(range(count))


def test_pitfall_22_a_client_that_never_reads_can_still_be_ended(start: Start) -> None:
    daemon = start()
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    write_all(daemon, b"".join(frame(body("turnguard/status", {"sessionId": "s"}, n)) for n in range(5_000)))
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.exit_code(EXIT_SECONDS) == 1


def test_pitfall_26_no_documents_are_asked_for(start: Start) -> None:
    daemon = start(is_initialized=False)
    capabilities = {"textDocument": {"synchronization": {}}, "workspace": {"workspaceFolders": True}}
    answer = daemon.ask("initialize", {"processId": None, "capabilities": capabilities})
    result = answer["result"]
    assert list(result["capabilities"]) == ["experimental"]
    assert result["capabilities"]["experimental"]["turnguard"]["protocolVersion"] == 1
    assert "turnguard/record" in result["capabilities"]["experimental"]["turnguard"]["methods"]
    assert result["serverInfo"]["name"] == "turnguard"
    document = {"uri": "file:///x", "languageId": "x", "version": 1, "text": "x" * 100_000}
    daemon.tell("textDocument/didOpen", {"textDocument": document})
    daemon.tell("initialized", {})
    assert daemon.is_silent()
    assert daemon.told == []
