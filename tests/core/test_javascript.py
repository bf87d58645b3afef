"""JavaScript's JSON, numbers and white space. Expected texts were printed by Node 20."""

import json
import math
import string
import sys
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnguard.core.javascript import (
    MAX_NESTING,
    WHITE_SPACE,
    NestingError,
    NotJsonError,
    number_text,
    parse,
    restringify,
    stringify,
    trim,
    utf8,
)


def plainly(text: bytes, *, sort_keys: bool) -> bytes:
    """By Python's own reader, which takes text and not bytes."""
    return stringify(parse(text.decode(errors="replace")), sort_keys=sort_keys).encode()


# --- JSON texts, in every spelling that matters -----------------------------------------------------------------------

# fmt: off
KEYS = [
    "a", "b", "Z", "", "x9", "0", "1", "9", "10", "01", "4294967294", "4294967295", "-1", "__proto__", '"5', "\\",
    "é", "😀", "\ue000", "\uffff", "\ud800", "\udfff",
]
NUMBERS = [
    "0", "-0", "-0.0", "1.0", "2.50", "1E2", "1e15", "1e20", "1e21", "1e400", "-1e400", "5e-324", "0.0001", "1e-5",
    "1.5e-6", "999999999999999", "9007199254740993", "-123456789012345678", "1" + "0" * 30, "0.1234567890123456789",
]
# fmt: on
ALPHABET = 'ab01\x1f\n"\\é中😀𝒳\ue000\ud83d\ude00'


@st.composite
def strings(draw: st.DrawFn, content: st.SearchStrategy[str]) -> str:
    text = draw(content)
    lone = any("\ud800" <= unit <= "\udfff" for unit in text)
    return json.dumps(text, ensure_ascii=lone or draw(st.booleans()))


any_string = strings(st.sampled_from([*KEYS, "1234567890123456", '":1,"2":']) | st.text(ALPHABET, max_size=5))
any_number = (
    st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers().map(str)
)
scalars = st.sampled_from(["true", "false", "null"]) | any_number | any_string


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(strings(st.sampled_from(KEYS) | st.text(ALPHABET, max_size=3)), inner)
    arrays = st.lists(inner, max_size=4).map(lambda items: f"[ {' , '.join(items)}]")
    objects = st.lists(members, max_size=5).map(
        lambda pairs: "{" + ",".join(f"{key} :{item}" for key, item in pairs) + "}"
    )
    return arrays | objects


