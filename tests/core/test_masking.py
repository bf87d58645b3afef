"""Masking: what changes from run to run is gone, what is evidence stays, in time proportional to the text."""

import re
from collections.abc import Callable
from hashlib import sha256
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.build import raw
from turnguard.core.javascript import NestingError, NotJsonError
from turnguard.core.masking import masked, progress_outcome

UUID = "0b5e3a52-9d0c-4c8e-8f6e-52d5a1c0ffee"

MASKED = [
    # terminal escape sequences
    ("a\x1b[31mred\x1b[0m", "ared"),
    ("\x1b[?25l\x1b[2K\x1b[1;1Ha", "a"),
    ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
    ("\x1bPdata\x1b\\a\x1b(Bb\x1b7c", "abc"),
    # whole lines
    *((f"a\n{line}\nb", "a\n\nb") for line in ("Chunk ID: 1f", "Wall time: 0.1 seconds", "Original token count: 77")),
    *(
        (f"a\n{line}\nb", "a\n\nb")
        for line in ("Total output lines: 9", "Duration  x", "real\t0m0.1s", "user 1", "sys")
    ),
    ("users\nrealm\nDurations\na user\nsystem\nWALL TIME", "users\nrealm\nDurations\na user\nsystem\nWALL TIME"),
    # times
    ("2026-11-30T01:02:03", "<ts>"),
    ("2026-11-30 01:02:03.123456+02:00 x", "<ts> x"),
    ("2026-11-30T01:02:03Z,2026-11-30 01:02:03-0700", "<ts>,<ts>"),
    ("2026-11-30 01:02:03,456 INFO", "<ts> INFO"),
    ("2026-11-30", "2026-11-30"),
    ("at 01:02:03.5 and 11:22:33", "at <t> and <t>"),
    ("01:02:03,456 x", "<t> x"),
    ("01:02:03,45;01:02:03,4567", "<t>,45;<t>,4567"),
    ("1:02:03 01:02", "1:02:03 01:02"),
    # ids and addresses
    (f"id {UUID} {UUID.upper()}", "id <uuid> <uuid>"),
    (UUID[:-1], UUID[:-1]),
    ("at 0x7ffe12ab, 0xABCDEF", "at <ptr>, <ptr>"),
    ("0x12345", "0x12345"),
    # durations
    *((f"in {n}.", "in <dur>.") for n in ("5ms", "5 s", "1.25s", "2 sec", "2secs", "10 seconds", "3 m", "3min")),
    ("in 3 minutes", "in <dur>"),
    ("5 meters 5  s 5sx x5s 5 S 5.s", "5 meters 5 s 5sx x5s 5 S 5.s"),
    # line numbers of shell errors
    ("bash: line 12: x: not found", "bash: line <n>: x: not found"),
    ("zsh: line 1: a\ndash: line 2: b\nsh: line 3: c", "zsh: line <n>: a\ndash: line <n>: b\nsh: line <n>: c"),
    ("/bin/bash: -c: line 7: syntax", "/bin/bash: -c: line <n>: syntax"),
    ("fish: line 1: x", "fish: line 1: x"),
    ("bash: line 5 x", "bash: line 5 x"),
    # process ids
    ("pid 12, PID: 12, pid=12, pid:12", "pid <n>, pid <n>, pid <n>, pid <n>"),
    ("child_pid=4", "child_pid <n>"),
    ("rapid 4 Pid 4 pid", "rapid 4 Pid 4 pid"),
    # blanks
    ("  a \t\t b\t c\n\n ", "a b c"),
    ("a\n  b", "a\n b"),
]


@pytest.mark.parametrize(("text", "expected"), MASKED)
def test_each_mask(text: str, expected: str) -> None:
    assert masked(text) == expected


IN_ORDER = [
    ("Wall\x1b[0m time: 5", ""),  # escape sequences before lines
    (" real 1", "real 1"),  # lines before the trimming of ends
    ("2026-11-30 01:02:03", "<ts>"),  # date and time before time
    ("01:02:03abcdef-1111-2222-3333-444455556666", "<t>abcdef-1111-2222-3333-444455556666"),  # time before UUID
    (f"0x{UUID}", "0x<uuid>"),  # UUID before address
    ("bash: line 01:02:03:", "bash: line <t>:"),  # time before shell line
    ("pid=5bash: line 3:", "pid <n>bash: line 3:"),  # shell line before process id
    ("pid 5 s", "pid <dur>"),  # duration before process id
    ("5  s", "5 s"),  # duration before blanks
]


