"""What the commands print as JSON is what the documentation says: every field, and which of them may be absent."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
from msgspec import UNSET, Struct

from tests.commands.process import Home
from tests.headless.build import replayed, step, steps
from turnguard.headless.rows import FindingRow, TurnRow, row_of
from turnguard.transcript import Told
from turnguard_protocol.events import TurnEnded

ROOT = Path(__file__).parents[2]
HEADLESS = (ROOT / "docs/headless.md").read_text("utf-8")


def fields_of(kind: type[Struct]) -> dict[str, bool]:
    """The names on the wire, and whether they are always there."""
    return {field.encode_name: field.default is not UNSET for field in msgspec.structs.fields(kind)}


def documented(text: str) -> dict[str, bool]:
    """The names in backquotes; those that a question mark follows may be absent."""
    return {name: not mark for name, mark in re.findall(r"`([a-zA-Z]+)`(\?)?", text)}


def test_every_field_of_a_turn_is_documented() -> None:
    table = HEADLESS[HEADLESS.index("`--json` prints an object a turn") : HEADLESS.index("### Formats")]
    rows = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    assert documented(" ".join(rows)) == fields_of(TurnRow)


def test_every_field_of_a_finding_is_documented() -> None:
    start = HEADLESS.index("A finding: `call`")
    words = re.sub(r"\([^)]*\)", "", HEADLESS[start : HEADLESS.index(", as in [protocol.md]", start)])
    assert documented(words) == fields_of(FindingRow)


def lines_of(turns: Iterable[Any]) -> list[dict[str, Any]]:
    return [json.loads(msgspec.json.encode(row_of("f", "claude", turn, turn))) for turn in turns]


def test_what_is_always_there_is_there() -> None:
    stuck = steps(*(step(number, "cat x") for number in range(1, 11)))
    for row in lines_of(replayed(stuck, [], [*step(1, "ls"), Told(TurnEnded())])):
        always = {name for name, is_there in fields_of(TurnRow).items() if is_there}
        assert always <= row.keys() <= fields_of(TurnRow).keys()
        for finding in [*row["findings"], *row["compared"]]:
            always = {name for name, is_there in fields_of(FindingRow).items() if is_there}
            assert always <= finding.keys() <= fields_of(FindingRow).keys()


def test_settings_are_the_answer_of_the_protocol(home: Home) -> None:
    schema = json.loads((ROOT / "protocol/schema/turnguard.schema.json").read_text("utf-8"))
    home.write(home.user_file, "{model: {maxToolCallsPerTurn: 300}, nonsense: 1}")
    home.write(home.project_file, '{"model": {"maxToolCallsPerTurn": 500}, "turnguard": {"shadow": true}}')
    report = json.loads(home.run("settings", "--json").stdout)
    assert report["problems"]
    assert any("ignored" in value for value in report["values"])
    jsonschema.validate(report, {"$ref": "#/$defs/SettingsReport", "$defs": schema["$defs"]})
