"""The page: what it shows, that it needs nothing else, and that nothing in it can be more than text."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from tests.headless.build import replayed, step, steps

from turnguard.headless import report as report_module
from turnguard.headless import report_turns
from turnguard.headless.replayed import Turn
from turnguard.headless.report import Report
from turnguard.transcript import Told
from turnguard_protocol.events import Compacted

VOID = {"meta", "input", "link", "br"}
STUCK = steps(*(step(number, "cat x") for number in range(1, 11)))
FINE = steps(*(step(number, f"cat {number}", output=f"{number}") for number in range(1, 4)))


class Page(HTMLParser):
    """The elements of a page; raises when one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == ["html"] or self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def count(self, tag: str, kind: str = "") -> int:
        return sum(each == tag and kind in (attrs.get("class") or "").split() for each, attrs in self.elements)


def page(*turns: Turn, file: str = "a.jsonl") -> str:
    report = Report(title="work", version="1.2.3")
    for turn in turns:
        report.add(file, "claude", turn)
    return report.page()


def test_the_numbers() -> None:
    text = page(*replayed(STUCK, FINE, []))
    tiles = re.findall(r"<div[^>]*><b>([0-9,]+)</b>([^<]+)</div>", text)
    assert tiles == [
        ("3", "turns"),
        ("1", "transcript"),
        ("13", "calls"),
        ("1", "would have been stopped"),
        ("0", "would only have been warned"),
        ("5", "calls saved"),
    ]


def test_a_halted_turn_is_drawn() -> None:
    [turn] = replayed([*STUCK, *step(11, "ls", ok=False), *step(12, "ls", output=None), Told(Compacted())])
    parsed = Page(page(turn))
    # The samples of the legend are one of each.
    assert parsed.count("rect", "k0") - 4 == 10
    assert parsed.count("rect", "k1") == 2
    assert parsed.count("rect", "after") - 1 == 7
    assert parsed.count("rect", "new") - 1 == 2  # of both calls the first result
    assert parsed.count("rect", "hollow") - 1 == 1
    assert parsed.count("circle", "failed") - 1 == 1
    assert parsed.count("line", "cut") - 1 == 1
    assert parsed.count("path", "told") - 1 == 1
    text = "".join(parsed.words)
    assert "call 2: Bash (cat), time 2, a known result, line 2" in text
    assert 'before call 6 stopped: "Bash" has now given this same result 5 times' in text


def test_a_productive_turn_is_counted_only() -> None:
    parsed = Page(page(*replayed(FINE)))
    assert parsed.count("section") == 0
    assert "No turn would have been stopped or warned" in parsed.words


def test_no_turn_at_all() -> None:
    Page(page())


def test_it_needs_nothing_and_runs_nothing() -> None:
    parsed = Page(page(*replayed(STUCK)))
    assert {tag for tag, _ in parsed.elements}.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    for _, attrs in parsed.elements:
        assert not {name for name in attrs if name.startswith("on") or name in ("src", "srcset")}
        assert (attrs.get("href") or "#").startswith("#")
    policies = [attrs.get("content") for _, attrs in parsed.elements if attrs.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "url(" not in page(*replayed(STUCK))


def test_whatever_a_tool_is_called_is_text() -> None:
    name = "<script>alert(1)</script>\"'&"
    turns = replayed(steps(*(step(number, "x", tool=name) for number in range(10))))
    parsed = Page(page(*turns, file="<b>&.jsonl"))
    assert parsed.count("script") == parsed.count("b", "x") == 0
    assert any(name in word for word in parsed.words)
    assert "<b>&.jsonl " in parsed.words


def test_drawings_are_well_formed() -> None:
    for drawing in re.findall(r"<svg.*?</svg>", page(*replayed(STUCK, FINE))):
        ElementTree.fromstring(drawing)  # noqa: S314 - it is our own


def test_of_many_turns_those_that_would_have_saved_most_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "MAX_SHOWN_TURNS", 2)
    turns = replayed(*(steps(*(step(number, "cat x") for number in range(count))) for count in (7, 9, 6, 20, 8, 10)))
    text = page(*turns)
    assert re.findall(r"turn ([0-9]+), line [0-9]+; ([0-9]+) calls", text) == [("4", "20"), ("6", "10")]
    assert "4 more turns are counted, not drawn" in text
    assert "<b>6</b>turns" in text


def test_of_a_long_turn_the_first_calls_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_turns, "MAX_MARKS", 150)
    turns = replayed(steps(*(step(number, "cat x") for number in range(400))))
    text = page(*turns)
    parsed = Page(text)
    assert parsed.count("rect", "k0") - 4 == 150
    assert "and 250 more calls that would not have run" in text
    assert 'viewBox="-2 0 1004 60"' in text  # two rows


def test_more_repeated_calls_than_colours_share_one() -> None:
    commands = [f"cat {number}" for number in range(9)]
    turns = replayed(
        steps(*(step(10 * turn + at, command) for turn in range(9) for at, command in enumerate(commands)))
    )
    text = page(*turns)
    assert "3 others, more than once" in text
    assert Page(text).count("rect", "kx") == 27


def test_columns_add_up() -> None:
    turns = replayed(*(FINE[: 2 * count] for count in range(4)), STUCK)
    chart = re.findall(r'<figure class="chart">.*?</figure>', page(*turns))
    titles = re.findall(r"<title>([^<]+)</title>", chart[0])
    assert titles == [
        "0: 1 nothing said",
        "1: 1 nothing said",
        "2-4: 2 nothing said",
        "10-19: 1 would have been stopped",
    ]
    assert len(chart) == 2


