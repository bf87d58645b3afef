"""One session's calls: counted once, keyed late, re-keyed; scopes, replays and steps. T6 to T16 of the ACP page."""

import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.acp import wires
from tests.acp.shapes import (
    Heard,
    call,
    claude,
    codex,
    codex2,
    codex_request,
    fast_agent,
    gemini,
    goose,
    kimi,
    later,
    line,
    opencode,
    permission,
    qwen,
    qwen_step,
    seen,
    shown,
    usage,
    vibe,
    words,
)
from turnguard.acp.agents import TABLES
from turnguard.acp.agents.merged import MAX_HELD_BYTES, MergedCall
from turnguard.acp.calls import MAX_OPEN
from turnguard.acp.steps import MAX_PUT_OFF, MAX_ROUNDS
from turnguard_protocol.events import (
    CallRekeyed,
    Keys,
    StepFinished,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
)

DEEP = b"[" * 500_000 + b"]" * 500_000


def kinds(events: list[Any]) -> list[type]:
    return [type(event) for event in events]


# --- T6 to T14: the shapes --------------------------------------------------------------------------------------------


def test_t06_claude_arguments_come_in_an_update_without_a_status() -> None:
    heard = Heard("claude")
    announced, argued, response, ended = claude("c1")
    assert kinds(heard.hear(announced)) == [ToolCalls]
    assert (heard.counted[0].name, heard.counted[0].fidelity) == ("Bash", "none")
    assert kinds(heard.hear(argued)) == [CallRekeyed]
    assert heard.hear(response) == []
    heard.hear(ended, *claude("c2"), *claude("c3", "pwd"))
    first, second, third = heard.keys
    assert first == second != third
    assert [each.fidelity for each in heard.known] == ["full"] * 3
    assert heard.known[0].hint == "ls"
    assert (heard.total, heard.repeats, heard.rekeyed) == (3, 2, 3)


def test_t07_opencode_repeated_updates_count_once() -> None:
    heard = Heard("opencode")
    heard.hear(*opencode("c1", repeats=9), *opencode("c2"))
    assert (heard.total, heard.repeats, heard.rekeyed) == (2, 2, 2)
    assert [each.name for each in heard.known] == ["bash", "bash"]
    assert len(heard.results) == 2


def test_t07_opencode_a_second_end_that_announces_the_call_again_counts_for_nothing() -> None:
    heard = Heard("opencode")
    told = opencode("c1")
    heard.hear(*told)
    given = {"command": "ls", "cwd": "/project"}
    again = call("c1", title="ls", kind="execute", status="pending", rawInput=given)
    assert heard.hear(told[-1], again, told[1], told[-1], call("c1", title="ls", status="pending"), told[-1]) == []
    assert (heard.total, len(heard.results), heard.calls.open_calls()) == (1, 1, [])


def test_t07_the_same_id_with_other_arguments_is_another_call() -> None:
    heard = Heard("opencode")
    heard.hear(*opencode("c1"), *opencode("c1", "pwd"), *opencode("c1"))
    first, second, third = heard.keys
    assert first == third != second
    assert len({each.id for each in heard.known}) == 3
    assert (heard.total, len(heard.results)) == (3, 3)


def test_t08_kimi_growing_arguments_are_neither_many_keys_nor_equal_ones() -> None:
    heard = Heard("kimi")
    one, other = kimi("c1", '{"command": "ls -a"}'), kimi("c2", '{"command": "ls -b"}')
    heard.hear(*one[:-1], *other[:-1])
    assert (heard.total, heard.repeats, heard.rekeyed) == (2, 0, 0)
    heard.hear(one[-1], other[-1], *kimi("c3", '{"command": "ls -a"}', "another result"))
    first, second, third = heard.keys
    assert first == third != second
    assert (heard.total, heard.repeats, heard.rekeyed) == (3, 2, 3)
    assert [each.name for each in heard.known] == ["Shell"] * 3


