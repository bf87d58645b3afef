"""What each agent's table reads differently: names, arguments, outcomes; and which table an agent gets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acp.shapes import (
    Heard,
    call,
    claude,
    codex,
    gemini,
    later,
    opencode,
    permission,
    qwen,
    qwen_step,
    shown,
    usage,
    vibe,
    words,
)
from turnguard.acp.agents import TABLES, table_of
from turnguard.acp.agents.merged import MAX_HELD_BYTES, MAX_HELD_TEXT
from turnguard.acp.messages import AgentInfo
from turnguard_protocol.events import Facts


@pytest.mark.parametrize(
    ("name", "version", "key"),
    [
        ("@agentclientprotocol/claude-agent-acp", "0.101.0", "claude"),
        ("claude-code-acp", "0.10.0", "claude"),
        ("codex-acp", "0.16.0", "codex"),
        ("codex-acp", "2.6.0", "codex2"),
        ("@agentclientprotocol/codex-acp", "2.6.0", "codex2"),
        ("gemini-cli", "0.61.0", "gemini"),
        ("qwen-code", "0.24.4", "qwen"),
        ("OpenCode", "1.18.33", "opencode"),
        ("@mistralai/mistral-vibe", "3.0.2", "vibe"),
        ("fast-agent-mcp", "0.10.48", "fast-agent"),
        ("goose", "1.0.0", "goose"),
        ("Kimi CLI", "1.51.0", "kimi"),
        ("OpenHands CLI ACP Agent", "1.0.0", "kimi"),
        ("something new", "1", "generic"),
        ("", "", "generic"),
    ],
)
def test_agents_get_their_table(name: str, version: str, key: str) -> None:
    assert table_of(AgentInfo(name, version)) is TABLES[key]


def test_an_agent_that_says_nothing_is_generic() -> None:
    assert table_of(None).key == "generic"


def test_every_table_can_be_chosen() -> None:
    assert {table.key for table in TABLES.values()} == set(TABLES)


# --- identity ---------------------------------------------------------------------------------------------------------


def known(agent: str, *messages: Any) -> Any:
    """The only call in these messages, as it is known at last."""
    heard = Heard(agent)
    heard.hear(*messages)
    (only,) = heard.known
    return only


def same(agent: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two calls that are told so count as the same."""
    heard = Heard(agent)
    heard.hear(call("c1", status="in_progress", **one), call("c2", status="in_progress", **other))
    return heard.repeats == 2


def test_a_member_that_is_the_calls_own_id_is_no_argument() -> None:
    heard = Heard()
    for call_id in ("c1", "c2"):
        heard.hear(call(call_id, name="a", status="in_progress", rawInput={"ref": call_id, "n": 1}))
    assert heard.repeats == 2


@pytest.mark.parametrize("nothing", [{}, {"cwd": "/project"}, None])
def test_no_arguments_are_no_identity(nothing: Any) -> None:
    assert known("generic", call("c", name="a", status="in_progress", rawInput=nothing)).fidelity == "none"


@pytest.mark.parametrize("arguments", [["ls"], "ls", 5])
def test_arguments_need_not_be_an_object(arguments: Any) -> None:
    assert known("generic", call("c", name="a", status="in_progress", rawInput=arguments)).fidelity == "full"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"title": "Read a file"}, {"title": "Read a file"}, True),
        ({"title": "Read a file"}, {"title": "Read b file"}, False),
        ({"title": "Search"}, {"title": "Search"}, False),
        ({"title": "Read a file", "name": "read"}, {"title": "Read a file", "name": "read"}, False),
        ({"name": "read", "locations": [{"path": "a"}]}, {"name": "read", "locations": [{"path": "a"}]}, True),
        (
            {"name": "read", "locations": [{"path": "a", "line": 1}]},
            {"name": "read", "locations": [{"path": "a"}]},
            False,
        ),
        ({"name": "edit", "content": [{"type": "diff", "path": "a", "newText": "x"}]},) * 2 + (True,),
        (
            {"name": "edit", "content": [{"type": "diff", "path": "a", "newText": "x"}]},
            {"name": "edit", "content": [{"type": "diff", "path": "a", "newText": "y"}]},
            False,
        ),
        ({"name": "run", "content": shown("anything")}, {"name": "run", "content": shown("anything")}, False),
    ],
)
def test_signs_of_arguments_that_are_not_given(one: dict[str, Any], other: dict[str, Any], is_same: bool) -> None:
    assert same("generic", one, other) is is_same


