"""The gated tier: detectors that are prone to false alarms, on only while `model.skipLoopDetection` is false."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from turnguard.core.thresholds import (
    ACTION_STAGNATION_THRESHOLD,
    ALTERNATING_PATTERN_CYCLES,
    GLOBAL_DUPLICATE_THRESHOLD,
    READ_FILE_LOOP_THRESHOLD,
)
from turnguard.core.turn.counter import KeyCounter
from turnguard.core.turn.reads import ReadWindow
from turnguard.core.turn.repeats import Alternation, Loop, Request, Streak
from turnguard.core.turn.text import CHANTING_IDENTICAL_SENTENCES, REPETITIVE_THOUGHTS, TextHistory, repeats_thought
from turnguard.core.turn.turn_guard import GLOBAL_TOOL_CALL_DUPLICATE

ALTERNATING_TOOL_CALL_PATTERN = "alternating_tool_call_pattern"
READ_FILE_LOOP = "read_file_loop"
ACTION_STAGNATION = "action_stagnation"


class Order(Struct):
    """What the detectors that go by the order of calls knew before the latest one."""

    alternation: list[tuple[str | None, str]]
    read_window: ReadWindow
    same_tool: Streak


class Heuristics:
    """What the gated detectors have seen.

    `requests` counts keys apart from the always-on counter, since a fallback clears the one and not the other.
    """

    __slots__ = ("alternation", "read_window", "requests", "same_tool", "text", "thoughts")

    def __init__(self) -> None:
        self.requests = KeyCounter()
        self.alternation = Alternation()
        self.read_window = ReadWindow()
        self.same_tool = Streak()
        self.text = TextHistory()
        self.thoughts = Streak()

    def check_call(self, request: Request) -> list[Loop]:
        """Every loop that a call closes, in the order in which upstream reports them: the last one names the halt."""
        self.forget_words()
        seen = (
            self._duplicate(request),
            self._alternating(request),
            self._read_loop(request),
            self._stagnation(request),
        )
        return [loop for loop in seen if loop is not None]

    def order(self) -> Order:
        """What goes by the order of calls, as it is now."""
        window, same_tool = self.read_window, self.same_tool
        return Order(
            list(self.alternation.calls),
            ReadWindow(window.recent, window.is_cold),
            Streak(same_tool.of, same_tool.length),
        )

    def check_rekeyed(self, before: Request, now: Request, order: Order | None) -> Sequence[Loop]:
        """Every loop that a call closes which turns out to be another one.

        `order`: what `order` gave before it came, where it is the latest call and its place is known.
        """
        has_moved = self.requests.move(before.repeat_key, now.repeat_key, now.name)
        seen = [self._duplicates_of(now) if has_moved else None]
        if order is not None:
            self.alternation.calls = list(order.alternation)
            self.read_window = ReadWindow(order.read_window.recent, order.read_window.is_cold)
            self.same_tool = Streak(order.same_tool.of, order.same_tool.length)
            seen += [self._alternating(now), self._read_loop(now), self._stagnation(now)]
        return [loop for loop in seen if loop is not None]

    def _duplicate(self, request: Request) -> Loop | None:
        """So many requests of one key anywhere in the turn. Stateful reads are judged by their results."""
        self.requests.add(request.repeat_key, request.name)
        return self._duplicates_of(request)

    def _duplicates_of(self, request: Request) -> Loop | None:
        key = request.repeat_key
        if key is None:
            return None
        count = self.requests.counts.get(key, 0)
        if count < GLOBAL_DUPLICATE_THRESHOLD:
            return None
        return Loop(GLOBAL_TOOL_CALL_DUPLICATE, count, GLOBAL_DUPLICATE_THRESHOLD, request.name, request.key)

    def _alternating(self, request: Request) -> Loop | None:
        """Two calls by turns."""
        paired_tool = self.alternation.add(request)
        if paired_tool is None:
            return None
        cycles = ALTERNATING_PATTERN_CYCLES
        return Loop(ALTERNATING_TOOL_CALL_PATTERN, cycles, cycles, request.name, request.key, paired_tool)

    def _read_loop(self, request: Request) -> Loop | None:
        """Hardly anything but reads of late."""
        reads = self.read_window.add(request.is_read)
        if reads < READ_FILE_LOOP_THRESHOLD:
            return None
        return Loop(READ_FILE_LOOP, reads, READ_FILE_LOOP_THRESHOLD, request.name)

    def _stagnation(self, request: Request) -> Loop | None:
        """One tool in a row, by its raw name, whatever it is asked. The cold start of reading does not shield it."""
        length = self.same_tool.add(request.name)
        if length < ACTION_STAGNATION_THRESHOLD:
            return None
        return Loop(ACTION_STAGNATION, length, ACTION_STAGNATION_THRESHOLD, request.name)

    def check_thought(self, subject: str, description: str) -> Loop | None:
        """Thoughts are compared as wholes, and their words as text, without a look at Markdown."""
        loop = repeats_thought(self.thoughts, subject, description)
        return loop or self.text.add(" ".join(part for part in (subject, description) if part))

    def note_progress(self, tool: str) -> None:
        """A stateful read returned something new: its calls so far were not in vain."""
        if self.same_tool.of == tool:
            self.same_tool.length = 1

    def forget_words(self) -> None:
        """Forgets text and thoughts, not whether a code fence is open."""
        self.text.clear()
        self.thoughts.clear()

    def retry(self, *, is_continuation: bool) -> None:
        """The response is streamed again; with a continuation its words so far stand."""
        self.requests.clear_repeats()
        self.alternation.clear()
        if not is_continuation:
            self.forget_words()

    def reset(self) -> None:
        """A new turn. Even now an open code fence stays open, as upstream leaves it."""
        self.retry(is_continuation=False)
        self.read_window = ReadWindow()
        self.same_tool.clear()

    def forgive(self, loop_type: str) -> None:
        """Clears the detector that tripped."""
        detectors = {
            GLOBAL_TOOL_CALL_DUPLICATE: self.requests.clear_repeats,
            ALTERNATING_TOOL_CALL_PATTERN: self.alternation.clear,
            READ_FILE_LOOP: self.read_window.clear,
            ACTION_STAGNATION: self.same_tool.clear,
            CHANTING_IDENTICAL_SENTENCES: self.text.clear,
            REPETITIVE_THOUGHTS: self.thoughts.clear,
        }
        detectors[loop_type]()

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values. It holds text the model wrote."""
        return {
            "requests": self.requests.snapshot(),
            "alternation": msgspec.to_builtins(self.alternation),
            "readWindow": msgspec.to_builtins(self.read_window),
            "sameTool": msgspec.to_builtins(self.same_tool),
            "text": self.text.snapshot(),
            "thoughts": msgspec.to_builtins(self.thoughts),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Heuristics":
        """The state that `snapshot` gave."""
        own = cls()
        own.requests.restore(state["requests"])
        own.alternation = msgspec.convert(state["alternation"], Alternation)
        own.read_window = msgspec.convert(state["readWindow"], ReadWindow)
        own.same_tool = msgspec.convert(state["sameTool"], Streak)
        own.text.restore(state["text"])
        own.thoughts = msgspec.convert(state["thoughts"], Streak)
        return own
