"""The journal's figures over time: row by row for an export, or averaged into steps for a chart. Read-only."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from console.agent import journal_file
from console.agent.chart import Chart
from console.agent.journal_file import SERIES
from console.errors import ConsoleError, ExitCode

MOST_STEPS = 2000
COLUMNS = ("at_s", *SERIES)


def chart(path: Path, since_s: float, until_s: float, step_s: float) -> Chart:
    """Means between two times. Blocks.

    Raises:
        ConsoleError: more steps than a chart has, or a journal that cannot be read.
    """
    if not (math.isfinite(step_s) and step_s > 0 and math.isfinite(since_s) and since_s <= until_s < math.inf):
        raise ConsoleError("since, until and step are no range", code=ExitCode.USAGE)
    first, last = math.floor(since_s / step_s), math.ceil(until_s / step_s)
    count = max(1, last - first)
    if count > MOST_STEPS:
        raise ConsoleError(f"{count} steps are more than {MOST_STEPS}", todo="a longer step", code=ExitCode.USAGE)
    values: dict[str, list[float | None]] = {name: [None] * count for name in SERIES}
    with _reading(path) as connection:
        known = _known(connection)
        means = ", ".join(f"avg({name})" for name in known)
        query = (
            f"SELECT CAST(at_s / ? AS INTEGER) AS step, {means} FROM series WHERE at_s >= ? AND at_s < ? GROUP BY step"  # noqa: S608
        )
        rows = connection.execute(query, (step_s, first * step_s, last * step_s)) if known else ()
        for step, *figures in rows:
            if 0 <= step - first < count:
                for name, figure in zip(known, figures, strict=True):
                    values[name][step - first] = figure
    return Chart(first * step_s, step_s, {name: tuple(column) for name, column in values.items()})


def rows(path: Path, since_s: float, until_s: float) -> Iterator[tuple[float | None, ...]]:
    """Rows as :data:`COLUMNS` names them, oldest first, read as they are asked for.

    Raises:
        ConsoleError: the journal cannot be read.
    """
    with _reading(path) as connection:
        yield from rows_of(connection, since_s, until_s)


def rows_of(connection: sqlite3.Connection, since_s: float, until_s: float) -> Iterator[tuple[float | None, ...]]:
    """The same on an open journal, ``until_s`` left out.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    known = _known(connection)
    names = ", ".join(name if name in known else f"NULL AS {name}" for name in SERIES)
    query = f"SELECT at_s, {names} FROM series WHERE at_s >= ? AND at_s < ? ORDER BY at_s"  # noqa: S608 - names of ours
    if known:
        yield from connection.execute(query, (since_s, min(until_s, 1e300)))


def _known(connection: sqlite3.Connection) -> list[str]:
    """The columns this file has: an older one has fewer, one begun this moment none."""
    there = {row[1] for row in connection.execute("PRAGMA table_info(series)")}
    return [name for name in SERIES if name in there]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with journal_file.open_for_reading(path) as connection:
            yield connection
    except sqlite3.Error as error:
        raise ConsoleError(f"the history in {path} cannot be read", why=str(error)) from error
