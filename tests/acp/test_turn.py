"""When a turn begins and ends, and what of the traffic belongs to it (T16, T17 and the like of acp-proxy.md)."""

from typing import Any

import msgspec
import pytest

from tests.acp.play import (
    CALLS_TO_HALT,
    HALTING,
    Guard,
    Play,
    chunk,
    error_of,
    notification,
    permission,
    request,
    result_of,
    session_update,
)
from turnguard.acp.replay import MAX_SHOWN
from turnguard_protocol.events import CallRekeyed, Outcomes, Text, ToolResults, TurnEnded, TurnStarted, UserInput

END_TURN = {"stopReason": "end_turn"}


def loading(request_id: Any, method: str = "session/load", session_id: str = "s") -> dict[str, Any]:
    return request(request_id, method, {"sessionId": session_id, "cwd": "/project", "mcpServers": []})


def turns_of(guard: Guard) -> list[str]:
    """The origins of the turns that began, and the outcomes of those that ended."""
    told = [event for event in guard.events if isinstance(event, TurnStarted | TurnEnded)]
    return [event.origin if isinstance(event, TurnStarted) else event.outcome for event in told]


def calls(play: Play, session_id: str = "s") -> int:
    """The calls of the turn at hand."""
    return play.guards[session_id].status().totals.tool_calls


def told_again_as_a_user(session_id: str = "s") -> dict[str, Any]:
    """What a past begins with."""
    return session_update(session_id, "user_message_chunk", content={"type": "text", "text": "go"})


def replayed(play: Play, count: int, session_id: str = "s", prefix: str = "old") -> None:
    play.agent(told_again_as_a_user(session_id))
    for number in range(count):
        play.call(session_id=session_id, call_id=f"{prefix} {number}")


def told_again(play: Play, count: int, session_id: str = "s", prefix: str = "old") -> None:
    """Updates of calls that were replayed."""
    for number in range(count):
        update = {"toolCallId": f"{prefix} {number}", "status": "completed", "rawOutput": "same"}
        play.agent(session_update(session_id, "tool_call_update", **update))


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_t16_t17_a_replayed_loop_is_no_loop_and_the_live_count_starts_at_none(method: str) -> None:
    play = Play().start("other")
    play.client(loading("l", method))
    replayed(play, 50)
    play.agent(result_of("l", {}))
    assert not play.cancels()
    play.prompt(1)
    assert calls(play) == 0
    for count in range(1, CALLS_TO_HALT):
        play.call()
        assert calls(play) == count
    play.open_call()
    assert play.cancels() == 1


def test_t16_a_replayed_call_is_not_counted_when_it_is_updated_in_a_turn() -> None:
    play = Play().start("other")
    play.client(loading("l"))
    replayed(play, 3)
    play.agent(result_of("l", {}))
    play.prompt(1)
    told_again(play, 3)
    assert calls(play) == 0
    play.call()
    assert calls(play) == 1


def test_t17_what_is_replayed_while_a_prompt_is_open_is_history_too() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(loading("l"))
    replayed(play, 50)
    assert calls(play) == 0
    play.agent(result_of("l", {}))
    play.call()
    assert calls(play) == 1


def test_t17_a_load_that_fails_closes_its_window_too() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(loading("l"))
    play.agent(error_of("l", -32603))
    play.loop()
    assert play.cancels() == 1


def test_t17_a_fork_is_a_session_of_its_own_whose_replay_is_history() -> None:
    play = Play().start()
    play.client(request("f", "session/fork", {"sessionId": "s", "cwd": "/project"}))
    replayed(play, 50, "forked")
    play.agent(result_of("f", {"sessionId": "forked"}))
    play.prompt(1, "forked")
    told_again(play, 50, "forked")
    assert calls(play, "forked") == 0
    play.loop("forked")
    assert play.cancels("forked") == 1


