"""What a tool was asked and what it answered goes nowhere: each command is run on words that must not come out."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.process import DEADLINE, Home, command
from tests.commands.test_trust_command import PROMPT
from tests.e2e.daemon import body, call, calls
from tests.headless.lines import claude
from turnguard.framing import frame

CANARY = "canary7f3a"
SPELLINGS = (CANARY, CANARY.upper(), CANARY[::-1])
"""A part of a secret is one too: each secret has the word in it."""

SECRETS = [
    {"path": f"/home/{CANARY}/notes.md"},
    {"command": f"git commit -m {CANARY}"},
    {"command": f"curl -H 'Authorization: {CANARY}' https://{CANARY}.example"},
    {"command": f"{CANARY}=1 make {CANARY}"},
    {"command": f"echo {CANARY} | tee /tmp/{CANARY}"},
    {"text": CANARY * 1000, CANARY: [CANARY, {CANARY: None}]},
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A person's home, where nothing but what turnguard itself asks for keeps others from reading new files."""
    before = os.umask(0)
    (tmp_path / "home").mkdir(0o700)
    yield Home(tmp_path / "home")
    os.umask(before)


def is_clean(*texts: bytes | str) -> None:
    for text in texts:
        found = text if isinstance(text, str) else text.decode("utf-8", "replace")
        at = next((found.find(word) for word in SPELLINGS if word in found), None)
        assert at is None, found[max(0, at - 200) : at + 200]


def is_private(home: Home, *written_here: Path) -> list[Path]:
    """Every file that turnguard left in a home: nobody else can read it, and nothing of the secrets is in it."""
    left: list[Path] = []
    for file in home.root.rglob("*"):
        is_clean(file.name)
        if file.is_relative_to(home.project) or file in written_here:
            continue
        mode = stat.S_IMODE(file.lstat().st_mode)
        if file.is_file():
            assert mode == 0o600, file
            is_clean(file.read_bytes())
            left.append(file)
        elif "turnguard" in file.relative_to(home.root).parts:
            assert mode == 0o700, file
    return left


def run(home: Home, *args: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(*args), cwd=home.project, env=home.environ, input=data, capture_output=True, timeout=DEADLINE * 3
    )


# --- serve ------------------------------------------------------------------------------------------------------------


def told(args: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """A step of which everything that is secret is told."""
    error = {"error": f"{CANARY}: unknown tool: nope", "errorType": "execution", "ok": False}
    answer = {"output": {"content": [CANARY], "details": CANARY}} if number % 2 else error
    yield calls({"id": f"c{number}", **call("run_shell_command", **args)}, call("edit", **args))
    yield {"type": "toolResults", "results": [{"id": f"c{number}", **answer}, {"name": "edit", "args": args, **answer}]}
    yield {"type": "text", "delta": f"The password is {CANARY}."}
    yield {"type": "thought", "subject": CANARY, "description": CANARY}
    yield {"type": "callRekeyed", "id": f"c{number}", "args": {"again": CANARY}}


def messages(settings: dict[str, Any]) -> Iterator[bytes]:
    """A session whose turn loops; then requests that are wrong in every place where a secret can stand."""
    yield body("initialize", {"processId": None, "capabilities": {}}, 1)
    yield body("initialized", {})
    yield body("turnguard/openSession", {"sessionId": "s", "settings": settings}, 2)
    number = 2
    for times in range(12):
        for args in SECRETS:
            for event in told(args, times):
                number += 1
                yield body("turnguard/record", {"sessionId": "s", "events": [event]}, number)
    deep = f'"{CANARY}"'.join(["[" * 600, "]" * 600])
    for wrong in (
        f'{{"type":"toolCalls","calls":[{{"name":"x","args":{deep}}}]}}',
        f'{{"type":"toolCalls","calls":[{{"name":5,"args":"{CANARY}"}}]}}',
        f'{{"type":"toolCalls","calls":[{{"name":"x","args":"{CANARY}","key":"k"}}]}}',
        f'{{"type":"toolResults","results":[{{"id":"c1","output":{deep}}}]}}',
        f'{{"type":"toolResults","results":[{{"id":"c1","output":"{CANARY}","outcome":"o"}}]}}',
        f'{{"type":"text","delta":["{CANARY}"]}}',
        f'{{"type":"toolCalls","calls":"{CANARY}"}}',
        f'{{"type":"toolCalls","calls":[{{"args":"\\ud800{CANARY}","name":"x"}}]}}',
        f'{{"type":"toolCalls","calls":[{{"args":"{CANARY}',
    ):
        number += 1
        params = f'{{"sessionId":"s","events":[{wrong}]}}'
        yield f'{{"jsonrpc":"2.0","id":{number},"method":"turnguard/record","params":{params}}}'.encode()
    for method in ("prepareStep", "status", "settings", "closeSession"):
        number += 1
        yield body(f"turnguard/{method}", {"sessionId": "s"}, number)
    yield body("shutdown", None, number + 1)
    yield body("exit")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "model": {"maxToolCallsPerTurn": 0, "skipLoopDetection": False},
            "tools": {"loopDetection": {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}},
            "turnguard": {"shadow": True, "repeatedFailures": "enforce", "progress": {"action": "halt"}},
        },
        {"turnguard": {"turnGuard": "stream", "shadow": True}, "model": {"skipLoopDetection": False}},
    ],
)
def test_serve(home: Home, settings: dict[str, Any]) -> None:
    served = run(home, "serve", data=b"".join(map(frame, messages(settings))))
    assert served.returncode == 0, served.stderr
    assert b'"findings":[{' in served.stdout
    is_clean(served.stdout, served.stderr)
    assert [file.name for file in is_private(home)] == ["salt"]


