"""Raw events in, identified events out; nothing raw is left in them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.build import call, raw
from turnguard.core.guard import Needs
from turnguard.core.identify import IdentityError, identify
from turnguard.core.identity import read_outcome, tool_call_repeat_key
from turnguard_protocol.events import (
    Call,
    Event,
    Facts,
    Keys,
    Outcomes,
    Result,
    StepFinished,
    Target,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
)

CANARY = "s3cret-canary"


def one_call(given_call: Call, needs: Needs = ~Needs.TEXT) -> Call:
    identified = identify(ToolCalls([given_call], "run"), needs)
    assert isinstance(identified, ToolCalls)
    assert identified.run_id == "run"
    return identified.calls[0]


def one_result(result: Result, needs: Needs = ~Needs.TEXT) -> Result:
    identified = identify(ToolResults([result]), needs)
    assert isinstance(identified, ToolResults)
    return identified.results[0]


def test_arguments_become_a_key_and_the_rest_stays() -> None:
    identified = one_call(call("grep", {"q": 1}, "i", fidelity="low", hint="grep"))
    assert identified.key == Keys(tool_call_repeat_key("grep", {"q": 1}))
    assert identified.args is UNSET
    assert (identified.name, identified.id, identified.fidelity, identified.hint) == ("grep", "i", "low", "grep")


def test_absent_arguments_count_as_empty_and_a_missing_name_as_an_empty_one() -> None:
    assert one_call(Call("a")).key == one_call(call("a", {})).key
    assert one_call(Call(None)).key == one_call(call("", {})).key
    assert one_call(Call(None)).name is None


@pytest.mark.parametrize("key", ["made elsewhere", Keys("t", "r")])
def test_a_key_made_elsewhere_passes_as_it_is(key: str | Keys) -> None:
    assert one_call(Call("a", key=key)) == Call("a", key=key)


def test_facts_are_derived_while_the_arguments_are_at_hand() -> None:
    assert one_call(call("read_file", {})).facts == Facts(read_like=True)
    assert one_call(call("run_shell_command", {"command": "git status"})).facts == Facts(git_overview=True)
    assert one_call(call("run_shell_command", {"command": "ls"})).facts is None
    assert one_call(call("shell", {"command": "git status"})).facts is None
    assert one_call(call("run_shell_command", ["git status"])).facts is None
    assert one_call(call("run_shell_command", {"command": 1})).facts is None


def test_an_envelope_tells_what_it_calls() -> None:
    envelope = call("tool_call", {"name": "Read_X", "arguments": {"a": 1}})
    target = Target("read_x", tool_call_repeat_key("read_x", {"a": 1}))
    assert one_call(envelope).facts == Facts(read_like=True, target=target)
    assert one_call(envelope).key == Keys(tool_call_repeat_key("tool_call", {"name": "Read_X", "arguments": {"a": 1}}))
    git = {"name": "run_shell_command", "arguments": {"command": "git diff"}}
    facts = one_call(call("tool_call", git)).facts
    assert facts is not None
    assert facts.git_overview


def test_what_no_guard_wants_is_not_computed() -> None:
    assert one_call(call("read_file", {}), Needs.NOTHING).facts is None
    assert one_result(Result("i", output=raw(1)), Needs.NOTHING).outcome == Outcomes()


def test_outputs_and_errors_become_outcomes_and_their_presence_stays() -> None:
    assert one_result(Result("i", output=raw({"a": 1}))).outcome == Outcomes(read=read_outcome(b'{"a":1}'))
    assert one_result(Result("i", output=raw(None))).outcome is not None
    assert one_result(Result("i")).outcome is None
    assert one_result(Result("i", outcome="made elsewhere")).outcome == "made elsewhere"


def test_an_error_implies_failure() -> None:
    failed = one_result(Result("i", ok=True, error=raw("no"), error_type="execution", status="done", duplicate=True))
    assert (failed.ok, failed.error, failed.error_type, failed.duplicate) == (False, UNSET, "execution", True)
    assert one_result(Result("i", ok=True)).ok is True
    assert one_result(Result("i")).ok is None


def test_a_result_without_an_id_is_named_by_tool_and_arguments() -> None:
    assert one_result(Result(name="a", args=raw({"x": 1}))).key == one_call(call("a", {"x": 1})).key
    assert one_result(Result(name="a")).key == one_call(Call("a")).key
    assert one_result(Result("i")).key is None


def test_text_becomes_its_length_in_utf16_units_unless_a_guard_reads_it() -> None:
    assert identify(Text("a😀")) == Text(length=3)
    assert identify(Text("\ud800")) == Text(length=1)
    assert identify(Thought("ab", "c😀")) == Thought(length=5)
    assert identify(Text("a"), Needs.TEXT) == Text("a")
    assert identify(Text(length=7)) == Text(length=7)


def test_other_events_pass() -> None:
    event = StepFinished()
    assert identify(event) is event


@pytest.mark.parametrize("args", [b"{", b"[" * 600 + b"]" * 600, b"", b"NaN"])
def test_arguments_that_are_no_json_or_nest_too_deep_are_an_error_that_says_where(args: bytes) -> None:
    with pytest.raises(IdentityError) as caught:
        identify(ToolCalls([call(), call(), msgspec.structs.replace(call(), args=Raw(args))]))
    assert caught.value.path == ".calls[2].args"


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=9), json_values, json_values)
def test_nothing_raw_is_left_and_what_is_identified_stays(name: str, arguments: Any, output: Any) -> None:
    events: list[Event] = [
        ToolCalls([call(name, [CANARY, arguments], "i")]),
        ToolResults([Result("i", output=raw([CANARY, output])), Result(name="a", error=raw(CANARY))]),
        Text(CANARY),
        Thought(CANARY, CANARY),
    ]
    for event in events:
        identified = identify(event)
        assert CANARY.encode() not in msgspec.json.encode(identified)
        assert identify(identified) == identified
        assert msgspec.json.decode(msgspec.json.encode(identified), type=Event) == identified
