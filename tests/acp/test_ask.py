"""`--on-loop ask`: the person is asked in the client's own permission dialog."""

from typing import Any

import msgspec
import pytest

from tests.acp.play import HALTING, Play, error_of, notification, request, result_of, session_update
from turnguard.acp.ask import OPTIONS

CANCEL_SESSION = notification("session/cancel", {"sessionId": "s"})


def asked(**options: Any) -> tuple[Play, dict[str, Any]]:
    """A session in which the question is open, and the question."""
    play = Play(on_loop="ask", **options).halted(1)
    return play, question(play)


def question(play: Play) -> dict[str, Any]:
    asked = [each for each in play.at_client if each.get("method") == "session/request_permission"]
    return asked[-1]


def choose(play: Play, option: str, request_id: Any = None) -> None:
    outcome = {"outcome": {"outcome": "selected", "optionId": option}}
    play.client(result_of(request_id or question(play)["id"], outcome))


def card(play: Play, request_id: str) -> list[str]:
    """The statuses that the call of the question was shown with after it was asked."""
    updates = [each["params"]["update"] for each in play.at_client if each.get("method") == "session/update"]
    return [update["status"] for update in updates if update.get("toolCallId") == request_id]


def test_the_question_says_what_repeats_and_what_can_be_done() -> None:
    play, asked_for = asked()
    assert asked_for["id"].startswith("turnguard:")
    params = asked_for["params"]
    assert params["sessionId"] == "s"
    assert [option["name"] for option in params["options"]] == [
        "Stop",
        "Continue once",
        "Stop guarding this session",
    ]
    assert {option["kind"] for option in params["options"]} == {"reject_once", "allow_once", "allow_always"}
    (content,) = params["toolCall"]["content"]
    assert '"look" has now given this same result 5 times' in content["content"]["text"]
    assert "within 60 seconds" in content["content"]["text"]
    assert params["toolCall"]["title"]
    assert not play.cancels()


def test_the_agent_goes_on_meanwhile_and_nothing_is_asked_twice() -> None:
    play, _ = asked()
    play.forget()
    for _ in range(10):
        play.call()
    assert len(play.at_client) == 20
    assert play.at_agent == []


def test_stop() -> None:
    play, asked_for = asked()
    play.forget()
    choose(play, "stop", asked_for["id"])
    assert play.at_agent == [CANCEL_SESSION]
    assert card(play, asked_for["id"]) == ["failed"]
    assert "You chose to stop it." in play.texts()[-1]
    play.agent(result_of(1, {"stopReason": "cancelled"}))
    assert play.answers_to(1)[0]["result"]["stopReason"] == "max_turn_requests"


def test_no_answer_within_a_minute_means_stop() -> None:
    play, asked_for = asked()
    play.forget()
    play.wait(59.9)
    assert play.at_client == []
    play.wait(0.2)
    assert play.at_agent == [CANCEL_SESSION]
    assert play.at_client[0] == notification("$/cancel_request", {"requestId": asked_for["id"]})
    assert card(play, asked_for["id"]) == ["failed"]
    assert "was not answered" in play.texts()[-1]
    play.forget()
    choose(play, "continueOnce", asked_for["id"])
    assert play.at_agent == []
    assert play.at_client == []


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "selected", "optionId": "something else"}},
        {"outcome": {"outcome": "odd", "optionId": "continueOnce"}},
        {"outcome": {"outcome": "selected", "optionId": 7}},
        {"outcome": None},
        None,
    ],
)
def test_an_answer_that_is_no_choice_means_stop(answer: Any) -> None:
    play, asked_for = asked()
    play.client(result_of(asked_for["id"], answer))
    assert play.cancels() == 1


def test_a_client_that_cannot_ask_means_stop() -> None:
    play, asked_for = asked()
    play.client(error_of(asked_for["id"], -32601))
    assert play.cancels() == 1


def test_continue_once_lets_the_turn_go_on_until_it_is_stuck_again() -> None:
    play, asked_for = asked()
    play.forget()
    choose(play, "continueOnce", asked_for["id"])
    assert card(play, asked_for["id"]) == ["completed"]
    assert play.at_agent == []
    for _ in range(4):
        play.call()
    assert play.guards["s"].status().state == "running"
    play.loop()
    assert question(play)["id"] != asked_for["id"]
    assert not play.cancels()


CAPPED = msgspec.structs.replace(HALTING, max_tool_calls_per_turn=10, is_cap_explicit=True)


def text_of(asked_for: dict[str, Any]) -> str:
    (content,) = asked_for["params"]["toolCall"]["content"]
    return content["content"]["text"]


def capped() -> Play:
    """A session in which the question about a cap of 10 calls is open."""
    play = Play(on_loop="ask", settings=CAPPED).start()
    play.prompt(1)
    for number in range(11):
        play.call({"path": str(number)}, output=str(number))
    return play


def test_past_a_cap_it_can_be_raised_and_that_comes_first() -> None:
    asked_for = question(capped())
    names = [option["name"] for option in asked_for["params"]["options"]]
    assert names == ["Raise the cap", "Continue once", "Stop", "Stop guarding this session"]
    assert text_of(asked_for).startswith("This turn came to your cap of 10 tool calls: it has made 11. Go on?")


def test_a_cap_that_was_let_pass_once_is_still_the_one_that_was_set() -> None:
    play = capped()
    choose(play, "continueOnce")
    while len([each for each in play.at_client if each.get("method") == "session/request_permission"]) == 1:
        number = play.sessions["s"].turns.guard.status().totals.tool_calls
        play.call({"path": str(number)}, output=str(number))
    assert "your cap of 10 tool calls" in text_of(question(play))
    choose(play, "stop")
    assert "the cap that was set is 10" in play.texts()[-1]