def test_t08_kimi_is_known_before_it_runs_where_it_is_asked_for() -> None:
    heard = Heard("kimi")
    *growing, _ = kimi("c1")
    heard.hear(*growing)
    assert kinds(heard.hear(permission("c1", title="Shell: ls"))) == [CallRekeyed]


def test_t09_gemini_is_first_seen_in_a_permission_request_without_arguments() -> None:
    heard = Heard("gemini")
    folder = shown("[current working directory /project]")
    for number in (1, 2):
        call_id = f"run_shell_command__fc{number}"
        asked = permission(call_id, title="ls -l", content=folder, locations=[], kind="execute")
        assert kinds(heard.hear(asked))[-1] is ToolCalls
        heard.hear(later(call_id, status="completed", title="ls -l", content=[], kind="execute"))
    heard.hear(*gemini("run_shell_command__fc3", "ls -l"), *gemini("run_shell_command__fc4", "pwd"))
    assert [each.name for each in heard.known] == ["run_shell_command"] * 4
    assert [each.fidelity for each in heard.known] == ["low"] * 4
    assert heard.known[0].hint == "ls"
    assert (heard.total, heard.repeats, heard.rekeyed) == (4, 3, 0)
    assert heard.outcomes == [None] * 4


def test_t09_gemini_a_rejected_call_stays_open() -> None:
    heard = Heard("gemini")
    heard.hear(permission("run_shell_command__fc1", title="ls"))
    heard.hear(permission("run_shell_command__fc2", title="ls"))
    assert heard.calls.open_calls() == ["run_shell_command__fc1", "run_shell_command__fc2"]
    assert heard.repeats == 2


def test_t10_codex_ids_and_times_are_no_arguments() -> None:
    heard = Heard("codex")
    heard.hear(*codex("c1", number=1), *codex("c2", number=2))
    heard.hear(codex_request("c3", number=3), *codex("c3", number=4))
    assert len(set(map(repr, heard.keys))) == 1
    assert [(each.name, each.hint) for each in heard.known] == [("exec_command", "ls")] * 3
    assert (heard.total, heard.repeats, heard.rekeyed) == (3, 3, 0)
    heard.hear(usage())
    assert len(set(heard.outcomes)) == 1


def test_t10_codex_reads_without_arguments() -> None:
    heard = Heard("codex2")
    heard.hear(*codex2("c1"), *codex2("c2"), *codex2("c3", "Read file 'b'"))
    first, second, third = heard.keys
    assert first == second != third
    assert [each.fidelity for each in heard.known] == ["low"] * 3


def test_t10_codex_a_web_search_is_known_when_it_is_over() -> None:
    heard = Heard("codex2")
    for number, query in enumerate(("a", "a", "b")):
        search = f"ws{number}"
        heard.hear(
            call(search, kind="fetch", status="in_progress", rawInput={"id": search, "query": ""}),
            later(search, status="completed", rawInput={"id": search, "query": query, "action": {"type": "search"}}),
        )
    first, second, third = heard.keys
    assert first == second != third
    assert heard.total == 3


def test_t10_codex_a_search_known_only_by_its_id_is_equal_to_none() -> None:
    heard = Heard("codex2")
    for number in range(3):
        heard.hear(call(f"ws{number}", kind="fetch", status="completed", rawInput={"id": f"ws{number}"}))
    assert (heard.total, heard.repeats, heard.keys) == (3, 0, [None] * 3)


@pytest.mark.parametrize("agent", ["codex", "codex2"])
@pytest.mark.parametrize("told", [{"title": "mcp: x"}, {"title": "Compact conversation"}])
def test_t10_codex_what_the_model_did_not_call_is_ignored(agent: str, told: dict[str, str]) -> None:
    heard = Heard(agent)
    call_id = "mcp_startup.x" if told["title"] == "mcp: x" else "c9"
    assert heard.hear(call(call_id, status="in_progress", **told), later(call_id, status="failed")) == []
    assert heard.calls.open_calls() == []


