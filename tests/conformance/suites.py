"""The suites that can be replayed.

To add one: a module with `play`, and with `is_sayable` and `replay` where it has a form on the wire.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.conformance import core, daemon, failure_guard, loopshield, message, openclaw, progress, repeat_key
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
    "loopshield": Suite(loopshield.play, loopshield.is_sayable, loopshield.replay),
    "message": Suite(message.play),
    "outcome_hash": Suite(openclaw.play_outcome_hash, openclaw.is_outcome_hash_sayable, openclaw.replay_outcome_hash),
    "post_compaction": Suite(
        openclaw.play_post_compaction, openclaw.is_post_compaction_sayable, openclaw.replay_post_compaction
    ),
    "progress": Suite(progress.play, progress.is_sayable, progress.replay),
    "repeat_key": Suite(repeat_key.play),
    "rolling": Suite(openclaw.play_rolling, openclaw.is_rolling_sayable, openclaw.replay_rolling),
}