# --- acp --------------------------------------------------------------------------------------------------------------

AGENT = """
import json, sys
words, received, sent = json.loads(sys.argv[1]), open(sys.argv[2], "wb", buffering=0), open(sys.argv[3], "w")
def say(message):
    for file in (sent, sys.stdout):
        file.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        file.flush()
def update(**told):
    say({"method": "session/update", "params": {"sessionId": "s", "update": told}})
prompt = None
for line in sys.stdin.buffer:
    received.write(line)
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if method == "initialize":
        say({"id": request, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif method == "session/new":
        say({"id": request, "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        prompt = request
        for n in range(12):
            for args in words["args"]:
                call = f"c{n}-{words['args'].index(args)}"
                text = {"type": "text", "text": words["text"]}
                update(sessionUpdate="agent_message_chunk", content=text)
                update(sessionUpdate="tool_call", toolCallId=call, title=words["text"], kind="execute",
                       status="pending", rawInput=args, locations=[{"path": words["text"]}])
                update(sessionUpdate="tool_call_update", toolCallId=call, status="failed" if n % 2 else "completed",
                       content=[{"type": "content", "content": text}], rawOutput={"out": words["text"]})
    elif method == "session/cancel":
        say({"id": prompt, "result": {"stopReason": "cancelled"}})
"""


