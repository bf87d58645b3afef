"""Folders that are one transcript: OpenHands writes each event of a conversation into a file of its own, by number."""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = "events"

PIECE = re.compile(r"(?:event-)?(\d{1,9})(?:-[0-9a-fA-F-]+)?\.json")
"""The name of such a file: `12.json`, `event-00012-0f3a....json`."""


def is_in_pieces(folder: Path) -> bool:
    """Whether a folder is a transcript in pieces. Raises OSError."""
    return folder.name == FOLDER and folder.is_dir() and next(_pieces(folder), None) is not None


def joined(folder: Path, most: int) -> Iterator[bytes]:
    """Its events in order, one a line; of a file of more than `most` bytes one more is read. Raises OSError."""
    for _, path in sorted(_pieces(folder)):
        with path.open("rb") as file:
            event = file.read(most + 1)
        yield b" ".join(event.splitlines()) + b"\n"  # no string of JSON holds a line's end


def _pieces(folder: Path) -> Iterator[tuple[int, Path]]:
    for file in folder.iterdir():
        name = PIECE.fullmatch(file.name)
        if name is not None and file.is_file():
            yield int(name[1]), file
