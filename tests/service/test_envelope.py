import json
from typing import Any

import msgspec
import pytest

from turnguard.core.bounds import MAX_NESTING
from turnguard.service.envelope import (
    NOT_A_REQUEST,
    ErrorObject,
    Failure,
    Message,
    Reply,
    decode_request,
    encode,
    is_utf8,
    params_of,
    parse_message,
)
from turnguard.service.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RequestError
from turnguard_protocol.events import ToolCalls
from turnguard_protocol.methods import GetStatus, ListSessions, OpenSession, Record


def record_of(call: str, event: str = "toolCalls", field: str = "calls") -> bytes:
    params = f'{{"sessionId":"s","events":[{{"type":"{event}","{field}":[{call}]}}]}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"turnguard/record","params":{params}}}'.encode()


def record(args: str) -> bytes:
    return record_of(f'{{"name":"t","args":{args}}}')


def args_of(params: Any) -> bytes:
    assert isinstance(params, Record)
    event = params.events[0]
    assert isinstance(event, ToolCalls)
    args = event.calls[0].args
    assert isinstance(args, msgspec.Raw)
    return bytes(args)


def parsed(body: bytes) -> Message:
    message = parse_message(body)
    assert message is not None
    return message


def test_one_pass_leaves_arguments_as_they_came() -> None:
    assert args_of(decode_request(record('{"b": 1.50, "a": [1e400]}')).params) == b'{"b": 1.50, "a": [1e400]}'


@pytest.mark.parametrize("method", ["openSession", "listSessions", "settings"])
def test_params_may_be_absent_where_all_are_optional(method: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"turnguard/%b"}' % method.encode()
    assert decode_request(body).params == params_of(parsed(body))


def test_params_may_be_null_where_all_are_optional() -> None:
    assert params_of(Message("turnguard/openSession", 1, None)) == OpenSession()


def test_params_that_are_needed_are_missed() -> None:
    with pytest.raises(RequestError, match="sessionId"):
        params_of(Message("turnguard/status", 1, None))


def test_positional_params_do_not_fit() -> None:
    with pytest.raises(RequestError) as caught:
        params_of(Message("turnguard/listSessions", 1, []))
    assert (caught.value.code, caught.value.data.path) == (INVALID_PARAMS, "$")
    assert params_of(Message("turnguard/listSessions", 1, {"more": 1})) == ListSessions()


@pytest.mark.parametrize("where", ["args", "name", "unknown", "key of args"])
def test_a_lone_surrogate_does_not_lose_the_message(where: str) -> None:
    call = {
        "args": r'{"name":"t","args":{"a":"CUT","n":[1,0.5,-3e-7]}}',
        "name": r'{"name":"CUT","args":{"a":1}}',
        "unknown": r'{"name":"t","args":{"a":1},"more":"CUT"}',
        "key of args": r'{"name":"t","args":{"CUT":1}}',
    }[where].replace("CUT", r"\ud83d")
    body = record_of(call)
    with pytest.raises(NOT_A_REQUEST):
        decode_request(body)
    args = args_of(params_of(parsed(body)))
    assert json.loads(args) == json.loads(call)["args"]
    assert args.isascii()


def test_a_lone_surrogate_does_not_lose_a_call_that_is_keyed_late() -> None:
    event = r'{"type":"callRekeyed","id":"c","args":{"a":"\ud83d"}}'
    body = b'{"jsonrpc":"2.0","id":1,"method":"turnguard/record","params":{"sessionId":"s","events":[%b]}}'
    [rekeyed] = params_of(parsed(body % event.encode())).events
    assert json.loads(bytes(rekeyed.args)) == {"a": "\ud83d"}


def test_numbers_beside_a_lone_surrogate_mean_what_they_mean_in_javascript() -> None:
    body = record(r'["\ud83d",1e400,-1e400,' + "9" * 5000 + ",1.0,12345678901234567890]")
    assert json.loads(args_of(params_of(parsed(body)))) == ["\ud83d", None, None, None, 1.0, 12345678901234567890]


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e400", "-1e400"])
@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("openSession", '{"settings":{"model":{"maxToolCallsPerTurn":N}}}', "$.settings.model.maxToolCallsPerTurn"),
        ("override", '{"sessionId":"s","action":"raiseCap","calls":N}', "$.calls"),
        ("status", '{"sessionId":N}', "$.sessionId"),
    ],
)
def test_a_number_past_all_bounds_is_not_a_number_that_was_left_out(
    number: str, method: str, params: str, path: str
) -> None:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"turnguard/{method}","params":{params.replace("N", number)}}}'.encode()
    with pytest.raises(NOT_A_REQUEST):
        decode_request(body)
    with pytest.raises(RequestError) as caught:
        params_of(parsed(body))
    assert (caught.value.code, caught.value.data.path) == (INVALID_PARAMS, path)


