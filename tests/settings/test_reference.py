"""What is generated from the table: the checked-in files are it, and the schema and the daemon's reader agree."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from turnguard.settings import reference
from turnguard.settings.described import default_of, stricter
from turnguard.settings.files import read_file
from turnguard.settings.schema import Schema, settings_schema
from turnguard.settings.table import BY_NAME, ROWS, is_stricter, type_of
from turnguard.settings.vscode import contribution
from turnguard_protocol.settings import Settings

ROOT = Path(__file__).parents[2]
CHECKED_IN = {
    "schema": "protocol/schema/settings.schema.json",
    "vscode": "protocol/schema/vscode-configuration.json",
    "page": "docs/settings.md",
}

SCHEMA = settings_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
PROPERTIES: dict[str, Schema] = contribution()["configuration"]["properties"]


def fields(kind: Any = Settings, prefix: str = "") -> Iterator[str]:
    """The dotted names of everything that can be set."""
    for field in msgspec.structs.fields(kind):
        name = prefix + field.encode_name
        sections = [each for each in getattr(field.type, "__args__", ()) if isinstance(each, type)]
        inner = [each for each in sections if issubclass(each, msgspec.Struct)]
        if inner:
            yield from fields(inner[0], f"{name}.")
        else:
            yield name


def nested(name: str, value: object) -> dict[str, Any]:
    """A file that sets one setting."""
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def at(name: str) -> Schema:
    """What the schema says of one setting."""
    schema = SCHEMA
    for part in name.split("."):
        schema = schema["properties"][part]
    return schema


def test_every_setting_has_exactly_one_row() -> None:
    assert [row.name for row in ROWS] == list(fields())


@pytest.mark.parametrize("part", CHECKED_IN)
def test_the_checked_in_file_is_what_is_generated(part: str) -> None:
    text = (ROOT / CHECKED_IN[part]).read_text("utf-8")
    if part == "page":
        assert reference.with_page(text) == text
    else:
        assert reference.PARTS[part]() == text


@pytest.mark.parametrize("part", CHECKED_IN)
def test_the_command_prints_a_part_or_writes_it(part: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnguard.settings.reference", part]
    printed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert printed == reference.PARTS[part]()
    file = tmp_path / "file"
    file.write_text(f"# Before\n{reference.BEGIN}\nold\n{reference.END}\nafter\n")
    subprocess.run([*command, str(file)], check=True)
    assert file.read_text("utf-8") == (f"# Before\n{printed}after\n" if part == "page" else printed)


@pytest.mark.parametrize(
    "text",
    ["", reference.BEGIN, f"{reference.END}\n{reference.BEGIN}\n", reference.page_text() + reference.page_text()],
)
def test_a_page_without_its_two_marks_is_left_alone(text: str) -> None:
    with pytest.raises(ValueError, match="Expected one line"):
        reference.with_page(text)


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for schema in PROPERTIES.values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_schema_has_the_default_the_bounds_and_the_words_of_each_setting(name: str) -> None:
    row, schema = BY_NAME[name], at(name)
    assert row.description[1:] in schema["description"]
    if row.by_face or row.default is None:
        assert "default" not in schema
        assert default_of(row) in schema["description"]
    else:
        assert schema["default"] == row.default
        assert VALIDATOR.is_valid(nested(name, row.default))
    if row.words:
        assert schema["enum"] == list(row.words)
    assert not VALIDATOR.is_valid(nested(name, None))


def test_what_differs_by_face_is_told_for_each() -> None:
    assert default_of(BY_NAME["turnguard.progress.action"]) == '`"warn"`; `"halt"` in acp, exec, hook and replay'
    assert default_of(BY_NAME["model.maxToolCallsPerTurn"]) == "not set"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_page_has_an_entry_for_each_setting(row: Any) -> None:
    entry = reference.page_text().partition(f"### `{row.name}`\n")[2].partition("\n#")[0]
    assert row.description[1:] in entry
    assert f"- default: {default_of(row)}\n" in entry
    assert f"- stricter: {stricter(row)}\n" in entry
    assert f"`{row.variable}`" in entry


def test_what_is_stricter_is_told_as_the_rule_has_it() -> None:
    cap = BY_NAME["model.maxToolCallsPerTurn"]
    assert stricter(cap) == (
        "1 or more, and at most what is in force (100 while none is set; any while that is 0 or less)"
    )
    assert [value for value in (0, 1, 100, 101) if is_stricter(cap, value, None)] == [1, 100]
    assert is_stricter(cap, 101, 0)
    assert stricter(BY_NAME["turnguard.maxStepsPerTurn"]) == "a lower number, or any while none is set"
    assert stricter(BY_NAME["turnguard.progress.action"]) == 'a later one of `"off"`, `"warn"` and `"halt"`'
    assert stricter(BY_NAME["agents.list"]) == "nothing is"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.maxToolCallsPerTurn", "an integer"),
        ("turnguard.maxStepsPerTurn", "an integer of 1 or more"),
        ("loopShield.enabled", "`true` or `false`"),
        ("loopShield.fallbackState", "a string that is not empty"),
        ("loopShield.states", "an object; for each name: a list; each entry: a string"),
        ("agents.list", "a list; each entry: an object of `id` and `tools`"),
    ],
)
def test_what_a_setting_takes_is_told(name: str, words: str) -> None:
    assert reference.takes(at(name)) == words


def test_no_property_of_vscode_says_its_name_twice_or_stands_for_two_settings() -> None:
    names = contribution()["names"]
    assert list(names) == list(PROPERTIES)
    assert list(names.values()) == list(BY_NAME)
    assert all(name.startswith("turnguard.") and not name.startswith("turnguard.turnguard.") for name in names)
    assert names["turnguard.model.maxToolCallsPerTurn"] == "model.maxToolCallsPerTurn"
    assert names["turnguard.progress.action"] == "turnguard.progress.action"
    assert not any(other.startswith(f"{name}.") for name in names for other in names)


@pytest.mark.parametrize("name", PROPERTIES)
def test_what_vscode_answers_for_what_nobody_set_is_not_set(name: str) -> None:
    """A property without a default would answer zero or false, and one with ours a hard cap."""
    schema, setting = PROPERTIES[name], contribution()["names"][name]
    assert "default" in schema
    assert schema["default"] is None
    assert Draft202012Validator(schema).is_valid(None)
    assert msgspec.convert(nested(setting, schema["default"]), Settings) is not None
    default = BY_NAME[setting].default
    assert (f"`{json.dumps(default)}`" if default is not None else "not set") in schema["markdownDescription"]
    assert Draft202012Validator(schema).is_valid(default)
    assert len(schema.get("enumItemLabels", ())) == len(schema.get("enum", ()))


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_workspace_is_offered_only_what_it_can_tighten(name: str) -> None:
    row = BY_NAME[contribution()["names"][name]]
    assert PROPERTIES[name]["scope"] == ("application" if row.tightens == "never" else "resource")


GOOD = [
    "{}",
    '{"$schema": "./settings.schema.json", "model": {}}',
    '{"model": {"maxToolCallsPerTurn": -1, "skipLoopDetection": false}}',
    '{"agents": {"list": []}}',
    '{"agents": {"list": [{"id": "a"}, {"id": "b", "tools": {"loopDetection": {"detectors": {"pingPong": false}}}}]}}',
    '{"loopShield": {"states": {"plan": [], "do": ["edit", ""]}, "fallbackState": "plan"}}',
    '{"turnguard": {"maxBlocksPerTurn": 0, "progress": {"action": "halt"}}}',
]

BAD = [
    "[]",
    '{"$schema": 1}',
    '{"modle": {}}',
    '{"model": null}',
    '{"model": 1}',
    '{"model": {"$schema": ""}}',
    '{"model": {"maxToolCallsPerTurn": null}}',
    '{"model": {"maxToolCallsPerTurn": "5"}}',
    '{"model": {"maxToolCallsPerTurn": 1.5}}',
    '{"model": {"maxToolCallsPerTurn": 9007199254740992}}',
    '{"model": {"skipLoopDetection": 0}}',
    '{"tools": {"loopDetection": {"warningThreshold": 0}}}',
    '{"tools": {"loopDetection": {"postCompactionGuard": {"windowSize": true}}}}',
    '{"agents": {"list": {}}}',
    '{"agents": {"list": [1]}}',
    '{"agents": {"list": [{}]}}',
    '{"agents": {"list": [{"id": ""}]}}',
    '{"agents": {"list": [{"id": "a", "model": {}}]}}',
    '{"agents": {"list": [{"id": "a", "tools": {"loopDetection": {"historySize": "a"}}}]}}',
    '{"loopShield": {"mode": "Repeated"}}',
    '{"loopShield": {"fallbackState": ""}}',
    '{"loopShield": {"states": {"": []}}}',
    '{"loopShield": {"states": {"a": ["edit", 1]}}}',
    '{"loopShield": {"states": {"a": null}}}',
    '{"turnguard": {"maxBlocksPerTurn": -1}}',
    '{"turnguard": {"progress": "halt"}}',
    '{"turnguard": {"progress": {"action": "stop"}}}',
]


@pytest.mark.parametrize(("text", "is_good"), [*((text, True) for text in GOOD), *((text, False) for text in BAD)])
def test_the_schema_and_the_reader_say_the_same(text: str, is_good: bool, tmp_path: Path) -> None:
    assert VALIDATOR.is_valid(json.loads(text)) is is_good
    file = tmp_path / "settings.json"
    file.write_text(text, "utf-8")
    reading = read_file(file, "user")
    assert (not reading.problems) is is_good, reading.problems


WRONG: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(0.1, 0.9), st.sampled_from(["", "batch", "é"]), st.just([])
)


def documents(schema: Schema) -> st.SearchStrategy[Any]:
    """What fits a schema or nearly does."""
    match schema:
        case {"enum": words}:
            fitting: st.SearchStrategy[Any] = st.sampled_from(words)
        case {"type": "boolean"}:
            fitting = st.booleans()
        case {"type": "integer", "minimum": low, "maximum": high}:
            fitting = st.sampled_from([low - 1, low, 0, 5, 5.0, high, high + 1])
        case {"type": "string"}:
            fitting = st.sampled_from(["", "a", "plan"])
        case {"type": "array", "items": items}:
            fitting = st.lists(documents(items), max_size=2)
        case {"type": "object", "properties": properties}:
            known = {name: documents(each) for name, each in properties.items()}
            unknown = {"maxCalls": WRONG} if "maxToolCallsPerTurn" in properties else {}
            needed = schema.get("required", [])
            fitting = st.fixed_dictionaries(
                {name: known[name] for name in needed},
                optional={name: each for name, each in {**known, **unknown}.items() if name not in needed},
            )
        case {"type": "object", "additionalProperties": values}:
            fitting = st.dictionaries(st.sampled_from(["", "plan", "do"]), documents(values), max_size=2)
        case _:
            raise AssertionError(schema)
    return st.one_of(fitting, fitting, fitting, fitting, WRONG)


def is_in_order(document: Any) -> bool:
    """Whether every block has its thresholds in order, which a JSON Schema cannot say."""
    if isinstance(document, list):
        return all(map(is_in_order, document))
    if not isinstance(document, dict):
        return True
    numbers = [
        document.get(name) for name in ("warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold")
    ]
    given = [number for number in numbers if isinstance(number, int)]
    return sorted(set(given)) == given and all(map(is_in_order, document.values()))


@given(document=documents(SCHEMA))
def test_the_schema_and_the_reader_say_the_same_of_any_document(
    document: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "generated.json"
    file.write_text(json.dumps(document), "utf-8")
    reading = read_file(file, "user")
    if VALIDATOR.is_valid(document) and is_in_order(document):
        assert reading.problems == []
    if not VALIDATOR.is_valid(document):
        assert reading.problems != []
    if isinstance(document, dict) and not reading.problems:
        for name in reading.values:
            assert name in BY_NAME
            assert msgspec.convert(reading.values[name], type_of(name)) is not None
