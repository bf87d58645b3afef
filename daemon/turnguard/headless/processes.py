"""Work on many files by several processes at once, whose results come in the order of the files.

The processes are started anew and not copied (`spawn`), as other platforms do and as the threads of a progress bar ask
for. Each imports the program, which takes about a third of a second: that pays only where there is much to read.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TypeVar

MAX_JOBS = 61
"""Windows cannot wait for more."""

WORTHWHILE_BYTES = 16 * 1024 * 1024
"""Less is read in less time than the processes take to start."""

AHEAD = 2
"""Files a process that are worked on, or done, before somebody asks for their results: what bounds the memory."""

T = TypeVar("T")


def can_be_shared(file: Path) -> bool:
    """Whether another process finds the same there: not so for a pipe, or for what `/dev/stdin` stands for."""
    return (file.is_file() or file.is_dir()) and file.parts[:2] not in (("/", "dev"), ("/", "proc"))


def worthwhile(files: Sequence[Path]) -> int:
    """How many processes to read these files with: one a core, or only this one where there is little to read."""
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.stat().st_size
    return 1 if size < WORTHWHILE_BYTES else min(_cores(), len(files), MAX_JOBS)


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Path], T], files: Sequence[Path], jobs: int) -> Generator[T, None, None]:
    """What `work`, which must be picklable, makes of each file. What it raises is raised here.

    Raises BrokenProcessPool when a process dies. Whoever stops early leaves no process behind.
    """
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _die_of_interrupts)
    results = deque[Future[T]]()
    try:
        for file in files:
            results.append(_submitted(pool, work, file))
            if len(results) > AHEAD * jobs:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, work: Callable[[Path], T], file: Path) -> Future[T]:
    """Hands a file to the processes, which starts one that is needed; it may die before it has heard what to do."""
    try:
        return pool.submit(work, file)
    except BrokenPipeError as error:
        raise BrokenProcessPool("a process ended as it was started") from error


def _die_of_interrupts() -> None:
    """The terminal's interrupt is for all processes; who started them says so, and nobody needs their tracebacks.

    What was ignored before stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
