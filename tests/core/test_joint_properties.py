"""What holds for any settings of a person, any of a project, and any events: a project makes no verdict milder."""

from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.build import call
from tests.core.test_session_properties import many, overrides, records, sections
from turnguard.core.joint import JointGuard
from turnguard.core.session import STRICTNESS, EventError, SessionGuard
from turnguard.settings.guarded import GuardedSession, InForce, in_force_of
from turnguard.settings.layers import CLIENT, PROJECT, USER, Layer, Merged, combined, values_of
from turnguard.settings.sources import Found
from turnguard_protocol.events import Call, ToolCalls, TurnStarted
from turnguard_protocol.settings import Settings, SettingsInForce
from turnguard_protocol.verdicts import NextStep, SessionStatus, Verdict

Strategy = st.SearchStrategy[Any]

seen: Counter[str] = Counter()
"""How often the project's settings made an answer stricter, by the answer that they made it."""

actions: Strategy = st.lists(overrides, min_size=8, max_size=40)

eager: Strategy = st.fixed_dictionaries(
    {},
    optional={
        "model": st.fixed_dictionaries(
            {}, optional={"maxToolCallsPerTurn": st.integers(-1, 12), "skipLoopDetection": st.booleans()}
        ),
        "tools": st.fixed_dictionaries(
            {
                "loopDetection": st.fixed_dictionaries(
                    {},
                    optional={
                        "enabled": st.just(True),
                        "historySize": st.sampled_from([1, 60]),
                        "warningThreshold": st.integers(1, 3),
                        "unknownToolThreshold": st.integers(1, 3),
                        "postCompactionGuard": st.just({"windowSize": 1}),
                    },
                )
            }
        ),
        "loopShield": st.fixed_dictionaries(
            {},
            optional={
                "enabled": st.booleans(),
                "maxConsecutiveTools": st.integers(0, 4),
                "mode": st.sampled_from(["consecutive", "repeated"]),
                "admission": st.sampled_from(["batch", "call"]),
            },
        ),
        "turnguard": st.fixed_dictionaries(
            {},
            optional={
                "repeatedFailures": st.sampled_from(["off", "enforce"]),
                "admission": st.sampled_from(["batch", "call"]),
                "maxBlocksPerTurn": st.integers(0, 2),
                "maxStepsPerTurn": st.integers(1, 6),
                "shadow": st.booleans(),
                "progress": st.fixed_dictionaries({"action": st.sampled_from(["off", "halt"])}),
            },
        ),
    },
)
"""A project's file that says little, and mostly what tightens."""
projects: Strategy = st.one_of(eager, eager, eager, sections)


def said(sections_of_one: Any) -> dict[str, Any]:
    return values_of(msgspec.convert(sections_of_one, Settings))


def force(person: Any, project: Any) -> InForce:
    """What is in force with a project's file; without one where it is None."""
    layers = [Layer(CLIENT, said(person))]
    tightening = [] if project is None else [Layer(PROJECT, said(project), "/p/.turnguard/settings.json")]
    found = Found((), tuple(tightening), (), Path("/p"))
    return in_force_of(Merged(layers, tightening), found)


def own_and_tightened(person: Any, project: Any) -> tuple[SettingsInForce, SettingsInForce]:
    settings = force(person, project)
    return settings.own, settings.strictest


def is_no_milder(verdict: Verdict, than: Verdict) -> None:
    assert STRICTNESS[verdict.action] >= STRICTNESS[than.action]
    assert set(verdict.admitted) <= set(than.admitted)
    if verdict.action is not than.action:
        seen[verdict.action.value] += 1
    assert verdict.turn_id == than.turn_id
    ranks = [STRICTNESS[finding.action] for finding in verdict.findings]
    assert ranks == sorted(ranks, reverse=True)


def withholds_no_less(step: NextStep, than: NextStep) -> None:
    assert step.tool_choice == "none" or than.tool_choice == "auto"
    if than.active_tools is not None:
        assert step.active_tools is not None
        assert set(step.active_tools) <= set(than.active_tools)


def stands_no_better(status: SessionStatus, than: SessionStatus) -> None:
    assert status.state == than.state or status.state == "halted"
    assert status.turn_id == than.turn_id


def override(guard: JointGuard, alone: SessionGuard, action: Any) -> None:
    """An override of both. What only the project's settings halted is nothing to raise without them."""
    # The batch did not run with the project's settings; without them it would not come again.
    alone.take_back(msgspec.convert(guard.snapshot()["refused"], list[Call]))
    is_projects = guard.project.status().state == "halted" != guard.own.status().state
    guard.override(action, calls=3)
    if not (is_projects and action == "raiseCap"):
        alone.override(action, calls=3)


def same_error(guard: Any, alone: SessionGuard, record: Any) -> Verdict | None:
    """The verdict without the project's settings; None where the record cannot be taken, with them or without."""
    try:
        alone.validate(record)
    except EventError as error:
        with pytest.raises(EventError) as caught:
            guard.record(record)
        assert (caught.value.path, caught.value.message) == (error.path, error.message)
        return None
    return alone.record(record)


