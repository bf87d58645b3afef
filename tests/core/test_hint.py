"""What a call is about: the hint of shell calls and editors, and the class of every call."""

from typing import Any

import pytest

from tests.build import raw
from turnguard.core.hint import MAX_HINT_LENGTH, SHELL_TOOLS, call_class, call_hint, shell_hint

COMMANDS = [
    # the three examples of the rule
    ("cd /x && FOO=1 timeout 60 pytest -q", "pytest"),
    ("npm run build", "npm run build"),
    ("sleep 30", "sleep"),
    # segments
    ("ls -la | grep x", "ls"),
    ("cd /x; ls", "ls"),
    ("cd /x || ls", "ls"),
    ("cd /x\nls", "ls"),
    ("cd /x & ls", "cd"),
    *((f"{each} x && cat y", "cat") for each in ("cd", "export", "set", "source", ".", "pushd", "echo", "sleep")),
    *((f"{each} x", each) for each in ("cd", "export", "set", "source", ".", "pushd", "echo", "sleep")),
    ("# wait a bit\nsleep 5", "sleep"),
    ("sleep 5;\n\n", "sleep"),
    ("# only words", None),
    ("cd /x && echo done", None),
    ("", None),
    (" ;|\n", None),
    # what stands before a program
    ("A=1 B+=2 C='x y' make", "make"),
    ("A=1", None),
    ("A=1; make", "make"),
    *((f"{each} cat x", "cat") for each in ("sudo", "time", "nohup", "env", "exec", "command", "timeout 5")),
    ("sudo -E -u root env -i A=1 nohup time -p cat x", "cat"),
    ("timeout -s KILL -k 5 --foreground 1m cat x", "cat"),
    ("timeout --signal=KILL 5 cat x", "cat"),
    ("sudo cd /x && ls", "ls"),
    ("timeout", None),
    (59 * "A=1 " + "make", "make"),
    (60 * "A=1 " + "make", None),
    (59 * "A='1 2' " + "make", "make"),
    (60 * "A='1 2' " + "make", None),
    # the program
    ("/usr/bin/env /opt/x/cat y", "cat"),
    ('"/opt/my tools/run.sh" -x', "run.sh"),
    (r"C:\tools\jq.exe .", "jq.exe"),
    ("/ && ls", "ls"),
    ("'unclosed quote \" here", "unclosed"),
    # subcommands
    ("git -q status -s", "git status"),
    ("git", "git"),
    ("git --version", "git"),
    ("go test ./...", "go test"),
    ("docker compose up -d", "docker compose up"),
    ("docker compose exec web sh", "docker compose exec"),
    ("docker run --rm x", "docker run"),
    ("docker exec 'web' sh", "docker exec web"),
    ("npm run", "npm run"),
    ("apt-get install x", "apt-get install"),
    ("ls run build", "ls"),
    ("python -m pytest -q", "python -m pytest"),
    ("python3.12 -u -X dev -m pytest", "python3.12"),
    ("python3 -u -m json.tool x", "python3 -m json.tool"),
    ("python -m", "python"),
    ("python x.py -m y", "python"),
    ("pythonx -m y", "pythonx"),
    ("python -m 'SECRET=1'", "python"),
    # what may be secret is no subcommand
    ('git -c "http.extraHeader=Authorization: Bearer SECRET" push', "git push"),
    ("git -c http.extraHeader=SECRET push", "git push"),
    ("git -C secret --git-dir secret --no-pager log", "git log"),
    ("git --unheard-of secret push", "git"),
    ("git --unheard-of=secret push", "git push"),
    ("git -p log", "git log"),
    ("npm -p secret run build", "npm run build"),
    ("kubectl --token secret get pods", "kubectl get"),
    ("docker -H tcp://secret compose -p secret up", "docker compose"),
    ("make -j 4 test", "make"),
    ("make -j4 test", "make test"),
    ("make SECRET", "make"),
    ("make out/secret.o", "make"),
    ("git " + 33 * "a", "git"),
    ("git 'two words'", "git"),
    ("npm run $(SECRET)", "npm run"),
    ("git $(SECRET)", "git"),
    ("$(SECRET)", None),
    ("`SECRET`", None),
    ("user:SECRET@host", None),
]


@pytest.mark.parametrize(("command", "hint"), COMMANDS)
def test_the_hint_of_a_command(command: str, hint: str | None) -> None:
    assert shell_hint(command) == hint


def test_a_hint_is_short_and_can_be_written() -> None:
    assert shell_hint("x" * 1_000_000) == "x" * MAX_HINT_LENGTH
    assert shell_hint("a\ud800") == "a\ufffd"
    assert shell_hint("A=1 " * 300_000 + "ls") is None


