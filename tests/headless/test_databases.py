"""OpenClaw's databases: the same is read of them as of the files that they stand for, and nothing is changed."""

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.headless.reading import plain
from tests.headless.test_openclaw import ENTRIES, HEADER, message, told

from turnguard.headless import databases
from turnguard.headless.files import Problem, find, kept_by, open_transcript
from turnguard.headless.readers import FORMATS, openclaw
from turnguard.transcript import UnreadableError

BEFORE = """CREATE TABLE transcript_events (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT NOT NULL, created_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq)) STRICT"""
"""As it was before version 23 of the schema."""

NOW = """CREATE TABLE transcript_events (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL,
    event_zstd BLOB, event_utf8_bytes INTEGER, navigation_json TEXT, PRIMARY KEY (session_id, seq)) STRICT"""

ARCHIVES = "CREATE TABLE session_transcript_cold_archives (session_id TEXT NOT NULL PRIMARY KEY) STRICT"
NO_SESSIONS = "a database, and not one of OpenClaw's agents"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "openclaw-agent.sqlite"


def make(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def insert(connection: sqlite3.Connection, session: object, entries: Sequence[object], at: int = 0) -> None:
    for seq, entry in enumerate(entries):
        text = entry if isinstance(entry, str) else json.dumps(entry)
        connection.execute(
            "INSERT INTO transcript_events (session_id, seq, event_json, created_at) VALUES (?, ?, ?, ?)",
            (session, seq, text, at),
        )
    connection.commit()


def add(path: Path, session: str, entries: Sequence[object], at: int = 0) -> None:
    with closing(sqlite3.connect(path)) as connection:
        insert(connection, session, entries, at)


def pack(path: Path, seq: int, data: bytes, size: int) -> None:
    """Packs an entry, after a fashion."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ? WHERE seq = ?",
            (data, size, seq),
        )
        connection.commit()


def read(path: Path) -> tuple[list[dict[str, Any]], list[Problem]]:
    transcript = open_transcript(path, FORMATS)
    assert transcript.format is openclaw.FORMAT
    return [plain(each) for each in transcript], transcript.problems


def of_session(name: str) -> list[dict[str, Any]]:
    """What the entries tell where they are of a session with a name."""
    return [
        {**each, "session": name, **({"message": f"{name} {each['message']}"} if "message" in each else {})}
        for each in told(first=2)
    ]


def beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.mark.parametrize("schema", [BEFORE, NOW])
def test_a_database_says_what_the_files_say_of_which_it_is_made(path: Path, schema: str) -> None:
    make(path, schema)
    add(path, "later", [HEADER, *ENTRIES], at=2)
    add(path, "first", [HEADER, *ENTRIES], at=1)
    before = path.read_bytes()
    events, problems = read(path)
    assert problems == []
    assert events == [*of_session("first"), *of_session("later")]
    assert (path.read_bytes(), beside(path)) == (before, [path.name])


def test_what_is_packed_is_unpacked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_unpacker", lambda: zlib.decompress)
    make(path, NOW)
    add(path, "s", [HEADER, *ENTRIES])
    for seq in (3, 4):
        text = json.dumps(ENTRIES[seq - 1]).encode()
        pack(path, seq, zlib.compress(text), len(text))
    assert read(path) == (of_session("s"), [])


def test_what_cannot_be_unpacked_is_left_out_and_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_unpacker", lambda: zlib.decompress)
    make(path, NOW)
    add(path, "s", [HEADER, *ENTRIES])
    pack(path, 2, zlib.compress(b"{}"), 200)
    pack(path, 3, b"no such thing", 200)
    events, problems = read(path)
    assert [(problem.line, problem.message) for problem in problems] == [
        (3, "packed, and not of the length that it says"),
        (4, "packed, and cannot be unpacked"),
    ]
    assert events == [each for each in of_session("s") if each["place"] not in (3, 4)]


def test_without_a_module_that_unpacks_nothing_is_said_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the results would look like a turn that does not repeat itself."""
    monkeypatch.setattr(databases, "_ZSTD_MODULES", ("turnguard.no_such_module",))
    make(path, NOW)
    add(path, "s", [HEADER, *ENTRIES])
    assert read(path) == (of_session("s"), [])
    pack(path, 4, b"anything", 100)
    with pytest.raises(OSError, match=r"packed with Zstandard; install backports\.zstd"):
        open_transcript(path, FORMATS)


def test_a_module_that_unpacks_is_used() -> None:
    unpack = databases._unpacker()
    assert unpack is not None
    frame = bytes.fromhex("28b52ffd2002110000") + b"{}"  # one block, as it is
    assert unpack(frame) == b"{}"


def test_what_others_wrote_and_is_not_in_the_file_yet_is_read(path: Path) -> None:
    make(path, "PRAGMA journal_mode = WAL", NOW)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        insert(writer, "s", [HEADER, *ENTRIES])
        writer.execute("UPDATE transcript_events SET event_json = 'not yet'")
        before = path.read_bytes()
        there = beside(path)
        assert read(path) == (of_session("s"), [])
        assert (path.read_bytes(), beside(path)) == (before, there)
        writer.rollback()


def test_beside_one_that_nobody_has_open_nothing_is_made(path: Path) -> None:
    make(path, "PRAGMA journal_mode = WAL", NOW)
    add(path, "s", [HEADER, *ENTRIES])
    assert beside(path) == [path.name]
    lines = databases.entries_of(path, 10_000)
    next(lines)
    assert beside(path) == [path.name]
    assert len(list(lines)) == 1 + len(ENTRIES)
    assert beside(path) == [path.name]


def test_what_is_written_meanwhile_is_not_mixed_in(path: Path) -> None:
    make(path, "PRAGMA journal_mode = WAL", NOW)
    with closing(sqlite3.connect(path)) as writer:
        insert(writer, "a", [HEADER, *ENTRIES], at=1)
        insert(writer, "b", [HEADER, *ENTRIES], at=2)
        lines = databases.entries_of(path, 10_000)
        first = [next(lines) for _ in range(3)]
        writer.execute("DELETE FROM transcript_events WHERE session_id = 'b'")
        writer.commit()
        assert len([*first, *lines]) == 2 * (2 + len(ENTRIES))


def test_one_that_somebody_changes_is_told_and_not_waited_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOCKED_SECONDS", 0.01)
    make(path, NOW)
    add(path, "s", [HEADER, *ENTRIES])
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("DELETE FROM transcript_events")
        with pytest.raises(OSError, match="it is in use"):
            open_transcript(path, FORMATS)
        writer.rollback()
    assert read(path) == (of_session("s"), [])


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE something (x)"],
        ["CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, payload TEXT)"],
        [
            "CREATE VIEW transcript_events AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
            " SELECT 's' AS session_id, n AS seq, '{}' AS event_json, n AS created_at FROM r"
        ],
    ],
)
def test_a_database_of_another_kind_is_no_transcript(path: Path, statements: list[str]) -> None:
    make(path, *statements)
    with pytest.raises(UnreadableError, match=NO_SESSIONS):
        open_transcript(path, FORMATS)


