"""The journal: snapshots, operations, events and starts, written by a thread of its own.

Whoever records never waits and never fails. A full or read-only disk stops the writing, :attr:`Journal.note`
says why, and it is tried again; operations and events are kept in memory until then, samples are dropped. A
file that is damaged or of another version is moved aside, never deleted.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import zstandard

from console import rig
from console.agent import journal_file
from console.agent.journal_file import SERIES, UnusableError
from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

log = logging.getLogger(__name__)

Kind = Literal["operations", "events", "series", "starts"]
KINDS: tuple[str, ...] = get_args(Kind)

BLOCK_SAMPLES = 5
"""So many are compressed together: a tenth of the size of one by one. Each is written as it comes, the block that is not
full yet over and over: a killed agent loses nothing that it had sampled."""
RETRY_PERIOD_S = 30.0
SHRINK_PERIOD_S = 600.0
MAX_BYTES = 512 << 20
MAX_AGE_S = 30 * 86400.0
MOST_KEPT = 1000
"""Operations, events and starts waiting for a disk that works again."""
MOST_SAMPLES = 60
MOST_ROWS = 5000
INSERT_SERIES = f"INSERT OR REPLACE INTO series VALUES (?{', ?' * len(SERIES)})"  # noqa: S608 - a count, no text


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """One start of the engine, for the estimate of the next."""

    at_s: float
    profile: str
    ready: bool
    seconds: float
    """From the launch to ready, or to the failure."""
    phases: dict[str, float] = {}
    """Seconds by phase name."""


class Journal:
    """Writes in a thread; reads on any thread.

    Args:
        path: the SQLite file; its folder exists.
        max_bytes: size at which the oldest samples go.
        max_age_s: age at which everything goes.
        clock: Unix seconds.
        retry_period_s: pause after a failure.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
        clock: Callable[[], float] = time.time,
        retry_period_s: float = RETRY_PERIOD_S,
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._retry_period_s = retry_period_s
        self._connection: sqlite3.Connection | None = None
        self._compressor = zstandard.ZstdCompressor(level=6)
        self._encoder = msgspec.json.Encoder()
        self._samples: deque[tuple[float, bytes]] = deque(maxlen=MOST_SAMPLES)
        self._series: deque[tuple[float | None, ...]] = deque(maxlen=MOST_SAMPLES)
        self._rows: deque[tuple[str, tuple[Any, ...]]] = deque(maxlen=MOST_KEPT)
        self._lock = threading.Lock()  # over the three deques
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._shrink_due_s = 0.0
        self._block: list[tuple[float, bytes]] = []
        """Samples of the newest row, which is not full yet."""
        self._block_row: int | None = None
        self._moved = ""
        self._note = ""

    @property
    def note(self) -> str:
        """Why nothing is being recorded, or what was moved aside; empty while recording works."""
        return self._note or self._moved

    @property
    def works(self) -> bool:
        """Whether the last write succeeded."""
        return not self._note

    # ---------------------------------------------------------------------------------------- recording

    def start(self) -> None:
        """Start the writing thread."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Write what waits and close."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def sample(self, snapshot: rig.Snapshot) -> None:
        """Keep a snapshot: without the parts that other tables hold, and its figures once more as a series."""
        lean = msgspec.structs.replace(snapshot, history=rig.History(), events=(), log_tail=(), operation=None)
        text = self._encoder.encode(lean)
        figures = series_of(snapshot)
        with self._lock:
            self._samples.append((snapshot.at_s, text))
            if any(value is not None for value in figures):
                self._series.append((snapshot.at_s, *figures))
        self._wake.set()

    def operation(self, operation: rig.Operation) -> None:
        """Keep the newest state of an operation."""
        text = self._encoder.encode(operation).decode()
        self._keep(
            "INSERT INTO operations VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET json = excluded.json",
            (operation.id, operation.started_at_s, text),
        )

    def event(self, event: rig.Event) -> None:
        """Keep an event."""
        self._keep("INSERT INTO events VALUES (?, ?)", (event.at_s, self._encoder.encode(event).decode()))

    def engine_start(self, start: Start) -> None:
        """Keep how long a start took."""
        text = self._encoder.encode(start).decode()
        self._keep("INSERT INTO starts VALUES (?, ?, ?)", (start.at_s, start.profile, text))

    def _keep(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            self._rows.append((statement, values))
        self._wake.set()

    # ------------------------------------------------------------------------------------------ writing

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            last = self._stopping
            if self._flush() or last:
                if last:
                    break
                continue
            # Only stop() ends the pause after a failure: new rows wait for the retry like the old ones.
            deadline = time.monotonic() + self._retry_period_s
            while not self._stopping and (left := deadline - time.monotonic()) > 0:
                self._wake.wait(left)
                self._wake.clear()
            self._wake.set()
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()

    def _flush(self) -> bool:
        """Write all that waits; False when it could not be written."""
        try:
            connection = self._open()
            with self._lock:
                samples, series, rows = list(self._samples), list(self._series), list(self._rows)
            with _transaction(connection):
                block_row = self._write(connection, samples, series, rows)
            self._written(samples, block_row)
            with self._lock:
                for waiting, written in ((self._samples, samples), (self._series, series), (self._rows, rows)):
                    _forget(waiting, written)
            if self._clock() >= self._shrink_due_s:
                self._shrink_due_s = self._clock() + SHRINK_PERIOD_S
                journal_file.shrink(connection, oldest_s=self._clock() - self._max_age_s, max_bytes=self._max_bytes)
        except (sqlite3.Error, OSError, UnusableError) as error:
            return self._failed(error)
        self._note = ""
        return True

    def _open(self) -> sqlite3.Connection:
        """The connection; a damaged file is moved aside once, and a new one begun."""
        if self._connection is not None and not self.path.exists():
            self._close()  # somebody removed the file: what is written to it would be seen by nobody
        if self._connection is None:
            try:
                self._connection = journal_file.open_for_writing(self.path)
            except UnusableError as error:
                self._move_aside(str(error))
                self._connection = journal_file.open_for_writing(self.path)
        return self._connection

    def _write(
        self,
        connection: sqlite3.Connection,
        samples: list[tuple[float, bytes]],
        series: list[tuple[float | None, ...]],
        rows: list[tuple[str, tuple[Any, ...]]],
    ) -> int | None:
        """Write all that is given; the row of the block that the samples were added to."""
        block_row = self._write_block(connection, [*self._block, *samples]) if samples else self._block_row
        connection.executemany(INSERT_SERIES, series)
        for statement, values in rows:
            connection.execute(statement, values)
        return block_row

    def _write_block(self, connection: sqlite3.Connection, block: list[tuple[float, bytes]]) -> int | None:
        """Replace the row that is not full yet, or begin one."""
        times = [at_s for at_s, _ in block]
        row = (min(times), max(times), len(times), self._compressor.compress(b"\n".join(text for _, text in block)))
        if self._block_row is not None:
            update = "UPDATE samples SET from_s = ?, to_s = ?, count = ?, zstd = ? WHERE rowid = ?"
            if connection.execute(update, (*row, self._block_row)).rowcount:
                return self._block_row
        return connection.execute("INSERT INTO samples VALUES (?, ?, ?, ?)", row).lastrowid

    def _written(self, samples: list[tuple[float, bytes]], block_row: int | None) -> None:
        """The transaction is through: the block has grown, and a full one is let go of."""
        self._block.extend(samples)
        self._block_row = block_row
        if len(self._block) >= BLOCK_SAMPLES:
            self._block, self._block_row = [], None

    def _failed(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        self._close()
        if code is not None and code & 0xFF in journal_file.CORRUPT:
            with contextlib.suppress(OSError):
                self._move_aside(f"it is damaged ({error})")
                return True
        if not self._note:
            log.warning("the journal cannot be written: %s", error)
        self._note = (
            f"history is not being recorded: {error} - free space on, or the right to write to, {self.path.parent}; "
            f"tried again every {self._retry_period_s:.0f} s"
        )
        return False

    def _move_aside(self, why: str) -> None:
        aside = journal_file.move_aside(self.path)
        self._moved = f"{self.path.name} was moved to {aside.name}: {why}; a new history was begun"
        log.warning("%s", self._moved)

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        self._block, self._block_row = [], None


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Any:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _forget(waiting: deque[Any], written: list[Any]) -> None:
    """Remove what was written; a full deque may have dropped some of it meanwhile."""
    for entry in written:
        if waiting and waiting[0] is entry:
            waiting.popleft()


def series_of(snapshot: rig.Snapshot) -> tuple[float | None, ...]:
    """The figures of :data:`~console.agent.journal_file.SERIES`; ``None`` for what is stale, too."""
    cycle, acceptance, load = snapshot.cycle, snapshot.acceptance, snapshot.load

    def fresh(figure: rig.Figure) -> float | None:
        return None if figure.stale else figure.value

    def mean(stage: rig.Stage) -> float | None:
        return None if stage.stale else stage.mean_ms

    return (
        fresh(cycle.total_ms),
        mean(cycle.draft),
        mean(cycle.verify),
        mean(cycle.extend),
        fresh(acceptance.accept_len),
        fresh(acceptance.depth),
        fresh(load.tok_s),
        fresh(load.running),
        fresh(load.queued),
        _power_w(snapshot.gpus),
    )


def _power_w(gpus: tuple[rig.Gpu, ...]) -> float | None:
    """Of all GPUs together; ``None`` when one that answers does not tell, because the rest would be taken for all."""
    known = [gpu.power_w for gpu in gpus if gpu.state == "ok"]
    return None if not known or None in known else sum(value for value in known if value is not None)


# -------------------------------------------------------------------------------------------- reading

QUERIES = {
    "operations": "SELECT json FROM operations WHERE started_at_s BETWEEN ? AND ? ORDER BY started_at_s DESC LIMIT ?",
    "events": "SELECT json FROM events WHERE at_s BETWEEN ? AND ? ORDER BY at_s DESC LIMIT ?",
    "series": "SELECT * FROM series WHERE at_s BETWEEN ? AND ? ORDER BY at_s DESC LIMIT ?",
    "starts": "SELECT json FROM starts WHERE at_s BETWEEN ? AND ? ORDER BY at_s DESC LIMIT ?",
}


def read_history(
    path: Path, kind: str, since_s: float = 0.0, until_s: float = float("inf"), *, limit: int = MOST_ROWS
) -> list[dict[str, Any]]:
    """Rows of the journal as JSON has them, oldest first: the newest ``limit`` between the two times.

    Raises:
        ConsoleError: an unknown kind, or a file that cannot be read.
    """
    if kind not in QUERIES:
        raise ConsoleError(f"no history of {kind!r}", todo=f"one of {', '.join(QUERIES)}", code=ExitCode.USAGE)
    if not path.exists():
        return []
    try:
        with journal_file.open_for_reading(path) as connection:
            cursor = connection.execute(QUERIES[kind], (since_s, min(until_s, 1e300), limit))
            names = [entry[0] for entry in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.Error as error:
        if str(error).startswith("no such table"):
            return []  # begun this moment
        raise ConsoleError(f"the history in {path} cannot be read", why=str(error)) from error
    rows.reverse()
    if kind == "series":
        # An older journal has fewer columns; it is upgraded by the next agent, not by who reads.
        return [dict.fromkeys(SERIES) | dict(zip(names, row, strict=True)) for row in rows]
    return list(_decoded(row[0] for row in rows))


def _decoded(texts: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Rows that are JSON objects; a damaged one hides no other."""
    for text in texts:
        with contextlib.suppress(msgspec.DecodeError, TypeError):
            row = msgspec.json.decode(text)
            if isinstance(row, dict):
                yield row


