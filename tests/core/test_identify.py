"""Raw events in, identified events out; nothing raw is left in them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.build import call, raw
from turnguard.core.bounds import MAX_TEXT
from turnguard.core.guard import ALL_BUT_TEXT, NOTHING, InvalidEventError, Needs
from turnguard.core.identify import CallOf, identify, nobody
from turnguard.core.identity import read_outcome, tool_call_repeat_key
from turnguard.core.masking import progress_outcome
from turnguard.core.outcome import rolling_outcome
from turnguard.core.rolling.identity import rolling_arguments_hash
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


TURN_ONLY = Needs(facts=True, read=True)
"""What Qwen Code's guards want: no identity of the other two systems."""


def one_call(given_call: Call, needs: Needs = TURN_ONLY) -> Call:
    identified = identify(ToolCalls([given_call], "run"), needs)
    assert isinstance(identified, ToolCalls)
    assert identified.run_id == "run"
    return identified.calls[0]


def one_result(result: Result, needs: Needs = TURN_ONLY, call_of: CallOf = nobody) -> Result:
    identified = identify(ToolResults([result], "run"), needs, call_of)
    assert isinstance(identified, ToolResults)
    assert identified.run_id == "run"
    return identified.results[0]


def outcomes(result: Result, call_of: CallOf = nobody) -> Outcomes:
    """The outcome of a result in all its forms."""
    outcome = one_result(result, ALL_BUT_TEXT, call_of).outcome
    assert isinstance(outcome, Outcomes)
    return outcome


def same_rolling(one: Any, other: Any, name: str = "read_file") -> bool:
    """Whether OpenClaw's guards take two outputs of a tool for the same."""
    return (
        outcomes(Result("i", name, output=raw(one))).rolling == outcomes(Result("i", name, output=raw(other))).rolling
    )


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


def test_what_is_identified_is_not_made_again() -> None:
    """The daemon and replay identify events before a session does."""
    known, ended = one_call(call("a", {}, "i"), ALL_BUT_TEXT), one_result(Result("i", "a", output=raw(1)), ALL_BUT_TEXT)
    assert one_call(known) is known
    assert one_result(ended) is ended


LONG = (MAX_TEXT + 1) * "x"


@pytest.mark.parametrize(
    "result",
    [
        Result(LONG, "a", key="k"),
        Result("i", LONG, key="k"),
        Result("i", "a", key=LONG),
        Result("i", "a", key=Keys(LONG, "r")),
        Result("i", "a", key=Keys("k", LONG)),
        Result("i", "a", key="k", error_type=LONG),
    ],
)
def test_what_is_too_long_to_be_held_does_not_pass(result: Result) -> None:
    assert LONG not in msgspec.json.encode(one_result(result)).decode()
    if result.error_type is None:
        held = one_call(Call(result.name, result.id, key=result.key))
        assert LONG not in msgspec.json.encode(held).decode()
        assert one_call(held) is held


def test_only_the_host_knows_which_results_are_never_shown() -> None:
    blind = Facts(blind=True)
    told = Facts(blind=True, poll=True)
    assert one_call(call("shell", {}, facts=told)).facts == blind, "the rest is found out here"
    assert one_call(call("read_file", {}, facts=blind)).facts == Facts(blind=True, read_like=True)
    assert one_call(call("read_file", {}, facts=blind), TURN_ONLY._replace(facts=False)).facts == blind
    assert one_call(Call("shell", key="k", facts=told)).facts == told


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
    assert one_call(call("read_file", {}), NOTHING).facts is None
    assert one_result(Result("i", output=raw(1)), NOTHING).outcome == Outcomes()


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
    assert identify(Text("a"), Needs(text=True)) == Text("a")
    assert identify(Text(length=7)) == Text(length=7)


def test_other_events_pass() -> None:
    event = StepFinished()
    assert identify(event) is event


# --- what the other guards want -----------------------------------------------------------------------------------


