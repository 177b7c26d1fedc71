"""The journal's file: SQLite in WAL mode, its schema, and what to do when it cannot be used.

Tables: ``samples`` (a few snapshots compressed together), ``series`` (the figures of the graphs, a row a second),
``operations``, ``events``, ``starts`` (what the estimate of a start-up rests on).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_VERSION = 2
SERIES = (
    "cycle_ms",
    "draft_ms",
    "verify_ms",
    "extend_ms",
    "accept_len",
    "depth",
    "tok_s",
    "running",
    "queued",
    "power_w",
)
"""Columns of ``series`` after its time; ``power_w`` is of all GPUs together."""
UPGRADES = {1: "ALTER TABLE series ADD COLUMN power_w REAL;"}
"""What makes a file of a version one of the next."""
LOCK_TIMEOUT_S = 2.0

CREATE = f"""
CREATE TABLE samples (from_s REAL NOT NULL, to_s REAL NOT NULL, count INTEGER NOT NULL, zstd BLOB NOT NULL);
CREATE INDEX samples_to ON samples (to_s);
CREATE TABLE series (at_s REAL PRIMARY KEY, {", ".join(f"{name} REAL" for name in SERIES)}) WITHOUT ROWID;
CREATE TABLE operations (id TEXT PRIMARY KEY, started_at_s REAL NOT NULL, json TEXT NOT NULL);
CREATE INDEX operations_started ON operations (started_at_s);
CREATE TABLE events (at_s REAL NOT NULL, json TEXT NOT NULL);
CREATE INDEX events_at ON events (at_s);
CREATE TABLE starts (at_s REAL NOT NULL, profile TEXT NOT NULL, json TEXT NOT NULL);
CREATE INDEX starts_profile ON starts (profile, at_s);
PRAGMA user_version = {SCHEMA_VERSION};
"""

CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class UnusableError(Exception):
    """The file cannot be used as a journal and should be moved aside."""


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open or create the journal.

    Raises:
        UnusableError: it is no journal of this version.
        sqlite3.Error: it cannot be opened now (full, read-only, locked); worth another try.
    """
    connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF in CORRUPT:
            raise UnusableError(f"it is damaged ({error})") from error
        raise
    except UnusableError:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    # Takes effect in an empty file only; without it a deleted row never gives its space back.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == 0 and not tables:
        connection.executescript(f"BEGIN IMMEDIATE; {CREATE} COMMIT;")
        return
    while version in UPGRADES:
        connection.executescript(f"BEGIN IMMEDIATE; {UPGRADES[version]} PRAGMA user_version = {version + 1}; COMMIT;")
        version += 1
    if version != SCHEMA_VERSION:
        raise UnusableError(f"it has schema {version}, this console writes {SCHEMA_VERSION}")


@contextlib.contextmanager
def open_for_reading(path: Path) -> Iterator[sqlite3.Connection]:
    """The journal beside a writer, read-only; also for commands that run without an agent."""
    connection = _connect_for_reading(path)
    try:
        yield connection
    finally:
        connection.close()


def _connect_for_reading(path: Path) -> sqlite3.Connection:
    """A read-only connection; a file beside which SQLite may make none (a copy on read-only media) is read as it is."""
    uri = path.resolve().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError as error:
        connection.close()
        unmakeable = error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
        if not unmakeable or not path.exists() or Path(f"{path}-wal").exists():
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def move_aside(path: Path) -> Path:
    """Rename a file that cannot be used, with its WAL, so that nothing is lost; returns the new path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.unusable-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.unusable-{stamp}-{number}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def shrink(connection: sqlite3.Connection, *, oldest_s: float, max_bytes: int) -> None:
    """Forget what is too old, then the oldest tenth of the samples as long as the file is too large.

    Operations and events stay until they are too old: they are small, and they are the history.
    """
    for table, column in (
        ("samples", "to_s"),
        ("series", "at_s"),
        ("events", "at_s"),
        ("operations", "started_at_s"),
        ("starts", "at_s"),
    ):
        connection.execute(f"DELETE FROM {table} WHERE {column} < ?", (oldest_s,))  # noqa: S608 - names from above
    for _ in range(20):
        if used_bytes(connection) <= max_bytes:
            break
        for table, column in (("samples", "to_s"), ("series", "at_s")):
            connection.execute(
                f"DELETE FROM {table} WHERE {column} <= (SELECT {column} FROM {table} ORDER BY {column} "  # noqa: S608
                f"LIMIT 1 OFFSET (SELECT count(*) / 10 FROM {table}))"
            )
    connection.execute("PRAGMA incremental_vacuum").fetchall()


def used_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the pages in use."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
