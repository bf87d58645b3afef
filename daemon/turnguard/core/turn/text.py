"""Text that chants and thoughts that repeat.

Lengths and positions are UTF-16 units, as in JavaScript: a character outside the basic plane is two. Text is therefore
held in *unit form*, in which such a character is its two surrogates.
"""

import re
from collections.abc import Sequence
from typing import Any

from turnguard.core.javascript import WHITE_SPACE, trim
from turnguard.core.thresholds import (
    CONTENT_ANALYSIS_LENGTH,
    CONTENT_CHUNK_SIZE,
    CONTENT_LOOP_MAX_AVERAGE_DISTANCE,
    CONTENT_LOOP_THRESHOLD,
    MAX_HISTORY_LENGTH,
    PERIODIC_RUN_MIN_SPAN,
    PERIODIC_RUN_THRESHOLD,
    PERIODIC_RUN_THRESHOLD_FULL_HISTORY,
    THOUGHT_DESCRIPTION_LENGTH,
    THOUGHT_REPEAT_THRESHOLD,
)
from turnguard.core.turn.repeats import Loop, Streak

CHANTING_IDENTICAL_SENTENCES = "chanting_identical_sentences"
REPETITIVE_THOUGHTS = "repetitive_thoughts"

FENCE = "```"

_SPACE = f"[{WHITE_SPACE}]"
_INDENT = "[" + WHITE_SPACE.replace("\n", "") + "]*+"
"""White space before something at the start of a line. Without newlines, which only lead to a later start of a line."""

_TABLE = r"\|[^\n\r\u2028\u2029]*\||[|+-]{3}"
_LIST_ITEM = rf"(?:[-*+]|[0-9]+\.){_SPACE}"
_STRUCTURE = re.compile(rf"(?:\A|\n)(?:{_INDENT}(?:{_TABLE}|{_LIST_ITEM})|(?:#+|>){_SPACE})")
"""Tables, list items, headings and quotes: prose starts anew after them."""

_DIVIDER = re.compile(r"[-+_=*\u2500-\u257f]+")

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


def to_units(text: str) -> str:
    """Text in unit form."""
    return _ASTRAL.sub(_surrogates, text)


