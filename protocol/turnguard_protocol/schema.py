"""The JSON Schema of the vocabulary: `python -m turnguard_protocol.schema` prints it."""

import sys
from typing import Any

import msgspec

from turnguard_protocol import PROTOCOL_VERSION
from turnguard_protocol.events import Event
from turnguard_protocol.methods import METHODS, NOTIFICATIONS, InitializationOptions, PathError, ServerCapability


def schema() -> dict[str, Any]:
    """One schema document: `$defs` holds every type; `methods` and `notifications` say which type goes where."""
    params = [method.params for method in METHODS.values()]
    results: list[Any] = [method.result for method in METHODS.values()]
    others = [Event, *NOTIFICATIONS.values(), InitializationOptions, ServerCapability, PathError]
    types = [*params, *results, *others]
    refs, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    ref_of = dict(zip(map(id, types), refs, strict=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "turnguard protocol",
        "version": PROTOCOL_VERSION,
        "methods": {
            name: {"params": ref_of[id(method.params)], "result": ref_of[id(method.result)]}
            for name, method in METHODS.items()
        },
        "notifications": {name: ref_of[id(params)] for name, params in NOTIFICATIONS.items()},
        "$defs": {**definitions, "Event": ref_of[id(Event)]},
    }


def schema_text() -> str:
    """The schema as the checked-in file holds it: indented, one newline at the end."""
    return msgspec.json.format(msgspec.json.encode(schema(), order="deterministic"), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
