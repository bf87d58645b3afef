"""`turnguard exec` over pipes: what passes, what is stopped and how, and that nothing hangs."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.agents.streaming import LAST_WORDS, stream
from tests.e2e.daemon import DEADLINE, wait_until
from tests.e2e.executed import (
    EXEC,
    LOOP,
    ROOT,
    WORK,
    agent,
    children_of,
    close,
    end,
    python,
    read_line,
    run,
    sh,
    start,
)
from tests.e2e.relayed import is_running, pid_in
from turnguard.headless.words import deaf, unknown

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="turnguard exec does not run there")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

UNKNOWN = f"turnguard exec: {unknown()}\n".encode()


def said(errors: bytes) -> list[str]:
    """The lines that turnguard wrote to stderr; all that it writes says who it is."""
    assert b"Traceback" not in errors
    return errors.decode().splitlines()


# --- what passes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"words\n",
        b"no line feed",
        bytes(range(256)) * 4000,
        b"\n" * 3000,
        b"\xef\xbb\xbf{\r\n",
        b"{" * 1_000_000,
        stream(*WORK),
        stream(*WORK, is_late=True)[:-1],
        b"npm warn deprecated\n\n" + stream(*WORK),
        b"y\n" * 1_000_000,
    ],
    ids=range(11),
)
def test_every_byte_passes(tmp_path: Path, output: bytes) -> None:
    (tmp_path / "output").write_bytes(output)
    ran = run(["cat", str(tmp_path / "output")])
    assert (ran.returncode, ran.stdout) == (0, output)
    is_known = b"tool" in output
    assert ran.stderr == (b"" if is_known else UNKNOWN)


def test_stdin_and_stderr_are_the_programs(tmp_path: Path) -> None:
    ran = run(sh("cat; echo trouble >&2; exit 6"), data=bytes(range(256)) * 1000)
    assert (ran.returncode, ran.stdout) == (6, bytes(range(256)) * 1000)
    assert sorted(ran.stderr.splitlines()) == sorted([b"trouble", UNKNOWN.rstrip()])


def test_a_line_of_50_megabytes_passes_unread_and_is_counted() -> None:
    code = "import sys; sys.stdout.write(sys.argv[1]); print('{' + 'x' * 50_000_000 + '}')"
    ran = run(python(code, stream(*WORK).decode()))
    assert (ran.returncode, len(ran.stdout)) == (0, len(stream(*WORK)) + 50_000_003)
    (line,) = said(ran.stderr)
    number = stream(*WORK).count(b"\n") + 1
    counted = "1 line of the stream could not be read and passed unguarded"
    assert line == f"turnguard exec: {counted}; the first was line {number}: too long."


def test_what_was_written_passes_before_the_line_is_whole() -> None:
    process = start(sh("printf 'half a line'; read line; echo \" and $line\""))
    assert process.stdout is not None
    assert process.stdin is not None
    assert os.read(process.stdout.fileno(), 100) == b"half a line"
    os.write(process.stdin.fileno(), b"the rest\n")
    assert end(process) == (0, b" and the rest\n", UNKNOWN)


@only_linux
def test_a_reader_who_does_not_read_holds_the_program_up_and_loses_nothing(tmp_path: Path) -> None:
    code = """if True:
        import os, pathlib, sys
        total = 0
        while total < 20_000_000:
            total += os.write(1, b"0123456789" * 10_000)
            pathlib.Path(sys.argv[1]).write_text(str(total))
    """
    count = tmp_path / "count"
    process = start(python(code, count))
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 10) == b"0123456789"
    before = ""
    while before != (now := pid_or_nothing(count)):  # until it writes no more
        before = now
        wait_until(lambda: state_of(children_of(process.pid)[0]) == b"S")
    assert int(before or 0) < 2_000_000
    code_, out, _ = end(process)
    assert (code_, len(out)) == (0, 20_000_000 - 10)


def pid_or_nothing(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def state_of(pid: int) -> bytes:
    """What a process does, as ps has it: R runs, S waits, T is stopped."""
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return stat[stat.rindex(b")") + 2 :][:1]


def is_unread(pipe: Any) -> bool:
    """Whether nobody has the other end of a pipe that is written to."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


