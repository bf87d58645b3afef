"""Settings of a real daemon: what a hostile project's file comes to, what clients send, and a broken user file."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.commands.process import Home
from tests.e2e.conftest import Start
from tests.e2e.daemon import SERVE, Daemon, calls, fails, wait_until
from turnguard.settings import trust
from turnguard.settings.files import read_file
from turnguard.settings.sources import LOOK_SECONDS
from turnguard.settings.table import ROWS

CAP = "model.maxToolCallsPerTurn"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
USER_TURN = {"type": "turnStarted"}


class Served:
    """A daemon in somebody's home, with a session in their project."""

    def __init__(self, start: Start, home: Home, options: tuple[str, ...] = (), **client: Any) -> None:
        self.home = home
        self.daemon: Daemon = start([*SERVE, *options], env=home.environ)
        self.asked = 0
        self.opened = self.open("s", **client)

    def open(self, session_id: str, **client: Any) -> Any:
        params = {"sessionId": session_id, "cwd": str(self.home.project), **client}
        return self.daemon.ask("turnguard/openSession", params)

    def record(self, *events: object) -> Any:
        answer = self.daemon.record("s", *events)
        return answer["result"]

    def ask(self, count: int = 1, *before: object) -> Any:
        """The verdict on calls like no other."""
        self.asked += count
        batch = [{"name": "read_file", "args": {"n": self.asked - n}} for n in range(count)]
        return self.record(*before, calls(*batch))

    def values(self) -> dict[str, Any]:
        report = self.daemon.ask("turnguard/settings", {"sessionId": "s"})["result"]
        return {value["name"]: value for value in report["values"]}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def serve(start: Start, home: Home) -> Callable[..., Served]:
    return lambda *options, **client: Served(start, home, options, **client)


Serve = Callable[..., Served]


def project_says(home: Home, sections: object) -> None:
    home.write(home.project_file, json.dumps(sections))


def trusts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trusts the project as it is now, as `turnguard trust` does once somebody has typed yes at a terminal."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, home.environ[name])
    digest = read_file(home.project_file, "", beneath=home.project).digest
    assert digest is not None
    trust.trust(home.project, digest, NOW)


def without_source(values: dict[str, Any]) -> dict[str, Any]:
    return {name: (value["value"], value["origin"]) for name, value in values.items()}


# --- a hostile project ------------------------------------------------------------------------------------------------

LOOSE: list[tuple[str, Any, Any]] = [
    (CAP, {"model": {"maxToolCallsPerTurn": 0}}, 0),
    (CAP, {"model": {"maxToolCallsPerTurn": 500}}, 500),
    ("tools.loopDetection.enabled", {"tools": {"loopDetection": {"enabled": False}}}, False),
    (
        "tools.loopDetection.postCompactionGuard.windowSize",
        {"tools": {"loopDetection": {"postCompactionGuard": {"windowSize": 50}}}},
        50,
    ),
    ("turnguard.shadow", {"turnguard": {"shadow": True}}, True),
]
ALL_LOOSE = {
    "model": {"maxToolCallsPerTurn": 500},
    "tools": {"loopDetection": {"enabled": False, "postCompactionGuard": {"windowSize": 50}}},
    "turnguard": {"shadow": True},
}


@pytest.mark.parametrize(("name", "sections", "value"), LOOSE, ids=[f"{name}={value}" for name, _, value in LOOSE])
def test_what_loosens_is_named_once_and_changes_nothing_until_it_is_trusted(
    serve: Serve, home: Home, name: str, sections: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_says(home, sections)
    served = serve()
    before = served.values()[name]
    assert before["origin"] == "default"
    assert [(each["origin"], each["value"]) for each in before["ignored"]] == [("project", value)]
    (notice,) = served.ask(1, USER_TURN)["notices"]
    assert f"{name} {json.dumps(value)} (a project may only tighten" in notice
    assert str(home.project_file) in notice
    assert notice.endswith(f"To accept them: turnguard trust {home.project}")
    assert "notices" not in served.ask()
    trusts(home, monkeypatch)
    wait_until(lambda: served.values()[name]["origin"] == "trusted project", LOOK_SECONDS * 10)
    assert served.values()[name]["value"] == value
    (notice,) = served.ask(1, USER_TURN)["notices"]
    assert f"{name} is now {json.dumps(value)} (trusted project)" in notice


def test_loosening_by_trust_holds_from_the_next_turn_of_the_users_on(
    serve: Serve, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 3}}")
    project_says(home, ALL_LOOSE)
    served = serve()
    assert served.ask(3, USER_TURN)["action"] == "allow"
    trusts(home, monkeypatch)
    wait_until(lambda: served.values()[CAP]["value"] == 500)
    assert served.ask()["action"] == "halt"
    assert served.ask(4, {"type": "turnStarted", "origin": "cron"})["action"] == "halt"
    verdict = served.ask(4, USER_TURN)
    assert verdict["action"] == "allow"
    assert f"{CAP} is now 500 (trusted project), it was 3" in verdict["notices"][0]
    home.write(home.project_file, home.project_file.read_text() + "\n")  # a pull
    wait_until(lambda: served.values()[CAP]["value"] == 3)
    assert served.ask(4, USER_TURN)["action"] == "halt"


