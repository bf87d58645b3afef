"""T20, T25 and T28 of the proxy's acceptance tests, with both official SDK clients in front of a looping agent."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.relayed import ACP, ROOT

SDK = "@agentclientprotocol/sdk"
VERSION = "2.4.0"
HERE = Path(__file__).parent
AGENT = (sys.executable, "-m", "tests.e2e.agents.looping")
STOPPED_BY = "turnguard stopped this turn: "

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="turnguard acp does not run there"),
]

UNHEARD = "handling notification method=$/cancel_request"
"""What the Python SDK logs of a notification that it does not know yet; the session goes on."""

Client = Callable[..., list[Any]]
"""Runs a client with a plan, and options for turnguard; what it has seen, prompt by prompt."""


def on_python() -> list[str]:
    if importlib.util.find_spec("acp") is None:
        pytest.skip("needs agent-client-protocol, which turnguard[dev] has")
    return [sys.executable, str(HERE / "acp_sdk_client.py")]


def on_node() -> list[str]:
    """Where the SDK is installed, once for all runs on this machine."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs Node and npm")
    directory = Path(tempfile.gettempdir()) / f"turnguard-acp-sdk-{VERSION}"
    if not (directory / "node_modules" / SDK / "package.json").is_file():
        install = [npm, "install", "--prefix", str(directory), "--no-audit", "--no-fund", f"{SDK}@{VERSION}"]
        installed = subprocess.run(install, capture_output=True, text=True, timeout=180, check=False)
        if installed.returncode != 0:
            pytest.skip(f"npm could not install {SDK}: {installed.stderr[-500:]}")
    return ["node", str(HERE / "acp_sdk_client.mjs"), str(directory)]


@pytest.fixture(scope="module", params=[on_python, on_node])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    program: list[str] = request.param()
    home = str(tmp_path_factory.mktemp("home"))
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home}

    def run(plan: list[dict[str, str]], *options: str, may_say: str = "") -> list[Any]:
        command = [*program, json.dumps(plan), *ACP, *options, "--", *AGENT]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment
        )
        assert ran.returncode == 0, ran.stderr
        said = [line for line in ran.stderr.splitlines() if line.startswith("ERROR") or not may_say]
        assert all(may_say and may_say in line for line in said), ran.stderr
        return json.loads(ran.stdout)

    return run


def text_of(update: Any) -> str:
    return update["content"]["text"] if update["sessionUpdate"] == "agent_message_chunk" else ""


def statuses(shown: list[Any]) -> dict[str, str]:
    """The last status that was shown of each call."""
    return {each["toolCallId"]: each["status"] for each in shown if "toolCallId" in each}


def check_halted(shown: list[Any]) -> None:
    """What was shown before the answer: the explanation, once, and an end of every call."""
    at = [number for number, update in enumerate(shown) if STOPPED_BY in text_of(update)]
    assert len(at) == 1
    assert "failed" in statuses(shown[at[0] + 1 :]).values(), "the agent itself leaves a call open when it is cancelled"
    assert set(statuses(shown).values()) == {"completed", "failed"}


def check_report(seen: Any, *, is_after_a_halt: bool) -> list[Any]:
    """A prompt went through to the agent, with a note after a halt. Returns the answers that the agent had heard."""
    assert seen["answer"] == {"stopReason": "end_turn", "_meta": {"looping": "kept"}}
    (said,) = seen["shown"]
    report = json.loads(text_of(said))
    prompt, *notes = report["prompt"]
    assert prompt == "report"
    assert ["was stopped" in note for note in notes] == [True] * is_after_a_halt
    return report["answers"]


def check_meta(meta: Any, *, is_again: bool = False) -> None:
    assert meta["halted"] is True
    assert meta["code"] == "LOOP_DETECTED"
    assert (meta["guard"], meta["loopType"], meta["count"]) == ("progress", "no_new_evidence", 5)
    assert (meta["answeredBy"], meta["agentStopReason"], meta["again"]) == ("agent", "cancelled", is_again)


@pytest.mark.parametrize("stop_as", ["max_turn_requests", "cancelled"])
def test_t25_a_stop_reason_is_taken_and_the_next_prompt_works(client: Client, stop_as: str) -> None:
    halted, first, second = client([{"text": "loop"}, {"text": "report"}, {"text": "report"}], "--stop-as", stop_as)
    check_halted(halted["shown"])
    assert halted["answer"]["stopReason"] == stop_as
    assert halted["answer"]["_meta"].keys() == {"looping", "turnguard"}
    check_meta(halted["answer"]["_meta"]["turnguard"])
    check_report(first, is_after_a_halt=True)
    check_report(second, is_after_a_halt=False)


def test_t25_the_default_is_max_turn_requests(client: Client) -> None:
    (halted,) = client([{"text": "loop"}])
    assert halted["answer"]["stopReason"] == "max_turn_requests"


def test_t25_an_error_is_taken_and_the_next_prompt_works(client: Client) -> None:
    halted, next_one = client([{"text": "loop"}, {"text": "report"}], "--stop-as", "error")
    check_halted(halted["shown"])
    assert "answer" not in halted
    error = halted["error"]
    assert error["code"] == -32603
    data = error["data"]
    assert (data["code"], data["errorKind"], data["loopType"]) == ("LOOP_DETECTED", "loop_detected", "no_new_evidence")
    assert data["error"].startswith(STOPPED_BY)
    check_meta(data["_meta"]["turnguard"])
    check_report(next_one, is_after_a_halt=True)


def test_t28_a_driver_that_prompts_again_by_itself_ends(client: Client) -> None:
    seen = client([{"text": "loop", "while": "max_turn_requests"}])
    assert [each["answer"]["stopReason"] for each in seen] == ["max_turn_requests", "cancelled"]
    for number, each in enumerate(seen):
        check_halted(each["shown"])
        check_meta(each["answer"]["_meta"]["turnguard"], is_again=number > 0)


def test_t20_a_permission_still_open_is_cancelled_and_its_late_grant_goes_nowhere(client: Client) -> None:
    halted, *reports = client([{"text": "permission"}, {"text": "report"}, {"text": "report"}], may_say=UNHEARD)
    assert halted["answer"]["stopReason"] == "max_turn_requests"
    check_halted(halted["shown"])
    assert statuses(halted["shown"])["asked"] == "failed"
    heard = {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}}
    for number, report in enumerate(reports):
        assert check_report(report, is_after_a_halt=number == 0) == [heard]