@only_linux
def test_files_that_were_given_are_the_programs() -> None:
    """As in `agent --config <(make-config)`."""
    reads, writes = os.pipe()
    os.set_inheritable(reads, True)
    process = start(["cat", f"/dev/fd/{reads}"], pass_fds=[reads])
    os.write(writes, b"from elsewhere")
    close(reads, writes)
    assert end(process)[:2] == (0, b"from elsewhere")


def test_who_writes_to_the_program_sees_it_stop_reading() -> None:
    process = start(sh("exec <&-; echo closed; exec sleep 100"))
    assert read_line(process) == b"closed\n"
    assert process.stdin is not None
    wait_until(lambda: is_unread(process.stdin))
    process.terminate()
    assert end(process)[0] == 143


@only_linux
def test_files_that_were_given_are_not_turnguards() -> None:
    reads, writes = os.pipe()
    os.set_inheritable(reads, True)
    code = "import os, sys; os.close(int(sys.argv[1])); print('closed', flush=True); sys.stdin.read()"
    process = start(python(code, reads), pass_fds=[reads])
    os.close(reads)
    assert read_line(process) == b"closed\n"
    wait_until(lambda: is_unread(writes))
    os.close(writes)
    assert end(process)[0] == 0


# --- exit codes -------------------------------------------------------------------------------------------------------


CODES = [("exit 0", 0), ("exit 7", 7), ("exit 86", 86), ("exit 255", 255)]
CODES += [(f"kill -{number} $$", 128 + number) for number in (1, 2, 6, 9, 13, 15)]


@pytest.mark.parametrize(("script", "code"), CODES)
def test_the_exit_code_is_what_a_shell_would_say(script: str, code: int) -> None:
    ran = run(sh(script))
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, b"", UNKNOWN)


@pytest.mark.parametrize(("command", "code"), [("no-such-program", 127), ("/", 126), (__file__, 126)])
def test_what_cannot_be_started_is_told_as_shells_do(command: str, code: int) -> None:
    ran = run([command])
    (line,) = said(ran.stderr)
    assert (ran.returncode, ran.stdout, line.startswith(f"turnguard exec: cannot start {command}: ")) == (
        code,
        b"",
        True,
    )


def test_a_command_without_a_name_is_not_found() -> None:
    ran = run([""])
    assert (ran.returncode, ran.stdout, len(said(ran.stderr))) == (127, b"", 1)
    assert ran.stderr.startswith(b"turnguard exec: cannot start '': ")


@pytest.mark.parametrize("files", range(6, 13))
def test_where_no_more_files_can_be_opened_it_is_told_in_a_line_or_runs(files: int) -> None:
    code = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)); "
    code += "from turnguard.cli import main; sys.exit(main(['exec', '--', 'echo', 'hi']))"
    preloaded = f"import turnguard.headless.run, turnguard.headless.exec; {code.replace('FILES', str(files))}"
    ran = subprocess.run([sys.executable, "-c", preloaded], capture_output=True, timeout=DEADLINE, check=False)
    (line,) = said(ran.stderr)
    assert (ran.returncode, ran.stdout) in ((126, b""), (0, b"hi\n"))
    assert line.startswith("turnguard exec: cannot start echo: " if ran.returncode else UNKNOWN.decode().rstrip())


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--"],
        ["true"],
        ["--grace", "-1", "--", "true"],
        ["--grace", "nan", "--", "true"],
        ["--on-loop", "ask", "--", "true"],
        ["--format", "nope", "--", "true"],
        ["--js", "--", "true"],
    ],
)
def test_misuse_is_2(argv: list[str]) -> None:
    ran = subprocess.run([*EXEC, *argv], capture_output=True, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"usage: turnguard exec [options] -- COMMAND...\nturnguard exec: error: ")


