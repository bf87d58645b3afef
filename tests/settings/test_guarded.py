"""What changes for a session that runs when its settings do: what tightens at once, what loosens when the user says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, Raw

from tests.build import call, calls, distinct, same
from turnguard.core.session import EventError
from turnguard.settings.guarded import GuardedSession, InForce, in_force_of
from turnguard.settings.layers import (
    CLIENT,
    COMMAND_LINE,
    PROJECT,
    TRUSTED_PROJECT,
    USER,
    WORKSPACE,
    Layer,
    Merged,
)
from turnguard.settings.problems import MAX_SHOWN
from turnguard.settings.sources import Found
from turnguard_protocol.events import Call, ToolCalls, TurnEnded, TurnStarted
from turnguard_protocol.settings import SettingsProblem
from turnguard_protocol.verdicts import Action, Verdict

CAP = "model.maxToolCallsPerTurn"
LOOP = "tools.loopDetection"
SHADOW = "turnguard.shadow"
FILE = "/p/.turnguard/settings.json"

NOT_THE_USER = ["hook", "cron", "notification", "channel", "goal", "User", ""]

BROKEN = Raw(b"{")
"""Arguments that are no JSON."""

Said = dict[str, Any]


def force(
    client: Said | None = None,
    *,
    user: Said | None = None,
    trusted: Said | None = None,
    given: Said | None = None,
    project: Said | None = None,
    workspace: Said | None = None,
    agent_id: str | None = None,
    problems: Sequence[SettingsProblem] = (),
) -> InForce:
    """What is in force when each source says so."""
    layers = [
        Layer(USER, user or {}, "/u/settings.json"),
        Layer(TRUSTED_PROJECT, trusted or {}, FILE),
        Layer(COMMAND_LINE, given or {}),
    ]
    tightening = [Layer(PROJECT, project or {}, FILE)]
    found = Found(tuple(layers), tuple(tightening), tuple(problems), Path("/p"))
    merged = Merged(
        [*layers, Layer(CLIENT, client or {})], [*tightening, Layer(WORKSPACE, workspace or {})], agent_id=agent_id
    )
    return in_force_of(merged, found)


def of(source: str, said: Said) -> InForce:
    """What is in force when one source says so."""
    more: Any = {source: said}
    return force(**more)


class Playing:
    """A session, and what it is told."""

    def __init__(self, settings: InForce) -> None:
        self.session = GuardedSession("s", settings)
        self.told: list[str] = []
        self.asked = 0

    def record(self, *events: Any) -> Verdict:
        verdict = self.session.record(events)
        if isinstance(verdict.notices, list):
            assert verdict.notices
            self.told += verdict.notices
        return verdict

    def ask(self, count: int = 1) -> Action:
        """The answer to a batch of calls like no other."""
        self.asked += count
        return self.record(distinct(count, self.asked)).action

    def start(self, origin: str = "user") -> None:
        self.record(TurnStarted(origin=origin))

    @property
    def cap(self) -> int | None:
        return self.session.status().cap.value

    @property
    def changes(self) -> list[str]:
        return [notice for notice in self.told if notice.startswith("Settings have changed: ")]


def begun(settings: InForce) -> Playing:
    """A session in the midst of a turn that the user started."""
    playing = Playing(settings)
    playing.start()
    playing.ask()
    playing.told.clear()
    return playing


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["user", "trusted", "project", "workspace"])
def test_a_file_tightens_at_once(source: str) -> None:
    playing = begun(force())
    playing.session.take(of(source, {CAP: 3}))
    assert playing.ask(2) is Action.ALLOW
    assert playing.ask() is Action.HALT
    assert len(playing.changes) == 1
    assert f"{CAP} is now 3 (" in playing.changes[0]


@pytest.mark.parametrize("source", ["user", "trusted"])
@pytest.mark.parametrize("origin", NOT_THE_USER)
def test_a_file_loosens_at_a_turn_of_the_users_only(source: str, origin: str) -> None:
    """An agent that edits the user's file does not loosen what holds for its turn, nor for one it has itself given."""
    playing = begun(of(source, {CAP: 3}))
    playing.session.take(of(source, {CAP: 0}))
    assert playing.cap == 3
    playing.start(origin)
    assert (playing.ask(3), playing.ask()) == (Action.ALLOW, Action.HALT)
    playing.record(TurnEnded())
    assert playing.changes == []
    playing.start()
    assert playing.cap is None
    assert playing.ask(200) is Action.ALLOW
    assert playing.told == playing.changes
    assert [CAP in change for change in playing.changes] == [True]