@many
@given(sections, projects, records, actions, st.booleans())
def test_a_project_makes_no_answer_milder_and_leaves_the_persons_own_guard_alone(
    person: Any, project: Any, script: Any, overriding: Any, prepares: bool
) -> None:
    own, tightened = own_and_tightened(person, project)
    alone = SessionGuard("s", own)
    guard = JointGuard(SessionGuard("s", own), own, tightened)
    for record, action in zip(script, cycle(overriding), strict=False):
        if prepares:
            withholds_no_less(guard.prepare_step(), alone.prepare_step())
        if action is not None:
            override(guard, alone, action)
        verdict = same_error(guard, alone, record)
        if verdict is not None:
            is_no_milder(guard.record(record), verdict)
        assert guard.own.snapshot() == alone.snapshot()
        stands_no_better(guard.status(), alone.status())
    summary, of_one_alone = guard.close(), alone.close()
    assert (summary and summary.turn_id) == (of_one_alone and of_one_alone.turn_id)


@many
@given(sections, st.lists(st.one_of(st.none(), projects), min_size=2, max_size=6), records)
def test_no_answer_is_milder_however_often_a_projects_file_changes(person: Any, files: Any, script: Any) -> None:
    without, forces = force(person, None), [force(person, file) for file in files]
    alone = SessionGuard("s", without.own)
    guarded = GuardedSession("s", forces[0])
    for number, (record, now) in enumerate(zip(script, cycle(forces), strict=False)):
        if number % 3 == 0:
            guarded.take(now)
        verdict = same_error(guarded, alone, record)
        if verdict is not None:
            is_no_milder(guarded.record(record), verdict)
        withholds_no_less(guarded.prepare_step(), alone.prepare_step())
        stands_no_better(guarded.status(), alone.status())
        assert guarded._own.snapshot() == alone.snapshot()  # pyright: ignore[reportPrivateUsage]


@many
@given(sections, projects, records, actions)
def test_snapshot_and_restore_change_no_later_answer(person: Any, project: Any, script: Any, overriding: Any) -> None:
    own, tightened = own_and_tightened(person, project)
    guard = JointGuard(SessionGuard("s", own), own, tightened)
    for record, action in zip(script, cycle(overriding), strict=False):
        restored = JointGuard(SessionGuard("s", own), own, tightened)
        restored.restore(msgspec.json.decode(msgspec.json.encode(guard.snapshot())))
        assert restored.prepare_step() == guard.prepare_step()
        if action is not None:
            restored.override(action, calls=3)
            guard.override(action, calls=3)
        try:
            verdict = guard.record(record)
        except EventError:
            continue
        assert restored.record(record) == verdict
        assert restored.status() == guard.status()
        assert restored.snapshot() == guard.snapshot()


@many
@given(sections, projects, records)
def test_a_record_that_fails_changes_neither(person: Any, project: Any, script: Any) -> None:
    own, tightened = own_and_tightened(person, project)
    guard = JointGuard(SessionGuard("s", own), own, tightened)
    bad = ToolCalls([call(), msgspec.structs.replace(call(), args=msgspec.Raw(b"{"))])
    for record in script:
        before = guard.snapshot()
        with pytest.raises(EventError):
            guard.record([TurnStarted(), *record, bad])
        assert guard.snapshot() == before
        try:
            guard.record(record)
        except EventError:
            assert guard.snapshot() == before


# --- merging ----------------------------------------------------------------------------------------------------------

layers: Strategy = st.builds(
    lambda origin, one: Layer(origin, said(one), f"/{origin}"), st.sampled_from([USER, CLIENT, "x"]), projects
)


@many
@given(layers, layers, layers)
def test_merging_is_associative(one: Layer, two: Layer, three: Layer) -> None:
    """It does not matter which two of three are merged first; and a layer that says nothing changes nothing."""
    lowest = combined({}, one)
    from_below = combined(combined(lowest, two), three)
    from_above = {**lowest, **combined(combined({}, two), three)}
    assert from_below == from_above
    assert combined(lowest, Layer("nobody", {})) == lowest
    assert combined(lowest, one) == lowest


@many
@given(layers, layers, layers)
def test_two_layers_are_as_one_that_says_what_they_come_to(one: Layer, two: Layer, three: Layer) -> None:
    both = Layer("both", {**two.values, **three.values})
    split, joined = Merged([one, two, three]), Merged([one, both])
    assume(split.error is None)  # what makes no sense together is left out by who said it
    assert {name: held.value for name, held in split.held.items()} == {
        name: held.value for name, held in joined.held.items()
    }


@many
@given(sections, projects)
def test_what_a_project_says_twice_it_says_once(person: Any, project: Any) -> None:
    mine, file = [Layer(CLIENT, said(person))], Layer(PROJECT, said(project), "/p")
    once, twice = Merged(mine, [file]), Merged(mine, [file, file])
    assert once.held == twice.held
    assert once.own == Merged(mine).own


@pytest.fixture(scope="module", autouse=True)
def print_histogram() -> Iterator[None]:
    yield
    print("\nstricter: " + ", ".join(f"{key} {count}" for key, count in seen.most_common()))
    assert set(seen) == {"warn", "restrict", "block", "halt"}
