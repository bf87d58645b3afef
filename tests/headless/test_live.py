"""What the guards hear of an agent that runs, in which order and together with what."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from turnguard.core.identify import identify
from turnguard.core.scope import of_scope
from turnguard.core.session import SessionGuard
from turnguard.headless.live import Live
from turnguard.settings.guarded import in_force_of
from turnguard.settings.sources import Sources
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Compacted,
    Event,
    Result,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action, Verdict


class Heard:
    """Guards that note what they are told, one record a list, and answer as real ones do.

    `records` have the ids of the stream; no two calls that the guards were told have the same.
    """

    def __init__(self) -> None:
        sources = Sources("exec", environ={})
        self.records: list[list[Event]] = []
        self._told: set[str] = set()
        self._guard = SessionGuard("s", in_force_of(sources.merged(sources.found(None)), sources.found(None)).own)

    def record(self, events: Sequence[Event]) -> Verdict:
        for event in events:
            ids = [call.id or "" for call in event.calls] if isinstance(event, ToolCalls) else []
            assert self._told.isdisjoint(ids)
            self._told.update(ids)
        self.records.append([as_shown(event) for event in events])
        return self._guard.record(events)


def as_shown(event: Event) -> Event:
    """The event with the ids that the stream shows."""
    if isinstance(event, ToolCalls):
        return ToolCalls([replace(each, id=shown(each.id)) for each in event.calls], event.run_id)
    if isinstance(event, ToolResults):
        return ToolResults([replace(each, id=shown(each.id)) for each in event.results], event.run_id)
    return replace(event, id=shown(event.id)) if isinstance(event, CallRekeyed) else event


def shown(told: str | None) -> str:
    return (told or "").rpartition("#")[0]


def heard(*told: Told) -> list[list[Event]]:
    guards = Heard()
    live = Live(lambda _: guards)
    for each in told:
        live.hear(each)
    return guards.records


def call(name: str, scope: str | None = None, message: str | None = None) -> Told:
    return Told(ToolCalls([Call("Bash", name, Raw(b'{"command":"make"}'))]), scope, message)


def result(name: str, scope: str | None = None) -> Told:
    return Told(ToolResults([Result(name, output=Raw(b'"done"'))]), scope)


STARTED: list[Event] = [TurnStarted(), StepFinished()]


def test_a_call_and_its_result_are_told_at_once() -> None:
    assert heard(Told(TurnStarted("t")), call("a"), result("a"), call("b"), Told(TurnEnded())) == [
        [TurnStarted("t"), StepFinished()],
        [call("a").event],
        [result("a").event],
        [call("b").event],
        [TurnEnded()],
    ]


def test_a_turn_that_is_not_told_begins_with_its_first_call() -> None:
    assert heard(call("a"), Told(TurnEnded()), Told(Text("bye")), call("b"), Told(TurnStarted()), call("c")) == [
        [*STARTED, call("a").event],
        [TurnEnded()],
        [Text("bye")],
        [*STARTED, call("b").event],
        STARTED,
        [call("c").event],
    ]


def test_results_wait_for_those_of_calls_that_still_run() -> None:
    both = ToolResults([*results_of("b"), *results_of("a")])
    assert heard(call("a"), call("b"), result("b"), result("a"), call("c"))[2:] == [[both], [call("c").event]]


def results_of(*names: str) -> list[Result]:
    return [Result(name, output=Raw(b'"done"')) for name in names]


def test_a_call_after_a_result_ends_the_step_where_messages_are_not_told() -> None:
    told = heard(call("a"), call("b"), result("b"), call("c"), result("a"), result("c"))
    assert told[2:] == [[ToolResults(results_of("b")), call("c").event], [ToolResults(results_of("a", "c"))]]


def test_calls_of_one_message_are_one_step_whatever_comes_between() -> None:
    calls = [call("a", None, "m"), result("a"), call("b", None, "m"), call("c", None, "m"), result("c"), result("b")]
    ended = Told(TurnEnded())
    assert heard(*calls, ended)[1:] == [
        [call("b").event],
        [call("c").event],
        [ToolResults(results_of("a", "c", "b")), ended.event],
    ]


@pytest.mark.parametrize("message", ["m", "n", None])
def test_words_of_another_message_end_the_step_too(message: str | None) -> None:
    told = heard(call("a", None, "m"), result("a"), Told(Text("well"), None, message))
    assert told[1:] == [[*([] if message == "m" else [ToolResults(results_of("a"))]), Text("well")]]


@pytest.mark.parametrize("is_answered", [True, False])
def test_another_message_ends_the_step(is_answered: bool) -> None:
    told = heard(call("a", None, "m"), *([result("a")] if is_answered else []), call("b", None, "n"))
    # After a result the guards see the end themselves.
    assert told[-1] == [ToolResults(results_of("a")) if is_answered else StepFinished(), call("b").event]


def test_another_message_takes_the_results_that_waited_along() -> None:
    told = heard(call("a", None, "m"), call("b", None, "m"), result("a"), call("c", None, "n"))
    assert told[-1] == [ToolResults(results_of("a")), call("c").event]


def test_a_step_is_not_ended_while_a_subagent_works() -> None:
    told = heard(call("a", None, "m"), call("s", "sub", "x"), call("b", None, "n"))
    assert told[-1] == [call("b").event]


def test_a_subagents_calls_are_its_own() -> None:
    told = heard(call("a"), call("s", "sub"), result("s", "sub"), result("a"))
    scoped_call = of_scope(identify(call("s").event), "sub")
    assert told[1] == [scoped_call]
    assert isinstance(told[2][0], ToolResults)
    assert (told[2][0].run_id, told[2][0].results[0].id) == ("sub", "s")
    assert told[3] == [result("a").event]


def test_what_subagents_say_in_words_is_left_out() -> None:
    words = [Told(Text("hm"), "sub"), Told(Thought("", "hm"), "sub"), Told(Text("hello")), Told(Thought("", "so"))]
    assert heard(*words) == [[Text("hello")], [Thought("", "so")]]


def test_what_waited_is_told_before_a_turn_ends() -> None:
    for end in (TurnEnded("cancelled"), TurnStarted()):
        events = heard(call("a"), call("b"), result("a"), Told(end))[-1]
        assert events[:2] == [ToolResults(results_of("a")), end]


def test_other_events_pass() -> None:
    rekeyed = CallRekeyed("a", args=Raw(b"{}"))
    assert heard(call("a"), Told(Compacted()), Told(rekeyed))[1:] == [[Compacted()], [rekeyed]]


def test_a_subagents_call_that_is_known_later_is_still_its_own() -> None:
    told = heard(call("s", "sub"), Told(CallRekeyed("s", args=Raw(b'{"command":"make"}')), "sub"))
    before, (after,) = told[0][-1], told[1]
    assert isinstance(before, ToolCalls)
    assert isinstance(after, CallRekeyed)
    assert (after.name, after.key) == ("Bash", before.calls[0].key)


def test_conversations_have_guards_of_their_own() -> None:
    made: list[str | None] = []

    def guards_for(name: str | None) -> Heard:
        made.append(name)
        return Heard()

    live = Live(guards_for)
    for session in ("one", "two", "one"):
        live.hear(call("a")._replace(session=session))
    assert made == ["one", "two"]


def test_it_is_known_whether_the_last_call_has_run_and_how_many_there_were() -> None:
    live = Live(lambda _: Heard())
    seen: list[tuple[int, bool]] = []
    for told in (call("a"), call("b", "sub"), result("a"), result("b", "sub"), Told(TurnStarted()), call("c")):
        live.hear(told)
        seen.append((live.calls, live.is_running))
    assert seen == [(1, True), (2, True), (2, True), (2, False), (0, False), (1, True)]


def test_a_step_counts_once_however_its_calls_are_shown() -> None:
    live = Live(lambda _: Heard())
    for number in range(3):
        calls = [f"{number}{letter}" for letter in "abcd"]
        for name in calls:
            live.hear(call(name, None, f"m{number}"))
        for name in calls:
            live.hear(result(name))
    verdict = live.hear(Told(TurnEnded()))
    assert verdict is not None
    assert (verdict.totals.tool_calls, verdict.totals.steps) == (12, 3)


@pytest.mark.parametrize("message", [None, "m"])
def test_an_agent_that_repeats_itself_is_halted(message: str | None) -> None:
    live = Live(lambda _: Heard())
    actions: list[Action] = []
    for number in range(7):
        shown = live.hear(call(f"c{number}", None, message and f"{message}{number}"))
        verdict = live.hear(result(f"c{number}")) or shown
        actions.append(Action.ALLOW if verdict is None else verdict.action)
    assert actions[-1] is Action.HALT


SCOPES = st.sampled_from([None, "sub", "other"])
MESSAGES = st.sampled_from([None, "m", "n"])


@given(st.lists(st.tuples(st.booleans(), SCOPES, MESSAGES, st.integers(0, 3)), max_size=40))
def test_every_call_and_every_result_is_told_once_in_any_order(
    steps: list[tuple[bool, str | None, str | None, int]],
) -> None:
    guards, told, asked, answered = Heard(), [], 0, 0
    live = Live(lambda _: guards)
    running: list[tuple[str, str | None]] = []
    for is_call, scope, message, which in steps:
        if is_call:
            running.append((f"c{asked}", scope))
            told.append(call(f"c{asked}", scope, message))
            asked += 1
        elif running:
            told.append(result(*running.pop(which % len(running))))
            answered += 1
    for each in [*told, Told(TurnEnded())]:
        live.hear(each)
    events = [event for record in guards.records for event in record]
    assert all(record for record in guards.records)
    assert sum(len(event.calls) for event in events if isinstance(event, ToolCalls)) == asked
    assert sum(len(event.results) for event in events if isinstance(event, ToolResults)) == answered
    for record in guards.records:  # as a record must be
        assert not any(isinstance(event, ToolCalls) for event in record[:-1])


def test_what_a_model_says_of_a_command_is_no_part_of_it() -> None:
    live = Live(lambda _: Heard())
    verdict = None
    for number in range(7):
        args = Raw(f'{{"command":"npm test","description":"Try number {number}"}}'.encode())
        live.hear(Told(ToolCalls([Call("Bash", f"c{number}", args)])))
        verdict = live.hear(Told(ToolResults([Result(f"c{number}", output=Raw(b'"1 failing"'))])))
    assert verdict is not None
    assert verdict.action is Action.HALT


@pytest.mark.parametrize("message", [None, "m"])
@pytest.mark.parametrize("scope", [None, "sub"])
def test_an_id_that_comes_again_is_another_call(message: str | None, scope: str | None) -> None:
    live = Live(lambda _: Heard())
    for number in range(30):
        shown_call = live.hear(call("call_0", scope, message and f"{message}{number}"))
        output = Raw(f'"{number} percent"'.encode())
        verdict = live.hear(Told(ToolResults([Result("call_0", output=output)]), scope)) or shown_call
        assert verdict is not None
        assert (verdict.action, verdict.totals.tool_calls) == (Action.ALLOW, number + 1)


def test_an_agent_that_repeats_itself_under_one_id_is_halted() -> None:
    live = Live(lambda _: Heard())
    actions: list[Action] = []
    for number in range(7):
        live.hear(call("call_0", None, f"m{number}"))
        verdict = live.hear(result("call_0"))
        actions.append(Action.ALLOW if verdict is None else verdict.action)
    verdict = live.hear(call("call_0", None, "m9"))
    assert verdict is not None
    assert verdict.findings[0].loop_type == "no_new_evidence"


def test_ids_of_subagents_are_their_own() -> None:
    live = Live(lambda _: Heard())
    for told in (call("call_0"), call("call_0", "sub"), result("call_0", "sub"), result("call_0")):
        live.hear(told)
    assert not live.is_running
