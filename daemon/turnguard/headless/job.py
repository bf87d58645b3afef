"""A program in a process group of its own, at the terminal as a shell would have started it.

    signals to turnguard       go to the group
    the terminal               is the group's from the start when turnguard alone is the shell's foreground job, and
                               stdout is no pipe to another program of the job; else when the program first needs it
    Ctrl-Z                     stops the group; then turnguard stops its own, as the terminal would have done
    fg, bg, SIGCONT            turnguard goes on, and the group with it; with fg the terminal is the group's again
    Ctrl-C or Ctrl-\\ ends it    turnguard ends by the same signal, and so do those beside it when only the group had it

Where there is no controlling terminal only the first line holds.
"""

import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from turnguard.process import SIGNAL_BASE, NotStartedError, start

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""What is meant for the program when turnguard gets it."""

BY_TERMINAL: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""With what a terminal stops programs."""

NEEDS_TERMINAL: Final = frozenset({signal.SIGTTIN, signal.SIGTTOU})
"""With what it stops those that would use it from the background."""

INTERRUPTS: Final = frozenset({signal.SIGINT, signal.SIGQUIT})


class Signals:
    """What the process does with signals from now on. `came`: those for the program, in order."""

    def __init__(self) -> None:
        self.came: list[int] = []
        for each in PASSED_ON:
            if signal.getsignal(each) != signal.SIG_IGN:
                self.catch(each)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # so that it wakes

    def catch(self, number: int) -> None:
        """Has this one noted."""
        signal.signal(number, lambda number, _frame: self.came.append(number))


class Job:
    """A running program. `code` None: it runs; else as Python gives it, negative for a signal."""

    def __init__(self, argv: Sequence[str], signals: Signals, *, stdout: int) -> None:
        """Starts it with turnguard's stdin, which is turnguard's no longer. Raises NotStartedError.

        To be called as `process.start` is.
        """
        self.code: int | None = None
        self._signals = signals
        self._is_stopped = self._had_terminal = False
        self._own_group = os.getpgrp()
        self._terminal = _controlling_terminal()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        if self._terminal is not None:  # turnguard writes from the background, and hands the terminal on
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        is_foreground = self._has_terminal and os.getpid() == self._own_group and not _is_pipe(1)

        def before_exec() -> None:
            if is_foreground:
                self._give(os.getpid())
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        try:
            self._process = start(argv, stdin=None, stdout=stdout, has_own_group=True, before_exec=before_exec)
        except NotStartedError:
            if is_foreground:
                self._give(self._own_group)
            raise
        self._group = self._process.pid
        _let_go_of_what_was_given()

    @property
    def pid(self) -> int:
        """Its process id, and its group's."""
        return self._group

    def send(self, number: int) -> None:
        """Sends the group a signal; if the program is stopped it goes on to take it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
            if self._is_stopped and number not in BY_TERMINAL:
                os.killpg(self._group, signal.SIGCONT)

    def has_members(self) -> bool:
        """Whether anybody is left in the group of a program that has ended, whom turnguard could end."""
        try:
            os.killpg(self._group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return _is_any_alive(self._group)

    def look(self) -> None:
        """Finds out whether it has ended or was stopped, and does in the latter case what a shell's job does."""
        while self.code is None:
            pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return
            self._is_stopped = os.WIFSTOPPED(status)
            if self._is_stopped:
                self._was_stopped(os.WSTOPSIG(status))
            elif not os.WIFCONTINUED(status):
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)

    def go_on(self) -> None:
        """Turnguard was continued: the group goes on, with the terminal if turnguard was given that."""
        if self._has_terminal:
            self._give(self._group)
        self.send(signal.SIGCONT)

    def exit_code(self) -> int:
        """What a shell would say of how it ended."""
        code = self.code or 0
        return code if code >= 0 else SIGNAL_BASE - code

    def give_back(self) -> None:
        """The terminal is turnguard's again, if it was the group's."""
        with suppress(OSError):  # it is gone
            if self._terminal is not None and os.tcgetpgrp(self._terminal) == self._group:
                self._had_terminal = True
                self._give(self._own_group)

    def end_like_it(self) -> None:
        """Ends turnguard as the program ended, if that was by Ctrl-C: a shell's script and its loops end with it.

        To be called after `give_back`.
        """
        number = -(self.code or 0)
        if number not in INTERRUPTS or self._terminal is None:
            return
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(number, signal.SIG_DFL)
        if self._had_terminal:
            os.killpg(self._own_group, number)
        else:
            os.kill(os.getpid(), number)

    # --- the terminal -------------------------------------------------------------------------------------------------

    def _was_stopped(self, number: int) -> None:
        if self._terminal is None or number not in BY_TERMINAL:  # whoever stopped it will have it go on
            return
        if number in NEEDS_TERMINAL and self._has_terminal:
            self.go_on()
            return
        self._stop()
        if signal.SIGCONT in self._signals.came:
            return
        # Nobody could have turnguard go on, so the kernel did not stop it; then it does not stop programs either.
        if number in NEEDS_TERMINAL:
            self.send(signal.SIGHUP)
        self.go_on()

    def _stop(self) -> None:
        """Stops turnguard and those beside it, until somebody has them go on."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(self._own_group, signal.SIGTSTP)
        self._signals.catch(signal.SIGTSTP)

    @property
    def _has_terminal(self) -> bool:
        """Whether turnguard's own group is the terminal's foreground."""
        try:
            return self._terminal is not None and os.tcgetpgrp(self._terminal) == self._own_group
        except OSError:  # it is gone
            return False

    def _give(self, group: int) -> None:
        with suppress(OSError):
            if self._terminal is not None:
                os.tcsetpgrp(self._terminal, group)


def _is_any_alive(group: int) -> bool:
    """Whether a group has members that are no zombies, for whom nobody may ever wait. Off Linux it is taken to have."""
    if sys.platform != "linux":
        return True
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it has ended
                state, _parent, its_group, *_ = process.joinpath("stat").read_bytes().rpartition(b")")[2].split()
                if int(its_group) == group and state not in b"ZX":
                    return True
    return False


def _controlling_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _let_go_of_what_was_given() -> None:
    """Files that the program has now: a writer is to see when it stops reading, and a reader when it stops writing."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for name in [each.name for each in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # the listing's own
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))