@pytest.mark.parametrize("request_id", ["9" * 5000, "1e400", r'"\ud83d"', r'"a\ude00"'])
def test_an_id_that_cannot_be_answered_is_none(request_id: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_message(f'{{"jsonrpc":"2.0","id":{request_id},"method":"turnguard/listSessions"}}'.encode())
    assert (caught.value.code, caught.value.request_id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize("method", ["openSession", "record", "status", "settings", "closeSession"])
def test_half_an_emoji_is_no_sessions_id(method: str) -> None:
    with pytest.raises(RequestError) as caught:
        params_of(Message(f"turnguard/{method}", 1, {"sessionId": "a\ud83d"}))
    assert (caught.value.code, caught.value.data.path) == (INVALID_PARAMS, "$.sessionId")


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20])
def test_utf8_is_told_from_other_bytes_in_messages_of_any_length(size: int) -> None:
    text = b"x" * size + "é😀".encode()
    assert is_utf8(text)
    assert is_utf8(text + b"x" * 2**20)
    for wrong in (text[:-1], text[:-1] + b"x", b"\xff" + text, text + b"\xed\xa0\x80", text + b"\xc0\x80"):
        assert not is_utf8(wrong)


@pytest.mark.parametrize("field", ["output", "error", "args"])
def test_what_a_result_holds_is_kept_too(field: str) -> None:
    body = record_of(f'{{"name":"t","{field}":{{"text":"\\udc00"}}}}', "toolResults", "results")
    given = params_of(parsed(body)).events[0].results[0]
    assert json.loads(bytes(getattr(given, field))) == {"text": "\udc00"}


TOO_DEEP = 400_000
"""Levels that no parser goes down. Until Python 3.11 a thousand were; since 3.14 the stack alone is the bound."""


def test_a_request_that_is_too_deep_is_told_so_by_its_id() -> None:
    for body in (record("[" * TOO_DEEP + "]" * TOO_DEEP), record('{"a\\"[":' * TOO_DEEP + "1" + "}" * TOO_DEEP)):
        with pytest.raises(RequestError, match=str(MAX_NESTING)) as caught:
            parse_message(body)
        assert (caught.value.code, caught.value.request_id) == (INVALID_PARAMS, 1)


DEEP = b"[" * TOO_DEEP + b"]" * TOO_DEEP
MANY = 1_000_000


@pytest.mark.parametrize(
    ("params", "is_whole"),
    [
        (DEEP, True),
        (b"[" * 20 * MANY, False),
        (b"[" * TOO_DEEP + b"[]," * 5 * MANY, False),
        (b"[" * TOO_DEEP + b'"' + b'\\"' * MANY, False),
        (b"[" * TOO_DEEP + b'"' + b'\\"' * MANY + b"\\", False),
    ],
    ids=["whole", "brackets", "pairs", "string without end", "string without end and escape"],
)
@pytest.mark.parametrize("is_id_behind", [False, True])
def test_the_work_on_what_is_too_deep_is_linear(params: bytes, is_whole: bool, is_id_behind: bool) -> None:
    """Anything worse would not end while somebody waits."""
    head, params = b'{"jsonrpc":"2.0"', b',"params":' + params
    request = b',"id":"i","method":"turnguard/record"'
    with pytest.raises(RequestError) as caught:
        parse_message(b"".join([head, *((params, request) if is_id_behind else (request, params)), b"}"]))
    is_known = is_whole or not is_id_behind
    assert caught.value.request_id == ("i" if is_known else None)
    assert caught.value.code in ((INVALID_PARAMS,) if is_known else (PARSE_ERROR, INVALID_REQUEST))


def test_an_id_far_behind_what_is_too_deep_is_not_looked_for() -> None:
    body = b'{"jsonrpc":"2.0","params":[%b,"%b"],"id":1,"method":"x"}'
    assert_error = {10: 1, 2 * MANY: 1, 5 * MANY: None}
    for size, request_id in assert_error.items():
        with pytest.raises(RequestError, match=str(MAX_NESTING)) as caught:
            parse_message(body % (DEEP, b"x" * size))
        assert caught.value.request_id == request_id