def test_t11_qwen_the_name_is_in_the_meta_and_the_result_without_processes() -> None:
    heard = Heard("qwen")
    heard.hear(*qwen("c1", pid=1), *qwen("c2", pid=2), qwen_step())
    assert [each.name for each in heard.known] == ["run_shell_command"] * 2
    assert (heard.total, heard.repeats) == (2, 2)
    assert len(set(heard.outcomes)) == 1
    assert [result.ok for result in heard.results] == [True, True]


def test_t11_qwen_arguments_may_come_with_the_request_only() -> None:
    heard = Heard("qwen")
    for number in (1, 2):
        heard.hear(qwen(f"c{number}")[0])
        asked = permission(f"c{number}", title="Writing", rawInput={"path": "a"}, meta={"toolName": "write_file"})
        assert kinds(heard.hear(asked)) == [CallRekeyed]
        heard.hear(later(f"c{number}", status="completed"))
    assert heard.repeats == 2


def test_t11b_goose_calls_known_by_name_only_never_halt() -> None:
    heard = Heard("goose", is_cap_explicit=False)
    for number in range(200):
        heard.hear(*goose(f"c{number}", "the same result", title=f"Listed files, {number % 2}"))
    heard.end()
    assert heard.findings == []
    assert (heard.total, heard.repeats, heard.calls.fidelity["none"]) == (200, 0, 200)
    assert [each.name for each in heard.known[:1]] == ["shell"]


def test_t11b_goose_titles_written_by_a_model_do_not_matter() -> None:
    heard = Heard("goose")
    for number in (1, 2):
        heard.hear(*goose(f"c{number}")[:1], permission(f"c{number}", rawInput={"command": "ls"}))
        heard.hear(later(f"c{number}", title=f"Thoughtfully listed {number}"), later(f"c{number}", status="completed"))
    assert (heard.repeats, heard.rekeyed) == (2, 2)


def test_t12_arguments_that_change_later_rekey() -> None:
    heard = Heard()
    heard.hear(call("c1", name="write", status="in_progress", rawInput={"path": "a"}))
    heard.hear(call("c2", name="write", status="in_progress", rawInput={"path": "a"}))
    assert heard.repeats == 2
    told = heard.hear(later("c2", rawInput={"path": "b"}))
    assert kinds(told) == [CallRekeyed]
    assert (heard.total, heard.repeats) == (2, 1)
    assert heard.hear(later("c2", rawInput={"path": "b"}), later("c2", status="in_progress")) == []
    heard.hear(later("c2", rawInput={"path": "a"}))
    assert (heard.total, heard.repeats) == (2, 2)


def test_t12_arguments_that_come_after_the_end_change_nothing() -> None:
    heard = Heard()
    heard.hear(call("c1", name="write", status="completed", rawInput={"path": "a"}))
    assert heard.hear(later("c1", rawInput={"path": "b"})) == []


def test_t12_opencode_a_request_that_says_the_same_otherwise_changes_nothing() -> None:
    heard = Heard("opencode")
    heard.hear(call("c1", title="write", kind="edit", status="pending", rawInput={}))
    heard.hear(later("c1", status="in_progress", rawInput={"filePath": "a", "content": "x"}))
    assert heard.hear(permission("c1", title="a", rawInput={"filepath": "a", "diff": "+x"})) == []


def test_t13_null_keeps_what_was_known() -> None:
    heard = Heard()
    heard.hear(call("c1", name="write", status="in_progress", rawInput={"path": "a"}))
    nothing = dict.fromkeys(("name", "title", "kind", "status", "rawInput", "rawOutput", "content", "locations"))
    assert heard.hear(later("c1", **nothing, meta=None)) == []
    assert heard.calls.open_calls() == ["c1"]
    heard.hear(call("c2", name="write", status="in_progress", rawInput={"path": "a"}))
    assert heard.repeats == 2


def test_t13_a_call_may_begin_with_an_update() -> None:
    heard = Heard()
    heard.hear(later("c1", name="a", status="in_progress", rawInput={"n": 1}), later("c1", status="completed"))
    assert (heard.total, len(heard.results)) == (1, 1)


