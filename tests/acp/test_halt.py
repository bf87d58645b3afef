"""How a turn is stopped (T18 to T25, T27 and T28 of acp-proxy.md)."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.acp.play import (
    CALLS_TO_WARNING,
    HALTING,
    OPTIONS,
    Play,
    chunk,
    error_of,
    notification,
    permission,
    prompt,
    request,
    result_of,
    session_update,
)
from turnguard.acp.halt import HALT_WINDOW, HaltMeta, Strikes
from turnguard.acp.options import StopAs
from turnguard_protocol.events import Call, Event, ToolCalls, TurnEnded
from turnguard_protocol.verdicts import Action, Finding, Verdict

CANCELLED = {"stopReason": "cancelled"}
END_TURN = {"stopReason": "end_turn"}
CANCEL_SESSION = notification("session/cancel", {"sessionId": "s"})
PERMISSION_CANCELLED = {"outcome": {"outcome": "cancelled"}}
GRACE = 15
HOLD = 15


def status_of(message: Any) -> Any:
    return message["params"]["update"].get("status")


# --- T18 --------------------------------------------------------------------------------------------------------------


def test_t18_the_client_reads_why_then_sees_the_calls_end_and_then_gets_the_answer() -> None:
    play = Play().start()
    play.prompt(1)
    still_open = play.open_call({"path": "b"})
    play.loop()
    at_halt = len(play.at_client)
    assert "turnguard stopped this turn" in play.texts()[-1]
    play.agent(result_of(1, CANCELLED))
    *closed, answer = play.at_client[at_halt:]
    assert [each["params"]["update"]["toolCallId"] for each in closed] == [still_open, "call 7"]
    assert {status_of(each) for each in closed} == {"failed"}
    assert answer["result"]["stopReason"] == "max_turn_requests"


def test_t18_what_the_agent_answered_besides_is_kept_to_the_byte() -> None:
    play = Play().halted(1)
    line = b'{"result":{"usage":{"n":1.0,"big":12345678901234567890123},"stopReason":"cancelled","_meta":'
    line += b'{"a":"\\u00e4","turnguard":"theirs"}, "x": 1e2},"id":1,"jsonrpc":"2.0","extra":[1.50]}\r\n'
    route = play.agent(line)
    assert route is not None
    answer = route.to_client[-1]
    for kept in (b'"usage":{"n":1.0,"big":12345678901234567890123}', b'"a":"\\u00e4"', b'"x":1e2', b'"extra":[1.50]'):
        assert kept in answer
    assert json.loads(answer)["result"]["_meta"]["turnguard"]["halted"] is True


def test_t18_what_turnguard_says_of_the_halt_is_documented() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, {**CANCELLED, "_meta": {"traceparent": "x"}}))
    meta = play.at_client[-1]["result"]["_meta"]
    assert meta["traceparent"] == "x"
    told = msgspec.convert(meta["turnguard"], HaltMeta)
    assert msgspec.to_builtins(told) == meta["turnguard"]
    assert (told.guard, told.loop_type, told.count) == ("progress", "no_new_evidence", 5)
    assert (told.answered_by, told.agent_stop_reason, told.again) == ("agent", "cancelled", False)
    assert told.tool == "look"


def test_t18_a_message_with_half_a_character_is_rewritten_too() -> None:
    play = Play().halted(1)
    play.agent(b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled","_meta":{"half":"\\ud83d"}}}\n')
    assert play.at_client[-1]["result"]["stopReason"] == "max_turn_requests"
    assert play.at_client[-1]["result"]["_meta"]["half"] == "\ud83d"


def test_the_explanation_is_set_off_by_an_id_only_where_the_agent_gives_ids() -> None:
    plain = Play().halted(1)
    assert "messageId" not in plain.at_client[-1]["params"]["update"]
    assert plain.texts()[-1].startswith("\n\n")
    play = Play().start()
    play.prompt(1)
    play.agent(chunk("hello", messageId="m1"))
    play.loop()
    told = play.at_client[-1]["params"]["update"]
    assert told["messageId"] not in (None, "m1")
    assert told["content"]["text"] == told["content"]["text"].strip()


def test_the_explanation_says_what_repeated_how_often_and_how_to_go_on() -> None:
    text = Play().halted(1).texts()[-1]
    assert '"look"' in text
    assert "5 times" in text
    assert "Send another message to go on" in text
    assert "Setting: turnguard.progress.action." in text


# --- T19 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["cancelled", "end_turn", "refusal", "max_tokens"])
def test_t19_whatever_the_agent_answers_it_is_the_halt(reason: str) -> None:
    play = Play().halted(1)
    play.agent(result_of(1, {"stopReason": reason}))
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert answer["result"]["_meta"]["turnguard"]["agentStopReason"] == reason


def test_t19_an_error_of_the_agent_becomes_the_halt() -> None:
    play = Play().halted(1)
    play.agent(error_of(1, -32603))
    (answer,) = play.answers_to(1)
    assert "error" not in answer
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert answer["result"]["_meta"]["turnguard"]["agentErrorCode"] == -32603


@pytest.mark.parametrize("result", [None, [], "odd", {"_meta": 7}, {"stopReason": 7}])
def test_t19_an_odd_answer_becomes_the_halt(result: Any) -> None:
    play = Play().halted(1)
    play.agent(result_of(1, result))
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "max_turn_requests"


def test_t19_no_answer_within_the_grace_is_answered_by_turnguard() -> None:
    play = Play().halted(1)
    play.wait(GRACE - 0.1)
    assert play.answers_to(1) == []
    play.forget()
    play.wait(0.2)
    assert play.at_agent == [CANCEL_SESSION]
    closed, answer = play.at_client
    assert status_of(closed) == "failed"
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert answer["result"]["_meta"]["turnguard"]["answeredBy"] == "turnguard"


def test_t19_the_grace_can_be_set() -> None:
    play = Play(grace=2.5).halted(1)
    play.wait(2.4)
    assert play.answers_to(1) == []
    play.wait(0.2)
    assert len(play.answers_to(1)) == 1


@pytest.mark.parametrize("answer", [result_of(1, CANCELLED), error_of(1, -32603)])
def test_t19_two_answers_are_one_and_so_is_a_late_one(answer: Any) -> None:
    twice, late = Play().halted(1), Play().halted(1)
    twice.agent(result_of(1, CANCELLED))
    late.wait(GRACE)
    for play in (twice, late):
        assert play.agent(answer) is not None
        play.agent(answer)
        assert len(play.answers_to(1)) == 1


def test_t19_the_agent_ends_before_it_answers() -> None:
    play = Play().halted(1)
    play.forget()
    route = play.proxy.agent_gone(play.now)
    assert route is not None
    closed, answer = map(json.loads, route.to_client)
    assert status_of(closed) == "failed"
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert play.proxy.agent_gone(play.now) is None


def test_the_agent_ends_and_nobody_was_stopped() -> None:
    play = Play().start()
    play.prompt(1)
    assert play.proxy.agent_gone(play.now) is None


NESTED = b"[" * 3_000 + b"]" * 3_000

UNREADABLE_ANSWERS = {
    "NaN": b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled","_meta":{"cost":NaN}}}\n',
    "deep": b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled","_meta":{"x":%b}}}\n' % NESTED,
    "deep, its id behind": b'{"jsonrpc":"2.0","result":{"_meta":{"x":%b,"id":5}},"id":1}\n' % NESTED,
    "deep, half a character": b'{"id":1,"result":{"a":"\\ud800","b":%b}}\n' % (b"[" * 600 + b"]" * 600),
    "byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}\n',
    "a number of 5000 digits": b'{"jsonrpc":"2.0","id":1,"error":{"code":%b,"message":"x"}}\n' % (b"9" * 5_000),
    "no UTF-8": b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled","_meta":{"x":"\xff"}}}\n',
    "broken off": b'{"jsonrpc":"2.0","id":1,"result":{"stopReason":"canc\n',
}


@pytest.mark.parametrize("line", UNREADABLE_ANSWERS.values(), ids=UNREADABLE_ANSWERS)
def test_t19_an_answer_that_cannot_be_read_is_one_answer_all_the_same(line: bytes) -> None:
    play = Play().halted(1)
    play.agent(line)
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert play.proxy.said == []
    play.wait(2 * GRACE)
    assert len(play.answers_to(1)) == 1
    assert len([each for each in play.at_client if "method" not in each]) == 1
    assert play.prompt(2) is not None, "with the note, and at once"
    assert play.at_agent[-1]["id"] == 2


def test_t19_unread_answers_to_others_and_unread_requests_pass() -> None:
    play = Play().halted(1)
    for line in (
        UNREADABLE_ANSWERS["deep"].replace(b'"id":1', b'"id":2'),
        UNREADABLE_ANSWERS["deep"].replace(b'"id":1', b'"id":"1"'),
        UNREADABLE_ANSWERS["deep"].replace(b'"id":1', b'"id":1,"method":"x"'),
    ):
        assert play.agent(line) is None
    assert play.proxy.unread("agent", b'{"jsonrpc":"2.0","method":"x","params":{"result":"', 0) is None
    assert play.proxy.unread("client", b'{"jsonrpc":"2.0","id":1,"result":"', 0) is None


@pytest.mark.parametrize("start", [b'{"jsonrpc":"2.0","id":1,"result":{"x":"', b'{"jsonrpc":"2.0","result":{"x":"'])
def test_t19_an_answer_that_is_too_long_to_be_read_is_replaced(start: bytes) -> None:
    play = Play().halted(1)
    route = play.proxy.unread("agent", start, play.now)
    assert route is not None
    assert json.loads(route.to_client[-1])["result"]["stopReason"] == "max_turn_requests"
    play.wait(2 * GRACE)
    assert play.answers_to(1) == []


def test_t19_whose_answer_a_long_one_is_must_be_certain() -> None:
    play = Play().halted(1)
    play.client(request("other", "_other/method", {}))
    assert play.proxy.unread("agent", b'{"jsonrpc":"2.0","result":{"x":"', play.now) is None


@pytest.mark.parametrize("reused", [{"tool": "a\ud800b"}, {"session": "\ud83d"}, {"meta": "\ud800"}])
def test_t19_half_a_character_anywhere_is_written_back(reused: dict[str, str]) -> None:
    play, session = Play(), reused.get("session", "s")
    play.start(session)
    play.prompt(1, session)
    for number in range(6):
        call = {"toolCallId": f"c{number}", "name": reused.get("tool", "look"), "rawInput": {"a": 1}}
        play.agent(session_update(session, "tool_call", title="t", **call))
        update = {"toolCallId": f"c{number}", "status": "completed", "rawOutput": "x"}
        play.agent(session_update(session, "tool_call_update", **update))
    play.agent(result_of(1, {**CANCELLED, "_meta": {"x": reused.get("meta", "")}}))
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "max_turn_requests"
    assert answer["result"]["_meta"]["x"] == reused.get("meta", "")
    play.client(request(2, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "\ud800"}]}))
    assert len(play.at_agent[-1]["params"]["prompt"]) == 2
    assert play.proxy.said == []


# --- T20 --------------------------------------------------------------------------------------------------------------


def test_t20_open_permissions_are_answered_to_the_agent_and_late_answers_swallowed() -> None:
    play = Play().start()
    play.prompt(1)
    assert play.agent(permission(0, "p1")) is None
    assert play.agent(permission("0", "p2")) is None
    play.forget()
    play.loop()
    assert play.at_agent == [result_of(0, PERMISSION_CANCELLED), result_of("0", PERMISSION_CANCELLED), CANCEL_SESSION]
    cancels = [each["params"]["requestId"] for each in play.at_client if each["method"] == "$/cancel_request"]
    assert cancels == [0, "0"]
    play.forget()
    for request_id in (0, "0"):
        assert play.client(result_of(request_id, {"outcome": {"outcome": "selected", "optionId": "yes"}})) is not None
    assert play.at_agent == []


def test_t20_a_permission_that_the_client_has_answered_is_left_alone() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission(0, "p1"))
    assert play.client(result_of(0, PERMISSION_CANCELLED)) is None
    play.forget()
    play.loop()
    assert play.at_agent == [CANCEL_SESSION]


def test_t20_new_permissions_are_answered_at_once_until_the_turn_has_ended() -> None:
    play = Play().halted(1)
    play.forget()
    play.agent(permission(3, "p1"))
    assert play.at_agent == [result_of(3, PERMISSION_CANCELLED)]
    play.wait(GRACE)
    play.agent(permission(4, "p2"))
    assert play.at_agent[-1] == result_of(4, PERMISSION_CANCELLED)
    assert not [each for each in play.at_client if each.get("method") == "session/request_permission"]
    play.agent(result_of(1, CANCELLED))
    assert play.agent(permission(5, "p3")) is None


def test_t20_a_permission_that_shows_the_loop_is_not_asked_for() -> None:
    play = Play().start()
    play.prompt(1)
    for number in range(5):
        call = {"name": "look", "rawInput": {"path": "a"}}
        play.agent(permission(number, f"p{number}", **call))
        play.client(result_of(number, {"outcome": {"outcome": "selected", "optionId": "yes"}}))
        play.agent(session_update("s", "tool_call_update", toolCallId=f"p{number}", status="completed", rawOutput="x"))
    play.forget()
    play.agent(permission(5, "p5", name="look", rawInput={"path": "a"}))
    assert play.at_agent == [result_of(5, PERMISSION_CANCELLED), CANCEL_SESSION]
    assert [each["params"]["update"]["sessionUpdate"] for each in play.at_client] == ["agent_message_chunk"]
    play.forget()
    play.agent(result_of(1, CANCELLED))
    assert len(play.at_client) == 1, "a call that the client never saw needs no end"


def test_t20_elicitations_are_cancelled() -> None:
    play = Play().start()
    play.prompt(1)
    ask = {"sessionId": "s", "message": "?", "mode": "form"}
    assert play.agent(request(8, "elicitation/create", ask)) is None
    play.forget()
    play.loop()
    assert play.at_agent == [result_of(8, {"action": "cancel"}), CANCEL_SESSION]
    play.forget()
    play.agent(request(9, "elicitation/create", ask))
    assert play.at_agent == [result_of(9, {"action": "cancel"})]
    play.client(result_of(8, {"action": "accept"}))
    assert len(play.at_agent) == 1


def test_t20_what_is_asked_for_no_known_session_is_the_one_sessions_that_is_at_work() -> None:
    play = Play().start("s", "idle")
    play.prompt(1)
    ask = {"message": "?", "mode": "form", "requestId": 1}
    assert play.agent(request(8, "elicitation/create", ask)) is None
    assert play.agent(permission(9, "p", session_id="child")) is None
    play.forget()
    play.loop()
    cancelled = result_of(9, {"outcome": {"outcome": "cancelled"}})
    assert play.at_agent == [result_of(8, {"action": "cancel"}), cancelled, CANCEL_SESSION]
    play.forget()
    play.agent(request(8, "elicitation/create", ask))
    play.agent(permission(9, "p", session_id="child"))
    assert play.at_agent == [result_of(8, {"action": "cancel"}), cancelled]


def test_t20_with_several_sessions_at_work_nobody_knows_whose_it_is() -> None:
    play = Play().start("s", "other")
    play.prompt(1)
    play.prompt(2, "other")
    play.agent(permission(9, "p", session_id="child"))
    play.loop()
    assert play.at_agent[-1:] == [CANCEL_SESSION]
    assert result_of(9, {"outcome": {"outcome": "cancelled"}}) not in play.at_agent


def test_a_halt_is_noted_for_the_log_without_arguments() -> None:
    play = Play().start()
    play.prompt(1)
    play.loop(args={"path": "hunter2"})
    assert play.noted == ['halted: session "s", progress no_new_evidence call, tool "look", count 5']


def test_t20_only_the_first_word_that_a_request_is_cancelled_reaches_the_client() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission(0, "p1"))
    play.loop()
    assert play.agent(notification("$/cancel_request", {"requestId": 0})) is not None
    assert play.agent(notification("$/cancel_request", {"requestId": "0"})) is None
    assert play.agent(notification("$/cancel_request", {"requestId": 1})) is None


def test_t20_permissions_of_other_sessions_stay_open() -> None:
    play = Play().start("s", "other")
    play.prompt(1)
    play.prompt(2, "other")
    play.agent(permission(0, "p1", "other"))
    play.forget()
    play.loop()
    assert play.at_agent == [CANCEL_SESSION]
    assert play.client(result_of(0, PERMISSION_CANCELLED)) is None


def test_t20_an_id_used_again_is_not_granted_by_a_stale_click() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission(0, "p1"))
    play.loop()
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    play.forget()
    play.agent(permission(0, "p2"))
    (asked,) = play.at_client
    assert isinstance(asked["id"], str)
    assert asked["params"]["toolCall"] == {"toolCallId": "p2"}
    yes = result_of(0, {"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert play.client(yes) is not None
    assert play.at_agent == []
    play.client({**yes, "id": asked["id"]})
    assert play.at_agent == [yes]
    assert play.agent(permission(0, "p3")) is None, "the stale answer has come"


def test_t20_an_id_used_again_is_answered_though_the_first_request_never_was() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission("a", "p1"))
    play.loop()
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    play.forget()
    play.agent(request("a", "elicitation/create", {"sessionId": "s", "message": "?"}))
    asked = play.at_client[-1]["id"]
    play.agent(notification("$/cancel_request", {"requestId": "a"}))
    assert play.at_client[-1] == notification("$/cancel_request", {"requestId": asked})
    play.client(result_of(asked, {"action": "accept"}))
    assert play.at_agent == [result_of("a", {"action": "accept"})]


def test_t20_an_id_used_again_is_cancelled_by_the_next_halt_under_the_name_the_client_knows() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(permission(0, "p1"))
    play.loop()
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    play.forget()
    play.agent(permission(0, "p2"))
    asked = play.at_client[-1]["id"]
    play.loop(args={"path": "other"})
    assert notification("$/cancel_request", {"requestId": asked}) in play.at_client
    assert result_of(0, PERMISSION_CANCELLED) in play.at_agent
    play.forget()
    for request_id in (asked, 0):
        play.client(result_of(request_id, {"outcome": {"outcome": "selected", "optionId": "yes"}}))
    assert play.at_agent == []


def test_t20_a_permission_that_cannot_be_read_is_answered_during_a_halt() -> None:
    play = Play().halted(1)
    play.forget()
    deep = b'{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"s","toolCall":'
    play.agent(deep + b'{"toolCallId":"d","rawInput":%b},"options":[]}}\n' % NESTED)
    assert play.at_client == []
    assert play.at_agent == [result_of(9, PERMISSION_CANCELLED)]


# --- T21 --------------------------------------------------------------------------------------------------------------

TERMINAL = {"sessionId": "s", "terminalId": "t"}


def test_t21_files_and_terminals_pass_while_the_agent_stops() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(request(0, "fs/write_text_file", {"sessionId": "s", "path": "/a", "content": ""}))
    play.loop()
    assert play.client(result_of(0, None)) is None
    for number, method in enumerate(["create", "output", "wait_for_exit", "kill", "release"]):
        assert play.agent(request(number, f"terminal/{method}", TERMINAL)) is None
        assert play.client(result_of(number, {})) is None


def test_t21_a_turn_that_the_client_saw_end_starts_nothing_new_but_may_tidy_up() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.forget()
    for number, method in enumerate(["terminal/create", "fs/write_text_file"]):
        play.agent(request(number, method, TERMINAL))
        assert play.at_agent[-1]["error"]["code"] == -32800
    assert play.at_client == []
    for method in ("terminal/kill", "terminal/release", "terminal/output", "fs/read_text_file"):
        assert play.agent(request(5, method, TERMINAL)) is None
    play.agent(result_of(1, CANCELLED))
    assert play.agent(request(6, "terminal/create", TERMINAL)) is None


def test_late_words_are_withheld_and_the_ends_of_shown_calls_are_not() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.forget()
    play.agent(chunk("late"))
    play.agent(session_update("s", "agent_thought_chunk", content={"type": "text", "text": "hm"}))
    play.open_call(call_id="late call")
    play.agent(session_update("s", "tool_call_update", toolCallId="late call", status="completed"))
    play.agent(session_update("s", "tool_call_update", toolCallId="call 6", status="in_progress"))
    assert play.at_client == []
    assert play.agent(session_update("s", "tool_call_update", toolCallId="call 6", status="completed")) is None
    assert play.agent(session_update("s", "usage_update", used=1, size=2)) is None


def test_a_late_call_that_is_over_at_once_is_withheld() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.forget()
    play.agent(session_update("s", "tool_call", toolCallId="late", name="look", status="completed"))
    assert play.at_client == []


def test_the_late_answer_to_an_older_prompt_ends_no_other_turn() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    play.loop()
    play.wait(GRACE)
    play.agent(result_of(1, CANCELLED))
    play.prompt(3)
    assert play.at_agent[-1]["method"] == "session/cancel"
    play.agent(result_of(2, CANCELLED))
    assert play.at_agent[-1]["id"] == 3


def test_words_pass_while_the_agent_stops() -> None:
    play = Play().halted(1)
    assert play.agent(chunk("I was told to stop")) is None
    play.open_call()
    assert len(play.texts()) == 3  # the warning, the explanation, the agent's


@pytest.mark.parametrize("way", ["session/load", "session/resume"])
def test_the_past_of_a_session_passes_though_a_stopped_turn_of_it_never_ended(way: str) -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.client(request("load", way, {"sessionId": "s", "cwd": "/project", "mcpServers": []}))
    for update in (
        chunk("history"),
        session_update("s", "tool_call", toolCallId="past", name="look", title="t"),
        session_update("s", "tool_call_update", toolCallId="past", status="in_progress"),
    ):
        assert play.agent(update) is None
    play.agent(result_of("load", {}))
    play.forget()
    play.agent(chunk("late"))
    assert play.at_client == []


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_session_that_is_closed_has_no_stopped_turn_any_more(method: str) -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.prompt("held")
    play.client(request("close", method, {"sessionId": "s"}))
    play.agent(result_of("close", {}))
    assert len(play.answers_to("close")) == 1
    if method == "session/close":
        assert play.answers_to("held")[0]["result"] == CANCELLED
        assert "s" not in play.sessions
        assert play.proxy.next_tick is None
    else:
        assert play.at_agent[-1]["id"] == "held"
    play.forget()
    play.agent(result_of(1, CANCELLED))
    assert play.at_client == []


def test_a_close_that_is_answered_during_a_halt_ends_it() -> None:
    play = Play().halted(1)
    play.client(request("close", "session/close", {"sessionId": "s"}))
    play.agent(result_of("close", {}))
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "cancelled"
    assert len(play.answers_to("close")) == 1
    assert "s" not in play.sessions
    play.agent(result_of(1, CANCELLED))
    play.wait(2 * GRACE)
    assert len(play.answers_to(1)) == 1


def test_a_close_that_fails_ends_no_halt() -> None:
    play = Play().halted(1)
    play.client(request("close", "session/close", {"sessionId": "s"}))
    assert play.agent(error_of("close", -32603)) is None
    assert play.sessions["s"].state == "stopping"


def test_a_prompt_that_waits_under_an_id_that_was_used_before_is_not_answered_by_the_late_answer() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.prompt(1)
    play.forget()
    play.agent(result_of(1, CANCELLED))
    assert play.at_client == []
    assert play.at_agent[-1]["id"] == 1
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None


# --- T22 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop_as", ["max_turn_requests", "error"])
@pytest.mark.parametrize("cancel", [CANCEL_SESSION, notification("$/cancel_request", {"requestId": 1})])
@pytest.mark.parametrize("answers", [True, False])
def test_t22_a_user_who_cancels_during_the_halt_has_cancelled(stop_as: StopAs, cancel: Any, answers: bool) -> None:
    play = Play(stop_as=stop_as).halted(1)
    assert play.client(cancel) is None
    if answers:
        play.agent(error_of(1, -32603))
    else:
        play.wait(GRACE)
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "cancelled"


def test_t22_a_halt_that_comes_too_late_is_dropped() -> None:
    play = Play().start()
    play.prompt(1)
    for _ in range(5):
        play.call()
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None
    play.forget()
    play.open_call()
    assert play.at_agent == []
    assert play.texts() == []
    assert play.proxy.next_tick is None


def test_t22_the_user_cancels_after_a_later_prompt_was_answered() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.loop()
    play.agent(result_of(2, {"stopReason": "end_turn"}))
    play.client(CANCEL_SESSION)
    play.agent(result_of(1, CANCELLED))
    assert play.answers_to(1)[0]["result"]["stopReason"] == "cancelled"


# --- T23 --------------------------------------------------------------------------------------------------------------


def test_t23_only_the_looping_session_is_stopped() -> None:
    play = Play().start("s", "other")
    play.prompt(1)
    play.prompt(2, "other")
    play.loop()
    assert (play.cancels("s"), play.cancels("other")) == (1, 0)
    assert play.agent(chunk("hello", "other")) is None
    assert play.agent(result_of(2, {"stopReason": "end_turn"})) is None
    play.agent(result_of(1, CANCELLED))
    assert play.answers_to(1)[0]["result"]["stopReason"] == "max_turn_requests"


@pytest.mark.parametrize("first", [1, 2])
def test_t23_of_two_prompts_only_the_halted_one_is_rewritten(first: int) -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.loop()
    for request_id in (first, 3 - first):
        play.agent(result_of(request_id, CANCELLED))
    assert [each["result"]["stopReason"] for each in play.answers_to(1)] == ["max_turn_requests"]
    assert [each["result"] for each in play.answers_to(2)] == [CANCELLED]


@pytest.mark.parametrize("is_fed", [True, False])
def test_t23_the_halt_is_told_in_the_answer_to_the_prompt_that_the_agent_was_at(is_fed: bool) -> None:
    """One that was said in between may have been fed into the turn before it, and is then never answered."""
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(1, {"stopReason": "end_turn"}))
    play.prompt(3)
    play.loop()
    for request_id in (3,) if is_fed else (2, 3):
        play.agent(result_of(request_id, CANCELLED))
    told = {each["id"]: each["result"]["stopReason"] for each in play.at_client if each.get("id") in (2, 3)}
    assert told == ({3: "max_turn_requests"} if is_fed else {2: "max_turn_requests", 3: "cancelled"})
    play.forget()
    play.prompt(4)
    assert [each["id"] for each in play.at_agent] == [4]
    play.loop()
    assert play.cancels() == 1


@pytest.mark.parametrize("text", ["go", "/status"])
def test_t23_a_prompt_that_the_agent_was_seen_at_is_the_one_that_was_halted(text: str) -> None:
    """A command, too, is none that the agent would loop for."""
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(1, {"stopReason": "end_turn"}))
    if text == "go":
        play.call()
    play.prompt(3, text=text)
    play.loop()
    play.agent(result_of(3, CANCELLED))
    play.agent(result_of(2, CANCELLED))
    assert [play.answers_to(each)[0]["result"]["stopReason"] for each in (2, 3)] == ["max_turn_requests", "cancelled"]


def test_t23_a_session_at_another_prompt_is_no_zombie() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.loop()
    play.wait(GRACE)
    assert len(play.answers_to(1)) == 1
    assert play.agent(chunk("the second prompt")) is None
    assert play.agent(result_of(2, {"stopReason": "end_turn"})) is None
    play.agent(result_of(1, CANCELLED))
    assert len(play.answers_to(1)) == 1


# --- T24 --------------------------------------------------------------------------------------------------------------


def test_t24_the_next_prompt_works_and_counts_anew() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    assert TurnEnded("cancelled") in play.guards["s"].events
    play.forget()
    play.prompt(2)
    for _ in range(CALLS_TO_WARNING - 2):
        play.call()
    assert play.guards["s"].status().totals.tool_calls == CALLS_TO_WARNING - 2
    assert play.agent(result_of(2, {"stopReason": "end_turn"})) is None
    assert play.texts() == []


def test_t24_the_model_is_told_once_what_was_stopped_and_no_setting() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    play.forget()
    line = b'{"id":2,"params":{"_meta":{"n":1.0},"prompt":[{"type":"text","text":"\\u00e4"}],"sessionId":"s"},'
    line += b'"method":"session/prompt","jsonrpc":"2.0"}\n'
    route = play.client(line)
    assert route is not None
    assert b'"_meta":{"n":1.0}' in route.to_agent[0]
    assert b'{"type":"text","text":"\\u00e4"}' in route.to_agent[0]
    _, note = play.at_agent[0]["params"]["prompt"]
    assert '"look" has now given this same result 5 times' in note["text"]
    assert "turnguard." not in note["text"]
    assert "etting" not in note["text"]
    play.agent(result_of(2, {"stopReason": "end_turn"}))
    assert play.prompt(3) is None


def test_t24_a_command_takes_no_note_and_the_prompt_after_it_does() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    assert play.prompt(2, text="/compact") is None
    play.agent(result_of(2, {"stopReason": "end_turn"}))
    play.prompt(3)
    assert len(play.at_agent[-1]["params"]["prompt"]) == 2


@pytest.mark.parametrize("blocks", [None, [], {}, "go"])
def test_t24_an_odd_prompt_passes_as_it_is(blocks: Any) -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    assert play.client(request(2, "session/prompt", {"sessionId": "s", "prompt": blocks})) is None


def test_t24_no_note() -> None:
    play = Play(note=False).halted(1)
    play.agent(result_of(1, CANCELLED))
    assert play.prompt(2) is None


def test_t24_a_prompt_waits_for_the_stopped_turn_to_end() -> None:
    play = Play().halted(1)
    play.forget()
    play.prompt(2)
    assert play.at_agent == []
    play.agent(result_of(1, CANCELLED))
    assert [each["id"] for each in play.at_agent] == [2]
    assert play.guards["s"].status().state == "running"


def test_t24_a_prompt_to_a_zombie_waits_for_its_late_answer() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.forget()
    play.prompt(2)
    play.prompt(3)
    assert play.at_agent == []
    play.agent(result_of(1, CANCELLED))
    assert [each["id"] for each in play.at_agent] == [2, 3]
    assert play.answers_to(1) == []


def test_t24_of_two_zombies_each_is_freed_by_its_own_late_answer() -> None:
    play = Play().start("s", "t")
    for request_id, session_id in ((1, "s"), (2, "t")):
        play.prompt(request_id, session_id)
        play.loop(session_id)
    play.wait(GRACE)
    play.prompt(3, "s")
    play.prompt(4, "t")
    play.forget()
    play.agent(result_of(1, CANCELLED))
    assert [each["id"] for each in play.at_agent] == [3]
    play.agent(result_of(2, CANCELLED))
    assert [each["id"] for each in play.at_agent] == [3, 4]


def test_t24_a_zombie_that_does_not_end_gets_the_prompt_in_the_end() -> None:
    play = Play().halted(1)
    play.wait(GRACE)
    play.forget()
    play.prompt(2)
    play.wait(HOLD - 0.1)
    assert play.at_agent == []
    play.wait(0.2)
    assert [each["id"] for each in play.at_agent] == [2]
    assert play.agent(chunk("hello")) is None
    play.agent(result_of(1, CANCELLED))
    assert play.answers_to(1) == []
    assert play.agent(result_of(2, {"stopReason": "end_turn"})) is None


def test_t24_or_the_prompt_fails() -> None:
    play = Play(still_running="fail").halted(1)
    play.wait(GRACE)
    play.forget()
    play.prompt(2)
    play.wait(HOLD)
    assert play.at_agent == []
    (answer,) = play.answers_to(2)
    assert answer["error"]["code"] == -32603
    assert answer["error"]["data"]["code"] == "TURN_STILL_RUNNING"
    play.agent(result_of(1, CANCELLED))
    play.prompt(3)
    assert [each["id"] for each in play.at_agent] == [3]


@pytest.mark.parametrize(
    ("cancel", "is_forwarded"), [(CANCEL_SESSION, True), (notification("$/cancel_request", {"requestId": 2}), False)]
)
def test_t24_a_prompt_that_waits_can_be_cancelled(cancel: Any, is_forwarded: bool) -> None:
    play = Play().halted(1)
    play.prompt(2)
    play.forget()
    play.client(cancel)
    assert play.answers_to(2) == [result_of(2, CANCELLED)]
    assert play.at_agent == [cancel] * is_forwarded
    play.forget()
    play.agent(result_of(1, CANCELLED))
    assert play.at_agent == []


def test_t24_kill_after() -> None:
    play = Play(kill_after=30).halted(1, "s", "other")
    play.prompt(2, "other")
    play.client(request(3, "session/set_mode", {}))
    play.wait(GRACE + 29)
    assert play.kills == 0
    play.prompt(4)
    play.forget()
    play.wait(2)
    assert play.kills == 1
    assert {each["id"]: each["error"]["code"] for each in play.at_client} == {2: -32603, 3: -32603, 4: -32603}
    play.agent(result_of(2, {"stopReason": "end_turn"}))
    play.client(request(5, "session/set_mode", {}))
    route = play.proxy.agent_gone(play.now)
    assert route is not None
    assert [json.loads(line)["id"] for line in route.to_client] == [5]
    assert len(play.answers_to(2)) == 1


def test_t24_nothing_is_killed_by_default_or_when_the_turn_ends_in_time() -> None:
    plain, ended = Play().halted(1), Play(kill_after=30).halted(1)
    for play in (plain, ended):
        play.wait(GRACE + 1)
    ended.agent(result_of(1, CANCELLED))
    for play in (plain, ended):
        play.wait(1000)
        assert play.kills == 0


# --- T25 --------------------------------------------------------------------------------------------------------------


def test_t25_as_cancelled() -> None:
    play = Play(stop_as="cancelled").halted(1)
    play.agent(result_of(1, {"stopReason": "end_turn"}))
    (answer,) = play.answers_to(1)
    assert answer["result"]["stopReason"] == "cancelled"
    assert answer["result"]["_meta"]["turnguard"]["agentStopReason"] == "end_turn"


@pytest.mark.parametrize("answers", [True, False])
def test_t25_as_an_error(answers: bool) -> None:
    play = Play(stop_as="error").halted(1)
    if answers:
        play.agent(result_of(1, CANCELLED))
    else:
        play.wait(GRACE)
    (answer,) = play.answers_to(1)
    assert "result" not in answer
    assert answer["error"]["code"] == -32603
    data = answer["error"]["data"]
    assert (data["code"], data["errorKind"], data["loopType"]) == ("LOOP_DETECTED", "loop_detected", "no_new_evidence")
    assert data["error"] in play.texts()[-1]
    assert data["_meta"]["turnguard"]["answeredBy"] == ("agent" if answers else "turnguard")


@pytest.mark.parametrize("stop_as", ["max_turn_requests", "cancelled", "error"])
def test_t25_no_call_is_ever_told_to_be_cancelled(stop_as: StopAs) -> None:
    play = Play(stop_as=stop_as).halted(1)
    play.agent(result_of(1, CANCELLED))
    statuses = {status_of(each) for each in play.at_client if each.get("method") == "session/update"}
    assert statuses == {None, "in_progress", "completed", "failed"}


# --- T27 --------------------------------------------------------------------------------------------------------------


def test_t27_two_calls_in_turn_are_a_loop() -> None:
    play = Play().start()
    play.prompt(1)
    made = 0
    while not play.cancels() and made < 20:
        play.call({"path": "ab"[made % 2]}, output="ab"[made % 2])
        made += 1
    assert made == 9


def test_t27_a_cap_of_the_user_holds_whatever_the_calls() -> None:
    settings = msgspec.structs.replace(HALTING, max_tool_calls_per_turn=5, is_cap_explicit=True)
    play = Play(settings=settings).start()
    play.prompt(1)
    for number in range(5):
        play.call({"n": number}, output=number)
    assert not play.cancels()
    play.open_call({"n": 6})
    assert play.cancels() == 1
    assert "the turn came to 6 tool calls, and the cap that was set is 5" in play.texts()[-1]


def test_t27_a_productive_turn_is_never_touched() -> None:
    play = Play().start()
    play.prompt(1)
    for number in range(300):
        play.call({"n": number}, output=number)
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None
    assert len(play.at_client) == 601


# --- T28 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop_as", ["max_turn_requests", "error"])
def test_t28_a_driver_that_goes_on_by_itself_is_told_cancelled_the_second_time(stop_as: StopAs) -> None:
    play = Play(stop_as=stop_as).start()
    for number in (1, 2):
        play.prompt(number)
        play.loop()
        play.agent(result_of(number, CANCELLED))
    first, second = play.answers_to(1)[0], play.answers_to(2)[0]
    assert first.get("result", {}).get("stopReason") != "cancelled"
    assert second["result"]["stopReason"] == "cancelled"
    assert second["result"]["_meta"]["turnguard"]["again"] is True
    assert "ends as cancelled" in play.texts()[-1]


@pytest.mark.parametrize("between", range(5))
def test_t28_strikes_are_forgotten_after_three_turns(between: int) -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    for number in range(between):
        play.prompt(f"status {number}", text="/status")
        play.agent(result_of(f"status {number}", END_TURN))
        play.prompt(100 + number)
        play.call({"path": f"{number}"})
        play.agent(result_of(100 + number, END_TURN))
    play.prompt(2)
    play.loop()
    play.agent(result_of(2, CANCELLED))
    is_again = between + 1 <= HALT_WINDOW
    assert play.answers_to(2)[0]["result"]["stopReason"] == ("cancelled" if is_again else "max_turn_requests")


def test_t28_prompts_for_which_nothing_is_done_do_not_make_strikes_forgotten() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    for number in range(10, 20):
        play.prompt(number, text="/status")
        play.agent(chunk("All is well."))
        play.agent(result_of(number, END_TURN))
    play.prompt(2)
    play.loop()
    play.agent(result_of(2, CANCELLED))
    assert play.answers_to(2)[0]["result"]["stopReason"] == "cancelled"


def test_t28_turns_without_calls_count_where_the_model_did_something() -> None:
    play = Play(settings=msgspec.structs.replace(HALTING, max_steps_per_turn=2), agent="codex").start()
    stops: list[str] = []
    for number, responses in enumerate([3, *[1] * HALT_WINDOW, 3]):
        play.prompt(number)
        for used in range(responses):
            play.agent(session_update("s", "usage_update", used=used, size=9))
        play.agent(result_of(number, END_TURN))
        stops.append(play.answers_to(number)[0]["result"]["stopReason"])
    assert stops == ["max_turn_requests", *["end_turn"] * HALT_WINDOW, "max_turn_requests"]


def test_t28_another_loop_is_another_strike() -> None:
    play = Play().halted(1)
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    play.loop(args={"path": "other"})
    play.agent(result_of(2, CANCELLED))
    assert play.answers_to(2)[0]["result"]["stopReason"] == "max_turn_requests"


def test_t28_without_a_key_the_tool_counts() -> None:
    strikes = Strikes()
    finding = Finding(guard="g", action=Action.HALT, loop_type="l", tool="a", count=1, threshold=1)
    other = msgspec.structs.replace(finding, tool="b")
    assert [strikes.note(1, finding), strikes.note(2, other), strikes.note(3, finding)] == [False, False, True]


# --- blocks and warnings ----------------------------------------------------------------------------------------------


def refuse(events: Sequence[Event], verdict: Verdict) -> None:
    """A guard that refuses every call of `never`."""
    calls = [call for event in events if isinstance(event, ToolCalls) for call in event.calls]
    if any(call.name == "never" for call in calls):
        finding = Finding(
            guard="g", action=Action.BLOCK, loop_type="generic_repeat", tool="never", count=20, threshold=19
        )
        verdict.action, verdict.admitted, verdict.findings = Action.BLOCK, [], [finding]
        verdict.user_message = "Refused: it."


def blocking(**options: Any) -> Play:
    play = Play(**options).start()
    play.guards["s"].change = refuse
    play.prompt(1)
    play.forget()
    return play


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (OPTIONS, {"outcome": "selected", "optionId": "no"}),
        (OPTIONS[:2], {"outcome": "selected", "optionId": "never"}),
        (OPTIONS[:1], {"outcome": "cancelled"}),
        ((), {"outcome": "cancelled"}),
    ],
)
def test_a_refused_call_is_rejected_where_it_asks(options: Any, outcome: Any) -> None:
    play = blocking()
    play.agent(permission(0, "p", options=options, name="never"))
    assert play.at_agent == [result_of(0, {"outcome": outcome})]
    assert [each["method"] for each in play.at_client] == ["session/update"]
    assert "It is refused where the agent asks for permission." in play.texts()[0]


def test_a_call_that_was_refused_at_first_sight_is_rejected_when_it_asks_later() -> None:
    play = blocking()
    play.agent(session_update("s", "tool_call", toolCallId="p", name="never"))
    assert len(play.texts()) == 1
    play.forget()
    play.agent(permission(0, "other", name="look"))
    play.agent(permission(1, "p"))
    assert play.at_agent == [result_of(1, {"outcome": {"outcome": "selected", "optionId": "no"}})]
    play.agent(result_of(1, {"stopReason": "end_turn"}))
    play.prompt(2)
    assert play.agent(permission(2, "p")) is None


def test_a_call_that_was_refused_stays_refused_when_another_prompt_was_answered_in_between() -> None:
    play = blocking()
    play.agent(session_update("s", "tool_call", toolCallId="p", name="never"))
    play.prompt(2, text="/status")
    play.agent(result_of(2, END_TURN))
    play.agent(permission(0, "p"))
    assert play.at_agent[-1] == result_of(0, {"outcome": {"outcome": "selected", "optionId": "no"}})


def test_a_call_that_is_refused_while_it_asks_is_rejected_and_no_other() -> None:
    play = blocking()
    play.agent(permission(0, "p", name="look"))
    play.agent(permission(1, "q", name="look"))
    play.guards["s"].change = lambda events, verdict: refuse([ToolCalls([Call("never")])], verdict)
    play.forget()
    play.agent(session_update("s", "tool_call_update", toolCallId="p", rawInput={"late": "arguments"}))
    assert play.at_agent == [result_of(0, {"outcome": {"outcome": "selected", "optionId": "no"}})]
    assert play.at_client[-1]["method"] == "session/update"
    assert notification("$/cancel_request", {"requestId": 0}) in play.at_client
    assert play.client(result_of(0, PERMISSION_CANCELLED)) is not None
    assert play.client(result_of(1, PERMISSION_CANCELLED)) is None


def test_what_was_refused_is_forgotten_with_a_stopped_turn() -> None:
    play = blocking()
    play.agent(session_update("s", "tool_call", toolCallId="p", name="never"))
    play.guards["s"].change = None
    play.loop()
    play.agent(result_of(1, CANCELLED))
    play.prompt(2)
    assert play.agent(permission(2, "p")) is None


def test_of_two_ways_to_say_no_once_the_first_is_taken() -> None:
    play = blocking()
    options = [{"optionId": "first", "kind": "reject_once"}, {"optionId": "second", "kind": "reject_once"}]
    play.agent(permission(0, "p", options=options, name="never"))
    assert play.at_agent[0]["result"]["outcome"]["optionId"] == "first"


@pytest.mark.parametrize("options", [None, 7, [7], [{}], [{"kind": "reject_once"}], [{"kind": 1, "optionId": 2}]])
def test_odd_options_reject_nothing_and_allow_nothing(options: Any) -> None:
    play = blocking()
    params = {"sessionId": "s", "toolCall": {"toolCallId": "p", "name": "never"}, "options": options}
    play.agent(request(0, "session/request_permission", params))
    assert play.at_agent == [result_of(0, PERMISSION_CANCELLED)]


def test_a_refusal_is_only_told_when_loops_are_only_told() -> None:
    play = blocking(on_loop="warn")
    play.agent(permission(0, "p", name="never"))
    assert play.at_agent == []
    assert play.at_client[0]["method"] == "session/request_permission"
    assert "turnguard only warns here" in play.texts()[0]


def test_a_warning_is_told_once_as_a_short_message_after_the_line_that_showed_it() -> None:
    play = Play().start()
    play.prompt(1)
    for _ in range(CALLS_TO_WARNING):
        play.call()
    (text,) = play.texts()
    assert text.startswith('\n\nturnguard: this turn may be stuck: "look" has now given this same result 4 times')
    assert "If that goes on, it will be stopped." in text
    assert "points" not in text
    assert [status_of(each) for each in play.at_client][-3:] == ["in_progress", None, "completed"]
    assert play.at_agent[-1]["id"] == 1


def test_on_loop_warn_stops_nothing_and_tells_each_once() -> None:
    play = Play(on_loop="warn").start()
    play.prompt(1)
    for _ in range(20):
        play.call()
    assert [message["id"] for message in play.at_agent] == [1]
    warned, halted = play.texts()
    assert "turnguard: this turn may be stuck: " in warned
    assert "will be stopped" not in warned
    assert "turnguard: this turn may be stuck: " in halted
    assert "turnguard only warns here (--on-loop warn), so the turn goes on." in halted
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None


def test_shadow_tells_and_stops_nothing() -> None:
    play = Play(settings=msgspec.structs.replace(HALTING, shadow=True)).start()
    play.prompt(1)
    for _ in range(10):
        play.call()
    assert not play.cancels()
    assert all("turnguard.shadow" in text for text in play.texts())
    assert "Would have stopped" in play.texts()[-1]


def test_notices_are_told_like_a_warning() -> None:
    play = Play().start()
    play.guards["s"].notices = ["A setting was ignored."]
    play.client(prompt(1))
    assert [each["id"] for each in play.at_agent] == [1]
    assert play.texts() == ["\n\nA setting was ignored.\n\n"]
    play.call()
    assert len(play.texts()) == 1


@pytest.mark.parametrize("announced", [True, False, None, "yes"])
def test_clients_that_announce_it_get_notifications_for_findings_and_notices(announced: Any) -> None:
    play = Play().start(capabilities={"_meta": {"turnguard": {"notifications": announced}}})
    play.guards["s"].notices = ["A setting was ignored."]
    play.prompt(1)
    play.loop()
    told = [each for each in play.at_client if str(each.get("method")).startswith("_turnguard/")]
    if announced is not True:
        assert told == []
        assert len(play.texts()) == 3
        return
    notice, warning, halt = told
    assert notice["method"] == "_turnguard/didNotice"
    assert notice["params"] == {"sessionId": "s", "message": "A setting was ignored."}
    assert (warning["params"]["finding"]["action"], halt["params"]["finding"]["action"]) == ("warn", "halt")
    assert {warning["method"], halt["method"]} == {"_turnguard/didDetectLoop"}
    assert halt["params"]["verdict"]["action"] == "halt"
    assert len(play.texts()) == 1, "why the turn was stopped is said in any case"
