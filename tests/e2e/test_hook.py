"""`turnguard hook` as agents run it: a process for each call, many at once, and whatever goes wrong it exits with 0."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.commands.process import DEADLINE, Home, command
from tests.headless.hook_calls import after, before, is_refused, is_stopped, prompt

CAP = ("--set", "model.maxToolCallsPerTurn=3", "--set", "turnguard.progress.action=off")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def run(home: Home, *args: str, data: bytes = b"", **streams: Any) -> subprocess.CompletedProcess[bytes]:
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    if "stdin" not in streams:
        given["input"] = data
    return subprocess.run(command("hook", *args), cwd=home.project, env=home.environ, timeout=DEADLINE * 3, **given)


def hear(home: Home, members: dict[str, Any], *args: str) -> dict[str, Any]:
    """The answer of a hook that has nothing else to say."""
    ran = run(home, "claude", *args, data=json.dumps(members).encode())
    assert (ran.returncode, ran.stderr) == (0, b"")
    return json.loads(ran.stdout) if ran.stdout else {}


def sessions(home: Home) -> Path:
    return home.root / "state/turnguard/sessions"


def total(home: Home) -> int:
    (file,) = sessions(home).glob("*.json")
    return json.loads(file.read_bytes())["session"]["guard"]["guards"]["turn"]["counter"]["total"]


def test_a_loop_ends(home: Home) -> None:
    assert hear(home, prompt()) == {}
    answers = [hear(home, each) for number in range(7) for each in (before(number), after(number))]
    assert [number for number, answer in enumerate(answers) if is_refused(answer)] == [10, 12]
    assert is_stopped(answers[10])
    assert "systemMessage" in answers[10]
    assert "systemMessage" not in answers[12]


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_processes_at_once_lose_no_count(home: Home, count: int) -> None:
    hear(home, prompt(), *CAP)
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda number: hear(home, before(number, f"ls {number}"), *CAP), range(count)))
    refused = [answer for answer in answers if is_refused(answer)]
    assert len(refused) == count - 3
    assert len([answer for answer in refused if "systemMessage" in answer]) == 1
    # The one that halted the turn was counted, and after it nothing is.
    assert total(home) == 4


@pytest.mark.slow
def test_fifty_processes_at_once_are_all_counted(home: Home) -> None:
    off = ("--set", "model.maxToolCallsPerTurn=1000", "--set", "turnguard.progress.action=off")
    hear(home, prompt(), *off)
    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(lambda number: hear(home, before(number, f"ls {number}"), *off), range(50))) == [{}] * 50
    assert total(home) == 50


def test_sessions_do_not_mix(home: Home) -> None:
    for name in ("one", "other"):
        hear(home, prompt(session=name))
    pairs = [(name, number) for number in range(4) for name in ("one", "other")]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda pair: hear(home, before(pair[1], session=pair[0]), *CAP), pairs))
    assert sum(map(is_refused, answers)) == 2
    assert len(list(sessions(home).glob("*.json"))) == 2


KILLED = """
import os, sys
from pathlib import Path
replace = Path.replace
def killed(self, target):
    if self.suffix == ".new":
        print("writing", flush=True)
        sys.stdin.read()
    return replace(self, target)
