"""What a repeat key costs, beside Node making the same key; and whether it is the same key.

    python -m benchmarks.key [--rounds 15] [--documents 100000] [--seed 1]

Needs ``node`` on PATH. Prints CPU microseconds per key (all threads of the process, so that noise from other processes
counts little) for documents that are new every time, and for one that was seen before. Fails when a generated document
has another key in Node, or when the best round costs more than 1.2 times Node's best.

The last column is the plain writer. For the sake of exactness it takes over when a document has a lone surrogate, a key
that is an array index, an integer past 2**53, or a character above U+FFFF together with one from U+E000 on.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any, NamedTuple

from turnguard.core.identity import tool_call_repeat_key
from turnguard.core.javascript import parse, stringify

GATE = 1.2
SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000}
BYTES_PER_ROUND = 2_000_000
BATCH = 2_000


class Node:
    """The other side: a node process that answers a JSON line with a JSON line."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("key_node.mjs")
        self._process = subprocess.Popen(["node", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request: object) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


# --- cost -------------------------------------------------------------------------------------------------------------


class Rounds(NamedTuple):
    """CPU microseconds per key, round by round, of one size of document."""

    python: list[float]
    node: list[float]
    seen: list[float]
    plain: list[float]

    @property
    def ratio(self) -> float:
        return min(self.python) / min(self.node)


def base_document(size: int) -> str:
    """Return the arguments of an edit, about size bytes long, to be told apart by what replaces ``@@@@@@@``."""
    edit = {
        "oldText": "    if (index >= limit) {\n        return null;\n    }\n",
        "newText": "    if (index > limit) {\n        throw new RangeError(`${index} > ${limit}`);\n    }\n"
        + "// édité\n" * 6,
        "line": 417,
        "column": 12,
        "confidence": 0.87,
        "replaceAll": False,
        "id": "@@@@@@@",
    }
    document: dict[str, object] = {"file_path": "/src/app/main.ts", "expected": 2, "id": "@@@@@@@", "ratio": 2.5}
    edits = [edit] * ((size - len(compact(document))) // len(compact(edit)))
    if edits:
        document["edits"] = edits
    document["rest"] = "x" * (size - len(compact(document)))
    return compact(document)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def numbered(base: str, start: int, count: int) -> list[bytes]:
    return [base.replace("@@@@@@@", f"{number:07}").encode() for number in range(start, start + count)]


def time_keys(documents: list[bytes]) -> float:
    """Return CPU microseconds per key."""
    before = process_time_ns()
    for document in documents:
        tool_call_repeat_key("edit", document)
    return (process_time_ns() - before) / 1_000 / len(documents)


def time_plain_writer(document: bytes) -> float:
    before = process_time_ns()
    stringify(parse(document), sort_keys=True)
    return (process_time_ns() - before) / 1_000


def measure(node: Node, size: int, rounds: int) -> Rounds:
    """Time both sides in turns, so that whatever else the machine does hits both."""
    base = base_document(size)
    count = max(20, min(5_000, BYTES_PER_ROUND // size))
    node.ask(time=[base, 0, 10 * count])  # lets the optimising compiler settle
    result = Rounds([], [], [], [])
    for start in range(count, (rounds + 1) * count, count):
        documents = numbered(base, start, count)
        gc.collect()
        result.python.append(time_keys(documents))
        result.node.append(node.ask(time=[base, start, count]))
        result.seen.append(time_keys(documents[:1] * count))
        result.plain.append(time_plain_writer(documents[0]))
    return result


def print_table(node: Node, rounds: int) -> bool:
    """Print a line for each size; tell whether all pass the gate."""
    print(f"CPU us per key, best/median of {rounds} interleaved rounds")
    print(f"{'':8}{'new':>16}{'node':>16}{'ratio':>8}{'seen':>8}{'plain':>10}")
    passed = True
    for label, size in SIZES.items():
        cost = measure(node, size, rounds)
        passed &= cost.ratio <= GATE
        pair = "".join(f"{min(side):8.1f}/{median(side):<7.1f}" for side in (cost.python, cost.node))
        print(f"{label:8}{pair}{cost.ratio:8.2f}{min(cost.seen):8.1f}{min(cost.plain):10.1f}")
    print(f"gate: ratio of the best rounds <= {GATE} at every size: {'passed' if passed else 'FAILED'}")
    return passed


# --- sameness ---------------------------------------------------------------------------------------------------------

NAMES = ["edit", "replace", "task", "search_file_content", "run_shell_command", "é", "", "a:b", "\ud800x", "😀"]

# fmt: off
KEYS = [
    "a", "b", "Z", "_", "", "path", "line1", "\n", '"', "__proto__", "constructor", "toJSON",
    "0", "1", "9", "10", "01", "-1", "2.5", "1e3", "4294967294", "4294967295", "99999999999", "x9", 'x"5', "٣",
    "é", "中", "😀", "𝒳", "\ue000", "\uffff", "\ufb01", "\ud800", "\udfff",
]
STRINGS = [
    *KEYS,
    "/src/a b.ts", "\u2028\u2029\x7f", "\x00\x1f\b\f\r\t\\", "1234567890123456789", '":5,"7":', "\ufeff",
    "\udc00\ud83d",
]
NUMBERS = [
    "0", "-0", "-0.0", "0e9", "1.0", "2.50", "1E2", "4.35", "0.1", "1e15", "1e20", "1e21", "1e400", "-1e400",
    "0.0001", "0.00009999", "0.000001", "1e-7", "5e-324", "1.7976931348623157e308", "999999999999999",
    "9007199254740992", "-9007199254740993", "123456789012345678", "100000000000000000000000",
]
# fmt: on


class Documents:
    """Valid JSON texts in every shape that two writers could disagree about."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311

    def call(self) -> tuple[str, str]:
        """Return a tool's name and the JSON text of its arguments."""
        return self._random.choice(NAMES), self.value(self._random.choice([2, 3, 5]))

    def value(self, levels: int) -> str:
        kind = self._random.random()
        if levels and kind < 0.45:
            members = (
                f"{self.string(self._random.choice(KEYS))}{self.gap()}:{self.value(levels - 1)}" for _ in self.some()
            )
            return f"{{{self.gap()}{','.join(members)}}}"
        if levels and kind < 0.6:
            return f"[{','.join(self.value(levels - 1) for _ in self.some())}{self.gap()}]"
        if kind < 0.8:
            return self.string(self._random.choice(STRINGS))
        if kind < 0.95:
            return self.number()
        return self._random.choice(["true", "false", "null"])

    def some(self) -> range:
        return range(self._random.choice([0, 1, 1, 2, 3, 6]))

    def gap(self) -> str:
        return self._random.choice(["", "", "", " ", "\n\t"])

    def string(self, text: str) -> str:
        """Write a string, its characters escaped or not."""
        return json.dumps(text, ensure_ascii=self._random.random() < 0.5 or not encodes(text))

    def number(self) -> str:
        kind = self._random.random()
        if kind < 0.5:
            return self._random.choice(NUMBERS)
        if kind < 0.7:
            return str(self._random.randint(-(10 ** self._random.randint(1, 20)), 10 ** self._random.randint(1, 20)))
        return repr(self._random.uniform(-1, 1) * 10.0 ** self._random.randint(-12, 25))


def encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def count_mismatches(node: Node, total: int, seed: int) -> int:
    """Compare keys over generated documents, show the first few that differ, and return how many do."""
    documents = Documents(seed)
    mismatches = 0
    for start in range(0, total, BATCH):
        calls = [documents.call() for _ in range(min(BATCH, total - start))]
        for (name, text), expected in zip(calls, node.ask(keys=calls), strict=True):
            fast, plain = tool_call_repeat_key(name, text.encode()), tool_call_repeat_key(name, parse(text))
            if fast != expected or plain != expected:
                mismatches += 1
                if mismatches <= 5:
                    print(f"differs: {name!a} {text!a} fast={fast == expected} plain={plain == expected}")
    return mismatches


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost and sameness of repeat keys, beside Node.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    node = Node()
    try:
        mismatches = count_mismatches(node, options.documents, options.seed)
        print(f"{mismatches} mismatches in {options.documents} documents (seed {options.seed})")
        passed = print_table(node, options.rounds)
    finally:
        node.close()
    return 0 if passed and not mismatches else 1


if __name__ == "__main__":
    sys.exit(main())