def test_t17_a_fork_that_is_made_makes_no_further_sessions() -> None:
    play = Play().start()
    play.client(request("f", "session/fork", {"sessionId": "s", "cwd": "/project"}))
    play.agent(result_of("f", {"sessionId": "forked"}))
    play.open_call(session_id="unheard of")
    play.client(request("x", "_turnguard/status", {}))
    assert [each["sessionId"] for each in play.answers_to("x")[0]["result"]["sessions"]] == ["s", "forked"]


def test_t17_one_session_is_loaded_while_another_loops() -> None:
    play = Play().start("live", "loaded")
    play.prompt(1, "live")
    play.client(loading("l", session_id="loaded"))
    for number in range(CALLS_TO_HALT - 1):
        play.call(session_id="loaded", call_id=f"old {number}")
        play.call(session_id="live")
    play.open_call(session_id="loaded")
    assert (play.cancels("loaded"), play.cancels("live")) == (0, 0)
    play.open_call(session_id="live")
    assert (play.cancels("loaded"), play.cancels("live")) == (0, 1)


def test_what_comes_outside_of_any_turn_is_not_counted() -> None:
    play = Play().start()
    play.loop()
    play.agent(permission(7, "background"))
    assert play.guards["s"].events == []
    assert len(play.at_client) == 2 * CALLS_TO_HALT


def test_a_turn_is_a_prompt_to_its_answer() -> None:
    play = Play().start()
    for number, answer in enumerate(
        [result_of(0, END_TURN), result_of(1, {"stopReason": "cancelled"}), error_of(2, 1)]
    ):
        play.prompt(number)
        play.call()
        play.agent(answer)
    assert turns_of(play.guards["s"]) == ["user", "completed", "user", "cancelled", "user", "failed"]


def test_every_turn_counts_anew() -> None:
    play = Play().start()
    for number in range(5):
        play.prompt(number)
        for _ in range(CALLS_TO_HALT - 3):
            play.call()
        play.agent(result_of(number, END_TURN))
    assert not play.cancels()


def test_a_queued_prompt_has_its_turn_when_the_first_is_answered() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    assert isinstance(play.guards["s"].events[-1], UserInput)
    for _ in range(3):
        play.call()
    play.agent(result_of(1, END_TURN))
    assert calls(play) == 0
    play.agent(result_of(2, END_TURN))
    assert turns_of(play.guards["s"]) == ["user", "completed", "user", "completed"]


def test_a_prompt_that_was_fed_into_the_running_turn_is_never_answered_and_holds_nothing_up() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt("fed")
    play.agent(result_of(1, END_TURN))
    for number in range(2, 8):
        play.prompt(number)
        play.call()
        play.call()
        play.agent(result_of(number, END_TURN))
        assert calls(play) == 2
    assert not play.cancels()


@pytest.mark.parametrize("reason", ["end_turn", "cancelled", "refusal"])
def test_a_prompt_that_goes_on_after_a_later_one_was_answered_is_guarded(reason: str) -> None:
    play = Play().start()
    play.prompt(1)
    play.call()
    play.prompt(2)
    play.agent(result_of(2, {"stopReason": reason}))
    assert play.sessions["s"].state == "idle"
    for count in range(2, CALLS_TO_HALT):
        play.call()
        assert calls(play) == count
    play.open_call()
    assert play.cancels() == 1
    play.agent(result_of(1, END_TURN))
    assert play.answers_to(1)[0]["result"]["stopReason"] == "max_turn_requests"
    assert turns_of(play.guards["s"]) == ["user", "cancelled"]


STATUS_IN_BETWEEN = {
    "alone": [("ask", 0), ("answer", 0)],
    "one after another": [("ask", 0), ("answer", 0), ("ask", 1), ("answer", 1)],
    "at once": [("ask", 0), ("ask", 1), ("answer", 0), ("answer", 1)],
    "the last first": [("ask", 0), ("ask", 1), ("answer", 1), ("answer", 0)],
    "across calls": [("answer", -1), ("ask", 0)],
    "always one": [("ask", 0), ("answer", -1)],
    "never answered": [("ask", 0)],
    "sometimes answered": [("ask", 0), ("ask", 1), ("answer", 1)],
    "refused": [("ask", 0), ("refuse", 0)],
    "refused one after another": [("ask", 0), ("refuse", 0), ("ask", 1), ("refuse", 1)],
}
"""What a program does after a few calls. Numbers are relative to the round; at -1 is the last of the round before."""