CALLS: list[tuple[str, Any, str | None]] = [
    *((tool, {"command": "git status"}, "git status") for tool in sorted(SHELL_TOOLS)),
    ("Bash", {"command": "ls"}, "ls"),
    ("mcp__box__Run_Command", {"command": "ls"}, "ls"),
    ("bash__other", {"command": "ls"}, None),
    ("exec_command", {"cmd": "ls"}, "ls"),
    ("run_command", {"CommandLine": "ls"}, "ls"),
    ("bash", {"command": "ls", "cmd": "cat"}, "ls"),
    ("shell", {"command": ["bash", "-lc", "cd /x && ls"]}, "ls"),
    ("shell", {"command": ["powershell.exe", "-Command", "Get-Item x"]}, "Get-Item"),
    ("shell", {"command": ["cmd", "/c", "dir"]}, "dir"),
    ("shell", {"command": ["git", "log", "-1"]}, "git log"),
    ("shell", {"command": ["bash", "-x", "a.sh"]}, "bash"),
    ("shell", {"command": []}, None),
    ("shell", {"command": 5}, None),
    ("shell", {}, None),
    ("shell", [], None),
    ("shell", None, None),
    ("read_file", {"command": "ls"}, None),
    ("str_replace_editor", {"command": "view", "path": "x"}, "view"),
    ("str_replace_based_edit_tool", {"command": "str_replace"}, "str_replace"),
    ("mcp__text_editor__do", {"command": "create"}, "create"),
    ("str_replace_editor", {"command": "rm -rf /"}, None),
    ("str_replace_editor", {"command": ["view"]}, None),
    ("str_replace_editor", {"path": "x"}, None),
]


@pytest.mark.parametrize(("tool", "args", "hint"), CALLS)
def test_the_hint_of_a_call(tool: str, args: Any, hint: str | None) -> None:
    assert call_hint(tool, raw(args)) == hint


def test_members_beside_the_command_do_not_matter() -> None:
    assert call_hint("bash", b'{"x":"\\ud800","command":"ls \\ud800"}') == "ls"
    assert call_hint("bash", b'{"command":"ls","command":"cat"}') == "cat"


CLASSES: list[tuple[str, str | None, str]] = [
    # 1: the hint of a poll
    ("bash", "sleep", "poll"),
    ("Edit", "WAIT x", "poll"),
    ("bash", "watch", "poll"),
    ("bash", "sleeper", "other"),
    ("bash", "npm sleep", "other"),
    # 2: the hint of an editor
    *(("str_replace_editor", verb, "edit") for verb in ("create", "insert", "str_replace", "replace", "write")),
    ("mcp__text_editor__do", "Append x", "edit"),
    ("bash", "create", "other"),
    ("str_replace_editor", "view", "other"),
    ("submit_edit", "create", "edit"),
    # 3: final, by the whole last part
    *((name, None, "final") for name in ("finish", "Submit", "done", "complete", "attempt_completion")),
    *((name, None, "final") for name in ("final_answer", "finalize", "a__task_complete")),
    ("finish_it", None, "other"),
    ("finish__it", None, "other"),
    # 4: poll, by words and by name
    *((f"mcp__job__{word}_job", None, "poll") for word in ("wait", "poll", "sleep", "stdin", "monitor", "watch")),
    ("write_stdin", None, "poll"),
    ("wait__job", None, "other"),
    *((name, None, "poll") for name in ("BashOutput", "TaskOutput", "command_status")),
    ("waiter", None, "other"),
    # 5: edit, by words
    *((f"{word}_it", None, "edit") for word in ("edit", "multiedit", "write", "create", "replace", "insert")),
    *((f"{word}It", None, "edit") for word in ("append", "patch", "overwrite")),
    ("MultiEdit", None, "edit"),
    ("replace_in_file", None, "edit"),
    ("apply2Patch", None, "edit"),
    *((f"edit_{word}", None, "other") for word in ("editor", "tool", "view", "read", "todo", "task")),
    ("edit__it", None, "other"),
    ("str_replace_editor", None, "other"),
    ("TodoWrite", None, "other"),
    ("rewrite", None, "other"),
    # 6
    ("read_file", None, "other"),
    ("", "", "other"),
    ("x" * 200 + "_edit", None, "edit"),
]


@pytest.mark.parametrize(("tool", "hint", "kind"), CLASSES)
def test_the_class_of_a_call(tool: str, hint: str | None, kind: str) -> None:
    assert call_class(tool, hint) == kind


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("PASSWORD='ab;SECRET' ./run", "run"),
        ('PGPASSWORD="a|SECRET" psql', "psql"),
        ("echo 'password|SECRET' | chpasswd", "chpasswd"),
        ('cd x && echo "a; SECRET"', None),
        ('echo "line one\nSECRET" > .env', "echo"),
        ('export KEY="-----BEGIN\nSECRET"', "export"),
        ('export KEY="-----BEGIN\nSECRET', "export"),
        ("TOKEN=$(echo SECRET) cmd", "cmd"),
        ("TOKEN=$(echo $(cat a; echo SECRET)) cmd", "cmd"),
        ("TOKEN=`echo a; echo SECRET` cmd", "cmd"),
        ("TOKEN=a\\ SECRET cmd", "cmd"),
        ("cat <<EOF\nSECRET\nEOF", "cat"),
        ("cd x && cat > y <<'EOF'\na; SECRET\nEOF", "cat"),
        ("cd /tmp # note; SECRET", "cd"),
        ("sudo -p SECRET ls", "ls"),
        ("sudo --user SECRET ls", "ls"),
        ("env --chdir SECRET ls", "ls"),
        ("time -f SECRET ls", "ls"),
        ("make & wait", "make"),
        ("cd x&&make test", "make test"),
        ("true || git status", "true"),
    ],
)
def test_what_stands_in_quotes_is_no_word_of_a_hint(command: str, hint: str | None) -> None:
    assert shell_hint(command) == hint
