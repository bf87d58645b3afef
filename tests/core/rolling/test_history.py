"""The rolling history as a guard: what is recorded, what is vetoed, what is news, and how a veto is forgiven."""

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tests.core.rolling.build import POLL, Host, call, result, settings
from turnguard.core.bounds import MAX_OPEN_CALLS
from turnguard.core.rolling.history import RollingHistoryGuard
from turnguard_protocol.events import (
    Compacted,
    Event,
    Facts,
    Fallback,
    Keys,
    Outcomes,
    Result,
    Retry,
    StepFinished,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action, Finding

SMALL: dict[str, Any] = {"warningThreshold": 2, "criticalThreshold": 4, "globalCircuitBreakerThreshold": 8}


def brief(finding: Finding | None) -> tuple[Any, ...] | None:
    return None if finding is None else (finding.reason, finding.loop_type, finding.count)


def news(findings: list[Finding | None]) -> list[int]:
    """The counts of the findings that are fresh."""
    return [finding.count for finding in findings if finding is not None and finding.fresh]


def vetoes(findings: list[Finding | None]) -> int:
    return sum(finding is not None and finding.action is Action.BLOCK for finding in findings)


# --- the life of a call -----------------------------------------------------------------------------------------------


def test_by_default_the_11th_call_warns_and_the_21st_is_vetoed() -> None:
    findings = Host().run_n(25)
    assert [brief(finding) for finding in findings[:11]] == [None] * 10 + [("warning", "generic_repeat", 10)]
    assert [brief(finding) for finding in findings[20:]] == [("critical", "generic_repeat", 20)] * 5
    assert vetoes(findings) == 5


def test_a_veto_records_nothing_and_stays() -> None:
    host = Host(**SMALL)
    host.run_n(4)
    before = host.guard.snapshot()
    for finding in host.run_n(5):
        assert brief(finding) == ("critical", "generic_repeat", 4)
        assert finding is not None and finding.fresh and finding.action is Action.BLOCK
    assert host.guard.snapshot()["history"] == before["history"]


def test_a_veto_ends_when_other_calls_push_the_evidence_out() -> None:
    host = Host(**SMALL, historySize=4)
    host.run_n(4)
    assert vetoes([host.run()]) == 1
    assert host.run("other") is None
    assert vetoes([host.run()]) == 0


def test_a_finding_says_all() -> None:
    host = Host("sealed {}".format, **SMALL)
    host.run_n(4, "Bash", "k", run=" r ")
    finding = host.check([call("Bash", "k")], " r ").findings[0]
    assert finding == Finding(
        guard="loopDetection",
        action=Action.BLOCK,
        loop_type="generic_repeat",
        reason="critical",
        tool="exec",
        count=4,
        threshold=4,
        fresh=True,
        run_id=" r ",
        key_digest="sealed k",
        setting="tools.loopDetection.criticalThreshold",
    )


def test_a_warning_of_a_pair_names_both() -> None:
    host = Host(warningThreshold=3)
    host.run("a")
    host.run("b")
    finding = host.run("a")
    assert finding is not None
    assert (finding.tool, finding.paired_tool, finding.run_id, finding.key_digest) == ("a", "b", UNSET, UNSET)
    assert (finding.action, finding.threshold) == (Action.WARN, 3)
    assert finding.setting == "tools.loopDetection.warningThreshold"


def test_calls_next_to_each_other_do_not_see_each_other() -> None:
    host = Host(**SMALL)
    batch = [call(call_id=f"c{number}") for number in range(6)]
    assert host.check(batch).findings == ()
    host.admit(batch)
    assert host.pending() == 6
    assert brief(host.check([call()]).findings[0]) == ("warning", "generic_repeat", 6)
    host.guard.receive(ToolResults([result(each) for each in batch], None))
    assert brief(host.check([call()]).findings[0]) == ("critical", "generic_repeat", 6)


def test_only_the_call_that_loops_is_refused() -> None:
    host = Host(**SMALL)
    host.run_n(4)
    ruling = host.check([call("a"), call(), call("b"), call()])
    assert ruling.refused == {1, 3}
    host.admit([call("a"), call(), call("b"), call()], [0, 2])
    assert host.size() == 6


def test_polls_are_told_by_facts_and_without_facts_by_name() -> None:
    host = Host(**SMALL)
    assert [brief(finding) for finding in host.run_n(3, POLL)][-1] == ("warning", "known_poll_no_progress", 2)
    assert [brief(finding) for finding in host.run_n(3, " Command_Status ")][-1] == (
        "warning",
        "known_poll_no_progress",
        2,
    )


# --- news -------------------------------------------------------------------------------------------------------------


def test_a_warning_is_news_once_in_ten() -> None:
    many: dict[str, Any] = {"criticalThreshold": 50, "globalCircuitBreakerThreshold": 60, "historySize": 90}
    assert news(Host(warningThreshold=3, **many).run_n(45)) == [10, 20, 30, 40]
    assert news(Host(warningThreshold=15, **many).run_n(45)) == [15, 20, 30, 40]


def test_a_warning_that_is_no_news_is_found_all_the_same() -> None:
    findings = Host(warningThreshold=3).run_n(12)
    assert [finding.count for finding in findings if finding] == [3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_buckets_are_never_reset() -> None:
    host = Host(historySize=12)
    assert news(host.run_n(12)) == [10]
    for number in range(13):
        host.run("other", str(number))
    assert [finding.count for finding in host.run_n(12) if finding] == [10, 11]
    assert news(host.run_n(1)) == []


def test_another_answer_to_a_poll_is_another_warning() -> None:
    host = Host()
    assert news(host.run_n(11, POLL, outcome="a")) == [10]
    assert news(host.run_n(11, POLL, outcome="b")) == [10]
    assert news(host.run_n(11, POLL, outcome="a")) == []


def test_a_pair_is_one_warning_whichever_comes_next() -> None:
    host = Host(warningThreshold=9, criticalThreshold=50, globalCircuitBreakerThreshold=60)
    findings = [host.run("ab"[number % 2], outcome=str(number)) for number in range(21)]
    assert news(findings) == [10, 20]


def test_a_generic_warning_is_of_one_call_and_another_than_a_pair() -> None:
    host = Host()
    assert news(host.run_n(11)) == [10]
    assert news(host.run_n(11, args="other")) == [10]
    assert news(host.run_n(11, "other")) == [10]


def test_runs_are_told_apart_as_they_are_written() -> None:
    host = Host()
    host.run_n(10, run="r")
    assert news([host.run(run="r")]) == [10]
    assert news([host.run(run=" r ")]) == [11]
    assert news([host.run(run="r")]) == []
    host.run_n(10)
    assert news([host.run()]) == [10]
    assert news([host.run(run="")]) == []
    assert news([host.run(run="  ")]) == [12]


def test_at_most_256_warnings_are_remembered_and_the_first_is_forgotten_first() -> None:
    host = Host(historySize=10)

    def warned(number: int) -> bool:
        host.admit([call(args=str(number)) for _ in range(10)])
        return host.check([call(args=str(number))]).findings[0].fresh

    assert all(warned(number) for number in range(256))
    assert not warned(0)
    assert warned(256)
    assert len(host.guard.buckets.reported) == 256
    assert not warned(1)
    assert warned(0)
    assert warned(1)
    assert not warned(2 + 1)


def test_a_check_that_another_guard_refuses_has_been_reported() -> None:
    host = Host()
    host.run_n(10)
    assert host.check([call()]).findings[0].fresh
    host.admit([call()], [])
    assert not host.check([call()]).findings[0].fresh


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_the_history_is_as_long_as_it_may_be() -> None:
    host = Host(historySize=5)
    host.run_n(9)
    assert host.size() == 5


def test_a_shorter_history_holds_from_the_next_record_on() -> None:
    host = Host(**SMALL)
    host.run_n(4)
    host.configure(enabled=True, historySize=2, **SMALL)
    assert host.size() == 4
    assert vetoes([host.run()]) == 1
    made = call("other", call_id="1")
    host.admit([made])
    assert host.size() == 2
    host.configure(enabled=True, historySize=1, **SMALL)
    host.guard.receive(ToolResults([result(made)], None))
    assert (host.size(), host.pending()) == (1, 0)


def test_where_nobody_said_anything_the_history_fills_without_a_word() -> None:
    host = Host(enabled=None)
    assert host.run_n(12) == [None] * 12
    host.configure(enabled=True)
    assert brief(host.run()) == ("warning", "generic_repeat", 12)


def test_without_settings_of_its_own_the_defaults_hold() -> None:
    host = Host()
    host.guard.configure(replace(settings(), loop_detection=None))
    assert host.run_n(35) == [None] * 35
    assert host.size() == 30


def test_switched_off_no_call_is_recorded_but_its_outcome_is() -> None:
    host = Host(enabled=False)
    assert host.run_n(5, outcome=None) == [None] * 5
    assert host.size() == 0
    host.run_n(5)
    assert host.size() == 5
    host.configure(enabled=True, **SMALL)
    assert brief(host.run()) == ("critical", "generic_repeat", 5)


@pytest.mark.parametrize(
    ("outcome", "size", "pending"),
    [
        (Result("1", "read", key="k", outcome="x"), 1, 0),
        (Result("1", "READ ", key="k", outcome="x"), 1, 0),
        (Result(None, "read", key="k", outcome="x"), 1, 0),
        (Result("1", outcome="x"), 1, 0),
        (Result("2", "read", key="k", outcome="x"), 2, 1),
        (Result("1", "read", key="l", outcome="x"), 2, 1),
        (Result("1", "grep", key="k", outcome="x"), 2, 1),
        (Result("2", outcome="x"), 1, 1),
        (Result("1", "read", key="k"), 1, 1),
        (Result("1", "read", key="k", outcome=Outcomes(read="x")), 1, 1),
        (Result("1", "read", key="k", outcome="x", duplicate=True), 1, 1),
    ],
)
def test_which_call_an_outcome_belongs_to(outcome: Result, size: int, pending: int) -> None:
    host = Host()
    host.admit([call(args="k", call_id="1")])
    host.guard.receive(ToolResults([outcome], None))
    assert (host.size(), host.pending()) == (size, pending)


def test_an_outcome_that_comes_twice_counts_twice() -> None:
    host = Host(**SMALL)
    made = call(call_id="1")
    host.admit([made])
    host.guard.receive(ToolResults([result(made)] * 4, None))
    assert brief(host.check([call()]).findings[0]) == ("critical", "generic_repeat", 4)


def test_the_latest_call_that_waits_is_settled_first() -> None:
    host = Host()
    host.admit([call(), call()])
    host.guard.receive(ToolResults([result(call(), "x")], None))
    assert [record.result for record in host.guard.history.records] == [None, "x"]


def test_the_history_has_its_own_identities_where_they_differ() -> None:
    host = Host(**SMALL)
    for number in range(4):
        made = call(args="", call_id=str(number))
        made.key = Keys(f"turn {number}", "rolling")
        host.admit([made])
        host.guard.receive(ToolResults([result(made, None)], None))
        answer = Result(made.id, made.name, key=made.key, outcome=Outcomes(f"read {number}", "rolling", f"p {number}"))
        host.guard.receive(ToolResults([answer], None))
    looping = call()
    looping.key = Keys("turn 5", "rolling")
    assert brief(host.check([looping]).findings[0]) == ("critical", "generic_repeat", 4)
    looping.key = Keys("turn 5")
    assert host.check([looping]).findings == ()


def test_late_results_complete_the_history() -> None:
    host = Host()
    made = call(call_id="1")
    host.admit([made])
    host.guard.receive(StepFinished())
    host.guard.receive(TurnEnded())
    host.guard.receive_late(ToolResults([Result("1", outcome="x")]))
    assert (host.size(), host.pending()) == (1, 0)


def test_a_call_like_no_other_is_recorded_nowhere_nor_is_its_outcome() -> None:
    host = Host(**SMALL)
    for number in range(8):
        made = call(call_id=str(number), fidelity="none")
        assert host.check([made]).findings == ()
        host.admit([made])
        host.guard.receive(ToolResults([result(made)], None))
    unnamed = call(fidelity="none")
    host.admit([unnamed])
    host.guard.receive(ToolResults([result(unnamed)], None))
    assert host.size() == 0


def test_the_answer_to_a_refused_call_is_no_outcome() -> None:
    host = Host(**SMALL)
    host.run_n(4)
    refused = [call(call_id="1"), call("other", call_id="2")]
    host.admit(refused, [1])
    host.guard.receive(ToolResults([result(refused[0], "no"), result(refused[1], "yes")], None))
    assert [record.tool for record in host.guard.history.records] == ["read"] * 4 + ["other"]
    host.guard.receive(StepFinished())
    host.guard.receive(ToolResults([result(refused[0], "no")], None))
    assert host.size() == 6


def test_a_copy_that_was_refused_does_not_hide_the_outcome_of_the_first() -> None:
    host = Host()
    made = call(call_id="1")
    host.admit([made, made], [0])
    host.guard.receive(ToolResults([result(made, "x"), result(made, "no")], None))
    assert [record.result for record in host.guard.history.records] == ["x"]


def test_refused_calls_are_not_looked_out_for_without_end() -> None:
    host = Host()
    host.admit([call(call_id=str(number)) for number in range(MAX_OPEN_CALLS + 5)], [])
    assert len(host.guard.unrecorded.calls) == MAX_OPEN_CALLS


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_sees_its_own_calls_only() -> None:
    host = Host(**SMALL)
    host.run_n(4, run="r")
    assert host.run(run="s") is None
    assert host.run() is None
    assert vetoes([host.run(run=" r\n")]) == 1


def test_a_blank_run_is_none_and_case_counts() -> None:
    host = Host(**SMALL)
    host.run_n(4, run=" ")
    assert vetoes([host.run(), host.run(run="")]) == 2
    host.run_n(4, run="r")
    assert host.run(run="R") is None


def test_runs_share_the_history() -> None:
    host = Host(**SMALL, historySize=4)
    host.run_n(4, run="r")
    host.run_n(2, "other", run="s")
    assert brief(host.run(run="r")) == ("warning", "generic_repeat", 2)


def test_an_outcome_of_another_run_settles_nothing() -> None:
    host = Host()
    made = call(call_id="1")
    host.admit([made], run="r")
    host.guard.receive(ToolResults([result(made)], "s"))
    assert (host.size(), host.pending()) == (2, 1)


def test_results_that_name_no_run_belong_to_the_turn() -> None:
    host = Host()
    made = call(call_id="1")
    host.guard.receive(TurnStarted("t"))
    host.admit([made], run="t")
    host.admit([call("other")], run="r")
    host.guard.receive(ToolResults([result(made)]))
    assert [record.result for record in host.guard.history.records] == ["same", None]


def test_where_the_turn_has_no_id_they_belong_to_the_run_of_the_last_batch() -> None:
    host = Host()
    host.guard.receive(TurnStarted("t"))
    host.guard.receive(TurnStarted())
    host.admit([call()], run="turn-2")
    host.guard.receive(ToolResults([result(call())]))
    host.admit([call()])
    host.guard.receive(ToolResults([result(call())], None))
    assert (host.size(), host.pending()) == (2, 0)


def test_the_history_outlives_turns() -> None:
    host = Host(**SMALL)
    host.run_n(4)
    for event in (StepFinished(), TurnEnded(), TurnStarted("t"), Compacted()):
        host.guard.receive(event)
    assert vetoes([host.run()]) == 1


# --- retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [Retry(), Retry(continuation=True), Fallback()])
def test_calls_of_a_response_that_comes_again_leave_unless_they_have_an_outcome(event: Event) -> None:
    host = Host()
    earlier, answered, lost = call("earlier"), call("answered", call_id="1"), call("lost", call_id="2")
    host.admit([earlier])
    host.guard.receive(StepFinished())
    host.admit([answered, lost])
    host.guard.receive(ToolResults([result(answered)], None))
    host.guard.receive(event)
    assert [record.tool for record in host.guard.history.records] == ["earlier", "answered"]


def test_a_refused_call_that_comes_again_and_runs_is_recorded() -> None:
    host = Host()
    host.admit([call(call_id="1")], [])
    host.guard.receive(Retry())
    host.admit([call(call_id="1")])
    host.guard.receive(ToolResults([result(call(call_id="1"))], None))
    assert (host.size(), host.pending()) == (1, 0)


# --- unknown tools ----------------------------------------------------------------------------------------------------


def test_a_tool_that_does_not_exist_is_told_by_its_error_text_or_by_the_error_type() -> None:
    for more in ({"facts": Facts(unknown_tool="foo")}, {"error_type": "unknown_tool"}):
        host = Host(unknownToolThreshold=3)
        findings = [host.run("foo", str(number), str(number), **more) for number in range(5)]
        assert [brief(finding) for finding in findings] == [None] * 3 + [("critical", "unknown_tool_repeat", 3)] * 2


def test_the_error_type_alone_is_an_outcome() -> None:
    host = Host(unknownToolThreshold=3)
    host.run_n(3, "Foo", outcome=None, error_type="unknown_tool")
    assert (host.size(), host.pending()) == (3, 0)
    assert brief(host.run("foo", "other")) == ("critical", "unknown_tool_repeat", 3)


def test_the_error_text_counts_more_than_the_error_type() -> None:
    host = Host(unknownToolThreshold=2)
    host.run("foo", error_type="unknown_tool")
    host.run("foo", error_type="unknown_tool", facts=Facts(unknown_tool="bar"))
    assert host.run("foo") is None


@pytest.mark.parametrize("error_type", ["invalid_params", "execution", "denied", None])
def test_other_errors_say_nothing_of_the_tool(error_type: str | None) -> None:
    host = Host(unknownToolThreshold=2)
    host.run_n(2, "foo", error_type=error_type)
    assert host.run("foo") is None


# --- forgiving --------------------------------------------------------------------------------------------------------


def forgive(host: Host, finding: Finding | None) -> None:
    assert finding is not None
    host.guard.forgive(finding)


def test_a_forgiven_call_starts_anew() -> None:
    host = Host(str, **SMALL)
    forgive(host, host.run_n(5)[-1])
    assert [brief(finding) for finding in host.run_n(5)] == [
        None,
        None,
        ("warning", "generic_repeat", 2),
        ("warning", "generic_repeat", 3),
        ("critical", "generic_repeat", 4),
    ]


def test_only_that_call_in_that_run_is_forgiven() -> None:
    host = Host(str, **SMALL)
    for run in ("r", "s"):
        host.run_n(4, args="a", run=run)
        host.run_n(4, args="b", run=run)
        host.run_n(4, "other", args="a", run=run)
    vetoed = [call(args="a"), call(args="b"), call("other", "a")]
    ruling = host.check(vetoed, "r")
    assert ruling.refused == {0, 1, 2}
    host.guard.forgive(ruling.findings[0])
    assert host.check(vetoed, "r").refused == {1, 2}
    assert host.check(vetoed, "s").refused == {0, 1, 2}


def test_what_is_forgiven_still_stands_between_others() -> None:
    host = Host(warningThreshold=3)
    for tool in "abcabc":
        host.run(tool)
    assert host.check([call("a")]).findings == ()
    host.guard.history.forgive(None, "b", "{}", is_unknown_tool=False)
    assert host.check([call("a")]).findings == ()


@pytest.mark.parametrize(
    ("script", "tool", "loop_type"),
    [
        ("aba", "b", "ping_pong"),
        ("p" * 4, "p", "known_poll_no_progress"),
        ("r" * 8, "r", "generic_repeat"),
        ("r" * 9, "r", "global_circuit_breaker"),
    ],
)
def test_every_veto_can_be_forgiven(script: str, tool: str, loop_type: str) -> None:
    block = {**SMALL, "detectors": {"genericRepeat": loop_type != "global_circuit_breaker"}}
    host = Host(str, **block)
    names = {"p": POLL}
    for each in script:
        host.run(names.get(each, each))
    ruling = host.check([call(names.get(tool, tool))])
    assert ruling.findings[0].loop_type == loop_type
    assert ruling.refused
    host.guard.forgive(ruling.findings[0])
    assert not host.check([call(names.get(tool, tool))]).refused


def test_an_unknown_tool_is_forgiven_for_all_arguments_and_names() -> None:
    host = Host(str, **SMALL, unknownToolThreshold=2, detectors={"pingPong": False})
    unknown = {"outcome": "e", "error_type": "unknown_tool"}
    host.run_n(2, "foo", "other", facts=Facts(unknown_tool="bar"))
    host.guard.receive(ToolResults([result(call("foo", str(n)), **unknown) for n in range(2)], None))
    ruling = host.check([call("foo", "new")])
    assert brief(ruling.findings[0]) == ("critical", "unknown_tool_repeat", 2)
    host.guard.forgive(ruling.findings[0])
    assert not host.check([call("foo", "new")]).refused
    assert host.run("foo", "new", **unknown) is None
    assert host.run("foo", "new", **unknown) is None
    assert vetoes([host.run("foo", "new")]) == 1


def test_a_forgiven_repeat_of_an_unknown_tool_is_no_forgiven_tool() -> None:
    host = Host(str, **SMALL, unknownToolThreshold=6)
    unknown: dict[str, Any] = {"outcome": "e", "error_type": "unknown_tool"}
    forgive(host, host.run_n(5, "foo", "a", **unknown)[-1])
    host.run("foo", "b", **unknown)
    host.run("foo", "c", **unknown)
    assert brief(host.run("foo", "d")) == ("critical", "unknown_tool_repeat", 6)


def test_a_call_at_hand_is_settled_though_it_was_forgiven() -> None:
    host = Host(str, **SMALL)
    host.run_n(4)
    host.admit([call(call_id="1")])
    ruling = host.check([call()])
    host.guard.forgive(ruling.findings[0])
    host.guard.receive(ToolResults([result(call(call_id="1"))], None))
    assert (host.size(), host.pending()) == (5, 0)


def test_a_veto_can_be_forgiven_after_batches_without_one() -> None:
    host = Host(str, **SMALL)
    finding = host.run_n(5)[-1]
    host.run("other")
    forgive(host, finding)
    assert host.run() is None


@pytest.mark.parametrize("since", ["another veto", "a new turn"])
def test_a_veto_of_long_ago_cannot_be_forgiven(since: str) -> None:
    host = Host(str, **SMALL)
    finding = host.run_n(5)[-1]
    if since == "another veto":
        assert host.run_n(5, "other")[-1] is not None
    else:
        host.guard.receive(TurnStarted("t"))
    before = host.guard.snapshot()
    forgive(host, finding)
    assert host.guard.snapshot() == before


def test_without_a_seal_the_whole_tool_is_meant() -> None:
    host = Host(**SMALL)
    host.run_n(4, args="a")
    host.run_n(4, args="b")
    host.run_n(4, "other", args="a")
    vetoed = [call(args="a"), call(args="b"), call("other", "a")]
    host.guard.forgive(host.check(vetoed).findings[1])
    assert host.check(vetoed).refused == {2}


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_plain_and_holds_everything() -> None:
    host = Host(str, **SMALL, historySize=12, detectors={"pingPong": False})
    hexadecimal = "0123456789abcdef" * 4
    host.guard.receive(TurnStarted("t"))
    host.run_n(11, args=hexadecimal, outcome=hexadecimal, run="r")
    host.run("foo", error_type="unknown_tool")
    host.admit([call("refused", call_id="1"), call("open", call_id="2")], [1], run="r")
    assert host.check([call(args=hexadecimal)], "r").refused
    snapshot = json.loads(json.dumps(host.guard.snapshot()))
    restored = RollingHistoryGuard(host.guard.settings, str)
    restored.restore(snapshot)
    assert json.loads(json.dumps(restored.snapshot())) == snapshot
    assert restored.history.records == host.guard.history.records
    assert restored.buckets.reported == host.guard.buckets.reported
    assert restored.unrecorded.calls == host.guard.unrecorded.calls
    assert tuple(restored.vetoed) == tuple(host.guard.vetoed)