@pytest.mark.parametrize(
    ("options", "settings"),
    [(["--set", "model.maxToolCallsPerTurn=many"], ""), ([], "{model: {maxToolCallsPerTurn: 'many'}}")],
)
def test_it_does_not_start_with_settings_that_cannot_be_taken(
    tmp_path: Path, options: list[str], settings: str
) -> None:
    (tmp_path / "turnguard").mkdir()
    (tmp_path / "turnguard/settings.json").write_text(settings or "{}")
    environ = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    ran = run(["touch", str(tmp_path / "started")], *options, env=environ)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert "maxToolCallsPerTurn" in "".join(said(ran.stderr))
    assert not (tmp_path / "started").exists()


def test_a_record_that_cannot_be_written_is_told_before_the_program_starts(tmp_path: Path) -> None:
    ran = run(["touch", str(tmp_path / "started")], "--record", str(tmp_path / "no/file"))
    assert (ran.returncode, len(said(ran.stderr))) == (2, 1)
    assert not (tmp_path / "started").exists()


# --- the halt ---------------------------------------------------------------------------------------------------------


def test_a_stuck_agent_is_stopped_and_stderr_says_why() -> None:
    ran = run(agent("dies"))
    assert (ran.returncode, ran.stdout) == (86, stream(*LOOP))
    warning, message = said(ran.stderr)
    assert warning.startswith('turnguard exec: Warning: "Bash" has now given this same result ')
    assert message == (
        'turnguard exec: Stopped: "Bash" has now given this same result 5 times in the last 20 calls. '
        "The last call, number 6 of the turn, may have begun. Rule: no_new_evidence of the guard progress. "
        "Setting: turnguard.progress.action. To go on, start the agent again or resume its session "
        "(claude --continue): counts begin anew."
    )


def test_the_documentation_shows_what_is_said() -> None:
    page = (ROOT / "docs/headless.md").read_text("utf-8")
    for line in said(run(agent("dies")).stderr):
        assert f"\n{line}\n" in page


def test_a_productive_agent_is_left_alone() -> None:
    ran = run(agent("over", WORK))
    assert (ran.returncode, ran.stdout, ran.stderr) == (4, stream(*WORK), b"")


def test_an_agent_that_shows_calls_only_after_they_ran_is_told_of_so() -> None:
    ran = run(agent("dies-late"))
    assert ran.returncode == 86
    assert "The last call, number 6 of the turn, had already run." in said(ran.stderr)[-1]


def test_what_it_says_while_it_is_stopped_passes() -> None:
    ran = run(agent("speaks"))
    assert (ran.returncode, ran.stdout) == (86, stream(*LOOP) + LAST_WORDS)


@pytest.mark.parametrize("how", ["terminates", "stays"])
def test_an_agent_that_does_not_stop_is_terminated_and_then_killed(how: str) -> None:
    ran = run(agent(how), "--grace", "0.1")
    assert (ran.returncode, ran.stdout) == (86, stream(*LOOP))
    assert said(ran.stderr)[-1].startswith("turnguard exec: Stopped: ")


def test_the_cap_is_told_with_the_part_that_fired() -> None:
    ran = run(agent("dies", WORK), "--set", "model.maxToolCallsPerTurn=3")
    assert ran.returncode == 86
    (message,) = said(ran.stderr)
    assert message == (
        "turnguard exec: Stopped after 4 tool calls: this turn passed its tool-call cap, either the one set in "
        "model.maxToolCallsPerTurn or, when none is set, the adaptive one for long turns that repeat themselves. "
        "Here the turn came to 4 tool calls, and the cap that was set is 3. The last call, number 4 of the turn, may "
        "have begun. Rule: turn_tool_call_cap of the guard turn. Setting: model.maxToolCallsPerTurn (0: no cap). "
        "To go on, start the agent again or resume its session (claude --continue): counts begin anew."
    )


def test_the_guard_of_the_core_client_is_there_by_setting() -> None:
    ran = run(agent("dies"), "--set", "turnguard.turnGuard=stream")
    assert ran.returncode == 86
    assert "consecutive_identical_tool_calls" in said(ran.stderr)[-1]


