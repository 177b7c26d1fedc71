"""A history graph with its scale at the left, for the inside of a panel."""

from __future__ import annotations

from console.rig import Snapshot
from panels import glyphs
from panels.graph import Series, bounds, plot, points
from panels.rows import Row
from panels.text import duration, ms

_LABEL_CELLS = 5


def history(
    values: Series,
    snapshot: Snapshot,
    cells: int,
    rows: int,
    *,
    threshold: float | None = None,
    least_span: float = 0.0,
    role: str = "graph",
) -> list[Row]:
    """The newest points as rows with the highest and the lowest value; one row has no labels, a time without points no rows."""
    if rows < 1 or cells < _LABEL_CELLS + 6:
        return []
    labelled = rows >= 2
    room = cells - _LABEL_CELLS - 1 if labelled else cells
    shown = _settled(values, snapshot)[-points(room) :]
    if all(value is None for value in shown):
        return []
    low, high = bounds(shown, include=(threshold,), least_span=least_span)
    lines = plot(shown, room, rows, low, high, threshold=threshold)
    if not labelled:
        return [((line, role),) for line in lines]
    labels = {0: ms(high), rows - 1: ms(low)}
    return [((f"{labels.get(y, ''):>{_LABEL_CELLS}} ", "dim"), (line, role)) for y, line in enumerate(lines)]


def _settled(values: Series, snapshot: Snapshot) -> Series:
    """The points that fill whole cells: the newest one waits for its neighbour, so a braille graph moves every second point.

    A graph that moves is sent whole; moving half as often costs half the bytes, and the figures beside it are live.
    """
    step_s = snapshot.history.step_s
    odd = not glyphs.active().ascii and step_s > 0 and int(snapshot.at_s / step_s) % 2
    return values[:-1] if odd else values


def span_words(values: Series, snapshot: Snapshot, cells: int) -> str:
    """How much time a graph of ``cells`` shows: ``last 2m00s``."""
    count = min(len(values), points(max(0, cells - _LABEL_CELLS - 1)))
    return f"last {duration(count * snapshot.history.step_s)}" if count else ""
