"""Reading a settings file: exactly the valid part of it holds, each bad part is a problem, and no file does harm."""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.settings.files import MAX_FILE_BYTES, Reading, describe, read_file
from turnguard.settings.problems import MAX_PROBLEMS
from turnguard.settings.table import BY_NAME, ROWS, type_of
from turnguard_protocol.settings import MAX_SAFE_INTEGER, Settings

DEADLINE = 20.0
"""Seconds after which reading is taken to be stuck."""


def reading_of(file: Path, content: str | bytes) -> Reading:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_file(file, "user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that examples write one after the other."""
    return tmp_path_factory.mktemp("scratch") / "settings.json"


def nested(name: str, value: Any) -> dict[str, Any]:
    """`{"model": {"skipLoopDetection": value}}` for a dotted name."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def lines(reading: Reading) -> list[str]:
    """Its problems as people read them, without the directory."""
    return [describe(problem).rpartition("/")[2] for problem in reading.problems]


# --- what is right ----------------------------------------------------------------------------------------------------


def test_a_file_as_people_write_it(file: Path) -> None:
    text = """\ufeff// mine
    {
      $schema: "https://example.org/settings.schema.json",
      model: { maxToolCallsPerTurn: 0, },
      'tools': { "loopDetection": { warningThreshold: 5.0, criticalThreshold: 0x10, detectors: { pingPong: false } } },
      agents: { list: [ { id: "a", tools: { loopDetection: { historySize: 7 } } }, { id: "b" } ] },
      loopShield: { states: { plan: ["read"], act: [] } },
      turnguard: { progress: { action: "halt" } },
    }"""
    reading = reading_of(file, text)
    assert reading.problems == []
    assert reading.values == {
        "model.maxToolCallsPerTurn": 0,
        "tools.loopDetection.warningThreshold": 5,
        "tools.loopDetection.criticalThreshold": 16,
        "tools.loopDetection.detectors.pingPong": False,
        "agents.list": [{"id": "a", "tools": {"loopDetection": {"historySize": 7}}}, {"id": "b"}],
        "loopShield.states": {"plan": ["read"], "act": []},
        "turnguard.progress.action": "halt",
    }
    assert list(reading.values["loopShield.states"]) == ["plan", "act"]
    assert reading.digest == hashlib.sha256(text.encode()).hexdigest()


def test_no_file_sets_nothing(file: Path) -> None:
    assert read_file(file, "user") == Reading({}, [], None)
    assert read_file(file / "beneath nothing", "user") == Reading({}, [], None)


@pytest.mark.parametrize("text", ["", "\n", "// nothing yet", "/* nothing yet */", "{}", "{model: {}}", "\ufeff"])
def test_a_file_that_sets_nothing(file: Path, text: str) -> None:
    reading = reading_of(file, text)
    assert (reading.values, reading.problems) == ({}, [])
    assert reading.digest == hashlib.sha256(text.encode()).hexdigest()


# --- what is wrong ----------------------------------------------------------------------------------------------------


IS_NULL = "is null; leave it out where it should not be set"
NOT_EMPTY = "expected a string that is not empty"
TWICE = "stands here a second time; the first one holds"
ELSEWHERE = "there is no such setting; allowed here: maxToolCallsPerTurn and skipLoopDetection"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '{"tools": {\n"loopDetection": {\n"warningThreshold": 0}}}',
            "3: $.tools.loopDetection.warningThreshold is 0; expected an integer of 1 or more",
        ),
        (
            "{model: {maxToolCallsPerTurn: '5'}}",
            '1: $.model.maxToolCallsPerTurn is "5"; expected an integer, without quotes',
        ),
        (
            "{model: {maxToolCallsPerTurn: 1.5}}",
            "1: $.model.maxToolCallsPerTurn is 1.5; expected an integer",
        ),
        (
            "{model: {maxToolCallsPerTurn: 9007199254740992}}",
            "1: $.model.maxToolCallsPerTurn is 9007199254740992; expected an integer, and of 9007199254740991 or less",
        ),
        (
            "{model: {maxToolCallsPerTurn: -9007199254740992}}",
            "1: $.model.maxToolCallsPerTurn is -9007199254740992; expected an integer of -9007199254740991 or more",
        ),
        (
            "{model: {maxToolCallsPerTurn: NaN}}",
            "1: $.model.maxToolCallsPerTurn: expected an integer",
        ),
        (
            "{turnguard: {shadow: 1}}",
            "1: $.turnguard.shadow is 1; expected true or false",
        ),
        (
            "{turnguard: {repeatedFailures: 'on'}}",
            '1: $.turnguard.repeatedFailures is "on"; expected "off", "shadow", "warn" or "enforce"',
        ),
        (
            "{turnguard: null}",
            f"1: $.turnguard {IS_NULL}",
        ),
        (
            "{turnguard: {shadow: null}}",
            f"1: $.turnguard.shadow {IS_NULL}",
        ),
        ("{turnguard: []}", "1: $.turnguard is []; expected an object"),
        ("{$schema: 1}", "1: $.$schema is 1; expected a string"),
        ("{loopShield: {fallbackState: ''}}", f'1: $.loopShield.fallbackState is ""; {NOT_EMPTY}'),
        ("{loopShield: {states: []}}", "1: $.loopShield.states is []; expected an object"),
        ("{loopShield: {states: {a: [1]}}}", "1: $.loopShield.states.a[0] is 1; expected a string"),
        ("{loopShield: {states: {a: null}}}", f"1: $.loopShield.states.a {IS_NULL}"),
        ("{loopShield: {states: {'': []}}}", f'1: $.loopShield.states[""] is ""; {NOT_EMPTY}'),
        ("{loopShield: {states: {a: [], a: []}}}", f"1: $.loopShield.states.a: {TWICE}"),
        ("{agents: {list: {}}}", "1: $.agents.list is {}; expected a list"),
        ("{agents: {list: [{}]}}", '1: $.agents.list[0]: expected an object with "id"'),
        ("{agents: {list: [{id: 5}]}}", f"1: $.agents.list[0].id is 5; {NOT_EMPTY}"),
        ("{agents: {list: [null]}}", f"1: $.agents.list[0] {IS_NULL}"),
        (
            "{model: {maxToolCalls: 5}}",
            '1: $.model.maxToolCalls: there is no such setting; did you mean "maxToolCallsPerTurn"?',
        ),
        (
            "{Model: {}}",
            '1: $.Model: there is no such setting; did you mean "model"?',
        ),
        (
            "{maxToolCallsPerTurn: 5}",
            "1: $.maxToolCallsPerTurn: there is no such setting; did you mean model.maxToolCallsPerTurn, "
            'which a file has as {"model": {"maxToolCallsPerTurn": ...}}?',
        ),
        (
            "{'turnguard.shadow': true}",
            '1: $["turnguard.shadow"]: there is no such setting; did you mean turnguard.shadow, '
            'which a file has as {"turnguard": {"shadow": ...}}?',
        ),
        (
            "{model: {zzz: 5}}",
            f"1: $.model.zzz: {ELSEWHERE}",
        ),
        ("{model: {$schema: ''}}", f"1: $.model.$schema: {ELSEWHERE}"),
        ("[]", "1: $ is []; nothing of it was read: expected an object, { ... }"),
        ("\n5", "2: $ is 5; nothing of it was read: expected an object, { ... }"),
        ("{\n  a: 1\n  b: 2}", '3: nothing of it was read: it is not JSON5: expected "," or "}", found \'b\''),
        (b"{\n// \xff\n}", "2: nothing of it was read: it is not UTF-8; save it as UTF-8"),
    ],
)
def test_a_problem_says_where_what_and_what_is_allowed(file: Path, text: str | bytes, line: str) -> None:
    reading = reading_of(file, text)
    assert lines(reading) == [f"settings.json:{line}"]
    (problem,) = reading.problems
    assert (problem.origin, problem.source) == ("user", str(file))
    assert reading.digest is not None


def test_only_what_is_bad_is_left_out(file: Path) -> None:
    text = """{
      model: { maxToolCallsPerTurn: "many", skipLoopDetection: false },
      agents: { list: [
        { tools: {} }, { id: "a", tools: { loopDetection: { enabled: 1, historySize: 7 }, x: 1 } }, 5,
      ] },
      loopShield: { states: { a: ["x", 5] }, enabled: true },
      turnguard: { shadow: false, shadow: true },
    }"""
    reading = reading_of(file, text)
    assert reading.values == {
        "model.skipLoopDetection": False,
        "agents.list": [{"id": "a", "tools": {"loopDetection": {"historySize": 7}}}],
        "loopShield.enabled": True,
        "turnguard.shadow": False,
    }
    assert [problem.path for problem in reading.problems] == [
        "$.model.maxToolCallsPerTurn",
        "$.agents.list[0]",
        "$.agents.list[1].tools.loopDetection.enabled",
        "$.agents.list[1].tools.x",
        "$.agents.list[2]",
        "$.loopShield.states.a[1]",
        "$.turnguard.shadow",
    ]


@pytest.mark.parametrize(
    ("block", "left", "problems"),
    [
        (
            "warningThreshold: 20, criticalThreshold: 10",
            {"warningThreshold": 20},
            ["criticalThreshold is 10; expected more than warningThreshold, which is 20"],
        ),
        (
            "criticalThreshold: 10, globalCircuitBreakerThreshold: 10",
            {"criticalThreshold": 10},
            ["globalCircuitBreakerThreshold is 10; expected more than criticalThreshold, which is 10"],
        ),
        (
            "warningThreshold: 30, criticalThreshold: 20, globalCircuitBreakerThreshold: 10",
            {"warningThreshold": 30},
            [
                "criticalThreshold is 20; expected more than warningThreshold, which is 30",
                "globalCircuitBreakerThreshold is 10; expected more than criticalThreshold, which is 20",
            ],
        ),
        ("warningThreshold: 20, criticalThreshold: 21", {"warningThreshold": 20, "criticalThreshold": 21}, []),
        (
            "warningThreshold: 20, globalCircuitBreakerThreshold: 10",
            {"warningThreshold": 20, "globalCircuitBreakerThreshold": 10},
            [],
        ),
    ],
)
def test_of_thresholds_out_of_order_the_higher_one_is_left_out(
    file: Path, block: str, left: dict[str, int], problems: list[str]
) -> None:
    for text, place in (
        ("{tools: {loopDetection: {%s}}}", "$.tools.loopDetection."),
        ("{agents: {list: [{id: 'a', tools: {loopDetection: {%s}}}]}}", "$.agents.list[0].tools.loopDetection."),
    ):
        reading = reading_of(file, text % block)
        assert lines(reading) == [f"settings.json:1: {place}{problem}" for problem in problems]
        agents = reading.values.get("agents.list")
        found = agents[0]["tools"]["loopDetection"] if agents else reading.values
        assert {name.rpartition(".")[2]: value for name, value in found.items()} == left


def test_nobody_is_shown_more_problems_than_they_read(file: Path) -> None:
    unknown = {f"a{n}": 1 for n in range(1000)}
    reading = reading_of(file, json.dumps({**unknown, "turnguard": {"shadow": True}}))
    assert reading.values == {"turnguard.shadow": True}
    assert len(reading.problems) == MAX_PROBLEMS + 1
    assert reading.problems[-1].message == f"and {1000 - MAX_PROBLEMS} more; they are shown when these are gone"


def test_what_is_long_is_not_repeated(file: Path) -> None:
    reading = reading_of(file, json.dumps({"x" * 5000: 1, "turnguard": {"shadow": "y" * 5000}}))
    assert all(len(line) < 300 for line in lines(reading))
    assert len(reading.problems) == 2


def test_no_file_steers_a_terminal(file: Path) -> None:
    reading = reading_of(file, json.dumps({"\x1b[2J\x9b\u202e": 1, "turnguard": {"shadow": "\x1b]0;\x07\x9b\u202e"}}))
    assert len(lines(reading)) == 2
    assert all(line.isprintable() for line in lines(reading))


# --- any file ---------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 30) | st.floats(allow_nan=False) | TEXT | st.just(MAX_SAFE_INTEGER + 1),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.sampled_from(["id", "tools"]), inner, max_size=3)
    ),
    max_leaves=8,
)

IN_ORDER = {
    "tools.loopDetection.warningThreshold": st.integers(1, 9),
    "tools.loopDetection.criticalThreshold": st.integers(10, 19),
    "tools.loopDetection.globalCircuitBreakerThreshold": st.integers(20, 29),
}
FITTING = [
    st.booleans(),
    st.integers(0, 5),
    st.integers(1, 5),
    st.sampled_from(["off", "warn", "batch", "repeated"]),
    st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.sampled_from(["x", "y"]), max_size=2), max_size=2),
    st.lists(st.fixed_dictionaries({"id": st.sampled_from(["a", "b"])}), max_size=2),
]


def is_valid(name: str, value: Any) -> bool:
    try:
        msgspec.json.decode(json.dumps(nested(name, value)), type=Settings)
    except msgspec.ValidationError:
        return False
    return value is not None


def fitting(name: str) -> st.SearchStrategy[Any]:
    return IN_ORDER.get(name, st.one_of(*FITTING).filter(lambda value: is_valid(name, value)))


def misfitting(name: str) -> st.SearchStrategy[Any]:
    """What is wrong as a whole. Sections of agents, which are right in part, are another test's."""
    scalars = st.none() | st.booleans() | st.integers(-3, 0) | st.floats(0.1, 0.9) | st.just("no such word")
    return (scalars | st.just([5]) | st.just({"": 5})).filter(
        lambda value: not is_valid(name, value) and not (name == "agents.list" and isinstance(value, list))
    )


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """A file, what of it is right, and the paths of what is wrong."""
    document: dict[str, Any] = {}
    right: dict[str, Any] = {}
    wrong: set[str] = set()
    for name in draw(st.lists(st.sampled_from(sorted(BY_NAME)), unique=True)):
        *sections, last = name.split(".")
        block = document
        for section in sections:
            block = block.setdefault(section, {})
        if draw(st.booleans()):
            right[name] = block[last] = draw(fitting(name))
        else:
            block[last] = draw(misfitting(name))
            wrong.add(f"$.{name}")
        if draw(st.integers(0, 3)) == 0:
            block["noSuchName"] = draw(ANYTHING)
            wrong.add(f"$.{'.'.join([*sections, 'noSuchName'])}")
    return document, right, wrong


@given(documents())
def test_exactly_the_valid_part_holds_and_each_bad_key_is_a_problem(
    scratch: Path, example: tuple[dict[str, Any], dict[str, Any], set[str]]
) -> None:
    document, right, wrong = example
    reading = reading_of(scratch, json.dumps(document, indent=1))
    assert reading.values == right
    outer = {problem.path.partition("[")[0] for problem in reading.problems}
    assert outer == wrong
    if not {"$.loopShield.states", "$.agents.list"} & wrong:
        assert len(reading.problems) == len(wrong)
    for problem in reading.problems:
        last = problem.path.rpartition(".")[2].partition("[")[0]
        assert isinstance(problem.line, int)
        assert last in scratch.read_text().splitlines()[problem.line - 1] or "[" in problem.path


@given(st.sampled_from([row.name for row in ROWS]), ANYTHING)
def test_any_value_of_a_setting_holds_as_it_is_or_is_a_problem(scratch: Path, name: str, value: Any) -> None:
    reading = reading_of(scratch, json.dumps(nested(name, value)))
    if is_valid(name, value):
        assert (reading.values, reading.problems) == ({name: value}, [])
    else:
        assert reading.problems
        assert name == "agents.list" or reading.values == {}
    for each, held in reading.values.items():
        msgspec.convert(held, type_of(each))


@given(documents(), st.data(), ANYTHING)
def test_a_bad_section_takes_nothing_else_with_it(
    scratch: Path, example: tuple[dict[str, Any], dict[str, Any], set[str]], data: st.DataObject, value: Any
) -> None:
    document, right, _ = example
    section = data.draw(st.sampled_from(["model", "tools", "agents", "loopShield", "turnguard"]))
    reading = reading_of(scratch, json.dumps({**document, section: value}))
    others = {name: each for name, each in reading.values.items() if not name.startswith(f"{section}.")}
    assert others == {name: each for name, each in right.items() if not name.startswith(f"{section}.")}


@given(
    st.binary()
    | st.text("{}[]:,'\"\\/*\n ab01.-id").map(str.encode)
    | ANYTHING.map(lambda each: json.dumps(each).encode())
)
def test_no_bytes_raise(scratch: Path, content: bytes) -> None:
    reading = reading_of(scratch, content)
    assert reading.digest == hashlib.sha256(content).hexdigest()
    for problem in reading.problems:
        assert describe(problem).isprintable()
        msgspec.json.encode(problem)
    for name, value in reading.values.items():
        msgspec.convert(value, type_of(name))


# --- hostile files ----------------------------------------------------------------------------------------------------

GOOD = '{"turnguard": {"shadow": true}}'


def promptly(read: Callable[[], Reading]) -> Reading:
    """What reading gives; fails where it blocks."""
    found: list[Reading] = []
    thread = threading.Thread(target=lambda: found.append(read()), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert found, "reading blocks or raised"
    return found[0]


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / ".turnguard" / "settings.json"
        self.file.parent.mkdir(parents=True)

    def read(self) -> Reading:
        return promptly(lambda: read_file(self.file, "project", beneath=self.root))

    def is_refused(self, why: str) -> bool:
        reading = self.read()
        (problem,) = reading.problems
        assert (reading.values, reading.digest, problem.origin) == ({}, None, "project")
        return why in describe(problem)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_a_project_file_is_read(project: Project) -> None:
    project.file.write_text(GOOD)
    assert project.read().values == {"turnguard.shadow": True}


def test_a_project_file_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(GOOD)
    project.file.symlink_to(tmp_path / "other.json")
    assert project.is_refused("is a link")


def test_a_project_file_that_is_a_link_to_nothing_is_refused(project: Project) -> None:
    project.file.symlink_to("/nonexistent")
    assert project.is_refused("is a link")


def test_a_project_directory_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other")
    other.file.write_text(GOOD)
    project.file.parent.rmdir()
    project.file.parent.symlink_to(other.file.parent)
    assert project.is_refused("is a link")


def test_a_project_itself_may_be_reached_through_a_link(project: Project, tmp_path: Path) -> None:
    project.file.write_text(GOOD)
    link = tmp_path / "link"
    link.symlink_to(project.root)
    reading = read_file(link / ".turnguard/settings.json", "project", beneath=link)
    assert reading.values == {"turnguard.shadow": True}


def test_a_directory_is_refused(project: Project) -> None:
    project.file.mkdir()
    assert project.is_refused("it is not a regular file")


def test_a_fifo_is_refused_at_once(project: Project) -> None:
    os.mkfifo(project.file)
    assert project.is_refused("it is not a regular file")


def test_a_device_is_refused() -> None:
    (problem,) = promptly(lambda: read_file(Path("/dev/zero"), "user")).problems
    assert "it is not a regular file" in describe(problem)


def test_a_huge_file_is_refused(project: Project) -> None:
    with project.file.open("wb") as file:
        file.truncate(1 << 30)
    assert project.is_refused(f"it is longer than {MAX_FILE_BYTES} bytes")


@pytest.mark.parametrize(("length", "is_read"), [(MAX_FILE_BYTES, True), (MAX_FILE_BYTES + 1, False)])
def test_the_longest_file(project: Project, length: int, is_read: bool) -> None:
    project.file.write_text(GOOD.ljust(length))
    assert (project.read().digest is not None) is is_read


def test_a_file_that_says_it_is_short_is_not_believed(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    values = [*file.stat()]
    values[stat.ST_SIZE] = 0
    monkeypatch.setattr(os, "fstat", lambda descriptor: os.stat_result(values))
    reading = read_file(file, "user")
    assert "longer" in describe(reading.problems[0])


def test_what_takes_a_files_place_is_not_read(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    project.file.write_text(GOOD)
    really_open = os.open

    def open_and_swap(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        descriptor = really_open(path, flags, mode, dir_fd=dir_fd)
        if path == "settings.json":
            project.file.unlink()
            project.file.write_text("{}")
        return descriptor

    monkeypatch.setattr(os, "open", open_and_swap)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, open_and_swap})
    assert project.read().values == {"turnguard.shadow": True}


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_no_descriptor_is_left_open(project: Project) -> None:
    before = open_descriptors()
    project.read()
    project.file.write_text(GOOD)
    project.read()
    project.file.unlink()
    os.mkfifo(project.file)
    project.read()
    assert open_descriptors() == before


def test_a_persons_own_file_may_be_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text(GOOD)
    file.symlink_to(tmp_path / "dotfiles")
    assert read_file(file, "user").values == {"turnguard.shadow": True}


def test_a_persons_own_file_is_no_fifo_either(file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    file.symlink_to(tmp_path / "fifo")
    (problem,) = promptly(lambda: read_file(file, "user")).problems
    assert "it is not a regular file" in describe(problem)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(file: Path) -> None:
    file.write_text(GOOD)
    file.chmod(0)
    (problem,) = read_file(file, "user").problems
    assert "it cannot be opened: Permission denied" in describe(problem)


def test_an_impossible_path_is_a_problem() -> None:
    (problem,) = read_file(Path("a\0b"), "user").problems
    assert "it cannot be opened" in describe(problem)
