"""A history graph with its scale at the left, for the inside of a panel."""

from __future__ import annotations

from console.rig import Snapshot
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
    shown = values[-points(room) :]
    if all(value is None for value in shown):
        return []
    low, high = bounds(shown, include=(threshold,), least_span=least_span)
    phase = int(snapshot.at_s / snapshot.history.step_s) % 2 if snapshot.history.step_s > 0 else 0
    lines = plot(shown, room, rows, low, high, threshold=threshold, phase=phase)
    if not labelled:
        return [((line, role),) for line in lines]
    labels = {0: ms(high), rows - 1: ms(low)}
    return [((f"{labels.get(y, ''):>{_LABEL_CELLS}} ", "dim"), (line, role)) for y, line in enumerate(lines)]


def span_words(values: Series, snapshot: Snapshot, cells: int) -> str:
    """How much time a graph of ``cells`` shows: ``last 2m00s``."""
    count = min(len(values), points(max(0, cells - _LABEL_CELLS - 1)))
    return f"last {duration(count * snapshot.history.step_s)}" if count else ""
