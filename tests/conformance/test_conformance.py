"""The guards give the recorded answers, and the runner notices when they do not."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.suites import SUITES

ROOT = Path(__file__).parents[2]
VECTORS = Path(__file__).parent / "vectors"
PUBLIC = VECTORS / "qwen-public.jsonl.gz"
CALL_IDS = VECTORS / "qwen-call-ids-public.jsonl.gz"
OPENCLAW = VECTORS / "openclaw-public.jsonl.gz"
LOOPSHIELD = VECTORS / "loopshield-public.jsonl.gz"
PROGRESS = VECTORS / "progress-public.jsonl.gz"

STUCK: dict[str, Any] = {
    "id": "stuck",
    "suite": "core",
    "config": {},
    "events": [{"op": "call", "tool": "a", "args": {}, "times": 5}],
    "expect": [{"loop": "consecutive_identical_tool_calls", "at": 5}],
}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the runner as a person would, from the root of the repository."""
    path = os.pathsep.join([str(ROOT / "daemon"), str(ROOT / "protocol")])
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def last_line(ran: subprocess.CompletedProcess[str]) -> str:
    return ran.stdout.splitlines()[-1]


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt") as cases:
        return list(cases)


@pytest.mark.parametrize(
    ("files", "cases"), [((PUBLIC, CALL_IDS), 2115), ((OPENCLAW,), 1436), ((LOOPSHIELD,), 482), ((PROGRESS,), 500)]
)
def test_all_recorded_cases_pass_in_process(files: tuple[Path, ...], cases: int) -> None:
    ran = run(*files)
    assert (last_line(ran), ran.stderr, ran.returncode) == (f"{cases} passed, 0 failed", "", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "said", "cases"),
    [
        ((PUBLIC,), "core 1287, daemon 459, failure_guard 83", 1829),
        ((OPENCLAW,), "outcome_hash 134, post_compaction 51, rolling 650", 835),
        ((LOOPSHIELD,), "loopshield 197", 197),
        ((PROGRESS,), "progress 500", 500),
    ],
)
def test_all_sayable_cases_pass_through_the_daemon(files: tuple[Path, ...], said: str, cases: int) -> None:
    ran = run(*files, "--through-daemon")
    assert ran.stdout.splitlines()[-2:] == [f"said through the daemon: {said}", f"{cases} passed, 0 failed"]
    assert ran.returncode == 0


def test_a_sample_of_each_file_passes_through_the_daemon(tmp_path: Path) -> None:
    sample = [lines(path)[::20] for path in (PUBLIC, OPENCLAW, LOOPSHIELD, PROGRESS)]
    file = tmp_path / "sample.jsonl"
    file.write_text("".join(line for part in sample for line in part))
    ran = run(file, "--through-daemon")
    assert ran.returncode == 0, ran.stdout
    said = ran.stdout.splitlines()[-2]
    assert all(
        f"{suite} " in said for suite in ("core", "daemon", "loopshield", "post_compaction", "progress", "rolling")
    )


A_A: list[dict[str, Any]] = [{"tool": "a", "args": {}, "text": "x", "n": 3}]
WARNED: dict[str, Any] = {"enabled": True, "warningThreshold": 2}
STEP: list[dict[str, str]] = [{"tool": "a", "args": "1", "outcome": "o"}]
PLAIN: dict[str, Any] = {"states": ["s"], "initial": "s", "tools": {}, "guard": "none", "snapshot": None}
TWICE: dict[str, Any] = {**PLAIN, "shield": {"enabled": True, "max": 2}}


def stood(*, looping: bool) -> dict[str, Any]:
    """What is expected of the step after which two calls are through, or not yet."""
    loops = [{"consecutiveTools": 2, "maxAllowed": 2}] if looping else []
    return {
        "error": None,
        "state": "s",
        "count": 1 + looping,
        "looping": looping,
        "tools": [],
        "tool_choice": "none" if looping else "auto",
        "loops": loops,
        "transitions": [],
    }


