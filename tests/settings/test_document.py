"""JSON5: what is it and what is not, with the lines; Python's own JSON reader knows the part of it that is JSON."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.settings.document import MAX_DEPTH, DocumentError, Items, Members, Node, parse


def read(text: str) -> Any:
    node = parse(text)
    assert node is not None
    return node.plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: 1, $b_1: 2, 'c d': 3, \"e\": 4,}", {"a": 1, "$b_1": 2, "c d": 3, "e": 4}),
        ("{true: 1, null: 2, Infinity: 3, NaN: 4, ünï: 5}", {"true": 1, "null": 2, "Infinity": 3, "NaN": 4, "ünï": 5}),
        (r"{\u0061b: 1}", {"ab": 1}),
        ("[1, 2,]", [1, 2]),
        ("[[], {}]", [[], {}]),
        ("// a\n/* b\n*/ 1 // c", 1),
        ("/**/1/***/", 1),
        ("\ufeff\u00a0\u2028\v 1", 1),
        ("// ends here\u20281", 1),
        ("+1", 1),
        ("-0x1F", -31),
        (".5", 0.5),
        ("5.", 5),
        ("5.0e0", 5),
        ("1e3", 1000),
        ("9007199254740993", 9007199254740993),
        ("9007199254740992.0", 9007199254740992),
        ("1e20", 1e20),
        ("1e400", math.inf),
        ("-Infinity", -math.inf),
        ("0x" + "1" * 5000, math.inf),
        ("1" * 5000, math.inf),
        (r"'\x41\u0042\b\f\n\r\t\v\0\q\'\"'", "AB\b\f\n\r\t\v\0q'\""),
        ("'a\\\nb\\\r\nc'", "abc"),
        (r'"\\u0041"', r"\u0041"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\ud800"', "�"),
        ('"\u2028"', "\u2028"),
    ],
)
def test_what_is_json5(text: str, expected: Any) -> None:
    assert read(text) == expected
    assert type(read(text)) is type(expected)


def test_not_a_number_is_one() -> None:
    assert math.isnan(read("NaN"))


@pytest.mark.parametrize("text", ["", " \n\t", "// nothing", "/* nothing */", "\ufeff"])
def test_nothing_but_space_says_nothing(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{\n  a: 1\n  b: 2\n}", 3, 'expected "," or "}", found \'b\''),
        ("[\n1", 2, 'expected "," or "]", found the end'),
        ("[,]", 1, "expected a value, found ','"),
        ("[1,,2]", 1, "expected a value, found ','"),
        ("{,}", 1, "expected a name, found ','"),
        ("{a}", 1, "expected \":\", found '}'"),
        ("{1: 2}", 1, "expected a name, found '1'"),
        ("{}\n{}", 2, "expected nothing more, found '{'"),
        ("\n'abc", 2, "expected a value, found a string without its end"),
        ('"a\nb"', 1, "expected a value, found a string without its end"),
        ("\n\n/* a", 3, "expected a value, found a comment without its end"),
        ("tru", 1, "expected a value, found 'tru'"),
        ("010", 1, "expected a value, found '010'"),
        ("1_0", 1, "expected a value, found '1_0'"),
        ("١", 1, "expected a value, found '١'"),
        ("- 1", 1, "expected a value, found '- 1'"),
        ("0x", 1, "expected a value, found '0x'"),
        ("\0", 1, "expected a value, found '\\x00'"),
        (r"{\u00: 1}", 1, "expected a name, found '\\\\u00: 1}'"),
        (r"'\x4'", 1, r"\x in a string means nothing; a backslash is written \\"),
        (r"'\u12'", 1, r"\u in a string means nothing; a backslash is written \\"),
        (r"'\01'", 1, r"\01 in a string means nothing; a backslash is written \\"),
        (r"'\7'", 1, r"\7 in a string means nothing; a backslash is written \\"),
        ("[" * 100_000, 1, f"lists and objects are more than {MAX_DEPTH} deep"),
        ("\n{a:" * 100, MAX_DEPTH + 3, f"lists and objects are more than {MAX_DEPTH} deep"),
    ],
)
def test_what_is_not(text: str, line: int, message: str) -> None:
    with pytest.raises(DocumentError) as raised:
        parse(text)
    assert (raised.value.line, raised.value.message) == (line, message)


def test_lines_are_those_of_names_and_values() -> None:
    node = parse('// one\n{\n  a: [1,\n    2],\n  "b":\n    3 }')
    assert node is not None
    first, second = node.value
    assert (node.line, first.line, second.line, second.node.line) == (2, 3, 5, 6)
    assert first.node == Node(Items([Node(1, 3), Node(2, 4)]), 3)


def test_a_name_that_stands_twice_stands_twice() -> None:
    node = parse("{a: 1, a: 2}")
    assert node is not None
    assert isinstance(node.value, Members)
    assert [member.node.value for member in node.value] == [1, 2]
    assert node.plain == {"a": 1}


def test_names_keep_their_order() -> None:
    assert list(read("{b: 1, a: 2, c: 3}")) == ["b", "a", "c"]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def as_numbers_are(value: Any) -> Any:
    """A value with integers that no double can tell from their neighbours as the double that they are."""
    if isinstance(value, int) and not isinstance(value, bool) and len(str(abs(value))) > 20:
        return float(value) if abs(value) < 10**308 else value
    if isinstance(value, list):
        return [as_numbers_are(each) for each in value]
    return {name: as_numbers_are(each) for name, each in value.items()} if isinstance(value, dict) else value


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_json5(value: Any, is_ascii: bool, indent: int | None) -> None:
    assert read(json.dumps(value, ensure_ascii=is_ascii, indent=indent)) == as_numbers_are(value)


@given(st.text(st.sampled_from("{}[]:,'\"\\/*\n\r ab0e1.x-+u_$\u2028\ud800"), max_size=40) | st.text())
def test_any_text_is_a_document_or_an_error_with_a_line(text: str) -> None:
    try:
        parse(text)
    except DocumentError as error:
        assert 1 <= error.line <= text.count("\n") + 1
        assert error.message
