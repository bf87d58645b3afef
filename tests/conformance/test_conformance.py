"""The guards give the recorded answers, and the runner notices when they do not."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VECTORS = Path(__file__).parent / "vectors"
PUBLIC = VECTORS / "qwen-public.jsonl.gz"
CALL_IDS = VECTORS / "qwen-call-ids-public.jsonl.gz"

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


def test_all_recorded_cases_pass_in_process() -> None:
    ran = run(PUBLIC, CALL_IDS)
    assert (last_line(ran), ran.stderr, ran.returncode) == ("2115 passed, 0 failed", "", 0)


@pytest.mark.slow
def test_all_sayable_cases_pass_through_the_daemon() -> None:
    ran = run(PUBLIC, "--through-daemon")
    said, total = ran.stdout.splitlines()[-2:]
    assert said == "said through the daemon: core 1287, daemon 459, failure_guard 83"
    assert (total, ran.returncode) == ("1829 passed, 0 failed", 0)


def test_a_sample_passes_through_the_daemon(tmp_path: Path) -> None:
    with gzip.open(PUBLIC, "rt") as cases:
        sample = write(tmp_path / "sample.jsonl", *list(cases)[::20])
    ran = run(sample, "--through-daemon")
    assert ran.returncode == 0, ran.stdout


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


@pytest.mark.parametrize(("through", "failed"), [([], 5), (["--through-daemon"], 3)])
def test_an_event_that_makes_no_sense_fails_without_a_traceback(
    tmp_path: Path, through: list[str], failed: int
) -> None:
    suites = ["core", "daemon", "failure_guard", "message", "repeat_key"]
    cases = [{**STUCK, "suite": suite, "events": [{"tool": 1}]} for suite in suites]
    ran = run(write(tmp_path / "a.jsonl", *cases), *through)
    assert (last_line(ran), ran.stderr, ran.returncode) == (f"0 passed, {failed} failed", "", 1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.jsonl")
    assert ran.returncode == 2
    assert "no such file" in ran.stderr


def test_verbose_names_every_case(tmp_path: Path) -> None:
    assert run(write(tmp_path / "a.jsonl", STUCK), "--verbose").stdout == "stuck: ok\n1 passed, 0 failed\n"
