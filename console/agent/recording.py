"""A journal as a recording: the snapshot as of any recorded second, with the graphs, events and operation it had then."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import zstandard

from console import rig
from console.agent import history, journal_file, series
from console.errors import ConsoleError, ExitCode

_Record = TypeVar("_Record", bound=msgspec.Struct)

EVENTS_SHOWN = 100
BLOCKS_KEPT = 8
MOST_BLOCK_BYTES = 64 << 20
"""A block holds some seconds of snapshots; one that claims more is no block of ours."""


class _Block(NamedTuple):
    from_s: float
    to_s: float
    snapshots: tuple[rig.Snapshot, ...]
    """By time; empty when the block is damaged."""


class Recording:
    """Reads a journal file, live or a copy. One thread at a time.

    Args:
        path: ``history.sqlite`` of a rig.

    Raises:
        ConsoleError: it is no journal, or nothing was recorded in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        """Blocks met so far that cannot be read; they are passed over like a gap."""
        self._blocks: OrderedDict[tuple[int, float], _Block] = OrderedDict()
        self._decoder = msgspec.json.Decoder(rig.Snapshot)
        self._decompressor = zstandard.ZstdDecompressor()
        self._files = contextlib.ExitStack()
        try:
            self._connection = self._open()
            self.first_s, self.last_s = self._span()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._files.close()

    # ------------------------------------------------------------------------------------------ opening

    def _open(self) -> sqlite3.Connection:
        if not self.path.is_file():
            what = "is a folder" if self.path.is_dir() else "does not exist"
            todo = "give the history.sqlite of a rig; `console history` names it"
            raise ConsoleError(f"{self.path} {what}", todo=todo, code=ExitCode.USAGE)
        try:
            connection = self._files.enter_context(journal_file.open_for_reading(self.path))
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except sqlite3.Error as error:
            raise ConsoleError(
                f"{self.path} cannot be read as a journal", why=str(error), code=ExitCode.USAGE
            ) from error
        if "samples" not in tables:
            raise ConsoleError(f"{self.path} is no journal of a rig", code=ExitCode.USAGE)
        if version > journal_file.SCHEMA_VERSION:
            why = f"it has schema {version}, this console reads up to {journal_file.SCHEMA_VERSION}"
            raise ConsoleError(f"{self.path} is of a newer console", why=why, todo="update the console")
        return connection

    def _span(self) -> tuple[float, float]:
        row = self._one("SELECT min(from_s), max(to_s) FROM samples")
        if row is None or row[0] is None:
            raise ConsoleError(f"{self.path} holds no snapshots", why="nothing has been recorded yet")
        return float(row[0]), float(row[1])

    def refresh(self) -> None:
        """Look how far a journal that is being written reaches now."""
        with contextlib.suppress(ConsoleError):
            self.first_s, self.last_s = self._span()

    # ------------------------------------------------------------------------------------------ by time

    def at(self, at_s: float) -> rig.Snapshot | None:
        """The newest snapshot at or before a time, completed; ``None`` before the first."""
        found = self._lean_before(at_s, including=True)
        return None if found is None else self._completed(found)

    def after(self, at_s: float) -> float | None:
        """Time of the first snapshot after a time; ``None`` at the end."""
        block = self._block("SELECT rowid, from_s, to_s, zstd FROM samples WHERE to_s > ? ORDER BY to_s LIMIT 1", at_s)
        while block is not None:
            for snapshot in block.snapshots:
                if snapshot.at_s > at_s:
                    return snapshot.at_s
            query = "SELECT rowid, from_s, to_s, zstd FROM samples WHERE to_s > ? ORDER BY to_s LIMIT 1"
            block = self._block(query, block.to_s)
        return None

    def before(self, at_s: float) -> float | None:
        """Time of the last snapshot before a time; ``None`` at the beginning."""
        found = self._lean_before(at_s, including=False)
        return None if found is None else found.at_s

    def _lean_before(self, at_s: float, *, including: bool) -> rig.Snapshot | None:
        query = "SELECT rowid, from_s, to_s, zstd FROM samples WHERE to_s >= ? ORDER BY to_s LIMIT 1"
        block = self._block(query, at_s)
        earlier = "SELECT rowid, from_s, to_s, zstd FROM samples WHERE to_s < ? ORDER BY to_s DESC LIMIT 1"
        if block is None or block.from_s > at_s:
            block = self._block(earlier, at_s)
        while block is not None:
            for snapshot in reversed(block.snapshots):
                if snapshot.at_s < at_s or (including and snapshot.at_s == at_s):
                    return snapshot
            block = self._block(earlier, block.to_s)
        return None

    def _block(self, query: str, at_s: float) -> _Block | None:
        row = self._one(query, at_s)
        if row is None:
            return None
        rowid, from_s, to_s, blob = row
        key = (rowid, to_s)  # the newest row of a journal that is being written grows
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        block = _Block(from_s, to_s, self._snapshots(blob))
        self.damaged += not block.snapshots
        self._blocks[key] = block
        if len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return block

    def _snapshots(self, blob: Any) -> tuple[rig.Snapshot, ...]:
        try:
            size = zstandard.get_frame_parameters(blob).content_size
            if size > MOST_BLOCK_BYTES:
                return ()
            lines = self._decompressor.decompress(blob).split(b"\n")
        except (zstandard.ZstdError, TypeError, ValueError):
            return ()
        found = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):
                snapshot = self._decoder.decode(line)
                if snapshot.schema == rig.SCHEMA and math.isfinite(snapshot.at_s):
                    found.append(snapshot)
        return tuple(sorted(found, key=lambda entry: entry.at_s))

    # ------------------------------------------------------------------------------------------ completing

    def _completed(self, lean: rig.Snapshot) -> rig.Snapshot:
        """With the parts that are kept in other tables, as they were at its time."""
        return msgspec.structs.replace(
            lean, history=self._graphs(lean.at_s), events=self._events(lean.at_s), operation=self._operation(lean.at_s)
        )

    def _graphs(self, at_s: float) -> rig.History:
        last = math.floor(at_s) + 1
        first = last - history.POINTS
        columns: dict[str, list[float | None]] = {name: [None] * history.POINTS for name in history.NAMES}
        with contextlib.suppress(sqlite3.Error):
            for row in series.rows_of(self._connection, first, last):
                figures = dict(zip(series.COLUMNS, row, strict=True))
                for name, column in columns.items():
                    if (value := figures[name]) is not None:
                        column[math.floor(figures["at_s"] or 0.0) - first] = value
        return rig.History(step_s=history.STEP_S, **{name: tuple(column) for name, column in columns.items()})

    def _events(self, at_s: float) -> tuple[rig.Event, ...]:
        rows = self._all("SELECT json FROM events WHERE at_s <= ? ORDER BY at_s DESC LIMIT ?", at_s, EVENTS_SHOWN)
        return tuple(event for (text,) in reversed(rows) if (event := _decoded(text, rig.Event)) is not None)

    def _operation(self, at_s: float) -> rig.Operation | None:
        """The newest one begun by then; while it ran it is shown without its outcome, which nobody knew yet."""
        query = "SELECT json FROM operations WHERE started_at_s <= ? ORDER BY started_at_s DESC LIMIT 1"
        row = self._one(query, at_s)
        found = _decoded(row[0], rig.Operation) if row is not None else None
        if found is None or found.ended_at_s is None or found.ended_at_s <= at_s:
            return found
        steps = tuple(rig.Step(step.name) for step in found.steps)
        running = rig.OperationState.RUNNING
        return msgspec.structs.replace(
            found, state=running, ended_at_s=None, message="", steps=steps, cancellable=False
        )

    def _one(self, query: str, *values: float) -> tuple[Any, ...] | None:
        rows = self._all(query, *values)
        return rows[0] if rows else None

    def _all(self, query: str, *values: float) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if str(error).startswith("no such table"):
                return []
            raise ConsoleError(f"{self.path} cannot be read any further", why=str(error)) from error


def _decoded(text: Any, kind: type[_Record]) -> _Record | None:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, TypeError):
        return None