def test_an_agent_that_ended_by_itself_was_not_stopped(tmp_path: Path) -> None:
    """What it left running says the rest."""
    (tmp_path / "output").write_bytes(stream(*LOOP))
    rest = f"while kill -0 $p 2>/dev/null; do :; done; cat {tmp_path}/output"
    ran = run(sh(f"p=$$; ({rest}) & exit 4"))
    assert (ran.returncode, ran.stdout) == (4, stream(*LOOP))
    assert "The agent had ended by itself." in said(ran.stderr)[-1]


def test_on_loop_warn_only_tells() -> None:
    ran = run(agent("over", LOOP * 3), "--on-loop", "warn", "--json")
    assert (ran.returncode, ran.stdout) == (4, stream(*LOOP * 3))
    *lines, report = said(ran.stderr)
    assert len(lines) == len(set(lines))
    assert lines[-1].startswith("turnguard exec: Warning: ")
    assert "It goes on, since --on-loop is warn." in lines[-1]
    verdict = json.loads(report)
    assert (verdict["stopped"], verdict["verdict"]["action"]) == (False, "halt")


def test_a_banner_may_come_first() -> None:
    banner = "".join(f"> line {number} of the banner {{\n" for number in range(200))
    code = (
        "import os, sys; os.write(1, sys.argv[1].encode()); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    )
    ran = run(python(code, banner, *agent("dies")[1:]))
    assert (ran.returncode, ran.stdout) == (86, banner.encode() + stream(*LOOP))


@pytest.mark.parametrize(("options", "format_"), [((), None), (("--format", "claude-stream"), "claude-stream")])
def test_a_format_can_be_named(tmp_path: Path, options: tuple[str, ...], format_: str | None) -> None:
    """Here the line is missing by which it would be recognised."""
    (tmp_path / "output").write_bytes(stream(*LOOP).partition(b"\n")[2])
    ran = run(["cat", str(tmp_path / "output")], *options, "--on-loop", "warn", "--json")
    *lines, line = said(ran.stderr)
    assert json.loads(line)["format"] == format_
    assert any("no_new_evidence" in line for line in lines) is (format_ is not None)


# --- its group --------------------------------------------------------------------------------------------------------

FAMILY = """
import os, signal, sys
from pathlib import Path
ignored = [signal.Signals[name] for name in sys.argv[2].split(",") if name]
if os.fork() == 0:
    for each in ignored:
        signal.signal(each, signal.SIG_IGN)
    os.close(1)
    os.close(2)
    Path(sys.argv[1] + ".new").write_text(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    while True:
        signal.pause()
while not Path(sys.argv[1]).exists():
    pass
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


@only_linux
@pytest.mark.parametrize("ignored", ["", "SIGINT", "SIGINT,SIGTERM"])
def test_what_it_started_ends_with_it(tmp_path: Path, ignored: str) -> None:
    ran = run(python(FAMILY, tmp_path / "pid", ignored, *agent("dies")[1:]), "--grace", "0.2")
    assert ran.returncode == 86
    wait_until(lambda: not is_running(pid_in(tmp_path / "pid")))


@only_linux
def test_what_it_left_running_is_let_be_when_it_ended_by_itself(tmp_path: Path) -> None:
    ran = run(python(FAMILY, tmp_path / "pid", "", *agent("over")[1:]), "--on-loop", "warn")
    pid = pid_in(tmp_path / "pid")
    assert (ran.returncode, is_running(pid)) == (4, True)
    os.kill(pid, signal.SIGKILL)


TELLS_ITS_PID = "open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1])"


@only_linux
def test_what_it_left_running_may_hold_its_stdout(tmp_path: Path) -> None:
    """A daemon, in a session of its own."""
    code = f"""if True:
        import os, signal, sys
        if os.fork() == 0:
            os.setsid()
            os.close(2)
            {TELLS_ITS_PID}
            signal.pause()
        while not os.path.exists(sys.argv[1]):
            pass
        print("started")
    """
    ran = run(python(code, tmp_path / "pid"))
    assert (ran.returncode, ran.stdout) == (0, b"started\n")
    pid = pid_in(tmp_path / "pid")
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@only_linux
def test_what_it_left_running_is_not_listened_to_for_ever(tmp_path: Path) -> None:
    code = f"""if True:
        import os, sys
        if os.fork():
            sys.exit(5)
        {TELLS_ITS_PID}
        while True:
            os.write(1, b"x" * 1000)
    """
    process = start(python(code, tmp_path / "pid"), stdout=subprocess.DEVNULL)
    assert end(process)[0] == 5
    wait_until(lambda: not is_running(pid_in(tmp_path / "pid")))


def test_a_program_that_closes_its_stdout_goes_on() -> None:
    process = start(sh("echo last; exec >&-; read line; exit 5"))
    assert process.stdout is not None
    assert process.stdin is not None
    assert read_line(process) == b"last\n"
    os.write(process.stdin.fileno(), b"go\n")
    assert end(process) == (5, b"", UNKNOWN)


def test_an_agent_that_goes_on_without_a_stdout_is_told_to_be_unguarded(tmp_path: Path) -> None:
    (tmp_path / "output").write_bytes(stream(*WORK))
    process = start(sh(f"cat {tmp_path}/output; exec >&-; read line; exit 5"))
    assert process.stderr is not None
    assert process.stdin is not None
    assert process.stderr.readline() == f"turnguard exec: {deaf()}\n".encode()
    os.write(process.stdin.fileno(), b"go\n")
    assert end(process) == (5, stream(*WORK), b"")


# --- its reader -------------------------------------------------------------------------------------------------------


def test_a_reader_who_leaves_ends_it_as_without_turnguard() -> None:
    process = start(sh("yes"))
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(DEADLINE) == 128 + signal.SIGPIPE
    assert process.stderr is not None
    assert said(process.stderr.read()) == [UNKNOWN.decode().rstrip()]
    end(process)


def test_it_hears_of_the_reader_at_its_next_write() -> None:
    process = start(sh("trap '' PIPE; echo one; read line; echo two 2>/dev/null || exit 9"))
    assert process.stdin is not None
    assert process.stdout is not None
    assert read_line(process) == b"one\n"
    process.stdout.close()
    if sys.platform == "linux":  # until the pipe of the program is closed
        wait_until(lambda: not is_read(process.pid))
    os.write(process.stdin.fileno(), b"go\n")
    assert process.wait(DEADLINE) == 9
    end(process)


def is_read(pid: int) -> bool:
    """Whether a process has the other end of its child's stdout."""
    theirs = {Path(f"/proc/{child}/fd/1").readlink() for child in children_of(pid)}
    return any(fd.readlink() in theirs for fd in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(("script", "code"), [("echo lost", 74), ("echo lost; exit 3", 3)])
def test_output_that_cannot_be_delivered_is_no_success(script: str, code: int) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(sh(script), stdout=full)
        ended, _, errors = end(process)
    assert ended == code
    assert "turnguard exec: cannot write to stdout: No space left on device" in said(errors)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_not_taken_for_others(tmp_path: Path, closed: str) -> None:
    file = tmp_path / "written"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *EXEC, "--", *sh(f"cat > {file}; echo out; exit 4")]
    ran = subprocess.run(command, input=b"in", capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert (ran.returncode, ran.stdout) == (4, b"" if ">&-" in closed.replace("2>&-", "") else b"out\n")
    assert file.read_bytes() == (b"" if "<&-" in closed else b"in")


# --- signals ----------------------------------------------------------------------------------------------------------

TRAPS = """
for each in INT TERM HUP QUIT USR1 USR2; do trap "echo $each; exit 7" $each; done
echo ready
while :; do read line; done
"""


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_are_the_programs(name: str) -> None:
    process = start(sh(TRAPS))
    assert read_line(process) == b"ready\n"
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert end(process) == (7, f"{name}\n".encode(), UNKNOWN)


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_a_program_that_a_signal_ends_is_told_as_shells_do(name: str, code: int) -> None:
    process = start(sh("echo ready; exec sleep 100"))
    assert read_line(process) == b"ready\n"
    process.send_signal(signal.Signals[f"SIG{name}"])
    assert end(process) == (code, b"", UNKNOWN)


@only_linux
def test_a_program_that_is_stopped_takes_the_signal() -> None:
    process = start(sh("echo $$; exec sleep 100"))
    pid = int(read_line(process))
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == b"T")
    process.terminate()
    assert end(process)[0] == 143


def test_signals_that_were_ignored_stay_so() -> None:
    code = (
        "import signal; print(*(signal.getsignal(each) == signal.SIG_IGN for each in (signal.SIGHUP, signal.SIGINT)))"
    )
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *EXEC, "--", *python(code)]
    ran = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=DEADLINE, check=False)
    assert ran.stdout == b"True False\n"


