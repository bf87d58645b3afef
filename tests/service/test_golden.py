"""Wire messages as files: `golden/*.json` each play one message, after some others, and say what is answered.

With `WRITE_GOLDEN=1` in the environment the answers are written anew, to be reviewed as a diff.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from turnguard.framing import FrameReader
from turnguard.service.dispatch import Dispatcher
from turnguard.service.sessions import Sessions
from turnguard_protocol.methods import METHODS, NOTIFICATIONS
from turnguard_protocol.verdicts import Action

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))

HIDDEN = {"userMessage", "modelMessage", "keyDigest"}
"""Words for people and models are not part of the protocol, and digests are others in each daemon; only that there are
some.
"""


def hide(value: Any) -> Any:
    if isinstance(value, list):
        return [hide(item) for item in value]
    if isinstance(value, dict):
        return {name: "..." if name in HIDDEN and item else hide(item) for name, item in value.items()}
    return value


def answers(dispatcher: Dispatcher, message: Any) -> list[Any]:
    """What the daemon says to a message; to None, what it says unasked some time later."""
    if message is None:
        dispatcher.tell_changes()
    else:
        dispatcher.handle(message.encode() if isinstance(message, str) else json.dumps(message).encode())
    reader = FrameReader()
    reader.receive(dispatcher.take_frames())
    return [hide(json.loads(body)) for body in iter(reader.next_body, None)]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    dispatcher = Dispatcher(Sessions())
    for message in golden["before"]:
        answers(dispatcher, message)
    given = answers(dispatcher, golden["message"])
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(json.dumps({**golden, "answers": given}, indent=2, ensure_ascii=False) + "\n", "utf-8")
    else:
        assert given == golden["answers"]


def test_every_action_has_a_golden_file() -> None:
    given = [answer for path in GOLDEN for answer in json.loads(path.read_text("utf-8"))["answers"]]
    verdicts = [answer["result"] for answer in given if "admitted" in (answer.get("result") or {})]
    assert {verdict["action"] for verdict in verdicts} == set(Action)


def test_every_message_of_the_protocol_has_a_golden_file() -> None:
    seen: set[str] = set()
    for path in GOLDEN:
        golden = json.loads(path.read_text("utf-8"))
        for message in (golden["message"], *golden["answers"]):
            if isinstance(message, dict):
                seen.add(message.get("method", "") or str(message.get("error", {}).get("code", "")))
    codes = {"-32700", "-32600", "-32601", "-32602", "-32002", "-32801", "-32004"}
    assert seen >= {*METHODS, *NOTIFICATIONS, *codes, "initialize", "shutdown", "window/showMessage"}