def test_the_title_does_not_count_beside_arguments() -> None:
    given = {"name": "a", "rawInput": {"n": 1}}
    assert same("generic", {**given, "title": "One title"}, {**given, "title": "Another title"})


def test_a_tool_of_an_mcp_server_is_named_by_both() -> None:
    given = {"server": "files", "tool": "read", "arguments": {"path": "a"}}
    mcp = known("codex", call("c", title="mcp", kind="execute", status="in_progress", rawInput=given))
    assert (mcp.name, mcp.fidelity) == ("mcp__files__read", "full")
    assert same("codex", {"rawInput": given}, {"rawInput": dict(given)})
    assert not same("codex", {"rawInput": given}, {"rawInput": {**given, "arguments": {"path": "b"}}})
    named = known("generic", call("c", name="pick", status="in_progress", rawInput=given))
    assert named.name == "pick"


def test_codex_names_tools_by_their_events() -> None:
    def name(**told: Any) -> str:
        return known("codex", call("c", status="in_progress", **told)).name

    assert name(kind="read", rawInput={"command": ["ls"]}) == "exec_command"
    assert name(kind="execute", rawInput={"command": ["ls"], "interaction_input": ""}) == "write_stdin"
    assert name(kind="edit", rawInput={"changes": {"a": 1}}) == "apply_patch"
    assert name(kind="fetch", rawInput={"query": "a"}) == "fetch"


def test_codex_states_of_agents_are_no_arguments() -> None:
    told = {"kind": "other", "rawInput": {"prompt": "a", "status": "running", "agentsStates": {"x": 1}}}
    later_told = {"kind": "other", "rawInput": {"prompt": "a", "status": "done", "agentsStates": {"x": 2}}}
    for agent in ("codex", "codex2"):
        assert same(agent, told, later_told)


@pytest.mark.parametrize(
    ("call_id", "kind", "name"),
    [
        ("run_shell_command__fc1", "execute", "run_shell_command"),
        ("read_file-1700000000000-1", "read", "read_file"),
        ("plain", "read", "read"),
    ],
)
def test_gemini_names_are_in_the_ids(call_id: str, kind: str, name: str) -> None:
    assert known("gemini", call(call_id, title="a", kind=kind, status="in_progress")).name == name


def test_opencode_names_are_the_first_titles() -> None:
    bad = known(
        "opencode",
        call("c", title="no_such_tool", kind="other", status="pending", rawInput={}),
        later("c", title="invalid", status="in_progress", rawInput={"tool": "no_such_tool", "error": "unavailable"}),
    )
    assert bad.name == "no_such_tool"
    assert Heard("opencode").hear(later("c", status="in_progress", rawInput={"n": 1}, kind="read"))


@pytest.mark.parametrize("agent", ["opencode", "goose", "kimi"])
@pytest.mark.parametrize("title", ["cat a --password hunter2", "SECRET=hunter2", "x" * 65, "/home/hunter2", ""])
def test_a_title_that_is_no_name_is_none(agent: str, title: str) -> None:
    told = known(agent, call("c", title=title, kind="execute", status="in_progress", rawInput={"a": 1}))
    assert told.name == "execute"


def test_fast_agent_names_are_the_first_words_of_titles() -> None:
    told = known("fast-agent", call("c", title="files/read(path=a)", status="in_progress", rawInput={"path": "a"}))
    assert told.name == "files/read"


