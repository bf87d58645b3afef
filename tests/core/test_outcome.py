"""Who an outcome is to OpenClaw: errors, results by tool, and tools that do not exist."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from turnguard.core.javascript import parse
from turnguard.core.outcome import VOLATILE, error_text, rolling_outcome, unknown_tool_name


def outcome(output: Any = UNSET, tool: str = "r", action: str | None = None, error: Any = UNSET) -> str | None:
    """The identity of an outcome, which must not depend on whether it comes as text or as a value."""
    plain = rolling_outcome(tool, action, output, error)
    assert rolling_outcome(tool, action, _text(output), _text(error)) == plain
    return plain


def _text(value: Any) -> Any:
    return value if value is UNSET else Raw(json.dumps(value).encode())


def said(text: str | None = None, tool: str = "r", action: str | None = None, /, **details: Any) -> str | None:
    """The identity of a result with this text and these details."""
    content = {} if text is None else {"content": [{"type": "text", "text": text}]}
    return outcome({**content, "details": details}, tool, action)


def is_split(*outcomes: str | None) -> bool:
    """Whether all these differ."""
    return len(set(outcomes)) == len(outcomes)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("boom ", "boom "),
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1,"a"]'),
        ({"b": 1, "a": 2.0}, '{"a":2,"b":1}'),
    ],
)
def test_an_error_is_its_message(error: object, text: str) -> None:
    assert error_text(error) == error_text(_text(error)) == text
    assert outcome(error=error) == outcome(error=text)


def test_an_error_too_large_for_a_double_is_its_name() -> None:
    assert outcome(error=10**400) == outcome(error="Infinity")


def test_errors_keep_what_is_volatile_and_are_not_trimmed() -> None:
    assert is_split(*(outcome(error=error) for error in ("pid 1", "pid 2", " pid 1", "", "é", "e\u0301")))


def test_an_error_is_never_a_result() -> None:
    assert is_split(outcome(error="boom"), outcome("boom"), outcome('"boom"'), outcome('error:"boom"'))


def test_an_error_counts_more_than_a_result() -> None:
    assert outcome({"content": []}, error="boom") == outcome(error="boom")


# --- results of any tool ----------------------------------------------------------------------------------------------


def test_no_result_has_no_identity_and_null_is_a_result() -> None:
    assert outcome() is None
    assert is_split(None, *(outcome(value) for value in (None, "", "x", ["x"], [], 5, 0, False, True, {})))


def test_text_of_a_result_with_leading_blanks() -> None:
    assert rolling_outcome("r", None, b' \n{"foo": 1}') == outcome({})
    assert rolling_outcome("r", None, b' "x"') == outcome("x")


def test_an_object_is_its_details_and_its_text() -> None:
    same = ({}, {"content": []}, {"content": "x"}, {"details": {}}, {"details": [1]}, {"foo": 1}, {"isError": True})
    assert {outcome(result) for result in same} == {outcome({})}
    assert is_split(said("x"), said("y"), said("x", a=1), said("x", a="1"), said(a=1))


def test_text_is_what_all_entries_say_whatever_their_type() -> None:
    def content(*entries: Any) -> str | None:
        return outcome({"content": list(entries)})

    text = {"type": "text", "text": "a"}
    assert content(text, {"type": "image", "text": "b", "data": "1"}) == said("a\nb")
    assert content(text, {"type": "image", "data": "1"}) == content(text, {"type": "image", "data": "2"}) == said("a")
    assert content({"text": "a"}, "a", None, {"type": 1, "text": "a"}, {"type": "text", "text": 5}, [1]) == said("")
    assert content(text, {"type": "text", "text": ""}, text) == said("a\n\na")


@pytest.mark.parametrize("blank", ["\u00a0", "\ufeff", "\u2028", "\u2029", "\u3000", " ", "\n", "\v"])
def test_text_is_trimmed_of_what_javascript_calls_white_space(blank: str) -> None:
    assert said(f"{blank}a b{blank}") == said("a b")


@pytest.mark.parametrize("mark", ["\x1c", "\x1f", "\x85", "\u200b", "\u180e"])
def test_text_is_not_trimmed_of_what_only_python_calls_so(mark: str) -> None:
    assert said(f"a{mark}") != said("a")


def test_the_answer_to_a_veto_has_no_identity_whatever_the_tool() -> None:
    veto = {"status": "blocked", "deniedReason": "tool-loop", "reason": "why"}
    assert said("no", **veto) is None
    assert said("no", "exec", **veto) is None
    assert said("no", "message", "send", **veto) is None
    assert outcome(error="tool-loop") is not None


def test_other_denials_count() -> None:
    denials = (
        {"status": "blocked", "deniedReason": "plugin-approval"},
        {"status": "Blocked", "deniedReason": "tool-loop"},
        {"status": "blocked"},
        {"deniedReason": "tool-loop"},
    )
    assert is_split(None, *(said("no", **denial) for denial in denials))


objects = ['{"a":1e400,"b":"\\ud800"}', '{"b":2,"a":1.0,"b":3}', '{"status":null}', "{}", "[1]", "null", "1"]


@given(
    st.sampled_from(objects),
    st.sampled_from(["r", "exec", "process", "sessions_send"]),
    st.sampled_from(["poll", "log", None]),
)
def test_details_count_the_same_as_text_and_as_a_value(details: str, tool: str, action: str | None) -> None:
    written = f' {{"details":1,"content":[],"\\u0064etails":{details}}}'
    assert rolling_outcome(tool, action, written.encode()) == rolling_outcome(tool, action, parse(written))


# --- exec -------------------------------------------------------------------------------------------------------------


def exec_said(text: str = "out", /, **details: Any) -> str | None:
    return said(text, "exec", **details)


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_finished_command_is_its_exit_and_its_output(status: str) -> None:
    volatile = {"durationMs": 5, "pid": 7, "sessionId": "s", "cwd": "/w", "exitSignal": "TERM"}
    done = exec_said(status=status, exitCode=0)
    assert exec_said(status=status, exitCode=0, **volatile) == done
    assert is_split(
        done,
        exec_said(status=status, exitCode=1),
        exec_said(status=status),
        exec_said("other", status=status, exitCode=0),
        exec_said(status=status, exitCode=0, timedOut=True),
    )
    assert exec_said(status=status, exitCode=0, timedOut="true") == done


def test_an_exit_code_that_is_no_number_is_none() -> None:
    for code in (None, "0", True, [0]):
        assert exec_said(status="completed", exitCode=code) == exec_said(status="completed")


def test_how_a_command_finished_counts() -> None:
    assert exec_said(status="completed", exitCode=1) != exec_said(status="failed", exitCode=1)


def test_the_output_is_what_was_aggregated_if_that_is_not_blank() -> None:
    plain = exec_said(status="completed", exitCode=0)
    for aggregated in ("out", " out\n", "  ", "", 5, None):
        assert exec_said(status="completed", exitCode=0, aggregated=aggregated) == plain
    assert exec_said("ignored", status="completed", exitCode=0, aggregated="out") == plain
    assert exec_said(status="completed", exitCode=0, aggregated="other") != plain


def test_a_running_command_is_its_tail() -> None:
    assert exec_said(status="running", tail="a", pid=1) == exec_said("else", status="running", tail="a", pid=2)
    assert exec_said(status="running", tail="a") != exec_said(status="running", tail="b")
    for tail in (5, None, ""):
        assert exec_said(status="running", tail=tail) == exec_said(status="running")


@pytest.mark.parametrize("status", ["approval-pending", "approval-unavailable"])
def test_a_command_that_needs_approval_is_what_is_asked(status: str) -> None:
    asked = {"status": status, "reason": "r", "host": "h", "command": "c", "warningText": "w"}
    assert exec_said(**asked, approvalId="1") == exec_said("else", **asked, approvalId="2")
    changes = [{name: "x"} for name in ("reason", "host", "command", "warningText")]
    assert is_split(exec_said(**asked), *(exec_said(**{**asked, **change}) for change in changes))
    assert exec_said(status=status, command="", warningText="", reason=None, host=5) == exec_said(status=status)
    assert exec_said(status=status, reason="") != exec_said(status=status)


@pytest.mark.parametrize("status", ["killed", "", "Completed", 3, None, ["running"], {"a": 1}])
def test_any_other_command_is_all_its_details(status: object) -> None:
    assert exec_said(status=status, pid=1) != exec_said(status=status, pid=2)
    assert exec_said(status=status) == said("out", "r", status=status)


def test_other_tools_keep_what_a_command_drops() -> None:
    assert said("out", "bash", status="completed", pid=1) != said("out", "bash", status="completed", pid=2)


# --- process ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "facts"),
    [
        ("poll", ("exitCode", "exitSignal", "aggregated")),
        ("log", ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")),
    ],
)
def test_a_poll_is_its_state_and_its_text(action: str, facts: tuple[str, ...]) -> None:
    running = said("idle", "process", action, status="running")
    other_facts = {"aggregated", "totalLines", "totalChars", "truncated", "pid", "name"} - set(facts)
    assert said("idle", "process", action, status="running", **dict.fromkeys(other_facts, 1)) == running
    assert said("idle", "process", action, status="running", **dict.fromkeys(facts)) == running
    changed = (said("idle", "process", action, status="running", **{fact: 1}) for fact in facts)
    assert is_split(running, said("more", "process", action, status="running"), *changed)
    assert is_split(said("idle", "process", action), said("idle", "process", action, status=None), running)


def test_any_other_process_call_is_all_its_details() -> None:
    assert said("x", "process", None, n=1) != said("x", "process", None, n=2)


def test_a_command_status_has_no_rule_of_its_own() -> None:
    assert said("x", "command_status", None, pid=1) != said("x", "command_status", None, pid=2)


# --- sends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "action"), [("message", "send"), ("message", "poll"), ("sessions_send", None)])
def test_a_send_is_its_details_without_what_is_volatile(tool: str, action: str | None) -> None:
    sent = said("a", tool, action, ok=True)
    assert said("b", tool, action, ok=True) == said(None, tool, action, ok=True) == sent
    assert said("a", tool, action, ok=False) != sent
    for name in VOLATILE:
        assert said("a", tool, action, ok=True, **{name: "v"}) == sent
    assert said("a", tool, action, ok=True, id="1") != said("a", tool, action, ok=True, id="2")


def test_what_is_volatile_in_a_send() -> None:
    names = [
        *("messageId", "message_id", "messageIds", "platformMessageId", "platformMessageIds"),
        *("fileId", "file_id", "fileKey", "pollId", "poll_id", "receipt", "runId", "idempotencyKey"),
        *("ts", "timestamp", "sentAt", "deliveredAt", "createdAt"),
    ]
    assert sorted(VOLATILE) == sorted(names)


def test_it_is_dropped_at_any_depth() -> None:
    assert said(None, "sessions_send", a=[{"b": {"ts": 1, "c": 2}}]) == said(None, "sessions_send", a=[{"b": {"c": 2}}])


PARTIES: list[dict[str, Any]] = [{"direction": "out"}, {"senderId": "s"}, {"accountId": "a"}, {"conversation": {}}]


def loses_id(message: dict[str, Any]) -> bool:
    """Whether the id of this object does not count, neither when it is inside a result nor when it is the result."""
    pairs = ((message, {**message, "id": "2"}), ({"of": [message]}, {"of": [{**message, "id": "2"}]}))
    same = [said(None, "sessions_send", **one) == said(None, "sessions_send", **other) for one, other in pairs]
    assert same[0] == same[1]
    return same[0]


@pytest.mark.parametrize("party", PARTIES)
def test_a_message_loses_its_id(party: dict[str, Any]) -> None:
    message = {"id": "1", "text": "hi", **party}
    assert loses_id(message)
    assert not loses_id({**message, "id": 1})
    assert not loses_id({**message, "text": 5})
    assert not loses_id({**message, **dict.fromkeys(party, 5)})


@pytest.mark.parametrize("conversation", [[], ["c"], "c", None])
def test_a_conversation_is_an_object(conversation: object) -> None:
    assert not loses_id({"id": "1", "text": "hi", "conversation": conversation})


def test_the_id_of_a_conversation_stays() -> None:
    def sent(conversation_id: str) -> str | None:
        return said(None, "sessions_send", id="1", text="hi", conversation={"id": conversation_id})

    assert sent("c") != sent("d")


def test_any_other_message_is_all_its_details() -> None:
    assert said("a", "message", None, messageId="1") != said("a", "message", None, messageId="2")
    assert said("a", "other", "send", messageId="1") != said("a", "other", "send", messageId="2")


def test_a_send_that_returns_no_object_is_its_value() -> None:
    assert is_split(outcome("a", "sessions_send"), outcome("b", "sessions_send"))


# --- unavailable tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("Unknown tool: foo", "foo"),
        ("unknown tool foo", "foo"),
        ('UNKNOWN TOOL "Foo"', "foo"),
        ("Unknown tool:'foo'", "foo"),
        ("Unknown tool : \u3000:foo-1.2_x extra", "foo-1.2_x"),
        ("anunknown tool: x", "x"),
        ("Unknown  tool: foo", None),
        ("Unknown tool\x1ffoo", None),
        ("Unknown toolfoo", None),
        ("tool foo not found", "foo"),
        ('Tool "Foo" is not available', "foo"),
        ("Tool 'foo' not found.", "foo"),
        ("toolkit tool\u00a0foo\n\nnot found", "foo"),
        ("tool a tool b not found", "b"),
        ("mytool foo not found", "foo"),
        ("tool foo is  not available", None),
        ("the tool foo was not found", None),
        ("Tool not found: foo", None),
        ("no such tool foo", None),
        ("tool é not found", None),
        ("tool \u212a not found", None),
        ("tool a not found; unknown tool: b", "b"),
        ("", None),
        (5, None),
        (None, None),
        ({"code": 1, "message": "Unknown tool: Foo"}, "foo"),
    ],
)
def test_the_name_of_a_tool_that_does_not_exist(error: object, name: str | None) -> None:
    assert unknown_tool_name(error) == unknown_tool_name(_text(error)) == name


def test_a_hostile_error_is_read_in_no_time() -> None:
    for error in ("unknown tool" + ":" * 200_000, "tool " * 50_000, "tool " + "a" * 200_000, "tool" + " " * 200_000):
        assert unknown_tool_name(error) is None
