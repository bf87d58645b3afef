"""Repeat keys, envelopes, git inspection, read-like names, fingerprints of results."""

import json
from hashlib import sha256
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from turnguard.core import identity
from turnguard.core.identity import (
    canonical_tool_name,
    is_git_overview,
    is_read_like,
    read_outcome,
    tool_call_repeat_key,
    unwrap_envelope,
)
from turnguard.core.javascript import MAX_NESTING, NestingError, NotJsonError

# Made with Node 20:
#   const sorted = (v) => v === null || typeof v !== "object" ? v : Array.isArray(v) ? v.map(sorted)
#     : Object.keys(v).sort().reduce((copy, k) => ((copy[k] = sorted(v[k])), copy), Object.create(null));
#   const key = (name, json) => createHash("sha256").update(name + ":" +
#     (json === undefined ? "undefined" : JSON.stringify(sorted(JSON.parse(json))))).digest("hex");
GOLDEN = [
    ("edit", None, "7a4bbc0953bbfbc5314684c34a01580d9eb5f6fdcebb19d49f1b84a4dcb0b8aa"),
    ("edit", "null", "7e890297c2bde7f22ed3903dea82535411137a0c698e5fb3be5dd0d20af4e568"),
    ("edit", "{}", "3befeaaa8462e3a740f1d10378f8bb49922564321d59e2711315795aa8695f1e"),
    ("edit", "[]", "ef82a85d7e9fa3ee6d8322f77b7afdacf8bbbbe61e597d3df36d15f4edf6a0a9"),
    ("edit", '"undefined"', "1b82bae0e5d786f34f6fc7fb5ca17635b39119c05c11f12ee5bf4f8c33b24af4"),
    # keys sorted at every level; array order counts
    (
        "edit",
        '{"b":[1,2],"a":{"d":null,"c":true}}',
        "fb17252810e57c6b2eaf216c1509b9465ee2f3e777cae32521577e15b6a3f728",
    ),
    (
        "edit",
        '{"b":[2,1],"a":{"d":null,"c":true}}',
        "43ff7358f34babfbbe136f3c538c0373b1489ff4a6f1b956745612c4d3b8c6b3",
    ),
    # array-index keys first, by value
    (
        "edit",
        '{"x":1,"10":1,"9":1,"4294967294":1,"4294967295":1,"01":1,"-1":1,"0":1}',
        "0874aaed19ad707dd98e483c813f13d2bcb28dc12a7f2f98590930caaf667f49",
    ),
    # numbers
    (
        "edit",
        "[1.0,-0,-0.0,1e21,1e20,1e400,-1e400,123456789012345678,1e-6,1e-7,0.1,5e-324,2.50]",
        "fb51d8de3bc6a0fe2a9884e05c1ea1711debaa4067d39cb079f558f1761b8dc1",
    ),
    ("edit", '{"a":1,"b":2,"a":3}', "77410d635fbad8d37bc9f7d3d144a0dfcaa4d0fd83ed60f43b7c880c15e62814"),
    ("edit", '{"__proto__":{"z":1,"a":2},"a":1}', "928e9b0d792cc82c0574a6dcb6cf74608729e8322e3e5bb9e91dd66935140662"),
    # surrogates, escapes, order by UTF-16 unit
    (
        "edit",
        r'["\ud800","\uDFFF","a\udc00\ud83db","\ud83d\ude00"]',
        "3029b187abdecb89d85275f514902fc4cf1a9c6d5751f5158159f588e467ef07",
    ),
    (
        "edit",
        r'["\/","\u007f","\u2028","é","\u0000\u001f\b\f\n\r\t\"\\"]',
        "036dd8a77702cbf20d811d4d48ad4d3121db2498de78e446f86fde8e9d24c246",
    ),
    (
        "edit",
        r'{"\ue000":1,"\ud83d\ude00":2,"\ud800":3,"z":4}',
        "f739fcf46f19ae350f4d1b6af7b6148112f9db8ac9848b19f1ec4fb8d3152202",
    ),
    # names that are not ASCII, or not text
    ("é😀", '{"a":1}', "49a5f1e0557091746c7546d74a63b8a8b53803c8277741e45944a71376466aed"),
    ("\ud800x\udc00", '{"a":1}', "850c9e33fcae71b694f2fdd26f90e0791df1fa828c7df8ee667a872241fa40e0"),
    ("", "{}", "3114790f30df7a375b77913c215ac4dd5b75526d952de6942d649e7f4f7ea6c4"),
]

