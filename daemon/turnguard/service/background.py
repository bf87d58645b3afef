"""Threads of the daemon. None may die alone: a daemon that has lost a part of itself would be mute, and look alive."""

import logging
import os
import threading
from collections.abc import Callable

from turnguard.service.errors import describe_fault

log = logging.getLogger(__name__)


def start(name: str, run: Callable[[], None]) -> None:
    """Runs something beside the main thread, to the end of the process; if it fails, that is the end."""
    threading.Thread(target=_run, args=(name, run), name=name, daemon=True).start()


def _run(name: str, run: Callable[[], None]) -> None:
    try:
        run()
    except BaseException as fault:
        log.critical("the thread %s has failed\n%s", name, describe_fault(fault))
        os._exit(1)