def test_a_depth_only_a_level_below_the_parsers_limit_is_an_error_of_the_request() -> None:
    for depth in range(900, 1_000):
        body = record('["\\ud83d",' + "[" * depth + "]" * depth + "]")
        try:
            params_of(parsed(body))
        except RequestError as error:
            assert error.code == INVALID_PARAMS


def test_a_notification_that_is_too_deep_is_only_its_method() -> None:
    message = parsed(b'{"jsonrpc":"2.0","method":"x","params":%b}' % DEEP)
    assert (message.method, message.id, message.params) == ("x", None, None)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"", PARSE_ERROR, "Not JSON"),
        (b"{", PARSE_ERROR, "line 1 column 2"),
        (b'{"a": NaN}', PARSE_ERROR, "NaN"),
        (b'{"a": -Infinity}', PARSE_ERROR, "Infinity"),
        (b"\xef\xbb\xbf{}", PARSE_ERROR, "BOM"),
        (b'{"a": "\xff"}', PARSE_ERROR, "UTF-8, at byte 7"),
        (b"[" * 100_000, PARSE_ERROR, "Not JSON"),
        (b"[]", INVALID_REQUEST, "batch"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', INVALID_REQUEST, "batch"),
        (b"1", INVALID_REQUEST, "object"),
        (b"{}", INVALID_REQUEST, "jsonrpc"),
        (b'{"jsonrpc":"1.0","method":"x"}', INVALID_REQUEST, "jsonrpc"),
        (b'{"jsonrpc":"2.0"}', INVALID_REQUEST, "method"),
        (b'{"jsonrpc":"2.0","method":5}', INVALID_REQUEST, "method"),
        (b'{"jsonrpc":"2.0","method":"x","id":null}', INVALID_REQUEST, "id"),
        (b'{"jsonrpc":"2.0","method":"x","id":1.5}', INVALID_REQUEST, "id"),
        (b'{"jsonrpc":"2.0","method":"x","id":1.0}', INVALID_REQUEST, "id"),
        (b'{"jsonrpc":"2.0","method":"x","id":true}', INVALID_REQUEST, "id"),
        (b'{"jsonrpc":"2.0","method":"x","id":{}}', INVALID_REQUEST, "id"),
    ],
)
def test_what_is_no_message_is_told_why(body: bytes, code: int, word: str) -> None:
    with pytest.raises(RequestError, match=word) as caught:
        parse_message(body)
    assert (caught.value.code, caught.value.request_id) == (code, None)


def test_the_id_is_answered_where_it_is_known() -> None:
    with pytest.raises(RequestError) as caught:
        parse_message(b'{"jsonrpc":"1.0","method":"x","id":"seven"}')
    assert caught.value.request_id == "seven"


@pytest.mark.parametrize("member", [b'"result":null', b'"error":{"code":1,"message":""}'])
def test_responses_are_ignored(member: bytes) -> None:
    assert parse_message(b'{"jsonrpc":"2.0","id":1,%b}' % member) is None
    assert parse_message(b'{"jsonrpc":"2.0","id":null,%b}' % member) is None


def test_a_lone_surrogate_in_an_answer_is_replaced() -> None:
    body = encode(Reply(1, {"tool": "a\ud83db", "whole": "\ud83d\ude00", "é": 1}))
    assert json.loads(body.decode())["result"] == {"tool": "a\ufffdb", "whole": "😀", "é": 1}
    assert b"\\ud" not in body


@pytest.mark.parametrize(
    "params",
    [
        {"sessionId": "s", "\ud83d": 1},
        {"sessionId": "s", "events": [{"type": "\ud83d"}]},
        {"sessionId": "s", "events": [{"type": "turnEnded", "outcome": "\ud83d"}]},
        {"sessionId": "s", "events": [{"\ud83d": {"\ud83d": ["\ud83d"]}}]},
    ],
)
def test_a_lone_surrogate_in_the_wrong_place_is_a_mistake_like_others(params: Any) -> None:
    with pytest.raises(RequestError) as caught:
        params_of(Message("turnguard/record", 1, params))
    assert caught.value.code == INVALID_PARAMS


def test_a_lone_surrogate_in_a_name_that_does_not_count_does_not_count() -> None:
    params = {"sessionId": "s", "\ud83d": 1}
    assert params_of(Message("turnguard/status", 1, params)) == GetStatus("s")


def test_an_error_without_data_has_none() -> None:
    assert encode(Failure(None, ErrorObject(-32700, "x"))) == (
        b'{"id":null,"error":{"code":-32700,"message":"x"},"jsonrpc":"2.0"}'
    )
