"""`turnguard replay --html FILE`: one page that shows what the guards would have said of many turns.

The page needs nothing else: no network, no script. It holds names of tools and of programs, names of files, counts and
places, and nothing else of what agents did. With `--compare` everything is there for both sets of settings.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

from turnguard.core.messages import fact_of
from turnguard.headless.replayed import Turn
from turnguard.headless.report_turns import Shown, drawn, legend, text
from turnguard.headless.words import WOULD_HAVE, many

MAX_SHOWN_TURNS = 500
"""Turns that are drawn: of more those that would have saved most."""

LENGTHS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
REPEATS = (1, 2, 3, 4, 5, 6, 8, 10, 20, 50, 100)
"""Where the columns of the two distributions begin."""

INDEXED = 20
"""From so many drawn turns on the evidence, which leads to each, stands before them."""

FATES = {"productive": "nothing said", "warned": "warned", "halted": "would have been stopped"}

AS_SET = "as set"
"""What the settings are called that hold without `--compare`."""


class _Under:
    """What all turns come to under one set of settings. `name`: what these are called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lengths: Counter[tuple[int, str]] = Counter()
        self.repeats: Counter[tuple[int, str]] = Counter()
        self.fates: Counter[str] = Counter()
        self.saved = 0

    def add(self, turn: Turn) -> None:
        """Counts a turn."""
        fate = "halted" if turn.halt else "warned" if turn.sights else "productive"
        self.fates[fate] += 1
        self.saved += turn.saved
        repeats = turn.repeats()
        self.lengths[_column(turn.calls, LENGTHS), fate] += 1
        if repeats:
            self.repeats[_column(repeats[0][1], REPEATS), fate] += 1