ALPHABET = 'ab01\x1f\n"\\é中😀𝒳\ue000'


@pytest.fixture(autouse=True)
def _forget() -> None:  # pyright: ignore[reportUnusedFunction]
    identity._memo.clear()  # pyright: ignore[reportPrivateUsage]


# --- the repeat key ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "args", "key"), GOLDEN)
def test_keys_are_those_of_node(name: str, args: str | None, key: str) -> None:
    if args is None:
        assert tool_call_repeat_key(name) == tool_call_repeat_key(name, UNSET) == key
        return
    assert tool_call_repeat_key(name, args.encode()) == key
    assert tool_call_repeat_key(name, msgspec.Raw(args.encode())) == key
    assert tool_call_repeat_key(name, json.loads(args)) == key


def test_a_key_is_the_digest_of_name_colon_json() -> None:
    assert tool_call_repeat_key("edit", b'{ "b" : 1, "a" : "x" }') == sha256(b'edit:{"a":"x","b":1}').hexdigest()


def test_null_and_undefined_arguments_and_no_arguments_are_three_things() -> None:
    assert tool_call_repeat_key("a", None) == tool_call_repeat_key("a", b"null") == sha256(b"a:null").hexdigest()
    assert tool_call_repeat_key("a") == sha256(b"a:undefined").hexdigest()
    assert tool_call_repeat_key("a", {}) == sha256(b"a:{}").hexdigest()


@pytest.mark.parametrize(
    ("old", "new"), [("search_file_content", "grep_search"), ("replace", "edit"), ("task", "agent")]
)
def test_old_names_count_as_new_ones(old: str, new: str) -> None:
    assert canonical_tool_name(old) == canonical_tool_name(new) == new
    assert tool_call_repeat_key(old, b"{}") == tool_call_repeat_key(new, b"{}")


@pytest.mark.parametrize("name", ["Replace", "TASK", "Task", "SearchFiles", "Edit", "Shell", " task", "", "tool_call"])
def test_other_names_are_no_aliases(name: str) -> None:
    assert canonical_tool_name(name) == name
    assert tool_call_repeat_key(name, b"{}") == sha256(f"{name}:{{}}".encode()).hexdigest()


@given(
    st.text(ALPHABET, max_size=8),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(ALPHABET, max_size=4),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(ALPHABET, max_size=3), inner, max_size=4),
        max_leaves=10,
    ),
)
def test_text_and_value_have_the_same_key(name: str, args: object) -> None:
    assert tool_call_repeat_key(name, json.dumps(args).encode()) == tool_call_repeat_key(name, args)


