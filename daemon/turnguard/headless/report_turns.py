"""A turn of the report: what the guards would have said of it, and a drawing with a mark for each of its calls.

Under two sets of settings it is drawn for each of them, one beneath the other, so that the same calls stand at the same
places.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from turnguard.core.messages import fact_of
from turnguard.harmless import harmless
from turnguard.headless.evidence import repeated
from turnguard.headless.replayed import Mark, Sight, Turn
from turnguard.headless.words import WOULD_HAVE, many
from turnguard_protocol.verdicts import Action

MAX_MARKS = 1_000
"""Calls of a turn that are drawn; the others are counted."""

COLOURS = 6
"""Repeated calls of a turn that have a colour of their own."""

PER_ROW, MARK, GAP, ROW_HEIGHT, TALL, SHORT = 100, 8, 2, 30, 18, 9
"""Of the drawing: marks in a row, their width, what is between them, the rows, a known result and a new one."""

MAX_ROWS_AFTER = 2
"""Rows that are drawn from a halt on: what would not have run is worth no more."""


class Shown(NamedTuple):
    """A turn that is drawn, and the name of its file. `turns`: the same turn, under each set of settings."""

    file: str
    format_name: str
    turns: Sequence[Turn]

    @property
    def saved(self) -> int:
        """How many calls a halt would have left unrun, under the settings that would have saved most."""
        return max(turn.saved for turn in self.turns)

    @property
    def has_halt(self) -> bool:
        """Whether it would have been stopped under any of the settings."""
        return any(turn.halt for turn in self.turns)


def text(words: str) -> str:
    """Words as text of a page, in which everything that is not seen stands as an escape."""
    return escape(harmless(words))


def legend() -> str:
    """What the marks of all drawings mean."""
    items = "".join(
        f'<li><svg class="sample strip" viewBox="0 0 {MARK + 2} {TALL}">{drawing}</svg>{words}</li>'
        for drawing, words in _SAMPLES
    )
    return f'<ul class="legend">{items}</ul>\n'


def drawn(number: int, shown: Shown, under: Sequence[str]) -> Iterator[str]:
    """The turn as a part of the page. `under`: what each of its sets of settings is called."""
    turn = shown.turns[0]
    session = f", session {text(turn.session)}" if turn.session else ""
    line = f", line {turn.place}" if turn.place is not None else ""
    yield (
        f'<section class="turn" id="t{number}"><h3>{text(shown.file)} <span>turn {turn.number}{session}{line}; '
        f"{many(turn.calls, 'call')}, {len(turn.repeats()):,} different; {text(shown.format_name)}</span></h3>\n"
    )
    colours = _colours(turn)
    most = max(map(_drawn_marks, shown.turns))
    for each, name in zip(shown.turns, under, strict=True):
        if len(under) > 1:
            yield f'<p class="under">{text(name)}</p>\n'
        said = "".join(map(_said, each.sights)) or '<li class="quiet">nothing</li>'
        yield f'<ul class="said">{said}</ul>\n'
        yield _strip(each, colours, most)
    yield _key(turn, colours)
    yield _repeats(turn)
    yield "</section>\n"


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


def _said(sight: Sight) -> str:
    action = sight.finding.action
    kind = "halt" if action is Action.HALT else "warn"
    because = text(fact_of(sight.finding, sight.totals))
    return (
        f'<li>before call {sight.call:,} <b class="{kind}">{WOULD_HAVE[action]}</b>: {because} '
        f'<span class="quiet">{text(sight.finding.guard)}</span></li>'
    )


def _colours(turn: Turn) -> dict[int, str]:
    """The class of each identity: one each for the most frequent, one for the others, one for single calls."""
    counts = Counter(mark.identity for mark in turn.marks)
    ranked = [identity for identity, count in counts.most_common() if count > 1]
    colours = dict.fromkeys(counts, "k1x") | dict.fromkeys(ranked, "kx")
    return colours | {identity: f"k{rank}" for rank, identity in enumerate(ranked[:COLOURS])}


def _last(turn: Turn) -> int:
    """The number of the last call that would have run."""
    return turn.calls if turn.halt is None else turn.halt.call - 1


def _drawn_marks(turn: Turn) -> int:
    """How many calls of a turn are worth a mark."""
    return MAX_MARKS if turn.halt is None else min(MAX_MARKS, (_last(turn) // PER_ROW + MAX_ROWS_AFTER) * PER_ROW)


def _strip(turn: Turn, colours: dict[int, str], most: int) -> str:
    """The calls of a turn, `most` of them, in rows."""
    halt, last = turn.halt, _last(turn)
    marks = turn.marks[:most]
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
    more = f'<p class="quiet">and {many(left, "more call")}{fate}</p>' if left else ""
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
        title = text(f"call {number}: {identity.shown}, time {times[mark.identity]}, {result}{line}")
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
    title = text(f"{WOULD_HAVE[sight.finding.action]} before call {sight.call}: {fact_of(sight.finding, sight.totals)}")
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
    items += [_item("kx", f"{many(others, 'other')}, more than once")] if others else []
    items += [_item("k1x", f"{many(once, 'call')} made once")] if once else []
    return f'<ul class="legend">{"".join(items)}</ul>\n'


def _item(kind: str, words: str) -> str:
    return f'<li><i class="{kind}"></i>{text(words)}</li>'


def _repeats(turn: Turn) -> str:
    found = repeated(turn)
    if not found:
        return ""
    rows = "".join(
        f'<tr><td class="n">{each.times:,}</td><td>{text(each.identity.shown)}</td>'
        f"<td>{text(each.results_in_words)}</td>"
        f"<td>call {each.first_call:,} to {each.last_call:,}{text(each.places_in_words)}</td></tr>"
        for each in found
    )
    head = '<thead><tr><th class="n">times</th><th>call</th><th>results</th><th>where</th></tr></thead>'
    return f'<details><summary>What repeated</summary><div class="wide"><table>{head}{rows}</table></div></details>\n'
