from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.build import call, calls, distinct
from turnguard.core.bounds import IDLE_SESSION_SECONDS, MAX_TOLD_FINDINGS
from turnguard.service.errors import INVALID_PARAMS, REQUEST_FAILED, STALE_TURN, UNKNOWN_SESSION, RequestError
from turnguard.service.sessions import Sessions
from turnguard.settings.files import read_file
from turnguard.settings.layers import Merged
from turnguard.settings.places import seal_of
from turnguard.settings.sources import LOOK_SECONDS, Sources
from turnguard.settings.trust import trust
from turnguard_protocol.events import Call, ToolCalls, TurnStarted
from turnguard_protocol.methods import (
    CloseSession,
    GetSettings,
    GetStatus,
    ListSessions,
    OpenSession,
    Override,
    PrepareStep,
    Record,
)
from turnguard_protocol.settings import Settings
from turnguard_protocol.verdicts import Action


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock, limit=3)


def cap(calls: int | None) -> Settings:
    return msgspec.convert({"model": {"maxToolCallsPerTurn": calls}}, Settings)


def value_and_origin(sessions: Sessions, session_id: str | None, name: str = "model.maxToolCallsPerTurn") -> Any:
    report = sessions.settings(GetSettings(session_id))
    return next((each.value, each.origin) for each in report.values if each.name == name)


def changed_states(sessions: Sessions) -> list[tuple[str, str, int]]:
    statuses: list[Any] = [notice.params for notice in sessions.take_changes()]
    return [(status.session_id, status.state, status.totals.tool_calls) for status in statuses]


def test_an_open_id_returns_its_session(sessions: Sessions) -> None:
    sessions.open(OpenSession("s", agent_id="agent", cwd="/w"))
    sessions.record(Record("s", [distinct(2)]))
    status = sessions.open(OpenSession("s", agent_id="other"))
    assert (status.agent_id, status.cwd, status.totals.tool_calls) == ("agent", "/w", 2)


def test_an_id_is_made_where_none_is_given(sessions: Sessions) -> None:
    ids = {sessions.open(OpenSession()).session_id for _ in range(3)}
    assert len(ids) == 3
    assert {status.session_id for status in sessions.list_all(ListSessions()).sessions} == ids


def test_no_more_sessions_than_the_limit(sessions: Sessions) -> None:
    for name in "abc":
        sessions.open(OpenSession(name))
    with pytest.raises(RequestError, match="at most 3") as caught:
        sessions.open(OpenSession("d"))
    assert caught.value.code == REQUEST_FAILED
    assert sessions.open(OpenSession("a")).session_id == "a"
    sessions.close(CloseSession("a"))
    sessions.open(OpenSession("d"))


def test_sessions_nobody_spoke_of_are_dropped(sessions: Sessions, clock: Clock) -> None:
    for name in "abc":
        sessions.open(OpenSession(name))
    clock.now += IDLE_SESSION_SECONDS - 1
    sessions.status(GetStatus("b"))
    clock.now += 1
    with pytest.raises(RequestError) as caught:
        sessions.status(GetStatus("a"))
    assert caught.value.code == UNKNOWN_SESSION
    assert [status.session_id for status in sessions.list_all(ListSessions()).sessions] == ["b"]
    clock.now += IDLE_SESSION_SECONDS
    sessions.open(OpenSession("d"))
    assert [status.session_id for status in sessions.list_all(ListSessions()).sessions] == ["d"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda sessions: sessions.record(Record("x", [])),
        lambda sessions: sessions.prepare_step(PrepareStep("x")),
        lambda sessions: sessions.override(Override("x", "disable")),
        lambda sessions: sessions.status(GetStatus("x")),
        lambda sessions: sessions.settings(GetSettings("x")),
        lambda sessions: sessions.close(CloseSession("x")),
    ],
)
def test_an_unknown_session_is_named(sessions: Sessions, ask: Any) -> None:
    with pytest.raises(RequestError) as caught:
        ask(sessions)
    assert caught.value.code == UNKNOWN_SESSION
    assert caught.value.data == {"errorKind": "session_not_found", "sessionId": "x"}