def test_a_storm_of_signals() -> None:
    count = """if True:
        import signal, sys
        came = []
        signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9 if came else 8))
        print("ready", flush=True)
        while True:
            signal.pause()
    """
    process = start(python(count))
    assert read_line(process) == b"ready\n"
    for _ in range(500):
        process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    assert end(process)[0] == 9


def test_whoever_asks_for_the_end_does_not_wait_for_a_reader_who_does_not_read() -> None:
    process = start(sh("yes"))
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 2) == b"y\n"
    process.terminate()
    assert process.wait(DEADLINE) == 143
    end(process)


@only_linux
def test_it_dies_with_turnguard() -> None:
    process = start(sh("trap '' TERM HUP INT; echo $$; while :; do sleep 1; done"), stderr=subprocess.DEVNULL)
    pid = int(read_line(process))
    assert is_running(pid)
    process.kill()
    wait_until(lambda: not is_running(pid))
    end(process)


@only_linux
def test_it_has_a_group_of_its_own() -> None:
    process = start(sh("echo $$; exec sleep 100"))
    pid = int(read_line(process))
    assert os.getpgid(pid) == pid
    process.terminate()
    end(process)


# --- the line of --json -----------------------------------------------------------------------------------------------


def report(errors: bytes) -> dict[str, Any]:
    line = json.loads(errors.splitlines()[-1])
    assert line["type"] == "turnguard"
    return line


