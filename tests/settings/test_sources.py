"""Which sources hold for a directory, in which order, and that files are looked at again."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnguard.settings import sources as module
from turnguard.settings import trust
from turnguard.settings.files import MAX_FILE_BYTES
from turnguard.settings.layers import CLIENT, WORKSPACE, Layer
from turnguard.settings.sources import LOOK_SECONDS, Found, Sources
from turnguard.settings.table import BY_NAME
from turnguard_protocol.settings import SettingValue

CAP = "model.maxToolCallsPerTurn"
STEPS = "turnguard.maxStepsPerTurn"
BLOCKS = "turnguard.maxBlocksPerTurn"
SHADOW = "turnguard.shadow"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def tick(self) -> None:
        """So long that files are looked at again."""
        self.now += LOOK_SECONDS


class Person:
    """A person's directories, and a project of theirs."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock()
        self.project = root / "project"
        self.deep = self.project / "src/deep"
        self.deep.mkdir(parents=True)
        self.user_file = root / "config/turnguard/settings.json"
        self.project_file = self.project / ".turnguard/settings.json"

    def sources(self, *assignments: str, **environ: str) -> Sources:
        return Sources("serve", environ=environ, assignments=assignments, clock=self.clock)

    def says(self, text: str | dict[str, Any]) -> None:
        """Writes the person's own file."""
        write(self.user_file, text)

    def project_says(self, text: str | dict[str, Any]) -> None:
        """Writes the project's file."""
        write(self.project_file, text)

    def trusts(self, sources: Sources) -> None:
        """Trusts the project with the file as it is now."""
        del sources
        digest = module.read_file(self.project_file, "", beneath=self.project).digest
        assert digest is not None
        trust.trust(self.project, digest, NOW)


