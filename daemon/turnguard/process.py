"""Running somebody's program and standing before it: how it starts, what it inherits, what wakes who watches it.

Linux ends the program when turnguard is killed; elsewhere it goes on alone.
"""

import argparse
import errno
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress

from turnguard.harmless import harmless

PIPE_BYTES = 256 * 1024
"""What the pipes to and from a program hold, where Linux allows it: as much as is read at once."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit codes that shells give."""

SIGNAL_BASE = 128
"""What shells add to the number of the signal that ended a program."""

SEPARATOR = "--"
"""What stands on a command line between what is turnguard's and the program."""


class NotStartedError(Exception):
    """The program could not be started. `exit_code` is what a shell would exit with."""

    def __init__(self, command: str, why: OSError) -> None:
        super().__init__(f"cannot start {harmless(command)}: {why.strerror or why}")
        self.exit_code = NOT_FOUND if isinstance(why, FileNotFoundError | NotADirectoryError) else NOT_EXECUTABLE


def start(
    argv: Sequence[str],
    *,
    stdin: int | None,
    stdout: int,
    was_ignored: Collection[int] = (),
    has_own_group: bool = False,
    before_exec: Callable[[], object] | None = None,
) -> "subprocess.Popen[bytes]":
    """Starts a program. `stdin` None: turnguard's own. Raises NotStartedError.

    To be called from the main thread, since the program ends with the thread that started it, and before there are
    others, since only then it is safe to run Python between fork and exec. `was_ignored`: the signals that turnguard
    was started with as ignored, and the program is to be, too. `before_exec` is called in the new process. The program
    gets the files that turnguard was given, but none that turnguard opened.
    """
    if not argv[0]:  # which Python takes for a directory of PATH
        raise NotStartedError("''", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    try:
        return subprocess.Popen(  # noqa: S603 - the command is what the person asked for
            argv,
            stdin=stdin,
            stdout=stdout,
            close_fds=False,
            process_group=0 if has_own_group else None,
            preexec_fn=_prepared(was_ignored, before_exec) if sys.platform != "win32" else None,
        )
    except OSError as error:
        raise NotStartedError(argv[0], error) from error


def widen(*pipes: int) -> None:
    """A long line then takes fewer turns. Not every user may have so much, and what is no pipe stays as it is."""
    if sys.platform == "linux":
        import fcntl

        for pipe in pipes:
            try:
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                return


def open_standard_streams() -> None:
    """What was closed before turnguard began leads nowhere now; else the next pipe would get its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(fd, True)


def seconds(text: str) -> float:
    """A time on a command line. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"invalid number of seconds: {text!r}")
    return value


class Waker:
    """Wakes the main thread: from other threads, and by signals."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)

    def wake(self) -> None:
        """Makes `fd` readable."""
        with suppress(BlockingIOError):  # it is then
            os.write(self._write_fd, b"\0")

    def take(self) -> None:
        """Makes `fd` unreadable."""
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def on_signals(self) -> None:
        """Signals wake it too."""
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)


@contextmanager
def signals_stay_here() -> Generator[None]:
    """Threads that are started meanwhile get no signals: this thread does.

    So what it sends to its own process has been taken when `kill` returns: POSIX promises it where no other thread
    could take that.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _prepared(was_ignored: Collection[int], before_exec: Callable[[], object] | None) -> Callable[[], None]:
    """What the new process does before it becomes the program."""
    parent = os.getpid()
    die_with_parent = _death_signal()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for number in was_ignored:
            signal.signal(number, signal.SIG_IGN)
        die_with_parent()
        if os.getppid() != parent:  # it was killed before that was set
            os._exit(SIGNAL_BASE + signal.SIGKILL)
        if before_exec is not None:
            before_exec()

    return prepare


def _death_signal() -> Callable[[], object]:
    """Has the kernel kill this process with its parent: what was done to turnguard was meant for the program."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl, set_death_signal = ctypes.CDLL(None).prctl, 1
    arguments = [ctypes.c_ulong(value) for value in (signal.SIGKILL, 0, 0, 0)]
    return lambda: prctl(set_death_signal, *arguments)
