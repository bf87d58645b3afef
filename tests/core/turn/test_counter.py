from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.core import bounds
from turnguard.core.turn import counter as counter_module
from turnguard.core.turn.counter import (
    CountedKey,
    KeyCounter,
    counted,
    doubtful,
    is_doubtful,
    read_key,
    without_doubt,
    write_key,
)

DIGEST = "ab" * 32


def test_a_digest_is_held_as_a_number_and_any_other_key_as_it_is() -> None:
    assert isinstance(counted(DIGEST), int)
    assert counted(DIGEST[:-1] + "0") != counted(DIGEST)
    assert counted("0" + DIGEST[1:]) != counted(DIGEST)
    for other in ("g" * 64, DIGEST.upper(), f"{'0x':>34}{'1':>30}", "1_0" + "0" * 61, "\u0661" * 64):
        assert counted(other) == other
    assert counted("a:b") == "a:b"


@pytest.mark.parametrize("key", [counted(DIGEST), counted("0" * 64), "a:b", ""])
def test_a_doubtful_key_is_another_one_and_can_be_undone(key: CountedKey) -> None:
    doubted = doubtful(key)
    assert is_doubtful(doubted) > is_doubtful(key)
    assert doubted != key
    assert without_doubt(doubted) == without_doubt(key) == key
    assert read_key(write_key(doubted)) == doubted


@given(st.lists(st.sampled_from([None, "a", "b", DIGEST, "cd" * 32])))
def test_it_counts_what_a_plain_counter_counts(keys: list[str | None]) -> None:
    counter = KeyCounter()
    for key in keys:
        counter.add(key, None if key is None else f"tool {key}")
    plain = Counter(key for key in keys if key is not None)
    assert counter.total == len(keys)
    assert counter.max_repeat == max(plain.values(), default=0)
    assert len(counter.counts) == len(plain)
    if plain:
        assert counter.max_tool is not None
        assert plain[counter.max_tool.removeprefix("tool ")] == counter.max_repeat


def test_a_call_without_identity_counts_but_repeats_nothing() -> None:
    counter = KeyCounter()
    for _ in range(10):
        counter.add(None, "x")
    assert (counter.total, counter.max_repeat, counter.max_tool) == (10, 0, None)


def test_roll_back_returns_to_the_commit_and_forgets_committed_repeats_too() -> None:
    counter = KeyCounter()
    counter.add("a", "t")
    counter.commit()
    counter.add("a", "t")
    counter.roll_back()
    assert (counter.total, counter.max_repeat, counter.max_key, counter.max_tool) == (1, 0, None, None)
    counter.add("a", "t")
    assert counter.max_repeat == 1


def test_reset_forgets_the_commit() -> None:
    counter = KeyCounter()
    counter.add("a", "t")
    counter.commit()
    counter.reset()
    counter.add("b", "t")
    counter.roll_back()
    assert counter.total == 0


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20))
def test_taking_back_is_as_if_it_never_was(kept: list[str], refused: list[str]) -> None:
    counter, plain = KeyCounter(), KeyCounter()
    for key in kept:
        counter.add(key, key)
        plain.add(key, key)
    for key in refused:
        counter.add(key, key)
    counter.take_back(refused)
    assert (counter.total, counter.max_repeat) == (plain.total, plain.max_repeat)
    assert counter.max_repeat == (0 if counter.max_key is None else counter.counts[counter.max_key])


def test_past_the_bound_new_keys_are_no_longer_told_apart_but_old_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_module, "MAX_KEYS_A_TURN", 3)
    counter = KeyCounter()
    for key in "abcddda":
        counter.add(key, key)
    assert counter.total == 7
    assert (len(counter.counts), counter.max_repeat, counter.max_tool) == (3, 2, "a")
    assert bounds.MAX_KEYS_A_TURN > 1000


@given(st.lists(st.sampled_from([None, "a", DIGEST, "cd" * 32])))
def test_a_snapshot_survives_json(keys: list[str | None]) -> None:
    counter, restored = KeyCounter(), KeyCounter()
    for key in keys:
        counter.add(key, "t")
    counter.commit()
    restored.restore(msgspec.json.decode(msgspec.json.encode(counter.snapshot())))
    assert restored.snapshot() == counter.snapshot()
    assert restored.counts == counter.counts
    assert restored.max_key == counter.max_key
