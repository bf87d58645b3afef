"""What the arguments of `turnguard acp` mean."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from tests.e2e.daemon import DEADLINE
from tests.e2e.relayed import ACP, ROOT
from turnguard.acp.command import choices_of
from turnguard.acp.options import Options
from turnguard_protocol.methods import Record


def test_what_is_not_chosen_is_as_the_proxy_has_it() -> None:
    choices = choices_of(["--", "agent"])
    assert choices.options == Options()
    assert (choices.agent, choices.assignments, choices.record, choices.log) == (["agent"], [], None, None)


def test_everything_can_be_chosen() -> None:
    proxy = ["--on-loop", "ask", "--stop-as=error", "--grace", "0.5", "--kill-after", "60", "--no-note"]
    proxy += ["--still-running", "fail"]
    others = ["--set", "a.b=1", "--set", "c=d=e", "--record", "r.jsonl", "--log", "l.txt"]
    choices = choices_of([*proxy, *others, "--", "agent"])
    assert choices.options == Options(
        stop_as="error", on_loop="ask", grace=0.5, still_running="fail", kill_after=60.0, note=False
    )
    assert choices.assignments == ["a.b=1", "c=d=e"]
    assert (choices.record, choices.log) == (Path("r.jsonl"), Path("l.txt"))


def test_what_follows_the_separator_is_the_agents_whatever_it_looks_like() -> None:
    command = ["npx", "agent", "--on-loop", "halt", "--help", "--version", "--", "-x", "--set"]
    assert choices_of(["--no-note", "--", *command]).agent == command


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--"],
        ["agent"],
        ["--no-note", "agent", "--"],
        ["--on-loop", "never", "--", "agent"],
        ["--stop-as", "end_turn", "--", "agent"],
        ["--still-running", "wait", "--", "agent"],
        ["--grace", "-1", "--", "agent"],
        ["--grace", "soon", "--", "agent"],
        ["--kill-after", "inf", "--", "agent"],
        ["--kill-after", "nan", "--", "agent"],
        ["--on", "halt", "--", "agent"],
    ],
)
def test_what_cannot_be_understood_is_refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        choices_of(argv)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert (told.out, "turnguard acp: error: " in told.err) == ("", True)


@pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
@pytest.mark.parametrize("option", ["--record", "--log"])
def test_a_file_that_cannot_be_written_is_told_before_the_agent_starts(tmp_path: Path, option: str) -> None:
    command = [*ACP, option, str(tmp_path / "no" / "file"), "--", "touch", str(tmp_path / "started")]
    ran = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (2, b"", 1)
    assert not (tmp_path / "started").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
@pytest.mark.parametrize("closed", ["2>&-", "<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_not_taken_for_others(tmp_path: Path, closed: str) -> None:
    """What is opened next would get their numbers, and words for stderr would go to the agent."""
    received = tmp_path / "received"
    agent = ["sh", "-c", f'echo \'{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":2}}}}\'; cat > "{received}"']
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *ACP, "--", *agent]
    handshake = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}\n'
    ran = subprocess.run(command, input=handshake, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert ran.returncode == 0
    assert received.read_bytes() == (b"" if "<&-" in closed else handshake)
    assert b"turnguard" not in ran.stdout


LINES = b"""\
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
"""
SAID = """\
{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"}}}
{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",\
"toolCallId":"c","title":"t","rawInput":{"password":"hunter2"}}}}
{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
def test_the_transcript_says_what_the_guards_heard(tmp_path: Path) -> None:
    record, says = tmp_path / "record", tmp_path / "says"
    says.write_text(SAID)
    agent = ["sh", "-c", f'read x; read x; cat "{says}"']
    ran = subprocess.run(
        [*ACP, "--record", str(record), "--", *agent],
        input=LINES,
        capture_output=True,
        cwd=ROOT,
        timeout=DEADLINE,
        check=True,
    )
    assert ran.stdout == SAID.encode()
    told = [msgspec.json.decode(line, type=Record) for line in record.read_bytes().splitlines()]
    assert [event.__class__.__name__ for each in told for event in each.events][:3] == [
        "TurnStarted",
        "StepFinished",
        "ToolCalls",
    ]
    assert b"hunter2" not in record.read_bytes()
    assert record.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there")
def test_the_log_names_a_halt_and_no_arguments(tmp_path: Path) -> None:
    log, says = tmp_path / "log", tmp_path / "says"
    started, call, answered = SAID.splitlines(keepends=True)
    says.write_text(started + "".join(call.replace('"c"', f'"c{number}"') for number in range(3)) + answered)
    agent = ["sh", "-c", f'read x; read x; cat "{says}"']
    subprocess.run(
        [*ACP, "--log", str(log), "--set", "model.maxToolCallsPerTurn=2", "--", *agent],
        input=LINES,
        capture_output=True,
        cwd=ROOT,
        timeout=DEADLINE,
        check=True,
    )
    (halted,) = (line for line in log.read_text().splitlines() if "halted" in line)
    time, _, told = halted.partition(" ")
    assert datetime.fromisoformat(time).tzinfo is not None
    assert told == 'halted: session "s", turn turn_tool_call_cap explicit_cap, count 3'
    assert "hunter2" not in log.read_text()
