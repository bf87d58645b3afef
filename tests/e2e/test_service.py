import json
import random
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.e2e.conftest import Start
from tests.e2e.daemon import DEADLINE, Daemon, body, call, calls, fails
from turnguard.client import Client, ClientError
from turnguard.framing import frame
from turnguard_protocol.events import Call, ToolCalls, TurnStarted
from turnguard_protocol.settings import ModelSettings, Settings
from turnguard_protocol.verdicts import Action

CHANGE_SECONDS = 0.2


def cap(limit: int) -> dict[str, object]:
    return {"model": {"maxToolCallsPerTurn": limit}}


def test_two_sessions_do_not_know_of_each_other() -> None:
    with Client.spawn(Settings(model=ModelSettings(max_tool_calls_per_turn=3))) as client:
        client.open_session("a")
        client.open_session("b", settings=Settings(model=ModelSettings(max_tool_calls_per_turn=50)))
        for n in range(3):
            for name in ("a", "b"):
                assert client.record(name, [ToolCalls([Call(f"tool_{n}")])]).action is Action.ALLOW
        verdict = client.record("a", [ToolCalls([Call("more")])])
        assert (verdict.action, verdict.admitted) == (Action.HALT, [])
        loop = client.wait_notification("turnguard/didDetectLoop")
        assert (loop["sessionId"], loop["finding"]["reason"]) == ("a", "explicit_cap")
        assert client.record("b", [ToolCalls([Call("more")])]).admitted == [0]
        assert client.prepare_step("a").tool_choice == "none"
        with pytest.raises(ClientError) as caught:
            client.override("a", "continueOnce", turn_id="other")
        assert (caught.value.code, caught.value.data) == (-32801, {"turnId": verdict.turn_id})
        assert client.override("a", "continueOnce", turn_id=verdict.turn_id).state == "running"
        assert client.record("a", [TurnStarted("next"), ToolCalls([Call("more")])]).totals.tool_calls == 1
        summary = client.close_session("a")
        assert summary is not None
        assert summary.turn_id == "next"
        assert client.status("b").totals.tool_calls == 4
        assert client.shutdown() == 0


def test_a_cap_of_the_client_holds_from_the_next_event_on(start: Start) -> None:
    daemon = start()
    daemon.ask("turnguard/openSession", {"sessionId": "s"})
    for n in range(5):
        assert daemon.record("s", calls(call(n=n)))["result"]["action"] == "allow"
    daemon.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": cap(5)}})
    assert daemon.record("s", calls(call(n=5)))["result"]["action"] == "halt"
    daemon.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": {"model": {"maxToolCalls": 9}}}})
    daemon.ask("turnguard/listSessions")
    shown = [told["params"]["message"] for told in daemon.told if told["method"] == "window/showMessage"]
    assert len(shown) == 1
    assert "maxToolCalls" in shown[0]
    assert "turnguard.model" in shown[0]
    values = daemon.ask("turnguard/settings", {"sessionId": "s"})["result"]["values"]
    assert values[0] == {"name": "model.maxToolCallsPerTurn", "value": 5, "origin": "client"}


def test_changes_are_told_at_most_five_times_a_second_and_the_last_one_in_any_case(start: Start) -> None:
    daemon = start()
    daemon.ask("turnguard/openSession", {"sessionId": "s", "settings": cap(0)})
    begin = time.monotonic()
    count = 0
    while time.monotonic() - begin < 5 * CHANGE_SECONDS:
        daemon.record("s", calls(call(n=count)))
        count += 1
    took = time.monotonic() - begin
    told = [message["params"] for message in daemon.told]
    assert 1 <= len(told) <= took / CHANGE_SECONDS + 1
    while not told or told[-1]["totals"]["toolCalls"] < count:
        told.append(json.loads(daemon.receive(DEADLINE))["params"])
    totals = [status["totals"]["toolCalls"] for status in told]
    assert totals == sorted(set(totals))
    assert totals[-1] == count
    daemon.ask("turnguard/status", {"sessionId": "s"})
    with pytest.raises(TimeoutError):
        daemon.receive(timeout=2 * CHANGE_SECONDS)


def test_a_record_that_fails_has_told_nothing(daemon: Daemon) -> None:
    daemon.ask("turnguard/openSession", {"sessionId": "atomic"})
    started = {"type": "turnStarted", "turnId": "t"}
    events: list[tuple[list[object], str]] = [
        ([started, calls(call(), {"name": 5})], "$.events[1].calls[1].name"),
        ([started, calls({"name": "x", "args": 1, "key": "k"})], "$.events[1].calls[0]"),
        ([started, {"type": "bogus"}], "$.events[1].type"),
        ([started, {"turnId": "x"}], "$.events[1]"),
        ([started, calls(call()), started], "$.events[1]"),
        ([started, 5], "$.events[1]"),
        ([started, {"type": "turnEnded", "outcome": "lost"}], "$.events[1].outcome"),
        ([started, {"type": "toolResults", "results": [{"status": "lost"}]}], "$.events[1].results[0].status"),
    ]
    for batch, path in events:
        data = fails(daemon.record("atomic", *batch), -32602)
        assert data["path"] == path
        status = daemon.ask("turnguard/status", {"sessionId": "atomic"})["result"]
        assert (status["state"], status["totals"]["toolCalls"]) == ("idle", 0)
        assert "turnId" not in status


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("openSession", {"sessionId": 5}, "$.sessionId"),
        ("openSession", {"settings": {"modle": {}}}, "$.settings"),
        ("openSession", {"workspaceSettings": {"model": {"skipLoopDetection": "yes"}}},
         "$.workspaceSettings.model.skipLoopDetection"),
        ("openSession", [], "$"),
        ("override", {"sessionId": "kept", "action": "shrug"}, "$.action"),
        ("override", {"sessionId": "kept", "action": "raiseCap", "calls": 0}, "$.calls"),
        ("status", {}, "$"),
        ("settings", {"sessionId": []}, "$.sessionId"),
    ],
)  # fmt: skip
def test_params_that_do_not_fit_are_named(daemon: Daemon, method: str, params: object, path: str) -> None:
    data = fails(daemon.ask(f"turnguard/{method}", params), -32602)
    assert data["path"] == path
    assert data["message"]