def test_what_is_not_seen_in_a_name_stands_as_an_escape() -> None:
    text = page(*replayed(STUCK), file="a\u202e\x1b[31m.jsonl")
    assert "a\\u202e\\x1b[31m.jsonl" in text
    assert "\u202e" not in text


def test_after_a_halt_two_rows_are_drawn() -> None:
    text = page(*replayed(steps(*(step(number, "cat x") for number in range(950)))))
    assert Page(text).count("rect", "k0") - 4 == 200
    assert "and 750 more calls that would not have run" in text


def test_a_second_halt_is_a_mark_of_its_own() -> None:
    text = page(*replayed(steps(*(step(number, "cat x") for number in range(120)))))
    parsed = Page(text)
    assert parsed.count("line", "cut") - 1 == 1
    assert parsed.count("path", "stop") - 1 == 1
    assert "another guard would have stopped it here" in parsed.words


@pytest.mark.parametrize(("count", "is_first"), [(20, False), (21, True)])
def test_of_many_turns_the_evidence_comes_first(count: int, is_first: bool) -> None:
    text = page(*replayed(*([STUCK] * count)))
    assert (text.index("<h2>Evidence") < text.index("<section")) == is_first


def test_columns_are_named_by_where_they_begin_and_end() -> None:
    text = page()
    assert [label for label in ("100-199", "500-999", "1,000+", "50-99") if f">{label}</text>" not in text] == []
    assert "square roots" in text


# --- two sets of settings ---------------------------------------------------------------------------------------------


def compared(*turns: Sequence[Told], sets: Sequence[str]) -> str:
    """The page of turns as set, and with other settings."""
    report = Report(title="work", version="1.2.3", compared=", ".join(sets))
    for turn, other in zip(replayed(*turns), replayed(*turns, sets=sets), strict=True):
        report.add("a.jsonl", "claude", turn, other)
    return report.page()


CAP_OF_3 = ("model.maxToolCallsPerTurn=3",)
LONGER = steps(*(step(number, f"cat {number}", output=f"{number}") for number in range(1, 6)))


def test_the_numbers_of_both() -> None:
    text = compared(STUCK, FINE, LONGER, sets=CAP_OF_3)
    tiles = re.findall(r"<div[^>]*><b>([0-9,]+)</b>([^<]+)</div>", text)
    assert tiles == [
        ("3", "turns"),
        ("1", "transcript"),
        ("18", "calls"),
        ("1", "would have been stopped"),
        ("0", "would only have been warned"),
        ("5", "calls saved"),
        ("2", "would have been stopped"),
        ("0", "would only have been warned"),
        ("9", "calls saved"),
    ]
    assert text.index(">as set</p>") < text.index(">with model.maxToolCallsPerTurn=3</p>")
    captions = re.findall(r"<figcaption>([^<]+)</figcaption>", text)
    assert captions == [
        "Calls in a turn, as set",
        "How often its most frequent call came, as set",
        "Calls in a turn, with model.maxToolCallsPerTurn=3",
        "How often its most frequent call came, with model.maxToolCallsPerTurn=3",
    ]
    charts = re.findall(r'<figure class="chart">.*?</figure>', text)
    assert ["5-9: 1 would have been stopped" in chart for chart in charts[::2]] == [False, True]


def test_a_turn_is_drawn_under_both_though_only_one_of_them_says_anything() -> None:
    text = compared(LONGER, sets=CAP_OF_3)
    parsed = Page(text)
    assert parsed.count("section", "turn") == 1
    assert parsed.count("rect", "k1x") - 1 == 2 * 5
    assert parsed.count("line", "cut") - 1 == 1
    assert parsed.count("rect", "after") - 1 == 2
    section = text[text.index("<section") : text.index("</section>")]
    as_set, other = section.split('<p class="under">with ')
    assert '<li class="quiet">nothing</li>' in as_set
    assert 'before call 4 <b class="halt">stopped</b>' in other


def test_the_same_calls_stand_at_the_same_places_under_both() -> None:
    text = compared(steps(*(step(number, "cat x") for number in range(950))), sets=("turnguard.progress.action=off",))
    boxes = re.findall(r'<svg class="strip" viewBox="([^"]+)"', text)
    assert len(boxes) == 2
    assert boxes[0] == boxes[1]


def test_the_evidence_names_the_settings() -> None:
    text = compared(STUCK, sets=CAP_OF_3)
    rows = re.findall(r'<tr><td class="file">.*?</tr>', text)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert {(cell[3], cell[4], cell[5], cell[-1]) for cell in cells} >= {
        ("as set", "6", "stopped", "5"),
        ("with model.maxToolCallsPerTurn=3", "4", "stopped", "7"),
    }
    heads = re.findall(r"<th[ >]", text[text.index("<h2>Evidence") :])
    assert len(heads) == len(cells[0])
    for drawing in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(drawing)  # noqa: S314 - it is our own


def test_of_many_turns_those_that_either_would_have_saved_most_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "MAX_SHOWN_TURNS", 2)
    turns = [steps(*(step(number, f"cat {number}") for number in range(count))) for count in (4, 9, 5, 20)]
    text = compared(*turns, sets=CAP_OF_3)
    assert re.findall(r"turn ([0-9]+), line [0-9]+; ([0-9]+) calls", text) == [("4", "20"), ("2", "9")]


def test_words_of_settings_are_text() -> None:
    report = Report(title="work", version="1", compared='loopShield.states={"<b>": []}\x1b')
    text = report.page()
    assert "with loopShield.states={&quot;&lt;b&gt;&quot;: []}\\x1b</p>" in text
    Page(text)


def test_one_is_not_many() -> None:
    [turn] = replayed(step(1, "cat x"))
    assert "<b>1</b>turn<" in page(turn)
    assert "<b>1</b>call<" in page(turn)
