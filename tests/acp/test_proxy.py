"""Whose line it is, and that nothing is changed where nothing was found (T1, T2, T27 and T29 of acp-proxy.md)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.acp.play import (
    CALLS_TO_HALT,
    Play,
    chunk,
    error_of,
    line_of,
    notification,
    permission,
    prompt,
    request,
    result_of,
    session_update,
)
from turnguard.acp import connection
from turnguard.acp.proxy import Proxy
from turnguard_protocol.verdicts import Action

CANCELLED = {"stopReason": "cancelled"}

ODD = [
    b"\n",
    b"\r\n",
    b"  \n",
    b"not json\n",
    b"\xff\xfe\n",
    b"{\n",
    b"[]\n",
    b"[1,2]\n",
    b"7\n",
    b'"tool_call"\n',
    b"null\n",
    b"{}\n",
    b'{"jsonrpc":"2.0","method":7,"id":{}}\n',
    b'{"jsonrpc":"2.0","id":null,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}\n',
    b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}\n',
    b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":[1]}\n',
    b'{"jsonrpc":"2.0","id":1,"method":"unknown","params":{"big":123456789012345678901234567890,"f":1.0}}\n',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"_ext/x","params":{"a":1,"a":2}}\r\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"new"}}}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}\n',
    b'{"jsonrpc":"2.0","method":"session/request_permission","id":1,"params":{"sessionId":"s"}}\n',
    b'{"jsonrpc":"2.0","method":"_qwencode/start_turn","id":1}\n',
    b'{"jsonrpc":"2.0","method":"_qwencode/end_turn","params":[]}\n',
    b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}\n',
    b'{"jsonrpc":"2.0","method":"session/cancel"}\n',
    b'{"jsonrpc":"2.0","id":99,"result":null}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}\n',
    b'{"jsonrpc":"2.0","id":1.5,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":true,"result":{}}\n',
    b'{"a":"\\ud800","method":"session/cancel","params":{"sessionId":"\\ud800"}}\n',
    b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}',
]


@pytest.mark.parametrize("line", ODD)
@pytest.mark.parametrize("is_running", [True, False])
def test_t1_odd_lines_pass_both_ways(line: bytes, is_running: bool) -> None:
    play = Play().start()
    if is_running:
        play.prompt("p")
    assert play.client(line) is None
    assert play.agent(line) is None
    assert play.proxy.said == []


def test_t1_a_line_of_20_mb_passes() -> None:
    play = Play().start()
    play.prompt(1)
    assert play.agent(chunk("x" * 20_000_000)) is None


def test_t1_without_a_finding_the_whole_session_passes() -> None:
    play = Play()
    lines = [
        ("client", request(0, "initialize", {"protocolVersion": 1})),
        ("agent", result_of(0, {"protocolVersion": 1})),
        ("client", request(1, "session/new", {"cwd": "/project"})),
        ("agent", result_of(1, {"sessionId": "s"})),
        ("client", prompt(2)),
        ("agent", chunk("hello")),
        ("agent", session_update("s", "tool_call", toolCallId="c", title="t")),
        ("agent", permission(2, "c")),
        ("client", result_of(2, {"outcome": {"outcome": "selected", "optionId": "yes"}})),
        ("agent", request(3, "fs/read_text_file", {"sessionId": "s", "path": "/a"})),
        ("client", result_of(3, {"content": ""})),
        ("agent", session_update("s", "tool_call_update", toolCallId="c", status="completed")),
        ("agent", result_of(2, {"stopReason": "end_turn"})),
    ]
    for sender, message in lines:
        assert (play.client if sender == "client" else play.agent)(message) is None
    assert play.proxy.next_tick is None


def test_t2_ids_of_both_directions_and_of_all_types_are_told_apart() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(prompt("1", "other"))
    play.agent(permission(1, "c"))
    play.agent(permission("1", "c", "other"))
    play.loop()
    assert play.agent(result_of("1", CANCELLED)) is None
    assert play.client(result_of("1", {"outcome": {"outcome": "cancelled"}})) is None
    assert play.client(result_of(1, {"outcome": {"outcome": "cancelled"}})) is not None
    play.agent(result_of(1, CANCELLED))
    assert play.at_client[-1]["id"] == 1
    assert play.at_client[-1]["result"]["stopReason"] == "max_turn_requests"


@pytest.mark.parametrize("request_id", [0, "", -1, "a b", 12345678901234567890])
def test_t2_unusual_ids_come_back_as_they_were(request_id: Any) -> None:
    answers, silent = Play().halted(request_id), Play().halted(request_id)
    answers.agent(result_of(request_id, CANCELLED))
    silent.wait(15)
    for play in (answers, silent):
        assert len(play.answers_to(request_id)) == 1


def test_t2_an_answer_under_no_id_we_know_passes() -> None:
    play = Play().halted(1)
    for request_id in ("1", 2, None):
        assert play.agent(result_of(request_id, CANCELLED)) is None


def test_t29_the_answer_to_the_handshake_says_which_version_is_guarded() -> None:
    play = Play()
    play.client(request("i", "initialize", {"protocolVersion": 2}))
    play.agent(result_of("i", {"protocolVersion": 1}))
    play.prompt(1)
    play.loop()
    assert play.cancels() == 1
    assert play.proxy.said == []


def test_version_2_passes_unguarded_and_that_is_said_once() -> None:
    play = Play().start(version=2)
    play.prompt(1)
    play.loop()
    assert not play.cancels()
    assert play.agent(result_of(1, {})) is None
    (said,) = play.proxy.said
    assert "version 2" in said
    assert "unguarded" in said
    play.client(request("x", "_turnguard/status", {}))
    assert play.answers_to("x")[0]["result"]["guarding"] is False


def test_a_second_handshake_counts() -> None:
    play = Play().start(version=2).start(version=1)
    play.prompt(1)
    play.loop()
    assert play.cancels() == 1


def batch(*messages: Any) -> bytes:
    return json.dumps(messages).encode() + b"\n"


def test_t1_a_batch_passes_as_it_is_and_its_entries_count() -> None:
    play = Play().start()
    assert play.client(batch(prompt(1), request(2, "unknown", {}))) is None
    calls = []
    for number in range(CALLS_TO_HALT - 1):
        call = {"toolCallId": f"c{number}", "name": "look", "rawInput": {"a": 1}}
        calls.append(session_update("s", "tool_call", **call))
        calls.append(session_update("s", "tool_call_update", toolCallId=call["toolCallId"], status="completed"))
    assert play.agent(batch(chunk("a"), result_of(2, {}))) is None
    assert play.guards["s"].status().state == "running"
    play.agent(batch(*calls))
    assert play.guards["s"].status().totals.tool_calls == CALLS_TO_HALT - 1


def test_t1_a_batch_of_which_an_entry_changes_is_made_anew() -> None:
    play = Play().halted(1)
    play.forget()
    play.agent(batch(chunk("a"), result_of(1, CANCELLED), chunk("b")))
    (array,) = play.at_client
    assert [entry.get("id", entry.get("method")) for entry in array] == [
        "session/update",
        "session/update",
        1,
        "session/update",
    ]
    play.forget()
    play.client(batch(prompt(2), request("x", "_turnguard/status", {})))
    (array,) = play.at_agent
    assert [entry["id"] for entry in array] == [2]
    assert [answer["id"] for answer in play.at_client] == ["x"]


def test_a_call_in_a_line_that_cannot_be_read_is_counted() -> None:
    play = Play().start()
    play.prompt(1)
    deep = b"[" * 500_000 + b"]" * 500_000
    line = b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
    assert play.agent(line + b'"toolCallId":"c","rawInput":' + deep + b"}}}\n") is None
    assert play.guards["s"].status().totals.tool_calls == 1


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_call_that_names_no_session_is_counted_where_there_is_no_doubt(is_alone: bool) -> None:
    play = Play().start("s", "t")
    play.prompt(1)
    if not is_alone:
        play.prompt(2, "t")
    deep = b"[" * 500_000 + b"]" * 500_000
    play.agent(b'{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","x":' + deep + b"}}}\n")
    assert play.guards["s"].status().totals.tool_calls == is_alone


@pytest.mark.parametrize(
    "change",
    [
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: b"  [" + line.strip() + b"]\n",
        lambda line: b"\xef\xbb\xbf [" + line.strip() + b"]\n",
        lambda line: line.replace(b'"path": "a"', b'"path": NaN'),
        lambda line: line.replace(b'"path": "a"', b'"path": ' + b"[" * 600 + b"]" * 600),
        lambda line: line.replace(b'"toolCallId": "call ', b'"toolCallId": 1').replace(b'", "title"', b', "title"'),
    ],
)
def test_t27_a_loop_in_lines_that_are_hard_to_read_is_a_loop(change: Callable[[bytes], bytes]) -> None:
    play = Play().start()
    play.prompt(1)
    for number in range(3 * CALLS_TO_HALT):
        call = {"toolCallId": f"call {number}", "title": "Looking", "name": "look", "rawInput": {"path": "a"}}
        play.agent(change(line_of(session_update("s", "tool_call", status="in_progress", **call))))
    assert play.sessions["s"].turns.guard.status().totals.max_key_repeat >= CALLS_TO_HALT


def test_sessions_are_bounded_though_all_are_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_SESSIONS", 3)
    play = Play().halted(1, "s")
    for number in range(2, 6):
        play.prompt(number, f"s{number}")
    assert list(play.sessions) == ["s", "s4", "s5"]
    assert play.agent(result_of(2, CANCELLED)) is None


def test_what_cannot_be_read_is_counted_in_the_status() -> None:
    play = Play().start()
    for line in (b"not json\n", b"\n", b"\r\n"):
        play.agent(line)
    assert play.proxy.unread("agent", b'{"method":', 0) is None
    assert play.proxy.unread("client", b'{"method":', 0) is None
    play.client(request("x", "_turnguard/status", {}))
    assert play.answers_to("x")[0]["result"]["unread"] == 2


def test_a_fault_of_our_own_changes_nothing_and_is_said_once_without_what_came() -> None:
    play = Play().start()

    def fail(events: Any, verdict: Any) -> None:
        raise RuntimeError("a secret")

    play.guards["s"].change = fail
    assert play.prompt(1) is None
    for _ in range(3):
        assert play.agent(session_update("s", "tool_call", toolCallId="c", name="secret")) is None
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None
    assert len(play.proxy.said) <= 3
    assert all("secret" not in said and "RuntimeError" in said for said in play.proxy.said)
    play.client(request("x", "_turnguard/status", {}))
    assert play.answers_to("x")[0]["result"]["faults"] >= 3


def test_guards_that_cannot_be_made_leave_the_session_unguarded() -> None:
    def refuse(session_id: str, cwd: str | None) -> Any:
        raise ValueError(session_id)

    proxy = Proxy(refuse, version="1")
    for line in (prompt(1), prompt(2)):
        assert proxy.from_client(json.dumps(line).encode(), 0) is None
    assert proxy.from_agent(json.dumps(result_of(1, {"stopReason": "end_turn"})).encode(), 0) is None
    assert len(proxy.said) == 1


def test_the_directory_of_a_session_is_known_to_its_guards() -> None:
    play = Play().start()
    play.client(request("l", "session/load", {"sessionId": "loaded", "cwd": "/loaded"}))
    play.client(request("f", "session/fork", {"sessionId": "s", "cwd": "/forked"}))
    play.agent(result_of("f", {"sessionId": "forked"}))
    play.prompt(1, "unknown")
    cwds = {session_id: guard.session.cwd for session_id, guard in play.guards.items()}
    assert cwds == {"s": "/project", "loaded": "/loaded", "forked": "/forked", "unknown": None}


def test_nothing_is_due_after_the_client_is_gone() -> None:
    play = Play().halted(1)
    assert play.proxy.next_tick == 15
    play.proxy.client_gone(play.now)
    assert play.proxy.next_tick is None


def test_next_tick_is_the_earliest_of_all_sessions() -> None:
    play = Play().start("a", "b")
    play.prompt(1, "a")
    play.prompt(2, "b")
    play.loop("a")
    play.now = 5
    play.loop("b")
    assert play.proxy.next_tick == 15
    play.agent(result_of(1, CANCELLED))
    assert play.proxy.next_tick == 20
    play.agent(result_of(2, CANCELLED))
    assert play.proxy.next_tick is None


def test_a_halting_line_without_its_end_gets_one() -> None:
    play = Play().start()
    play.prompt(1)
    for _ in range(CALLS_TO_HALT - 1):
        play.call()
    message = session_update("s", "tool_call", toolCallId="last", name="look", rawInput={"path": "a"})
    assert play.agent(json.dumps(message).encode()) is not None
    assert play.cancels() == 1


def test_an_id_that_the_client_uses_again_is_a_new_request() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    play.forget()
    play.prompt(1)
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None
    assert play.agent(error_of(1, -32603)) is None


def test_a_verdict_without_anything_new_changes_nothing() -> None:
    play = Play(on_loop="warn").start()
    play.prompt(1)
    for _ in range(30):
        play.call()
    play.forget()
    play.call()
    assert len(play.at_client) == 2
    assert play.guards["s"].status().last_finding.action is Action.HALT  # type: ignore[union-attr]


def test_a_cancel_of_the_agents_for_a_request_of_its_own_passes() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission(5, "c"))
    assert play.agent(notification("$/cancel_request", {"requestId": 5})) is None


@pytest.mark.parametrize("is_same", [True, False])
def test_what_a_command_came_to_can_be_in_the_clients_answer_to_the_agent(is_same: bool) -> None:
    play = Play(agent="fast-agent-acp").start()
    play.prompt(1)
    for number in range(CALLS_TO_HALT):
        call_id = f"c{number}"
        call = {"toolCallId": call_id, "title": "execute", "kind": "execute"}
        play.agent(session_update("s", "tool_call", status="pending", **call))
        shown = {"content": [{"type": "terminal", "terminalId": "t"}], "rawInput": {"command": "ls"}}
        play.agent(session_update("s", "tool_call_update", status="in_progress", toolCallId=call_id, **shown))
        assert play.agent(request(number, "terminal/output", {"sessionId": "s", "terminalId": "t"})) is None
        output = "same" if is_same else f"other {'x' * number}"
        answer = {"output": output, "truncated": False, "exitStatus": {"exitCode": 0}}
        assert play.client(result_of(number, answer)) is None
        play.agent(session_update("s", "tool_call_update", status="completed", toolCallId=call_id))
    assert play.cancels() == is_same


# --- what passes before it is looked at -------------------------------------------------------------------------------


def passes(play: Play, line: bytes) -> bool:
    return play.proxy.look_later(line) is not None


def test_updates_of_turns_that_nobody_stops_pass_before_they_are_looked_at() -> None:
    play = Play(on_loop="ask").start("s", "t")
    update = line_of(session_update("s", "tool_call_update", toolCallId="1", status="completed"))
    assert passes(play, update)
    play.prompt(1)
    assert passes(play, update)
    play.loop()
    assert play.sessions["s"].state == "asking"
    assert passes(play, update)
    play.wait(60)
    assert play.sessions["s"].state == "stopping"
    assert not passes(play, update)
    assert passes(play, update.replace(b'"s"', b'"t"'))
    play.wait(15)
    assert play.sessions["s"].state == "zombie"
    assert not passes(play, update)
    play.agent(result_of(1, CANCELLED))
    assert passes(play, update)


@pytest.mark.parametrize(
    "message",
    [
        permission(0, "1"),
        result_of(1, {"stopReason": "end_turn"}),
        error_of(1, -32603),
        chunk("hello", "unknown"),
        notification("$/cancel_request", {"requestId": 1}),
        request(1, "fs/write_text_file", {"sessionId": "s", "path": "/a", "content": ""}),
        [chunk("hello")],
        line_of(chunk("hello")).rstrip(),
        line_of(chunk("half a character \ud800")),
        b"not json\n",
    ],
)
def test_nothing_else_passes_before_it_is_looked_at(message: Any) -> None:
    play = Play().start()
    play.prompt(1)
    assert not passes(play, line_of(message))


def test_what_passes_unguarded_is_not_looked_at_later_either() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(request("again", "initialize", {"protocolVersion": 2}))
    play.agent(result_of("again", {"protocolVersion": 2}))
    assert play.proxy.look_later(line_of(chunk("x"))) is None


def test_what_is_found_after_a_line_has_passed_follows_it() -> None:
    first, later = Play().start(), Play().start()
    for play in (first, later):
        play.prompt(1)
        for _ in range(CALLS_TO_HALT - 1):
            play.call()
    line = line_of(session_update("s", "tool_call", toolCallId="x", name="look", rawInput={"path": "a"}))
    at_once, look = first.proxy.from_agent(line, 0.0), later.proxy.look_later(line)
    assert at_once is not None
    assert look is not None
    after = look(0.0)
    assert after is not None
    assert [line, *after.to_client] == at_once.to_client
    assert after.to_agent == at_once.to_agent != []


def test_an_error_of_our_own_after_a_line_has_passed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play().start()
    look = play.proxy.look_later(line_of(chunk("hello")))
    monkeypatch.setattr(play.sessions["s"], "update", None)
    assert look is not None
    assert look(0.0) is None
    assert "an error of its own" in play.proxy.said[0]
    play.proxy.said.clear()
