"""`turnguard settings`, the real process: every value with its origin, what was ignored and why, and what is wrong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.process import Home
from turnguard.settings.reference import schema_text
from turnguard.settings.table import BY_NAME, FACES

CAP = "model.maxToolCallsPerTurn"
ESCAPE = "\x1b"


def values(home: Home, *args: object, **environ: str) -> dict[str, Any]:
    """What `--json` answers, by name."""
    report = json.loads(home.run("settings", "--json", *args, **environ).stdout)
    return {value["name"]: value for value in report["values"]}


def all_layers(home: Home) -> Home:
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 300}, turnguard: {maxBlocksPerTurn: 5}}")
    home.write(home.project_file, '{"model": {"maxToolCallsPerTurn": 50}, "turnguard": {"shadow": true}}')
    return home


def test_nobody_set_anything(home: Home) -> None:
    ran = home.run("settings")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.split()[0] for line in ran.stdout.splitlines()] == list(BY_NAME)
    others = '  "warn"  (default; "halt" in acp, exec, hook and replay)'
    assert all(line.endswith(("  (default)", others)) for line in ran.stdout.splitlines())
    assert sum(line.endswith(others) for line in ran.stdout.splitlines()) == 1
    assert home.state == {}


def test_all_layers_at_once(home: Home) -> None:
    all_layers(home)
    given = ("--set", "turnguard.maxStepsPerTurn=40", "--set", "turnguard.progress.action=halt")
    held = values(home, *given, TURNGUARD_MODEL_SKIP_LOOP_DETECTION="false", TURNGUARD_MAX_STEPS_PER_TURN="60")
    assert held[CAP] == {"name": CAP, "value": 50, "origin": "project", "source": str(home.project_file)}
    assert held["turnguard.maxBlocksPerTurn"]["origin"] == "user"
    assert held["turnguard.maxBlocksPerTurn"]["source"] == str(home.user_file)
    assert (held["model.skipLoopDetection"]["value"], held["model.skipLoopDetection"]["origin"]) == (
        False,
        "environment",
    )
    assert (held["turnguard.maxStepsPerTurn"]["value"], held["turnguard.maxStepsPerTurn"]["origin"]) == (
        40,
        "command line",
    )
    assert held["turnguard.shadow"]["value"] is False
    (ignored,) = held["turnguard.shadow"]["ignored"]
    assert (ignored["origin"], ignored["value"]) == ("project", True)
    assert list(held) == list(BY_NAME)


def test_a_person_reads_the_same(home: Home) -> None:
    ran = all_layers(home).run("settings")
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0
    assert f"{CAP:50}  50  (project, {home.project_file})" in lines
    assert f"{'turnguard.maxBlocksPerTurn':50}  5  (user, {home.user_file})" in lines
    shadow = next(number for number, line in enumerate(lines) if line.startswith("turnguard.shadow "))
    assert lines[shadow].endswith("  false  (default)")
    assert lines[shadow + 1].startswith("    ignored true (project): ")


@pytest.mark.parametrize("face", FACES)
def test_each_face_has_its_defaults(home: Home, face: str) -> None:
    held = values(home, "--face", face)
    assert {name: held[name]["value"] for name in held} == {
        name: row.default_for(face)  # pyright: ignore[reportArgumentType]
        for name, row in BY_NAME.items()
    }


def test_the_project_is_the_one_of_the_directory(home: Home) -> None:
    all_layers(home)
    below = home.project / "src/deep"
    below.mkdir(parents=True)
    assert values(home, "--project", below)[CAP]["value"] == 50
    assert values(home, "--project", home.root)[CAP]["value"] == 300


def test_an_agents_own_block_is_shown_for_that_agent(home: Home) -> None:
    block = "{loopDetection: {enabled: true, warningThreshold: 4}}"
    home.write(home.user_file, f"{{agents: {{list: [{{id: 'mine', tools: {block}}}]}}}}")
    name = "tools.loopDetection.warningThreshold"
    of_agent = values(home, "--agent", "mine")[name]
    assert (of_agent["value"], of_agent["origin"]) == (4, "user (agents.list)")
    assert of_agent["source"] == str(home.user_file)
    for others in (("--agent", "other"), ()):
        assert values(home, *others)[name]["value"] == 10


def test_the_project_is_the_one_that_a_name_leads_to(home: Home) -> None:
    all_layers(home)
    (home.project / "sub").mkdir()
    home.write(home.project / "sub/.turnguard/settings.json", '{"model": {"maxToolCallsPerTurn": 2}}')
    (home.root / "link").symlink_to(home.project / "sub")
    for way in ("sub/..", home.root / "link/.."):
        held = values(home, "--project", way)[CAP]
        assert (held["value"], held["source"]) == (50, str(home.project_file))


def test_what_is_wrong_is_told_with_its_line_and_the_rest_holds(home: Home) -> None:
    home.write(home.user_file, "{\n  model: {\n    maxToolCalsPerTurn: 7,\n    skipLoopDetection: false,\n  },\n}\n")
    ran = home.run("settings")
    assert ran.returncode == 1
    assert f"{home.user_file}:3: " in ran.stdout
    assert CAP.rpartition(".")[2] in ran.stdout.partition("could not be taken")[2]
    report = json.loads(home.run("settings", "--json").stdout)
    (problem,) = report["problems"]
    assert (problem["origin"], problem["source"], problem["line"]) == ("user", str(home.user_file), 3)
    assert values(home)["model.skipLoopDetection"]["origin"] == "user"


@pytest.mark.parametrize(
    "args",
    [
        ["--set", "model.maxToolCalls=5"],
        ["--set", CAP],
        ["--set", f"{CAP}="],
        ["--set", f"{CAP}=many"],
        ["--project", "nowhere"],
        ["--face", "editor"],
        ["--jso"],
        ["check"],
        ["check", "nowhere.json"],
        ["unknown"],
    ],
)
def test_misuse(home: Home, args: list[str]) -> None:
    ran = home.run("settings", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("usage: turnguard settings")


def test_colours_are_for_terminals(home: Home) -> None:
    all_layers(home)
    assert ESCAPE not in home.run("settings", FORCE_COLOR="1").stdout
    with home.at_terminal("settings") as terminal:
        ended = terminal.end()
    assert ended.returncode == 0
    assert ESCAPE in ended.text
    with home.at_terminal("settings", environ={"NO_COLOR": "1"}) as terminal:
        assert "\x1b[3" not in terminal.end().text


def test_what_a_repository_wrote_cannot_steer_the_terminal(home: Home) -> None:
    hostile = "\x1b[2J\u202e\x9b\r"
    key, state = json.dumps(f"x{hostile}"), json.dumps(f"y{hostile}", ensure_ascii=False)
    home.write(home.project_file, f'{{"turnguard": {{{key}: 1}}, "loopShield": {{"fallbackState": {state}}}}}')
    for ran in home.run("settings"), home.run("settings", "check", home.project_file):
        assert ran.returncode == 1
        assert not set("\x1b\u202e\x9b\r") & set(ran.stdout + ran.stderr)


def test_check(home: Home, tmp_path: Path) -> None:
    good = home.write(tmp_path / "good.json", "// mine\n{turnguard: {shadow: true,},}")
    ran = home.run("settings", "check", good)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{good}: nothing is wrong\n", "")
    bad = home.write(
        tmp_path / "bad.json", '{\n  "turnguard": {\n    "maxStepsPerTurn": 0,\n    "shadow": null\n  }\n}'
    )
    ran = home.run("settings", "check", bad)
    assert ran.returncode == 1
    first, second = ran.stdout.splitlines()
    assert first.startswith(f"{bad}:3: ")
    assert "1 or more" in first
    assert second.startswith(f"{bad}:4: ")


def test_check_reads_a_projects_file_as_a_projects(home: Home) -> None:
    real = home.write(home.root / "elsewhere.json", "{}")
    home.project_file.parent.mkdir()
    home.project_file.symlink_to(real)
    ran = home.run("settings", "check", home.project_file)
    assert ran.returncode == 1
    assert "link" in ran.stdout
    assert home.run("settings", "check", real).returncode == 0


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_a_project_file_that_is_no_file_is_told_and_nobody_waits_for_it(home: Home, kind: str) -> None:
    home.project_file.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(home.project_file)
    elif kind == "directory":
        home.project_file.mkdir()
    else:
        home.project_file.symlink_to(home.write(home.root / "real.json", '{"turnguard": {"maxStepsPerTurn": 1}}'))
    ran = home.run("settings")
    assert ran.returncode == 1
    assert str(home.project_file) in ran.stdout
    assert values(home)["turnguard.maxStepsPerTurn"]["origin"] == "default"


def test_path_and_schema(home: Home) -> None:
    assert home.run("settings", "path").stdout == f"{home.user_file}\n"
    assert home.run("settings", "schema").stdout == schema_text()
    assert not home.user_file.exists()