def test_each_guard_gets_its_own_form_and_no_other_is_computed() -> None:
    told = Result("i", "read_file", output=raw("1 ms"))
    assert one_result(told, Needs(read=True)).outcome == Outcomes(read=read_outcome(b'"1 ms"'))
    assert one_result(told, Needs(rolling=True)).outcome == Outcomes(rolling=rolling_outcome("read_file", None, "1 ms"))
    assert one_result(told, Needs(progress=True)).outcome == Outcomes(progress=progress_outcome(raw("1 ms"), UNSET))
    assert None not in msgspec.structs.astuple(outcomes(told))
    both = call("bash", {"command": "git status"})
    assert one_call(both, Needs(rolling=True)).hint is None
    assert one_call(both, Needs(progress=True)).key == Keys(tool_call_repeat_key("bash", {"command": "git status"}))


def test_the_needs_of_several_guards_are_those_of_any() -> None:
    assert Needs.of_all([Needs(facts=True), NOTHING, Needs(text=True)]) == Needs(facts=True, text=True)
    assert Needs.of_all([NOTHING]) == NOTHING
    assert not ALL_BUT_TEXT.text
    assert ALL_BUT_TEXT._replace(text=True) == Needs(True, True, True, True, True)


def test_a_key_has_openclaws_arguments_hash_beside_the_repeat_key() -> None:
    key = one_call(call("bash", {"b": 1, "a": 2.0}), ALL_BUT_TEXT).key
    assert key == Keys(tool_call_repeat_key("bash", {"a": 2, "b": 1}), rolling_arguments_hash("exec", {"a": 2, "b": 1}))
    assert one_result(Result(name=" Bash ", args=raw({"a": 2, "b": 1})), ALL_BUT_TEXT).key == Keys(
        tool_call_repeat_key(" Bash ", {"a": 2, "b": 1}), rolling_arguments_hash("exec", {"a": 2, "b": 1})
    )


def test_a_missing_name_is_a_tool_to_openclaw_too() -> None:
    key = one_call(Call(None), ALL_BUT_TEXT).key
    assert isinstance(key, Keys)
    assert key.rolling == rolling_arguments_hash("tool", {})


@pytest.mark.parametrize(
    ("name", "args", "facts"),
    [
        ("process", {"action": "poll", "id": 1}, Facts(poll=True, action="poll")),
        ("process", {"action": "log"}, Facts(poll=True, action="log")),
        (" Process", {"action": "poll"}, Facts(poll=True, action="poll")),
        ("process", {"action": "kill"}, None),
        ("process", ["poll"], None),
        ("command_status", {}, Facts(poll=True)),
        ("Command_Status", {"action": "poll"}, Facts(poll=True)),
        ("message", {"action": "send"}, Facts(action="send")),
        ("message", {"action": "poll"}, Facts(action="poll")),
        ("message", {"action": "Send"}, None),
        ("exec", {"action": "poll"}, None),
    ],
)
def test_facts_say_what_a_call_asks_of_a_process_or_a_message(name: str, args: Any, facts: Facts | None) -> None:
    assert one_call(call(name, args)).facts == facts


@pytest.mark.parametrize(
    ("name", "args", "hint"),
    [
        ("bash", {"command": "cd /x && FOO=1 timeout 60 pytest -q"}, "pytest"),
        ("str_replace_editor", {"command": "create", "path": "a"}, "create"),
        ("read_file", {"path": "a"}, None),
    ],
)
def test_the_hint_is_made_while_the_arguments_are_at_hand(name: str, args: Any, hint: str | None) -> None:
    assert one_call(call(name, args), Needs(progress=True)).hint == hint
    assert one_call(call(name, args, hint="given"), Needs(progress=True)).hint == "given"
    assert one_call(call(name, args), TURN_ONLY).hint is None