def test_json_says_what_the_message_says() -> None:
    ran = run(agent("dies"), "--json")
    line = report(ran.stderr)
    assert (line["stopped"], line["format"], line["verdict"]["action"]) == (True, "claude-stream", "halt")
    assert f"turnguard exec: {line['verdict']['userMessage']}" == said(ran.stderr)[-2]
    assert line["verdict"]["findings"][0]["loopType"] == "no_new_evidence"
    assert ran.stdout == stream(*LOOP)


def test_json_comes_when_there_is_nothing_to_say_too() -> None:
    ran = run(agent("over", WORK), "--json")
    assert (ran.returncode, len(said(ran.stderr))) == (4, 1)
    line = report(ran.stderr)
    assert (line["stopped"], line["verdict"]["action"], line["verdict"]["totals"]["toolCalls"]) == (False, "allow", 8)


def test_json_comes_when_nothing_was_guarded_too() -> None:
    ran = run(["echo", "words"], "--json")
    assert said(ran.stderr)[:-1] == [UNKNOWN.decode().rstrip()]
    line = report(ran.stderr)
    assert (line["stopped"], line["format"], line["verdict"]["action"]) == (False, None, "allow")


def test_json_is_ascii_whatever_a_tool_is_called() -> None:
    name = "make\u009b31m\u202e\x7f\x1b]0;\u00e9"
    calls = stream(*LOOP).replace(b'"Bash"', json.dumps(name).encode())
    ran = run(python("import sys; sys.stdout.write(sys.argv[1])", calls.decode()), "--json")
    line = ran.stderr.splitlines()[-1]
    assert all(32 <= byte < 127 for byte in line)
    assert report(ran.stderr)["verdict"]["findings"][0]["tool"] == name