WAYS = [(way, "/status") for way in STATUS_IN_BETWEEN] + [
    (way, "How is it going?") for way in STATUS_IN_BETWEEN if way != "across calls"
]
"""Of words, those across calls look like prompts of a person while another was fed into a turn and has no answer."""


@pytest.mark.parametrize("apart", [1, 2, 3])
@pytest.mark.parametrize(("way", "text"), WAYS)
def test_a_program_that_asks_for_the_status_in_between_keeps_no_loop_alive(way: str, text: str, apart: int) -> None:
    """T28 and T23: a command or a refused prompt gives the loop no fresh counts, other words do so twice at most."""
    play = Play().start()
    play.prompt("work")
    calls = 0
    for base in range(0, 200, 2):
        for _ in range(apart):
            play.call()
        calls += apart
        if play.cancels():
            break
        for what, number in STATUS_IN_BETWEEN[way]:
            if what == "ask":
                play.prompt(base + number, text=text)
            elif base + number >= 0:
                answered = base + number - (number == -1)
                play.agent(result_of(answered, END_TURN) if what == "answer" else error_of(answered, -32603))
    assert play.cancels() == 1
    counts_on = text == "/status" or "refused" in way
    assert calls <= (CALLS_TO_HALT + apart - 1 if counts_on else 3 * CALLS_TO_HALT)
    play.agent(result_of("work", {"stopReason": "cancelled"}))
    assert len(play.answers_to("work")) == 1


def ended(call_id: str) -> dict[str, Any]:
    """A call comes to what it always does."""
    return session_update("s", "tool_call_update", toolCallId=call_id, status="completed", rawOutput="same")


@pytest.mark.parametrize("text", ["/status", "How is it going?"])
def test_what_a_call_came_to_is_heard_though_another_prompt_was_answered_while_it_ran(text: str) -> None:
    play = Play().start()
    play.prompt("work")
    for number in range(CALLS_TO_HALT - 1):
        running = play.open_call()
        play.prompt(number, text=text)
        play.agent(result_of(number, END_TURN))
        play.agent(ended(running))
    assert not play.cancels()
    play.open_call()
    assert play.cancels() == 1
    assert sum(isinstance(event, ToolResults) for event in play.guards["s"].events) == CALLS_TO_HALT - 1


def test_what_a_call_came_to_is_heard_of_a_turn_that_was_over_in_fact() -> None:
    play = Play().start()
    play.prompt(1)
    running = play.open_call()
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    play.agent(ended(running))
    play.prompt(3)
    told = [type(event) for event in play.guards["s"].events]
    assert told.index(ToolResults) < told.index(TurnEnded)
    assert calls(play) == 0


def test_an_agent_that_uses_one_id_for_all_its_calls_goes_on_as_any_other() -> None:
    play = Play().start()
    play.prompt("work")
    for number in range(20):
        play.call({"path": "ab"[number % 2]}, call_id="always")
        if play.cancels():
            break
        play.prompt(number, text="/status")
        play.agent(result_of(number, END_TURN))
    assert play.cancels() == 1


def test_a_permission_for_a_call_is_heard_though_another_prompt_was_answered_since_it_was_told() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(session_update("s", "tool_call", toolCallId="asks", title="Looking", status="pending"))
    play.prompt(2, text="/status")
    play.agent(result_of(2, END_TURN))
    play.agent(permission(7, "asks", name="look", rawInput={"path": "a"}))
    play.open_call()
    assert [event.id for event in play.guards["s"].events if isinstance(event, CallRekeyed)] == ["1:asks"]


def test_who_is_answered_and_steered_in_every_turn_has_fresh_counts_in_every_turn() -> None:
    """As codex-acp has it: what is said in between is fed into the turn and never answered."""
    play = Play().start()
    for number in range(0, 40, 2):
        play.prompt(number)
        play.call()
        play.prompt(number + 1, text="That, too")
        play.call()
        assert calls(play) == 2
        play.agent(result_of(number, END_TURN))
    assert not play.cancels()