@pytest.mark.parametrize(("text", "expected"), IN_ORDER)
def test_the_masks_apply_in_order(text: str, expected: str) -> None:
    assert masked(text) == expected


# --- against the plain form -------------------------------------------------------------------------------------------

TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+|,[0-9]{3}(?![0-9]))?"
PLAIN = [
    (r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])", ""),
    (r"(?m:^)(?:Chunk ID|Wall time|Original token count|Total output lines|Duration|real|user|sys)\b.*", ""),
    (rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{TIME}(?:Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?", "<ts>"),
    (TIME, "<t>"),
    (r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "<uuid>"),
    (r"0x[0-9a-fA-F]{6,}", "<ptr>"),
    (r"(?<!\w)[0-9]++(?:\.[0-9]++)? ?(?:ms|s|secs?|seconds|m|min|minutes)\b", "<dur>"),
    (r"\b(bash|zsh|dash|sh): (-c: )?line [0-9]+(?=:)", r"\1: \2line <n>"),
    (r"(?<![A-Za-z])pid[ :=]+[0-9]+", "pid <n>"),
    (r"(?<![A-Za-z])PID[ :=]+[0-9]+", "pid <n>"),
    (r"[ \t]+", " "),
]


def plainly_masked(text: str) -> str:
    for pattern, replacement in PLAIN:
        text = re.sub(pattern, replacement, text)
    return text.strip()


PIECES = [
    "10:10:10", "10:10", ":10:10", "10:", ".5", ",123", ",1234", "2026-11-30T10:10:10", "2026-11-30 10:10:10", "2026-",
    "-11-30 ", "Z", "+02:00", "-07", UUID, "abcdef12-", "-1111", "-2222-3333-444455556666", "0x", "0xABCDEF", "5 s",
    "5s", "1.5", "ms", " min", "minutes", "m", "s", "x", "é", "_", "٣", "5é", "\x1b[31m", "\x1b", "\x1b]0;t\x07", "]",
    "\n", "\r\n", "\nreal", "real 0m1s", "user 1", "\nsys", "Duration ", "Chunk ID", "Wall time: 4", "bash: line 5:",
    "sh: line 3:", "zsh: -c: line 4:", "pid 5", "pid=", "PID:7", " ", "  ", "\t", "a", "7", "12", "<t>", "\ud800",
    "\U0001f600", "\x85", "\u2028", "\v", ". ",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_output_differs_from_the_plain_form_on_texts_of_pieces(text: str) -> None:
    assert masked(text) == plainly_masked(text)


@given(st.text(st.sampled_from("0123456789abcdefxms:-.T, \t\n\x1b[]pidshé"), max_size=60))
def test_no_output_differs_from_the_plain_form_on_other_texts(text: str) -> None:
    assert masked(text) == plainly_masked(text)


NUMBERS = "".join(f"{number * 7919} {number:06d} item {number / 7:.4f}\n" for number in range(3_000))
SEARCHES = "".join(f"src/part{number % 99:02d}.py:{number % 90:02d}: def name(x):\n" for number in range(3_000))


@pytest.mark.parametrize("text", [NUMBERS, SEARCHES], ids=["numbers", "searches"])
def test_it_is_several_times_faster_than_the_plain_form(text: str) -> None:
    assert masked(text) == plainly_masked(text)
    assert min(cpu(text) for _ in range(5)) * 8 < min(cpu(text, plainly_masked) for _ in range(5))


MEGABYTE = 1_000_000
HOSTILE = [
    "1", "1.", "1 ", "1 s", " ", "a \t", "\n", "a", '"', "\0", "é", "abcdef12-", "12345678-1234-1234-1234-", "0x", "f",
    "\x1b[", "\x1b]", "\x1bP", "\x1b/", "\x1b", "pid ", "pid:", "PID", "bash: line ", "sh: ", "10:10:", "10:10:10",
    "2026-11-30T", "2026-11-30 10:10:10.", "Duration", "real\n", "user",
]  # fmt: skip
ENDLESS = ["\x1b]" + "a" * MEGABYTE, "\x1b[" + ";" * MEGABYTE, "\x1b" + "/" * MEGABYTE, "pid" + " " * MEGABYTE]


@pytest.mark.parametrize(
    "text", [*(each * (MEGABYTE // len(each)) for each in HOSTILE), *ENDLESS], ids=lambda text: ascii(text[:24])
)
def test_hostile_text_takes_no_longer_than_its_length(text: str) -> None:
    quarter = min(cpu(text[: MEGABYTE // 4]) for _ in range(3))
    assert min(cpu(text) for _ in range(3)) < 4 * (4 * quarter + 0.01)


def cpu(text: str, mask: Callable[[str], str] = masked) -> float:
    before = process_time()
    mask(text)
    return process_time() - before


def outcome(output: Any = UNSET, error: Any = UNSET) -> str:
    return progress_outcome(*(part if part is UNSET else raw(part) for part in (output, error)))


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


IMAGE = {"type": "image", "data": "iVBO", "mimeType": "image/png"}
IMAGE_DIGEST = digest('{"data":"iVBO","mimeType":"image/png","type":"image"}')

SHAPES: list[tuple[Any, str]] = [
    ("took 5 s", "took <dur>"),
    ("", ""),
    (None, ""),
    (["a", "b"], "a\nb"),
    ([text_block("a"), text_block("5 s")], "a\n<dur>"),
    ({"content": [text_block("a"), {"type": "text", "text": "b", "annotations": {}}], "isError": False}, "a\nb"),
    ({"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}, "a"),
    ({"role": "tool", "tool_call_id": "call_1", "content": ""}, ""),
    ([{"type": "content", "content": text_block("a")}, {"type": "output_text", "text": "b"}, {"text": "c"}], "a\nb\nc"),
    ({"content": [{"type": "tool_result", "content": [text_block("a"), "b"]}, "c"]}, "a\nb\nc"),
    ([text_block("a"), IMAGE, "b", None], f"a\n{IMAGE_DIGEST}\nb"),
    ({"type": "file", "text": "a"}, digest('{"text":"a","type":"file"}')),
    ({"text": 1}, digest('{"text":1}')),
    ({"stdout": "5 s", "exitCode": 0}, digest('{"exitCode":0,"stdout":"5 s"}')),
    ([1, [2, 3], {}], "\n".join(map(digest, ("1", "[2,3]", "{}")))),
    (False, digest("false")),
]


@pytest.mark.parametrize(("output", "text"), SHAPES)
def test_the_text_of_a_result(output: Any, text: str) -> None:
    assert outcome(output) == digest(text)


def test_an_error_follows_the_output() -> None:
    assert outcome(error="a") == outcome("a") == outcome(None, "a") == digest("a")
    assert outcome("a", "b") == digest("a\nb")


def test_the_spelling_of_json_does_not_count() -> None:
    spelled = progress_outcome(Raw(b' [{"b": 1.0, "a": "\\u00e9"}] '), UNSET)
    assert spelled == outcome([{"a": "é", "b": 1}])


def test_a_lone_surrogate_is_no_fault() -> None:
    assert progress_outcome(Raw(b'"\\ud800"'), UNSET) == digest("\ufffd")


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(NotJsonError):
        progress_outcome(Raw(b"{"), UNSET)
    with pytest.raises(NestingError):
        progress_outcome(Raw(b'{"content":' * 600 + b"1" + b"}" * 600), UNSET)
    progress_outcome(Raw(b'{"content":' * 500 + b"1" + b"}" * 500), UNSET)


@given(st.text(st.sampled_from("0123456789abcdefxms:-.T, \t\n\x1b[]pidsh"), max_size=60))
def test_ends_are_trimmed_and_blanks_are_single(text: str) -> None:
    result = masked(text)
    assert result == result.strip()
    assert "  " not in result
    assert "\t" not in result
