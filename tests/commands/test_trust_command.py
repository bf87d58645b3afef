"""`turnguard trust`, the real process, at a real terminal: what it takes, what it shows, and for what it then holds."""

import json
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.commands.process import Ended, Home, command
from turnguard.commands.trust import changes
from turnguard.settings.table import FACES

CAP = "model.maxToolCallsPerTurn"
PROMPT = "Type yes"
LOOSE = '{"model": {"maxToolCallsPerTurn": 500, "skipLoopDetection": false}, "turnguard": {"shadow": true}}'


def trust(
    home: Home,
    typed: str = "yes\n",
    directory: object = ".",
    environ: Mapping[str, str] | None = None,
    **streams: int,
) -> Ended:
    """Trusts the project, or types something else, once the question was put."""
    environ = {"NO_COLOR": "1", **(environ or {})}
    with home.at_terminal("trust", directory, environ=environ, **streams) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type(typed)
        return terminal.end()


def cap(home: Home) -> tuple[object, str]:
    """The cap that holds in the project, and where it comes from."""
    report = json.loads(home.run("settings", "--json").stdout)
    (value,) = (value for value in report["values"] if value["name"] == CAP)
    return value["value"], value["origin"]


@pytest.fixture
def loose(home: Home) -> Home:
    """A home whose project has a file that would loosen."""
    home.write(home.project_file, LOOSE)
    return home


def test_a_typed_yes_at_a_terminal_trusts_what_was_shown(loose: Home) -> None:
    assert cap(loose) == (None, "default")
    ended = trust(loose)
    assert ended.returncode == 0
    assert f"{CAP}: not set -> 500" in ended.text
    assert "turnguard.shadow: false -> true" in ended.text
    assert "Trusted or not, this holds: model.skipLoopDetection" in ended.text
    assert str(loose.project_file) in ended.text
    assert cap(loose) == (500, "trusted project")


def test_what_is_written_is_private(loose: Home) -> None:
    trust(loose)
    file = loose.root / "state/turnguard/trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("typed", ["y\n", "\n", "YES\n", "yes please\n", "no\nyes\n", "\x04"])
def test_nothing_else_trusts(loose: Home, typed: str) -> None:
    ended = trust(loose, typed)
    assert (ended.returncode, ended.text.splitlines()[-1]) == (1, "Nothing was trusted.")
    assert loose.state == {}
    assert cap(loose) == (None, "default")


def test_interrupting_does_not_trust(loose: Home) -> None:
    with loose.at_terminal("trust", ".") as terminal:
        terminal.wait_for(PROMPT)
        terminal.interrupt()
        assert terminal.end().returncode == 130
    assert loose.state == {}


def test_a_pipe_is_refused(loose: Home) -> None:
    ran = loose.run("trust", ".", stdin="yes\n")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "terminal" in ran.stderr
    assert loose.state == {}


def test_a_closed_stdin_is_refused(loose: Home) -> None:
    closed = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command("trust", ".")]
    ran = subprocess.run(closed, cwd=loose.project, env=loose.environ, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "streams",
    [{"stdin": subprocess.DEVNULL}, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}],
    ids=["stdin", "output"],
)
def test_half_a_terminal_is_refused(loose: Home, streams: dict[str, Any]) -> None:
    with loose.at_terminal("trust", ".", **streams) as terminal:
        assert terminal.end().returncode == 2
    assert loose.state == {}


def test_stderr_will_do_where_stdout_goes_elsewhere(loose: Home) -> None:
    assert trust(loose, stdout=subprocess.DEVNULL).returncode == 0
    assert cap(loose) == (500, "trusted project")


def test_trust_ends_when_the_file_changes_and_comes_back_with_it(loose: Home) -> None:
    trust(loose)
    loose.write(loose.project_file, LOOSE.replace("500", "5000"))
    assert cap(loose) == (None, "default")
    assert "does not hold: its file has changed" in loose.run("trust", "--list").stdout
    loose.write(loose.project_file, LOOSE)
    assert cap(loose) == (500, "trusted project")
    assert loose.run("trust", "--list").stdout.endswith("  holds\n")


