"""The vocabulary on the wire: the checked-in schema, both forms of every event, and errors that name the path."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct

import turnguard_protocol
from turnguard_protocol.events import Event
from turnguard_protocol.methods import METHODS, OpenSession, Override, Record
from turnguard_protocol.schema import schema, schema_text

SCHEMA_FILE = Path(__file__).parents[2] / "protocol/schema/turnguard.schema.json"

RAW_FORM = [
    '{"type":"turnStarted"}',
    '{"type":"turnStarted","turnId":"t1","origin":"cron"}',
    '{"type":"toolCalls","calls":[]}',
    '{"type":"toolCalls","calls":[{"name":null},{"name":"edit","id":"c1","args":{"a":[1,null]},"hint":"create"}]}',
    '{"type":"toolCalls","calls":[{"name":"edit","args":null,"fidelity":"low"}],"runId":"r1"}',
    '{"type":"toolResults","results":[{"id":"c1","output":null,"ok":true},{"name":"edit","args":{},"error":"no"}]}',
    '{"type":"toolResults","results":[{"id":"c2","errorType":"denied","status":"notStarted","duplicate":true}]}',
    '{"type":"toolResults","results":[],"runId":null}',
    '{"type":"callRekeyed","id":"c1","args":{"path":"a"}}',
    '{"type":"callRekeyed","id":"c1","name":"edit","args":null,"fidelity":"low","hint":"create"}',
    '{"type":"text","delta":"Done."}',
    '{"type":"thought","subject":"Plan","description":"Look again."}',
    '{"type":"stepFinished"}',
    '{"type":"retry"}',
    '{"type":"retry","continuation":true}',
    '{"type":"fallback"}',
    '{"type":"compacted"}',
    '{"type":"stateChanged","state":"plan"}',
    '{"type":"userInput"}',
    '{"type":"userInput","queued":true}',
    '{"type":"turnEnded"}',
    '{"type":"turnEnded","outcome":"cancelled"}',
]

IDENTIFIED_FORM = [
    '{"type":"toolCalls","calls":[{"name":"edit","key":"k1"},{"name":"edit","key":{"turn":"t","rolling":"r"}}]}',
    '{"type":"toolCalls","calls":[{"name":"read","key":{"turn":"t"},"facts":{"readLike":true,"poll":true}}]}',
    '{"type":"toolCalls","calls":[{"name":"run","key":"k","facts":{"gitOverview":true}}]}',
    '{"type":"toolCalls","calls":[{"name":"tool_call","key":"k","facts":{"target":{"name":"edit","key":"k2"}}}]}',
    '{"type":"toolResults","results":[{"name":"edit","key":"k1","outcome":"o1","ok":false,"status":"unknown"}]}',
    '{"type":"toolResults","results":[{"id":"c1","outcome":{"read":"a","rolling":"b","progress":"c"}}]}',
    '{"type":"toolResults","results":[{"id":"c1","outcome":{},"facts":{"unknownTool":"edti"}}]}',
    '{"type":"callRekeyed","id":"c1","key":"k1"}',
    '{"type":"callRekeyed","id":"c1","name":"run","key":{"turn":"t","rolling":"r"},"facts":{"poll":true}}',
    '{"type":"text","length":5}',
    '{"type":"thought","length":12}',
]


def vocabulary() -> set[str]:
    """The names of the Structs that travel: the leaves of turnguard_protocol, without what is only in force."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(turnguard_protocol.__path__, "turnguard_protocol."):
        for name, thing in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            is_leaf = issubclass(thing, Struct) and not thing.__subclasses__() and thing is not Struct
            if is_leaf and not name.endswith("InForce"):
                names.add(name)
    return names


def test_the_checked_in_schema_is_the_one_that_is_printed() -> None:
    assert SCHEMA_FILE.read_text("utf-8") == schema_text()


def test_every_struct_is_in_the_schema() -> None:
    assert len(vocabulary()) > 30
    assert vocabulary() <= set(schema()["$defs"])


def test_every_method_has_its_params_and_result() -> None:
    assert schema()["methods"].keys() == METHODS.keys()
    assert schema()["methods"]["turnguard/record"] == {
        "params": {"$ref": "#/$defs/Record"},
        "result": {"$ref": "#/$defs/Verdict"},
    }


def test_field_names_are_camel_case() -> None:
    names = {name for definition in schema()["$defs"].values() for name in definition.get("properties", {})}
    assert {"sessionId", "maxToolCallsPerTurn", "keyDigest"} <= names
    assert not {name for name in names if "_" in name}


