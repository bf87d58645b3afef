"""The numbers: what the sources say they are, and that each has one home."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnguard.core import thresholds

CORE = Path(thresholds.__file__).parent

NUMBERS: dict[str, float] = {
    "DEFAULT_MAX_TOOL_CALLS_PER_TURN": 100,
    "ADAPTIVE_CAP_HARD_MULTIPLIER": 10,
    "GLOBAL_DUPLICATE_THRESHOLD": 6,
    "TOOL_CALL_LOOP_THRESHOLD": 5,
    "SHELL_COMMAND_STAGNATION_THRESHOLD": 8,
    "ALTERNATING_PATTERN_CYCLES": 3,
    "READ_FILE_LOOP_THRESHOLD": 8,
    "READ_FILE_LOOP_WINDOW": 15,
    "ACTION_STAGNATION_THRESHOLD": 8,
    "CONTENT_CHUNK_SIZE": 50,
    "CONTENT_LOOP_THRESHOLD": 10,
    "CONTENT_LOOP_MAX_AVERAGE_DISTANCE": 75,
    "CONTENT_ANALYSIS_LENGTH": 4000,
    "MAX_HISTORY_LENGTH": 5000,
    "PERIODIC_RUN_THRESHOLD": 5,
    "PERIODIC_RUN_MIN_SPAN": 1000,
    "PERIODIC_RUN_THRESHOLD_FULL_HISTORY": 3,
    "THOUGHT_REPEAT_THRESHOLD": 3,
    "THOUGHT_DESCRIPTION_LENGTH": 200,
    "MAX_PENDING_STATEFUL_READS": 500,
    "INVALID_TOOL_PARAMS_THRESHOLD": 3,
    "REPEATED_FAILURE_MIN_FAILURES": 8,
    "REPEATED_FAILURE_MIN_BATCHES": 2,
}

THRESHOLDS = {name: value for name, value in vars(thresholds).items() if name.isupper()}

LOOKED_FOR = {number for number in THRESHOLDS.values() if number > 2}
"""2 stands for a pair in too many places to be looked for."""

OTHER_MEANINGS = {
    ("javascript.py", 6): "decimal places before JavaScript writes an exponent",
    ("masking.py", 8): "hex digits at the beginning of a UUID",
    ("turn/text.py", 10): "the code of a newline",
}
"""Literals in the core that equal a threshold and are none."""


def homes() -> Iterator[Path]:
    """The modules of the core that must not hold a threshold."""
    yield from (path for path in sorted(CORE.rglob("*.py")) if path.name not in {"thresholds.py", "bounds.py"})


def numbers_in(source: str) -> Iterator[float]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield node.value


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_qwen_code_are_those_of_its_sources(name: str) -> None:
    assert THRESHOLDS[name] == NUMBERS[name]


@pytest.mark.parametrize("path", list(homes()), ids=lambda path: path.relative_to(CORE).as_posix())
def test_no_threshold_has_a_second_copy(path: Path) -> None:
    name = path.relative_to(CORE).as_posix()
    found = {number for number in numbers_in(path.read_text("utf-8")) if number in LOOKED_FOR}
    assert found <= {number for module, number in OTHER_MEANINGS if module == name}


def test_a_planted_copy_is_found() -> None:
    planted = "def check(times):\n    return 6 <= times < 1_000 - 7"
    assert LOOKED_FOR.intersection(numbers_in(planted)) == {6, 1000}
