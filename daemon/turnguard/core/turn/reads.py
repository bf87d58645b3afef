"""Reading in circles, and reads whose results tell progress from a frozen poll.

Most tools are judged by what is asked of them. A *stateful read* asks for the state of something that runs, so the same
call again is fair as long as its results change: it is judged by its results.
"""

from msgspec import Raw, Struct

from turnguard.core.bounds import MAX_KEYS_A_TURN
from turnguard.core.identity import read_outcome, repeat_key_of
from turnguard.core.thresholds import MAX_PENDING_STATEFUL_READS, READ_FILE_LOOP_WINDOW
from turnguard_protocol.events import Outcomes, Result

STATEFUL_READ_TOOL = "task_list"
"""The only stateful read of Qwen Code 0.24.4."""

NO_RESPONSE = read_outcome(Raw(b"{}"))
"""The fingerprint of a result without a response: upstream takes it for an empty one."""

_WINDOW = (1 << READ_FILE_LOOP_WINDOW) - 1


class ReadWindow(Struct):
    """Which of the last calls only read, one bit a call, the latest lowest.

    `is_cold`: only reads came so far. A turn may open with any number of them.
    """

    recent: int = 0
    is_cold: bool = True

    def add(self, is_read: bool) -> int:
        """The reads in the window, 0 while cold. The call that ends the cold start is judged already."""
        self.recent = (self.recent << 1 | is_read) & _WINDOW
        self.is_cold = self.is_cold and is_read
        return 0 if self.is_cold else self.recent.bit_count()

    def clear(self) -> None:
        """Forgets the last calls."""
        self.recent = 0


class ReadResult(Struct):
    """The last result of a stateful read, and how often in a row it came."""

    fingerprint: str
    count: int = 1


class StatefulReads(Struct):
    """What stateful reads returned in this turn.

    `pending`: the keys of calls whose results are awaited, by call id. `last`: the last result of each key.
    `streak_results`, `streak_unchanged`: the results that came for the key of the identical streak while it lasted, and
    how many of them in a row, up to the last, equalled the one before.
    """

    pending: dict[str, str | None] = {}
    last: dict[str, ReadResult] = {}
    streak_results: int = 0
    streak_unchanged: int = 0

    def expect(self, call_id: str | None, key: str | None) -> None:
        """A stateful read was asked for."""
        if not call_id:
            return
        if call_id not in self.pending and len(self.pending) >= MAX_PENDING_STATEFUL_READS:
            del self.pending[next(iter(self.pending))]
        self.pending[call_id] = key

    def forget(self, call_id: str) -> bool:
        """The result of a call is awaited no more; whether it was."""
        is_awaited = call_id in self.pending
        self.pending.pop(call_id, None)
        return is_awaited

    def key_of(self, result: Result) -> str | None:
        """The key that a result belongs to; None when it belongs to no stateful read."""
        if result.id is not None:
            return self.pending.pop(result.id, None)
        if result.name != STATEFUL_READ_TOOL:
            return None
        return repeat_key_of(result.key)

    def record(self, key: str, fingerprint: str, *, in_streak: bool) -> tuple[int, bool]:
        """How often in a row this result came for the key, and whether it differs from the result before.

        `in_streak`: the key is that of the identical streak.
        """
        last = self.last.get(key)
        is_same = last is not None and last.fingerprint == fingerprint
        if in_streak:
            self.streak_results += 1
            self.streak_unchanged = self.streak_unchanged + 1 if is_same else 0
        count = last.count + 1 if last is not None and is_same else 1
        if last is not None or len(self.last) < MAX_KEYS_A_TURN:
            self.last[key] = ReadResult(fingerprint, count)
        return count, last is not None and not is_same

    def proves_change(self, streak: int) -> bool:
        """Whether an identical streak this long is fair: every call but the last has a result, and not all are equal.

        Too few results prove nothing.
        """
        return self.streak_results >= streak - 1 and self.streak_unchanged < streak - 2

    def start_streak(self) -> None:
        """Another identical streak began, or the same one begins anew."""
        self.streak_results = self.streak_unchanged = 0

    def forget_counts(self) -> None:
        """Forgets how often each result came, not the result itself."""
        self.start_streak()
        for last in self.last.values():
            last.count = 0


def fingerprint_of(result: Result) -> str | None:
    """The identity of what a read returned; None when there is a response whose identity nobody gave."""
    outcome = result.outcome
    if outcome is None:
        return NO_RESPONSE
    return outcome.read if isinstance(outcome, Outcomes) else outcome