def test_a_closed_session_is_gone(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    assert sessions.close(CloseSession("s")) is None
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [TurnStarted("t"), distinct(3)]))
    summary = sessions.close(CloseSession("s"))
    assert summary is not None
    assert (summary.turn_id, summary.totals.tool_calls) == ("t", 3)
    with pytest.raises(RequestError):
        sessions.status(GetStatus("s"))


def test_every_layer_is_told_apart(sessions: Sessions) -> None:
    assert value_and_origin(sessions, None) == (None, "default")
    sessions.configure(cap(50), "turnguard")
    assert value_and_origin(sessions, None) == (50, "client")
    sessions.open(OpenSession("s", settings=cap(20)))
    assert value_and_origin(sessions, "s") == (20, "client")
    sessions.open(OpenSession("w", settings=cap(20), workspace_settings=cap(10)))
    assert value_and_origin(sessions, "w") == (10, "workspace")
    sessions.open(OpenSession("n", settings=cap(None)))
    assert value_and_origin(sessions, "n") == (50, "client")


def test_other_settings_hold_for_open_sessions_from_the_next_event(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.open(OpenSession("own", settings=cap(50)))
    for name in ("s", "own"):
        sessions.record(Record(name, [distinct(4)]))
    sessions.configure(cap(4), "turnguard")
    assert sessions.record(Record("s", [distinct(1, start=10)])).action is Action.HALT
    assert sessions.record(Record("own", [distinct(1, start=10)])).action is Action.ALLOW
    sessions.configure(None, "turnguard")
    assert value_and_origin(sessions, "s") == (None, "default")


def settings(**sections: Any) -> Settings:
    return msgspec.convert(sections, Settings)


NO_SENSE = settings(loopShield={"enabled": True})


def test_settings_that_make_no_sense_together_open_no_session(sessions: Sessions) -> None:
    with pytest.raises(RequestError) as caught:
        sessions.open(OpenSession("s", settings=NO_SENSE))
    assert (caught.value.code, caught.value.data.path) == (
        INVALID_PARAMS,
        "$.settings.loopShield.maxConsecutiveTools",
    )
    assert sessions.list_all(ListSessions()).sessions == []
    sessions.open(OpenSession("s", workspace_settings=NO_SENSE))
    assert value_and_origin(sessions, "s", "loopShield.enabled") == (False, "default")


def test_a_configuration_that_makes_no_sense_for_some_session_changes_nothing_for_any(sessions: Sessions) -> None:
    sessions.configure(cap(50), "turnguard")
    sessions.open(OpenSession("a"))
    sessions.open(OpenSession("b", settings=settings(loopShield={"initialState": "A"})))
    states = settings(loopShield={"states": {"B": []}})
    with pytest.raises(RequestError) as caught:
        sessions.configure(states, "turnguard")
    assert caught.value.data.path == "turnguard.loopShield.initialState"
    for session_id in (None, "a", "b"):
        assert value_and_origin(sessions, session_id) == (50, "client")
    assert sessions.status(GetStatus("a")).cap.value == 50
    sessions.close(CloseSession("b"))
    sessions.configure(states, "turnguard")
    assert sessions.status(GetStatus("a")).budget_state == "B"


def test_a_configuration_is_merged_once_for_all_sessions_that_were_opened_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged: list[Merged] = []
    merge = Merged.__init__
    monkeypatch.setattr(Merged, "__init__", lambda self, *a, **k: (merged.append(self), merge(self, *a, **k))[1])
    sessions = Sessions()
    merged.clear()
    for n in range(500):
        sessions.open(OpenSession(f"default {n}"))
        sessions.open(OpenSession(f"own {n}", settings=cap(9)))
        sessions.open(OpenSession(f"agent {n}", agent_id="agent", workspace_settings=cap(9)))
    assert len(merged) == 3
    for limit in range(10, 20):
        merged.clear()
        sessions.configure(cap(limit), "turnguard")
        assert len(merged) == 4
    merged.clear()
    assert {(status.session_id.partition(" ")[0], status.cap.value) for status in
            sessions.list_all(ListSessions()).sessions} == {("default", 19), ("own", 9), ("agent", 9)}  # fmt: skip
    assert merged == []


def test_a_session_opened_after_a_configuration_is_under_it_though_one_like_it_was_closed(sessions: Sessions) -> None:
    sessions.open(OpenSession("a"))
    sessions.record(Record("a", [distinct(1)]))
    sessions.close(CloseSession("a"))
    sessions.configure(cap(7), "turnguard")
    assert sessions.open(OpenSession("b")).cap.value == 7


def test_a_configuration_reaches_a_session_that_is_not_used_between_two_of_them(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [distinct(3)]))
    sessions.configure(cap(2), "turnguard")
    sessions.configure(cap(5), "turnguard")
    verdict = sessions.record(Record("s", [distinct(2, start=5)]))
    assert (verdict.action, verdict.totals.tool_calls) == (Action.ALLOW, 5)
    assert sessions.record(Record("s", [distinct(1, start=9)])).action is Action.HALT


