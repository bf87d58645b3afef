"""What follows from a tool's name is asked once, and long names leave nothing behind."""

from turnguard.core.bounds import MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAMES
from turnguard.core.names import remembered


def test_a_rule_is_asked_once_for_each_name() -> None:
    asked: list[str] = []
    rule = remembered(lambda name: asked.append(name) or name.upper())
    assert [rule("a"), rule("b"), rule("a"), rule("")] == ["A", "B", "A", ""]
    assert asked == ["a", "b", ""]


def test_only_so_many_names_are_remembered() -> None:
    asked: list[str] = []
    rule = remembered(asked.append)
    for number in range(MAX_REMEMBERED_NAMES + 1):
        rule(str(number))
    rule("0")
    assert len(asked) == MAX_REMEMBERED_NAMES + 2


def test_a_long_name_is_not_kept() -> None:
    asked: list[int] = []
    rule = remembered(lambda name: asked.append(len(name)))
    for length in (MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAME + 1, MAX_REMEMBERED_NAME + 1):
        rule("x" * length)
    assert asked == [MAX_REMEMBERED_NAME, MAX_REMEMBERED_NAME + 1, MAX_REMEMBERED_NAME + 1]
