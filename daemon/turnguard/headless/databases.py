"""OpenClaw's database of an agent, `openclaw-agent.sqlite`, read as the session files that it stands for.

Since 2026.7 the lines of session files are rows of `transcript_events`, by session and number: as text, or since 2026.9
(version 23 of its schema) from 1 KiB on packed with Zstandard. Nothing in it is changed, and of a session that goes on
all is read that was there when reading began.
"""

import errno
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from turnguard.transcript import UnreadableError

MAGIC: Final = b"SQLite format 3\0"
"""What every database begins with."""

LOCKED_SECONDS = 2.0
"""How long a database is waited for that somebody changes."""

MAX_UNPACKED_BYTES = 4 * 1024 * 1024
"""OpenClaw packs no longer ones (`MAX_COMPRESSED_EVENT_BYTES`)."""

_EVENTS, _ARCHIVES = "transcript_events", "session_transcript_cold_archives"
_NEEDED = frozenset({"session_id", "seq", "event_json", "created_at"})
_PACKED = frozenset({"event_zstd", "event_utf8_bytes"})

_ZSTD_MODULES = ("compression.zstd", "backports.zstd")
"""Where Python has Zstandard: since 3.14 its own, else the same as a package."""

NO_ZSTD: Final = "its entries are packed with Zstandard; install backports.zstd for that, or use Python 3.14"

Unpack = Callable[[bytes], bytes]


def entries_of(path: Path, most: int) -> Iterator[bytes]:
    """The entries of all sessions, one a line; before those of a session a line that names it.

    `most`: bytes of the longest entry. Where something cannot be read a line says why. Raises OSError when nothing can,
    and UnreadableError when it is no such database.
    """
    if not path.is_file():
        raise UnreadableError("a database is read from a file only")
    has_begun = False
    try:
        with closing(_opened(path)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
            for line in _entries(connection):
                has_begun = True
                yield line
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite quotes what is damaged
        if not has_begun:
            raise OSError(errno.EIO, _why(error)) from error
        yield _unread(f"the database cannot be read to its end: {_why(error)}")


def _opened(path: Path) -> sqlite3.Connection:
    """Opens it for reading.

    Where nobody has it open, and nothing waits beside it to be put in, it is taken as it lies there: to share it,
    SQLite would make files.
    """
    is_in_use = any(path.with_name(path.name + end).exists() for end in ("-wal", "-shm", "-journal"))
    how = "mode=ro" if is_in_use else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=LOCKED_SECONDS, isolation_level=None
    )
    connection.text_factory = bytes
    return connection


def _entries(connection: sqlite3.Connection) -> Iterator[bytes]:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("BEGIN")
    columns = _columns(connection, _EVENTS)
    if not columns >= _NEEDED:
        raise UnreadableError("a database, and not one of OpenClaw's agents")
    is_packed = columns >= _PACKED
    unpack = _unpacker() if is_packed else None
    if is_packed and unpack is None and _has_packed(connection):
        raise OSError(errno.ENOTSUP, NO_ZSTD)
    packed = "event_zstd, event_utf8_bytes" if is_packed else "NULL, NULL"
    sessions = (
        f"SELECT session_id FROM {_EVENTS} WHERE typeof(session_id) = 'text' "  # noqa: S608
        "GROUP BY session_id ORDER BY min(created_at), session_id"
    )
    entries = f"SELECT event_json, {packed} FROM {_EVENTS} WHERE session_id = CAST(? AS TEXT) ORDER BY seq"  # noqa: S608
    for (session_id,) in connection.execute(sessions).fetchall():
        yield _line({"type": "session", "id": session_id.decode("utf-8", "replace"), "database": True})
        rows = connection.execute(entries, (session_id,))
        for text, zstd, size in rows:
            yield _entry(text, zstd, size, unpack)
    if _columns(connection, _ARCHIVES):
        ((archived,),) = connection.execute(f"SELECT count(*) FROM {_ARCHIVES}").fetchall()  # noqa: S608
        if archived:
            yield _unread(f"{archived} of its sessions are in archives, which are not read")


def _columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The columns of a table; none where there is no table of this name, but a view, say."""
    kinds = connection.execute("SELECT type FROM sqlite_schema WHERE name = ?", (table,)).fetchall()
    if kinds != [(b"table",)]:
        return frozenset()
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return frozenset(name.decode("utf-8", "replace") for (name,) in rows)


def _has_packed(connection: sqlite3.Connection) -> bool:
    ((found,),) = connection.execute(f"SELECT EXISTS (SELECT 1 FROM {_EVENTS} WHERE event_zstd IS NOT NULL)")  # noqa: S608
    return bool(found)


def _entry(text: Any, zstd: Any, size: Any, unpack: Unpack | None) -> bytes:
    if isinstance(text, bytes):
        return b" ".join(text.splitlines()) + b"\n"  # no string of JSON holds a line's end
    if not isinstance(zstd, bytes):
        return _unread("an entry that is no text")
    try:
        unpacked = b"" if unpack is None else unpack(zstd)
    except Exception:  # what is wrong with it is told by an error of the module's own
        return _unread("packed, and cannot be unpacked")
    if len(unpacked) != size:
        return _unread("packed, and not of the length that it says")
    return b" ".join(unpacked.splitlines()) + b"\n"


def _unpacker() -> Unpack | None:
    """What unpacks Zstandard, None where nothing does."""
    for name in _ZSTD_MODULES:
        try:
            module: Any = import_module(name)
        except ImportError:
            continue
        return lambda data: module.ZstdDecompressor().decompress(data, max_length=MAX_UNPACKED_BYTES)
    return None


def _unread(why: str) -> bytes:
    return _line({"type": "unread", "why": why})


def _line(members: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(members) + b"\n"


def _why(error: sqlite3.Error | UnicodeDecodeError) -> str:
    """What SQLite says of it; never what is in it."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    return {
        "SQLITE_BUSY": "it is in use",
        "SQLITE_CANTOPEN": "it, or what lies beside it, cannot be opened",
        "SQLITE_TOOBIG": "an entry is too long",
        "SQLITE_CORRUPT": "it is damaged",
        "SQLITE_NOTADB": "it is damaged",
        UnicodeDecodeError.__name__: "it is damaged",
    }.get(name, name)