Path.replace = killed
from turnguard.commands import hook
given = os.environ["GIVEN"].encode()
hook._read = lambda: given
hook.main(["claude"])
"""


def test_a_process_that_is_killed_while_it_writes_harms_nothing(home: Home) -> None:
    hear(home, prompt(), *CAP)
    hear(home, before(1), *CAP)
    environ = {**home.environ, "GIVEN": json.dumps(before(2))}
    killed = [sys.executable, "-c", KILLED]
    with subprocess.Popen(killed, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert hear(home, before(3), *CAP) == {}
    assert total(home) == 2
    assert not is_refused(hear(home, before(4), *CAP))
    assert is_refused(hear(home, before(5), *CAP))


NOT_UNDERSTOOD = {
    "nothing": b"",
    "no JSON": b"hello",
    "half": b'{"session_id": "s", ',
    "another kind": b"[1, 2]",
    "wrong kinds": b'{"session_id": 7, "hook_event_name": "PreToolUse"}',
    "no Unicode": b'{"session_id": "\xff\xfe", "hook_event_name": 1}',
    "deep": b"[" * 200_000,
}


@pytest.mark.parametrize("data", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_an_input_that_is_not_understood_stops_nothing(home: Home, data: bytes) -> None:
    ran = run(home, "claude", data=data)
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert ran.stderr.startswith(b"turnguard hook: the input cannot be read")
    assert ran.stderr.count(b"\n") == 1


@pytest.mark.parametrize("args", [("--wrong",), ("nobody",), ("claude", "codex", "x"), ("--set",), ("-x", "claude")])
def test_misuse_stops_nothing(home: Home, args: Sequence[str]) -> None:
    ran = run(home, *args, data=json.dumps(before(1)).encode())
    assert ran.returncode == 0
    assert b"Traceback" not in ran.stderr
    if ran.stdout:
        json.loads(ran.stdout)


def test_a_setting_that_is_wrong_is_told_and_stops_nothing(home: Home) -> None:
    answer = hear(home, prompt(), "--set", "model.maxToolCallsPerTurn=many")
    assert list(answer) == ["systemMessage"]


def test_a_state_that_cannot_be_written_stops_nothing(home: Home) -> None:
    (home.root / "state").write_text("")
    for members in (prompt(), *(before(number) for number in range(5))):
        ran = run(home, "claude", *CAP, data=json.dumps(members).encode())
        assert ran.returncode == 0
        assert b"Traceback" not in ran.stderr
        assert not ran.stdout or list(json.loads(ran.stdout)) == ["systemMessage"]


def test_an_answer_that_nobody_reads_stops_nothing(home: Home) -> None:
    for each in (prompt(), *(before(number) for number in range(4))):
        hear(home, each, *CAP)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = run(home, "claude", *CAP, data=json.dumps(before(9)).encode(), stdout=writing)
    finally:
        os.close(writing)
    assert ran.returncode == 0
    assert b"Traceback" not in ran.stderr


def test_without_streams_it_ends(home: Home) -> None:
    line = " ".join(command("hook", "claude"))
    ran = subprocess.run(["sh", "-c", f"{line} <&- >&- 2>&-"], env=home.environ, cwd=home.project, timeout=DEADLINE)
    assert ran.returncode == 0


def test_a_hook_that_another_one_holds_up_gives_up_and_stops_nothing(home: Home) -> None:
    hear(home, prompt())
    (lock,) = sessions(home).glob("*.lock")
    hold = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print('held', flush=True); sys.stdin.read()"
    holder = [sys.executable, "-c", hold, str(lock)]
    quick = "from turnguard.headless.hooks import lock, store; from turnguard.commands import hook; import functools; "
    quick += "store.locked = functools.partial(lock.locked, seconds=0.1); sys = __import__('sys'); "
    quick += "sys.exit(hook.main(['claude']))"
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        ran = subprocess.run(
            [sys.executable, "-c", quick],
            env=home.environ,
            input=json.dumps(before(1)).encode(),
            capture_output=True,
            timeout=DEADLINE,
        )
        process.kill()
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert b"held it for too long" in ran.stderr


def test_it_loads_nothing_that_is_slow(home: Home) -> None:
    code = "import os, sys; from turnguard.cli import main; "
    code += "os._exit = lambda code: print('loaded', *sys.modules, file=sys.stderr); "
    code += "main(['hook', 'claude', *sys.argv[1:]])"
    answer = b""
    for number in range(4):
        ran = subprocess.run(
            [sys.executable, "-c", code, *CAP],
            env=home.environ,
            input=json.dumps(before(number)).encode(),
            capture_output=True,
            timeout=DEADLINE,
        )
        answer = ran.stdout
        loaded = ran.stderr.decode().split("loaded ")[1].split()
        assert {"asyncio", "pygls", "lsprotocol", "rich"}.isdisjoint(loaded)
        assert not any("readers" in each or "acp" in each for each in loaded)
    assert is_refused(json.loads(answer))


def test_a_large_call_is_heard(home: Home) -> None:
    large = "x" * 20_000_000
    hear(home, prompt())
    assert hear(home, before(1, large)) == {}
    assert hear(home, after(1, large, "ls")) == {}
    (file,) = sessions(home).glob("*.json")
    assert file.stat().st_size < 100_000


# --- install ----------------------------------------------------------------------------------------------------------


def install(home: Home, *args: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return home.run("hook", "install", *args, **environ)


def test_install_prints(home: Home) -> None:
    ran = install(home, "claude")
    assert ran.returncode == 0
    hooks = json.loads(ran.stdout)["hooks"]
    (entry,) = hooks["PreToolUse"]
    assert entry["matcher"] == "*"
    assert entry["hooks"][0]["command"].endswith("turnguard hook claude")
    assert ".claude/settings.json" in ran.stderr
    assert not (home.root / ".claude").exists()


STYLES = {
    "tabs": b'{\n\t"model": "opus",\n\t"n": 1.50,\n\t"\xc3\xa9": "\xc3\xbc"\n}\n',
    "one line": b'{"a":[1,2,{"b":null}]}',
    "escapes": b'{"a": "\\u00e9\\/"}\r\n\r\n',
    "empty": b"",
    "an empty object": b"{ }",
    "a mark": b'\xef\xbb\xbf{"a": 1e2}',
    "other hooks": b'{"hooks": {"PreToolUse": [{"matcher": "Bash",   "hooks": []}], "Setup": []}}',
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES)
def test_install_writes_and_removes(home: Home, text: bytes) -> None:
    file = home.write(home.root / ".claude/settings.json", "")
    file.write_bytes(text)
    backup = file.parent / "settings.json.before-turnguard"
    file.chmod(0o640)
    assert install(home, "claude", "--write").returncode == 0
    written = file.read_bytes()
    assert b"turnguard hook claude" in written
    assert backup.read_bytes() == text
    assert "stays as it is" in install(home, "claude", "--write").stdout
    assert file.read_bytes() == written
    assert install(home, "claude", "--write", "--set", "model.maxToolCallsPerTurn=9").returncode == 0
    assert file.read_bytes() != written
    assert backup.read_bytes() == text
    assert install(home, "claude", "--remove").returncode == 0
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (text, 0o640)
    assert [each.name for each in file.parent.iterdir()] == ["settings.json"]
    assert "stays as it is" in install(home, "claude", "--remove").stdout


def test_install_keeps_the_style_of_a_file(home: Home) -> None:
    file = home.write(home.root / ".claude/settings.json", STYLES["tabs"].decode())
    install(home, "claude", "--write")
    assert '\n\t"é": "ü"' in file.read_text("utf-8")


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "qwen"])
def test_where_there_was_no_file_none_is_left(home: Home, agent: str) -> None:
    folder = home.root / f".{agent}"
    install(home, agent, "--write")
    install(home, agent, "--write", "--set", "model.maxToolCallsPerTurn=9")
    assert len(list(folder.iterdir())) == 1
    assert "it is gone" in install(home, agent, "--remove").stdout
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("was", "now"), [('"a": 1', '"a": 2'), ('"a": 1', '"a": true'), ('"a": 1', '"b": 1')])
def test_what_a_person_changed_since_is_kept(home: Home, was: str, now: str) -> None:
    file = home.write(home.root / ".claude/settings.json", f"{{{was}}}")
    install(home, "claude", "--write")
    file.write_text(file.read_text().replace(was, now))
    assert install(home, "claude", "--remove").returncode == 0
    assert json.dumps(json.loads(file.read_bytes())) == f"{{{now}}}"
    backup = file.parent / "settings.json.before-turnguard"
    assert backup.read_text() == f"{{{was}}}"
    install(home, "claude", "--write")
    assert backup.read_text() == f"{{{was}}}"


@pytest.mark.parametrize("kept", ["hooked", "broken"])
def test_a_backup_that_does_not_fit_is_left_alone(home: Home, kept: str) -> None:
    file = home.write(home.root / ".claude/settings.json", '{"a": 1}')
    install(home, "claude", "--write")
    backup = file.parent / "settings.json.before-turnguard"
    backup.write_text(file.read_text() if kept == "hooked" else "{")
    text = backup.read_text()
    assert install(home, "claude", "--remove").returncode == 0
    assert (json.loads(file.read_bytes()), backup.read_text()) == ({"a": 1}, text)


def test_what_install_writes_is_what_runs(home: Home) -> None:
    install(home, "claude", "--write", "--set", "model.maxToolCallsPerTurn=1")
    document = json.loads((home.root / ".claude/settings.json").read_bytes())
    line = document["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    answers = [
        subprocess.run(
            ["sh", "-c", line], env=home.environ, input=json.dumps(before(n)).encode(), capture_output=True, check=True
        )
        for n in range(2)
    ]
    assert is_refused(json.loads(answers[1].stdout))


def runs(home: Home, file: Path, path: Path) -> bool:
    """Whether the command in a project's file of VS Code guards a turn, with that PATH and what `sh` needs."""
    line = json.loads(file.read_bytes())["hooks"]["PreToolUse"][0]["command"]
    ran = [
        subprocess.run(
            ["/bin/sh", "-c", f"{line} --set model.maxToolCallsPerTurn=1"],
            env=home.environ | {"PATH": str(path)},
            input=json.dumps(before(n)).encode(),
            capture_output=True,
            check=False,
        )
        for n in range(2)
    ]
    return ran[1].returncode == 0 and is_refused(json.loads(ran[1].stdout))