RIGHT_AND_WRONG: list[tuple[dict[str, Any], Any, Any]] = [
    (
        {"suite": "rolling", "config": {"global": WARNED}, "events": A_A},
        ["ok", "ok", ["warning", "generic_repeat", 2, 0]],
        ["ok", "ok", ["warning", "generic_repeat", 2, 1]],
    ),
    (
        {"suite": "post_compaction", "config": {}, "events": [{"op": "arm"}, *A_A]},
        [["armed", 3], ["armed", 2], ["armed", 1], ["abort", 3, "a"]],
        [["armed", 3], ["armed", 2], ["armed", 1], ["abort", 2, "a"]],
    ),
    (
        {"config": TWICE, "events": [{"op": "step", "calls": ["a"]}] * 2},
        [stood(looping=False), stood(looping=True)],
        [stood(looping=False), stood(looping=False)],
    ),
    (
        {"config": {**TWICE, "initial": "t"}, "events": []},
        {"config_error": "initial_state"},
        {"config_error": "fallback_state"},
    ),
    (
        {"suite": "progress", "steps": [STEP] * 5},
        {"warn_after_steps": [4], "halt_after_step": 5, "scores": [0, 0, 1, 3, 6]},
        {"warn_after_steps": [3], "halt_after_step": 5, "scores": [0, 0, 1, 3, 6]},
    ),
]


def failed(code: str) -> dict[str, Any]:
    return {**stood(looping=False), "error": code, "count": 0}


UNRECORDED: list[dict[str, Any]] = [
    {
        "suite": "rolling",
        "config": {"global": WARNED},
        "events": [
            {**A_A[0], "n": 2},
            {"op": "set", "config": {"global": {"enabled": True}, "agent": WARNED}},
            {**A_A[0], "n": 2},
        ],
        "expect": ["ok", "ok", "ok", ["warning", "generic_repeat", 2, 0], ["warning", "generic_repeat", 3, 0]],
    },
    {
        "suite": "post_compaction",
        "config": {},
        "events": [
            {"op": "set", "config": {"global": {"postCompactionGuard": {"windowSize": 2}}}},
            {"op": "arm"},
            {**A_A[0], "n": 3},
            {"op": "new_run"},
            {"op": "arm"},
            {**A_A[0], "n": 2},
        ],
        "expect": [
            *("ok", ["armed", 3], ["armed", 2], ["armed", 1], ["abort", 3, "a"]),
            *("ok", ["armed", 2], ["armed", 1], ["abort", 2, "a"]),
        ],
    },
    {
        "config": TWICE,
        "events": [{"op": "step", "calls": ["a", "a"], "during": "nowhere"}, {"op": "step", "calls": ["a"]}],
        "expect": [failed("invalid_state"), stood(looping=False)],
    },
]
"""What no public case that the wire can say does: settings that change, and a step that fails over a move."""


@pytest.mark.parametrize("case", UNRECORDED)
@pytest.mark.parametrize("through", [[], ["--through-daemon"]])
def test_what_no_recorded_case_says(tmp_path: Path, case: dict[str, Any], through: list[str]) -> None:
    ran = run(write(tmp_path / "a.jsonl", {"id": "x", **case}), *through)
    assert (last_line(ran), ran.returncode) == ("1 passed, 0 failed", 0), ran.stdout


@pytest.mark.parametrize(("case", "right", "wrong"), RIGHT_AND_WRONG)
@pytest.mark.parametrize("through", [[], ["--through-daemon"]])
def test_a_wrong_expectation_of_each_suite_fails(
    tmp_path: Path, case: dict[str, Any], right: Any, wrong: Any, through: list[str]
) -> None:
    cases = [{"id": "right", **case, "expect": right}, {"id": "planted", **case, "expect": wrong}]
    ran = run(write(tmp_path / "a.jsonl", *cases), *through)
    assert (last_line(ran), ran.stderr, ran.returncode) == ("1 passed, 1 failed", "", 1)
    assert ran.stdout.startswith("planted: ")


def test_a_config_that_no_client_may_send_is_said_in_other_words(tmp_path: Path) -> None:
    misordered = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 1, "historySize": 0}
    case = {"id": "x", "suite": "rolling", "config": {"agent": misordered}, "events": [{**A_A[0], "n": 4}]}
    expect = ["ok", "ok", ["warning", "generic_repeat", 2, 0], ["critical", "generic_repeat", 3, 1]]
    ran = run(write(tmp_path / "a.jsonl", {**case, "expect": expect}), "--through-daemon")
    assert ran.stdout == "said through the daemon: rolling 1\n1 passed, 0 failed\n"