def a_link(home: Home) -> None:
    home.write(home.root / "elsewhere.json", json.dumps(ALL_LOOSE))
    home.project_file.symlink_to(home.root / "elsewhere.json")


def a_link_to_a_secret(home: Home) -> None:
    home.project_file.symlink_to("/dev/zero")


def a_gigabyte(home: Home) -> None:
    with home.project_file.open("wb") as file:
        file.write(json.dumps(ALL_LOOSE).encode())
        file.truncate(1 << 30)


def a_fifo(home: Home) -> None:
    os.mkfifo(home.project_file)


def a_directory(home: Home) -> None:
    home.project_file.mkdir()


def a_linked_directory(home: Home) -> None:
    home.project_file.parent.rmdir()
    home.write(home.root / "elsewhere/settings.json", json.dumps(ALL_LOOSE))
    home.project_file.parent.symlink_to(home.root / "elsewhere")


def no_json(home: Home) -> None:
    home.project_file.write_text("{model: {maxToolCallsPerTurn: 500}")


@pytest.mark.parametrize(
    "make", [a_link, a_link_to_a_secret, a_gigabyte, a_fifo, a_directory, a_linked_directory, no_json]
)
def test_what_is_no_file_is_named_once_and_changes_nothing(
    serve: Serve, home: Home, make: Callable[[Home], None]
) -> None:
    undisturbed = without_source(serve().values())
    home.project_file.parent.mkdir()
    make(home)
    served = serve()
    assert without_source(served.values()) == undisturbed
    (notice,) = served.ask(1, USER_TURN)["notices"]
    assert notice.startswith(f"Settings: {home.project_file}")
    assert "nothing of it was read" in notice
    assert "notices" not in served.ask()
    (problem,) = served.daemon.ask("turnguard/settings", {"sessionId": "s"})["result"]["problems"]
    assert (problem["origin"], problem["source"]) == ("project", str(home.project_file))
    assert served.ask(150, USER_TURN)["action"] == "allow"


def test_a_session_elsewhere_hears_nothing_of_the_project(serve: Serve, home: Home) -> None:
    project_says(home, ALL_LOOSE | {"nonsense": 1})
    served = serve()
    served.daemon.ask("turnguard/openSession", {"sessionId": "elsewhere", "cwd": str(home.root)})
    served.daemon.ask("turnguard/openSession", {"sessionId": "nowhere"})
    for session_id in ("elsewhere", "nowhere"):
        assert "notices" not in served.daemon.record(session_id, USER_TURN)["result"]
    served.open("other")
    assert len(served.ask(1, USER_TURN)["notices"]) == 2
    assert len(served.daemon.record("other", USER_TURN)["result"]["notices"]) == 2


def test_a_projects_cap_of_one_is_a_nuisance_and_not_a_hole(serve: Serve, home: Home) -> None:
    project_says(home, {"model": {"maxToolCallsPerTurn": 1}})
    served = serve(settings={"model": {"maxToolCallsPerTurn": 5}})
    verdict = served.ask(2, USER_TURN)
    assert verdict["action"] == "halt"
    assert f"{CAP} is 1" in verdict["userMessage"]
    assert str(home.project_file) in verdict["userMessage"]
    assert str(home.project_file) not in verdict["modelMessage"]
    passed = {"sessionId": "s", "turnId": verdict["turnId"], "action": "continueOnce"}
    assert served.daemon.ask("turnguard/override", passed)["result"]["state"] == "running"
    batch = calls(*({"id": f"c{n}", "name": "edit", "args": {"n": n}} for n in range(2)))
    assert served.record(batch)["admitted"] == [0, 1]


def test_an_agent_that_removes_or_edits_files_in_its_turn_loosens_nothing(serve: Serve, home: Home) -> None:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 5}}")
    project_says(home, {"model": {"maxToolCallsPerTurn": 3}})
    served = serve()
    assert served.ask(3, USER_TURN)["action"] == "allow"
    home.project_file.unlink()
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 0}, turnguard: {shadow: true}}")
    wait_until(lambda: served.values()[CAP]["value"] == 0)
    assert served.ask()["action"] == "halt"
    assert served.ask(200, USER_TURN)["action"] == "allow"