def test_vibe_asks_with_nothing_but_the_id() -> None:
    heard = Heard("vibe")
    heard.hear(vibe("c")[0])
    assert heard.hear(permission("c")) == []


# --- outcomes ---------------------------------------------------------------------------------------------------------


def result(agent: str, *messages: Any) -> Any:
    """The only result in these messages."""
    heard = Heard(agent)
    heard.hear(*messages)
    heard.end()
    (only,) = heard.results
    return only


def outcome(agent: str, *messages: Any) -> Any:
    """What the progress guard knows it by."""
    found = result(agent, *messages).outcome
    return None if found is None else found.progress


@pytest.mark.parametrize(
    ("agent", "one", "other"),
    [
        ("codex", codex("c1", number=1), codex("c2", number=2)),
        ("qwen", qwen("c1", pid=1), qwen("c2", pid=2)),
        ("opencode", opencode("c1"), opencode("c2")),
        ("claude", claude("c1"), claude("c2")),
        ("vibe", vibe("c1"), vibe("c2")),
    ],
)
def test_equal_results_are_one_outcome(agent: str, one: Any, other: Any) -> None:
    assert outcome(agent, *one) == outcome(agent, *other) is not None


@pytest.mark.parametrize(
    ("agent", "shape"), [("codex", codex), ("qwen", qwen), ("opencode", opencode), ("claude", claude), ("vibe", vibe)]
)
def test_other_results_are_other_outcomes(agent: str, shape: Any) -> None:
    assert outcome(agent, *shape("c", result="x")) != outcome(agent, *shape("c", result="y"))


@pytest.mark.parametrize(("agent", "shape"), [("codex", codex), ("qwen", qwen), ("opencode", opencode)])
def test_exit_codes_tell_success_and_belong_to_the_outcome(agent: str, shape: Any) -> None:
    assert result(agent, *shape("c", code=0)).ok is True
    assert result(agent, *shape("c", code=1)).ok is False
    assert outcome(agent, *shape("c", code=0)) != outcome(agent, *shape("c", code=1))


def test_a_command_without_an_exit_code_is_not_known_to_have_succeeded() -> None:
    assert result("vibe", *vibe("c")).ok is None
    assert result("generic", call("c", name="bash", status="completed", rawInput={"command": "ls"})).ok is None
    assert result("generic", call("c", name="read", kind="read", status="completed", rawInput={"path": "a"})).ok is True
    assert result("generic", call("c", name="bash", status="failed", rawInput={"command": "ls"})).ok is False
    assert result("generic", call("c", name="read", status="cancelled", rawInput={"path": "a"})).ok is None


def test_claude_reports_commands_that_fail_as_failed() -> None:
    assert result("claude", *claude("c")).ok is True


def test_a_call_that_was_cancelled_has_no_outcome_to_go_by() -> None:
    assert result("generic", call("c", name="a", status="cancelled", rawInput={"n": 1})).status == "cancelled"


def test_qwen_groups_of_processes_are_masked_in_content_too() -> None:
    def told(number: int) -> Any:
        text = shown(f"Output: a\nProcess Group PGID: {number}\n")
        return later("c", status="failed", content=text, meta={"toolName": "run_shell_command"})

    assert outcome("qwen", told(1)) == outcome("qwen", told(2))


def test_processes_are_no_part_of_a_result_without_text() -> None:
    one, other, third = (
        outcome(
            "qwen", call("c", name="a", status="completed", rawInput={"n": 1}, rawOutput={"pid": pid, "state": state})
        )
        for pid, state in ((1, "up"), (2, "up"), (1, "down"))
    )
    assert one == other != third


def test_a_failed_call_says_which_tool_does_not_exist() -> None:
    told = call("c", name="no_such", status="failed", rawInput={"n": 1}, rawOutput="Error: Unknown tool: no_such")
    facts = result("claude", told).facts
    assert facts is not None
    assert facts.unknown_tool == "no_such"


