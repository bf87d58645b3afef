"""`turnguard replay` and `turnguard explain`, as a person runs them."""

import gzip
import json
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.commands.process import DEADLINE, Home, command
from tests.headless.lines import claude

STUCK = claude("stuck", *[[("Bash", {"command": "cat x"}, "nothing")]] * 10)
FINE = claude("fine", *[[("Bash", {"command": f"cat {number}"}, f"{number}")] for number in range(3)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "transcripts"
    (folder / "deeper").mkdir(parents=True)
    (folder / "stuck.jsonl").write_bytes(STUCK)
    (folder / "deeper" / "fine.jsonl").write_bytes(FINE)
    (folder / "notes.txt").write_text("no transcript\n")
    return folder


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_folder(home: Home, folder: Path) -> None:
    ran = home.run("replay", folder)
    assert (ran.returncode, ran.stderr) == (0, "1 file of no known format left out.\n")
    assert ran.stdout == (
        f"{folder}/stuck.jsonl  claude\n"
        "  turn 1: 10 calls, 1 distinct, Bash (cat) 10 times  line 1\n"
        '    before call 5: warned, "Bash" has now given this same result 4 times in the last 20 calls  progress\n'
        '    before call 6: stopped, "Bash" has now given this same result 5 times in the last 20 calls (5 calls saved)'
        "  progress\n"
        f"{folder}/deeper/fine.jsonl  claude\n"
        "  turn 1: 3 calls, 3 distinct  line 1\n"
        "\n"
        "2 turns in 2 transcripts, 13 calls, 10 in the longest turn.\n"
        "The guards would have stopped 1 turn and saved 5 calls.\n"
        "guard     loop             would have  turns\n"
        "progress  no_new_evidence  halt            1\n"
        "progress  no_new_evidence  warn            1\n"
    )


def test_json_has_an_object_a_turn(home: Home, folder: Path) -> None:
    ran = home.run("replay", folder / "stuck.jsonl", folder / "deeper", "--json")
    stuck, fine = rows(ran.stdout)
    finding = {
        "guard": "progress",
        "loopType": "no_new_evidence",
        "reason": "call",
        "tool": "Bash",
        "setting": "turnguard.progress.action",
    }
    warning = {"call": 5, "action": "warn", "count": 4, "threshold": 2} | finding
    halt = {"call": 6, "action": "halt", "count": 5, "threshold": 2} | finding
    assert stuck == {
        "file": str(folder / "stuck.jsonl"),
        "format": "claude",
        "turn": 1,
        "origin": "user",
        "firstLine": 1,
        "began": "2026-01-01T00:00:00.000Z",
        "ended": "2026-01-01T00:00:09.000Z",
        "calls": 10,
        "steps": 10,
        "distinctCalls": 1,
        "maxRepeat": 10,
        "maxRepeatTool": "Bash",
        "maxRepeatHint": "cat",
        "halt": halt,
        "warning": warning,
        "savedCalls": 5,
        "findings": [warning, halt],
    }
    assert (fine["calls"], fine["halt"], fine["warning"], fine["findings"]) == (3, None, None, [])


def test_only(home: Home, folder: Path) -> None:
    (folder / "warned.jsonl").write_bytes(claude("w", *[[("Bash", {"command": "cat x"}, "nothing")]] * 4))
    halted = rows(home.run("replay", folder, "--only", "halted", "--json").stdout)
    warned = rows(home.run("replay", folder, "--only", "warned", "--json").stdout)
    assert [Path(str(row["file"])).name for row in halted] == ["stuck.jsonl"]
    assert [Path(str(row["file"])).name for row in warned] == ["stuck.jsonl", "warned.jsonl"]


def test_settings_of_the_person_and_of_the_command_line_hold(home: Home, folder: Path) -> None:
    home.write(home.user_file, '{"turnguard": {"progress": {"action": "off"}}}')
    assert rows(home.run("replay", folder / "stuck.jsonl", "--json").stdout)[0]["findings"] == []
    [row] = rows(home.run("replay", folder / "stuck.jsonl", "--json", "--set", "model.maxToolCallsPerTurn=4").stdout)
    assert isinstance(row["halt"], dict)
    assert (row["halt"]["call"], row["halt"]["reason"]) == (5, "explicit_cap")


def test_compare(home: Home, folder: Path) -> None:
    ran = home.run(
        "replay", folder, "--compare", "turnguard.progress.action=off", "--compare", "model.maxToolCallsPerTurn=2"
    )
    assert ran.returncode == 0
    shown = [line.strip() for line in ran.stdout.splitlines() if "compared" in line]
    stopped = "compared: before call 3: stopped, the turn came to 3 tool calls, and the cap that was set is 2"
    assert shown == [f"{stopped} (8 calls saved)  turn", f"{stopped} (1 call saved)  turn"]
    assert "The guards would have stopped 1 turn and saved 5 calls." in ran.stdout
    assert "Under --compare they would have stopped 2 turns and saved 9 calls." in ran.stdout
    assert "turn      turn_tool_call_cap  halt            0                2\n" in ran.stdout
    [stuck, _] = rows(home.run("replay", folder, "--compare", "turnguard.progress.action=off", "--json").stdout)
    assert len(str(stuck["findings"])) > 2
    assert stuck["compared"] == []


def test_html(home: Home, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ran = home.run("replay", folder, "--html", page)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith(f"Written to {page}: 2 turns, 1 of them drawn.\n")
    text = page.read_text("utf-8")
    assert "<h3>stuck.jsonl <span>turn 1, line 1; 10 calls" in text
    assert "<title>turnguard replay: transcripts</title>" in text
    assert str(folder) not in text, "a page may be shown to others"
    both = home.run("replay", folder, "--html", page, "--json")
    assert both.stdout == home.run("replay", folder, "--json").stdout
    compared = ("--compare", "model.maxToolCallsPerTurn=2", "--compare", "turnguard.progress.action=off")
    ran = home.run("replay", folder, "--html", page, *compared)
    assert ran.stderr.startswith(f"Written to {page}: 2 turns, 2 of them drawn.\n")
    text = page.read_text("utf-8")
    assert "with model.maxToolCallsPerTurn=2, turnguard.progress.action=off</p>" in text
    assert "before call 3 <b" in text
    both = home.run("replay", folder, "--html", page, "--json", *compared)
    assert both.stdout == home.run("replay", folder, "--json", *compared).stdout
    ran = home.run("replay", folder, "--html", tmp_path)
    assert ran.returncode == 2
    assert "cannot write" in ran.stderr


def test_an_agents_own_folder(home: Home) -> None:
    kept = home.root / ".claude/projects/-work/stuck.jsonl"
    home.write(kept, STUCK.decode())
    assert "1 turn in 1 transcript" in home.run("replay", "claude").stdout
    moved = home.run("replay", "claude", CLAUDE_CONFIG_DIR=str(home.root / "elsewhere"))
    assert moved.returncode == 1
    assert moved.stderr == (
        f"claude: it keeps no transcripts in {home.root}/elsewhere, {home.root}/.config/claude; "
        "give the path where they are\n"
        "There was no transcript to replay. turnguard replay --help names the formats that are read.\n"
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_and_a_packed_file(home: Home, tmp_path: Path, pack: type[bytes]) -> None:
    file = tmp_path / "packed"
    file.write_bytes(pack(STUCK))
    assert "10 calls" in home.run("replay", file).stdout
    if pack is bytes:
        assert "10 calls" in home.run("replay", "/dev/stdin", stdin=STUCK.decode()).stdout


@pytest.mark.parametrize("options", [["--json"], [], ["--compare", "turnguard.progress.action=off"]])
def test_several_processes_say_what_one_says(home: Home, folder: Path, options: list[str]) -> None:
    (folder / "broken.jsonl").write_bytes(STUCK + b"{\n")
    (folder / "unknown").write_bytes(b"no transcript\n")
    args = ["replay", folder, folder / "unknown", *options, "--jobs"]
    one, several = home.run(*args, 1), home.run(*args, 3)
    assert (several.returncode, several.stdout, several.stderr) == (one.returncode, one.stdout, one.stderr)
    assert one.returncode == 1
    assert one.stderr.count("\n") == 4


def test_standard_input_is_read_by_this_process(home: Home, folder: Path) -> None:
    assert "10 calls" in home.run("replay", "/dev/stdin", "--jobs", 2, stdin=STUCK.decode()).stdout
    with (folder / "stuck.jsonl").open("rb") as file:
        ran = subprocess.run(
            command("replay", "/dev/stdin", "--jobs", 2),
            env=home.environ,
            stdin=file,
            capture_output=True,
            timeout=DEADLINE,
            check=True,
        )
    assert b"10 calls" in ran.stdout


def test_an_interrupt_ends_all_processes(home: Home, folder: Path) -> None:
    for number in range(8):
        (folder / f"{number}.jsonl").write_bytes(FINE * 300)
    with home.at_terminal("replay", folder, "--jobs", 2, "--json") as terminal:
        terminal.wait_for('"calls"')
        terminal.interrupt()
        ended = terminal.end()
    assert "Traceback" not in ended.text
    assert ended.returncode == 130


def test_a_line_that_cannot_be_read_is_named_and_the_rest_goes_on(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    lines = STUCK.splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:5], b'{"type":"user","message":\n', *lines[5:], lines[0][:40]]))
    ran = home.run("replay", file)
    assert "10 calls" in ran.stdout
    assert ran.returncode == 0
    assert ran.stderr == f"{file}:6: not JSON\n{file}:23: not JSON\n2 lines could not be read; the rest was.\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"hello\n", "no transcript of a format that is known"),
        (b"\x1f\x8bno gzip", "it cannot be read"),
        (bytes(range(256)) * 400, "no transcript of a format that is known"),
    ],
)
def test_a_named_file_that_is_no_transcript(home: Home, tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    ran = home.run("replay", file)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"{file}: {words}")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "there is no nowhere; expected a path, or one of: "),
        ([], "the following arguments are required: PATH"),
        ([".", "--set", "model.cap=1"], "there is no setting"),
        ([".", "--compare", "model.cap=1"], "--compare: there is no setting"),
        ([""], "expected a path"),
        (["x\x1b[31m"], "there is no x\\x1b[31m;"),
        ([".", "--only", "all"], "invalid choice"),
        ([".", "--jobs", "0"], "expected a number from 1 to 61"),
        ([".", "--jobs", "many"], "expected a number from 1 to 61"),
    ],
)
def test_misuse(home: Home, args: list[str], words: str) -> None:
    ran = home.run("replay", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("args", [["--json"], []])
def test_nobody_reads_to_the_end(home: Home, folder: Path, args: list[str]) -> None:
    (folder / "notes.txt").unlink()
    (folder / "many.jsonl").write_bytes(FINE * 3_000)
    shell = f"{shlex.join(map(str, command('replay', folder, *args)))}"
    shell = f"{{ {shell}; echo $? >&2; }} | head -n 1"
    ran = subprocess.run(
        ["sh", "-c", shell], env=home.environ, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert len(ran.stdout.splitlines()) == 1
    assert ran.stderr == "141\n"


def test_explain(home: Home, folder: Path) -> None:
    ran = home.run("explain", folder / "stuck.jsonl")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        f"Turn 1 of 1 turn in {folder}/stuck.jsonl  claude\n"
        "10 calls in 10 steps, 1 of them different. It took 9.0 seconds.\n"
        "\n"
        "Calls that were made more than once\n"
        "    10 times  Bash (cat): each time the same result\n"
        "              call 1 to 10, lines 2 to 20\n"
        "\n"
        "What the guards would have said\n"
        '  before call 5, warned: "Bash" has now given this same result 4 times in the last 20 calls.'
        "  progress  turnguard.progress.action\n"
        '  before call 6, stopped: "Bash" has now given this same result 5 times in the last 20 calls.'
        "  progress  turnguard.progress.action\n"
        "\n"
        "Stopped before call 6, 5 calls and 4.0 seconds would have been saved.\n"
    )


def test_explain_takes_the_turn_that_was_asked_for(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    file.write_bytes(FINE + STUCK.replace(b'"sessionId": "stuck"', b'"sessionId": "fine"'))
    assert home.run("explain", file).stdout.startswith("Turn 2 of 2 turns")
    first = home.run("explain", file, "--turn", "1")
    assert first.stdout.startswith("Turn 1 of 2 turns")
    assert "No call was made twice." in first.stdout
    assert "No guard would have said anything." in first.stdout
    missing = home.run("explain", file, "--turn", "3")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"{file} has no such turn; it has 2 turns.\n"


def test_explain_says_what_it_could_not_read(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_bytes(STUCK + b"{\n")
    ran = home.run("explain", file)
    assert ran.stderr == f"{file}:22: not JSON\n1 line could not be read; the rest was.\n"
    assert ran.returncode == 0


def test_sessions_that_share_a_file(home: Home, tmp_path: Path) -> None:
    """Their lines stand between each other's."""
    file = tmp_path / "two.jsonl"
    other = claude("other", *[[("Bash", {"command": "cat x"}, "nothing")]] * 10)
    pairs = zip(STUCK.splitlines(keepends=True), other.splitlines(keepends=True), strict=True)
    file.write_bytes(b"".join(line for pair in pairs for line in pair))
    first, second = rows(home.run("replay", file, "--json").stdout)
    assert [row.get("session") for row in (first, second)] == [None, "other"]
    assert [(row["turn"], row["calls"], row["savedCalls"]) for row in (first, second)] == [(1, 10, 5)] * 2
    assert "claude, the first session of 2\n" in home.run("explain", file).stdout
    assert "claude, session other of 2\n" in home.run("explain", file, "--session", "other").stdout
    missing = home.run("explain", file, "--turn", 2)
    assert missing.stderr == f"{file} has no such turn; it has 2 turns: 1 of its first session, 1 of session other.\n"


def test_a_file_that_is_named_twice_counts_once(home: Home, folder: Path) -> None:
    (home.project / "link").symlink_to(folder)
    ran = home.run("replay", folder / "stuck.jsonl", folder, "link/stuck.jsonl")
    assert "2 turns in 2 transcripts, 13 calls" in ran.stdout


def test_files_of_no_known_format_are_named_when_asked(home: Home, folder: Path) -> None:
    lines = home.run("replay", folder, "-v").stderr.splitlines()
    assert lines == [
        f"{folder}/notes.txt: no transcript of a format that is known",
        "1 file of no known format left out.",
    ]


@pytest.mark.parametrize("args", [[], ["--only", "halted"]])
def test_no_turns_are_said(home: Home, tmp_path: Path, args: list[str]) -> None:
    file = tmp_path / "none.jsonl"
    file.write_bytes(FINE if args else b'{"type":"summary","summary":"x","leafUuid":"y"}\n')
    assert home.run("replay", file, *args).stdout == "No turns to show in 1 transcript.\n"


def test_long_names_of_tools_are_cut(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_bytes(claude("s", *[[("t" * 100, {}, "nothing")]] * 3))
    assert f", {'t' * 59}… 3 times" in home.run("replay", file).stdout


@pytest.mark.parametrize("environ", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_every_name_can_be_shown(home: Home, tmp_path: Path, environ: dict[str, str]) -> None:
    file = tmp_path / os.fsdecode(b"\xff\xc3\xa9.jsonl")
    file.write_bytes(claude("s", *[[("Bäsh", {}, "nothing")]] * 10))
    shown = home.run("replay", file, **environ)
    assert (shown.returncode, shown.stderr) == (0, "")
    explained = home.run("explain", file, **environ)
    assert (explained.returncode, explained.stderr) == (0, "")
    if "PYTHONIOENCODING" in environ:
        assert "B\\xe4sh" in shown.stdout
    [row] = rows(home.run("replay", file, "--json", **environ).stdout)
    assert str(row["file"]).endswith("\\udcff" + ("\\udcc3\\udca9" if "LC_ALL" in environ else "é") + ".jsonl")
    assert row["maxRepeatTool"] == "Bäsh"


def test_a_process_that_is_killed_is_told_in_a_line(home: Home, folder: Path) -> None:
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "long.jsonl").write_bytes(FINE * 20_000)
    process = subprocess.Popen(
        command("replay", folder, "--jobs", 2),
        env=home.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + DEADLINE
    while not (readers := readers_of(folder / "long.jsonl", process.pid)):
        assert time.monotonic() < end
    os.kill(readers[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "A process that read a file was killed" in errors


def readers_of(file: Path, pid: int) -> list[int]:
    """The children of a process that have a file open."""
    readers: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):  # it was closed meanwhile
            if any(each.readlink() == file for each in Path(f"/proc/{child}/fd").iterdir()):
                readers.append(int(child))
    return readers


@pytest.mark.parametrize("args", [["."], ["--turn"]])
def test_explain_of_a_folder(home: Home, args: list[str]) -> None:
    ran = home.run("explain", *args)
    assert ran.returncode == 2
    assert ("is a folder" in ran.stderr) == (args == ["."])


@pytest.mark.parametrize("args", [["nowhere"], ["."], [], ["x", "--turn", "one"]])
def test_explain_misuse(home: Home, args: list[str]) -> None:
    ran = home.run("explain", *args)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