def test_one_without_sessions_is_empty(path: Path) -> None:
    make(path, NOW)
    with pytest.raises(UnreadableError, match="it is empty"):
        open_transcript(path, FORMATS)


def damaged(path: Path) -> Iterator[bytes]:
    whole = path.read_bytes()
    yield whole[:100]
    yield whole[:5000]
    yield databases.MAGIC + b"\xff" * 4096
    for at in range(100, len(whole), 97):
        yield whole[:at] + b"\xa5" * 40 + whole[at + 40 :]


def test_a_damaged_one_is_told_and_nothing_worse(path: Path) -> None:
    make(path, NOW, ARCHIVES)
    add(path, "s", [HEADER, *ENTRIES])
    for data in damaged(path):
        path.write_bytes(data)
        try:
            transcript = open_transcript(path, FORMATS)
            list(transcript)
        except (OSError, UnreadableError):
            continue


def test_an_end_that_cannot_be_read_is_told_after_what_can(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnguard.headless.files.MAX_LINE_BYTES", 100_000)
    make(path, NOW)
    long = message("e2", "user", "x" * 200_000)
    add(path, "s", [HEADER, *[message("e1", "user", "go")] * 4, long, message("e3", "user", "on")])
    events, problems = read(path)
    assert [event["place"] for event in events][:3] == [2, 3, 4]  # the one before may be lost with it
    assert len(events) <= 4
    assert [problem.message for problem in problems] == ["the database cannot be read to its end: an entry is too long"]


def test_what_is_no_text_and_no_session_is_left_out(path: Path) -> None:
    make(path, NOW.replace(" STRICT", "").replace(" NOT NULL", "").replace("event_json TEXT", "event_json"))
    add(path, "s", [HEADER, *(message(f"e{number}", "user", "go") for number in range(3))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE transcript_events SET event_json = NULL WHERE seq = 1")
        connection.execute("UPDATE transcript_events SET event_json = 7 WHERE seq = 2")
        for session in (None, b"blob"):
            insert(connection, session, [HEADER])
    events, problems = read(path)
    assert [event["place"] for event in events] == [4]
    assert [(problem.line, problem.message) for problem in problems] == [
        (2, "an entry that is no text"),
        (3, "an entry that is no text"),
    ]


def test_names_that_are_no_unicode_are_read(path: Path) -> None:
    make(path, NOW)
    add(path, "s", [HEADER, message("e1", "user", "go")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE transcript_events SET session_id = CAST(x'ff41' AS TEXT)")
        connection.commit()
    (event,), _ = read(path)
    assert event["session"] == "\ufffdA"


def test_sessions_in_archives_are_told(path: Path) -> None:
    make(path, NOW, ARCHIVES, "INSERT INTO session_transcript_cold_archives VALUES ('x'), ('y')")
    add(path, "s", [HEADER, *ENTRIES])
    events, problems = read(path)
    assert events == of_session("s")
    assert [problem.message for problem in problems] == ["2 of its sessions are in archives, which are not read"]


def test_it_is_found_where_openclaw_keeps_it_and_in_folders(tmp_path: Path) -> None:
    kept = tmp_path / "state/agents/main/agent/openclaw-agent.sqlite"
    kept.parent.mkdir(parents=True)
    make(kept, NOW)
    assert kept_by(openclaw.FORMAT.kept, {"OPENCLAW_STATE_DIR": str(tmp_path / "state")}) == [kept]
    assert find([tmp_path]).files == [kept]


def test_a_name_may_have_anything_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=rwc#%20 é.sqlite"
    make(path, NOW)
    add(path, "s", [HEADER, *ENTRIES])
    assert read(path) == (of_session("s"), [])