def test_codex_threads_that_panic_are_masked() -> None:
    def told(number: int) -> Any:
        return codex("c", result=f"\nthread 'main' ({number}) panicked at x.rs", code=101)

    assert outcome("codex", *told(1)) == outcome("codex", *told(22))


def test_what_a_person_types_about_threads_is_not_masked() -> None:
    assert outcome("codex", *codex("c", result="thread 'a' (1) b")) != outcome(
        "codex", *codex("c", result="thread 'a' (2) b")
    )


@pytest.mark.parametrize("content", [[], None, shown("[current working directory /project]")])
def test_gemini_shows_no_results(content: Any) -> None:
    begun = call("a__1", title="ls", kind="execute", status="in_progress", content=shown("[current working directory]"))
    more = {} if content is None else {"content": content}
    told = outcome("gemini", begun, later("a__1", status="completed", **more))
    assert (told is None) is (content in ([], None))


def test_gemini_shows_errors() -> None:
    begun = call("a__1", title="ls", kind="execute", status="in_progress", content=[])
    found = result("gemini", begun, later("a__1", status="failed", content=shown("no such file")))
    assert (found.ok, found.outcome is None) == (False, False)


def test_only_gemini_never_shows_results_and_counted_are_its_commands() -> None:
    command = call("run_shell_command__1", title="ls", kind="execute", status="in_progress")
    told = {agent: known(agent, command).facts for agent in TABLES}
    assert [agent for agent, facts in told.items() if facts is not None and facts.blind] == ["gemini"]
    read = call("read_file__1", title="a.py", kind="read", status="in_progress")
    assert known("gemini", read).facts == Facts(read_like=True)


def gemini_times(times: int) -> Iterator[Any]:
    for number in range(times):
        yield from gemini(f"run_shell_command__{number}")


def said(agent: str, *messages: Any) -> list[tuple[Any, ...]]:
    """What is found of these messages, and of the words after them."""
    heard = Heard(agent)
    heard.hear(*messages, words("So."))
    return [(each.action, each.reason, each.count) for each in heard.findings if each.fresh]


def test_gemini_is_warned_at_8_equal_commands_in_a_row_and_stopped_at_15() -> None:
    warned, halted = ("warn", "blind", 8), ("halt", "blind", 15)
    assert said("gemini", *gemini_times(7)) == []
    assert said("gemini", *gemini_times(8)) == [warned]
    assert said("gemini", *gemini_times(14)) == [warned]
    assert said("gemini", *gemini_times(15)) == [warned, halted]


def test_gemini_is_not_stopped_where_another_call_comes_in_between() -> None:
    others = [
        gemini("run_shell_command__x", "pwd"),
        [call("read_file__x", title="a.py", kind="read", status="completed", content=[])],
        [call("run_shell_command__x", title="ls", kind="execute", status="failed", content=shown("no such file"))],
    ]
    again = [each for number in range(7) for each in gemini(f"run_shell_command__again{number}")]
    for other in others:
        assert said("gemini", *gemini_times(7), *other, *again) == []


def test_gemini_asked_for_permission_is_counted_the_same() -> None:
    heard = Heard("gemini")
    for number in range(16):
        heard.hear(permission(f"run_shell_command__{number}", title="ls", kind="execute", locations=[]))
        heard.hear(later(f"run_shell_command__{number}", status="completed", title="ls", content=[], kind="execute"))
    assert [each.count for each in heard.findings if each.fresh] == [8, 15]


def test_agents_that_show_results_have_no_streak() -> None:
    """Results that are missing are not known to be never shown."""
    begun = [call(f"c{number}", title="bash", kind="execute", rawInput={"command": "ls"}) for number in range(20)]
    ended = [later(f"c{number}", status="completed", content=[]) for number in range(20)]
    assert said("opencode", *(each for pair in zip(begun, ended, strict=True) for each in pair)) == []


