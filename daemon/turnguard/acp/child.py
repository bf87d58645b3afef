"""The agent's process: a child in the client's own process group, which does not outlive turnguard.

It gets pipes for stdin and stdout and inherits the rest. Signals have for it the meaning that they had for turnguard.
Only the agent itself is ever signalled, by the id of a process that was not waited for yet; the process group is the
client's. Linux ends the agent when turnguard is killed; elsewhere it sees its stdin end.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence

PIPE_BYTES = 256 * 1024
"""What the pipes to and from the agent hold, where Linux allows it: as much as is read at once."""

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit codes that shells give."""

SIGNAL_BASE = 128


class NotStartedError(Exception):
    """The agent could not be started. `exit_code` is what a shell would exit with."""

    def __init__(self, command: str, why: OSError) -> None:
        super().__init__(f"cannot start {command}: {why.strerror or why}")
        self.exit_code = NOT_FOUND if isinstance(why, FileNotFoundError | NotADirectoryError) else NOT_EXECUTABLE


class Child:
    """A running agent. `stdin` and `stdout` are file descriptors that whoever uses them has to close."""

    def __init__(self, argv: Sequence[str], *, was_ignored: Collection[int] = ()) -> None:
        """Starts it. Raises NotStartedError.

        To be called from the main thread, since the agent ends with the thread that started it, and before there are
        others, since only then it is safe to run Python between fork and exec. `was_ignored`: the signals that
        turnguard was started with as ignored, and the agent is to be, too.
        """
        their_stdin, self.stdin = os.pipe()
        self.stdout, their_stdout = os.pipe()
        widen(self.stdin, self.stdout)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is what the person asked for
                argv,
                stdin=their_stdin,
                stdout=their_stdout,
                preexec_fn=_before_exec(was_ignored) if sys.platform != "win32" else None,
            )
        except OSError as error:
            os.close(self.stdin)
            os.close(self.stdout)
            raise NotStartedError(argv[0], error) from error
        finally:
            os.close(their_stdin)
            os.close(their_stdout)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """What to exit with in its place: its own code, or 128 and the number of the signal that ended it.

        None: it runs.
        """
        code = self._process.poll()
        return code if code is None or code >= 0 else SIGNAL_BASE - code

    def send(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        self._process.send_signal(number)


def widen(*pipes: int) -> None:
    """A long line then takes fewer turns. Not every user may have so much, and what is no pipe stays as it is."""
    if sys.platform == "linux":
        import fcntl

        for pipe in pipes:
            try:
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                return


def _before_exec(was_ignored: Collection[int]) -> Callable[[], None]:
    """What the child does before it becomes the agent."""
    parent = os.getpid()
    die_with_parent = _death_signal()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for number in was_ignored:
            signal.signal(number, signal.SIG_IGN)
        die_with_parent()
        if os.getppid() != parent:  # it was killed before that was set
            os._exit(SIGNAL_BASE + signal.SIGKILL)

    return prepare


def _death_signal() -> Callable[[], object]:
    """Has the kernel kill this process with its parent: what was done to turnguard was meant for the agent."""
    if sys.platform != "linux":
        return lambda: None
    import ctypes

    prctl, set_death_signal = ctypes.CDLL(None).prctl, 1
    arguments = [ctypes.c_ulong(value) for value in (signal.SIGKILL, 0, 0, 0)]
    return lambda: prctl(set_death_signal, *arguments)