def write(file: Path, text: str | dict[str, Any]) -> None:
    """Writes beside and renames, as editors do, so that no state of a file is mistaken for the one before."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name("beside")
    beside.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    beside.replace(file)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Person(tmp_path)


def cap(value: Any) -> dict[str, Any]:
    return {"model": {"maxToolCallsPerTurn": value}}


def value(sources: Sources, name: str, cwd: Path | str | None, **more: Any) -> SettingValue:
    report = sources.report(None if cwd is None else str(cwd), **more)
    return next(each for each in report.values if each.name == name)


def held(sources: Sources, name: str, cwd: Path | str | None) -> tuple[Any, str]:
    found = value(sources, name, cwd)
    return found.value, found.origin


def messages(found: Found) -> list[str]:
    return [problem.message for problem in found.problems]


# --- the order --------------------------------------------------------------------------------------------------------


def test_of_all_layers_the_highest_that_says_something_holds(person: Person) -> None:
    """One setting that all of them set, taken away from the top downwards."""
    person.says({"turnguard": {"maxStepsPerTurn": 70}})
    person.project_says({"turnguard": {"maxStepsPerTurn": 60}})
    trusting = person.sources(f"{STEPS}=40", TURNGUARD_MAX_STEPS_PER_TURN="50")
    person.trusts(trusting)
    found = trusting.found(str(person.project))
    client = [Layer(CLIENT, {STEPS: 30})]
    workspace = [Layer(WORKSPACE, {STEPS: 20})]
    for given, expected in (
        ((client, workspace), (20, "workspace")),
        ((client,), (30, "client")),
        ((), (40, "command line")),
    ):
        each = trusting.merged(found, *given).held[STEPS]
        assert (each.value, each.origin) == expected
    environment = person.sources(TURNGUARD_MAX_STEPS_PER_TURN="50")
    assert held(environment, STEPS, person.project) == (50, "environment")
    assert held(person.sources(), STEPS, person.project) == (60, "trusted project")
    trust.revoke(person.project)
    person.project_file.unlink()
    assert held(person.sources(), STEPS, person.project) == (70, "user")
    person.user_file.unlink()
    assert held(person.sources(), STEPS, person.project) == (None, "default")


def test_each_layer_gives_what_no_higher_one_says(person: Person) -> None:
    person.says({"turnguard": {"maxBlocksPerTurn": 5, "maxStepsPerTurn": 70}})
    person.project_says({**cap(80), "turnguard": {"maxStepsPerTurn": 60, "shadow": True}})
    sources = person.sources("turnguard.progress.action=halt", TURNGUARD_MODEL_SKIP_LOOP_DETECTION="false")
    cwd = person.project
    assert held(sources, CAP, cwd) == (80, "project")
    assert held(sources, STEPS, cwd) == (60, "project")
    assert held(sources, BLOCKS, cwd) == (5, "user")
    assert held(sources, "model.skipLoopDetection", cwd) == (False, "environment")
    assert held(sources, "turnguard.progress.action", cwd) == ("halt", "command line")
    assert held(sources, "turnguard.turnGuard", cwd) == ("batch", "default")
    ignored = value(sources, SHADOW, cwd).ignored
    assert isinstance(ignored, list)
    assert [(each.origin, each.value) for each in ignored] == [("project", True)]
    assert value(sources, CAP, cwd).source == str(person.project_file)
    assert value(sources, BLOCKS, cwd).source == str(person.user_file)


def test_a_face_has_its_own_defaults(person: Person) -> None:
    acp = Sources("acp", environ={}, clock=person.clock)
    assert held(acp, "turnguard.progress.action", None) == ("halt", "default")
    assert held(person.sources(), "turnguard.progress.action", None) == ("warn", "default")


def test_an_agents_block_of_the_persons_file(person: Person) -> None:
    person.says({"agents": {"list": [{"id": "a", "tools": {"loopDetection": {"warningThreshold": 3}}}]}})
    warning = "tools.loopDetection.warningThreshold"
    assert value(person.sources(), warning, None, agent_id="a").value == 3
    assert value(person.sources(), warning, None, agent_id="a").origin == "user (agents.list)"
    assert value(person.sources(), warning, None, agent_id="b").origin == "default"


# --- the project ------------------------------------------------------------------------------------------------------


def test_the_nearest_project_upwards_holds(person: Person) -> None:
    person.project_says(cap(50))
    sources = person.sources()
    assert held(sources, CAP, person.deep) == (50, "project")
    assert sources.found(str(person.deep)).project == person.project
    assert held(sources, CAP, person.project.parent) == (None, "default")
    assert held(sources, CAP, None) == (None, "default")
    person.clock.tick()
    write(person.deep / ".turnguard/settings.json", cap(20))
    assert held(sources, CAP, person.deep) == (20, "project")
    assert held(sources, CAP, person.project) == (50, "project")


@pytest.mark.parametrize("looser", [0, -1, 101, 500])
def test_a_project_that_nobody_trusts_loosens_nothing(person: Person, looser: int) -> None:
    person.project_says(cap(looser))
    sources = person.sources()
    assert held(sources, CAP, person.project) == (None, "default")
    assert sources.found(str(person.project)).layers[1].values == {}
    person.trusts(sources)
    person.clock.tick()
    assert held(sources, CAP, person.project) == (looser, "trusted project")
    assert sources.found(str(person.project)).tightening == ()


def test_a_trusted_project_stands_above_the_person_and_below_what_they_give_in_passing(person: Person) -> None:
    person.says(cap(30))
    person.project_says(cap(300))
    person.trusts(person.sources())
    assert held(person.sources(), CAP, person.project) == (300, "trusted project")
    assert held(person.sources(f"{CAP}=40"), CAP, person.project) == (40, "command line")
    assert held(person.sources(TURNGUARD_MODEL_MAX_TOOL_CALLS_PER_TURN="40"), CAP, person.project) == (
        40,
        "environment",
    )


def test_trust_holds_for_these_bytes_only(person: Person) -> None:
    """A pull does not inherit it, and going back to what was trusted has it again."""
    person.project_says(cap(300))
    sources = person.sources()
    person.trusts(sources)
    assert held(sources, CAP, person.project) == (300, "trusted project")
    person.clock.tick()
    person.project_says('{"model": {"maxToolCallsPerTurn":  300}}')
    assert held(sources, CAP, person.project) == (None, "default")
    person.clock.tick()
    person.project_says(cap(300))
    assert held(sources, CAP, person.project) == (300, "trusted project")


def test_trust_holds_for_this_directory_only(person: Person, tmp_path: Path) -> None:
    person.project_says(cap(300))
    person.trusts(person.sources())
    other = tmp_path / "other"
    write(other / ".turnguard/settings.json", person.project_file.read_text())
    assert held(person.sources(), CAP, other) == (None, "default")
    (tmp_path / "link").symlink_to(person.project)
    assert held(person.sources(), CAP, tmp_path / "link") == (300, "trusted project")


def test_trust_that_is_taken_back_holds_no_longer(person: Person) -> None:
    person.project_says(cap(300))
    sources = person.sources()
    person.trusts(sources)
    assert held(sources, CAP, person.project) == (300, "trusted project")
    trust.revoke(person.project)
    person.clock.tick()
    assert sources.merged(sources.found(str(person.project))).held[CAP].value is None


@pytest.mark.parametrize("name", ["agents.list", "loopShield.states"])
def test_what_no_value_tightens_a_project_has_no_say_in(person: Person, name: str) -> None:
    assert BY_NAME[name].tightens == "never"
    says = {"agents.list": {"agents": {"list": [{"id": "a"}]}}, "loopShield.states": {"loopShield": {"states": {}}}}
    person.project_says(says[name])
    assert value(person.sources(), name, person.project).origin == "default"
    assert value(person.sources(), name, person.project).ignored


# --- files change -----------------------------------------------------------------------------------------------------


def replace_by_link(file: Path) -> None:
    target = file.parent.parent / "elsewhere.json"
    target.write_text(file.read_text(), "utf-8")
    file.unlink()
    file.symlink_to(target)


def replace_by_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_by_a_gigabyte(file: Path) -> None:
    file.unlink()
    with file.open("wb") as opened:
        opened.truncate(1 << 30)


def replace_directory_by_link(file: Path) -> None:
    file.parent.rename(file.parent.parent / "elsewhere")
    file.parent.symlink_to(file.parent.parent / "elsewhere")
    (file.parent.parent / "elsewhere/new").write_text("")
    write(file, file.read_text())


def garble(file: Path) -> None:
    write(file, "{model: ")


HOSTILE = [
    replace_by_link,
    replace_by_fifo,
    replace_by_directory,
    replace_by_a_gigabyte,
    replace_directory_by_link,
    garble,
]


@pytest.mark.parametrize("becomes", HOSTILE)
@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_projects_file_that_becomes_something_else_says_nothing_any_more(
    person: Person, becomes: Callable[[Path], None], is_trusted: bool
) -> None:
    person.project_says(cap(50))
    sources = person.sources()
    if is_trusted:
        person.trusts(sources)
    assert held(sources, CAP, person.project)[0] == 50
    becomes(person.project_file)
    person.clock.tick()
    found = sources.found(str(person.project))
    assert sources.merged(found).held[CAP].value is None
    (problem,) = found.problems
    assert (problem.origin, problem.source, problem.path) == ("project", str(person.project_file), "$")
    assert problem.message.startswith("nothing of it was read: ")
    assert list(sources.own_problems) == []


@pytest.mark.parametrize("becomes", [replace_by_fifo, replace_by_directory, replace_by_a_gigabyte, garble])
def test_a_persons_file_that_becomes_something_else_says_nothing_any_more(
    person: Person, becomes: Callable[[Path], None]
) -> None:
    person.says(cap(50))
    sources = person.sources()
    assert held(sources, CAP, None) == (50, "user")
    becomes(person.user_file)
    person.clock.tick()
    found = sources.found(None)
    assert sources.merged(found).held[CAP].value is None
    (problem,) = found.problems
    assert (problem.origin, problem.source) == ("user", str(person.user_file))
    (at_the_start,) = person.sources().own_problems
    assert at_the_start == problem


def test_a_persons_own_file_may_be_a_link_and_its_target_is_watched(person: Person, tmp_path: Path) -> None:
    write(tmp_path / "dotfiles/settings.json", cap(50))
    person.user_file.parent.mkdir(parents=True)
    person.user_file.symlink_to(tmp_path / "dotfiles/settings.json")
    sources = person.sources()
    assert held(sources, CAP, None) == (50, "user")
    person.clock.tick()
    write(tmp_path / "dotfiles/settings.json", cap(40))
    assert sources.merged(sources.found(None)).held[CAP].value == 40


def test_files_are_looked_at_once_a_second(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    stamp = module._stamp  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(module, "_stamp", lambda file: (looks.append(file), stamp(file))[1])
    sources, cwd = person.sources(), str(person.project)
    first = sources.found(cwd)
    looks.clear()
    person.says(cap(50))
    assert sources.found(cwd) is first
    assert looks == []
    person.clock.now += LOOK_SECONDS * 0.99
    assert sources.found(cwd) is first
    person.clock.now += LOOK_SECONDS * 0.02
    second = sources.found(cwd)
    assert second.layers[0].values == {CAP: 50}
    person.clock.tick()
    assert sources.found(cwd) is second


def test_who_asks_for_what_holds_now_gets_it(person: Person) -> None:
    sources = person.sources()
    assert held(sources, CAP, None) == (None, "default")
    person.says(cap(50))
    assert held(sources, CAP, None) == (50, "user")
    assert sources.merged(sources.found(None)).held[CAP].value == 50


@pytest.mark.parametrize("which", ["user_file", "project_file"])
def test_a_file_that_comes_changes_and_goes_is_picked_up(person: Person, which: str) -> None:
    sources, cwd, file = person.sources(), str(person.deep), getattr(person, which)

    def now() -> Any:
        person.clock.tick()
        return sources.merged(sources.found(cwd)).held[CAP].value

    assert now() is None
    write(file, cap(50))
    assert now() == 50
    write(file, cap(40))
    assert now() == 40
    file.write_text(json.dumps(cap(30)), "utf-8")
    assert now() == 30
    file.unlink()
    assert now() is None


def test_directories_are_told_apart_and_forgotten_in_the_end(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DIRECTORIES", 3)
    person.project_says(cap(50))
    sources = person.sources()
    for name in ("a", "b", "c", "d", "e"):
        (person.project / name).mkdir()
        assert held(sources, CAP, person.project / name) == (50, "project")
        assert held(sources, CAP, None) == (None, "default")
        assert len(sources._found) <= 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("cwd", ["", "no/such", "/no/such/directory", "/\0", "/" + "x" * 5000])
def test_a_directory_that_is_none_has_no_project(person: Person, cwd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(person.deep)
    found = person.sources().found(cwd)
    assert (found.project, found.problems) == (None, ())


def test_what_is_wrong_is_said_of_each_source(person: Person) -> None:
    person.says({"modell": {}})
    person.project_says({"turnguard": {"maxBlocksPerTurn": -1}})
    sources = person.sources("model.nope=1", TURNGUARD_NOPE="1")
    found = sources.found(str(person.project))
    assert [problem.origin for problem in found.problems] == ["user", "environment", "command line", "project"]
    assert [problem.origin for problem in sources.own_problems] == ["user", "environment", "command line"]
    assert "an integer of 0 or more" in messages(found)[-1]
    report = sources.report(str(person.project))
    assert report.problems == list(found.problems)
    assert person.sources().report(None).problems


def test_a_file_at_its_limit_is_read(person: Person) -> None:
    text = json.dumps(cap(50))
    person.project_says(text + " " * (MAX_FILE_BYTES - len(text)))
    assert held(person.sources(), CAP, person.project) == (50, "project")
    person.project_says(text + " " * (MAX_FILE_BYTES - len(text) + 1))
    assert held(person.sources(), CAP, person.project) == (None, "default")