@pytest.mark.parametrize("source", ["user", "trusted", "project", "workspace"])
def test_a_file_that_goes_loosens_at_a_turn_of_the_users_only(source: str) -> None:
    playing = begun(of(source, {CAP: 3}))
    playing.session.take(force())
    assert playing.ask(2) is Action.ALLOW
    assert playing.ask() is Action.HALT
    playing.start("cron")
    assert playing.cap == 3
    playing.start()
    assert playing.session.status().cap.explicit is False
    assert len(playing.changes) == 1


def test_a_file_cannot_loosen_in_several_steps() -> None:
    playing = begun(force(user={CAP: 3}))
    for limit in (4, 50, 0):
        playing.session.take(force(user={CAP: limit}))
        assert playing.cap == 3
    playing.session.take(force(user={CAP: 2}))
    assert playing.cap == 2
    playing.session.take(force(user={CAP: 3}))
    assert playing.cap == 2
    playing.start()
    assert playing.cap == 3


def test_one_edit_that_tightens_and_loosens() -> None:
    playing = begun(force(user={CAP: 50, SHADOW: False, "turnguard.maxStepsPerTurn": 90}))
    playing.session.take(force(user={CAP: 3, SHADOW: True, "turnguard.maxStepsPerTurn": 900}))
    assert playing.cap == 3
    assert playing.ask(3) is Action.HALT
    assert len(playing.changes) == 1
    assert SHADOW not in playing.changes[0]
    playing.start()
    assert playing.ask(4) is Action.ALLOW
    assert len(playing.changes) == 2
    assert SHADOW in playing.changes[1]
    assert f"{CAP} is now" not in playing.changes[1]


def test_a_setting_that_nothing_tightens_waits_for_the_user() -> None:
    playing = begun(force(user={"turnguard.turnGuard": "stream"}))
    playing.session.take(force(user={"turnguard.turnGuard": "batch"}))
    assert playing.record(same(5)).action is Action.HALT  # the stream guard's five in a row
    playing.start()
    assert playing.record(same(5)).action is Action.ALLOW


def test_what_waits_is_told_as_it_will_be_and_then_never_again() -> None:
    playing = begun(force(user={CAP: 3}))
    playing.session.take(force(user={CAP: 30}))
    assert playing.told == []
    playing.start()
    for _ in range(3):
        playing.ask()
        playing.start()
    assert len(playing.told) == 1
    assert f"{CAP} is now 30 (user), it was 3" in playing.told[0]


def test_a_record_that_cannot_be_taken_lets_nothing_loosen() -> None:
    playing = begun(force(user={CAP: 3}))
    playing.session.take(force(user={CAP: 0}))
    broken = ToolCalls([Call("x", args=call().args), Call("x", args=BROKEN)])
    with pytest.raises(EventError):
        playing.session.record([TurnStarted(), broken])
    assert playing.cap == 3


def test_a_turn_that_calls_open_by_themselves_is_not_the_users() -> None:
    playing = begun(force(user={CAP: 3}))
    playing.session.take(force(user={CAP: 0}))
    playing.record(TurnEnded())
    assert playing.ask(4) is Action.HALT


# --- the client -------------------------------------------------------------------------------------------------------


def test_what_the_client_says_holds_at_once() -> None:
    playing = begun(force({CAP: 3}))
    playing.session.take(force({CAP: 0}))
    assert playing.cap is None
    playing.session.take(force({CAP: 2}))
    assert playing.cap == 2
    playing.session.take(force())
    assert playing.session.status().cap.explicit is False
    assert playing.told == []


def test_what_the_client_no_longer_says_lets_a_file_speak_at_once() -> None:
    playing = begun(force({CAP: 3}, user={CAP: 30}))
    playing.session.take(force(user={CAP: 30}))
    assert playing.cap == 30


def test_the_client_stands_above_a_persons_file_at_once() -> None:
    playing = begun(force(user={CAP: 3}))
    playing.session.take(force({CAP: 50}, user={CAP: 3}))
    assert playing.cap == 50
    playing.session.take(force({CAP: 50}, user={CAP: 0}))
    assert playing.cap == 50


