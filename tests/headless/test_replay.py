"""What every guard would have said of a turn, and before which call."""

from msgspec import Raw
from tests.headless.build import replayed, settings, step, steps, told

from turnguard.headless.replay import replay
from turnguard.transcript import Told
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Compacted,
    Result,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)
from turnguard_protocol.verdicts import Action

SAME = steps(*(step(number, "cat x") for number in range(1, 11)))


def test_a_turn_that_repeats_itself() -> None:
    [turn] = replayed(SAME)
    assert (turn.calls, turn.steps, [count for _, count in turn.repeats()]) == (10, 10, [10])
    assert [(sight.call, sight.finding.guard, sight.finding.action) for sight in turn.sights] == [
        (5, "progress", Action.WARN),
        (6, "progress", Action.HALT),
    ]
    assert turn.halt is turn.sights[1]
    assert turn.warning is turn.sights[0]
    assert turn.saved == 5
    assert {(mark.identity, mark.outcome, mark.ok) for mark in turn.marks} == {(0, 0, True)}
    assert [mark.place for mark in turn.marks] == list(range(1, 11))
    assert turn.identities[0].shown == "Bash (cat)"


def test_every_guard_is_asked_for_itself() -> None:
    """What one would have stopped goes on, and so another comes to what it would have said later."""
    [turn] = replayed(SAME, sets=["model.maxToolCallsPerTurn=7", "turnguard.maxStepsPerTurn=9"])
    assert [(sight.call, sight.finding.loop_type) for sight in turn.sights if sight.finding.action is Action.HALT] == [
        (6, "no_new_evidence"),
        (8, "turn_tool_call_cap"),
        (10, "max_steps_per_turn"),
    ]


def test_a_halt_after_the_last_call_has_the_next_number_and_saves_nothing() -> None:
    [turn] = replayed(SAME[:10])
    assert turn.halt is not None
    assert (turn.calls, turn.halt.call, turn.saved) == (5, 6, 0)


def test_a_productive_turn() -> None:
    [turn] = replayed(steps(*(step(number, f"cat {number}", output=f"{number}") for number in range(40))))
    assert (turn.calls, len(turn.identities), turn.sights, turn.halt, turn.saved) == (40, 40, [], None, 0)


def test_parallel_calls_of_a_message_are_one_step() -> None:
    [turn] = replayed(steps(*(step(number, *["cat x"] * 4) for number in range(3))))
    assert (turn.calls, turn.steps, turn.sights) == (12, 3, [])


def test_the_stream_guard_hears_calls_one_by_one() -> None:
    [turn] = replayed(step(1, *["cat x"] * 8), sets=["turnguard.turnGuard=stream", "turnguard.progress.action=off"])
    assert [(sight.call, sight.finding.loop_type) for sight in turn.sights] == [(5, "consecutive_identical_tool_calls")]


def test_turns_are_split_and_each_starts_afresh() -> None:
    turns = replayed(SAME[:6], SAME[:6])
    assert [(turn.number, turn.calls, turn.halt, turn.place, turn.began) for turn in turns] == [
        (1, 3, None, 1_000, "2026-01-01T00:01:00Z"),
        (2, 3, None, 2_000, "2026-01-01T00:02:00Z"),
    ]
    assert turns[0].ended == "2026-01-01T00:00:03Z"


def test_a_transcript_that_begins_in_the_midst_of_a_turn() -> None:
    [turn] = replay(SAME, settings())
    assert (turn.number, turn.calls, turn.place) == (1, 10, 1)


def test_an_id_that_comes_again_in_another_turn_is_another_call() -> None:
    """Programs that number their calls begin again; within a turn it would be a call that came twice."""
    turns = replayed(*[SAME[:6]] * 5)
    assert [turn.sights for turn in turns] == [[], [], [], [], []]


def test_the_end_of_a_turn_is_told() -> None:
    end = Told(TurnEnded("cancelled"), at="2026-01-01T09:00:00Z")
    [turn] = replay([Told(TurnStarted(origin="cron")), *SAME[:4], end], settings())
    assert (turn.origin, turn.outcome, turn.ended) == ("cron", "cancelled", "2026-01-01T09:00:00Z")


