"""What a rig's files tell of its past, read-only, with or without an agent: journal, crash reports, runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from console.agent import crash_report, ledger, record
from console.errors import ConsoleError
from console.paths import RigPaths

KINDS = ("operations", "events", "starts", "crashes", "runs")
MOST_ROWS = 5000


@dataclass
class Past:
    """Rows by kind, oldest first, and a line for everything that is missing or damaged."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: bool = False
    """Something is there and cannot be read."""

    @property
    def empty(self) -> bool:
        """No row of any kind."""
        return not any(self.rows.values())


def gather(
    paths: RigPaths, since_s: float, until_s: float, kinds: Collection[str] = KINDS, *, limit: int = MOST_ROWS
) -> Past:
    """Rows between two times; what cannot be read is noted and hides nothing else. Blocks."""
    past = Past()
    if not paths.history.exists():
        past.notes.append(f"rig {paths.name} has no journal: {paths.history} does not exist")
    for aside in sorted(paths.dir.glob(f"{paths.history.name}.unusable-*")):
        if not aside.name.endswith(("-wal", "-shm")):
            past.notes.append(f"an older journal could not be used and was kept as {aside}")
    for kind in kinds:
        if kind == "crashes":
            reports, damaged = crash_report.read_all(paths.crashes)
            past.rows[kind] = [msgspec.to_builtins(r) for r in reports if since_s <= r.at_s <= until_s][-limit:]
            _damaged(past, damaged)
        elif kind == "runs":
            runs = [entry for entry in ledger.read(paths) if since_s <= entry.result.at_s <= until_s]
            past.rows[kind] = [msgspec.to_builtins(entry) for entry in runs][-limit:]
            _damaged(past, _unread_runs(paths))
        else:
            past.rows[kind] = _journal(past, paths, kind, since_s, until_s, limit)
    if "operations" in past.rows:
        past.rows["operations"] = _with_ends(past.rows["operations"])
    return past


def _with_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One runs at a time: what has no end and is not the newest was cut off with its agent."""
    told = {"state": "cut off", "message": "its agent ended while it ran"}
    return [row if row.get("ended_at_s") or row is rows[-1] else {**row, **told} for row in rows]


def _journal(
    past: Past, paths: RigPaths, kind: str, since_s: float, until_s: float, limit: int
) -> list[dict[str, Any]]:
    try:
        return record.read_history(paths.history, kind, since_s, until_s, limit=limit)
    except ConsoleError as error:
        _damaged(past, (error.line,))
        return []


def _damaged(past: Past, lines: Collection[str]) -> None:
    past.damaged = past.damaged or bool(lines)
    past.notes += [line for line in lines if line not in past.notes]


def _unread_runs(paths: RigPaths) -> tuple[str, ...]:
    """A line when some runs of the ledger cannot be read."""
    folder = ledger.folder(paths)
    known = {entry.id for entry in ledger.read(paths)}
    lost = sorted(path.name for path in folder.glob(f"*{ledger.SUFFIX}") if path.stem not in known)
    return (f"runs in {folder} cannot be read: {', '.join(lost)}",) if lost else ()


def newest_at_s(paths: RigPaths, kinds: Collection[str] = KINDS) -> float | None:
    """Time of the newest row of these kinds, whenever it was; ``None`` without any."""
    past = gather(paths, 0.0, float("inf"), kinds, limit=1)
    times = [at_s for kind, rows in past.rows.items() for row in rows if (at_s := when_s(kind, row)) is not None]
    return max(times, default=None)


def when_s(kind: str, row: Mapping[str, Any]) -> float | None:
    """When a row of a kind happened."""
    found = row.get("result", {}).get("at_s") if kind == "runs" else row.get("started_at_s", row.get("at_s"))
    if kind == "crashes":
        found = row.get("at_s")
    return float(found) if isinstance(found, int | float) else None