class Report:
    """Collects turns, and then is a page. `compared`: the other settings, in words; None: there are none."""

    def __init__(self, *, title: str, version: str, compared: str | None = None) -> None:
        self._title = title
        self._version = version
        self._under = [_Under(AS_SET)] if compared is None else [_Under(AS_SET), _Under(f"with {compared}")]
        self._files: set[str] = set()
        self._calls = self._left_out = 0
        self._shown: list[Shown] = []

    @property
    def turns(self) -> int:
        """How many there were."""
        return self._under[0].fates.total()

    @property
    def drawn(self) -> int:
        """How many of them the page shows one by one."""
        return min(len(self._shown), MAX_SHOWN_TURNS)

    def add(self, file: str, format_name: str, *turns: Turn) -> None:
        """Takes a turn, as it is under each set of settings."""
        self._files.add(file)
        self._calls += turns[0].calls
        for under, turn in zip(self._under, turns, strict=True):
            under.add(turn)
        if any(turn.sights for turn in turns):
            self._shown.append(Shown(file, format_name, turns))
            if len(self._shown) > 2 * MAX_SHOWN_TURNS:
                self._keep_most()

    def page(self) -> str:
        """The page."""
        self._keep_most()
        return "".join(self._parts())

    @property
    def _names(self) -> Sequence[str]:
        return [under.name for under in self._under]

    def _keep_most(self) -> None:
        ordered = sorted(self._shown, key=lambda each: (not each.has_halt, -each.saved, -each.turns[0].calls))
        self._left_out += max(0, len(ordered) - MAX_SHOWN_TURNS)
        self._shown = ordered[:MAX_SHOWN_TURNS]

    def _parts(self) -> Iterator[str]:
        style = files("turnguard.headless").joinpath("report.css").read_text("utf-8")
        yield (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>turnguard replay: {text(self._title)}</title>\n<style>\n{style}</style>\n"
        )
        yield from self._header()
        yield from self._charts()
        parts = [self._timelines(), self._table()]
        for part in reversed(parts) if len(self._shown) > INDEXED else parts:
            yield from part
        yield f'<p class="quiet">Made by turnguard {text(self._version)}.</p>\n</html>\n'

    def _header(self) -> Iterator[str]:
        yield (
            f'<header><h1>turnguard replay</h1><span class="quiet">{text(self._title)}</span>\n'
            '<fieldset class="theme" aria-label="Colours">'
            '<label><input type="radio" name="theme" checked> as the system</label>'
            '<label><input type="radio" name="theme" id="light"> light</label>'
            '<label><input type="radio" name="theme" id="dark"> dark</label></fieldset></header>\n'
        )
        counted = (
            ("", self.turns, "turn" if self.turns == 1 else "turns"),
            ("", len(self._files), "transcript" if len(self._files) == 1 else "transcripts"),
            ("", self._calls, "call" if self._calls == 1 else "calls"),
        )
        if len(self._under) == 1:
            yield _tiles(*counted, *_fates(self._under[0]))
            return
        yield _tiles(*counted)
        for under in self._under:
            yield f'<p class="under">{text(under.name)}</p>\n'
            yield _tiles(*_fates(under))

    # --- distributions ------------------------------------------------------------------------------------------------

    def _charts(self) -> Iterator[str]:
        yield '<div class="charts">\n'
        for under in self._under:
            which = f", {text(under.name)}" if len(self._under) > 1 else ""
            yield _chart(f"Calls in a turn{which}", LENGTHS, under.lengths)
            yield _chart(f"How often its most frequent call came{which}", REPEATS, under.repeats)
        yield "</div>\n"
        pairs = zip(("fine", "warn", "halt"), FATES.values(), strict=True)
        colours = "".join(f'<li><i style="background: var(--{colour})"></i>{words}</li>' for colour, words in pairs)
        yield f'<ul class="legend">{colours}</ul>\n'
        yield '<p class="quiet">Heights are square roots of the numbers, so that few turns are seen, too.</p>\n'

    # --- turns --------------------------------------------------------------------------------------------------------

    def _timelines(self) -> Iterator[str]:
        if not self._shown:
            yield "<h2>No turn would have been stopped or warned</h2>\n"
            return
        yield "<h2>Turns that would have been stopped or warned</h2>\n"
        yield '<p class="quiet">A mark is a call; each call that came more than once has a colour.</p>\n'
        yield legend()
        if self._left_out:
            left_out = f"{many(self._left_out, 'more turn')} {'is' if self._left_out == 1 else 'are'}"
            yield f'<p class="quiet">{left_out} counted, not drawn.</p>\n'
        for number, each in enumerate(self._shown):
            yield from drawn(number, each, self._names)

    def _table(self) -> Iterator[str]:
        if not self._shown:
            return
        is_compared = len(self._under) > 1
        yield '<h2>Evidence</h2>\n<div class="wide"><table><thead><tr><th>file</th>'
        yield '<th class="n">turn</th><th class="n">calls</th>'
        yield "<th>settings</th>" if is_compared else ""
        yield '<th class="n">before call</th><th>it would have been</th>'
        yield '<th>because</th><th>guard</th><th>setting</th><th class="n">saved</th></tr></thead><tbody>\n'
        for number, each in enumerate(self._shown):
            for turn, name in zip(each.turns, self._names, strict=True):
                under = f"<td>{text(name)}</td>" if is_compared else ""
                yield from _rows(number, each.file, turn, under)
        yield "</tbody></table></div>\n"


def _fates(under: _Under) -> Sequence[tuple[str, int, str]]:
    return (
        ("halt", under.fates["halted"], "would have been stopped"),
        ("warn", under.fates["warned"], "would only have been warned"),
        ("", under.saved, "call saved" if under.saved == 1 else "calls saved"),
    )


def _tiles(*numbers: tuple[str, int, str]) -> str:
    tiles = "".join(f'<div class="{kind}"><b>{number:,}</b>{words}</div>' for kind, number, words in numbers)
    return f'<div class="numbers">{tiles}</div>\n'


def _rows(number: int, file: str, turn: Turn, under: str) -> Iterator[str]:
    """The rows of a turn under one set of settings; `under`: the cell that names it."""
    for sight in turn.sights:
        saved = f"{turn.saved:,}" if sight is turn.halt else ""
        setting = sight.finding.setting if isinstance(sight.finding.setting, str) else ""
        yield (
            f'<tr><td class="file"><a href="#t{number}">{text(file)}</a></td>'
            f'<td class="n">{turn.number}</td><td class="n">{turn.calls:,}</td>{under}'
            f'<td class="n">{sight.call:,}</td><td>{WOULD_HAVE[sight.finding.action]}</td>'
            f"<td>{text(fact_of(sight.finding, sight.totals))}</td><td>{text(sight.finding.guard)}</td>"
            f'<td>{text(setting)}</td><td class="n">{saved}</td></tr>\n'
        )


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
                title = f"{_range(starts, index)}: {count:,} {FATES[fate]}"
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
