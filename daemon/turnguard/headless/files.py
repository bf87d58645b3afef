"""Files of transcripts: found, recognised, and read line by line."""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from turnguard.headless.databases import MAGIC, entries_of
from turnguard.headless.lines import MARK, Pieces, lines_of
from turnguard.headless.pieces import is_in_pieces, joined
from turnguard.headless.readers.document import MAX_DOCUMENT_BYTES, Document
from turnguard.transcript import HEAD_BYTES, Format, Head, Kept, Told, UnreadableError, head_of

SUFFIXES = (".jsonl", ".json", ".ndjson", ".traj", ".log", ".txt", ".gz", ".sqlite")
"""What is looked at in a folder. A file that is named itself may be called anything."""

SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "event_cache"})
"""The last is where OpenHands has its events once more."""

MAX_PROBLEMS = 1_000
"""Lines of a file that are listed; more are counted."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is not read: one of a few packed bytes could take all memory."""

PIECE_BYTES = 256 * 1024
"""What is read at once."""

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

    def __init__(self, path: Path, format_: Format, pieces: Iterable[bytes]) -> None:
        self.path = path
        self.format = format_
        self.problems: list[Problem] = []
        self.unread = 0
        self._pieces = pieces

    def __iter__(self) -> Iterator[Told]:
        """The events, each with its place."""
        reader = self.format.reader()
        number = 0
        most = MAX_DOCUMENT_BYTES if isinstance(reader, Document) else MAX_LINE_BYTES
        try:
            for number, line in enumerate(lines_of(self._pieces, most), 1):
                if line is None:
                    self._note(UnreadableError(f"longer than {most // 1024**2} MB"), number)
                    continue
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


class Found(NamedTuple):
    """Files in order, and what could not be looked into."""

    files: Sequence[Path]
    problems: Sequence[Problem]


def find(paths: Sequence[Path]) -> Found:
    """The files of these paths, folders with all that is in them, in order. Links to folders are not followed down.

    Of a folder only regular files are taken: a pipe in it has nobody who writes. Raises FileNotFoundError for a path
    that is not there.
    """
    files: list[Path] = []
    problems: list[Problem] = []

    def note(error: OSError) -> None:
        problems.append(Problem(Path(error.filename), None, _why(error)))

    for path in paths:
        try:
            # Not `is_dir`, which since Python 3.14 says of what cannot be looked at that it is none.
            if stat.S_ISDIR(path.stat().st_mode):
                files += _within(path, note)
            else:
                files.append(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise FileNotFoundError(path) from None
        except OSError as error:  # a name that is too long, a folder that may not be entered
            problems.append(Problem(path, None, _why(error)))
    return Found(files, problems)


def once(files: Iterable[Path]) -> list[Path]:
    """Each file once, however it is called."""
    found: dict[object, Path] = {}
    for file in files:
        try:
            status = file.stat()
            found.setdefault((status.st_dev, status.st_ino), file)
        except OSError:  # it is told when it is opened
            found[file] = file
    return list(found.values())


def kept_by(kept: Iterable[Kept], environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The files in an agent's own folders."""
    found: dict[Path, None] = {}
    for each in kept:
        paths = _folder(each, environ).glob(each.pattern)
        found |= dict.fromkeys(sorted(path for path in paths if path.is_file() or is_in_pieces(path)))
    return list(found)


def folders_of(kept: Iterable[Kept], environ: Mapping[str, str] = os.environ) -> list[Path]:
    """An agent's own folders, whether they are there or not."""
    return [_folder(each, environ) for each in kept]


def _folder(kept: Kept, environ: Mapping[str, str]) -> Path:
    moved = environ.get(kept.variable, "") if kept.variable is not None else ""
    return Path(moved, kept.within) if moved else Path.home() / kept.directory


def open_transcript(path: Path, formats: Sequence[Format], *, name: str | None = None) -> Transcript:
    """A transcript, of the first of the formats that recognises it, or of the one of this name.

    Raises OSError, and UnreadableError when its format is not known.
    """
    pieces = Pieces(joined(path, MAX_LINE_BYTES) if path.is_dir() else _read(path))
    try:
        start = pieces.head(HEAD_BYTES).removeprefix(MARK)
        if start.startswith(MAGIC):
            pieces = Pieces(entries_of(path, MAX_LINE_BYTES))
            start = pieces.head(HEAD_BYTES)
    except NOT_PACKED as error:
        raise UnreadableError(f"it cannot be read: {error}") from error
    head = head_of([line + b"\n" for line in start.split(b"\n")])
    head = head._replace(start=start[:HEAD_BYTES])
    format_ = _recognised(head, formats) if name is None else next(each for each in formats if each.name == name)
    if format_ is None:
        raise UnreadableError("no transcript of a format that is known" if start else "it is empty")
    return Transcript(path, format_, pieces)


def _recognised(head: Head, formats: Sequence[Format]) -> Format | None:
    return next((each for each in formats if each.recognises(head)), None)


def _read(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is packed. What can be unpacked is told before anything is raised."""
    with path.open("rb") as file:
        read = gzip.GzipFile(fileobj=file).read1 if file.peek(2)[:2] == GZIP else file.read1
        yield from iter(partial(read, PIECE_BYTES), b"")


def _within(folder: Path, note: Callable[[OSError], None]) -> Iterator[Path]:
    for directory, folders, files in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        if is_in_pieces(Path(directory)):
            yield Path(directory)
            continue
        paths = (Path(directory, name) for name in sorted(files) if name.endswith(SUFFIXES))
        yield from (path for path in paths if _may_be_read(path))


def _may_be_read(path: Path) -> bool:
    """Whether it is a regular file, or one of which that cannot be told: why will be said when it is opened."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True


def _why(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or error}"
