"""What a VS Code extension contributes as `contributes.configuration`, and the setting that each property stands for.

VS Code's `get()` answers a setting that nobody touched with its default, or with null, zero or false where none is
declared; a client that passed those on would make a hard cap of what nobody asked for. So no property declares the
default of turnguard: that is in the description. What is declared is null, which turnguard reads as not set. An
extension should still send only what `inspect()` finds: `globalValue` in `settings`, and in `workspaceSettings` what a
repository can write, `workspaceValue` and `workspaceFolderValue`.
"""

from turnguard.settings.described import literal, sentence, stricter
from turnguard.settings.schema import Schema, value_schema
from turnguard.settings.table import OUR_SECTION, ROWS, Row


def contribution() -> Schema:
    """`configuration`: what goes into the extension's manifest. `names`: by property, the setting that it is."""
    properties = {property_of(row): {**_property(row), "order": order} for order, row in enumerate(ROWS)}
    return {
        "configuration": {"title": "turnguard", "properties": properties},
        "names": {property_of(row): row.name for row in ROWS},
    }


def property_of(row: Row) -> str:
    """The name of a setting in VS Code, where everything of an extension begins with its name; ours say it once."""
    return OUR_SECTION + row.name.removeprefix(OUR_SECTION)


def _property(row: Row) -> Schema:
    """A workspace may set what it can tighten; VS Code itself refuses the rest, which turnguard would ignore."""
    schema = value_schema(row.name)
    is_for_workspaces = row.tightens != "never"
    where = f"A workspace may only tighten it: {stricter(row)}." if is_for_workspaces else "A workspace cannot set it."
    choices = [True, False] if schema["type"] == "boolean" else schema.get("enum")
    return {
        **schema,
        "type": [schema["type"], "null"],
        **({} if choices is None else _choices(choices)),
        "default": None,
        "scope": "resource" if is_for_workspaces else "application",
        "markdownDescription": f"{sentence(row.description)} Default: {literal(row.default_for('serve'))}. {where}",
    }


def _choices(choices: list[bool] | list[str]) -> Schema:
    """Boxes to tick have no third state, so even true and false are a list to choose from."""
    return {"enum": [None, *choices], "enumItemLabels": ["not set", *(str(each).lower() for each in choices)]}