def test_a_file_that_changes_after_it_was_shown_is_not_trusted(loose: Home) -> None:
    with loose.at_terminal("trust", ".") as terminal:
        terminal.wait_for(PROMPT)
        loose.write(loose.project_file, '{"model": {"maxToolCallsPerTurn": 0}}')
        terminal.type("yes\n")
        terminal.end()
    assert cap(loose) == (None, "default")


def test_trust_is_for_the_real_path(loose: Home, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(loose.project)
    assert trust(loose, directory=link).returncode == 0
    assert cap(loose) == (500, "trusted project")
    other = tmp_path / "other"
    loose.write(other / ".turnguard/settings.json", LOOSE)
    loose.project = other
    assert cap(loose) == (None, "default")


def test_revoke(loose: Home) -> None:
    trust(loose)
    ran = loose.run("trust", "--revoke", ".")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert cap(loose) == (None, "default")
    assert loose.run("trust", "--list").stdout == "No project is trusted.\n"
    ran = loose.run("trust", "--revoke", ".")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "was not trusted" in ran.stderr


def test_what_is_gone_can_be_revoked(loose: Home) -> None:
    trust(loose)
    loose.project_file.unlink()
    listed = loose.run("trust", "--list").stdout
    assert listed.startswith(f"{loose.project.resolve()}  since ")
    assert "no such file any more" in listed
    assert loose.run("trust", "--revoke", loose.project).returncode == 0


@pytest.mark.parametrize("kind", ["nothing", "fifo", "directory", "link", "linked directory"])
def test_what_cannot_be_read_safely_is_refused(home: Home, kind: str) -> None:
    elsewhere = home.write(home.root / "elsewhere/settings.json", LOOSE)
    if kind == "linked directory":
        home.project_file.parent.symlink_to(elsewhere.parent)
    elif kind != "nothing":
        home.project_file.parent.mkdir()
    match kind:
        case "fifo":
            os.mkfifo(home.project_file)
        case "directory":
            home.project_file.mkdir()
        case "link":
            home.project_file.symlink_to(elsewhere)
        case _:
            pass
    with home.at_terminal("trust", ".") as terminal:
        ended = terminal.end()
    assert ended.returncode == 2
    assert str(home.project_file) in ended.text
    assert PROMPT not in ended.text
    assert home.state == {}


@pytest.mark.parametrize("args", [[], [".", "--list"], ["--list", "--revoke", "."], ["--revoke"], ["--yes", "."]])
def test_misuse(home: Home, args: list[str]) -> None:
    ran = home.run("trust", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("usage: turnguard trust")


def test_the_variables_of_the_moment_do_not_hide_what_it_loosens(loose: Home) -> None:
    ended = trust(loose, "no\n", environ={"TURNGUARD_MODEL_MAX_TOOL_CALLS_PER_TURN": "20"})
    assert f"{CAP}: not set -> 500" in ended.text


def test_what_a_repository_wrote_cannot_hide_what_it_loosens(home: Home) -> None:
    text = json.dumps({"turnguard": {"shadow": True}, "loopShield": {"states": {"a\x1b[2J\u202e\n": []}}})
    home.write(home.project_file, text)
    ended = trust(home, "no\n")
    assert "turnguard.shadow: false -> true" in ended.text
    assert "\x1b[2J" not in ended.text
    assert "\u202e" not in ended.text


def test_what_differs_by_face_is_shown_for_each() -> None:
    (change,) = changes({}, {"turnguard.progress.action": "warn"})
    assert (change.before, change.after) == ('"halt"', '"warn"')
    assert set(change.faces) == set(FACES) - {"serve"}
    assert len(changes({}, {"turnguard.progress.action": "off"})) == 2


def test_what_tightens_is_no_change() -> None:
    assert changes({}, {CAP: 50, "model.skipLoopDetection": False}) == []
    assert [change.before for change in changes({CAP: 20}, {CAP: 50})] == ["20"]


def test_the_longest_comes_first_so_that_the_question_stands_below_the_others() -> None:
    project = {"turnguard.shadow": True, CAP: 500, "loopShield.states": {"a": ["x" * 500]}}
    assert changes({}, project)[0].name == "loopShield.states"