def test_half_of_a_shield_that_goes_from_a_file_leaves_the_session_guarded(serve: Serve, home: Home) -> None:
    """What the client says makes no sense without it; requests must not fail for that, since a host goes on then."""
    home.write(home.user_file, "{loopShield: {maxConsecutiveTools: 3}}")
    served = serve(settings={"loopShield": {"enabled": True}, "model": {"maxToolCallsPerTurn": 5}})
    served.ask(2, USER_TURN)
    home.user_file.unlink()
    wait_until(lambda: served.values()["loopShield.maxConsecutiveTools"]["value"] is None)
    served.ask()
    assert served.daemon.ask("turnguard/prepareStep", {"sessionId": "s"})["result"]["toolChoice"] == "none"
    assert served.ask(3)["action"] == "halt"
    assert served.ask(6, USER_TURN)["action"] == "halt"


def test_a_change_of_settings_alone_is_told(serve: Serve) -> None:
    served = serve()
    served.open("own", settings={"model": {"maxToolCallsPerTurn": 9}})
    sections = {"settings": {"turnguard": {"model": {"maxToolCallsPerTurn": 40}}}}
    served.daemon.tell("workspace/didChangeConfiguration", sections)

    def told() -> list[Any]:
        served.daemon.is_silent()
        return [each["params"] for each in served.daemon.told if each["method"] == "turnguard/didChangeSession"]

    wait_until(lambda: told() != [])
    assert [(each["sessionId"], each["cap"]) for each in told()] == [("s", {"value": 40, "explicit": True})]


def test_trust_holds_whichever_way_leads_to_the_directory(
    serve: Serve, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_says(home, {"model": {"maxToolCallsPerTurn": 500}})
    trusts(home, monkeypatch)
    (home.project / "sub").mkdir()
    (home.root / "link").symlink_to(home.project)
    served = serve()
    for session_id, cwd in (("up", home.project / "sub/.."), ("link", home.root / "link"), ("beneath", home.project)):
        opened = served.open(session_id, cwd=str(cwd))["result"]
        assert (opened["cwd"], opened["cap"]["value"]) == (str(cwd), 500)


# --- three clients ----------------------------------------------------------------------------------------------------


def of_all(value: object) -> dict[str, Any]:
    """Every setting with one value."""
    sections: dict[str, Any] = {}
    for row in ROWS:
        inner = sections
        *parts, last = row.name.split(".")
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return sections


ZEROS_AND_FALSES = {
    "model": {"maxToolCallsPerTurn": 0, "skipLoopDetection": False},
    "tools": {
        "loopDetection": {
            "enabled": False,
            "detectors": {"genericRepeat": False, "knownPollNoProgress": False, "pingPong": False},
        }
    },
    "agents": {"list": []},
    "loopShield": {"enabled": False, "maxConsecutiveTools": 0, "states": {}},
    "turnguard": {"maxBlocksPerTurn": 0, "shadow": False},
}
SET_TO_ZERO = {
    CAP: 0,
    "model.skipLoopDetection": False,
    "tools.loopDetection.enabled": False,
    "tools.loopDetection.detectors.genericRepeat": False,
    "tools.loopDetection.detectors.knownPollNoProgress": False,
    "tools.loopDetection.detectors.pingPong": False,
    "agents.list": [],
    "loopShield.enabled": False,
    "loopShield.maxConsecutiveTools": 0,
    "loopShield.states": {},
    "turnguard.maxBlocksPerTurn": 0,
    "turnguard.shadow": False,
}


@pytest.mark.parametrize("nulls", [None, of_all(None), dict.fromkeys(of_all(None))])
def test_a_client_that_sends_null_for_everything_changes_nothing(serve: Serve, home: Home, nulls: Any) -> None:
    home.write(home.user_file, "{turnguard: {maxStepsPerTurn: 40}}")
    served, silent = serve(settings=nulls, workspaceSettings=nulls), serve()
    served.daemon.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": nulls}})
    assert served.values() == silent.values()
    assert served.opened == silent.opened
    assert served.ask(101, USER_TURN) == silent.ask(101, USER_TURN)
    assert served.values()["turnguard.maxStepsPerTurn"]["origin"] == "user"


@pytest.mark.parametrize("by", ["session", "configuration"])
def test_zeros_and_falses_are_explicit_and_the_clients(serve: Serve, home: Home, by: str) -> None:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 3}, turnguard: {maxBlocksPerTurn: 1}}")
    served = serve(settings=ZEROS_AND_FALSES) if by == "session" else serve()
    if by == "configuration":
        served.daemon.tell("workspace/didChangeConfiguration", {"settings": {"turnguard": ZEROS_AND_FALSES}})
    held = without_source(served.values())
    assert {name: each for name, each in held.items() if each[1] == "client"} == {
        name: (value, "client") for name, value in SET_TO_ZERO.items()
    }
    assert served.ask(1, USER_TURN)["action"] == "allow"
    status = served.daemon.ask("turnguard/status", {"sessionId": "s"})["result"]
    assert status["cap"] == {"value": None, "explicit": True}


