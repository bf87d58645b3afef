import json
import logging
import math
from typing import Any

import pytest

from turnguard.framing import FrameReader
from turnguard.service.dispatch import Dispatcher
from turnguard.service.sessions import Notice, Sessions

INITIALIZE = {"processId": None, "rootUri": None, "capabilities": {}}


class Talk:
    """A dispatcher to talk to in messages instead of frames."""

    def __init__(self, *, is_initialized: bool = True) -> None:
        self.dispatcher = Dispatcher(Sessions())
        if is_initialized:
            self.ask("initialize", INITIALIZE)

    def say(self, message: object) -> list[Any]:
        self.dispatcher.handle(message if isinstance(message, bytes) else json.dumps(message).encode())
        reader = FrameReader()
        reader.receive(self.dispatcher.take_frames())
        return [json.loads(body) for body in iter(reader.next_body, None)]

    def ask(self, method: str, params: object = None, request_id: object = 1) -> Any:
        return self.say({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})[0]

    def tell(self, method: str, params: object = None) -> list[Any]:
        return self.say({"jsonrpc": "2.0", "method": method, "params": params})


def fails(answer: Any, code: int) -> Any:
    assert answer["error"]["code"] == code
    assert "result" not in answer
    return answer["error"].get("data")


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.ask("turnguard/openSession", {"sessionId": "s"})
    return talk


def test_pitfall_16_a_number_that_json_lacks_is_null(talk: Talk) -> None:
    talk.dispatcher.handlers["turnguard/status"] = lambda params: {"ratio": math.nan, "limit": math.inf}
    assert talk.ask("turnguard/status", {"sessionId": "s"})["result"] == {"ratio": None, "limit": None}