json_texts = st.recursive(scalars, containers, max_leaves=12).map(str.encode)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1.5, "1.5"),
        (-1.5, "-1.5"),
        (100.0, "100"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (-1.5e21, "-1.5e+21"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.23e-7, "1.23e-7"),
        (1 / 3, "0.3333333333333333"),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (2**64, "18446744073709552000"),
        (10**400, "null"),
        (math.nan, "null"),
        (math.inf, "null"),
        (-math.inf, "null"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(number: float, expected: str) -> None:
    assert number_text(number) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_as_itself(number: float) -> None:
    assert float(number_text(number)) == number


# --- parse ------------------------------------------------------------------------------------------------------------


def test_every_number_is_a_double() -> None:
    assert parse("[1, 1e400, 123456789012345678]") == [1.0, math.inf, 123456789012345680.0]
    assert type(parse("1")) is float


def test_an_integer_may_have_thousands_of_digits() -> None:
    assert parse("9" * 10_000) == math.inf
    assert restringify(b"9" * 10_000, sort_keys=True) == b"null"


def test_the_last_of_two_equal_keys_wins_in_the_place_of_the_first() -> None:
    text = b'{"b":1,"a":2,"b":3}'
    assert plainly(text, sort_keys=False) == restringify(text, sort_keys=False) == b'{"b":3,"a":2}'


def test_proto_is_a_key_like_any_other() -> None:
    text = b'{"a":1,"__proto__":{"b":2}}'
    assert plainly(text, sort_keys=True) == restringify(text, sort_keys=True) == b'{"__proto__":{"b":2},"a":1}'


def test_lone_surrogates_are_kept_and_pairs_are_joined() -> None:
    assert parse(rb'["\ud800", "\ud83d\ude00"]') == ["\ud800", "😀"]


def test_bytes_that_are_not_utf8_become_replacement_characters() -> None:
    assert parse(b'"a\xffb"') == "a\ufffdb"
    assert restringify(b'"a\xffb"', sort_keys=True) == b'"a\xef\xbf\xbdb"'


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[Infinity]", "-Infinity", "01", "1.", "'a'", '"\x01"', "[1,]", "1 2", "\ufeff1", "1\xa0"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(NotJsonError):
        parse(text)
    with pytest.raises(NotJsonError):
        restringify(text.encode(), sort_keys=True)


def test_an_error_does_not_quote_the_text() -> None:
    with pytest.raises(NotJsonError, match=r"^not JSON at character 10$") as caught:
        parse('{"secret":}')
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# --- stringify --------------------------------------------------------------------------------------------------------


def test_keys_keep_their_order_but_array_indexes_come_first() -> None:
    value = dict.fromkeys(["b", "10", "a", "4294967295", "9", "01", "4294967294", "-1", "0", "٣"], 1)
    expected = ["0", "9", "10", "4294967294", "b", "a", "4294967295", "01", "-1", "٣"]
    assert list(json.loads(stringify(value, sort_keys=False))) == expected


def test_keys_sort_by_utf16_unit_but_array_indexes_come_first() -> None:
    value = dict.fromkeys(["\uffff", "😀", "\ue000", "é", "a", "Z", "10", "9", "4294967295", "01", ""], 1)
    expected = ["9", "10", "", "01", "4294967295", "Z", "a", "é", "😀", "\ue000", "\uffff"]
    assert list(json.loads(stringify(value, sort_keys=True))) == expected
    text = json.dumps(value, ensure_ascii=False).encode()
    assert list(json.loads(restringify(text, sort_keys=True))) == expected


def test_objects_are_sorted_at_every_level_and_arrays_are_not() -> None:
    value: object = {"b": [{"d": 1, "c": [2, 1]}], "a": {"f": {}, "e": []}}
    assert stringify(value, sort_keys=True) == '{"a":{"e":[],"f":{}},"b":[{"c":[2,1],"d":1}]}'
    assert stringify(value, sort_keys=False) == '{"b":[{"d":1,"c":[2,1]}],"a":{"f":{},"e":[]}}'


def test_strings_are_escaped_no_more_than_needed() -> None:
    assert stringify('/\x7f\u2028é😀"\\\b\f\n\r\t\x00\x1f', sort_keys=True) == (
        '"/\x7f\u2028é😀\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f"'
    )


def test_lone_surrogates_are_escaped_in_lower_case() -> None:
    assert stringify({"\ud800": "\udfff"}, sort_keys=True) == r'{"\ud800":"\udfff"}'
    assert stringify("\udc00\ud83d", sort_keys=True) == r'"\udc00\ud83d"'


def test_two_halves_side_by_side_are_one_character() -> None:
    assert stringify("\ud83d\ude00", sort_keys=True) == '"😀"'


def test_constants() -> None:
    assert stringify([None, True, False, 1, (2,)], sort_keys=True) == "[null,true,false,1,[2]]"


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, msgspec.UNSET, [object()]])
def test_what_json_does_not_have_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="not a JSON value"):
        stringify(value, sort_keys=True)


@given(json_texts)
def test_what_is_written_reads_back_and_is_written_the_same(text: bytes) -> None:
    written = stringify(parse(text), sort_keys=True)
    assert stringify(parse(written), sort_keys=True) == written
    written.encode()


@given(
    st.dictionaries(st.sampled_from(KEYS) | st.text(ALPHABET, max_size=3), st.integers(0, 9), max_size=6), st.randoms()
)
def test_sorted_text_does_not_depend_on_the_order_of_keys(value: dict[str, int], random: Random) -> None:
    shuffled = random.sample(list(value.items()), len(value))
    assert stringify(dict(shuffled), sort_keys=True) == stringify(value, sort_keys=True)


# --- the fast way -----------------------------------------------------------------------------------------------------


@given(json_texts, st.booleans())
def test_the_fast_way_writes_what_the_plain_way_writes(text: bytes, sort_keys: bool) -> None:
    assert restringify(text, sort_keys=sort_keys) == plainly(text, sort_keys=sort_keys)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b'"as it is \xc3\xa9 \x7f"', b'"as it is \xc3\xa9 \x7f"'),
        (rb'"\n \" \\ \\u0061"', rb'"\n \" \\ \\u0061"'),
        (rb'"\u0061 \/ \u001F \u00e9 \ud83d\ude00"', '"a / \\u001f é 😀"'.encode()),
        (rb'"\ud800"', rb'"\ud800"'),
        (b' "a" ', b'"a"'),
        (b'"a"\n', b'"a"'),
    ],
)
def test_a_string_alone(text: bytes, written: bytes) -> None:
    assert restringify(text, sort_keys=True) == plainly(text, sort_keys=True) == written
    assert parse(text) == json.loads(text)


