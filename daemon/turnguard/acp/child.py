"""The agent's process: a child in the client's own process group, which does not outlive turnguard.

It gets pipes for stdin and stdout and inherits the rest. Signals have for it the meaning that they had for turnguard.
Only the agent itself is ever signalled, by the id of a process that was not waited for yet; the process group is the
client's. Linux ends the agent when turnguard is killed; elsewhere it sees its stdin end.
"""

import os
from collections.abc import Collection, Sequence

from turnguard.process import SIGNAL_BASE, NotStartedError, start, widen


class Child:
    """A running agent. `stdin` and `stdout` are file descriptors that whoever uses them has to close."""

    def __init__(self, argv: Sequence[str], *, was_ignored: Collection[int] = ()) -> None:
        """Starts it. Raises NotStartedError.

        To be called as `process.start` is. `was_ignored`: the signals that turnguard was started with as ignored.
        """
        their_stdin, self.stdin = os.pipe()
        self.stdout, their_stdout = os.pipe()
        widen(self.stdin, self.stdout)
        try:
            self._process = start(argv, stdin=their_stdin, stdout=their_stdout, was_ignored=was_ignored)
        except NotStartedError:
            os.close(self.stdin)
            os.close(self.stdout)
            raise
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