def read_starts(path: Path, profile: str, *, limit: int = 10) -> list[Start]:
    """The newest starts of a profile that got ready, newest first; none when there is no journal to ask."""
    try:
        with journal_file.open_for_reading(path) as connection:
            rows = connection.execute(
                "SELECT json FROM starts WHERE profile = ? ORDER BY at_s DESC LIMIT ?", (profile, 5 * limit)
            ).fetchall()
    except sqlite3.Error:
        return []
    starts = [msgspec.json.decode(row[0], type=Start) for row in rows]
    return [start for start in starts if start.ready][:limit]


def read_samples(path: Path, since_s: float = 0.0, until_s: float = float("inf")) -> list[rig.Snapshot]:
    """Recorded snapshots between two times, oldest first."""
    decompressor = zstandard.ZstdDecompressor()
    decoder = msgspec.json.Decoder(rig.Snapshot)
    found = []
    with journal_file.open_for_reading(path) as connection:
        rows = connection.execute(
            "SELECT zstd FROM samples WHERE to_s >= ? AND from_s <= ? ORDER BY from_s", (since_s, min(until_s, 1e300))
        )
        for (blob,) in rows:
            for line in decompressor.decompress(blob).split(b"\n"):
                snapshot = decoder.decode(line)
                if since_s <= snapshot.at_s <= until_s:
                    found.append(snapshot)
    return found