def test_a_projects_file_that_goes_does_not_let_the_clients_value_speak_mid_turn() -> None:
    playing = begun(force({CAP: 50}, project={CAP: 3}))
    playing.session.take(force({CAP: 50}))
    assert playing.cap == 3
    playing.start("hook")
    assert playing.cap == 3
    playing.start()
    assert playing.cap == 50


def block(switch: bool) -> Said:
    return {"agents.list": [{"id": "a", "tools": {"loopDetection": {"enabled": switch}}}]}


def test_an_agents_block_in_a_file_stands_above_the_client_and_waits_all_the_same() -> None:
    """It is laid over all layers, so it could otherwise switch off what the client had switched on."""
    strict = {f"{LOOP}.enabled": True, f"{LOOP}.warningThreshold": 2, f"{LOOP}.criticalThreshold": 3}
    playing = begun(force(strict, agent_id="a"))
    playing.session.take(force(strict, user=block(switch=False), agent_id="a"))
    actions = [playing.record(same(1)).action for _ in range(4)]
    assert actions[-1] is Action.WARN
    playing.start()
    assert [playing.record(same(1)).action for _ in range(4)] == [Action.ALLOW] * 4
    assert [f"{LOOP}.enabled is now false" in change for change in playing.changes] == [True]


def test_an_agents_block_that_goes_from_a_file_does_not_loosen_what_the_client_says() -> None:
    mild = {f"{LOOP}.enabled": False, f"{LOOP}.warningThreshold": 2, f"{LOOP}.criticalThreshold": 3}
    playing = begun(force(mild, user=block(switch=True), agent_id="a"))
    playing.session.take(force(mild, agent_id="a"))
    assert [playing.record(same(1)).action for _ in range(4)][-1] is Action.WARN
    playing.start()
    assert [playing.record(same(1)).action for _ in range(4)] == [Action.ALLOW] * 4


def test_an_agents_block_of_the_client_is_the_clients() -> None:
    strict = {f"{LOOP}.warningThreshold": 2, f"{LOOP}.criticalThreshold": 3}
    playing = begun(force(strict | block(switch=True), agent_id="a"))
    playing.session.take(force(strict | block(switch=False), agent_id="a"))
    assert [playing.record(same(1)).action for _ in range(4)] == [Action.ALLOW] * 4
    assert playing.told == []


# --- a halt -----------------------------------------------------------------------------------------------------------


def test_a_halt_by_a_projects_settings_outlives_them_until_the_turn_is_over() -> None:
    """Also where nothing tightens any more, since the client says the same by now."""
    playing = begun(force(project={CAP: 1}))
    assert playing.ask() is Action.HALT
    playing.session.take(force({CAP: 1}))
    assert playing.session.status().state == "halted"
    assert playing.ask() is Action.HALT
    playing.session.take(force())
    assert playing.ask() is Action.HALT
    playing.start("cron")
    assert playing.ask() is Action.ALLOW


def test_the_second_guard_goes_with_a_turn_of_the_users_and_comes_back() -> None:
    playing = begun(force(project={CAP: 5}))
    playing.session.take(force({CAP: 4}))
    assert playing.session._is_waiting  # pyright: ignore[reportPrivateUsage]
    playing.start()
    assert not playing.session._is_waiting  # pyright: ignore[reportPrivateUsage]
    assert (playing.ask(4), playing.ask()) == (Action.ALLOW, Action.HALT)
    playing.session.take(force({CAP: 4}, project={CAP: 2}))
    playing.start()
    assert (playing.ask(2), playing.ask()) == (Action.ALLOW, Action.HALT)


def test_a_project_that_tightens_in_the_midst_of_a_turn_knows_what_came_before() -> None:
    playing = begun(force())
    playing.ask(9)
    playing.session.take(force(project={CAP: 12}))
    assert playing.ask(2) is Action.ALLOW
    assert playing.ask() is Action.HALT


def test_the_halt_of_a_project_names_its_file_and_can_be_passed() -> None:
    playing = begun(force(project={CAP: 1}))
    verdict = playing.record(distinct(2, 50))
    assert verdict.action is Action.HALT
    assert FILE in str(verdict.user_message)
    playing.session.override("continueOnce", turn_id=verdict.turn_id)
    assert playing.record(distinct(2, 50)).admitted == [0, 1]


# --- notices ----------------------------------------------------------------------------------------------------------