@given(st.dictionaries(st.text(ALPHABET, max_size=3), st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(args: dict[str, int], random: Random) -> None:
    shuffled = dict(random.sample(list(args.items()), len(args)))
    assert tool_call_repeat_key("a", json.dumps(shuffled).encode()) == tool_call_repeat_key("a", args)


def test_unicode_is_not_normalised() -> None:
    assert tool_call_repeat_key("a", ["\u00e9"]) != tool_call_repeat_key("a", ["e\u0301"])


def test_arguments_that_are_not_json_are_an_error_of_the_call() -> None:
    with pytest.raises(NotJsonError):
        tool_call_repeat_key("a", b"{'a': 1}")
    with pytest.raises(NotJsonError):
        tool_call_repeat_key("a", b"")
    with pytest.raises(NestingError):
        tool_call_repeat_key("a", b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1))
    with pytest.raises(TypeError):
        tool_call_repeat_key("a", {"a": object()})


# --- the memo ---------------------------------------------------------------------------------------------------------


def long_args(number: int) -> bytes:
    return b'{"n":%d,"text":"%b"}' % (number, b"x" * 600)


def test_long_arguments_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    key = tool_call_repeat_key("edit", long_args(1))
    monkeypatch.setattr(identity, "restringify", None)
    assert tool_call_repeat_key("edit", long_args(1)) == key
    assert tool_call_repeat_key("replace", long_args(1)) == key
    with pytest.raises(TypeError):
        tool_call_repeat_key("edit", long_args(2))


def test_a_remembered_key_is_that_of_its_name_and_arguments() -> None:
    calls = [(name, long_args(number)) for name in ("a", "b", "a:", "1:a", "") for number in range(3)]
    first = [tool_call_repeat_key(name, args) for name, args in calls]
    assert len(set(first)) == len(calls)
    assert [tool_call_repeat_key(name, args) for name, args in calls] == first
    assert first == [tool_call_repeat_key(name, json.loads(args)) for name, args in calls]


def test_where_the_name_ends_is_remembered_too() -> None:
    text = b'["%b:%b"]' % (b"x" * 600, b"y" * 600)
    tool_call_repeat_key("a", text)
    name, _, rest = text.partition(b":")
    with pytest.raises(NotJsonError):
        tool_call_repeat_key("a:" + name.decode(), rest)


def test_long_arguments_are_sorted_too() -> None:
    first, second = b'"a":1', b'"b":"%b"' % (b"x" * 600)
    expected = sha256(b"edit:{%b,%b}" % (first, second)).hexdigest()
    assert tool_call_repeat_key("edit", b"{%b,%b}" % (second, first)) == expected


def test_the_memo_is_bounded_and_holds_digests_only() -> None:
    memo = identity._memo  # pyright: ignore[reportPrivateUsage]
    size = identity._MEMO_SIZE  # pyright: ignore[reportPrivateUsage]
    for number in range(size + 10):
        tool_call_repeat_key("edit", long_args(number))
        assert len(memo) <= size
    assert memo
    assert all(len(seen) == len(key) == 32 for seen, key in memo.items())


def test_short_arguments_are_not_remembered() -> None:
    tool_call_repeat_key("edit", b'{"a":1}')
    assert not identity._memo  # pyright: ignore[reportPrivateUsage]


# --- the envelope -----------------------------------------------------------------------------------------------------

ENVELOPES = [
    ('{"name":"x","arguments":{"a":1}}', "x", '{"a":1}'),
    ('{"name":"task","arguments":{}}', "agent", "{}"),  # alias
    ('{"name":"TASK","arguments":{}}', "task", "{}"),  # alias comes before lower case; the key aliases once more
    ('{"name":"Replace","arguments":{"a":1}}', "replace", '{"a":1}'),
    ('{"name":"","arguments":{}}', "", "{}"),
    ('{"name":"İX","arguments":{}}', "i̇x", "{}"),
    ('{"name":"ΑΣ","arguments":{}}', "ας", "{}"),
    ('{"name":"x"}', "x", '{"name":"x"}'),
    ('{"name":"x","arguments":null}', "x", '{"name":"x","arguments":null}'),
    ('{"name":"x","arguments":"{}"}', "x", '{"name":"x","arguments":"{}"}'),
    ('{"name":"x","arguments":[1]}', "x", '{"name":"x","arguments":[1]}'),
    ('{"name":5,"name":"x","arguments":1,"arguments": {"a":1}}', "x", '{"a":1}'),  # the last of equal keys
    (r'{"n\u0061me":"x","arguments":{"a":"\ud800"}}', "x", r'{"a":"\ud800"}'),
    (r'{"name":"x","arguments":"\ud800"}', "x", r'{"name":"x","arguments":"\ud800"}'),
    ('{"name":"tool_call","arguments":{"name":"x"}}', "tool_call", '{"name":"x"}'),  # one level only
]


@pytest.mark.parametrize(("args", "tool", "inner"), ENVELOPES)
def test_an_envelope_counts_as_its_target(args: str, tool: str, inner: str) -> None:
    expected = tool, tool_call_repeat_key(tool, inner.encode())
    assert unwrap_envelope("tool_call", args.encode()) == expected
    assert unwrap_envelope("tool_call", msgspec.Raw(args.encode())) == expected
    assert unwrap_envelope("tool_call", json.loads(args)) == expected


@pytest.mark.parametrize("args", ['{"name":5,"arguments":{}}', '{"arguments":{}}', '["name"]', "null", '"name"', "7"])
def test_without_the_name_of_a_target_it_is_no_envelope(args: str) -> None:
    assert unwrap_envelope("tool_call", args.encode()) is None
    assert unwrap_envelope("tool_call", json.loads(args)) is None


@pytest.mark.parametrize("name", ["Tool_Call", "tool_calls", "edit", ""])
def test_only_tool_call_is_an_envelope(name: str) -> None:
    assert unwrap_envelope(name, b'{"name":"x","arguments":{}}') is None


def test_undefined_arguments_are_no_envelope() -> None:
    assert unwrap_envelope("tool_call", UNSET) is None


def test_an_envelope_that_is_not_json_is_an_error_of_the_call() -> None:
    with pytest.raises(NotJsonError):
        unwrap_envelope("tool_call", b'{"name":')


# --- git inspection ---------------------------------------------------------------------------------------------------

OVERVIEWS = [
    "git status",
    "GIT STATUS",
    "Git Diff --stat",
    "git  status  -u",
    "\ufeff git\u00a0status\u3000",
    "git -C /x status",
    "git -C /x -C  /y diff",
    "git -c k=v status",
    "git --no-pager -C . ls-files",
    "git --no-pager --NO-PAGER status",
    "git ls-files -- x",
    "git ls-files-x",
    "git status src/",
    "git status > out.txt",
    "git status-x",
    "git status é",
    "git statusé",
    "git status\rnpm test",
    "git diff-index HEAD",
    "git diff --cached --stat",
    "git diff --output=x",
    "git diff -",
    "git diff --",
    "git diff HEAD --",
    "git diff HEAD",
    "git diff @",
    "git diff HEAD~1 HEAD",
    "git diff HEAD^^2~3",
    "git diff @~2",
    "git diff abcdef1",
    "git diff ABCDEF1",
    "git diff 0123456789abcdef0123456789abcdef01234567",
    "git diff main..dev",
    "git diff main...dev",
    "git diff x..y.txt",
    "git diff a....b",
    "git diff @{u}..HEAD",
    "git diff\tHEAD",
    "git diff\u2028HEAD",
    "git status && git diff || git ls-files; git status & git diff | git status\n\ngit status\r\ngit diff",
    "git status;;",
    "git status &",
]
OTHERS = [
    "",
    "  ",
    ";",
    " && ",
    "ls",
    "(git status)",
    "sudo git status",
    "git",
    "gitstatus",
    "git log",
    "git statusx",
    "git status_x",
    "git --git-dir=x status",
    "git -C status",
    'git -C "/a b" status',
    "git \u017ftatus",
    "git status && npm test",
    "git status\nnpm test",
    "git status;npm test",
    "git status&npm test",
    "git status | cat",
    "cd /x && git status",
    "git\x1cstatus",
    "git\x85status",
    "git diff src/a.ts",
    "git diff -- a",
    "git diff -- HEAD",
    "git diff HEAD -- -x",
    "git diff --- a",
    "git diff head",
    "git diff Head~1",
    "git diff HEAD~x",
    "git diff HEAD~\u0663",
    "git diff @{u}",
    "git diff abcdef",
    "git diff abcde\uff461",
    "git diff 0123456789abcdef0123456789abcdef012345678",
    "git diff deadbeef.txt",
    "git diff a..",
    "git diff ..b",
    "git diff a.b",
    "git diff a..b\u00a0c",
    "git diff HEAD\u200b",
]


@pytest.mark.parametrize("command", OVERVIEWS)
def test_commands_that_only_look(command: str) -> None:
    assert is_git_overview(command)


@pytest.mark.parametrize("command", OTHERS)
def test_commands_that_do_more(command: str) -> None:
    assert not is_git_overview(command)


def test_a_long_command_takes_linear_time() -> None:
    assert not is_git_overview("git" + " -C x" * 50_000 + " " * 50_000 + "log")
    assert not is_git_overview("git diff " + "a" * 500_000)
    assert is_git_overview("git diff " + "." * 500_000)
    assert not is_git_overview("git diff .." + " ." * 50_000)


# --- read-like names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read_file", "read_many_files", "list_directory", "zoom_image", "read_", "list_x"])
def test_reads(name: str) -> None:
    assert is_read_like(name)


@pytest.mark.parametrize(
    "name", ["Read_file", "read", "readfile", "list", "listing", "x_read_", "zoom_image2", "edit", ""]
)
def test_not_reads(name: str) -> None:
    assert not is_read_like(name)


# --- results of stateful reads ----------------------------------------------------------------------------------------


def outcome(value: object) -> str:
    return read_outcome(json.dumps(value).encode())


def stub(path: str, digest: str, end: str = "\n</persisted-output>") -> dict[str, str]:
    return {"output": f"<persisted-output>\nsaved to {path}\nFull output sha256: {digest}{end}"}


A, B = "a1" * 32, "b2" * 32


def test_a_result_is_the_digest_of_its_json_in_insertion_order() -> None:
    assert read_outcome(b'{ "b": 1.0, "a": "x" }') == sha256(b'{"b":1,"a":"x"}').hexdigest()
    assert read_outcome(msgspec.Raw(b'{"b":1}')) == read_outcome(b'{"b":1}')


def test_the_order_of_keys_in_a_result_counts_but_for_array_indexes() -> None:
    assert outcome({"a": 1, "b": 2}) != outcome({"b": 2, "a": 1})
    assert outcome({"b": 2, "1": "x"}) == outcome({"1": "x", "b": 2})


def test_no_result_and_null_count_as_an_empty_object() -> None:
    assert read_outcome(None) == outcome(None) == outcome({})
    assert len({outcome({}), outcome(""), outcome([])}) == 3


def test_a_stub_counts_as_the_digest_it_names() -> None:
    assert (
        outcome(stub("/x/1", A)) == outcome(stub("/x/2", A)) == outcome(stub("/x/3", A, "")) == outcome({"output": A})
    )
    assert outcome(stub("/x/1", A, "\r\n")) == outcome(stub("/x/2", A))
    assert outcome(stub("/x/1", A)) != outcome(stub("/x/1", B))


def test_a_stub_counts_wherever_it_is() -> None:
    assert outcome([{"a": [stub('/x/"1"\\', A), "b"]}]) == outcome([{"a": [stub("/x/2\ud800", A), "b"]}])


@pytest.mark.parametrize(
    "text",
    [
        "<persisted-output>\n{path} Full output sha256: {digest}\n",  # in the middle of a line
        "<persisted-output>\n{path}\nFull output sha256: {digest}0\n",
        "<persisted-output>\n{path}\nFull output sha256: {digest} \n",
        "<persisted-output>\n{path}\nfull output sha256: {digest}\n",
        " <persisted-output>\n{path}\nFull output sha256: {digest}\n",  # does not begin with the tag
        'said "<persisted-output>\n{path}\nFull output sha256: {digest}\n',
        "<persisted-output>\\nFull output sha256: {digest}{path}",
        "<persisted-output>\n{path}\nno digest",
    ],
)
def test_other_texts_are_no_stubs(text: str) -> None:
    results = [{"output": text.format(path=path, digest=A)} for path in ("/1", "/2")]
    assert outcome(results[0]) != outcome(results[1])


def test_a_key_is_no_stub() -> None:
    keys = [stub(path, A)["output"] for path in ("/1", "/2")]
    assert outcome({keys[0]: 1}) != outcome({keys[1]: 1})


def test_a_result_that_is_not_json_is_an_error() -> None:
    with pytest.raises(NotJsonError):
        read_outcome(b"oops")