def test_a_projects_file_runs_what_is_on_the_path_of_the_agent(home: Home) -> None:
    path = home.root / "bin"
    script = home.write(path / "turnguard", f'#!/bin/sh\nexec {sys.executable} -m turnguard "$@"\n')
    file = home.project / ".github/hooks/turnguard.json"
    said = install(home, "vscode", "--write", "--project", home.project, PATH=str(path)).stderr
    assert "no turnguard is on this PATH" in said
    assert "--absolute" in said
    assert not runs(home, file, path)
    script.chmod(0o755)
    said = install(home, "vscode", "--project", home.project, PATH=str(path)).stderr
    assert f"on this PATH it is {script}, another one than this" in said
    assert runs(home, file, path)


@pytest.mark.parametrize("agent", ["vscode", "claude"])
def test_the_whole_path_in_a_projects_file_needs_no_path(home: Home, agent: str) -> None:
    nothing = home.root / "bin"
    args = (agent, "--write", "--project", home.project)
    install(home, *args, PATH=str(nothing))
    ran = install(home, *args, "--absolute", PATH=str(nothing))  # as the words say
    assert (ran.returncode, ran.stderr) == (0, "")
    if agent == "vscode":
        assert runs(home, home.project / ".github/hooks/turnguard.json", nothing)
    assert install(home, *args[:1], "--remove", *args[2:], PATH=str(nothing)).stderr == ""