def test_an_agents_own_block_holds_in_its_sessions_only(sessions: Sessions) -> None:
    own = {"loopDetection": {"enabled": True, "warningThreshold": 1, "criticalThreshold": 2}}
    sessions.configure(settings(agents={"list": [{"id": "mine", "tools": own}]}), "turnguard")
    warning = "tools.loopDetection.warningThreshold"
    for session_id, agent_id, action, shown in (
        ("a", "mine", Action.WARN, (1, "client (agents.list)")),
        ("b", "other", Action.ALLOW, (10, "default")),
        ("c", None, Action.ALLOW, (10, "default")),
    ):
        sessions.open(OpenSession(session_id, agent_id=agent_id))
        verdicts = [sessions.record(Record(session_id, [calls(call("x"))])) for _ in range(2)]
        assert verdicts[-1].action is action
        assert value_and_origin(sessions, session_id, warning) == shown
    assert value_and_origin(sessions, None, warning) == (10, "default")


def test_in_shadow_the_client_is_told_what_would_have_happened_once(sessions: Sessions) -> None:
    sessions.open(OpenSession("s", settings=settings(model={"maxToolCallsPerTurn": 2}, turnguard={"shadow": True})))
    for start in range(0, 9, 3):
        verdict = sessions.record(Record("s", [distinct(3, start)]))
        assert (verdict.action, verdict.admitted) == (Action.ALLOW, [0, 1, 2])
    (notice,) = sessions.notices
    told: Any = notice.params
    assert (told.finding.action, told.verdict.action) == (Action.HALT, Action.ALLOW)


def test_an_event_that_cannot_be_identified_changes_nothing(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    broken = Call("t", args=msgspec.Raw(b"[" * 600 + b"]" * 600))
    with pytest.raises(RequestError) as caught:
        sessions.record(Record("s", [TurnStarted("t"), calls(call(), broken)]))
    assert (caught.value.code, caught.value.data.path) == (INVALID_PARAMS, "$.events[1].calls[1].args")
    assert sessions.status(GetStatus("s")).totals.tool_calls == 0
    assert changed_states(sessions) == []


def test_a_stale_turn_is_told_the_current_one(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [TurnStarted("new")]))
    with pytest.raises(RequestError) as caught:
        sessions.override(Override("s", "continueOnce", turn_id="old"))
    assert (caught.value.code, caught.value.data) == (STALE_TURN, {"turnId": "new"})


def test_every_fresh_finding_is_told_once(sessions: Sessions) -> None:
    sessions.open(OpenSession("s", settings=cap(2)))
    sessions.record(Record("s", [distinct(2)]))
    assert sessions.notices == []
    verdict = sessions.record(Record("s", [distinct(1, start=5)]))
    (notice,) = sessions.notices
    assert notice.method == "turnguard/didDetectLoop"
    loop: Any = notice.params
    assert (loop.session_id, loop.turn_id, loop.finding) == ("s", verdict.turn_id, verdict.findings[0])
    sessions.notices.clear()
    assert sessions.record(Record("s", [distinct(1, start=6)])).action is Action.HALT
    assert sessions.notices == []