def test_gemini_alone_leaves_the_progress_guard_blind() -> None:
    blind, seeing = Heard("gemini"), Heard("opencode")
    for number in range(3):
        blind.hear(call(f"a__{number}", title="ls"), later(f"a__{number}", status="completed", content=[]))
        seeing.hear(*opencode(f"c{number}"))
    assert blind.guard.status().blind == ["progress"]
    assert seeing.guard.status().blind != ["progress"]


@pytest.mark.parametrize(
    "raw_output",
    [
        '"at @"',
        '{"output":"at @"}',
        '{"stdout":"at @","stderr":""}',
        '{"error":"at @"}',
        '[{"type":"text","text":"at @"}]',
    ],
)
def test_text_is_found_where_agents_put_it(raw_output: str) -> None:
    def told(when: str) -> Any:
        shown_output = json.loads(raw_output.replace("@", when))
        return call("c", name="a", status="completed", rawInput={"n": 1}, rawOutput=shown_output)

    assert outcome("generic", told("10:00:00")) == outcome("generic", told("11:11:11")) is not None


def test_terminals_of_the_client_are_no_result() -> None:
    def told(terminal: str) -> Any:
        shown_in = [{"type": "terminal", "terminalId": terminal}]
        return call("c", name="a", status="completed", rawInput={"n": 1}, content=shown_in)

    assert outcome("generic", told("t1")) is None


@pytest.mark.parametrize("text", ["words", "half a character \ud800"], ids=["plain", "odd"])
def test_a_terminal_beside_a_text_changes_nothing(text: str) -> None:
    def told(*more: Any) -> Any:
        return call("c", name="a", status="completed", rawInput={"n": 1}, content=[*more, *shown(text)])

    terminal = {"type": "terminal", "terminalId": "t"}
    assert outcome("generic", told(terminal)) == outcome("generic", told()) is not None


def test_what_was_too_long_to_be_held_is_no_result() -> None:
    def told(*shown_at_the_end: Any) -> Any:
        running = call("c", name="a", status="in_progress", rawInput={"n": 1}, content=shown("x" * MAX_HELD_BYTES))
        return running, later("c", status="completed", **dict(*shown_at_the_end))

    assert outcome("generic", *told()) is None
    assert outcome("generic", *told([("content", shown("x"))])) is not None


def test_what_else_is_shown_counts_by_all_of_it() -> None:
    def told(text: str) -> Any:
        return call("c", name="a", status="completed", rawInput={"n": 1}, content=[{"type": "diff", "newText": text}])

    assert outcome("generic", told("x")) != outcome("generic", told("y"))


def test_a_long_output_in_pieces_counts_to_its_end() -> None:
    def told(end: str) -> Any:
        pieces = [later("c", meta={"terminal_output_delta": {"data": piece}}) for piece in ("x" * MAX_HELD_TEXT, end)]
        return (
            call("c", name="exec_command", title="a b", status="in_progress"),
            *pieces,
            later("c", status="completed"),
        )

    assert outcome("codex2", *told("a")) == outcome("codex2", *told("a"))
    assert outcome("codex2", *told("a")) != outcome("codex2", *told("b"))


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "marks"),
    [("codex", 1), ("codex2", 1), ("vibe", 1), ("claude", 2), ("gemini", 0), ("generic", 0), ("opencode", 0)],
)
def test_usage_marks_steps_of_some(agent: str, marks: int) -> None:
    heard = Heard(agent)
    heard.hear(*[usage()] * 4)
    assert heard.steps == (4 // marks if marks else 0)


def test_qwen_marks_steps_with_the_usage_in_a_chunk() -> None:
    heard = Heard("qwen")
    heard.hear(usage(), qwen_step(), qwen_step())
    assert heard.steps == 2