@pytest.mark.parametrize("through", [[], ["--through-daemon"]])
def test_a_wrong_expectation_fails(tmp_path: Path, through: list[str]) -> None:
    wrong = {**STUCK, "id": "planted", "expect": [{"loop": "consecutive_identical_tool_calls", "at": 6}]}
    ran = run(write(tmp_path / "a.jsonl", STUCK, wrong), *through)
    assert (last_line(ran), ran.returncode) == ("1 passed, 1 failed", 1)
    assert ran.stdout.startswith('planted: event 0: expected {"loop": "consecutive_identical_tool_calls", "at": 6}')


def test_a_wrong_final_count_fails(tmp_path: Path) -> None:
    ran = run(write(tmp_path / "a.jsonl", {**STUCK, "final": {"total": 3}}))
    assert (last_line(ran), ran.returncode) == ("0 passed, 1 failed", 1)
    assert 'stuck: final: expected {"total": 3}' in ran.stdout


@pytest.mark.parametrize("through", [[], ["--through-daemon"]])
def test_a_config_error_that_does_not_come_fails(tmp_path: Path, through: list[str]) -> None:
    case: dict[str, Any] = {**STUCK, "events": [], "expect": [], "config_error": True}
    fine, wrong = {**case, "config": {"max_tool_calls": 1.5}}, {**case, "config": {"max_tool_calls": 1}}
    ran = run(write(tmp_path / "a.jsonl", fine, wrong), *through)
    assert (last_line(ran), ran.returncode) == ("1 passed, 1 failed", 1)


@pytest.mark.parametrize("through", [[], ["--through-daemon"]])
def test_an_unknown_suite_fails(tmp_path: Path, through: list[str]) -> None:
    ran = run(write(tmp_path / "a.jsonl", {**STUCK, "suite": "telepathy"}), *through)
    assert (last_line(ran), ran.returncode) == ("0 passed, 1 failed", 1)
    assert "telepathy" in ran.stdout


def test_an_unknown_op_fails(tmp_path: Path) -> None:
    ran = run(write(tmp_path / "a.jsonl", {**STUCK, "events": [{"op": "dance"}]}))
    assert (last_line(ran), ran.returncode) == ("0 passed, 1 failed", 1)
    assert "unknown op 'dance'" in ran.stdout


@pytest.mark.parametrize("expect", [[], [*STUCK["expect"], None]])
def test_too_few_or_too_many_expectations_fail(tmp_path: Path, expect: list[Any]) -> None:
    ran = run(write(tmp_path / "a.jsonl", {**STUCK, "expect": expect}))
    assert (last_line(ran), ran.stderr, ran.returncode) == ("0 passed, 1 failed", "", 1)


@pytest.mark.parametrize("line", ["{", "[]", '{"id": "x"}', json.dumps({**STUCK, "expect": {}}), "[" * 100_000])
def test_a_broken_line_fails_without_a_traceback(tmp_path: Path, line: str) -> None:
    file = write(tmp_path / "a.jsonl", STUCK, line)
    ran = run(file)
    assert (last_line(ran), ran.stderr, ran.returncode) == ("1 passed, 1 failed", "", 1)
    assert ran.stdout.startswith(f"{file}:2: not a vector: ")


def test_a_file_that_ends_too_early_fails_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(STUCK).encode())[:-12])
    ran = run(file)
    assert (last_line(ran).split(", ")[1], ran.stderr, ran.returncode) == ("1 failed", "", 1)


@pytest.mark.parametrize(("through", "failed"), [([], 10), (["--through-daemon"], 8)])
def test_an_event_that_makes_no_sense_fails_without_a_traceback(
    tmp_path: Path, through: list[str], failed: int
) -> None:
    cases = [{**STUCK, "suite": suite, "events": [{"tool": 1}]} for suite in SUITES]
    ran = run(write(tmp_path / "a.jsonl", *cases), *through)
    assert (last_line(ran), ran.stderr, ran.returncode) == (f"0 passed, {failed} failed", "", 1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.jsonl")
    assert ran.returncode == 2
    assert "no such file" in ran.stderr


def test_verbose_names_every_case(tmp_path: Path) -> None:
    assert run(write(tmp_path / "a.jsonl", STUCK), "--verbose").stdout == "stuck: ok\n1 passed, 0 failed\n"