def test_while_later_prompts_wait_a_call_says_that_the_turn_goes_on() -> None:
    play = Play().start()
    for number in (1, 2, 3):
        play.prompt(number)
    play.call()
    play.agent(result_of(2, END_TURN))
    play.call()
    play.prompt(4)
    assert calls(play) == 2


def test_while_later_prompts_wait_still_an_answer_stops_no_guard() -> None:
    play = Play().start()
    for number in (1, 2, 3):
        play.prompt(number)
    running = play.open_call()
    play.agent(result_of(2, END_TURN))
    assert play.sessions["s"].state == "running"
    play.agent(ended(running))
    for _ in range(CALLS_TO_HALT - 2):
        play.call()
    play.open_call()
    assert play.cancels() == 1


def test_a_prompt_that_went_on_has_its_turn_until_it_is_answered_and_the_next_counts_anew() -> None:
    play = Play().start()
    play.prompt(1)
    for number in (2, 3):
        play.prompt(number)
        play.agent(result_of(number, END_TURN))
        play.call()
    assert calls(play) == 2
    assert play.agent(result_of(1, END_TURN)) is None
    assert play.sessions["s"].state == "idle"
    for number in (4, 5):
        play.prompt(number)
        assert calls(play) == 0
        play.call()
        play.prompt("status")
        play.agent(result_of("status", END_TURN))
        assert play.sessions["s"].state == "idle"
    assert turns_of(play.guards["s"]) == ["user", "completed", "user", "completed", "user"]


def test_one_that_went_on_and_was_cancelled_holds_nothing_up() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    play.call()
    play.client(notification("session/cancel", {"sessionId": "s"}))
    for number in range(3, 9):
        play.prompt(number)
        play.call()
        play.call()
        play.agent(result_of(number, END_TURN))
    assert calls(play) == 2
    play.forget()
    play.prompt(9)
    play.loop()
    assert play.cancels() == 1


def test_of_several_that_were_left_the_one_that_goes_on_is_not_known_so_each_answer_ends_it() -> None:
    play = Play().start()
    play.prompt("fed")
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    play.prompt(3)
    play.agent(result_of(3, END_TURN))
    play.call()
    assert play.sessions["s"].state == "running"
    play.agent(result_of(1, END_TURN))
    assert play.sessions["s"].state == "idle"
    for number in range(4, 10):
        play.prompt(number)
        play.call()
        play.call()
        assert calls(play) == 2
        play.agent(result_of(number, END_TURN))


def test_a_prompt_that_is_answered_after_a_later_one_is_over() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    assert play.agent(result_of(1, END_TURN)) is None
    play.loop()
    assert not play.cancels()


def test_only_a_new_call_takes_a_prompt_up_again() -> None:
    play = Play(agent="codex").start()
    play.prompt(1)
    known = play.open_call()
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    play.agent(session_update("s", "tool_call_update", toolCallId=known, status="completed"))
    play.agent(session_update("s", "tool_call", toolCallId="mcp_startup.x", title="Starting", status="in_progress"))
    play.agent(session_update("s", "usage_update", used=1, size=2))
    assert play.sessions["s"].state == "idle"
    play.open_call()
    assert play.sessions["s"].state == "running"


def test_what_the_user_cancelled_is_not_taken_up_again() -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    play.agent(result_of(2, END_TURN))
    play.client(notification("session/cancel", {"sessionId": "s"}))
    play.open_call()
    assert play.sessions["s"].state == "idle"


LOAD = request("load", "session/load", {"sessionId": "s", "cwd": "/project", "mcpServers": []})


def test_t16_a_load_that_is_never_answered_does_not_keep_the_guard_off() -> None:
    prompted = Play().start()
    prompted.client(LOAD)
    prompted.prompt(1)
    cancelled = Play().start()
    cancelled.prompt(1)
    cancelled.client(LOAD)
    cancelled.client(notification("$/cancel_request", {"requestId": "load"}))
    for play in (prompted, cancelled):
        play.loop()
        assert play.cancels() == 1


