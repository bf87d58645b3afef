"""`turnguard replay --html FILE`: one page that shows what the guards would have said of many turns.

The page needs nothing else: no network, no script. It holds names of tools and of programs, names of files, counts and
places, and nothing else of what agents did.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from turnguard.core.messages import fact_of
from turnguard.headless.evidence import repeated
from turnguard.headless.replay import Mark, Sight, Turn
from turnguard_protocol.verdicts import Action

MAX_SHOWN_TURNS = 500
"""Turns that are drawn: of more those that would have saved most."""

MAX_MARKS = 1_000
"""Calls of a turn that are drawn; the others are counted."""

COLOURS = 6
"""Repeated calls of a turn that have a colour of their own."""

PER_ROW, MARK, GAP, ROW_HEIGHT, TALL, SHORT = 100, 8, 2, 30, 18, 9
"""Of the drawing: marks in a row, their width, what is between them, the rows, a known result and a new one."""

LENGTHS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
REPEATS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100)
"""Where the columns of the two distributions begin."""

MAX_ROWS_AFTER = 2
"""Rows that are drawn from a halt on: what would not have run is worth no more."""

INDEXED = 20
"""From so many drawn turns on the evidence, which leads to each, stands before them."""

VERBS = {
    Action.ALLOW: "noted",
    Action.WARN: "warned",
    Action.RESTRICT: "left without tools",
    Action.BLOCK: "refused",
    Action.HALT: "stopped",
}
FATES = ("productive", "warned", "halted")
FATES_IN_WORDS = {"productive": "nothing said", "warned": "warned", "halted": "would have been stopped"}


class Shown(NamedTuple):
    """A turn that is drawn, and the name of its file."""

    file: str
    format_name: str
    turn: Turn


class Report:
    """Collects turns, and then is a page."""

    def __init__(self, *, title: str, version: str) -> None:
        self._title = title
        self._version = version
        self._files: set[str] = set()
        self._lengths: Counter[tuple[int, str]] = Counter()
        self._repeats: Counter[tuple[int, str]] = Counter()
        self._fates: Counter[str] = Counter()
        self._calls = self._saved = self._left_out = 0
        self._shown: list[Shown] = []

    @property
    def turns(self) -> int:
        """How many there were."""
        return self._fates.total()

    @property
    def drawn(self) -> int:
        """How many of them the page shows one by one."""
        return min(len(self._shown), MAX_SHOWN_TURNS)

    def add(self, file: str, format_name: str, turn: Turn) -> None:
        """Takes a turn."""
        self._files.add(file)
        fate = "halted" if turn.halt else "warned" if turn.sights else "productive"
        self._fates[fate] += 1
        self._calls += turn.calls
        self._saved += turn.saved
        repeats = turn.repeats()
        self._lengths[_column(turn.calls, LENGTHS), fate] += 1
        if repeats:
            self._repeats[_column(repeats[0][1], REPEATS), fate] += 1
        if turn.sights:
            self._shown.append(Shown(file, format_name, turn))
            if len(self._shown) > 2 * MAX_SHOWN_TURNS:
                self._keep_most()

    def page(self) -> str:
        """The page."""
        self._keep_most()
        return "".join(self._parts())

    def _keep_most(self) -> None:
        ordered = sorted(self._shown, key=lambda each: (each.turn.halt is None, -each.turn.saved, -each.turn.calls))
        self._left_out += max(0, len(ordered) - MAX_SHOWN_TURNS)
        self._shown = ordered[:MAX_SHOWN_TURNS]

    def _parts(self) -> Iterator[str]:
        style = files("turnguard.headless").joinpath("report.css").read_text("utf-8")
        yield (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>turnguard replay: {_text(self._title)}</title>\n<style>\n{style}</style>\n"
        )
        yield from self._header()
        yield from self._charts()
        parts = [self._timelines(), self._table()]
        for part in reversed(parts) if len(self._shown) > INDEXED else parts:
            yield from part
        yield f'<p class="quiet">Made by turnguard {_text(self._version)}.</p>\n</html>\n'

    def _header(self) -> Iterator[str]:
        yield (
            f'<header><h1>turnguard replay</h1><span class="quiet">{_text(self._title)}</span>\n'
            '<fieldset class="theme" aria-label="Colours">'
            '<label><input type="radio" name="theme" checked> as the system</label>'
            '<label><input type="radio" name="theme" id="light"> light</label>'
            '<label><input type="radio" name="theme" id="dark"> dark</label></fieldset></header>\n'
        )
        numbers = (
            ("", self.turns, "turn" if self.turns == 1 else "turns"),
            ("", len(self._files), "transcript" if len(self._files) == 1 else "transcripts"),
            ("", self._calls, "call" if self._calls == 1 else "calls"),
            ("halt", self._fates["halted"], "would have been stopped"),
            ("warn", self._fates["warned"], "would only have been warned"),
            ("", self._saved, "call saved" if self._saved == 1 else "calls saved"),
        )
        tiles = "".join(f'<div class="{kind}"><b>{number:,}</b>{words}</div>' for kind, number, words in numbers)
        yield f'<div class="numbers">{tiles}</div>\n'

    # --- distributions ------------------------------------------------------------------------------------------------

    def _charts(self) -> Iterator[str]:
        yield '<div class="charts">\n'
        yield _chart("Calls in a turn", LENGTHS, self._lengths)
        yield _chart("How often its most frequent call came", REPEATS, self._repeats)
        yield "</div>\n"
        legend = "".join(f'<li><i style="background: var(--{colour})"></i>{words}</li>' for colour, words in _LEGEND)
        yield f'<ul class="legend">{legend}</ul>\n'
        yield '<p class="quiet">Heights are square roots of the numbers, so that few turns are seen, too.</p>\n'

    # --- timelines ----------------------------------------------------------------------------------------------------

    def _timelines(self) -> Iterator[str]:
        if not self._shown:
            yield "<h2>No turn would have been stopped or warned</h2>\n"
            return
        yield "<h2>Turns that would have been stopped or warned</h2>\n"
        yield '<p class="quiet">A mark is a call; each call that came more than once has a colour.</p>\n'
        yield f'<ul class="legend">{"".join(_sample(*each) for each in _SAMPLES)}</ul>\n'
        if self._left_out:
            left_out = f"{_many(self._left_out, 'more turn')} {'is' if self._left_out == 1 else 'are'}"
            yield f'<p class="quiet">{left_out} counted, not drawn.</p>\n'
        for number, each in enumerate(self._shown):
            yield from _timeline(number, each)

    def _table(self) -> Iterator[str]:
        if not self._shown:
            return
        yield '<h2>Evidence</h2>\n<div class="wide"><table><thead><tr><th>file</th>'
        yield '<th class="n">turn</th><th class="n">calls</th><th class="n">before call</th><th>it would have been</th>'
        yield '<th>because</th><th>guard</th><th>setting</th><th class="n">saved</th></tr></thead><tbody>\n'
        for number, each in enumerate(self._shown):
            for sight in each.turn.sights:
                saved = f"{each.turn.saved:,}" if sight is each.turn.halt else ""
                setting = sight.finding.setting if isinstance(sight.finding.setting, str) else ""
                yield (
                    f'<tr><td class="file"><a href="#t{number}">{_text(each.file)}</a></td>'
                    f'<td class="n">{each.turn.number}</td><td class="n">{each.turn.calls:,}</td>'
                    f'<td class="n">{sight.call:,}</td><td>{VERBS[sight.finding.action]}</td>'
                    f"<td>{_text(fact_of(sight.finding, sight.totals))}</td><td>{_text(sight.finding.guard)}</td>"
                    f'<td>{_text(setting)}</td><td class="n">{saved}</td></tr>\n'
                )
        yield "</tbody></table></div>\n"


_SAMPLES = (
    (f'<rect class="k0" x="1" y="0" width="{MARK}" height="{TALL}"/>', "its result was known already"),
    (f'<rect class="k0 new" x="1" y="{TALL - SHORT}" width="{MARK}" height="{SHORT}"/>', "its result was new"),
    (f'<rect class="k0 hollow" x="1" y="{TALL - SHORT}" width="{MARK}" height="{SHORT}"/>', "its result is not known"),
    (f'<rect class="k1x" x="1" y="{TALL - SHORT}" width="{MARK}" height="{SHORT}"/>', "a call that came once"),
    (f'<circle class="failed" cx="{MARK / 2}" cy="{TALL - 2}" r="1.6"/>', "it failed"),
    (f'<path class="told" d="M1 {TALL - 8}h8l-4 7z"/>', "a guard would have warned"),
    (f'<line class="cut" x1="5" y1="0" x2="5" y2="{TALL}"/>', "the turn would have been stopped"),
    (f'<path class="stop" d="M1 {TALL - 8}h8l-4 7z"/>', "another guard would have stopped it here"),
    (f'<rect class="k0 after" x="1" y="0" width="{MARK}" height="{TALL}"/>', "would not have run"),
)
_LEGEND = (("fine", "nothing said"), ("warn", "warned"), ("halt", "would have been stopped"))


def _text(words: str) -> str:
    """Words as text of a page, in which everything that is not seen stands as an escape."""
    return escape("".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in words))


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _sample(drawing: str, words: str) -> str:
    return f'<li><svg class="sample strip" viewBox="0 0 {MARK + 2} {TALL}">{drawing}</svg>{words}</li>'


def _column(value: int, starts: Sequence[int]) -> int:
    """The column of a value: the last that begins at it or below."""
    return max((index for index, start in enumerate(starts) if start <= value), default=0)


def _chart(caption: str, starts: Sequence[int], counts: Counter[tuple[int, str]]) -> str:
    """A histogram; columns are stacked by what became of the turns, and as high as the square root of their number.

    A few stuck turns among thousands would be invisible otherwise; the numbers stand above.
    """
    width, height, base = 46, 130, 150
    totals = [sum(counts[index, fate] for fate in FATES) for index in range(len(starts))]
    most = max(totals, default=0) or 1
    parts = [f'<line class="axis" x1="0" y1="{base}" x2="{width * len(starts)}" y2="{base}"/>']
    for index, total in enumerate(totals):
        x, y = index * width + 5, float(base)
        whole = height * (total / most) ** 0.5
        for fate in FATES:
            count = counts[index, fate]
            if count:
                part = max(whole * count / total, 3.0)
                y -= part
                title = f"{_range(starts, index)}: {count:,} {FATES_IN_WORDS[fate]}"
                parts.append(
                    f'<rect class="bar {fate}" x="{x}" y="{y:.1f}" width="{width - 10}" height="{part:.1f}">'
                    f"<title>{title}</title></rect>"
                )
        if total:
            parts.append(
                f'<text class="count" x="{x + width / 2 - 5}" y="{y - 4:.1f}" text-anchor="middle">{total:,}</text>'
            )
        label = _range(starts, index)
        parts.append(f'<text class="range" x="{x + width / 2 - 5}" y="{base + 15}" text-anchor="middle">{label}</text>')
    box = f"0 0 {width * len(starts)} {base + 22}"
    drawing = f'<svg viewBox="{box}" role="img" aria-label="{caption}">{"".join(parts)}</svg>'
    return f'<figure class="chart"><figcaption>{caption}</figcaption>{drawing}</figure>\n'


def _range(starts: Sequence[int], index: int) -> str:
    start, end = starts[index], starts[index + 1] - 1 if index + 1 < len(starts) else None
    if start == end:
        return f"{start:,}"
    return f"{start:,}+" if end is None else f"{start:,}-{end:,}"


def _timeline(number: int, shown: Shown) -> Iterator[str]:
    turn = shown.turn
    session = f", session {_text(turn.session)}" if turn.session else ""
    line = f", line {turn.place}" if turn.place is not None else ""
    yield (
        f'<section class="turn" id="t{number}"><h3>{_text(shown.file)} <span>turn {turn.number}{session}{line}; '
        f"{_many(turn.calls, 'call')}, {len(turn.repeats()):,} different; {_text(shown.format_name)}</span></h3>\n"
    )
    yield f'<ul class="said">{"".join(_said(sight) for sight in turn.sights)}</ul>\n'
    colours = _colours(turn)
    yield _strip(turn, colours)
    yield _key(turn, colours)
    yield _repeats(turn)
    yield "</section>\n"


def _said(sight: Sight) -> str:
    action = sight.finding.action
    kind = "halt" if action is Action.HALT else "warn"
    because = _text(fact_of(sight.finding, sight.totals))
    return (
        f'<li>before call {sight.call:,} <b class="{kind}">{VERBS[action]}</b>: {because} '
        f'<span class="quiet">{_text(sight.finding.guard)}</span></li>'
    )


def _colours(turn: Turn) -> dict[int, str]:
    """The class of each identity: one each for the most frequent, one for the others, one for single calls."""
    counts = Counter(mark.identity for mark in turn.marks)
    ranked = [identity for identity, count in counts.most_common() if count > 1]
    colours = dict.fromkeys(counts, "k1x") | dict.fromkeys(ranked, "kx")
    return colours | {identity: f"k{rank}" for rank, identity in enumerate(ranked[:COLOURS])}


def _strip(turn: Turn, colours: dict[int, str]) -> str:
    """The calls of a turn, in rows."""
    halt = turn.halt
    last = turn.calls if halt is None else halt.call - 1
    drawn = MAX_MARKS if halt is None else min(MAX_MARKS, (last // PER_ROW + MAX_ROWS_AFTER) * PER_ROW)
    marks = turn.marks[:drawn]
    rows = max(1, -(-len(marks) // PER_ROW))
    parts = list(_marks(turn, marks, colours, last))
    parts += [_triangle(sight) for sight in turn.sights if sight is not halt and sight.call <= len(marks) + 1]
    parts += [
        f'<line class="compacted" x1="{_x(after + 1) - 1}" y1="{_y(after + 1)}" x2="{_x(after + 1) - 1}" '
        f'y2="{_y(after + 1) + ROW_HEIGHT - 6}"><title>the context was compacted</title></line>'
        for after in turn.compactions
        if after < len(marks)
    ]
    if halt is not None and halt.call <= len(marks) + 1:
        x, y = _x(halt.call) - 1, _y(halt.call)
        parts.append(
            f'<line class="cut" x1="{x}" y1="{y}" x2="{x}" y2="{y + ROW_HEIGHT - 4}">'
            f"<title>stopped before call {halt.call:,}</title></line>"
        )
    left = turn.calls - len(marks)
    fate = " that would not have run" if last < len(marks) else ""
    more = f'<p class="quiet">and {_many(left, "more call")}{fate}</p>' if left else ""
    box = f"-2 0 {PER_ROW * (MARK + GAP) + 4} {rows * ROW_HEIGHT}"
    drawing = f'<svg class="strip" viewBox="{box}" role="img" aria-label="the calls of the turn">{"".join(parts)}</svg>'
    return f'<div class="scrolled">{drawing}</div>{more}\n'


def _marks(turn: Turn, marks: Sequence[Mark], colours: dict[int, str], last: int) -> Iterator[str]:
    seen: set[int] = set()
    times: Counter[int] = Counter()
    for number, mark in enumerate(marks, 1):
        times[mark.identity] += 1
        is_known = mark.outcome in seen
        if mark.outcome is not None:
            seen.add(mark.outcome)
        kinds = [colours[mark.identity]]
        kinds += ["hollow"] if mark.outcome is None else [] if is_known else ["new"]
        kinds += ["after"] if number > last else []
        height = TALL if is_known else SHORT
        x, y = _x(number), _y(number) + 4 + TALL - height
        identity = turn.identities[mark.identity]
        result = "result not known" if mark.outcome is None else "a known result" if is_known else "a new result"
        line = f", line {mark.place}" if mark.place is not None else ""
        title = _text(f"call {number}: {identity.shown}, time {times[mark.identity]}, {result}{line}")
        yield (
            f'<rect class="{" ".join(kinds)}" x="{x}" y="{y}" width="{MARK}" height="{height}">'
            f"<title>{title}</title></rect>"
        )
        if mark.ok is False:
            after = " after" if number > last else ""
            yield f'<circle class="failed{after}" cx="{x + MARK / 2}" cy="{y + height + 3}" r="1.4"/>'


def _triangle(sight: Sight) -> str:
    x, y = _x(sight.call) - 1, _y(sight.call)
    kind = "stop" if sight.finding.action is Action.HALT else "told"
    title = _text(f"{VERBS[sight.finding.action]} before call {sight.call}: {fact_of(sight.finding, sight.totals)}")
    return f'<path class="{kind}" d="M{x - 4} {y - 4}h8l-4 7z"><title>{title}</title></path>'


def _x(number: int) -> int:
    return (number - 1) % PER_ROW * (MARK + GAP)


def _y(number: int) -> int:
    return (number - 1) // PER_ROW * ROW_HEIGHT + 4


def _key(turn: Turn, colours: dict[int, str]) -> str:
    counts = Counter(mark.identity for mark in turn.marks)
    own = [(identity, counts[identity]) for identity in counts if colours[identity] not in ("k1x", "kx")]
    others = sum(1 for identity in counts if colours[identity] == "kx")
    once = sum(1 for identity in counts if colours[identity] == "k1x")
    items = [
        _item(colours[identity], f"{turn.identities[identity].shown}, {count} times")
        for identity, count in sorted(own, key=lambda each: -each[1])
    ]
    items += [_item("kx", f"{_many(others, 'other')}, more than once")] if others else []
    items += [_item("k1x", f"{_many(once, 'call')} made once")] if once else []
    return f'<ul class="legend">{"".join(items)}</ul>\n'


def _item(kind: str, words: str) -> str:
    return f'<li><i class="{kind}"></i>{_text(words)}</li>'


def _repeats(turn: Turn) -> str:
    found = repeated(turn)
    if not found:
        return ""
    rows = "".join(
        f'<tr><td class="n">{each.times:,}</td><td>{_text(each.identity.shown)}</td>'
        f"<td>{_text(each.results_in_words)}</td>"
        f"<td>call {each.first_call:,} to {each.last_call:,}{_text(each.places_in_words)}</td></tr>"
        for each in found
    )
    head = '<thead><tr><th class="n">times</th><th>call</th><th>results</th><th>where</th></tr></thead>'
    return f'<details><summary>What repeated</summary><div class="wide"><table>{head}{rows}</table></div></details>\n'
