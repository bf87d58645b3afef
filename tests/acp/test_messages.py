"""Lines are read as far as they are looked at, whatever else is in them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.acp.shapes import call, decoded, later, line, permission, seen
from turnguard.acp.messages import (
    MAX_SLOW_BYTES,
    AgentInfo,
    Initialized,
    PermissionRequest,
    TerminalOutput,
    UndecodedRequest,
    UndecodedUpdate,
    Update,
    decode,
    entries,
    may_answer,
    member,
    members,
    plain,
    raw_of,
    read,
    text,
    unread_id,
)

DEEP = b"[" * 500_000 + b"]" * 500_000
LONE = rb'"\ud800"'


def test_an_update_is_read_as_far_as_it_is_looked_at() -> None:
    message = decoded(call("c", title="ls", kind="execute", status="pending", rawInput={"a": 1}, meta={"x": 1}))
    update = message.params.update
    assert isinstance(update, Update)
    assert (message.method, message.id, message.params.session_id) == ("session/update", UNSET, "s")
    assert (update.kind, update.tool_call_id, update.title, update.tool_kind) == ("tool_call", "c", "ls", "execute")
    assert (plain(update.raw_input), plain(update.meta), update.raw_output) == ({"a": 1}, {"x": 1}, UNSET)


def test_a_permission_request_is_read() -> None:
    asked = decoded(permission("c", title="ls")).params.tool_call
    assert isinstance(asked, PermissionRequest)
    assert (asked.tool_call_id, asked.title) == ("c", "ls")


@pytest.mark.parametrize("token", ["0", "7", '"7"', "-1", "12345678901234567890123", "1.5"])
def test_ids_keep_their_type(token: str) -> None:
    message = decoded(f'{{"id":{token},"method":"x"}}'.encode())
    assert repr(message.id) == repr(msgspec.json.decode(token))


def test_a_null_id_is_not_the_lack_of_one() -> None:
    assert decoded(b'{"id":null,"method":"x"}').id is None
    assert decoded(b'{"method":"x"}').id is UNSET


@pytest.mark.parametrize("body", ['"result":{"a":1}', '"result":null', '"error":{"code":1}'])
def test_responses_are_told_from_requests(body: str) -> None:
    assert decoded(f'{{"id":1,{body}}}'.encode()).is_response
    assert not decoded(f'{{"id":1,"method":"x",{body}}}'.encode()).is_response


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"  \n"])
def test_line_ends_do_not_matter(end: bytes) -> None:
    assert decoded(b'{"method":"x"}' + end).method == "x"


@pytest.mark.parametrize(
    "junk", [b"", b"\n", b"  \r\n", b"no json", b'{"a":', b"7", b"null", b'"x"', b"[1]", b"\xff\xfe"]
)
def test_what_is_no_message_is_none(junk: bytes) -> None:
    assert decode(junk) is None


@given(st.binary())
def test_no_bytes_raise(junk: bytes) -> None:
    decode(junk)
    decode(b'{"method":"session/update","params":{"update":' + junk + b"}}")
    entries(junk)
    read(Raw(junk), Initialized)
    members(Raw(junk))


@pytest.mark.parametrize("params", ["[]", "7", "null", '"x"', '{"update":"x"}', '{"update":[1]}', '{"sessionId":5}'])
def test_params_of_another_type_count_as_absent(params: str) -> None:
    message = decoded(f'{{"id":3,"method":"_x","params":{params}}}'.encode())
    assert (message.method, message.id) == ("_x", 3)
    assert (message.params.session_id, message.params.update) == (None, None)


def test_members_of_another_type_count_as_absent_and_the_others_do_not() -> None:
    update = seen(call("c", title=5, kind=["x"], status="pending", rawInput={"n": 1.0}))
    assert (update.title, update.tool_kind, update.status, update.tool_call_id) == (None, None, "pending", "c")
    assert plain(update.raw_input) == {"n": 1}


@pytest.mark.parametrize("where", [b'"title":', b'"rawInput":', b'"content":', b'"_meta":', b'"unheardOf":'])
def test_a_lone_surrogate_does_not_blind(where: bytes) -> None:
    told = line(call("c", status="pending")).replace(b'"status":', where + LONE + b',"status":')
    update = seen(told)
    assert (update.kind, update.tool_call_id, update.status) == ("tool_call", "c", "pending")
    if where == b'"title":':
        assert update.title == "\ud800"


def test_a_lone_surrogate_among_arguments_stays() -> None:
    told = line(call("c", title="X", rawInput={"a": 1})).replace(b'"X"', LONE).replace(b"1", LONE)
    assert plain(seen(told).raw_input) == {"a": "\ud800"}


def test_bytes_that_are_no_utf8_do_not_blind() -> None:
    update = seen(line(call("c", title="X", status="pending")).replace(b"X", b"\xff"))
    assert (update.tool_call_id, update.status, update.title) == ("c", "pending", "�")


# --- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("told", "kind"), [(call, "tool_call"), (later, "tool_call_update")])
def test_a_call_nested_too_deep_is_told_as_a_call(told: object, kind: str) -> None:
    assert callable(told)
    update = seen(line(told("c", rawInput="X")).replace(b'"X"', DEEP))
    assert isinstance(update, UndecodedUpdate)
    assert (update.kind, update.tool_call_id) == (kind, "c")


def test_a_permission_that_is_nested_too_deep_can_be_answered() -> None:
    message = decoded(line(permission("c", rawInput="X")).replace(b'"X"', DEEP))
    assert isinstance(message.params.tool_call, UndecodedRequest)
    assert (message.method, message.id, message.params.session_id) == ("session/request_permission", 0, "s")
    assert message.params.tool_call.tool_call_id == "c"


@pytest.mark.parametrize(
    ("told", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":9,"result":[1,', 9),
        (b'{"result":{"id":5,"x":[]},"id":"a\\"b"}\r\n', 'a"b'),
        (b'{"a":"\\"id\\":7","id":3,"result":', 3),
        (b'\xef\xbb\xbf{"id" : -1,"result":{', -1),
        (b'{"result":{"id":5}}', None),
        (b'{"id":1.5,"result":{', None),
        (b'{"result":[{"x":1,"id":4}', None),
        (b"", None),
    ],
)
def test_the_id_of_what_cannot_be_read_is_believed_where_it_is_certain(told: bytes, request_id: Any) -> None:
    assert unread_id(told) == request_id


def test_only_what_names_no_method_may_answer() -> None:
    assert may_answer(b'{"id":1,"result":')
    assert may_answer(b'{"error":{},"id":1')
    assert not may_answer(b'{"id":1,"method":"x","params":{"result":')
    assert not may_answer(b'{"id":1}')


@pytest.mark.parametrize("told", [b'{"method":"x","id":7,"params":{"n":NaN}}', b'\xef\xbb\xbf{"method":"x","id":7}'])
def test_what_clients_may_take_though_it_is_no_json_is_read(told: bytes) -> None:
    message = decoded(told)
    assert (message.method, message.id) == ("x", 7)


def test_a_number_that_json_does_not_have_is_null_among_arguments() -> None:
    told = line(call("c", rawInput={"a": "X"})).replace(b'"X"', b"-Infinity")
    assert plain(seen(told).raw_input) == {"a": None}


def test_calls_that_are_numbered_have_the_number_for_an_id() -> None:
    assert seen(line(call("X")).replace(b'"X"', b"12")).tool_call_id == "12"
    assert seen(line(call("X")).replace(b'"X"', b"true")).tool_call_id is None


def test_a_very_long_line_is_read_though_it_holds_half_a_character() -> None:
    update = seen(line(later("c", status="completed", rawOutput="X")).replace(b"X", LONE[1:-1] + b"x" * MAX_SLOW_BYTES))
    assert (update.tool_call_id, update.status) == ("c", "completed")


def test_a_call_that_is_no_json_is_told_with_its_session() -> None:
    message = decoded(b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",')
    assert message.params.session_id == "s"
    assert isinstance(message.params.update, UndecodedUpdate)


def test_an_id_that_may_be_an_argument_is_not_believed() -> None:
    update = seen(line(call("c", rawInput={"toolCallId": "d", "x": "X"})).replace(b'"X"', DEEP))
    assert isinstance(update, UndecodedUpdate)
    assert update.tool_call_id is None


@pytest.mark.parametrize("other", [b'{"method":"session/update","x":X}', b'{"text":"\\"tool_call\\"","x":X}'])
def test_other_lines_nested_too_deep_are_none(other: bytes) -> None:
    assert decode(other.replace(b"X", DEEP)) is None


def test_the_wire_cannot_claim_to_be_undecoded() -> None:
    assert type(seen(call("c", undecoded=True))) is Update


# --- parts ------------------------------------------------------------------------------------------------------------


def test_batches_are_taken_apart_and_nothing_else() -> None:
    assert [decoded(entry).method for entry in entries(b' [{"method":"a"}, {"method":"b"}]\n')] == ["a", "b"]
    assert entries(b'{"method":"a"}') == entries(b"[1,") == entries(b"") == ()


def test_results_are_read_by_shape() -> None:
    info = read(Raw(b'{"protocolVersion":1,"agentInfo":{"name":"n","version":"v","x":1}}'), Initialized)
    assert (info.protocol_version, info.agent_info) == (1, AgentInfo("n", "v"))
    shown = read(Raw(b'{"output":"a","exitStatus":{"exitCode":3,"signal":null},"truncated":false}'), TerminalOutput)
    assert shown.output == "a"
    assert shown.exit_status is not None
    assert shown.exit_status.exit_code == 3


@pytest.mark.parametrize("result", [UNSET, Raw(b"null"), Raw(b"[]"), Raw(b'{"protocolVersion":"1"}'), Raw(b"{")])
def test_a_result_of_another_shape_is_empty(result: Raw) -> None:
    assert read(result, Initialized) == Initialized()


def test_a_member_that_fits_is_read_beside_one_that_does_not() -> None:
    assert read(Raw(b'{"protocolVersion":2,"agentInfo":[]}'), Initialized).protocol_version == 2


def test_paths_lead_to_members() -> None:
    raw = Raw(b'{"a":{"b":"c","n":5,"e":""}}')
    assert text(member(raw, "a", "b")) == "c"
    for path in (("a",), ("a", "n"), ("a", "e"), ("a", "x"), ("x", "y"), ("a", "b", "c")):
        assert text(member(raw, *path)) is None
    assert members(Raw(b'{"a":"\\ud800","\\ud800":1}')).keys() == {"a", "\ud800"}
    assert bytes(raw_of({"a": "\ud800"})) == b'{"a":"\\ud800"}'
