"""Runs vector files: prints each mismatch, and as its last line how many cases passed and failed."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path

from tests.conformance.cases import BrokenLineError, Case, Mismatch, read_cases
from tests.conformance.suites import SUITES
from tests.conformance.wire import Wire, is_utf8

SHOWN_MISMATCHES = 3
"""Mismatches of one case that are printed; later ones mostly follow from them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the files that the command line names; 0 when every case passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vectors, .jsonl or .jsonl.gz")
    parser.add_argument("--through-daemon", action="store_true", help="play over a running `turnguard serve`")
    parser.add_argument("--verbose", action="store_true", help="print every case, and every mismatch of it")
    options = parser.parse_args(argv)
    for path in options.files:
        if not path.is_file():
            parser.error(f"no such file: {path}")
    with Wire.running() if options.through_daemon else nullcontext() as wire:
        return run(options.files, wire, shown=None if options.verbose else SHOWN_MISMATCHES)


def run(files: Sequence[Path], wire: Wire | None, *, shown: int | None) -> int:
    """Plays all cases, over the wire those that can be said there, and prints what came of it."""
    played: Counter[str] = Counter()
    failed = broken = 0
    for case in chain.from_iterable(map(read_cases, files)):
        if isinstance(case, BrokenLineError):
            print(case)
            broken += 1
            continue
        if wire is not None and not is_said(case):
            continue
        played[case.suite] += 1
        complaints = list(islice(complaints_of(case, wire), shown))
        failed += bool(complaints)
        if shown is None and not complaints:
            print(f"{case.id}: ok")
        for complaint in complaints:
            print(f"{case.id}: {complaint}")
    if wire is not None:
        said = ", ".join(f"{suite} {count}" for suite, count in sorted(played.items()))
        print(f"said through the daemon: {said or 'nothing'}")
    print(f"{played.total() - failed} passed, {failed + broken} failed")
    return 1 if failed + broken else 0


def is_said(case: Case) -> bool:
    """Whether a case is played over the wire; one that nobody can make sense of is, so that it fails."""
    try:
        return SUITES[case.suite].is_sayable(case) and is_utf8(case)
    except (KeyError, TypeError):
        return True


def complaints_of(case: Case, wire: Wire | None) -> Iterator[str]:
    """Where a case goes wrong; a fault of the guard is told like any other difference."""
    try:
        yield from map(str, _play(case, wire))
    except Exception as error:
        yield f"{type(error).__name__}: {error}"


def _play(case: Case, wire: Wire | None) -> Iterator[Mismatch]:
    suite = SUITES.get(case.suite)
    if suite is None:
        yield Mismatch("suite", sorted(SUITES), case.suite)
    elif wire is None or suite.replay is None:
        yield from suite.play(case)
    else:
        yield from suite.replay(case, wire.open)


if __name__ == "__main__":
    sys.exit(main())