def test_raise_the_cap() -> None:
    play = capped()
    choose(play, "raiseCap")
    for number in range(11, 16):
        play.call({"path": str(number)}, output=str(number))
    assert play.sessions["s"].state == "running"


def test_what_is_not_offered_cannot_be_chosen() -> None:
    play, asked_for = asked()
    choose(play, "raiseCap", asked_for["id"])
    assert play.cancels() == 1


def test_stop_guarding_this_session() -> None:
    play, asked_for = asked()
    choose(play, "disable", asked_for["id"])
    play.forget()
    for _ in range(50):
        play.call()
    assert len(play.at_client) == 100
    assert play.agent(result_of(1, {"stopReason": "end_turn"})) is None
    play.prompt(2)
    play.loop()
    assert not play.cancels()


@pytest.mark.parametrize("answer", [result_of(1, {"stopReason": "end_turn"}), error_of(1, -32603)])
def test_the_turn_ends_before_there_is_an_answer(answer: Any) -> None:
    play, asked_for = asked()
    play.forget()
    play.agent(answer)
    assert play.at_client[0] == notification("$/cancel_request", {"requestId": asked_for["id"]})
    assert card(play, asked_for["id"]) == ["failed"]
    assert play.at_client[-1] == answer
    play.forget()
    choose(play, "stop", asked_for["id"])
    play.wait(100)
    assert play.at_agent == []
    assert play.at_client == []


def test_the_user_cancels_while_the_question_is_open() -> None:
    play, asked_for = asked()
    play.forget()
    play.client(CANCEL_SESSION)
    assert play.at_agent == [CANCEL_SESSION]
    assert card(play, asked_for["id"]) == ["failed"]
    play.client(result_of(asked_for["id"], {"outcome": {"outcome": "cancelled"}}))
    assert play.at_agent == [CANCEL_SESSION]
    assert play.agent(result_of(1, {"stopReason": "cancelled"})) is None


def test_another_prompt_that_is_queued_leaves_the_question_open() -> None:
    play, asked_for = asked()
    play.prompt(2)
    play.agent(error_of(2, -32603))
    assert card(play, asked_for["id"]) == []
    choose(play, "stop", asked_for["id"])
    assert play.cancels() == 1


def test_a_later_prompt_that_is_answered_takes_the_question_with_it() -> None:
    play, asked_for = asked()
    play.prompt(2)
    play.agent(result_of(2, {"stopReason": "end_turn"}))
    assert card(play, asked_for["id"]) == ["failed"]


def test_a_late_answer_is_none_to_another_question() -> None:
    play, first = asked()
    play.agent(result_of(1, {"stopReason": "end_turn"}))
    play.prompt(2)
    play.loop()
    assert question(play)["id"] != first["id"]
    play.forget()
    choose(play, "stop", first["id"])
    assert play.at_agent == []
    assert play.at_client == []


def test_what_is_asked_about_is_notified_once() -> None:
    capabilities = {"_meta": {"turnguard": {"notifications": True}}}
    play = Play(on_loop="ask").halted(1, capabilities=capabilities)
    choose(play, "stop")
    told = [each["params"] for each in play.at_client if each.get("method") == "_turnguard/didDetectLoop"]
    assert [each["finding"]["action"] for each in told] == ["warn", "halt"]


def test_an_override_answers_the_question() -> None:
    play, asked_for = asked()
    play.forget()
    play.client(request("x", "_turnguard/override", {"sessionId": "s", "action": "continueOnce"}))
    assert card(play, asked_for["id"]) == ["completed"]
    assert play.at_agent == []
    play.wait(100)
    assert not play.cancels()


def test_an_override_of_another_session_does_not() -> None:
    play = Play(on_loop="ask").halted(1, "s", "other")
    asked_for = question(play)
    play.prompt(2, "other")
    play.client(request("x", "_turnguard/override", {"sessionId": "other", "action": "continueOnce"}))
    assert card(play, asked_for["id"]) == []


def test_an_id_of_the_agents_that_looks_like_ours_is_the_agents() -> None:
    play, asked_for = asked()
    other = "turnguard:" + "theirs"
    assert other != asked_for["id"]
    play.agent(request(other, "session/request_permission", {"sessionId": "s", "toolCall": {"toolCallId": "c"}}))
    assert play.client(result_of(other, {"outcome": {"outcome": "cancelled"}})) is None


def test_every_choice_but_to_stop_is_an_override() -> None:
    assert list(OPTIONS) == ["stop", "continueOnce", "raiseCap", "disable"]


@pytest.mark.parametrize("way", ["in the dialog", "by the client's own request"])
def test_what_a_call_turns_out_to_be_while_the_question_is_open_counts_when_the_turn_goes_on(way: str) -> None:
    play = Play(on_loop="ask").start()
    play.prompt(1)
    play.agent(session_update("s", "tool_call", toolCallId="late", title="Looking", name="look", status="pending"))
    play.loop()
    before = play.guards["s"].status().totals
    play.agent(session_update("s", "tool_call_update", toolCallId="late", rawInput={"path": "b"}))
    assert play.guards["s"].status().totals == before
    if way == "in the dialog":
        choose(play, "continueOnce")
    else:
        play.client(request("o", "_turnguard/override", {"sessionId": "s", "action": "continueOnce"}))
    after = play.guards["s"].status().totals
    assert (after.tool_calls, after.distinct_keys) == (before.tool_calls, before.distinct_keys + 1)
