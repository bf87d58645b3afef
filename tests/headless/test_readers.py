"""What holds for the readers of all formats."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.headless.reading import text_of

from turnguard.headless.files import kept_by, open_transcript
from turnguard.headless.readers import FORMATS
from turnguard.transcript import Format, UnreadableError, head_of

BY_NAME = {format_.name: format_ for format_ in FORMATS}

NAMES = st.sampled_from(
    [
        *("type", "subtype", "message", "content", "role", "id", "uuid", "parentUuid", "sessionId", "isSidechain"),
        *("payload", "item", "name", "arguments", "call_id", "output", "text", "status", "exit_code", "changes"),
        *("toolCalls", "args", "result", "functionResponse", "response", "$set", "messages", "projectHash", "parts"),
        *("functionCall", "tool_id", "parameters", "part", "state", "input", "sessionID", "info", "tool", "thread_id"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "system", "result", "text", "tool_use", "tool_result", "gemini", "tool", "init"),
        *(
            "response_item",
            "event_msg",
            "session_meta",
            "function_call",
            "function_call_output",
            "message",
            "compacted",
        ),
        *(
            "item.started",
            "item.completed",
            "command_execution",
            "todo_list",
            "mcp_tool_call",
            "completed",
            "error",
            "",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=15,
)
LINES = st.lists(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=8).map(json.dumps) | st.text(max_size=20), max_size=5
)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FORMATS)


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
@settings(max_examples=25)
@given(lines=LINES)
def test_a_line_is_read_or_said_to_be_unreadable(format_: Format, lines: Sequence[str]) -> None:
    data = [line.encode(errors="surrogatepass") + b"\n" for line in lines]
    format_.recognises(head_of(data))
    reader = format_.reader()

    for told in (*(lambda line=line: reader.line(line) for line in data), reader.end):
        try:
            list(told())
        except UnreadableError as error:
            assert len(error.message) < 200


SESSION: dict[str, list[dict[str, Any]]] = {
    "claude": [{"type": "summary"}],
    "codex": [{"type": "session_meta", "payload": {"id": "t"}}],
    "gemini": [{"sessionId": "s", "projectHash": "h"}],
    "qwen": [{"sessionId": "s", "message": {"parts": []}}],
}


@pytest.mark.parametrize(
    ("name", "variable", "folder", "moved", "path"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".claude", "", "projects/-p/s.jsonl"),
        ("claude", "CLAUDE_CONFIG_DIR", ".claude", "", "projects/-p/s/subagents/agent-a1.jsonl"),
        ("codex", "CODEX_HOME", ".codex", "", "sessions/2026/03/01/rollout-1.jsonl"),
        ("codex", "CODEX_HOME", ".codex", "", "archived_sessions/rollout-1.jsonl"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini", ".gemini", "tmp/p/chats/session-1.jsonl"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini", ".gemini", "tmp/p/chats/session-1.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini", ".gemini", "tmp/p/chats/s/sub.jsonl"),
        ("qwen", "QWEN_HOME", ".qwen", "", "projects/-p/chats/s.jsonl"),
        ("qwen", "QWEN_RUNTIME_DIR", ".qwen", "", "projects/-p/subagents/s/agent-1.jsonl"),
    ],
)
def test_where_an_agent_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str, folder: str, moved: str, path: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    at_home, elsewhere = tmp_path / "home" / folder / path, tmp_path / "elsewhere" / moved / path
    for file in (at_home, elsewhere):
        file.parent.mkdir(parents=True)
        file.write_text(text_of(SESSION[name]))

    assert kept_by(BY_NAME[name].kept, {}) == [at_home]
    assert elsewhere in kept_by(BY_NAME[name].kept, {variable: str(tmp_path / "elsewhere")})
    transcript = open_transcript(at_home, FORMATS)
    assert transcript.format.name == name
    assert not list(transcript)