def _surrogates(astral: re.Match[str]) -> str:
    high, low = divmod(ord(astral[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def from_units(units: str) -> str:
    """Text in its usual form; surrogates without their other half stay as they are."""
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class TextHistory:
    """The prose of late, and where each of its windows of `CONTENT_CHUNK_SIZE` units occurs.

    `windows` maps the hash of a window to the starts of its occurrences. As upstream hashes UTF-8, in which half a
    character is U+FFFD, different windows can have one hash; it belongs to the window that came first.
    `in_code`: a code fence is open. Nothing but a fence changes that.
    """

    __slots__ = ("in_code", "text", "windows")

    def __init__(self) -> None:
        self.in_code = False
        self.clear()

    def clear(self) -> None:
        """Forgets the prose."""
        self.text = ""
        self.windows: dict[int, list[int]] = {}

    def add_delta(self, delta: str) -> Loop | None:
        """Adds a piece of the answer, unless it is code or a divider. Where Markdown has structure, prose starts anew.

        A fence cut in two by the border of deltas is missed, as upstream misses it.
        """
        fences = delta.count(FENCE)
        is_divider = _DIVIDER.fullmatch(delta) is not None
        if fences or is_divider or _STRUCTURE.search(delta):
            self.clear()
        was_in_code = self.in_code
        self.in_code = was_in_code != (fences % 2 == 1)
        if was_in_code or self.in_code or is_divider:
            return None
        return self.add(delta)

    def add(self, prose: str) -> Loop | None:
        """Adds prose; a loop when it chants."""
        unread = max(0, len(self.text) - CONTENT_CHUNK_SIZE + 1)
        self.text += to_units(prose)
        unread = max(0, unread - self._trim())
        for start in range(unread, len(self.text) - CONTENT_CHUNK_SIZE + 1):
            loop = self._see_window(start)
            if loop is not None:
                return loop
        return None

    def _trim(self) -> int:
        """Cuts old text off once there is too much, and says how much of it."""
        if len(self.text) <= MAX_HISTORY_LENGTH:
            return 0
        cut = len(self.text) - CONTENT_ANALYSIS_LENGTH
        self.text = self.text[cut:]
        kept = ((window, [start - cut for start in starts if start >= cut]) for window, starts in self.windows.items())
        self.windows = {window: starts for window, starts in kept if starts}
        return cut

    def _see_window(self, start: int) -> Loop | None:
        window = self._window(start)
        starts = self.windows.setdefault(_hash(window), [])
        while starts and starts[0] < self._oldest():
            del starts[0]
        if starts and self._window(starts[0]) != window:
            return None
        starts.append(start)
        return self._crowded(starts) or self._periodic(starts)

    def _oldest(self) -> int:
        """Where the text that counts begins, whether or not what is older was cut off yet."""
        return max(0, len(self.text) - CONTENT_ANALYSIS_LENGTH)

    def _window(self, start: int) -> str:
        return self.text[start : start + CONTENT_CHUNK_SIZE]

    def _crowded(self, starts: Sequence[int]) -> Loop | None:
        """The loop of a window that came often and close together, wherever exactly."""
        if len(starts) < CONTENT_LOOP_THRESHOLD:
            return None
        distance = starts[-1] - starts[-CONTENT_LOOP_THRESHOLD]
        if distance > CONTENT_LOOP_MAX_AVERAGE_DISTANCE * (CONTENT_LOOP_THRESHOLD - 1):
            return None
        return Loop(CHANTING_IDENTICAL_SENTENCES, CONTENT_LOOP_THRESHOLD, CONTENT_LOOP_THRESHOLD)

    def _periodic(self, starts: Sequence[int]) -> Loop | None:
        """The loop of a block too long to crowd, repeated unit by unit.

        A short run of a very long block is enough where all the text that counts is that block over and over.
        """
        if len(starts) < PERIODIC_RUN_THRESHOLD_FULL_HISTORY:
            return None
        run, period = _last_run(starts), starts[-1] - starts[-2]
        if run >= PERIODIC_RUN_THRESHOLD:
            first, threshold = starts[-run], PERIODIC_RUN_THRESHOLD
        elif run >= PERIODIC_RUN_THRESHOLD_FULL_HISTORY and len(self.text) >= CONTENT_ANALYSIS_LENGTH:
            first, threshold = self._oldest(), PERIODIC_RUN_THRESHOLD_FULL_HISTORY
        else:
            return None
        span = self.text[first : starts[-1] + CONTENT_CHUNK_SIZE]
        if len(span) < PERIODIC_RUN_MIN_SPAN or span[period:] != span[:-period]:
            return None
        return Loop(CHANTING_IDENTICAL_SENTENCES, run, threshold)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values. It holds text the model wrote."""
        starts = [list(starts) for starts in self.windows.values()]
        return {"text": from_units(self.text), "starts": starts, "inCode": self.in_code}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.text, self.in_code = to_units(state["text"]), state["inCode"]
        self.windows = {_hash(self._window(starts[0])): list(starts) for starts in state["starts"]}


def _hash(window: str) -> int:
    return hash(window if window.isascii() else _LONE_SURROGATE.sub("\ufffd", window))


def _last_run(starts: Sequence[int]) -> int:
    """How many of these, up to the last, are equally far apart."""
    period, run = starts[-1] - starts[-2], 2
    while run < len(starts) and starts[-run] - starts[-run - 1] == period:
        run += 1
    return run


def thought_identity(subject: str, description: str) -> str:
    """What makes two thoughts equal, joined as upstream joins it."""
    subject = trim(subject.lower())
    description = from_units(to_units(trim(description.lower()))[:THOUGHT_DESCRIPTION_LENGTH])
    return f"{subject}|{description}"


def repeats_thought(thoughts: Streak, subject: str, description: str) -> Loop | None:
    """Adds a thought to the streak of equal ones; a loop when there are too many."""
    length = thoughts.add(thought_identity(subject, description))
    if length < THOUGHT_REPEAT_THRESHOLD:
        return None
    return Loop(REPETITIVE_THOUGHTS, length, THOUGHT_REPEAT_THRESHOLD)