@given(json_texts, st.integers(0, 200), st.binary(max_size=3))
def test_the_fast_way_refuses_what_the_plain_way_refuses(text: bytes, place: int, splinter: bytes) -> None:
    broken = text[:place] + splinter + text[place + 1 :]
    try:
        expected = plainly(broken, sort_keys=True)
    except NotJsonError:
        with pytest.raises(NotJsonError):
            restringify(broken, sort_keys=True)
    else:
        assert restringify(broken, sort_keys=True) == expected


@pytest.mark.parametrize("index", ["0", "7", "4294967294"])
def test_index_keys_of_every_length(index: str) -> None:
    text = b'{"-1":2,"%b":1}' % index.encode()
    assert restringify(text, sort_keys=True) == b'{"%b":1,"-1":2}' % index.encode()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("frame", ["%s", "[%s]", "[1,%s]", '{"a":%s}', "-%s"])
def test_numbers_in_every_place(number: str, frame: str) -> None:
    text = (frame % number.lstrip("-")).encode()
    assert restringify(text, sort_keys=True) == plainly(text, sort_keys=True)


def test_the_plain_way_is_left_to_rare_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: bytes | str) -> None:
        raise AssertionError(text)

    monkeypatch.setattr("turnguard.core.javascript.parse", refuse)
    for text in (
        b'{"line1":0.7097856162581593,"id":"1234567890123456","count":999999999999999}',
        '{"text":"😀 and 𝒳","más":[1.0,1e21,-0,1e400]}'.encode(),
        b'{"text":"\\",\\"5\\":","__proto__":{}}',
    ):
        restringify(text, sort_keys=True)
    with pytest.raises(AssertionError):
        restringify(b'{"5":1}', sort_keys=True)


# --- nesting ----------------------------------------------------------------------------------------------------------


def nested(levels: int, opening: str, closing: str, core: str) -> str:
    return opening * levels + core + closing * levels


SHAPES = [
    ("[", "]", "1"),
    ('{"a":', "}", "1"),
    ('[{"a":', "}]", "1"),  # two levels
    ("[", "]", r'"\ud800"'),  # the plain way
    ('{"5":', "}", "1"),
    ("[0,", ",{}]", "1"),
]


@pytest.mark.parametrize(("opening", "closing", "core"), SHAPES)
def test_nesting_is_accepted_up_to_the_bound(opening: str, closing: str, core: str) -> None:
    levels = MAX_NESTING // (2 if opening.startswith("[{") else 1) - ("{}" in closing)
    text = nested(levels, opening, closing, core).encode()
    assert restringify(text, sort_keys=True) == text
    assert plainly(text, sort_keys=True) == text


@pytest.mark.parametrize("core", ["[]", "{}", '{"a":1}', "[1]"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('{"5":', "}")])
@pytest.mark.parametrize("levels", [MAX_NESTING, 10 * MAX_NESTING, 100_000])
def test_deeper_nesting_is_refused(opening: str, closing: str, core: str, levels: int) -> None:
    text = nested(levels, opening, closing, core)
    with pytest.raises(NestingError, match="512"):
        parse(text)
    with pytest.raises(NestingError):
        restringify(text.encode(), sort_keys=True)


def test_a_value_that_nests_too_deep_is_refused() -> None:
    value: list[object] = []
    for _ in range(MAX_NESTING - 1):
        value = [value]
    assert stringify(value, sort_keys=True) == nested(MAX_NESTING, "[", "]", "")
    with pytest.raises(NestingError):
        stringify([value], sort_keys=True)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(NestingError):
        stringify(value, sort_keys=True)


def test_many_brackets_are_not_much_nesting() -> None:
    text = b"[" + b",".join([b'{"code":"if (x) { [["}'] * 1_000) + b"]"
    assert restringify(text, sort_keys=True) == text


def test_a_deep_stack_is_no_recursion_error() -> None:
    def at_depth(levels: int) -> bytes:
        return (
            at_depth(levels - 1) if levels else restringify(nested(400, "[", "]", r'"\ud800"').encode(), sort_keys=True)
        )

    with pytest.raises(NestingError):
        at_depth(sys.getrecursionlimit() - 200)


# --- strings ----------------------------------------------------------------------------------------------------------


def test_white_space_is_javascripts() -> None:
    assert trim("\ufeff\xa0 \t\n\v\f\r\u2028\u2029\u3000x y\u180e\u2009") == "x y\u180e"
    assert trim("\x1cx\x85") == "\x1cx\x85"
    assert set(string.whitespace) < set(WHITE_SPACE)
    assert len(WHITE_SPACE) == len(set(WHITE_SPACE)) == 25


def test_utf8_replaces_lone_surrogates() -> None:
    assert utf8("é😀") == "é😀".encode()
    assert utf8("a\ud800b\udc00") == "a\ufffdb\ufffd".encode()
    assert utf8("\ud83d\ude00\ud83d") == "😀\ufffd".encode()
