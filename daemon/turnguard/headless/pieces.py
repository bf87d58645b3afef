"""Folders that are one transcript: OpenHands writes each event of a conversation into a file of its own, by number."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FOLDER = "events"

PIECE = re.compile(r"(?:event-)?(\d{1,9})(?:-[0-9a-fA-F-]+)?\.json")
"""The name of such a file: `12.json`, `event-00012-0f3a....json`."""


def is_in_pieces(folder: Path) -> bool:
    """Whether a folder is a transcript in pieces. Raises OSError."""
    return folder.name == FOLDER and folder.is_dir() and next(_pieces(folder), None) is not None


def joined(folder: Path) -> IO[bytes]:
    """Its events in order, one a line. Raises OSError."""
    pieces = sorted(_pieces(folder))
    lines = (b" ".join(file.read_bytes().splitlines()) for _, file in pieces)  # no string of JSON holds a line's end
    return io.BytesIO(b"".join(line + b"\n" for line in lines))


def _pieces(folder: Path) -> Iterator[tuple[int, Path]]:
    for file in folder.iterdir():
        name = PIECE.fullmatch(file.name)
        if name is not None:
            yield int(name[1]), file