def test_t14_the_name_is_preferred() -> None:
    heard = Heard()
    heard.hear(call("c1", name="right", title="Wrong name", kind="execute", meta={"toolName": "wrong"}, rawInput=[1]))
    heard.hear(call("c2", title="Wrong name", kind="execute", meta={"toolName": "second"}, rawInput={"n": 1}))
    heard.hear(call("c3", title="Wrong name", kind="execute", rawInput={"n": 1}))
    assert [each.name for each in heard.known] == ["right", "second", "execute"]


# --- T15: scopes ------------------------------------------------------------------------------------------------------


def test_t15_the_same_call_of_five_subagents_is_no_repetition() -> None:
    heard = Heard("claude", tells_text=False)
    heard.hear(*itertools.chain.from_iterable(claude(f"c{number}", parent=f"p{number}") for number in range(5)))
    assert (heard.total, heard.repeats, len(set(map(repr, heard.keys)))) == (5, 1, 5)
    runs = [event.run_id for event in heard.events if isinstance(event, ToolCalls)]
    assert runs == [f"p{number}" for number in range(5)]
    assert heard.findings == []


def test_t15_a_subagent_that_repeats_itself_is_stopped() -> None:
    heard = Heard("claude")
    for number in range(7):
        heard.hear(*claude(f"c{number}", parent="p"))
    assert (heard.is_halted, heard.repeats) == (True, 5)


def test_t15_the_main_conversation_is_another_scope() -> None:
    heard = Heard("claude")
    heard.hear(*claude("c1"), *claude("c2", parent="p"))
    one, other = heard.keys
    assert isinstance(one, Keys)
    assert isinstance(other, Keys)
    assert one.turn != other.turn
    assert [event.run_id for event in heard.events if isinstance(event, ToolCalls)] == [UNSET, "p"]


def test_t15_two_subagents_at_once_are_both_seen_to_repeat() -> None:
    heard = Heard("claude")
    for number in range(30):
        one, other = claude(f"a{number}", parent="p"), claude(f"b{number}", parent="q")
        heard.hear(one[0], other[0], *one[1:], *other[1:])
    assert heard.is_halted


# --- T16: replays -----------------------------------------------------------------------------------------------------


def test_t16_replayed_calls_do_not_count_and_the_count_starts_at_0() -> None:
    heard = Heard("claude")
    for number in range(50):
        heard.replay(*claude(f"c{number}"))
    heard.start()
    assert heard.total == 0
    assert heard.hear(*claude("c3")[1:], *claude("c4")[-1:]) == []
    heard.hear(*claude("new"))
    assert (heard.total, heard.repeats) == (1, 1)


def test_t16_a_replayed_id_that_is_announced_anew_is_another_call() -> None:
    heard = Heard("vibe")
    heard.replay(call("1", status="completed", rawInput={"command": "ls"}))
    heard.start()
    assert heard.hear(call("1", status="completed", rawInput={"command": "ls"})) == []
    heard.hear(*vibe("1"))
    assert heard.total == 1


def test_t16_a_call_left_open_that_ends_between_turns_is_open_no_more() -> None:
    heard = Heard("claude")
    told = claude("c1")
    heard.hear(*told[:2])
    heard.end()
    assert heard.calls.open_calls() == ["c1"]
    heard.replay(told[2])
    assert heard.calls.open_calls() == ["c1"]
    heard.replay(told[3])
    assert heard.calls.open_calls() == []


def test_calls_of_an_earlier_turn_do_not_count() -> None:
    heard = Heard("claude")
    told = claude("c1")
    heard.hear(*told[:2])
    heard.end()
    heard.start()
    assert heard.hear(*told[2:]) == []
    assert heard.calls.open_calls() == []


@pytest.mark.parametrize("agent", [claude, vibe])
def test_ids_that_begin_anew_each_turn_are_other_calls(agent: Any) -> None:
    heard = Heard("claude" if agent is claude else "vibe")
    for _ in range(5):
        heard.start()
        heard.hear(*agent("call-0"), *agent("call-1"))
        assert (heard.total, heard.repeats, heard.findings) == (2, 2, [])
        heard.end()