PROBLEM = SettingsProblem(origin="user", source="/u/settings.json", line=3, path="$.x", message="there is no such key")


def test_what_does_not_hold_is_told_once_with_the_first_verdict() -> None:
    playing = Playing(force(project={CAP: 500, SHADOW: True}, workspace={CAP: 0}, problems=[PROBLEM]))
    playing.session.prepare_step()
    playing.session.status()
    playing.record(TurnStarted())
    problem, project, workspace = playing.told
    assert problem == "Settings: /u/settings.json:3: $.x: there is no such key"
    assert project.startswith(f"Settings of the project's file {FILE} that do not hold: {CAP} 500 (")
    assert f"{SHADOW} true (" in project
    assert project.endswith(" To accept them: turnguard trust /p")
    assert workspace.startswith(f"Settings of the workspace that do not hold: {CAP} 0 (")
    for _ in range(3):
        playing.ask()
        playing.start()
    assert len(playing.told) == 3


def test_without_anything_to_tell_there_are_no_notices() -> None:
    playing = Playing(force(user={CAP: 50}, project={CAP: 50, SHADOW: False, "turnguard.turnGuard": "batch"}))
    assert playing.record(TurnStarted()).notices is UNSET


def test_a_record_that_fails_keeps_what_is_to_be_told() -> None:
    playing = Playing(force(project={CAP: 500}))
    with pytest.raises(EventError):
        playing.session.record([calls(Call("x", args=BROKEN))])
    playing.start()
    assert len(playing.told) == 1


def test_only_what_is_new_is_told_when_files_change() -> None:
    playing = begun(force(project={CAP: 500}))
    playing.session.take(force(project={CAP: 500}))
    playing.ask()
    assert playing.told == []
    playing.session.take(force(project={CAP: 600}))
    playing.session.take(force(project={CAP: 700}))
    playing.session.take(force(project={CAP: 600}))
    playing.session.take(force(project={CAP: 700}))
    playing.ask()
    assert sorted(notice.count(f"{CAP} 600") for notice in playing.told) == [0, 1]


def test_a_projects_file_cannot_fill_a_notice_or_steer_a_terminal() -> None:
    states = {"a\x1b[2J\u202e" + "x" * 100_000: ["y"]}
    playing = Playing(force(project={"loopShield.states": states, "agents.list": [{"id": "\u202e" * 10}]}))
    playing.start()
    (told,) = playing.told
    assert len(told) < 1000 + 4 * MAX_SHOWN
    assert told.isprintable()


# --- loopShield -------------------------------------------------------------------------------------------------------


SHIELD = "loopShield."


def test_halves_of_a_shield_fit_or_the_projects_half_is_ignored() -> None:
    playing = Playing(force(project={SHIELD + "enabled": True}))
    playing.start()
    assert [SHIELD + "enabled true" in notice for notice in playing.told] == [True]
    whole = Playing(force(user={SHIELD + "maxConsecutiveTools": 2}, project={SHIELD + "enabled": True}))
    whole.start()
    whole.ask(2)
    whole.session.prepare_step()
    assert whole.told == []
    assert whole.session.prepare_step().tool_choice == "none"


def test_a_shield_whose_half_goes_from_a_file_stays_as_it_was_until_the_user_starts_a_turn() -> None:
    states = {"A": ["x"], "B": ["y"]}
    playing = begun(force(user={SHIELD + "states": states, SHIELD + "initialState": "B"}))
    assert playing.session.status().budget_state == "B"
    playing.session.take(force(user={SHIELD + "states": {"C": []}, SHIELD + "initialState": "C"}))
    assert playing.session.status().budget_state == "B"
    playing.start("cron")
    assert playing.session.status().budget_state == "B"
    playing.start()
    assert playing.session.status().budget_state == "C"


def test_half_of_an_old_shield_and_half_of_a_new_one_need_not_fit() -> None:
    """The client's half changes at once and the file's waits; where they do not fit, the old ones stay together."""
    mine = {SHIELD + "initialState": "A"}
    playing = begun(force(mine, user={SHIELD + "states": {"A": ["x"]}}))
    playing.session.take(force({SHIELD + "initialState": "B"}, user={SHIELD + "states": {"B": ["x"]}}))
    assert playing.session.status().budget_state == "A"
    assert playing.ask() is Action.ALLOW
    playing.start()
    assert playing.session.status().budget_state == "B"
