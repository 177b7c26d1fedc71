"""Columns that adapt to the width: what matters least goes first, what is left over widens the flexible ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from panels.rows import Row, Span, fit, width


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a live table. ``cells`` is its smallest width, ``keep`` how long it stays (0 goes last)."""

    key: str
    heading: str
    cells: int
    keep: int = 0
    right: bool = False
    flex: int = 0
    """Share of the spare width."""
    most: int = 999
    """Widest it becomes."""
    long: str = ""
    """The heading where there is room for it."""

    @property
    def title(self) -> str:
        """The heading that fits."""
        return self.long if self.long and len(self.long) <= self.cells else self.heading


def choose(columns: Sequence[Column], cells: int, gap: int = 1) -> list[Column]:
    """The columns that fit into ``cells``, widened to fill it."""
    chosen = list(columns)
    while len(chosen) > 1 and _total(chosen, gap) > cells:
        last = max(column.keep for column in chosen)
        chosen.remove(next(column for column in reversed(chosen) if column.keep == last))
    spare = cells - _total(chosen, gap)
    while spare > 0 and (open_ := [c for c in chosen if c.flex and c.cells < c.most]):
        weights = sum(column.flex for column in open_)
        given = 0
        for column in open_:
            more = min(max(1, spare * column.flex // weights), column.most - column.cells, spare - given)
            chosen[chosen.index(column)] = replace(column, cells=column.cells + more)
            given += more
        spare -= given
    return chosen


def _total(columns: Sequence[Column], gap: int) -> int:
    return sum(column.cells for column in columns) + gap * (len(columns) - 1)


def headings(columns: Sequence[Column], gap: int = 1) -> Row:
    """The heading row."""
    return line(columns, {column.key: ((column.title, "label"),) for column in columns}, gap)


def line(columns: Sequence[Column], cells_by_key: dict[str, Row], gap: int = 1) -> Row:
    """One row of the table."""
    spans: list[Span] = []
    for index, column in enumerate(columns):
        if index:
            spans.append((" " * gap, "text"))
        cell = cells_by_key.get(column.key, ())
        missing = column.cells - width(cell)
        if column.right and missing > 0:
            spans.append((" " * missing, "text"))
            spans.extend(cell)
        else:
            spans.extend(fit(cell, column.cells))
    return tuple(spans)
