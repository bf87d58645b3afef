"""What the main thread of `turnguard exec` does: it hears the guards, stops the program, passes signals on, and waits.

a halt        SIGINT to the program's group; after the grace SIGTERM, after as much again SIGKILL. When the program
              has ended and others of its group are left, they get the next of these at once
it ends       what it wrote is delivered first, however long that takes; after a signal that asked for the end
              that is not waited for
"""

import select
import signal
from collections.abc import Callable
from time import monotonic
from typing import Final, Literal, NamedTuple

from turnguard.headless import words
from turnguard.headless.job import Job, Signals
from turnguard.headless.passing import Passing
from turnguard.headless.watching import Seen, Watching
from turnguard.process import Waker, signals_stay_here
from turnguard_protocol.verdicts import Action

HALTED: Final = 86
"""The exit code when the guard stopped the program. No shell, no signal and nothing in sysexits.h gives it."""

NOT_DELIVERED: Final = 74
"""The exit code when the program succeeded and its output could not be written (EX_IOERR)."""

ASKED_SECONDS: Final = 1.0
"""How long whoever asked for the end waits for output that nobody reads."""

KILLED_SECONDS: Final = 1.0
"""How long a group that was killed is waited for."""

LOOK_SECONDS: Final = 0.05
"""Between two looks at what is left of a group."""

DEAF_SECONDS: Final = 1.0
"""How long a program has to end after its stdout before people are told that it is not guarded any more."""

ENDINGS: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP})
"""Signals that ask for the end."""

OnLoop = Literal["halt", "warn"]
"""What a halting verdict does: it stops the program, or it is only told."""


class Ended(NamedTuple):
    """How it ended: the code to exit with, and what the guard stopped it for, if it did."""

    code: int
    halt: Seen | None


class Run:
    """One program, guarded. `say` prints a line for people."""

    def __init__(
        self,
        job: Job,
        passing: Passing,
        watching: Watching,
        signals: Signals,
        waker: Waker,
        say: Callable[[str], None],
        *,
        on_loop: OnLoop,
        grace: float,
    ) -> None:
        self._job = job
        self._passing = passing
        self._watching = watching
        self._signals = signals
        self._waker = waker
        self._say = say
        self._on_loop = on_loop
        self._grace = grace
        self._halt: Seen | None = None
        self._next: list[tuple[float, int]] = []
        self._ended_at: float | None = None
        self._asked_at: float | None = None
        self._silent_at: float | None = None
        self._is_blindness_told = False

    def until_it_ends(self) -> Ended:
        """Returns when the program has ended and everything is said and done."""
        self._waker.on_signals()
        with signals_stay_here():
            self._passing.start()
        while True:
            now = monotonic()
            self._job.look()
            self._pass_on(now)
            self._hear(now)
            self._stop_further(now)
            if self._is_over(now):
                self._hear(now)
                return Ended(self._code(), self._halt)
            self._wait(now)

    def _pass_on(self, now: float) -> None:
        while self._signals.came:
            number = self._signals.came.pop(0)
            if number == signal.SIGCONT:
                self._job.go_on()
            elif self._job.code is None:
                self._job.send(number)
            if number in ENDINGS:
                self._asked_at = now

    def _hear(self, now: float) -> None:
        while self._watching.seen:
            seen = self._watching.seen.popleft()
            for notice in words.notices_of(seen.verdict):
                self._say(notice)
            if not words.fresh(seen.verdict) or self._halt is not None:
                continue
            if self._on_loop == "warn" or seen.verdict.action is not Action.HALT:
                self._say(words.warning(seen.verdict, is_only_told=self._on_loop == "warn"))
            elif self._job.code is not None:
                self._say(words.too_late(seen.verdict))
            else:
                self._halt = seen
                grace = self._grace
                self._next = [(now, signal.SIGINT), (now + grace, signal.SIGTERM), (now + 2 * grace, signal.SIGKILL)]
        self._tell_blindness(now)

    def _tell_blindness(self, now: float) -> None:
        if self._passing.is_over and self._silent_at is None:
            self._silent_at = now
        if self._is_blindness_told:
            return
        is_deaf = self._is_deaf() and self._silent_at is not None and now - self._silent_at >= DEAF_SECONDS
        if self._watching.is_blind or is_deaf:
            self._is_blindness_told = True
            self._say(words.unknown() if self._watching.is_blind else words.deaf())

    def _is_deaf(self) -> bool:
        """Whether the program goes on without a stdout that could be read."""
        return self._passing.is_over and self._job.code is None and self._halt is None

    def _stop_further(self, now: float) -> None:
        if self._job.code is not None and self._ended_at is None:
            self._ended_at = now
            self._passing.program_ended()
            if self._next:
                self._next = [(now, signal.SIGTERM), (now + self._grace, signal.SIGKILL)]
        while self._next and self._next[0][0] <= now:
            number = self._next.pop(0)[1]
            if self._job.code is not None and not self._job.has_members():
                self._next = []
                return
            self._job.send(number)
            if number == signal.SIGKILL and self._job.code is not None:
                self._ended_at = now

    def _is_over(self, now: float) -> bool:
        if self._ended_at is None:
            return False
        if self._asked_at is not None and now - max(self._ended_at, self._asked_at) >= ASKED_SECONDS:
            self._passing.cut()
            return True
        return self._passing.is_over and not self._is_group_awaited(now)

    def _is_group_awaited(self, now: float) -> bool:
        if self._halt is None or self._ended_at is None:
            return False
        return (bool(self._next) or now - self._ended_at < KILLED_SECONDS) and self._job.has_members()

    def _code(self) -> int:
        if self._halt is not None:
            return HALTED
        code = self._job.exit_code()
        return NOT_DELIVERED if code == 0 and self._passing.failure is not None else code

    def _wait(self, now: float) -> None:
        due = [at for at, _ in self._next[:1]]
        if self._ended_at is not None and self._asked_at is not None:
            due.append(max(self._ended_at, self._asked_at) + ASKED_SECONDS)
        if self._halt is not None and self._ended_at is not None and self._passing.is_over:
            due.append(now + LOOK_SECONDS)
        if self._is_deaf() and self._silent_at is not None and not self._is_blindness_told:
            due.append(self._silent_at + DEAF_SECONDS)
        poll = select.poll()
        poll.register(self._waker.fd, select.POLLIN)
        poll.poll(None if not due else max(0.0, min(due) - now) * 1000)
        self._waker.take()
