"""The configuration of agents, with the hooks in it and without."""

import copy
from pathlib import Path
from typing import Any

import pytest

from turnguard.headless.hooks.agents import AGENTS, BY_NAME
from turnguard.headless.hooks.install import InstallError, configuration, file_of, merged, removed

CLAUDE = BY_NAME["claude"].place
COMMAND = "/opt/turnguard/bin/turnguard hook claude"
OTHER = {"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh", "timeout": 5}]}
OURS = {"matcher": "*", "hooks": [{"type": "command", "command": COMMAND}]}

SETTINGS: dict[str, Any] = {
    "model": "opus",
    "hooks": {"PreToolUse": [OTHER], "Notification": [{"hooks": [{"type": "command", "command": "beep"}]}]},
    "permissions": {"allow": ["Bash(ls:*)"]},
}


def test_everything_else_stays_and_in_its_order() -> None:
    document = merged(SETTINGS, CLAUDE, COMMAND)
    assert list(document) == list(SETTINGS)
    assert document["hooks"]["PreToolUse"] == [OTHER, OURS]
    assert document["hooks"]["Notification"] == SETTINGS["hooks"]["Notification"]
    assert set(CLAUDE.events) < set(document["hooks"])
    assert document["hooks"]["Stop"] == [{"hooks": OURS["hooks"]}]


def test_what_was_given_is_not_changed() -> None:
    before = repr(SETTINGS)
    merged(SETTINGS, CLAUDE, COMMAND)
    removed(merged(SETTINGS, CLAUDE, COMMAND))
    assert repr(SETTINGS) == before


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["empty", "full"])
def test_twice_is_once_and_removed_is_as_before(agent: Any, settings: dict[str, Any]) -> None:
    once = merged(settings, agent.place, COMMAND)
    assert merged(once, agent.place, COMMAND) == once
    assert removed(once) == settings
    assert removed(removed(once)) == settings


def test_a_command_that_changed_is_changed_where_it_is() -> None:
    old = {
        "matcher": "Bash",
        "hooks": [*OTHER["hooks"], {"type": "command", "command": "turnguard hook", "timeout": 9}],
    }
    document = merged({"hooks": {"PreToolUse": [old, OURS]}}, CLAUDE, COMMAND)
    new = {"type": "command", "command": COMMAND, "timeout": 9}
    assert document["hooks"]["PreToolUse"] == [{"matcher": "Bash", "hooks": [*OTHER["hooks"], new]}]


def test_events_that_are_not_listened_to_any_more_lose_the_hook() -> None:
    hooks: dict[str, Any] = {"SubagentStop": [OTHER, OURS], "Setup": [copy.deepcopy(OURS)]}
    document = merged({"hooks": hooks}, CLAUDE, COMMAND)
    assert document["hooks"]["SubagentStop"] == [OTHER]
    assert "Setup" not in document["hooks"]


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("turnguard hook", True),
        ("turnguard hook claude --set model.maxToolCallsPerTurn=9", True),
        ("/a/b/python -m turnguard hook claude", True),
        ("'/my tools/turnguard' hook claude", True),
        (r'"C:\tools\turnguard.exe" hook claude', True),
        ("turnguard hooks", False),
        ("turnguard replay claude", False),
        ("my-turnguard-hook claude", False),
        ("echo turnguard", False),
    ],
)
def test_what_is_taken_for_turnguards(command: str, is_ours: bool) -> None:
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
    assert (removed(settings) == {}) is is_ours


def test_groups_that_were_empty_before_stay() -> None:
    settings = {"hooks": {"Stop": [{"hooks": []}], "Setup": []}}
    assert removed(merged(settings, CLAUDE, COMMAND)) == settings


@pytest.mark.parametrize("wrong", [{"hooks": []}, {"hooks": None}, {"hooks": {"Stop": {}}}, {"hooks": {"Setup": "x"}}])
def test_what_is_not_understood_is_not_changed(wrong: dict[str, Any]) -> None:
    with pytest.raises(InstallError):
        merged(wrong, CLAUDE, COMMAND)


def test_entries_that_are_no_objects_stay() -> None:
    settings: dict[str, Any] = {"hooks": {"Stop": ["x", 7, {"hooks": "y"}, {"command": 5}]}}
    assert removed(merged(settings, CLAUDE, COMMAND)) == settings


def test_vs_code_has_no_groups() -> None:
    entry = {"type": "command", "command": COMMAND}
    assert set(map(repr, configuration(BY_NAME["vscode"].place, COMMAND)["hooks"].values())) == {repr([entry])}


@pytest.mark.parametrize(
    ("name", "environ", "file"),
    [
        ("claude", {}, "{home}/.claude/settings.json"),
        ("claude", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/settings.json"),
        ("codex", {}, "{home}/.codex/hooks.json"),
        ("codex", {"CODEX_HOME": "/c"}, "/c/hooks.json"),
        ("gemini", {}, "{home}/.gemini/settings.json"),
        ("gemini", {"GEMINI_CLI_HOME": "/g"}, "/g/.gemini/settings.json"),
        ("qwen", {}, "{home}/.qwen/settings.json"),
        ("qwen", {"QWEN_HOME": "/q"}, "/q/settings.json"),
    ],
)
def test_a_persons_own_file(
    name: str, environ: dict[str, str], file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert file_of(BY_NAME[name], None, environ) == Path(file.format(home=tmp_path))


def test_a_projects_file() -> None:
    where = {agent.name: str(file_of(agent, Path("/p"), {"CLAUDE_CONFIG_DIR": "/c"})) for agent in AGENTS}
    assert where == {
        "claude": "/p/.claude/settings.json",
        "codex": "/p/.codex/hooks.json",
        "gemini": "/p/.gemini/settings.json",
        "qwen": "/p/.qwen/settings.json",
        "vscode": "/p/.github/hooks/turnguard.json",
    }


def test_vs_code_has_no_file_of_a_persons_own() -> None:
    with pytest.raises(InstallError):
        file_of(BY_NAME["vscode"], None, {})
