"""Who a call is to OpenClaw: names, arguments, polls and sends."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from turnguard.core.bounds import MAX_NESTING
from turnguard.core.identity import tool_call_repeat_key
from turnguard.core.javascript import NestingError, NotJsonError, parse
from turnguard.core.rolling.canonical import canonical
from turnguard.core.rolling.identity import (
    SEND_ACTIONS,
    is_poll_call,
    is_send,
    keys_of_call,
    outcome_action,
    rolling_arguments_hash,
    rolling_tool_name,
)

Strategy = st.SearchStrategy[Any]

numbers: Strategy = st.sampled_from(["0", "-0", "1.0", "1e2", "1e308", "1e309", "-1E+0400", "9007199254740993", "0.1"])
texts: Strategy = st.one_of(st.text(max_size=4), st.sampled_from(["Infinity", "1e400", "\ud800", "0e000"])).map(
    json.dumps
)
documents: Strategy = st.recursive(
    st.one_of(numbers, texts, st.sampled_from(["null", "true", "false"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(texts, inner), max_size=3).map(
            lambda members: f"{{{','.join(f'{name}:{value}' for name, value in members)}}}"
        ),
    ),
    max_leaves=8,
)
names: Strategy = st.sampled_from(["read", "Read", "bash", "exec", "replace", "task", "search_file_content", "", " x "])


def hashed(args: str, tool: str = "t") -> str:
    return rolling_arguments_hash(tool, Raw(args.encode()))


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("Read", "read"),
        (" \ufeffREAD\n", "read"),
        ("bash", "exec"),
        (" Bash", "exec"),
        ("Apply-Patch", "apply_patch"),
        ("apply_patch", "apply_patch"),
        ("cron", "cron"),
        ("", "tool"),
        ("\u3000", "tool"),
        ("\x1f", "\x1f"),
    ],
)
def test_names(name: str, tool: str) -> None:
    assert rolling_tool_name(name) == tool


@pytest.mark.parametrize(
    "same",
    [
        ("1", "1.0", "1e0", "10e-1"),
        ("0", "-0", "-0.0"),
        ("9007199254740993", "9007199254740992"),
        ("1e400", '"Infinity"', "1" + "0" * 309, "10" + "0" * 299 + "e10"),
        ("-1e400", '"-Infinity"'),
        ('{"a":{"x":1,"y":[1,2]},"b":2}', '{"b":2,"a":{"y":[1,2],"x":1}}', '{"b":1,"a":{"y":[1,2],"x":1.0},"b":2}'),
        ('"\\u00e9"', '"é"'),
    ],
)
def test_the_same_arguments(same: tuple[str, ...]) -> None:
    assert len({hashed(args) for args in same}) == 1


def test_different_arguments() -> None:
    different = [
        *("null", "{}", "[]", "1", "true", "false", "0", "2", "1e308", "[1,2]", "[2,1]"),
        *('""', '"1"', '" 1"', '"null"', '"é"', '"e\u0301"', '"\\ud800"', '"\\ud801"', '"\\\\ud800"'),
        *('{"a":null}', '{"a":""}', '{"a":1}', '{"a":"1"}', '{"a":true}', '{"A":1}', '{"a":{}}', '{"a":[]}'),
    ]
    assert len({hashed(args) for args in different}) == len(different)


def test_the_tool_belongs_to_the_hash_as_it_stands() -> None:
    assert len({hashed("{}", tool) for tool in ("a", "b", "A", "a ", "bash", "exec", "edit", "replace")}) == 8


def test_a_hash_is_a_sha_256() -> None:
    assert len(hashed("{}")) == 64
    assert int(hashed("{}"), 16)


@given(documents)
def test_text_and_value_have_one_canonical_form(document: str) -> None:
    assert canonical(document.encode()) == canonical(Raw(document.encode())) == canonical(parse(document))


@given(documents)
def test_the_canonical_form_is_its_own(document: str) -> None:
    once = canonical(document.encode())
    assert canonical(once) == once


@given(names, documents, st.sampled_from([0, 600]))
def test_keys_that_are_made_together_are_those_made_apart(name: str, document: str, blanks: int) -> None:
    """Also of arguments so long that their keys are remembered."""
    args = Raw(document.encode() + b" " * blanks)
    apart = tool_call_repeat_key(name, parse(document.encode())), rolling_arguments_hash(rolling_tool_name(name), args)
    assert keys_of_call(name, args) == keys_of_call(name, args) == apart


def test_a_plain_integer_too_large_for_a_double_is_infinite() -> None:
    assert canonical(10**400) == b'"Infinity"'
    assert canonical([-(10**400), float("nan")]) == b'["-Infinity","NaN"]'


def test_what_cannot_be_read_is_told() -> None:
    with pytest.raises(NotJsonError):
        hashed("{")
    for innermost in ("1", "1e400"):
        assert hashed("[" * MAX_NESTING + innermost + "]" * MAX_NESTING)
        with pytest.raises(NestingError):
            hashed("[" * (MAX_NESTING + 1) + innermost + "]" * (MAX_NESTING + 1))


# --- kinds of calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        ("command_status", {}, True),
        ("command_status", None, True),
        ("process", {"action": "poll"}, True),
        ("process", {"action": "log", "sessionId": "p"}, True),
        ("process", {"action": "POLL"}, False),
        ("process", {"action": "list"}, False),
        ("process", {"action": ["poll"]}, False),
        ("process", ["poll"], False),
        ("process", "poll", False),
        ("process", {}, False),
        ("message", {"action": "poll"}, False),
        ("other", {"action": "poll"}, False),
    ],
)
def test_polls(tool: str, args: Any, expected: bool) -> None:
    assert is_poll_call(tool, args) is expected
    assert is_poll_call(tool, Raw(json.dumps(args).encode())) is expected


def test_an_action_is_told_only_where_it_is_treated_apart() -> None:
    assert outcome_action("process", {"action": "log"}) == "log"
    assert outcome_action("message", Raw(b'{"action":"thread-reply"}')) == "thread-reply"
    for tool, action in (("process", "send"), ("message", "log"), ("message", "Send"), ("exec", "poll")):
        assert outcome_action(tool, {"action": action}) is None


def test_sends() -> None:
    actions = "send broadcast reply thread-reply sendWithEffect sendAttachment upload-file sticker poll"
    assert sorted(SEND_ACTIONS) == sorted(actions.split())
    assert all(is_send("message", action) for action in SEND_ACTIONS)
    assert is_send("sessions_send", None)
    assert not is_send("message", None)
    assert not is_send("process", "poll")
