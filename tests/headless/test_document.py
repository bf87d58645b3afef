import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.headless.readers.document import MAX_DEPTH, outline


@pytest.mark.parametrize(
    ("start", "paths"),
    [
        (b'{"a": 1, "b": {"c": [2]}}', {".a", ".b", ".b.c", ".b.c[]"}),
        (b' [{"a": "x: {", "b": []}, {"c": "\\"}"}]', {"[]", "[].a", "[].b", "[].b[]", "[].c"}),
        (b'[[{"a": 1}], {"b": 2}]', {"[]", "[][]", "[][].a", "[].b"}),
        (b'{"a": {"b": 1}, "c": "cut o', {".a", ".a.b", ".c"}),
        (b'{"a": {"b": "c\\', {".a", ".a.b"}),
        (b'{"a": 1}\n{"b": 2}\n', {".a", ".b"}),
        (b'words {"a": 1}', set[str]()),
        (b"]]}}", set[str]()),
        (b"", set[str]()),
    ],
)
def test_the_outline_of_a_document(start: bytes, paths: set[str]) -> None:
    assert outline(start) == paths


def test_what_is_deep_is_no_part_of_it() -> None:
    deep = b'{"a":' * MAX_DEPTH + b'{"b": [{"c": 1}]}' + b"}" * MAX_DEPTH + b"\n" + b'{"d": 1}'
    assert outline(deep) == {".a" * depth for depth in range(1, MAX_DEPTH + 1)} | {".d"}


def test_brackets_without_end_cost_nothing() -> None:
    assert len(outline(b"[" * 100_000)) == MAX_DEPTH


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_it_is_that_of_any_document(document: object) -> None:
    written = json.dumps(document).encode()
    assert outline(written) == (_paths(document, "", 1) if written[:1] in (b"{", b"[") else set())


def _paths(value: object, path: str, depth: int) -> set[str]:
    """The same by the parsed document."""
    found: set[str] = set()
    if isinstance(value, dict) and depth <= MAX_DEPTH:
        for name, member in value.items():
            name = json.dumps(name)[1:-1]
            found |= {f"{path}.{name}"} | _paths(member, f"{path}.{name}", depth + 1)
    elif isinstance(value, list) and depth <= MAX_DEPTH:
        found |= {f"{path}[]"}
        for member in value:
            found |= _paths(member, f"{path}[]", depth + 1)
    return found
