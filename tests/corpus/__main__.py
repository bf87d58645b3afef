"""Plays recorded turns through a running daemon and says which were halted, and where.

    python -m tests.corpus PATH [--only SETTING] [--json] [--replay]

One daemon, and one run through the file for each guard setting. A halt counts where it left calls unrun; for a stuck
turn that never recovered also after its last call. `wasted` are the calls that ran after a person would have stopped.
With `--replay` the turns are written as transcripts and `turnguard replay` is asked: its numbers are the same.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from tests.corpus.play import SETTINGS, Played, play
from tests.corpus.replayed import replay
from tests.corpus.turns import LABELS, read_turns
from turnguard.client import Client

HEADER = f"{'setting':14} {'turns':>18} {'halted':>7} {'warned':>7} {'halted at':>10} {'wasted':>7} {'in all':>7}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description="Recorded turns through the daemon.")
    parser.add_argument("path", type=Path, help="JSON lines, .gz or plain")
    parser.add_argument(
        "--only", choices=[setting.name for setting in SETTINGS], action="append", help="a guard setting"
    )
    parser.add_argument("--json", action="store_true", help="one object for each turn and setting")
    parser.add_argument("--replay", action="store_true", help="ask `turnguard replay` in place of a daemon")
    options = parser.parse_args(argv)
    turns = read_turns(options.path)
    if not options.json:
        print(f"{len(turns):,} turns. Halted at: median number of the first call that did not run.\n\n{HEADER}")
    show = print_objects if options.json else print_rows
    settings = [setting for setting in SETTINGS if not options.only or setting.name in options.only]
    if options.replay:
        for setting in settings:
            show(replay(turns, setting))
        return 0
    with Client.spawn() as client:
        for setting in settings:
            show([play(client, turn, setting) for turn in turns])
        return client.shutdown()


def print_objects(played: Iterable[Played]) -> None:
    for each in played:
        about = {"setting": each.setting, "id": each.turn.id, "label": each.turn.group}
        answer = {"halt_at": each.halt_at, "loop_type": each.loop_type, "warn_at": each.warn_at}
        print(msgspec.json.encode(about | answer).decode())


def print_rows(played: Sequence[Played]) -> None:
    setting = played[0].setting if played else ""
    for label in LABELS:
        group = [each for each in played if each.turn.group == label]
        if not group:
            continue
        halted = [each for each in group if each.is_halted]
        warned = sum(each.warn_at is not None for each in group)
        wasted = [each.wasted for each in group if each.wasted is not None and label == "stuck"]
        at = f"{median(each.halt_at or 0 for each in halted):g}" if halted else "-"
        after = f"{median(wasted):7g} {sum(wasted):7}" if wasted else ""
        print(f"{setting:14} {len(group):7} {label:10} {len(halted):7} {warned:7} {at:>10} {after}".rstrip())
        setting = ""
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