@pytest.mark.parametrize(
    ("error", "unknown_tool"),
    [("Unknown tool: Edti", "edti"), ("tool 'x.y' is not available", "x.y"), ("no such file", None), (5, None)],
)
def test_an_error_text_names_the_tool_that_does_not_exist(error: Any, unknown_tool: str | None) -> None:
    facts = None if unknown_tool is None else Facts(unknown_tool=unknown_tool)
    assert one_result(Result("i", error=raw(error))).facts == facts
    assert one_result(Result("i", error=raw(error)), NOTHING).facts is None
    assert one_result(Result("i", output=raw(error))).facts is None
    given = Facts(unknown_tool="given")
    assert one_result(Result("i", error=raw(error), facts=given)).facts == given


def test_the_error_counts_when_there_is_an_output_too() -> None:
    both = Result("i", "a", output=raw("out"), error=raw("no"))
    alone = Result("i", "a", error=raw("no"))
    assert outcomes(both).read == outcomes(alone).read == read_outcome(b'"no"')
    assert outcomes(both).rolling == outcomes(alone).rolling == rolling_outcome("a", None, error="no")
    assert outcomes(both).progress != outcomes(alone).progress  # a person sees both texts


def test_an_error_is_never_the_same_as_an_output() -> None:
    output, error = outcomes(Result("i", "a", output=raw("x"))), outcomes(Result("i", "a", error=raw("x")))
    assert output.rolling != error.rolling


def test_the_outcome_of_the_progress_guard_is_masked() -> None:
    one, other = (outcomes(Result("i", output=raw(f"Wall time: {n} s\nok at 10:1{n}:00"))) for n in range(2))
    assert one.progress == other.progress
    assert one.rolling != other.rolling
    assert one.read != other.read


def test_an_answer_to_a_vetoed_call_has_no_identity_for_openclaw() -> None:
    veto = {"content": [], "details": {"status": "blocked", "deniedReason": "tool-loop"}}
    assert outcomes(Result("i", "exec", output=raw(veto))).rolling is None


# --- objects that no tool of OpenClaw gives ---


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"stdout": "a"}, {"stdout": "b"}),
        ({"stdout": "a"}, {}),
        ({"stdout": {"deep": [1]}}, {"stdout": {"deep": [2]}}),
        ({"Content": "a"}, {"Content": "b"}),
    ],
)
def test_a_foreign_object_is_known_by_all_of_it(one: Any, other: Any) -> None:
    assert not same_rolling(one, other)
    assert not same_rolling(one, other, "exec")


def test_a_foreign_object_does_not_depend_on_the_order_of_its_members_or_on_how_it_is_written() -> None:
    assert same_rolling({"a": 1, "b": [1.0]}, {"b": [1], "a": 1})
    spaced = Result("i", "a", output=msgspec.Raw(b' { "a" : 1e0 } '))
    assert outcomes(spaced).rolling == outcomes(Result("i", "a", output=raw({"a": 1}))).rolling


def test_a_foreign_object_is_not_read_by_the_rules_of_a_tool() -> None:
    """Only `details` has a status; members that are called like those of an `exec` result are all looked at."""
    running = {"status": "running", "tail": "x"}
    assert not same_rolling({**running, "pid": 1}, {**running, "pid": 2}, "exec")
    of_exec = {"content": [], "details": running}
    assert same_rolling({**of_exec, "pid": 1}, {**of_exec, "pid": 2}, "exec")


@pytest.mark.parametrize("known", ["content", "details"])
def test_an_object_with_content_or_details_is_openclaws_and_its_other_members_do_not_count(known: str) -> None:
    assert same_rolling({known: [], "isError": True}, {known: [], "other": 1})
    assert same_rolling({known: None, "a": 1}, {known: None, "a": 2})