def test_of_many_findings_the_strictest_are_told(sessions: Sessions) -> None:
    sessions.open(OpenSession("s", settings=cap(0)))
    batch = calls(*(call(args={"n": n}, call_id=f"c{n}") for n in range(50)))
    sessions.record(Record("s", [batch]))
    verdict = sessions.record(Record("s", [batch]))
    fresh = [finding for finding in verdict.findings if finding.fresh]
    assert len(fresh) > MAX_TOLD_FINDINGS
    told: list[Any] = [notice.params for notice in sessions.notices]
    assert [loop.finding for loop in told] == fresh[:MAX_TOLD_FINDINGS]
    assert all(loop.verdict is verdict for loop in told)


def test_a_change_is_told_in_its_last_state(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    assert changed_states(sessions) == []
    for n in range(5):
        sessions.record(Record("s", [distinct(1, start=n)]))
    assert changed_states(sessions) == [("s", "running", 5)]
    assert changed_states(sessions) == []


def test_what_changed_nothing_is_not_told(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [ToolCalls([])]))
    sessions.take_changes()
    sessions.prepare_step(PrepareStep("s"))
    sessions.record(Record("s", []))
    assert changed_states(sessions) == []


def changed_caps(sessions: Sessions) -> list[tuple[str, int | None]]:
    statuses: list[Any] = [notice.params for notice in sessions.take_changes()]
    return [(status.session_id, status.cap.value) for status in statuses]


def test_a_configuration_alone_is_told_for_each_session_that_looks_different_by_it(sessions: Sessions) -> None:
    for name in ("used", "unused"):
        sessions.open(OpenSession(name))
    sessions.open(OpenSession("own", settings=cap(9)))
    sessions.record(Record("used", [distinct(1)]))
    sessions.take_changes()
    sessions.configure(cap(20), "turnguard")
    sessions.configure(cap(30), "turnguard")
    assert changed_caps(sessions) == [("used", 30), ("unused", 30)]
    sessions.configure(cap(30), "turnguard")
    sessions.configure(settings(model={"maxToolCallsPerTurn": 30, "skipLoopDetection": False}), "turnguard")
    assert changed_caps(sessions) == []


