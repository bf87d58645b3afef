"""The process of the client: when it ends, so does the daemon, even if somebody else holds the pipes open."""

import os
import sys
import time
from collections.abc import Callable
from functools import partial

from turnguard.service import background
from turnguard.service.ready import wait_readable

POLL_SECONDS = 1.0


def watch(pid: int, on_end: Callable[[], None]) -> None:
    """Calls `on_end` from a thread of its own, once the process has ended. Ids that no client can have are ignored."""
    if pid > 0 and pid != os.getpid():
        background.start("client process", partial(_wait, pid, on_end))


def _wait(pid: int, on_end: Callable[[], None]) -> None:
    _wait_for_end(pid)
    on_end()


if sys.platform == "win32":
    import ctypes

    _SYNCHRONIZE = 0x0010_0000
    _FOREVER = 0xFFFF_FFFF

    def _wait_for_end(pid: int) -> None:
        """Waits for the end of a process; one that cannot be opened has ended."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = kernel.OpenProcess(_SYNCHRONIZE, False, pid)
        if handle:
            kernel.WaitForSingleObject(ctypes.c_void_p(handle), _FOREVER)
            kernel.CloseHandle(ctypes.c_void_p(handle))

else:

    def _wait_for_end(pid: int) -> None:
        """Waits for the end of a process: by a handle, which sees the end of a zombie too, else by looking often."""
        if sys.platform == "linux":
            try:
                handle = os.pidfd_open(pid)
            except OSError:  # no such process, or a kernel or sandbox without pidfd
                pass
            else:
                wait_readable(handle)
                os.close(handle)
                return
        while _is_alive(pid):
            time.sleep(POLL_SECONDS)

    def _is_alive(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:  # somebody else's process
            return True
        return True