# --- what is no call, and what cannot be read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("opencode", permission("per_1", title="doom_loop", rawInput={"tool": "bash", "input": {"command": "ls"}})),
        ("claude", call("x", title="Recalled", meta={"claudeCode": {"toolName": "memory_recall"}}, status="completed")),
        ("claude", call("memory_recall-1", title="Recalled", status="completed")),
        ("codex2", call("fuzzyFileSearch.1", kind="search", status="in_progress", rawInput={"query": "a"})),
        ("gemini", call("read_many_files-1700000000000-1", title="Will attempt to read", status="in_progress")),
        ("gemini", permission("resolve-prompt-/etc/x-1", title="Allow access")),
    ],
)
def test_what_is_no_call_is_ignored(agent: str, message: Any) -> None:
    heard = Heard(agent)
    assert heard.hear(message) == []
    assert heard.hear(message) == []
    assert (heard.total, heard.calls.open_calls(), sum(heard.calls.fidelity.values())) == (0, [], 0)


def test_gemini_reads_many_files_for_the_model_too() -> None:
    heard = Heard("gemini")
    told = call("read_many_files-1700000000000-2", title="Will attempt to read", status="in_progress")
    heard.hear(words(), told)
    assert heard.total == 1
    assert Heard("gemini").hear(told) == []


def test_a_call_that_cannot_be_read_counts_and_equals_no_other() -> None:
    heard = Heard("claude")
    for number in range(3):
        heard.hear(line(call(f"c{number}", name="Bash", rawInput="X")).replace(b'"X"', DEEP))
        heard.hear(line(later(f"c{number}", rawInput="X")).replace(b'"X"', DEEP))
        heard.hear(claude(f"c{number}")[-1])
    assert (heard.total, heard.repeats) == (3, 0)
    assert heard.calls.fidelity == {"full": 0, "low": 0, "none": 3, "undecoded": 3}
    heard.end()
    assert len(heard.results) == 3


def test_a_call_that_cannot_be_read_after_it_could_changes_nothing() -> None:
    heard = Heard("opencode")
    *running, ended = opencode("c1")
    torn = line(call("c1", rawInput="X")).replace(b'"X"', DEEP)
    heard.hear(*running)
    assert heard.hear(torn) == []
    heard.hear(ended)
    assert heard.hear(torn, ended) == []
    assert heard.calls.fidelity == {"full": 1, "low": 0, "none": 0, "undecoded": 0}


def test_a_call_that_cannot_be_read_without_a_certain_id_counts_where_it_is_announced() -> None:
    heard = Heard()
    torn = b'{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call'
    assert kinds(heard.hear(torn + b'",', torn + b'",')) == [ToolCalls, ToolCalls]
    assert heard.hear(torn + b'_update",') == []
    assert heard.hear(line(permission("", title="x")))
    assert (heard.total, heard.repeats, heard.calls.fidelity["undecoded"]) == (3, 0, 3)


@pytest.mark.parametrize("arguments", [b"[" * 600 + b"]" * 600, rb'{"a":"\ud800"}', b'{"a":1e999}'])
def test_arguments_that_are_hard_to_read_do_not_blind(arguments: bytes) -> None:
    heard = Heard("claude")
    for number in (1, 2):
        told = line(call(f"c{number}", name="Bash", status="in_progress", rawInput="X")).replace(b'"X"', arguments)
        heard.hear(told, later(f"c{number}", status="completed", rawOutput="done"))
    assert heard.total == 2
    assert heard.repeats == 2


def test_results_that_are_hard_to_read_do_not_blind() -> None:
    heard = Heard("claude")
    deep = b"[" * 600 + b"]" * 600
    for number, result in enumerate((deep, deep, deep.replace(b"[]", b"[1]"), rb'"\ud800"')):
        ended = line(later(f"c{number}", status="completed", rawOutput="X")).replace(b'"X"', result)
        heard.hear(*claude(f"c{number}")[:2], ended)
    heard.end()
    first, second, third, fourth = heard.outcomes
    assert None not in (first, fourth)
    assert first == second != third


