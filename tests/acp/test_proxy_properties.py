"""What holds for any interleaving of a client's and an agent's lines."""

import json
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from tests.acp.play import (
    HALTING,
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
from turnguard.acp.options import Options

SESSIONS = ("s", "t")
GRACE, HOLD, ANSWER_WITHIN = 5.0, 7.0, 11.0

sessions = st.sampled_from(SESSIONS)
outcomes = st.sampled_from(["end_turn", "cancelled", "error"])
loops = st.sampled_from(["same", "same", "same", "other"])


class Machine(RuleBasedStateMachine):
    """A client and an agent that do anything, one line at a time."""

    prompts = Bundle("prompts")
    """Prompts that reached the agent and were not answered by it."""
    permissions = Bundle("permissions")
    turns = Bundle("turns")
    loads = Bundle("loads")

    @initialize(
        stop_as=st.sampled_from(["max_turn_requests", "cancelled", "error"]),
        on_loop=st.sampled_from(["halt", "halt", "halt", "ask", "warn"]),
        still_running=st.sampled_from(["forward", "fail"]),
        note=st.booleans(),
        kill_after=st.sampled_from([None, None, 30.0]),
    )
    def start(self, **options: Any) -> None:
        self.options = Options(grace=GRACE, hold=HOLD, answer_within=ANSWER_WITHIN, **options)
        self.play = Play(settings=HALTING, **self.options._asdict()).start(*SESSIONS)
        self.numbers = iter(range(10_000))
        self.asked: dict[Any, str] = {}
        self.agent_knows: set[Any] = set()
        self.agent_answered: set[Any] = set()
        self.open: dict[str, list[str]] = {session_id: [] for session_id in SESSIONS}

    # --- the client ---------------------------------------------------------------------------------------------------

    @rule(target=prompts, session_id=sessions, is_text=st.booleans(), words=st.sampled_from(["go", "/status"]))
    def prompts_agent(self, session_id: str, is_text: bool, words: str) -> Any:
        number = next(self.numbers)
        request_id = f"{number}" if is_text else number
        self.asked[request_id] = session_id
        self.client(prompt(request_id, session_id, words))
        return request_id

    @rule(target=loads, session_id=sessions)
    def loads_session(self, session_id: str) -> Any:
        request_id = f"load {next(self.numbers)}"
        self.asked[request_id] = session_id
        self.client(request(request_id, "session/load", {"sessionId": session_id, "cwd": "/project"}))
        return request_id

    @rule(request_id=loads)
    def takes_load_back(self, request_id: str) -> None:
        self.client(notification("$/cancel_request", {"requestId": request_id}))

    @rule(session_id=sessions, is_request=st.booleans())
    def cancels(self, session_id: str, is_request: bool) -> None:
        params = {"sessionId": session_id}
        if is_request:
            request_id = f"cancel {next(self.numbers)}"
            self.asked[request_id] = session_id
            self.client(request(request_id, "session/cancel", params))
        else:
            self.client(notification("session/cancel", params))

    @rule(request_id=prompts)
    def cancels_prompt(self, request_id: Any) -> None:
        self.client(notification("$/cancel_request", {"requestId": request_id}))

    @rule(request_id=consumes(permissions), is_allowed=st.booleans())
    def decides(self, request_id: Any, is_allowed: bool) -> None:
        outcome = {"outcome": "selected", "optionId": "yes" if is_allowed else "no"}
        before = len(self.play.at_agent)
        self.client(result_of(request_id, {"outcome": outcome}))
        answers = [each for each in self.play.at_agent if "result" in each and each["id"] == request_id]
        assert len(answers) == 1, "the agent is answered once, by the client or by turnguard"
        assert len(self.play.at_agent) - before <= 1

    @rule(choice=st.sampled_from(["stop", "continueOnce", "raiseCap", "disable", "nonsense"]))
    def answers_question(self, choice: str) -> None:
        questions = [each for each in self.play.at_client if str(each.get("id")).startswith("turnguard:")]
        if not questions:
            return
        before = len(self.play.at_agent)
        self.client(result_of(questions[-1]["id"], {"outcome": {"outcome": "selected", "optionId": choice}}))
        told = self.play.at_agent[before:]
        assert all(each.get("id") != questions[-1]["id"] for each in told), "our questions are none of the agent's"

    @rule(session_id=sessions, action=st.sampled_from(["continueOnce", "raiseCap", "disable", "enable"]))
    def overrides(self, session_id: str, action: str) -> None:
        request_id = f"override {next(self.numbers)}"
        self.asked[request_id] = session_id
        self.client(request(request_id, "_turnguard/override", {"sessionId": session_id, "action": action}))
        assert len(self.play.answers_to(request_id)) == 1

    # --- the agent ----------------------------------------------------------------------------------------------------

    @rule(session_id=sessions, what=loops, times=st.integers(1, 7), is_ended=st.sampled_from([True, True, True, False]))
    def calls(self, session_id: str, what: str, times: int, is_ended: bool) -> None:
        for _ in range(times):
            call_id = f"call {next(self.numbers)}"
            update = {"toolCallId": call_id, "name": "look", "rawInput": {"path": what}}
            self.agent(session_update(session_id, "tool_call", **update))
            if is_ended:
                ended = {"toolCallId": call_id, "status": "completed", "rawOutput": what}
                self.agent(session_update(session_id, "tool_call_update", **ended))

    @rule(session_id=sessions)
    def speaks(self, session_id: str) -> None:
        self.agent(chunk("hello", session_id))

    @rule(target=permissions, session_id=sessions, what=loops)
    def asks(self, session_id: str, what: str) -> Any:
        request_id = 100_000 + next(self.numbers)
        call = {"name": "look", "rawInput": {"path": what}}
        before = len(self.play.at_client)
        self.agent(permission(request_id, f"call {request_id}", session_id, **call))
        seen = [each for each in self.play.at_client[before:] if each.get("id") == request_id]
        return request_id if seen else multiple()

    @rule(request_id=consumes(prompts), answer=outcomes, times=st.integers(1, 2))
    def answers_prompt(self, request_id: Any, answer: str, times: int) -> None:
        if request_id not in self.agent_knows:
            return
        message = error_of(request_id, -32603) if answer == "error" else result_of(request_id, {"stopReason": answer})
        for _ in range(times if self.is_ours(request_id, message) else 1):
            self.agent(message)
        self.agent_answered.add(request_id)

    def is_ours(self, request_id: Any, message: Any) -> bool:
        """Whether turnguard answers this prompt: then it sees to it that there is no second answer."""
        session = self.play.sessions[self.asked[request_id]]
        halt = session._halt  # pyright: ignore[reportPrivateUsage]
        return halt is not None and halt.work.request_id == request_id

    @rule(request_id=consumes(loads))
    def answers_load(self, request_id: Any) -> None:
        self.agent(result_of(request_id, {}))

    @rule(session_id=sessions)
    def shows_words_of_the_user(self, session_id: str) -> None:
        self.agent(session_update(session_id, "user_message_chunk", content={"type": "text", "text": "go"}))

    @rule(target=turns, session_id=sessions)
    def begins_turn(self, session_id: str) -> Any:
        turn = {"sessionId": session_id, "turnId": f"turn {next(self.numbers)}"}
        self.agent(request(f"turn {next(self.numbers)}", "_qwencode/start_turn", turn))
        return turn

    @rule(turn=consumes(turns))
    def ends_turn(self, turn: Any) -> None:
        self.agent(notification("_qwencode/end_turn", turn))
        assert self.play.at_client[-1]["method"] in {"_qwencode/end_turn", "session/update"}

    @rule(seconds=st.floats(0, 20))
    def waits(self, seconds: float) -> None:
        self.play.wait(seconds)
        self.look()

    # --- what holds ---------------------------------------------------------------------------------------------------

    def client(self, message: Any) -> None:
        before = len(self.play.at_agent)
        route = self.play.client(message)
        if route is None:
            assert self.play.at_agent[before:] == [message]
        self.look()

    def agent(self, message: Any) -> None:
        before = len(self.play.at_client)
        route = self.play.agent(message)
        if route is None:
            assert self.play.at_client[before:] == [message]
        else:
            assert any(guard.was_found for guard in self.play.guards.values()), "a line is changed only after a finding"
        self.look()

    def look(self) -> None:
        """Which prompts the agent knows of."""
        self.agent_knows |= {each["id"] for each in self.play.at_agent if each.get("method") == "session/prompt"}

    @invariant()
    def no_request_is_answered_twice_and_none_that_was_not_made(self) -> None:
        if not hasattr(self, "play"):
            return
        answered = [each["id"] for each in self.play.at_client if "method" not in each]
        counts = Counter((type(each), each) for each in answered)
        assert all(count == 1 for count in counts.values())
        assert all(request_id in self.asked for request_id in answered)

    @invariant()
    def our_own_errors_are_none(self) -> None:
        if hasattr(self, "play"):
            assert self.play.proxy.said == []

    @invariant()
    def there_is_a_deadline_exactly_where_something_waits(self) -> None:
        if not hasattr(self, "play"):
            return
        states = {session.state for session in self.play.sessions.values()}
        if states & {"stopping", "asking"}:
            assert self.play.proxy.next_tick is not None
        if states <= {"idle", "running"}:
            assert self.play.proxy.next_tick is None

    def teardown(self) -> None:
        """In the end every prompt that was stopped, or that waited, is answered or with the agent."""
        if not hasattr(self, "play"):
            return
        self.play.wait(GRACE + HOLD + ANSWER_WITHIN + 1)
        self.look()
        stopped = [each for each in self.play.at_agent if each == notification("session/cancel", each.get("params"))]
        event(f"on_loop {self.options.on_loop}, told to stop: {bool(stopped)}")
        for request_id, session_id in self.asked.items():
            if isinstance(request_id, str) and not request_id.isdigit():
                continue
            is_answered = bool(self.play.answers_to(request_id))
            assert is_answered or request_id in self.agent_knows, "no prompt is lost"
            session = self.play.sessions[session_id]
            halt = session._halt  # pyright: ignore[reportPrivateUsage]
            if halt is not None and halt.work.request_id == request_id:
                assert is_answered, "a stopped prompt is answered once the grace has run out"
            if request_id in self.agent_answered:
                assert is_answered, "an answer of the agent reaches the client"
        json.dumps(self.play.at_client)


Machine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestProxy = Machine.TestCase
