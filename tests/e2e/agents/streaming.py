"""Agents that print a stream: `python -m tests.e2e.agents.streaming HOW COMMAND...`.

Each command is a call and its result, as Claude Code prints them. Then the agent waits until it is ended. HOW it takes
that: `dies` at once; `speaks` some last words and exits with 0 at SIGINT; `terminates` only at SIGTERM, with 3; `stays`
until it is killed. With `over` it does not wait and exits with 4. The same with `-late` after it prints each call
together with its result, as opencode does.
"""

import json
import os
import signal
import sys
from types import FrameType

OUTPUT = "the same as always"
LAST_WORDS = b'{"type":"goodbye"}\n'


def init() -> bytes:
    return b'{"type":"system","subtype":"init","session_id":"s","cwd":"/"}\n'


def call(number: int, command: str) -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
    message = {"id": f"msg_{number}", "role": "assistant", "content": [block]}
    return _line({"type": "assistant", "message": message, "session_id": "s"})


def result(number: int, output: str = OUTPUT) -> bytes:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output}
    return _line({"type": "user", "message": {"role": "user", "content": [block]}, "session_id": "s"})


def late(number: int, command: str, output: str = OUTPUT) -> bytes:
    state = {"status": "completed", "input": {"command": command}, "output": output}
    part = {"type": "tool", "tool": "bash", "callID": f"call_{number}", "messageID": f"msg_{number}", "state": state}
    return _line({"type": "tool_use", "timestamp": number, "sessionID": "ses_1", "part": part})


def stream(*commands: str, is_late: bool = False) -> bytes:
    """All of it but the end."""
    if is_late:
        start = {"type": "step_start", "timestamp": 0, "sessionID": "ses_1", "part": {"type": "step-start"}}
        return b"".join([_line(start), *(late(number, command) for number, command in enumerate(commands))])
    steps = (call(number, command) + result(number) for number, command in enumerate(commands))
    return b"".join([init(), *steps])


def _line(members: object) -> bytes:
    return json.dumps(members).encode() + b"\n"


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _speak(number: int, frame: FrameType | None) -> None:
    write(LAST_WORDS)
    os._exit(0)


def main(how: str, *commands: str) -> None:
    how, _, when = how.partition("-")
    if how == "speaks":
        signal.signal(signal.SIGINT, _speak)
    elif how != "dies":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if how == "terminates":
        signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
    elif how == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(stream(*commands, is_late=when == "late"))
    if how == "over":
        os._exit(4)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
