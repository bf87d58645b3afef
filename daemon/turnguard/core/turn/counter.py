"""The always-on key counter of a turn: how many calls, and how often the most repeated one was made."""

import re
from collections.abc import Iterable
from typing import Any

from turnguard.core.bounds import MAX_KEYS_A_TURN

CountedKey = int | str
"""A SHA-256 digest is held as a number of 128 bits, which takes half the memory; any other key as it is."""

is_digest = re.compile("[0-9a-f]{64}").fullmatch


def counted(key: str) -> CountedKey:
    """The form in which the counter holds a key. All of a digest goes into its number: both halves, folded."""
    return int(key[:32], 16) ^ int(key[32:], 16) if is_digest(key) else key


_DOUBTFUL = "doubtful "


def doubtful(key: CountedKey) -> CountedKey:
    """The same key, of a call of fidelity `low`: calls of that key may be several that only look alike."""
    return ~key if isinstance(key, int) else _DOUBTFUL + key


def is_doubtful(key: CountedKey) -> bool:
    """Whether this key came from `doubtful`."""
    return key < 0 if isinstance(key, int) else key.startswith(_DOUBTFUL)


def without_doubt(key: CountedKey) -> CountedKey:
    """The key that `doubtful` took, or one that it did not give as it is."""
    if not is_doubtful(key):
        return key
    return ~key if isinstance(key, int) else key.removeprefix(_DOUBTFUL)


def write_key(key: CountedKey | None) -> list[str] | None:
    """A key as plain values: a digest as a hexadecimal number, since JSON has no numbers so large."""
    if key is None:
        return None
    return ["digest", hex(key)] if isinstance(key, int) else ["key", key]


def read_key(written: list[str] | None) -> CountedKey | None:
    """The key that `write_key` wrote."""
    if written is None:
        return None
    kind, text = written
    return int(text, 16) if kind == "digest" else text


class KeyCounter:
    """Counts calls and keys.

    `max_repeat` is a running maximum over keys; `max_tool` is the tool that reached it and `max_key` its key. A retry
    puts the total back to the last commit and forgets every key, committed ones too, as upstream does. `unkeyed` is how
    many calls without a key came since keys were forgotten: no more of them can get one.
    """

    __slots__ = ("committed", "counts", "max_key", "max_repeat", "max_tool", "total", "unkeyed")

    def __init__(self) -> None:
        self.counts: dict[CountedKey, int] = {}
        self.total = 0
        self.committed = 0
        self.clear_repeats()

    def add(self, key: CountedKey | None, tool: str | None) -> None:
        """Counts one call. `key` None: a call that is never identical to another."""
        self.total += 1
        if key is None:
            self.unkeyed += 1
            return
        repeat = self.counts.get(key, 0) + 1
        if repeat == 1 and len(self.counts) >= MAX_KEYS_A_TURN:
            return
        self.counts[key] = repeat
        self.note_repeat(repeat, key, tool)

    def note_repeat(self, repeat: int, key: CountedKey, tool: str | None) -> None:
        """Raises the maximum, where another signal than the count of calls says that a call repeats."""
        if repeat > self.max_repeat:
            self.max_repeat, self.max_key, self.max_tool = repeat, key, tool

    @property
    def certain_repeat(self) -> int:
        """How often the most repeated call was surely made: of doubtful keys every second call counts."""
        if self.max_key is None or not is_doubtful(self.max_key):
            return self.max_repeat
        return max((times // 2 if is_doubtful(key) else times for key, times in self.counts.items()), default=0)

    def move(self, before: CountedKey | None, now: CountedKey | None, tool: str | None) -> bool:
        """Counts one call of the key `before` under another, as one of `tool`; the total stays.

        False when nothing moved: the keys are one, or the call's key was forgotten since.
        """
        if before == now or not (self.unkeyed if before is None else self.counts.get(before)):
            return False
        self._uncount(before)
        if before is not None and before == self.max_key:
            self._look_for_max()
        self.total -= 1
        self.add(now, tool)
        return True

    def take_back(self, keys: Iterable[CountedKey | None]) -> None:
        """Uncounts calls that were refused and never ran."""
        for key in keys:
            self.total -= 1
            self._uncount(key)
        self.committed = min(self.committed, self.total)
        self._look_for_max()

    def _uncount(self, key: CountedKey | None) -> None:
        if key is None:
            self.unkeyed = max(self.unkeyed - 1, 0)
        elif (times := self.counts.pop(key, 0)) > 1:
            self.counts[key] = times - 1

    def _look_for_max(self) -> None:
        most = max(self.counts, key=self.counts.__getitem__, default=None)
        self.max_repeat = 0 if most is None else self.counts[most]
        if most != self.max_key:
            self.max_key, self.max_tool = most, None

    def commit(self) -> None:
        """The response ended cleanly: its calls stay counted whatever happens to later ones."""
        self.committed = self.total

    def roll_back(self) -> None:
        """The response is streamed again."""
        self.total = self.committed
        self.clear_repeats()

    def clear_repeats(self) -> None:
        """Forgets every key; the total stays."""
        self.counts.clear()
        self.unkeyed = 0
        self.max_repeat = 0
        self.max_key: CountedKey | None = None
        self.max_tool: str | None = None

    def reset(self) -> None:
        """A new turn."""
        self.total = self.committed = 0
        self.clear_repeats()

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values."""
        return {
            "counts": [[write_key(key), n] for key, n in self.counts.items()],
            "unkeyed": self.unkeyed,
            "total": self.total,
            "committed": self.committed,
            "maxRepeat": self.max_repeat,
            "maxKey": write_key(self.max_key),
            "maxTool": self.max_tool,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a state that `snapshot` gave."""
        self.counts = {key: n for written, n in state["counts"] if (key := read_key(written)) is not None}
        self.total, self.committed, self.unkeyed = state["total"], state["committed"], state["unkeyed"]
        self.max_repeat, self.max_tool = state["maxRepeat"], state["maxTool"]
        self.max_key = read_key(state["maxKey"])