def test_a_load_that_the_client_takes_back_may_be_carried_out_all_the_same() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(LOAD)
    play.client(notification("$/cancel_request", {"requestId": "load"}))
    replayed(play, 50)
    assert (calls(play), play.cancels()) == (0, 0)
    play.agent(result_of("load", {}))
    play.loop()
    assert play.cancels() == 1


def test_a_load_that_the_client_takes_back_is_over_with_the_next_prompt() -> None:
    play = Play().start()
    play.client(LOAD)
    play.client(notification("$/cancel_request", {"requestId": "load"}))
    play.prompt(1)
    play.agent(told_again_as_a_user())
    play.loop()
    assert play.cancels() == 1


def test_one_of_two_loads_that_is_taken_back_leaves_the_other() -> None:
    play = Play().start()
    play.client(LOAD)
    play.client(loading("other"))
    play.client(notification("$/cancel_request", {"requestId": "load"}))
    play.prompt(1)
    replayed(play, 50)
    assert (calls(play), play.cancels()) == (0, 0)


def test_a_past_that_is_shown_after_the_client_has_prompted_is_history() -> None:
    """A client that does not wait for the answer to its load; agents do one thing after the other."""
    play = Play().start()
    play.client(LOAD)
    play.prompt(1)
    replayed(play, 50)
    play.agent(result_of("load", {}))
    assert (calls(play), play.cancels()) == (0, 0)
    play.loop()
    assert play.cancels() == 1


def test_a_load_begins_no_past_while_a_turn_is_presumed_to_be_over() -> None:
    play = Play().start()
    play.prompt("work")
    play.call()
    play.prompt("status", text="/status")
    play.agent(result_of("status", END_TURN))
    play.client(LOAD)
    for _ in range(CALLS_TO_HALT - 2):
        play.call()
    play.open_call()
    assert play.cancels() == 1


@pytest.mark.parametrize("again", [True, False])
def test_how_a_call_of_the_turn_ends_is_heard_while_the_past_is_shown(again: bool) -> None:
    play = Play().start()
    play.prompt(1)
    running = play.open_call()
    play.client(LOAD)
    replayed(play, 3)
    if again:
        play.call(call_id=running)
    play.agent(ended(running))
    assert calls(play) == 1
    assert sum(isinstance(event, ToolResults) for event in play.guards["s"].events) == 1


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_load_that_is_never_answered_and_shows_nothing_leaves_the_turn_as_it_is(method: str) -> None:
    play = Play().start()
    play.prompt(1)
    known = play.open_call()
    play.client(loading("l", method))
    play.agent(session_update("s", "tool_call_update", toolCallId=known, status="completed", rawOutput="same"))
    for _ in range(CALLS_TO_HALT - 2):
        play.call()
    play.open_call()
    assert play.cancels() == 1


@pytest.mark.parametrize("old", [0, 1, 50])
def test_a_past_that_is_shown_and_not_answered_ends_with_the_first_call_after_those_of_the_turn(old: int) -> None:
    play = Play().start()
    play.prompt(1)
    of_turn = [play.call(), play.call({"path": "b"})]
    play.client(LOAD)
    replayed(play, old)
    play.agent(told_again_as_a_user())
    for call_id in of_turn:
        play.call(call_id=call_id)
    assert calls(play) == 2
    play.loop()
    assert play.cancels() == 1


def test_a_call_of_the_turn_that_ends_while_the_past_is_shown_is_not_yet_the_end_of_it() -> None:
    play = Play().start()
    play.prompt(1)
    running = play.open_call()
    play.client(LOAD)
    replayed(play, 3)
    play.agent(session_update("s", "tool_call_update", toolCallId=running, status="completed", rawOutput="same"))
    replayed(play, 50, prefix="older")
    assert calls(play) == 1


def test_a_past_that_never_comes_to_the_turn_ends_after_a_thousand_calls() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(LOAD)
    replayed(play, MAX_SHOWN)
    assert calls(play) == 0
    play.loop()
    assert play.cancels() == 1


