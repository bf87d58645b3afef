"""The suites that can be replayed.

To add one: a module with `play`, and with `is_sayable` and `replay` where it has a form on the wire.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.conformance import core, daemon, failure_guard, message, repeat_key
from tests.conformance.cases import Case, Mismatch
from tests.conformance.sessions import OpenSession


class Suite(NamedTuple):
    """How a suite is played in this process, and how in a session on the wire, which of its cases can be said there."""

    play: Callable[[Case], Iterator[Mismatch]]
    is_sayable: Callable[[Case], bool] = lambda case: False
    replay: Callable[[Case, OpenSession], Iterator[Mismatch]] | None = None


SUITES = {
    "core": Suite(core.play, core.is_sayable, core.replay),
    "daemon": Suite(daemon.play, daemon.is_sayable, daemon.replay),
    "failure_guard": Suite(failure_guard.play, failure_guard.is_sayable, failure_guard.replay),
    "message": Suite(message.play),
    "repeat_key": Suite(repeat_key.play),
}
