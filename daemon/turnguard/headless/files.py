"""Files of transcripts: found, recognised, and read line by line."""

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from turnguard.headless.pieces import is_in_pieces, joined
from turnguard.transcript import HEAD_BYTES, Format, Head, Kept, Told, UnreadableError, head_of

SUFFIXES = (".jsonl", ".json", ".ndjson", ".traj", ".log", ".txt", ".gz")
"""What is looked at in a folder. A file that is named itself may be called anything."""

SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "event_cache"})
"""The last is where OpenHands has its events once more."""

MAX_PROBLEMS = 1_000
"""Lines of a file that are listed; more are counted."""

GZIP = b"\x1f\x8b"

NOT_PACKED = (gzip.BadGzipFile, EOFError, zlib.error)
"""What a file raises that only begins like a packed one, or that was cut short."""


class Problem(NamedTuple):
    """Something that could not be read. `line` None: the file as a whole, or a document's message `line`."""

    file: Path
    line: int | None
    message: str


class Transcript:
    """One file of a known format. Iterated once; what cannot be read is left out and listed.

    `problems`: the first of them; `unread`: how many there were.
    """

    def __init__(self, path: Path, format_: Format, lines: Iterable[bytes]) -> None:
        self.path = path
        self.format = format_
        self.problems: list[Problem] = []
        self.unread = 0
        self._lines = lines

    def __iter__(self) -> Iterator[Told]:
        """The events, each with its place."""
        reader = self.format.reader()
        number = 0
        try:
            for number, line in enumerate(self._lines, 1):
                if line.isspace():
                    continue
                try:
                    for told in reader.line(line):
                        yield told if told.place is not None else told._replace(place=number)
                except UnreadableError as error:
                    self._note(error, number)
        except (OSError, *NOT_PACKED) as error:
            self._note(UnreadableError(f"the file cannot be read to its end: {error}"), number + 1)
        try:
            yield from reader.end()
        except UnreadableError as error:
            self._note(error, None)

    def _note(self, error: UnreadableError, line: int | None) -> None:
        self.unread += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(self.path, line if error.place is None else error.place, error.message))


def find(paths: Sequence[Path]) -> list[Path]:
    """The files of these paths, folders with all that is in them, in order and each once. Links are not followed down.

    Raises FileNotFoundError for a path that is not there.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found |= dict.fromkeys(_within(path))
        elif path.exists():
            found[path] = None
        else:
            raise FileNotFoundError(path)
    return list(found)


def kept_by(kept: Iterable[Kept], environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files in an agent's own folders."""
    found: dict[Path, None] = {}
    for each in kept:
        moved = environ.get(each.variable, "") if each.variable is not None else ""
        folder = Path(moved, each.within) if moved else Path.home() / each.directory
        found |= dict.fromkeys(
            sorted(path for path in folder.glob(each.pattern) if path.is_file() or is_in_pieces(path))
        )
    return list(found)


def open_transcript(path: Path, formats: Sequence[Format], *, name: str | None = None) -> Transcript:
    """A transcript, of the first of the formats that recognises it, or of the one of this name.

    Raises OSError, and UnreadableError when its format is not known.
    """
    file = _opened(path)
    try:
        lines = list(_first_lines(file))
    except NOT_PACKED as error:
        raise UnreadableError(f"it cannot be read: {error}") from error
    head = head_of(lines)
    format_ = _recognised(head, formats) if name is None else next(each for each in formats if each.name == name)
    if format_ is None:
        file.close()
        raise UnreadableError("no transcript of a format that is known" if any(lines) else "it is empty")
    return Transcript(path, format_, _all_lines(lines, file))


def _recognised(head: Head, formats: Sequence[Format]) -> Format | None:
    return next((each for each in formats if each.recognises(head)), None)


def _opened(path: Path) -> IO[bytes]:
    if path.is_dir():
        return joined(path)
    file = path.open("rb")
    if file.peek(2)[:2] == GZIP:
        return cast("IO[bytes]", io.BufferedReader(gzip.GzipFile(fileobj=file)))
    return file


def _first_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The first lines; a long one comes in pieces, of which a head shows the first."""
    size = 0
    while size < HEAD_BYTES and (line := file.readline(HEAD_BYTES)):
        size += len(line)
        yield line


def _all_lines(pieces: Iterable[bytes], file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines: of the pieces that were read, and of the rest of the file, which is closed then."""
    with file:
        line = b""
        for piece in pieces:
            line += piece
            if line.endswith(b"\n"):
                yield line
                line = b""
        if line:
            yield line + file.readline()
        yield from file


def _within(folder: Path) -> Iterator[Path]:
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        if is_in_pieces(Path(directory)):
            yield Path(directory)
            continue
        yield from (Path(directory, name) for name in sorted(files) if name.endswith(SUFFIXES))