def test_a_permission_is_asked_for_now_whatever_is_shown() -> None:
    play = Play().start()
    play.prompt(1)
    for _ in range(CALLS_TO_HALT - 1):
        play.call()
    play.client(LOAD)
    play.agent(told_again_as_a_user())
    play.agent(permission(7, "new", name="look", rawInput={"path": "a"}))
    assert play.cancels() == 1


def test_a_past_that_is_asked_for_in_a_turn_and_shown_after_it_is_history() -> None:
    play = Play().start()
    play.prompt(1)
    play.call()
    play.client(LOAD)
    play.agent(result_of(1, END_TURN))
    replayed(play, 50)
    play.agent(result_of("load", {}))
    assert calls(play) == 1
    play.prompt(2)
    play.loop()
    assert play.cancels() == 1


def test_a_second_prompt_that_is_refused_ends_no_turn() -> None:
    play = Play().start()
    play.prompt(1)
    for _ in range(CALLS_TO_HALT - 1):
        play.call()
        play.prompt("refused")
        play.agent(error_of("refused", -32603, "A turn is already running"))
    play.open_call()
    assert play.cancels() == 1


def test_sessions_count_for_themselves() -> None:
    play = Play().start("a", "b", "c")
    for number, session_id in enumerate("abc"):
        play.prompt(number, session_id)
    for _ in range(2):
        for session_id in "abc":
            play.call(session_id=session_id)
    assert [calls(play, session_id) for session_id in "abc"] == [2, 2, 2]
    assert not any(map(play.cancels, "abc"))


def start_turn(turn_id: str = "t", source: str = "background_notification") -> dict[str, Any]:
    return request(0, "_qwencode/start_turn", {"sessionId": "s", "turnId": turn_id, "source": source})


def end_turn(turn_id: str = "t") -> dict[str, Any]:
    return notification("_qwencode/end_turn", {"sessionId": "s", "turnId": turn_id, "reason": "end_turn"})


def test_a_turn_that_the_agent_begins_is_a_turn_of_its_own_origin() -> None:
    play = Play().start()
    assert play.agent(start_turn()) is None
    play.call()
    assert play.agent(end_turn()) is None
    play.call()
    assert turns_of(play.guards["s"]) == ["notification", "completed"]
    assert calls(play) == 1


def test_a_turn_of_the_agent_waits_for_the_prompt_before_it_and_a_prompt_for_the_turn() -> None:
    play = Play().start()
    play.prompt(1)
    play.agent(start_turn(source="cron"))
    play.agent(result_of(1, END_TURN))
    play.prompt(2)
    play.agent(end_turn())
    play.agent(result_of(2, END_TURN))
    assert turns_of(play.guards["s"]) == ["user", "completed", "cron", "completed", "user", "completed"]


def test_a_loop_in_a_turn_of_the_agent_is_stopped_with_words_and_no_answer() -> None:
    play = Play().start()
    play.agent(start_turn())
    play.loop()
    assert play.cancels() == 1
    assert "turnguard stopped this turn" in play.texts()[-1]
    play.forget()
    play.agent(end_turn())
    assert [message["method"] for message in play.at_client] == ["session/update", "_qwencode/end_turn"]
    assert play.at_client[0]["params"]["update"]["status"] == "failed"
    play.wait(100)
    assert len(play.at_client) == 2


@pytest.mark.parametrize("stop", [True, False])
def test_a_turn_of_the_agent_that_does_not_stop_is_no_hang(stop: bool) -> None:
    play = Play().start()
    play.agent(start_turn())
    play.loop()
    play.wait(15)
    assert play.cancels() == 2
    play.prompt(1)
    assert play.at_agent[-1]["method"] == "session/cancel"
    play.forget()
    if stop:
        play.agent(end_turn())
        assert play.at_client == [end_turn()]
    else:
        play.wait(15)
    assert play.at_agent[-1]["id"] == 1


CANCEL_SESSION = notification("session/cancel", {"sessionId": "s"})


