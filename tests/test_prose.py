"""What a model says of a command is no part of the command."""

import pytest
from msgspec import Raw

from turnguard.prose import bare, without_prose
from turnguard_protocol.events import Call, CallRekeyed, Text, ToolCalls, ToolResults


@pytest.mark.parametrize(
    ("tool", "args", "kept"),
    [
        ("Bash", '{"command":"ls","description":"Look"}', '{"command":"ls"}'),
        ("run_shell_command", '{"description":"Look","command":"ls"}', '{"command":"ls"}'),
        ("mcp__server__exec_command", '{"cmd":"ls","justification":"why"}', '{"cmd":"ls"}'),
        ("Agent", '{"description":"Look","prompt":"p"}', '{"description":"Look","prompt":"p"}'),
        ("read_file", '{"path":"a","task_progress":"- [x] one"}', '{"path":"a"}'),
        ("Bash", '{"command":"echo \\"description\\""}', '{"command":"echo \\"description\\""}'),
        ("Bash", '["description"]', '["description"]'),
        ("Bash", '"\\"description\\""', '"\\"description\\""'),
        ("Bash", '{"description":', '{"description":'),
        ("Bash", "{}", "{}"),
    ],
)
def test_arguments(tool: str, args: str, kept: str) -> None:
    assert bytes(bare(tool, Raw(args.encode()))).decode() == kept


def test_events() -> None:
    said = Raw(b'{"command":"ls","description":"Look"}')
    calls = ToolCalls([Call("Read", "1", Raw(b"{}")), Call("Bash", "2", said), Call("Bash", "3", key="k")], "run")
    bare_calls = without_prose(calls)
    assert isinstance(bare_calls, ToolCalls)
    assert bare_calls.run_id == "run"
    assert bare_calls.calls[0] == calls.calls[0]
    assert bare_calls.calls[1].args == Raw(b'{"command":"ls"}')
    assert bare_calls.calls[2] == calls.calls[2]
    rekeyed = without_prose(CallRekeyed("2", "Bash", said))
    assert isinstance(rekeyed, CallRekeyed)
    assert rekeyed.args == Raw(b'{"command":"ls"}')
    for event in (ToolCalls([Call("Bash", args=Raw(b"{}"))]), Text("description"), ToolResults([])):
        assert without_prose(event) is event