@pytest.mark.parametrize(
    "name",
    [
        "tools.loopDetection.historySize",
        "tools.loopDetection.warningThreshold",
        "tools.loopDetection.criticalThreshold",
        "tools.loopDetection.unknownToolThreshold",
        "tools.loopDetection.globalCircuitBreakerThreshold",
        "tools.loopDetection.postCompactionGuard.windowSize",
        "turnguard.maxStepsPerTurn",
    ],
)
def test_zero_out_of_bounds_is_an_error_that_names_the_setting(serve: Serve, name: str) -> None:
    sections: Any = 0
    for part in reversed(name.split(".")):
        sections = {part: sections}
    served = serve()
    answer = served.open("wrong", settings=sections)
    assert fails(answer, -32602)["path"] == f"$.settings.{name}"
    assert fails(served.daemon.ask("turnguard/status", {"sessionId": "wrong"}), -32004)


def test_a_client_that_sends_what_was_set(serve: Serve, home: Home) -> None:
    home.write(home.user_file, "{turnguard: {maxStepsPerTurn: 40}}")
    served, silent = serve(settings={"model": {"maxToolCallsPerTurn": 100}}), serve()
    held = served.values()
    assert held[CAP] == {"name": CAP, "value": 100, "origin": "client"}
    assert {name: each for name, each in held.items() if name != CAP} == {
        name: each for name, each in silent.values().items() if name != CAP
    }
    assert (served.ask(101, USER_TURN)["action"], silent.ask(101, USER_TURN)["action"]) == ("halt", "allow")


def test_layers_below_the_client_hold_in_the_daemon(serve: Serve, home: Home) -> None:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 7}, turnguard: {maxStepsPerTurn: 70}}")
    home.environ["TURNGUARD_MAX_STEPS_PER_TURN"] = "60"
    served = serve("--set", "turnguard.maxBlocksPerTurn=2")
    held = without_source(served.values())
    assert held[CAP] == (7, "user")
    assert held["turnguard.maxStepsPerTurn"] == (60, "environment")
    assert held["turnguard.maxBlocksPerTurn"] == (2, "command line")
    assert served.ask(8, USER_TURN)["action"] == "halt"


# --- a broken user file -----------------------------------------------------------------------------------------------

BROKEN = [
    ("{model: {maxToolCallsPerTurn: -1.5}}", "maxToolCallsPerTurn"),
    ("{modell: {}}", "model"),
    ("{model: ", "not JSON5"),
    ("[]", "expected an object"),
    ('{model: {maxToolCallsPerTurn: null}, turnguard: {progress: {action: "stop"}}}', "null"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_with_a_broken_user_file_the_daemon_starts_and_shows_it(
    start: Start, home: Home, tmp_path: Path, text: str, said: str
) -> None:
    home.write(home.user_file, text)
    with (tmp_path / "stderr").open("wb") as stderr:
        daemon = start(env=home.environ, stderr=stderr)
        assert daemon.is_silent()
        assert [message for message in daemon.told if message["method"] == "window/showMessage"] == []
        daemon.tell("initialized", {})
        daemon.ask("turnguard/openSession", {"sessionId": "s", "cwd": str(home.project)})
        shown = [message["params"] for message in daemon.told if message["method"] == "window/showMessage"]
        assert shown
        assert all(each["type"] == 1 for each in shown)
        assert all(str(home.user_file) in each["message"] for each in shown)
        assert any(said in each["message"] for each in shown)
        verdict = daemon.record("s", USER_TURN)["result"]
        assert len(verdict["notices"]) == len(shown)
        assert daemon.record("s", {"type": "text", "delta": "x"})["result"].keys().isdisjoint({"notices"})
    written = (tmp_path / "stderr").read_text()
    assert str(home.user_file) in written


def test_the_rest_of_a_broken_user_file_holds(serve: Serve, home: Home) -> None:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 3, skipLoopDetection: 1}, turnguard: {nope: 1}}")
    served = serve()
    assert served.ask(3, USER_TURN)["action"] == "allow"
    assert served.ask()["action"] == "halt"