@pytest.mark.parametrize("text", RAW_FORM + IDENTIFIED_FORM)
def test_an_event_comes_back_as_it_was_sent(text: str) -> None:
    event = msgspec.json.decode(text, type=Event)
    assert msgspec.json.decode(msgspec.json.encode(event)) == msgspec.json.decode(text)
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@pytest.mark.parametrize("form", [RAW_FORM, [*RAW_FORM, *IDENTIFIED_FORM]])
def test_every_event_is_among_the_examples(form: list[str]) -> None:
    kinds = {type(msgspec.json.decode(text, type=Event)) for text in form}
    assert kinds == set(get_args(Event))


def test_presence_has_meaning() -> None:
    text = '{"type":"toolResults","results":[{"id":"a","output":null},{"id":"b"}]}'
    assert msgspec.json.encode(msgspec.json.decode(text, type=Event)).decode() == text


def test_unknown_fields_are_ignored_in_requests_and_refused_in_settings() -> None:
    assert msgspec.json.decode('{"sessionId":"s","events":[],"later":1}', type=Record) == Record("s", [])
    with pytest.raises(msgspec.ValidationError, match=r"unknown field `maxCalls` - at `\$\.settings\.model`"):
        msgspec.json.decode('{"settings":{"model":{"maxCalls":1}}}', type=OpenSession)


def test_null_in_settings_is_not_set() -> None:
    text = '{"settings":{"model":{"maxToolCallsPerTurn":null},"turnguard":null}}'
    settings = msgspec.json.decode(text, type=OpenSession).settings
    assert settings is not None
    assert settings.model is not None
    assert settings.model.max_tool_calls_per_turn is settings.turnguard is None


RECORD = '{"sessionId":"s","events":[%s]}'
CALLS = '{"type":"toolCalls","calls":[{"name":"a"},%s]}'
RESULTS = '{"type":"toolResults","results":[%s]}'
MODEL = '{"settings":{"model":{"%s":%s}}}'


@pytest.mark.parametrize(
    ("params", "text", "message"),
    [
        (Record, RECORD % CALLS % '{"name":5}', "Expected `str | null`, got `int` - at `$.events[0].calls[1].name`"),
        (Record, RECORD % CALLS % "{}", "missing required field `name` - at `$.events[0].calls[1]`"),
        (Record, RECORD % CALLS % '{"name":"a","key":"k","args":1}', "not both - at `$.events[0].calls[1]`"),
        (Record, RECORD % CALLS % '{"name":"a","fidelity":"high"}', "'high' - at `$.events[0].calls[1].fidelity`"),
        (Record, RECORD % RESULTS % '{"outcome":"o","output":1}', "not both - at `$.events[0].results[0]`"),
        (Record, RECORD % RESULTS % '{"ok":"yes"}', "got `str` - at `$.events[0].results[0].ok`"),
        (Record, RECORD % '{"type":"callRekeyed","key":"k"}', "missing required field `id` - at `$.events[0]`"),
        (Record, RECORD % '{"type":"callRekeyed","id":"c"}', "Expected either `args` or `key` - at `$.events[0]`"),
        (Record, RECORD % '{"type":"callRekeyed","id":"c","key":"k","args":1}', "or `key` - at `$.events[0]`"),
        (Record, RECORD % '{"type":"nope"}', "Invalid value 'nope' - at `$.events[0].type`"),
        (Record, '{"events":[]}', "missing required field `sessionId`"),
        (OpenSession, MODEL % ("maxToolCallsPerTurn", '"100"'), "at `$.settings.model.maxToolCallsPerTurn`"),
        (OpenSession, MODEL % ("maxToolCallsPerTurn", "1.5"), "at `$.settings.model.maxToolCallsPerTurn`"),
        (OpenSession, MODEL % ("maxToolCallsPerTurn", "true"), "at `$.settings.model.maxToolCallsPerTurn`"),
        (OpenSession, MODEL % ("skipLoopDetection", "0"), "at `$.settings.model.skipLoopDetection`"),
        (
            OpenSession,
            '{"settings":{"turnguard":{"turnGuard":"both"}}}',
            "'both' - at `$.settings.turnguard.turnGuard`",
        ),
        (Override, '{"sessionId":"s","action":"stop"}', "Invalid enum value 'stop' - at `$.action`"),
        (Override, '{"sessionId":"s","action":"raiseCap","calls":0}', "Expected `int` >= 1 - at `$.calls`"),
    ],
)
def test_what_does_not_fit_is_named(params: Any, text: str, message: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(text, type=params)
    assert message in str(error.value)