def long_result(call_id: str, output: str, code: int) -> Any:
    return later(call_id, status="completed", rawOutput={"output": output, "metadata": {"exit": code}})


def test_of_a_long_result_the_short_members_are_read_and_the_others_are_equal_where_the_text_is() -> None:
    heard = Heard("opencode")
    for number, (end, code) in enumerate([("a", 0), ("a", 0), ("b", 0), ("a", 1)]):
        heard.hear(*opencode(f"c{number}")[:2], long_result(f"c{number}", "12:34:56 " * 200_000 + end, code))
    heard.end()
    first, second, other_text, other_code = heard.outcomes
    assert None not in (first, other_text, other_code)
    assert first == second
    assert len({first, other_text, other_code}) == 3
    assert [result.ok for result in heard.results] == [True, True, True, False]


def test_of_long_content_and_long_texts_the_digest_is_told() -> None:
    for more in ({"content": shown("x" * 2_000_000)}, {"rawOutput": "x" * 2_000_000}):
        merged = MergedCall("c")
        merged.merge(seen(later("c", status="completed", **more)))
        held = merged.content if "content" in more else merged.raw_output
        assert isinstance(held, Raw)
        assert b"sha256" in bytes(held)
        assert len(bytes(held)) < 200


def test_a_call_whose_arguments_never_come_is_counted_and_equals_no_other() -> None:
    heard = Heard("claude")
    for number in range(30):
        heard.hear(claude(f"c{number}")[0], later(f"c{number}", status="failed", rawOutput="no"))
    heard.end()
    assert (heard.total, heard.repeats, heard.findings) == (30, 0, [])


def test_what_never_became_due_is_keyed_at_the_turns_end() -> None:
    heard = Heard("kimi")
    heard.hear(*kimi("c1")[:-1])
    assert kinds(heard.end()) == [CallRekeyed]
    assert heard.calls.fidelity["low"] == 1


def test_how_well_calls_are_known_is_counted() -> None:
    heard = Heard("gemini")
    heard.hear(*gemini("run_shell_command__1"), call("x__1"), call("y__1", rawInput={"a": 1}))
    assert heard.calls.fidelity == {"full": 1, "low": 1, "none": 1, "undecoded": 0}


def test_open_calls_are_bounded() -> None:
    heard = Heard()
    for number in range(MAX_OPEN + 5):
        heard.calls.see(seen(call(f"c{number}")))
    assert len(heard.calls.open_calls()) == MAX_OPEN + 5, "the client still shows all of them"
    assert heard.calls.see(seen(later("c0", status="completed"))) == ()
    assert "c0" not in heard.calls.open_calls()
    assert len(heard.start().calls.open_calls()) == 0


def test_long_arguments_are_known_by_their_digest() -> None:
    merged = MergedCall("c")
    merged.merge(seen(call("c", rawInput={"text": "x" * MAX_HELD_BYTES}, content=shown("x" * MAX_HELD_BYTES))))
    merged.shrink()
    assert isinstance(merged.raw_input, Raw)
    assert len(bytes(merged.raw_input)) < 100
    assert merged.content is UNSET
    heard = Heard()
    for number, end in enumerate("aab"):
        heard.hear(call(f"c{number}", name="write", status="in_progress", rawInput={"text": "x" * 100_000 + end}))
    first, second, third = heard.keys
    assert first == second != third


# --- results ----------------------------------------------------------------------------------------------------------


def test_fast_agent_results_come_from_the_clients_terminals() -> None:
    heard = Heard("fast-agent")
    for number, (output, code) in enumerate((("a b", 0), ("a b", 0), ("c", 1))):
        *running, ended = fast_agent(f"c{number}", terminal=f"t{number}")
        heard.hear(*running)
        status = f'{{"exitCode":{code},"signal":null}}'
        answer = Raw(f'{{"output":"{output}","truncated":false,"exitStatus":{status}}}'.encode())
        assert heard.calls.terminal(f"t{number}", answer) == ()
        heard.hear(ended)
    heard.end()
    first, second, third = heard.outcomes
    assert first == second != third
    assert [result.ok for result in heard.results] == [True, True, False]
    assert heard.repeats == 3


