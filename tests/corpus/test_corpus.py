"""`python -m tests.corpus` over turns made by hand, through the real daemon."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.play import Played
from tests.corpus.turns import RecordedCall, RecordedTurn, read_turns

Step = list[dict[str, str]]


def call(args: object, tool: str = "edit", **more: str) -> dict[str, str]:
    return {"tool": tool, "args": str(args), "result_normalised": f"result of {args}", **more}


def singles(*args: object) -> list[Step]:
    return [[call(each)] for each in args]


def turn(turn_id: str, label: str, steps: list[Step], **more: Any) -> dict[str, Any]:
    return {"id": turn_id, "label": label, "steps": steps, "calls": sum(map(len, steps)), **more}


TURNS = [
    turn("long", "productive", singles(*range(110))),
    turn("batches", "productive", [[call(n), call(-n)] for n in range(1, 48)] + [[call(n) for n in range(100, 110)]]),
    turn("row", "stuck", singles(1, 2, *"xxxxxxx"), stuck_from=5),
    turn("spread", "stuck", singles(*(n if n % 2 else "x" for n in range(1, 20))), stuck_from=8),
    turn("late", "stuck", singles(*"xxxxx", *range(1, 97), "x", "y"), stuck_from=90, recovered=True),
    turn("two tools", "unclear", [[call("x", tool)] for tool in ("edit", "view") * 5]),
    turn("unknown results", "unreviewed", [[{"tool": "view", "args": "1"}], [call(2, status="failed", hint="create")]]),
]

HALTS = {
    "adaptive": {"late": (102, "turn_tool_call_cap")},
    "explicit 100": {
        "long": (101, "turn_tool_call_cap"),
        "batches": (95, "turn_tool_call_cap"),
        "late": (101, "turn_tool_call_cap"),
    },
    "identical 5": {
        "row": (7, "consecutive_identical_tool_calls"),
        "late": (5, "consecutive_identical_tool_calls"),
    },
    "duplicate 6": {
        "row": (8, "global_tool_call_duplicate"),
        "spread": (12, "global_tool_call_duplicate"),
        "late": (102, "global_tool_call_duplicate"),
    },
    "progress": {
        "row": (8, "no_new_evidence"),
        "spread": (13, "no_new_evidence"),
        "late": (6, "no_new_evidence"),
        "two tools": (9, "no_new_evidence"),
    },
}

WARNED_AT = {"progress": {"row": 7, "spread": 11, "late": 5, "two tools": 8}}
"""After the step that came to 3 points; the one that came to 6 halts. Each equal call gives one more from the third on,
a new one takes one off."""

ROWS = """
explicit 100         2 productive       2       0         98
                     2 stuck            0       0          -     8.5      17
                     1 recovered        1       0        101
                     1 unreviewed       0       0          -
                     1 unclear          0       0          -
"""


PROGRESS_ROWS = """
progress             2 productive       0       0          -
                     2 stuck            2       2       10.5       4       8
                     1 recovered        1       1          6
                     1 unreviewed       0       0          -
                     1 unclear          1       1          9
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "turns.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(turn) + "\n" for turn in TURNS).encode()))
    return file


def run(path: Path, *options: str) -> str:
    arguments = [sys.executable, "-m", "tests.corpus", str(path), *options]
    root = Path(__file__).parents[2]
    return subprocess.run(arguments, cwd=root, capture_output=True, text=True, timeout=120, check=True).stdout


def test_every_setting_halts_where_it_should(path: Path) -> None:
    objects = [json.loads(line) for line in run(path, "--json").splitlines()]
    assert [(each["setting"], each["id"]) for each in objects] == [
        (name, turn["id"]) for name in HALTS for turn in TURNS
    ]
    for each in objects:
        halt = HALTS[each["setting"]].get(each["id"], (None, None))
        warned_at = WARNED_AT.get(each["setting"], {}).get(each["id"])
        assert (each["halt_at"], each["loop_type"], each["warn_at"]) == (*halt, warned_at)
    assert [each["label"] for each in objects[:5]] == ["productive", "productive", "stuck", "stuck", "recovered"]


def test_replay_says_the_same(path: Path) -> None:
    assert run(path, "--json", "--replay") == run(path, "--json")


def test_the_table(path: Path) -> None:
    output = run(path, "--only", "explicit 100")
    assert output.startswith("7 turns.")
    assert ROWS.strip() in output
    assert "adaptive" not in output


def test_the_table_counts_warned_turns(path: Path) -> None:
    assert PROGRESS_ROWS.strip() in run(path, "--only", "progress")


def test_a_plain_file_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text(json.dumps(TURNS[4]) + "\n\n", "utf-8")
    (read,) = read_turns(file)
    assert (read.group, read.calls, read.steps[0]) == ("recovered", 103, [RecordedCall("edit", "x", "result of x")])


def recorded(label: str, *, recovered: bool = False) -> RecordedTurn:
    return RecordedTurn("t", label, [[RecordedCall("edit", "x")]] * 10, stuck_from=4, recovered=recovered)


@pytest.mark.parametrize(
    ("played", "counts"),
    [
        (Played("s", recorded("stuck"), halt_at=10), True),
        (Played("s", recorded("stuck"), halt_at=11), True),
        (Played("s", recorded("stuck", recovered=True), halt_at=10), True),
        (Played("s", recorded("stuck", recovered=True), halt_at=11), False),
        (Played("s", recorded("productive"), halt_at=11), False),
        (Played("s", recorded("stuck")), False),
    ],
)
def test_a_halt_after_the_last_call_counts_only_for_a_stuck_turn(played: Played, counts: bool) -> None:
    assert played.is_halted is counts


def test_what_was_wasted_is_counted_from_where_a_person_would_have_stopped() -> None:
    turns: Iterable[Played] = (Played("s", recorded("stuck"), halt_at=at) for at in (2, 4, 6, 11, None))
    assert [each.wasted for each in turns] == [0, 0, 2, 7, 7]
