"""What follows from a tool's name is found out once: an agent has few tools, and calls each of them many times."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from turnguard.core.bounds import MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAMES

T = TypeVar("T")


def remembered(rule: Callable[[str], T]) -> Callable[[str], T]:
    """The same rule, with what it said of the latest names; what it says of long ones is not kept."""
    recall = lru_cache(maxsize=MAX_REMEMBERED_NAMES)(rule)

    def ask(name: str) -> T:
        return recall(name) if len(name) <= MAX_REMEMBERED_NAME else rule(name)

    ask.__doc__ = rule.__doc__
    return ask
