"""What is watched of a running program: a copy of its stdout goes in, and what the guards say of it comes out.

It never fails: whatever goes wrong here, the program's output passes, and a person hears that nothing is guarded.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from turnguard.core.guard import InvalidEventError
from turnguard.headless.live import Live
from turnguard.headless.stream import Stream
from turnguard.headless.words import fresh, notices_of
from turnguard.transcript import Told
from turnguard_protocol.verdicts import Action, Verdict


class Seen(NamedTuple):
    """A verdict that says something.

    `calls`: how many the stream had shown of the turn by then; `has_run`: all of them had results.
    """

    verdict: Verdict
    calls: int
    has_run: bool


class Watching:
    """Over one program. `seen`: what the guards found, for whoever takes it. `last`: the last verdict of all.

    `failure`: the name of the error that ended the watching. `is_over`: nothing is looked at any more.
    """

    def __init__(self, stream: Stream, live: Live, *, is_halting: bool) -> None:
        """`is_halting`: a halt is obeyed, so what comes after it is not looked at."""
        self.stream = stream
        self.seen: deque[Seen] = deque()
        self.last: Verdict | None = None
        self.failure: str | None = None
        self.is_over = False
        self._live = live
        self._is_halting = is_halting

    @property
    def is_blind(self) -> bool:
        """Whether the program's output was no stream that is known."""
        return self.stream.is_unknown

    def see(self, block: bytes) -> None:
        """Looks at some bytes of the output."""
        self._see(lambda: self.stream.feed(block))

    def end(self) -> None:
        """Looks at what only the end completes."""
        self._see(self.stream.end)

    def _see(self, lines: Callable[[], Iterator[list[Told]]]) -> None:
        if self.is_over:
            return
        try:
            for told in lines():
                self._line(told)
                if self.is_over:
                    return
        except Exception as error:  # the program must not suffer from a mistake of ours
            self.failure, self.is_over = type(error).__name__, True
        self.is_over = self.is_over or self.is_blind

    def _line(self, told: list[Told]) -> None:
        found: list[Verdict] = []
        for each in told:
            with suppress(InvalidEventError):  # one call or result more or less
                verdict = self._live.hear(each)
                if verdict is not None:
                    self.last = verdict
                    if fresh(verdict) or notices_of(verdict):
                        found.append(verdict)
        for verdict in found:
            self.seen.append(Seen(verdict, self._live.calls, has_run=not self._live.is_running))
            self.is_over = self.is_over or (self._is_halting and verdict.action is Action.HALT)