def test_half_an_emoji_is_no_trouble_anywhere(daemon: Daemon) -> None:
    half = "\ud83d"
    daemon.ask("turnguard/openSession", {"sessionId": "emoji", "agentId": half, "cwd": half})
    events = [
        {"type": "turnStarted", "turnId": f"turn {half}"},
        calls({"name": f"tool {half}", "id": half, "args": {half: [half, 1.5, 10**30]}}, call(text=half)),
    ]
    verdict = daemon.record("emoji", *events)["result"]
    assert (verdict["turnId"], verdict["admitted"]) == ("turn \ufffd", [0, 1])
    result = {"id": half, "output": {"text": half}, "error": half, "errorType": half}
    assert daemon.record("emoji", {"type": "toolResults", "results": [result]})["result"]
    assert daemon.total("emoji") == 2
    assert fails(daemon.ask(f"method {half}"), -32601) == {"method": "method \ufffd"}


def test_half_an_emoji_names_nothing(daemon: Daemon) -> None:
    """Two halves would look alike in an answer, so neither is a session or a request."""
    for half in ("\ud83d", "\ude00", "id \ud83d"):
        for method in ("openSession", "record", "status", "closeSession"):
            assert fails(daemon.ask(f"turnguard/{method}", {"sessionId": half}), -32602)["path"] == "$.sessionId"
        answer = daemon.say(body("turnguard/listSessions", None, half))
        fails(answer, -32600)
        assert answer["id"] is None
    sessions = daemon.ask("turnguard/listSessions")["result"]["sessions"]
    assert not any("\ufffd" in session["sessionId"] for session in sessions)


def test_half_an_emoji_has_an_identity(daemon: Daemon) -> None:
    daemon.ask("turnguard/openSession", {"sessionId": "half"})
    batch = calls(call(a="\ud83d"), call(a="\ud83d"), call(a="\ude00"), call(a="\ufffd"))
    totals = daemon.record("half", batch)["result"]["totals"]
    assert (totals["distinctKeys"], totals["maxKeyRepeat"]) == (3, 2)


def test_nothing_that_can_be_sent_hurts_it(daemon: Daemon) -> None:
    """Frames with bodies that are nearly right: every request that is one is answered, and nothing else happens."""
    chance = random.Random(4711)  # noqa: S311
    record = {"sessionId": "fuzz", "events": [{"type": "turnStarted"}, calls(call(a=[1, {"b": None}], c="x"))]}
    seeds = [
        body("turnguard/record", record, 1),
        body("turnguard/openSession", {"sessionId": "fuzz", "settings": cap(5)}, 2),
        body("turnguard/override", {"sessionId": "fuzz", "action": "raiseCap", "calls": 3}, 3),
        body("workspace/didChangeConfiguration", {"settings": {"turnguard": {"model": None}}}),
        body("$/setTrace", {"value": "off"}),
    ]
    pieces = [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"1e999",
        b"-0",
        b"\\ud800",
        b"\xff",
        b"\x00",
        b"\\u0000",
    ]
    for _ in range(1_500):
        message = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(message))
            message[at : at + chance.choice((0, 0, 1, 5))] = chance.choice(pieces)
        if b"exit" in message or b"shutdown" in message:
            continue
        daemon.send(frame(bytes(message)))
    daemon.send(frame(body("turnguard/listSessions", None, "end of it")))
    answers: list[Any] = []
    while not answers or answers[-1].get("id") != "end of it":
        answers.append(daemon.hear())
    assert all(("result" in answer) != ("error" in answer) for answer in answers)
    assert not any(answer["error"]["code"] == -32603 for answer in answers if "error" in answer)


def test_a_big_message_is_no_trouble(daemon: Daemon) -> None:
    daemon.ask("turnguard/openSession", {"sessionId": "big"})
    text = "é" * 2_000_000
    assert daemon.record("big", calls(call(text=text), call(text=text)))["result"]["totals"]["maxKeyRepeat"] == 2


def test_a_client_is_told_of_errors_and_of_silence() -> None:
    with Client.spawn() as client:
        with pytest.raises(ClientError, match="Unknown method") as caught:
            client.request("turnguard/unknown")
        assert (caught.value.code, caught.value.data) == (-32601, {"method": "turnguard/unknown"})
        with pytest.raises(TimeoutError):
            client.wait_notification("turnguard/didDetectLoop", timeout=0.01)
        client.open_session("s")
        answers = client.pipeline("turnguard/status", [{"sessionId": "s"}] * 5)
        assert [answer["sessionId"] for answer in answers] == ["s"] * 5
        client.notify("exit")
        with pytest.raises(EOFError):
            client.request("turnguard/listSessions")
        assert client.connection.process.wait(DEADLINE) == 1


def test_a_client_that_cannot_begin_leaves_no_process() -> None:
    with pytest.raises(ClientError) as caught:
        Client.spawn({"modle": {}})
    assert caught.value.code == -32602
    with pytest.raises(EOFError):
        Client.spawn(argv=(sys.executable, "-c", ""), stderr=subprocess.DEVNULL)
