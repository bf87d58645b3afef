"""Variables and assignments: what they set, how values are written, and what is wrong with them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.settings.files import describe
from turnguard.settings.given import BY_VARIABLE, MAX_GIVEN_CHARACTERS, Given, read_assignments, read_environment
from turnguard.settings.table import BY_NAME, ROWS, type_of

WRITTEN = [
    ("model.maxToolCallsPerTurn", "50", 50),
    ("model.maxToolCallsPerTurn", "-1", -1),
    ("model.maxToolCallsPerTurn", "+0", 0),
    ("model.maxToolCallsPerTurn", " 7 ", 7),
    ("model.skipLoopDetection", "false", False),
    ("turnguard.shadow", "true", True),
    ("turnguard.repeatedFailures", "warn", "warn"),
    ("loopShield.fallbackState", "plan=b", "plan=b"),
    ("loopShield.fallbackState", "true", "true"),
    ("loopShield.fallbackState", "5", "5"),
    ("loopShield.states", "{plan: ['read'], act: [],}", {"plan": ["read"], "act": []}),
    ("agents.list", '[{"id": "a"}]', [{"id": "a"}]),
    ("agents.list", "[]", []),
]

WRONG = [
    ("model.maxToolCallsPerTurn", "many", '$.model.maxToolCallsPerTurn is "many"; expected an integer'),
    ("model.maxToolCallsPerTurn", "5.0", '$.model.maxToolCallsPerTurn is "5.0"; expected an integer'),
    ("model.maxToolCallsPerTurn", "1_0", '$.model.maxToolCallsPerTurn is "1_0"; expected an integer'),
    ("model.maxToolCallsPerTurn", "null", '$.model.maxToolCallsPerTurn is "null"; expected an integer'),
    (
        "model.maxToolCallsPerTurn",
        "9007199254740992",
        "$.model.maxToolCallsPerTurn is 9007199254740992; expected an integer, and of 9007199254740991 or less",
    ),
    ("turnguard.maxStepsPerTurn", "0", "$.turnguard.maxStepsPerTurn is 0; expected an integer of 1 or more"),
    ("turnguard.shadow", "1", '$.turnguard.shadow is "1"; expected true or false'),
    ("turnguard.shadow", "True", '$.turnguard.shadow is "True"; expected true or false'),
    ("turnguard.progress.action", "stop", '$.turnguard.progress.action is "stop"; expected "off", "warn" or "halt"'),
    ("agents.list", "{", "$.agents.list: expected a list in JSON5: expected a name, found the end"),
    ("agents.list", "// none", '$.agents.list is "// none"; expected a list'),
    ("agents.list", "null", "$.agents.list is null; leave it out where it should not be set"),
    ("loopShield.states", "{a: [5]}", "$.loopShield.states.a[0] is 5; expected a string"),
    (
        "loopShield.fallbackState",
        "x" * (MAX_GIVEN_CHARACTERS + 1),
        "$.loopShield.fallbackState: expected at most 65536 characters",
    ),
]


def lines(given: Given) -> list[str]:
    return list(map(describe, given.problems))


@pytest.mark.parametrize(("name", "text", "value"), WRITTEN)
def test_what_is_written_is_set(name: str, text: str, value: Any) -> None:
    for given_values in (read_environment({BY_NAME[name].variable: text}), read_assignments([f"{name}={text}"])):
        assert given_values == Given({name: value}, [])
        assert type(given_values.values[name]) is type(value)


@pytest.mark.parametrize(("name", "text", "what"), WRONG)
def test_what_is_wrong_is_a_problem_and_sets_nothing(name: str, text: str, what: str) -> None:
    variable = BY_NAME[name].variable
    from_environment, assigned = read_environment({variable: text}), read_assignments([f"{name}={text}"])
    assert (from_environment.values, lines(from_environment)) == ({}, [f"{variable}: {what}"])
    assert (assigned.values, lines(assigned)) == ({}, [f"--set: {what}"])
    assert from_environment.problems[0].origin == "environment"
    assert assigned.problems[0].origin == "command line"
    assert from_environment.problems[0].line is msgspec.UNSET


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len(BY_VARIABLE) == len(ROWS)
    assert BY_VARIABLE["TURNGUARD_MODEL_MAX_TOOL_CALLS_PER_TURN"].name == "model.maxToolCallsPerTurn"
    assert BY_VARIABLE["TURNGUARD_SHADOW"].name == "turnguard.shadow"


def test_only_the_bad_variable_is_left_out() -> None:
    environ = {"TURNGUARD_SHADOW": "maybe", "TURNGUARD_ADMISSION": "call", "TURNGUARD_PROGRESS_ACTION": "halt"}
    assert read_environment(environ).values == {"turnguard.admission": "call", "turnguard.progress.action": "halt"}


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_is_not_set(text: str) -> None:
    assert read_environment({"TURNGUARD_SHADOW": text, "TURNGUARD_NO_SUCH": text}) == Given({}, [])


def test_variables_of_others_are_none_of_ours() -> None:
    assert read_environment({"PATH": "/bin", "XTURNGUARD_SHADOW": "true", "turnguard_shadow": "true"}) == Given({}, [])


@pytest.mark.parametrize(
    ("variable", "line"),
    [
        ("TURNGUARD_MAX_STEPS", "there is no such variable; did you mean TURNGUARD_MAX_STEPS_PER_TURN?"),
        ("TURNGUARD_X" + "Y" * 100, "there is no such variable"),
    ],
)
def test_an_unknown_variable_is_a_problem(variable: str, line: str) -> None:
    found = read_environment({variable: "1"})
    assert (found.values, lines(found)) == ({}, [f"{variable}: {line}"])


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("shadow=true", 'there is no setting "shadow"; did you mean turnguard.shadow?'),
        (
            "model.maxCalls=5",
            'there is no setting "model.maxCalls"; did you mean model.maxToolCallsPerTurn?',
        ),
        ("qqq=5", 'there is no setting "qqq"; turnguard settings prints the names'),
        ("=5", 'there is no setting ""; turnguard settings prints the names'),
        ("", 'there is no setting ""; turnguard settings prints the names'),
        (
            "turnguard.shadow",
            "$.turnguard.shadow: expected turnguard.shadow=VALUE, where the value is true or false",
        ),
        (
            "turnguard.shadow= ",
            "$.turnguard.shadow: expected turnguard.shadow=VALUE, where the value is true or false",
        ),
    ],
)
def test_what_is_no_assignment_is_a_problem(assignment: str, line: str) -> None:
    found = read_assignments([assignment])
    assert (found.values, lines(found)) == ({}, [f"--set: {line}"])


def test_of_two_assignments_the_later_one_holds() -> None:
    found = read_assignments(["turnguard.shadow=true", "turnguard.maxStepsPerTurn=5", "turnguard.shadow=false"])
    assert found == Given({"turnguard.shadow": False, "turnguard.maxStepsPerTurn": 5}, [])


@given(
    st.dictionaries(
        st.sampled_from(sorted(BY_VARIABLE)) | st.text().map("TURNGUARD_{}".format),
        st.text(st.characters()),
        max_size=4,
    )
)
def test_no_environment_raises(environ: dict[str, str]) -> None:
    check(read_environment(environ))


@given(
    st.lists(
        st.text(st.characters()) | st.builds("{}={}".format, st.sampled_from(sorted(BY_NAME)), st.text(st.characters()))
    )
)
def test_no_assignment_raises(assignments: list[str]) -> None:
    check(read_assignments(assignments))


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "tools", "a"]), inner, max_size=3)
    ),
)


@given(st.sampled_from(["agents.list", "loopShield.states"]), ANYTHING)
def test_any_json_is_taken_or_is_a_problem(name: str, value: Any) -> None:
    found = read_assignments([f"{name}={json.dumps(value)}"])
    assert (found.values == {name: value}) is (not found.problems)
    check(found)


def check(found: Given) -> None:
    """What was given holds as its type says, and can be shown and sent."""
    for name, value in found.values.items():
        msgspec.convert(value, type_of(name))
        msgspec.json.encode(value)
    for problem in found.problems:
        assert describe(problem).isprintable()
        msgspec.json.encode(problem)