def test_a_configuration_that_moves_a_budget_is_told(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.configure(settings(loopShield={"states": {"A": []}}), "turnguard")
    (notice,) = sessions.take_changes()
    told: Any = notice.params
    assert (notice.method, told.budget_state) == ("turnguard/didChangeSession", "A")


def test_a_raise_of_the_cap_is_told_though_nothing_was_called(sessions: Sessions) -> None:
    sessions.open(OpenSession("s", settings=cap(2)))
    sessions.record(Record("s", [distinct(2)]))
    sessions.take_changes()
    sessions.override(Override("s", "raiseCap", calls=5))
    assert changed_caps(sessions) == [("s", 7)]


def test_a_file_that_changed_is_told_for_every_session_there_once_one_of_them_asks(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / ".turnguard/settings.json"
    for name, cwd in (("a", tmp_path), ("b", tmp_path), ("elsewhere", tmp_path.parent)):
        sessions.open(OpenSession(name, cwd=str(cwd)))
    file.parent.mkdir()
    file.write_text('{"model": {"maxToolCallsPerTurn": 12}}')
    assert value_and_origin(sessions, "a") == (12, "project")
    assert changed_caps(sessions) == [("a", 12), ("b", 12)]
    assert sessions.status(GetStatus("a")).cap.value == 12


def test_files_are_looked_at_once_a_second_unless_somebody_asks_for_settings(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    sessions = Sessions(clock, sources=Sources("serve", environ={}, clock=clock))
    sessions.open(OpenSession("s", cwd=str(tmp_path)))
    (tmp_path / ".turnguard").mkdir()

    def say(calls: int) -> None:
        (tmp_path / ".turnguard/settings.json").write_text(f'{{"model": {{"maxToolCallsPerTurn": {calls}}}}}')

    say(12)
    assert sessions.status(GetStatus("s")).cap.value == 100
    clock.now += LOOK_SECONDS
    assert sessions.status(GetStatus("s")).cap.value == 12
    say(11)
    assert sessions.status(GetStatus("s")).cap.value == 12
    assert value_and_origin(sessions, "s") == (11, "project")
    assert sessions.status(GetStatus("s")).cap.value == 11


@pytest.mark.parametrize("way", ["sub/..", "sub/inner/../..", "link", "link/../sub", "sub/not there/../..", "gone/.."])
def test_a_directory_is_the_one_that_its_name_leads_to(sessions: Sessions, tmp_path: Path, way: str) -> None:
    project = tmp_path / "repo"
    for directory in ("repo/.turnguard", "repo/sub/inner", "sub/.turnguard"):
        (tmp_path / directory).mkdir(parents=True)
    (project / "link").symlink_to(project / "sub")
    (project / ".turnguard/settings.json").write_text('{"model": {"maxToolCallsPerTurn": 12}}')
    for wrong in (project / "sub/inner", tmp_path / "sub"):  # beside the way, and where the link seems to lead
        (wrong / ".turnguard").mkdir(exist_ok=True)
        (wrong / ".turnguard/settings.json").write_text('{"model": {"maxToolCallsPerTurn": 3}}')
    sessions.open(OpenSession("s", cwd=f"{project}/{way}"))
    assert value_and_origin(sessions, "s") == (12, "project")


def test_a_link_that_is_put_in_the_way_of_a_session_leads_to_no_trust(
    sessions: Sessions, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent moves its own directory away and puts a link to a trusted project there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    trusted, here = tmp_path / "trusted", tmp_path / "here"
    for directory in (trusted / ".turnguard", here):
        directory.mkdir(parents=True)
    file = trusted / ".turnguard/settings.json"
    file.write_text('{"model": {"maxToolCallsPerTurn": 500}}')
    digest = read_file(file, "", beneath=trusted).digest
    assert digest is not None
    trust(trusted, digest, datetime(2026, 3, 4, tzinfo=UTC))
    sessions.open(OpenSession("s", cwd=str(here)))
    here.rename(tmp_path / "away")
    here.symlink_to(trusted)
    assert value_and_origin(sessions, "s") == (None, "default")
    sessions.open(OpenSession("later", cwd=str(here)))
    assert value_and_origin(sessions, "later") == (500, "trusted project")
    assert value_and_origin(sessions, "s") == (None, "default")


def test_an_impossible_directory_opens_a_session_without_a_project(sessions: Sessions) -> None:
    for session_id, cwd in (("a", "/a\0b"), ("b", "/" + "x" * 5000), ("c", "/dev/null/x")):
        sessions.open(OpenSession(session_id, cwd=cwd))
        assert value_and_origin(sessions, session_id) == (None, "default")


def test_the_end_of_a_session_is_told(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [distinct(1)]))
    sessions.close(CloseSession("s"))
    assert changed_states(sessions) == [("s", "idle", 1)]


def test_an_old_session_does_not_speak_for_a_new_one_of_the_same_id(sessions: Sessions) -> None:
    sessions.open(OpenSession("s"))
    sessions.record(Record("s", [distinct(1)]))
    sessions.close(CloseSession("s"))
    sessions.open(OpenSession("s"))
    assert changed_states(sessions) == []


def test_a_seal_is_steady_and_its_own() -> None:
    one, other = seal_of(b"1" * 32), seal_of(b"2" * 32)
    assert one("a" * 64) == one("a" * 64) != one("b" * 64)
    assert one("a" * 64) != other("a" * 64)
    assert one("\ud800") != one("a")