def test_ones_own_file_has_the_whole_path(home: Home) -> None:
    assert install(home, "claude", "--write", PATH=str(home.root / "bin")).stderr == ""


def test_install_goes_where_the_agent_looks(home: Home) -> None:
    install(home, "claude", "--write", CLAUDE_CONFIG_DIR=str(home.root / "elsewhere"))
    assert (home.root / "elsewhere/settings.json").exists()
    install(home, "claude", "--write", "--project", home.project)
    project = json.loads((home.project / ".claude/settings.json").read_bytes())
    assert project["hooks"]["Stop"][0]["hooks"][0]["command"] == "turnguard hook claude"
    install(home, "vscode", "--write", "--project", home.project)
    own = home.project / ".github/hooks/turnguard.json"
    assert own.exists()
    install(home, "vscode", "--remove", "--project", home.project)
    assert not own.exists()


def test_install_changes_what_a_link_leads_to(home: Home) -> None:
    real = home.write(home.root / "dotfiles/claude.json", "{}")
    link = home.root / ".claude/settings.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert install(home, "claude", "--write").returncode == 0
    assert link.is_symlink()
    assert "turnguard" in real.read_text()


@pytest.mark.parametrize("text", ['{"a": 1, // why\n}', "[]", '{"a": 1, "a": 2}', '{"hooks": []}', "\x00"])
def test_install_leaves_alone_what_it_cannot_write_again(home: Home, text: str) -> None:
    file = home.write(home.root / ".gemini/settings.json", text)
    ran = install(home, "gemini", "--write")
    assert ran.returncode == 1
    assert ran.stderr.startswith("turnguard hook install: ")
    assert "Traceback" not in ran.stderr
    assert file.read_text() == text
    assert [each.name for each in file.parent.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), 2),
        (("nobody",), 2),
        (("claude", "--write", "--remove"), 2),
        (("claude", "--set", "nonsense"), 2),
        (("vscode", "--write"), 1),
    ],
)
def test_install_says_what_is_wrong(home: Home, args: Sequence[str], code: int) -> None:
    ran = install(home, *args)
    assert ran.returncode == code
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