def test_sessions_of_one_file_have_turns_of_their_own() -> None:
    other = [each._replace(session="b") for each in SAME]
    mixed = [each for pair in zip(SAME, other, strict=True) for each in pair]
    turns = list(replay(mixed, settings()))
    assert [(turn.session, turn.calls, turn.halt and turn.halt.call) for turn in turns] == [(None, 10, 6), ("b", 10, 6)]


def test_a_subagent_repeats_nothing_of_the_main_conversation() -> None:
    """Each made the call three times; six times would be too many."""
    mixed = steps(*(step(number, "cat x") + step(number, "cat x", scope="sub") for number in range(3)))
    [turn] = replayed(mixed)
    assert turn.halt is None
    assert [(identity.scope, count) for identity, count in turn.repeats()] == [(None, 3), ("sub", 3)]


def test_results_that_are_not_known() -> None:
    [turn] = replayed(steps(*(step(number, "cat x", output=None) for number in range(10))))
    assert {mark.outcome for mark in turn.marks} == {None}
    assert {mark.ok for mark in turn.marks} == {None}


def test_a_compaction_is_placed_and_arms_its_guard() -> None:
    [turn] = replayed([*SAME[:4], Told(Compacted()), *SAME[4:]], sets=["turnguard.progress.action=off"])
    assert turn.compactions == [2]
    assert [(sight.call, sight.finding.loop_type) for sight in turn.sights] == [(6, "compaction_loop_persisted")]


def test_a_compaction_of_the_turn_before_arms_nothing() -> None:
    [_, turn] = replayed([Told(Compacted())], SAME[:8], sets=["turnguard.progress.action=off"])
    assert turn.sights == []


def test_openclaws_history_is_asked_where_it_is_switched_on() -> None:
    sets = ["turnguard.progress.action=off", "tools.loopDetection.enabled=true"]
    [turn] = replayed(steps(*(step(number, "cat x") for number in range(1, 40))), sets=sets)
    assert [sight.finding.guard for sight in turn.sights][:1] == ["loopDetection"]
    [turn] = replayed(steps(*(step(number, "cat x") for number in range(1, 40))), sets=sets[:1])
    assert turn.sights == []


def test_a_call_that_becomes_known_later_counts_as_what_it_is() -> None:
    lines = [
        Told(ToolCalls([Call("Bash", "1", key="unknown", fidelity="none")])),
        Told(CallRekeyed("1", key="k")),
        Told(ToolResults([Result("1", outcome="o")])),
        Told(ToolCalls([Call("Bash", "2", key="k")])),
    ]
    [turn] = replay(lines, settings())
    assert [mark.identity for mark in turn.marks] == [1, 1]
    assert [(identity.tool, count) for identity, count in turn.repeats()] == [("Bash", 2)]


def test_calls_of_unknown_identity_are_never_the_same() -> None:
    lines = [Told(ToolCalls([Call("Bash", str(number), key="unknown", fidelity="none")])) for number in range(3)]
    [turn] = replay(lines, settings())
    assert [count for _, count in turn.repeats()] == [1, 1, 1]


def test_events_that_cannot_be_taken_are_left_out() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    lines = step(1, "cat x")
    broken = Told(ToolCalls([Call("Bash", "deep", args=Raw(deep))]), message="m9")
    [turn] = replay(told([[*lines, broken, *step(2, "cat x")]]), settings())
    assert turn.calls == 2


def test_what_a_model_says_of_a_command_is_no_part_of_it() -> None:
    lines: list[Told] = []
    for number in range(8):
        args = Raw(f'{{"command":"npm test","description":"Try number {number}"}}'.encode())
        lines.append(Told(ToolCalls([Call("Bash", f"c{number}", args)]), message=f"m{number}"))
        lines.append(Told(ToolResults([Result(f"c{number}", output=Raw(b'"1 failing"'))])))
    [turn] = replay(lines, settings())
    assert (len(turn.repeats()), turn.halt and turn.halt.call) == (1, 6)
