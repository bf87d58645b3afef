"""In-band control: from the client's side only, and never forwarded."""

from typing import Any

import msgspec
import pytest

from tests.acp.play import Play, notification, request, result_of
from turnguard.acp.control import METHODS, ProxyStatus

STATUS = "_turnguard/status"


def ask(play: Play, method: str, params: Any = None, request_id: Any = "x") -> Any:
    """What the client is answered; nothing goes to the agent."""
    play.forget()
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    play.client(message if params is None else {**message, "params": params})
    assert play.at_agent == []
    (answer,) = play.answers_to(request_id)
    return answer


def test_status_says_who_guards_what_and_how_well() -> None:
    play = Play(agent="gemini-cli").start("s", "other")
    play.prompt(1)
    play.call()
    status = ask(play, STATUS)["result"]
    msgspec.convert(status, ProxyStatus)
    assert status["version"] == "1.2.3"
    assert status["guarding"] is True
    assert (status["agent"], status["agentVersion"], status["table"]) == ("gemini-cli", "9", "gemini")
    assert (status["onLoop"], status["stopAs"]) == ("halt", "max_turn_requests")
    assert (status["unread"], status["faults"]) == (0, 0)
    assert [session["sessionId"] for session in status["sessions"]] == ["s", "other"]
    assert status["sessions"][0]["guard"]["totals"]["toolCalls"] == 1


def test_status_says_what_the_fidelity_of_the_calls_was() -> None:
    play = Play().start()
    play.prompt(1)
    play.call()
    fidelity = ask(play, STATUS, {"sessionId": "s"})["result"]["sessions"][0]["fidelity"]
    assert fidelity["full"] == 1


def test_status_follows_a_session() -> None:
    play = Play(on_loop="halt", grace=1).start()
    states = [ask(play, STATUS)["result"]["sessions"][0]["state"]]
    play.prompt(1)
    states.append(ask(play, STATUS)["result"]["sessions"][0]["state"])
    play.loop()
    states.append(ask(play, STATUS)["result"]["sessions"][0]["state"])
    play.wait(1)
    states.append(ask(play, STATUS)["result"]["sessions"][0]["state"])
    play.agent(result_of(1, {"stopReason": "cancelled"}))
    states.append(ask(play, STATUS)["result"]["sessions"][0]["state"])
    assert states == ["idle", "running", "stopping", "zombie", "idle"]


def test_status_says_that_a_person_is_asked() -> None:
    play = Play(on_loop="ask").halted(1)
    assert ask(play, STATUS)["result"]["sessions"][0]["state"] == "asking"


def test_status_before_the_handshake() -> None:
    assert ask(Play(), STATUS)["result"]["guarding"] is False


@pytest.mark.parametrize("request_id", [0, "0", 7, None])
def test_the_id_comes_back_as_it_was(request_id: Any) -> None:
    assert "result" in ask(Play().start(), STATUS, request_id=request_id)


def test_settings_of_a_session_and_of_one_that_would_be_opened() -> None:
    play = Play().start()
    for params in ({"sessionId": "s"}, {}, None):
        values = ask(play, "_turnguard/settings", params)["result"]["values"]
        assert "turnguard.progress.action" in {value["name"] for value in values}


def test_override_stops_guarding_and_starts_again() -> None:
    play = Play().start()
    play.prompt(1)
    assert ask(play, "_turnguard/override", {"sessionId": "s", "action": "disable"})["result"]["state"] == "disabled"
    play.loop()
    assert not play.cancels()
    ask(play, "_turnguard/override", {"sessionId": "s", "action": "enable"})
    play.loop()
    assert play.cancels() == 1


def test_override_raises_a_cap() -> None:
    play = Play().start()
    play.prompt(1)
    params = {"sessionId": "s", "action": "raiseCap", "calls": 7}
    assert ask(play, "_turnguard/override", params)["result"]["overrides"] == [{"action": "raiseCap", "calls": 7}]


def test_override_for_another_turn_changes_nothing() -> None:
    play = Play().start()
    play.prompt(1)
    error = ask(play, "_turnguard/override", {"sessionId": "s", "action": "disable", "turnId": "turn-9"})["error"]
    assert error["code"] == -32801
    assert error["data"] == {"turnId": "turn-1"}
    assert play.guards["s"].status().state == "running"


@pytest.mark.parametrize("method", sorted(METHODS))
def test_an_unknown_session(method: str) -> None:
    error = ask(Play().start(), method, {"sessionId": "nobody", "action": "disable"})["error"]
    assert error["code"] == -32004
    assert error["data"] == {"errorKind": "session_not_found", "sessionId": "nobody"}


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        (STATUS, {"sessionId": 1}, "$.params.sessionId"),
        (STATUS, [], "$.params"),
        ("_turnguard/override", {"sessionId": "s"}, "$.params"),
        ("_turnguard/override", {"sessionId": "s", "action": "fly"}, "$.params.action"),
        ("_turnguard/settings", {"sessionId": []}, "$.params.sessionId"),
    ],
)
def test_params_that_do_not_fit(method: str, params: Any, path: str) -> None:
    error = ask(Play().start(), method, params)["error"]
    assert error["code"] == -32602
    assert error["data"]["path"] == path


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_notification_is_neither_answered_nor_forwarded(method: str) -> None:
    play = Play().start()
    play.client(notification(method, {"sessionId": "s", "action": "disable"}))
    assert play.at_agent == []
    assert play.at_client == []
    assert play.guards["s"].status().state == "idle"


def test_the_same_from_the_agent_is_forwarded_and_never_obeyed() -> None:
    play = Play().start()
    play.prompt(1)
    for method in METHODS:
        for message in (request(1, method, {"sessionId": "s", "action": "disable"}), notification(method, {})):
            assert play.agent(message) is None
    assert play.guards["s"].status().state == "running"


def test_other_names_of_ours_from_the_client_are_the_agents() -> None:
    assert Play().start().client(request(1, "_turnguard/unknown", {})) is None


def test_an_override_cannot_take_back_a_halt_that_has_begun() -> None:
    play = Play().halted(1)
    ask(play, "_turnguard/override", {"sessionId": "s", "action": "disable"})
    play.agent(result_of(1, {"stopReason": "cancelled"}))
    assert play.answers_to(1)[0]["result"]["stopReason"] == "max_turn_requests"


def test_a_session_whose_id_holds_half_a_character_can_be_asked_about() -> None:
    play = Play().start("\ud800")
    for params in ({"sessionId": "\ud800"}, {"sessionId": "\udfff"}, {"sessionId": ["\ud800"]}):
        play.client(request("x", "_turnguard/status", params))
    found, unknown, odd = play.answers_to("x")
    assert [session["sessionId"] for session in found["result"]["sessions"]] == ["\ud800"]
    assert (unknown["error"]["code"], odd["error"]["code"]) == (-32004, -32602)