@pytest.mark.parametrize(
    "cancel",
    [
        CANCEL_SESSION,
        request("c", "session/cancel", {"sessionId": "s"}),
        notification("$/cancel_request", {"requestId": 1}),
        request("c", "session/close", {"sessionId": "s"}),
    ],
    ids=["notification", "T11c: request", "cancel_request", "close"],
)
def test_t22_after_the_user_cancelled_nothing_is_stopped_or_told(cancel: Any) -> None:
    play = Play().start()
    play.prompt(1)
    play.call()
    assert play.client(cancel) is None
    play.forget()
    play.loop()
    assert play.at_agent == []
    assert play.texts() == []
    assert play.agent(result_of(1, {"stopReason": "cancelled"})) is None


def test_t11c_the_answer_to_a_cancel_that_came_as_a_request_passes() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(request("c", "session/cancel", {"sessionId": "s"}))
    assert play.agent(result_of("c", None)) is None


@pytest.mark.parametrize("request_id", ["1", 2, None, "unknown"])
def test_a_cancel_of_something_else_is_none_of_the_turn(request_id: Any) -> None:
    play = Play().start()
    play.prompt(1)
    play.prompt(2)
    assert play.client(notification("$/cancel_request", {"requestId": request_id})) is None
    play.loop()
    assert play.cancels() == 1


def test_a_cancel_of_another_session_is_none_of_this_one() -> None:
    play = Play().start("s", "other")
    play.prompt(1)
    play.client(notification("session/cancel", {"sessionId": "other"}))
    play.client(notification("session/cancel", {"sessionId": "never heard of"}))
    play.loop()
    assert play.cancels() == 1


def test_a_cancel_ends_with_its_turn() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(CANCEL_SESSION)
    play.agent(result_of(1, {"stopReason": "cancelled"}))
    play.forget()
    play.prompt(2)
    play.loop()
    assert play.cancels() == 1


def test_a_closed_session_is_forgotten() -> None:
    play = Play().start()
    play.prompt(1)
    play.client(request("c", "session/close", {"sessionId": "s"}))
    play.agent(result_of(1, {"stopReason": "cancelled"}))
    play.agent(result_of("c", {}))
    play.client(request("x", "_turnguard/status", {"sessionId": "s"}))
    assert play.answers_to("x")[0]["error"]["code"] == -32004


def test_a_session_that_could_not_be_closed_is_not_forgotten() -> None:
    play = Play().start()
    play.client(request("c", "session/close", {"sessionId": "s"}))
    play.agent(error_of("c", -32603))
    play.client(request("x", "_turnguard/status", {"sessionId": "s"}))
    assert "result" in play.answers_to("x")[0]


def test_what_is_said_before_the_session_is_known_passes() -> None:
    play = Play().start("other")
    assert play.agent(session_update("s", "usage_update", used=1, size=2)) is None
    assert play.agent(chunk("hello", "s")) is None
    play.prompt(1, "s")
    play.loop()
    assert play.cancels() == 1


def test_the_stream_guard_reads_what_the_agent_writes() -> None:
    stream = msgspec.structs.replace(HALTING, turn_guard="stream", skip_loop_detection=False)
    play = Play(settings=stream).start()
    play.prompt(1)
    for _ in range(200):
        play.agent(chunk("I will look at the file once more to be sure. "))
    assert play.cancels() == 1
    silent = Play().start()
    silent.prompt(1)
    silent.agent(chunk("words"))
    assert not any(isinstance(event, Text) for event in silent.guards["s"].events)


def test_only_what_some_guard_looks_at_is_computed_of_a_result() -> None:
    play = Play(settings=msgspec.structs.replace(HALTING, loop_detection=None)).start()
    play.prompt(1)
    play.call()
    play.agent(result_of(1, END_TURN))
    (told,) = (event for event in play.guards["s"].events if isinstance(event, ToolResults))
    assert isinstance(outcome := told.results[0].outcome, Outcomes)
    assert (outcome.read, outcome.rolling) == (None, None)
    assert outcome.progress is not None