def test_an_output_in_pieces_is_one_result() -> None:
    heard = Heard("codex2")
    heard.hear(*codex2("c1", result="abc"), *codex2("c2", result="abc"), *codex2("c3", result="abd"), usage())
    first, second, third = heard.outcomes
    assert first == second != third


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_loop_that_shows_no_call_is_made_of_steps() -> None:
    heard = Heard("codex", max_steps_per_turn=10)
    for _ in range(10):
        assert kinds(heard.hear(usage())) == [Text, StepFinished]
    assert not heard.is_halted
    heard.hear(usage())
    assert [finding.loop_type for finding in heard.findings] == ["max_steps_per_turn"]


def test_claude_marks_each_step_twice() -> None:
    heard = Heard("claude", max_steps_per_turn=10)
    heard.hear(*[usage()] * 20)
    assert (heard.steps, heard.is_halted) == (10, False)
    heard.hear(usage(), usage())
    assert heard.is_halted


@pytest.mark.parametrize("shape", [opencode, claude])
def test_parallel_calls_are_of_one_step(shape: Any) -> None:
    heard = Heard(shape.__name__, max_steps_per_turn=1)
    told = [shape(f"c{number}", f"ls {number}") for number in range(4)]
    heard.hear(*(each[0] for each in told), *itertools.chain.from_iterable(each[1:] for each in told))
    assert (heard.guard.status().totals.steps, heard.is_halted) == (1, False)
    heard.hear(usage(), usage(), *shape("c9"))
    assert heard.is_halted


def test_what_a_call_came_to_counts_though_its_subagent_took_steps_meanwhile() -> None:
    heard = Heard("claude")
    for number in range(8):
        *begins, ended = claude(f"p{number}")
        heard.hear(*begins, usage(), usage())
        for inner in range(2):
            heard.hear(*claude(f"a{number}{inner}", f"cat {number}{inner}", f"{number}{inner}", parent=f"p{number}"))
        heard.hear(ended)
    assert heard.is_halted
    assert {finding.tool for finding in heard.findings} == {"Bash"}


def test_a_marked_step_ends_with_its_last_result() -> None:
    heard = Heard("codex")
    announced, ended = codex("c1")
    assert kinds(heard.hear(announced, usage())) == [ToolCalls]
    assert kinds(heard.hear(ended)) == [ToolResults, StepFinished]
    assert kinds(heard.hear(*codex("c2"))) == [ToolCalls]
    assert kinds(heard.hear(usage())) == [ToolResults, StepFinished]


def test_a_marked_step_ends_before_the_next_call_when_a_result_never_comes() -> None:
    heard = Heard("codex")
    heard.hear(codex("c1")[0], usage())
    assert kinds(heard.hear(codex("c2")[0])) == [StepFinished, ToolCalls]


def test_equal_calls_of_one_marked_step_are_one_sight() -> None:
    heard = Heard("codex")
    for step in range(4):
        heard.hear(*itertools.chain.from_iterable(codex(f"c{step}{number}") for number in range(3)), usage())
    assert (heard.steps, heard.is_halted) == (4, False)
    assert len(heard.findings) == 1


def test_an_agent_that_stops_marking_steps_is_still_guarded() -> None:
    heard = Heard("codex")
    for number in range(MAX_ROUNDS + 6):
        heard.hear(*codex(f"c{number}"))
    assert heard.is_halted
    assert not Heard("codex").is_halted


def test_an_unmarked_step_ends_when_a_call_follows_a_result() -> None:
    heard = Heard("opencode")
    one, two, three = opencode("c1"), opencode("c2"), opencode("c3")
    heard.hear(one[0], two[0], *one[1:], *two[1:])
    assert heard.steps == 0
    assert len(heard.results) == 2
    assert kinds(heard.hear(three[0])) == [StepFinished, ToolCalls]