@pytest.mark.parametrize("fault", ["raises", "raises in a chain", "cannot be encoded"])
def test_pitfall_17_an_internal_fault_leaks_nothing(talk: Talk, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = "hunter2"  # noqa: S105

    def faulty(params: Any) -> Any:
        if fault == "cannot be encoded":
            return {"value": {secret: object()}}
        try:
            raise KeyError(secret)
        except KeyError:
            if fault == "raises":
                raise
            raise RuntimeError(f"{secret} and {params}") from None

    healthy = talk.dispatcher.handlers["turnguard/status"]
    talk.dispatcher.handlers["turnguard/status"] = faulty
    answer, message = talk.say({"jsonrpc": "2.0", "id": 7, "method": "turnguard/status", "params": {"sessionId": "s"}})
    error_id = fails(answer, -32603)["errorId"]
    assert answer["id"] == 7
    assert message["method"] == "window/logMessage"
    for told in (answer, message):
        assert error_id in json.dumps(told)
        assert secret not in json.dumps(told)
        assert "Traceback" not in json.dumps(told)
        assert ".py" not in json.dumps(told)
    assert error_id in caplog.text
    assert secret not in caplog.text
    assert "dispatch.py" in caplog.text
    talk.dispatcher.handlers["turnguard/status"] = healthy
    assert talk.ask("turnguard/status", {"sessionId": "s"})["result"]["sessionId"] == "s"


def test_pitfall_17_a_fault_while_telling_changes_is_logged(
    talk: Talk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sessions, "take_changes", lambda self: 1 // 0)
    talk.dispatcher.tell_changes()
    assert talk.dispatcher.take_frames() == b""
    assert "ZeroDivisionError" in caplog.text


def test_pitfall_17_a_notification_that_cannot_be_encoded_costs_itself_only(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions()
    talk.dispatcher._sessions = sessions  # pyright: ignore[reportPrivateUsage]
    broken: Any = {"value": object()}
    sessions.notices = [Notice("x", broken), Notice("y", broken | {"value": 1})]
    answer, told = talk.say({"jsonrpc": "2.0", "id": 7, "method": "turnguard/listSessions"})
    assert answer["result"]["sessions"][0]["sessionId"] == "s"
    assert (told["method"], told["params"]) == ("y", {"value": 1})
    assert "TypeError" in caplog.text


def test_pitfall_17_a_fault_inside_pygls_leaks_nothing(
    talk: Talk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "hunter2"  # noqa: S105

    def faulty(settings: Any, root: str) -> None:
        raise KeyError(secret)

    monkeypatch.setattr(talk.dispatcher._lsp, "_configure", faulty)  # pyright: ignore[reportPrivateUsage]
    assert talk.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": None}}) == []
    assert "KeyError" in caplog.text
    assert secret not in caplog.text
    assert talk.ask("turnguard/status", {"sessionId": "s"})["result"]["state"] == "idle"


def test_pitfall_21_a_handler_is_done_before_the_next_message_and_nothing_is_lost(talk: Talk) -> None:
    """Nothing here waits for a pool: requests are answered in their order, each before the next is begun."""
    order: list[int] = []
    talk.dispatcher.handlers["turnguard/status"] = lambda params: order.append(len(order))
    for n in range(20):
        body = {"jsonrpc": "2.0", "id": n, "method": "turnguard/status", "params": {"sessionId": "s"}}
        talk.dispatcher.handle(json.dumps(body).encode())
        talk.dispatcher.handle(
            json.dumps({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": n}}).encode()
        )
    reader = FrameReader()
    reader.receive(talk.dispatcher.take_frames())
    assert [json.loads(body)["id"] for body in iter(reader.next_body, None)] == list(range(20)) == order


def test_a_request_by_its_notification_form_is_ignored(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert talk.tell("turnguard/record", {"sessionId": "s", "events": [{"type": "turnStarted"}]}) == []
    assert "turnguard/record" in caplog.text
    assert talk.ask("turnguard/status", {"sessionId": "s"})["result"]["state"] == "idle"


def test_nothing_but_exit_is_heard_before_initialize() -> None:
    talk = Talk(is_initialized=False)
    assert talk.tell("$/setTrace", {"value": "verbose"}) == []
    assert talk.tell("exit") == []
    assert talk.dispatcher.exit_code == 1


def test_a_failed_initialize_does_not_count() -> None:
    talk = Talk(is_initialized=False)
    fails(talk.ask("initialize", {**INITIALIZE, "initializationOptions": {"settings": {"modle": {}}}}), -32602)
    fails(talk.ask("turnguard/listSessions"), -32002)
    assert "result" in talk.ask("initialize", INITIALIZE)
    assert talk.ask("turnguard/listSessions")["result"] == {"sessions": []}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({**INITIALIZE, "initializationOptions": {"settings": {"model": {"maxToolCallsPerTurn": "many"}}}},
         "$.initializationOptions.settings.model.maxToolCallsPerTurn"),
        ({**INITIALIZE, "initializationOptions": {"settings": {"modle": {}}}}, "$.initializationOptions.settings"),
        ({**INITIALIZE, "initializationOptions": "fast"}, "$.initializationOptions"),
        ({"processId": None}, "$"),
        ({"processId": "me", "capabilities": {}}, "$.processId"),
        ({"capabilities": {"general": {"positionEncodings": 5}}}, "$.capabilities.general.positionEncodings"),
        (5, "$"),
        (["a"], "$"),
        (None, "$"),
    ],
)  # fmt: skip
def test_initialize_params_that_do_not_fit_are_named(params: object, path: str) -> None:
    data = fails(Talk(is_initialized=False).ask("initialize", params), -32602)
    assert data["path"].startswith(path)
    assert data["message"]


@pytest.mark.parametrize("settings", [None, {}, {"turnguard": None}, {"turnguard": {}}, {"other": 1}, "x", 5, [1]])
def test_a_configuration_that_says_nothing_is_fine(talk: Talk, settings: object) -> None:
    assert talk.tell("workspace/didChangeConfiguration", {"settings": settings}) == []


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"model": {"maxToolCallsPerTurn": "many"}}, "turnguard.model.maxToolCallsPerTurn"),
        ({"modle": {}}, "modle"),
        ([], "turnguard"),
        ({"loopShield": {"enabled": True}}, "turnguard.loopShield.maxConsecutiveTools"),
        ({"turnguard": {"turnGuard": "both"}}, "turnguard.turnguard.turnGuard"),
    ],
)
def test_a_bad_configuration_is_shown_and_changes_nothing(talk: Talk, settings: object, word: str) -> None:
    talk.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": {"model": {"maxToolCallsPerTurn": 7}}}})
    (shown,) = talk.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": settings}})
    assert shown["method"] == "window/showMessage"
    assert word in shown["params"]["message"]
    assert talk.ask("turnguard/settings")["result"]["values"][0] == {
        "name": "model.maxToolCallsPerTurn",
        "value": 7,
        "origin": "client",
    }


def test_what_lsp_says_of_other_notifications(talk: Talk) -> None:
    for method in (
        "initialized",
        "$/setTrace",
        "textDocument/didOpen",
        "$/unknown",
        "x",
        "workspace/didChangeWorkspaceFolders",
    ):
        for params in (None, {}, {"value": "off"}, {"value": "loud"}, [], 5):
            assert talk.tell(method, params) == []


def test_pygls_logs_nothing_of_what_it_is_given(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    talk.tell("$/setTrace", {"value": "hunter2"})
    talk.ask("shutdown", {"hunter2": 1})
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("params", [None, [], 5, {}, {"id": []}, {"id": {}}, {"id": None}, {"id": [None]}, {"id": 1}])
def test_a_cancel_is_ignored_whatever_it_says(talk: Talk, params: object, caplog: pytest.LogCaptureFixture) -> None:
    talk.tell("initialized", {})
    assert talk.tell("$/cancelRequest", params) == []
    assert caplog.text == ""


@pytest.mark.parametrize("member", [{"error": {"code": 1, "message": "x"}}, {"error": None}, {"result": 1}, {"x": 1}])
@pytest.mark.parametrize("method", ["initialize", "turnguard/listSessions", "shutdown", "unknown"])
def test_a_message_with_a_method_is_a_request_whatever_else_it_has(method: str, member: dict[str, object]) -> None:
    talk = Talk(is_initialized=method != "initialize")
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": INITIALIZE}
    assert [answer["id"] for answer in talk.say({**request, **member})] == [7]


@pytest.mark.parametrize(
    "params",
    [
        {"rootUri": "http://["},
        {"rootUri": "\ud800", "rootPath": "\x00"},
        {"rootUri": 5, "rootPath": []},
        {"workspaceFolders": [{"uri": "file://[", "name": "x"}]},
        {"clientInfo": 5, "trace": "loud", "locale": []},
    ],
)
def test_what_initialize_is_told_and_nobody_uses_does_not_matter(
    params: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk(is_initialized=False)
    assert "result" in talk.ask("initialize", {**INITIALIZE, **params})
    assert talk.ask("turnguard/listSessions")["result"] == {"sessions": []}
    assert caplog.text == ""


@pytest.mark.parametrize("process_id", [2**31, -(2**31) - 1, 2**40, 2**64, 10**500, 1e400, 1.5, True])
def test_a_processid_that_is_none_is_refused(process_id: object, caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk(is_initialized=False)
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**INITIALIZE, "processId": "PID"}}
    text = json.dumps(body).replace('"PID"', json.dumps(process_id).replace("Infinity", "1e400"))
    (answer,) = talk.say(text.encode())
    assert fails(answer, -32602)["path"] == "$.processId"
    assert talk.dispatcher.client_process is None
    assert "result" in talk.ask("initialize", INITIALIZE)
    assert caplog.text == ""


@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"])
@pytest.mark.parametrize("field", ["args", "name", "unknown"])
def test_what_is_not_utf8_is_no_message(talk: Talk, field: str, wrong: bytes) -> None:
    call = b'{"name":"t","%b":"%b"}'.replace(b'"name":"t",', b"" if field == "name" else b'"name":"t",')
    params = b'{"sessionId":"s","events":[{"type":"toolCalls","calls":[%b]}]}' % (call % (field.encode(), wrong))
    (answer,) = talk.say(b'{"jsonrpc":"2.0","id":1,"method":"turnguard/record","params":%b}' % params)
    fails(answer, -32700)
    assert answer["id"] is None
    assert talk.ask("turnguard/status", {"sessionId": "s"})["result"]["totals"]["toolCalls"] == 0


def test_a_processid_is_known_once_initialize_was_answered() -> None:
    talk = Talk(is_initialized=False)
    assert talk.dispatcher.client_process is None
    talk.ask("initialize", {**INITIALIZE, "processId": 4711})
    assert talk.dispatcher.client_process == 4711