def acp(home: Home, agent: Path, options: Sequence[str], prompt: str) -> tuple[bytes, bytes]:
    """The stdout and stderr of a proxy whose agent loops until it is stopped; the client leaves when it is told so."""
    received, sent = agent.with_name("received"), agent.with_name("sent")
    words = json.dumps({"args": SECRETS, "text": f"{CANARY} and more"})
    text = {"type": "text", "text": prompt}
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
        {"id": 2, "method": "session/new", "params": {"cwd": str(home.project), "mcpServers": []}},
        {
            "id": 3,
            "method": "session/prompt",
            "params": {"sessionId": "s", "prompt": [text]},
        },
    ]
    process = subprocess.Popen(
        [*command("acp", *options, "--"), sys.executable, agent, words, received, sent],
        cwd=home.project,
        env=home.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    heard: list[bytes] = []
    with process:
        try:
            for message in said:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
                process.stdin.flush()
                while json.loads(heard[-1] if heard else b"{}").get("id") != message["id"]:
                    heard.append(process.stdout.readline())
                    assert heard[-1], "the proxy has ended"
            rest, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    return b"".join(heard) + rest, errors


@pytest.mark.parametrize("on_loop", ["halt", "warn"])
def test_acp(home: Home, tmp_path: Path, on_loop: str) -> None:
    agent = tmp_path / "agent.py"
    # Where it is only warned nobody stops it.
    ends = 'method == "session/prompt"' if on_loop == "warn" else "False"
    agent.write_text(f'{AGENT}    if {ends}:\n        say({{"id": prompt, "result": {{"stopReason": "end_turn"}}}})\n')
    record, log = home.root / "record.jsonl", home.root / "log"
    options = ["--record", str(record), "--log", str(log), "--on-loop", on_loop, "--set", "model.maxToolCallsPerTurn=9"]
    out, errors = acp(home, agent, options, f"My password is {CANARY}.")
    is_clean(errors)
    of_agent = set((tmp_path / "sent").read_bytes().splitlines())
    own = [line for line in out.splitlines() if line not in of_agent]
    assert any(b"turnguard" in line for line in own)
    is_clean(*own)
    to_agent = [json.loads(line) for line in (tmp_path / "received").read_bytes().splitlines()]
    is_clean(*(json.dumps(line) for line in to_agent if line.get("method") != "session/prompt"))
    stopped = [line["result"]["stopReason"] for line in map(json.loads, out.splitlines()) if line.get("id") == 3]
    assert stopped == ["max_turn_requests" if on_loop == "halt" else "end_turn"]
    left = {file.name for file in is_private(home)}
    assert {"record.jsonl", "log"} <= left
    assert b"toolCalls" in record.read_bytes()


# --- hook -------------------------------------------------------------------------------------------------------------


def hooks(args: Any, number: int) -> Iterator[dict[str, Any]]:
    """What Claude Code, Codex and Gemini say of one call."""
    call = {"session_id": CANARY, "cwd": "/", "tool_name": "shell", "tool_input": args, "tool_use_id": f"c{number}"}
    answer = {"stdout": f"{CANARY} {number % 2}", "stderr": CANARY}
    yield {**call, "hook_event_name": "PreToolUse"}
    if number % 3:
        yield {**call, "hook_event_name": "PostToolUse", "tool_response": answer}
    else:
        yield {**call, "hook_event_name": "PostToolUseFailure", "error": f"{CANARY}: unknown tool: nope"}
    codex = {**call, "turn_id": "u", "agent_id": f"{number % 2}"}
    yield {**codex, "hook_event_name": "PreToolUse"}
    yield {**codex, "hook_event_name": "PostToolUse", "tool_response": CANARY}
    yield {**call, "hook_event_name": "BeforeTool"}
    yield {**call, "hook_event_name": "AfterTool", "tool_response": {"llmContent": CANARY}}


def test_hook(home: Home) -> None:
    options = ("--set", "tools.loopDetection.enabled=true", "--set", "model.maxToolCallsPerTurn=5")
    prompt = {"session_id": CANARY, "hook_event_name": "UserPromptSubmit", "prompt": CANARY}
    calls = [prompt, *(each for number in range(3) for args in SECRETS[1:3] for each in hooks(args, number))]
    answers: list[bytes] = []
    for given in calls:
        ran = run(home, "hook", *options, data=json.dumps(given).encode())
        assert ran.returncode == 0
        is_clean(ran.stdout, ran.stderr)
        answers.append(ran.stdout)
    assert any(b"stopped the turn" in answer for answer in answers)
    for wrong in (CANARY, f'{{"session_id": "{CANARY}', f'{{"hook_event_name": ["{CANARY}"]}}', f'["{CANARY}"]'):
        ran = run(home, "hook", data=wrong.encode())
        assert (ran.returncode, ran.stdout) == (0, b"")
        is_clean(ran.stderr)
    left = {file.suffix for file in is_private(home)}
    assert left == {"", ".json", ".lock"}
    for file in (home.root / "state/turnguard/sessions").glob("*.json"):
        file.write_text(f'{{"form": "{CANARY}"}}')
    ran = run(home, "hook", data=json.dumps(calls[1]).encode())
    is_clean(ran.stdout, ran.stderr)
    settings = home.write(home.root / ".claude/settings.json", f'{{"env": {{"SECRET": "{CANARY}"}}, "env": 1}}')
    ran = run(home, "hook", "install", "claude", "--write")
    is_clean(ran.stdout, ran.stderr)
    settings.unlink()


# --- exec -------------------------------------------------------------------------------------------------------------

STREAM = """
import json, signal, sys
words = json.loads(sys.argv[1])
def say(**line):
    print(json.dumps({"session_id": "s", **line}), flush=True)
say(type="system", subtype="init", cwd="/")
print('{"type": "assistant", "message": ' + words["text"])
for n in range(12):
    for args in words["args"]:
        call = f"c{n}-{words['args'].index(args)}"
        block = {"type": "tool_use", "id": call, "name": "Bash", "input": args}
        said = {"type": "text", "text": words["text"]}
        say(type="assistant", message={"id": call, "content": [said, block]})
        block = {"type": "tool_result", "tool_use_id": call, "content": words["text"], "is_error": bool(n % 2)}
        say(type="user", message={"content": [block]})
while sys.argv[2] == "halt":
    signal.pause()
"""


@pytest.mark.parametrize("on_loop", ["halt", "warn"])
def test_exec(home: Home, on_loop: str) -> None:
    # A record tells the program and the sub-command of a shell call; here that would be a secret.
    secrets = [args for args in SECRETS if "make" not in str(args)]
    words = json.dumps({"args": secrets, "text": f"{CANARY} and more"})
    record = home.root / "record.jsonl"
    options = ["--json", "--record", str(record), "--on-loop", on_loop, "--set", "model.maxToolCallsPerTurn=9"]
    ran = run(home, "exec", *options, "--", sys.executable, "-c", STREAM, words, on_loop)
    assert (ran.returncode, CANARY.encode() in ran.stdout) == (86 if on_loop == "halt" else 0, True)
    assert b"model.maxToolCallsPerTurn" in ran.stderr
    assert b"could not be read" in ran.stderr
    is_clean(ran.stderr)
    assert {"record.jsonl", "salt"} == {file.name for file in is_private(home)}
    assert b"toolCalls" in record.read_bytes()


# --- transcripts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [("replay",), ("replay", "--json"), ("replay", "--html", "page.html"), ("explain",)])
def test_replay_and_explain(home: Home, args: Sequence[str]) -> None:
    """What is shown of a command is its program and sub-command, so the target of a make is."""
    secrets = [secret for secret in SECRETS if "make" not in str(secret)]
    asked = [[("Bash", secret, CANARY * 10), ("Edit", secret, f"{CANARY}: failed")] for secret in secrets * 9]
    lines = claude("s", *asked, prompt=f"My password is {CANARY}.").splitlines(keepends=True)
    thought = {"type": "thinking", "thinking": CANARY}
    lines.append(
        json.dumps({"type": "assistant", "sessionId": "s", "message": {"content": [thought]}}).encode() + b"\n"
    )
    broken = f'{{"type": "user", "message": {{"content": [{{"type": 5, "text": "{CANARY}"}}], "{CANARY}": }}}}\n'
    lines += [broken.encode(), lines[1][:-20] + b"\n", f'{{"type": "user", "message": "{CANARY}"}}\n'.encode()]
    home.write(home.project / "s.jsonl", b"".join(lines).decode())
    ran = run(home, *args, "s.jsonl")
    assert ran.returncode == 0
    page = home.project / "page.html"
    shown = page.read_bytes() if page.exists() else ran.stdout
    assert b"Bash" in shown
    is_clean(shown, ran.stdout, ran.stderr)
    is_private(home)


# --- the commands without sessions ------------------------------------------------------------------------------------


def test_completion(home: Home) -> None:
    ran = run(home, "completion", "bash")
    assert ran.returncode == 0
    is_clean(ran.stdout, ran.stderr)
    assert is_private(home) == []


def test_demo(home: Home) -> None:
    home.environ["SECRET"] = CANARY
    ran = run(home, "demo")
    assert ran.returncode == 0
    is_clean(ran.stdout, ran.stderr)
    is_private(home)


BROKEN = f"""// the password is {CANARY}
{{model: {{maxToolCallsPerTurn: "{CANARY * 10}"}}, /* {CANARY} */ turnguard: {{shadow: true, maxBlocksPerTurn: }}}}"""
WRONG = f"""// the password is {CANARY}
{{model: {{maxToolCallsPerTurn: "{CANARY * 10}"}}, /* {CANARY} */ turnguard: {{shadow: true}}}}"""


@pytest.mark.parametrize("text", [BROKEN, WRONG])
@pytest.mark.parametrize(
    "args", [(), ("--json",), ("path",), ("check", ".turnguard/settings.json"), ("--project", ".")]
)
def test_settings(home: Home, text: str, args: Sequence[str]) -> None:
    """A file can hold what it should not; what is right in it or wrong is shown, and what is long is not."""
    home.write(home.user_file, text)
    home.write(home.project_file, text)
    ran = run(home, "settings", *args)
    is_clean(ran.stdout, ran.stderr)
    assert is_private(home, home.user_file, home.user_file.parent) == []


def test_trust(home: Home) -> None:
    home.write(home.project_file, WRONG)
    for args in ((".",), ("--list",), ("--revoke", ".")):
        ran = run(home, "trust", *args, data=f"{CANARY}\n".encode())
        is_clean(ran.stdout, ran.stderr)
    with home.at_terminal("trust", ".") as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("yes\n")
        ended = terminal.end()
    assert ended.returncode == 0
    is_clean(ended.text)
    is_clean(run(home, "trust", "--list").stdout)
    assert "trust.json" in {file.name for file in is_private(home)}


def test_every_command_is_here() -> None:
    """A command that is added is run here too."""
    text = subprocess.run(command("--help"), capture_output=True, text=True, timeout=DEADLINE, check=True).stdout
    named = {line.split()[0] for line in text.splitlines() if line.startswith("    ") and line[4] != " "}
    assert named == {
        "serve",
        "acp",
        "exec",
        "hook",
        "replay",
        "explain",
        "settings",
        "trust",
        "completion",
        "demo",
    }