def test_an_unmarked_step_ends_when_the_model_speaks_after_the_results() -> None:
    heard = Heard("opencode")
    one, two = opencode("c1"), opencode("c2")
    heard.hear(one[0], two[0], *one[1:])
    assert heard.hear(words()) == []
    heard.hear(*two[1:])
    assert kinds(heard.hear(words())) == [StepFinished]
    assert heard.hear(words()) == []


def test_the_end_of_a_step_waits_for_other_scopes_only_so_long() -> None:
    heard = Heard("claude")
    heard.hear(claude("b0", parent="q")[0])
    for number in range(MAX_PUT_OFF + 1):
        heard.hear(*claude(f"a{number}", parent="p"))
        assert heard.steps == 0
    heard.hear(*claude("a9", parent="p"))
    assert heard.steps == 1


def test_the_call_that_started_a_subagent_is_not_waited_for() -> None:
    heard = Heard("claude")
    heard.hear(*claude("p")[:2])
    heard.hear(*claude("a1", parent="p"), *claude("a2", parent="p"))
    assert heard.steps == 1


@pytest.mark.parametrize("agent", ["generic", "claude"])
def test_words_are_told_where_they_are_wanted(agent: str) -> None:
    thought = {**words("hm")}
    thought["params"] = {**thought["params"], "update": {**thought["params"]["update"]}}
    thought["params"]["update"]["sessionUpdate"] = "agent_thought_chunk"
    assert Heard(agent, tells_text=True).hear(words("a"), thought, words("")) == [Text("a"), Thought(description="hm")]
    assert Heard(agent).hear(words("a"), thought) == []


# --- whatever is told -------------------------------------------------------------------------------------------------

SHAPES = {
    "claude": claude,
    "codex": codex,
    "codex2": codex2,
    "gemini": gemini,
    "goose": goose,
    "kimi": kimi,
    "opencode": opencode,
    "qwen": qwen,
    "vibe": vibe,
    "fast-agent": fast_agent,
}
MARKS = [usage(), qwen_step(), words()]


@pytest.mark.parametrize("agent", sorted(TABLES))
@given(data=st.data())
def test_each_id_counts_once_in_whatever_order_messages_come(agent: str, data: st.DataObject) -> None:
    shape = SHAPES.get(agent, claude)
    messages = [message for number in range(4) for message in shape(f"c{number}")] + MARKS
    told = data.draw(st.permutations(messages))
    heard = Heard(agent)
    heard.hear(*told)
    heard.end()
    assert len({each.id for each in heard.counted}) == len(heard.counted)
    assert sum(heard.calls.fidelity[each] for each in ("full", "low", "none")) == len(heard.counted)
    assert len({result.id for result in heard.results}) == len(heard.results)
    assert {result.id for result in heard.results} <= {each.id for each in heard.counted}
    counted = {(each.id or "").partition(":")[2] for each in heard.counted}
    assert counted == {f"c{number}" for number in range(4)}


@pytest.mark.parametrize("agent", sorted(SHAPES))
def test_the_same_call_again_and_again_is_stopped_where_it_is_known(agent: str) -> None:
    heard = Heard(agent)
    for number in range(8):
        heard.hear(*SHAPES[agent](f"c{number}"), usage(), usage(), qwen_step())
    is_known = agent not in {"goose", "gemini", "fast-agent"}
    assert heard.is_halted == is_known


def test_recordings_are_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}
    started = {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "OpenCode"}}}
    told: list[tuple[str, Any]] = [("c2a", {"id": 0, "method": "initialize", "params": {}}), ("a2c", started)]
    told.append(("c2a", request))
    told += [("a2c", message) for number in range(7) for message in opencode(f"c{number}")]
    told.append(("a2c", {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}}))
    with gzip.open(tmp_path / "same.jsonl.gz", "w") as recording:
        for direction, message in told:
            recording.write(line({"dir": direction, "t": 0.0, "msg": message}))
    assert wires.main([str(tmp_path)]) == 0
    assert "| same | opencode | 7 | 7/0/0 | 6 | 4+ progress | 5+ progress | end_turn |" in capsys.readouterr().out
