"""The forms that lines of vector files come in, each brought to the one of `Case`.

A line whose config has `shield` is of loopShield: it names no suite, and where building the machine must fail `expect`
is `{"config_error": CODE}`. A line with `steps` is of the progress guard: a step is all calls of a model message with
their results, and nothing is fed after a halt.
"""

from typing import Any

Line = dict[str, Any]


def case_form(line: Any) -> Any:
    """A line in the form of `Case`; one that is in no known form stays as it is."""
    if not isinstance(line, dict):
        return line
    if "steps" in line:
        return progress_form(line)
    if "suite" not in line and "shield" in line.get("config", ()):
        return shield_form(line)
    return line


def shield_form(line: Line) -> Line:
    """One event of the script is one event here; a `config_error` is no expectation of any of them."""
    expect = line["expect"]
    if isinstance(expect, dict):
        return {**line, "suite": "loopshield", "expect": [], "config_error": expect["config_error"]}
    return {**line, "suite": "loopshield"}


def progress_form(line: Line) -> Line:
    """One event a step that is fed, with its verdict and the score after it."""
    expect = line["expect"]
    verdicts = dict.fromkeys(expect["warn_after_steps"], "warn") | {expect["halt_after_step"]: "halt"}
    scores = expect["scores"]
    return {
        "id": line["id"],
        "suite": line["suite"],
        "config": {},
        "events": [{"op": "step", "calls": calls} for calls in line["steps"][: len(scores)]],
        "expect": [{"verdict": verdicts.get(step), "score": score} for step, score in enumerate(scores, start=1)],
    }
