"""The JSON Schema of settings files, from the table and the types: editors complete and check with it.

It is stricter than what a client may send in one way: a file that wants a setting unset leaves it out, so there is no
null. It cannot say that thresholds are in order and that a key comes once; the daemon's reader does.
"""

from typing import Any

import msgspec
from msgspec import inspect

from turnguard.settings.described import default_of, sentence
from turnguard.settings.table import BY_NAME, Row, Value, type_of
from turnguard_protocol.settings import Settings

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""

_AGENT_ID = "the `agentId` of the sessions in which the rest of this entry holds"


def settings_schema() -> Schema:
    """The schema of a whole settings file, draft 2020-12."""
    sections = _schema(inspect.type_info(Settings), "")
    pointer = {"type": "string", "description": "Where an editor finds this schema."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "turnguard settings",
        "allowComments": True,
        "allowTrailingCommas": True,
        **sections,
        "properties": {"$schema": pointer, **sections["properties"]},
    }


def value_schema(name: str) -> Schema:
    """The schema of one setting's value, by the setting's dotted name, without description and default."""
    return _bare(inspect.type_info(type_of(name)), name)


def indented(document: Value) -> str:
    """A document as checked-in files hold it: indented, in the order of the table, one newline at the end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _schema(kind: inspect.Type, name: str) -> Schema:
    bare = _bare(kind, name)
    if name == "id":
        return {**bare, "description": sentence(_AGENT_ID)}
    row = BY_NAME.get(name)
    return bare if row is None else {**bare, **_described(row)}


def _described(row: Row) -> Schema:
    """What an editor shows. A default that differs by face is in words only: an editor would insert one of them."""
    if row.by_face or row.default is None:
        return {"description": f"{sentence(row.description)} Default: {default_of(row)}."}
    return {"description": sentence(row.description), "default": row.default}


def _bare(kind: inspect.Type, name: str) -> Schema:
    match kind:
        case inspect.UnionType(types=kinds):
            (kind,) = (each for each in kinds if not isinstance(each, inspect.NoneType))
            return _bare(kind, name)
        case inspect.StructType():
            return _object(kind, name)
        case inspect.ListType(item_type=item):
            return {"type": "array", "items": _schema(item, "")}
        case inspect.DictType(key_type=key, value_type=value):
            return {"type": "object", "propertyNames": _bare(key, ""), "additionalProperties": _bare(value, "")}
        case inspect.LiteralType(values=words):
            return {"type": "string", "enum": list(BY_NAME[name].words or words)}
        case inspect.IntType(ge=minimum, le=maximum):
            return {"type": "integer", "minimum": minimum, "maximum": maximum}
        case inspect.StrType(min_length=length):
            return {"type": "string"} if length is None else {"type": "string", "minLength": length}
        case inspect.BoolType():
            return {"type": "boolean"}
        case _:
            raise TypeError(f"{name}: no schema is known for {kind}")


def _object(kind: inspect.StructType, name: str) -> Schema:
    prefix = f"{name}." if name else ""
    properties = {field.encode_name: _schema(field.type, prefix + field.encode_name) for field in kind.fields}
    required = [field.encode_name for field in kind.fields if field.required]
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": required} if required else schema