@pytest.mark.parametrize("output", [None, "text", 5, True, [], [{"a": 1}]])
def test_what_is_no_object_is_known_by_its_value(output: Any) -> None:
    assert outcomes(Result("i", "a", output=raw(output))).rolling == rolling_outcome("a", None, output)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (rb'{"a":"\ud800"}', rb'{"a":"\ud800b"}'),
        (rb'{"\ud800":1}', rb'{"\ud800":2}'),
        (rb'{"a":"\ud800"}', rb'{"b":"\ud800"}'),
        (rb'{"content":[],"details":{"a":"\ud800"}}', rb'{"content":[],"details":{"b":"\ud800"}}'),
    ],
)
def test_a_lone_surrogate_does_not_make_different_outputs_one(one: bytes, other: bytes) -> None:
    first, second = (outcomes(Result("i", "a", output=Raw(output))) for output in (one, other))
    assert None not in (first.rolling, second.rolling)
    assert first.rolling != second.rolling


def test_a_lone_surrogate_does_not_make_openclaws_output_a_foreign_one() -> None:
    one, other = (Result("i", "a", output=Raw(rb'{"content":[],"other":"\ud800%d"}' % n)) for n in range(2))
    assert outcomes(one).rolling == outcomes(other).rolling


# --- the call of a result ---


def test_what_an_exec_result_means_is_known_from_its_call() -> None:
    running = {"content": [], "details": {"status": "running", "tail": "x", "pid": 1}}
    moved = {"content": [], "details": {"status": "running", "tail": "x", "pid": 2}}
    calls = {"a": Call("bash", "a"), "b": Call("read_file", "b")}

    def of(call_id: str, output: Any) -> str | None:
        return outcomes(Result(call_id, output=raw(output)), lambda result: calls.get(str(result.id))).rolling

    assert of("a", running) == of("a", moved)
    assert of("b", running) != of("b", moved)
    assert of("unknown", running) != of("unknown", moved)


def test_the_name_of_a_result_comes_before_that_of_its_call() -> None:
    output = raw({"content": [], "details": {"status": "running", "tail": "x", "pid": 1}})
    named = outcomes(Result("i", "exec", output=output), lambda _: Call("read_file", "i"))
    assert named.rolling == outcomes(Result("i", output=output), lambda _: Call("exec", "i")).rolling


def test_what_a_process_call_asked_for_is_known_from_its_facts_or_from_the_results_arguments() -> None:
    output = raw({"content": [], "details": {"status": "running", "totalLines": 1, "pid": 1}})
    poll, log = (one_call(call("process", {"action": action}, "i")) for action in ("poll", "log"))
    of_poll, of_log = (outcomes(Result("i", output=output), lambda _, call=each: call) for each in (poll, log))
    assert of_poll.rolling != of_log.rolling
    told = Result(name="process", args=raw({"action": "poll"}), output=output)
    assert outcomes(told).rolling == of_poll.rolling
    assert outcomes(told, lambda _: log).rolling == of_poll.rolling


def test_each_result_is_asked_for_its_own_call() -> None:
    asked: list[str | None] = []

    def call_of(result: Result) -> Call | None:
        asked.append(result.id)
        return None

    identify(ToolResults([Result("a"), Result(name="b"), Result("c", output=raw(1))]), ALL_BUT_TEXT, call_of)
    assert asked == ["a", None, "c"]


# --- input that is no good ---


@pytest.mark.parametrize("field", ["output", "error"])
@pytest.mark.parametrize("text", [b"{", b"[" * 600 + b"]" * 600, b'{"a":' * 600 + b"1" + b"}" * 600])
def test_an_output_or_error_that_is_no_good_says_where(field: str, text: bytes) -> None:
    result = msgspec.structs.replace(Result("i", "a"), **{field: Raw(text)})
    with pytest.raises(InvalidEventError) as caught:
        identify(ToolResults([Result("j"), result]))
    assert caught.value.path == f".results[1].{field}"


@pytest.mark.parametrize("args", [b"{", b"[" * 600 + b"]" * 600, b"", b"NaN"])
def test_arguments_that_are_no_json_or_nest_too_deep_are_an_error_that_says_where(args: bytes) -> None:
    with pytest.raises(InvalidEventError) as caught:
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
