"""What the documentation shows is what happens: its exchanges are played, its output is compared."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.headless.lines import claude
from turnguard.client import Connection
from turnguard.framing import frame
from turnguard.reference import page

ROOT = Path(__file__).parents[1]

Message = dict[str, Any]

COMPLAINTS = ("window/showMessage", "window/logMessage")
"""What the daemon says of settings that do not fit, and of its own mistakes."""


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / file).read_text("utf-8"), re.DOTALL | re.MULTILINE)


def exchange(text: str) -> Iterator[tuple[str, Message]]:
    """The messages of an example, each with the arrow before it."""
    for arrow, message in re.findall(r"^(-->|<--) (.*?)(?=^-->|^<--|\Z)", text, re.DOTALL | re.MULTILINE):
        yield arrow, json.loads(message)


def talks(file: str) -> list[list[tuple[str, Message]]]:
    """The exchanges of a page; each `initialize` begins a new one."""
    talks: list[list[tuple[str, Message]]] = []
    for block in blocks(file, "jsonc"):
        for arrow, message in exchange(block):
            if message.get("method") == "initialize":
                talks.append([])
            talks[-1].append((arrow, message))
    return talks


def identity(message: Message) -> tuple[str, object]:
    return ("answer", message["id"]) if "id" in message else ("notification", message["method"])


@pytest.mark.parametrize("talk", [*talks("README.md"), *talks("docs/protocol.md")])
def test_an_exchange_is_what_the_daemon_says(talk: list[tuple[str, Message]]) -> None:
    sent = [message for arrow, message in talk if arrow == "-->"]
    told = [message for arrow, message in talk if arrow == "<--"]
    connection = Connection([sys.executable, "-m", "turnguard", "serve"])
    try:
        connection.send(b"".join(frame(json.dumps(message).encode()) for message in sent))
        connection.close_stdin()
        heard = dict(received(connection))
    finally:
        connection.close()
    for message in told:
        actual = heard[identity(message)]
        if message.get("method") == "turnguard/didDetectLoop":
            assert message["params"].pop("verdict") == {"...": "the verdict above"}
            assert actual["params"].pop("verdict")["admitted"] == []
        assert actual == message
    mistakes = {key for key, message in heard.items() if "error" in message or message.get("method") in COMPLAINTS}
    assert mistakes <= {identity(message) for message in told}


def received(connection: Connection) -> Iterator[tuple[tuple[str, object], Message]]:
    while True:
        try:
            message = json.loads(connection.receive())
        except EOFError:
            return
        yield identity(message), message


def test_the_readme_shows_what_the_demo_prints() -> None:
    command = [sys.executable, "-m", "turnguard", "demo"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = blocks("README.md", "text")[0]
    assert printed == shown


def test_the_example_of_loopshield_prints_what_is_shown() -> None:
    (example,), (shown,) = blocks("docs/loopshield.md", "python"), blocks("docs/loopshield.md", "text")
    printed = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True).stdout
    assert printed == shown


def test_the_first_two_commands_of_the_readme_are_one_line_each() -> None:
    demo, tests = (block.splitlines() for block in blocks("README.md", "sh")[:2])
    assert [len(demo), len(tests)] == [1, 1]
    assert demo[0].endswith(".venv/bin/turnguard demo")
    assert tests[0].endswith("pytest")


FAILS = ("Bash", {"command": "npm test"}, "1 failing")
READS = [[("Read", {"file_path": f"src/{number}.ts"}, f"{number}")] for number in range(7)]


@pytest.mark.parametrize("shown", blocks("docs/headless.md", "console"))
def test_the_page_on_headless_shows_what_is_printed(shown: str, tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    stuck, fine = claude("login", *READS[:3], *[[FAILS]] * 12), claude("login", *READS)
    (tmp_path / "sessions/login.jsonl").write_bytes(stuck + fine)
    (tmp_path / "sessions/search.jsonl").write_bytes(claude("search", *READS))
    prompt, _, expected = shown.partition("\n")
    command = [sys.executable, "-m", *prompt.removeprefix("$ ").split()]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == expected


def test_the_page_on_the_command_line_is_what_the_commands_say() -> None:
    assert (ROOT / "docs/cli.md").read_text("utf-8") == page()


PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"]
PAGES += sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("file", PAGES)
def test_links_lead_somewhere(file: str) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", (ROOT / file).read_text("utf-8")):
        assert (ROOT / file).parent.joinpath(link).exists(), link
