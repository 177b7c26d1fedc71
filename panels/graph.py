"""A graph of our own: braille dots, two points by four levels in a cell, or three levels a cell in ASCII.

Stock sparklines write a style for every cell and cost five times the bytes; here a row is one span.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from panels import glyphs

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Braille dot bits by column (left, right) and level from the bottom (Unicode block U+2800)."""
_ASCII_LEVELS = "_-'"

Series = Sequence[float | None]


def bounds(values: Series, *, include: Sequence[float | None] = (), least_span: float = 0.0) -> tuple[float, float]:
    """A range that holds every value, widened to round numbers so that it does not tremble.

    Args:
        values: the points; ``None`` and what is not finite are ignored.
        include: further values to keep in sight, such as a threshold.
        least_span: smallest distance between the ends, so that noise does not look like a mountain.
    """
    known = [v for v in (*values, *include) if v is not None and math.isfinite(v)]
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    span = max(high - low, least_span, abs(high) * 1e-3, 1e-9)
    step = 10.0 ** math.floor(math.log10(span))
    step *= next((m for m in (0.2, 0.5, 1.0) if span / (step * m) <= 8), 1.0)
    middle = (low + high) / 2
    low, high = min(low, middle - span / 2), max(high, middle + span / 2)
    bottom, top = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if min(known) >= 0:
        bottom = max(0.0, bottom)
    return bottom, top if top > bottom else bottom + step


def points(cells: int) -> int:
    """Points that fit into ``cells``."""
    return cells if glyphs.active().ascii else cells * 2


def plot(
    values: Series,
    cells: int,
    rows: int,
    low: float,
    high: float,
    *,
    threshold: float | None = None,
) -> list[str]:
    """The newest points as ``rows`` strings of exactly ``cells``, the newest at the right.

    Args:
        values: oldest first; ``None`` breaks the line.
        cells: width.
        rows: height.
        low: value at the bottom.
        high: value at the top; without a range there is nothing to see.
        threshold: a value to mark with a dotted line.
    """
    if cells <= 0 or rows <= 0:
        return []
    if not (math.isfinite(high - low) and high > low):
        return [" " * cells] * rows
    draw = _plot_ascii if glyphs.active().ascii else _plot_braille
    return draw(values, cells, rows, low, high, threshold)


def _level(value: float | None, low: float, high: float, levels: int) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return round(share * (levels - 1))


def _plot_braille(values: Series, cells: int, rows: int, low: float, high: float, threshold: float | None) -> list[str]:
    levels = rows * 4
    shown = list(values[-cells * 2 :])
    first = cells * 2 - len(shown)
    grid = [[0] * cells for _ in range(rows)]
    previous: int | None = None
    for offset, value in enumerate(shown):
        level = _level(value, low, high, levels)
        if level is not None:
            cell, side = divmod(first + offset, 2)
            start = level if previous is None else previous + (level > previous) - (level < previous)
            for dot in range(min(start, level), max(start, level) + 1):
                grid[rows - 1 - dot // 4][cell] |= _DOTS[side][dot % 4]
        previous = level
    if threshold is not None and low <= threshold <= high:
        mark = _level(threshold, low, high, levels) or 0
        line = grid[rows - 1 - mark // 4]
        for cell in range(0, cells, 2):
            if not line[cell]:
                line[cell] = _DOTS[0][mark % 4]
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in line) for line in grid]


def _plot_ascii(values: Series, cells: int, rows: int, low: float, high: float, threshold: float | None) -> list[str]:
    steps = len(_ASCII_LEVELS)
    grid = [[" "] * cells for _ in range(rows)]
    if threshold is not None and low <= threshold <= high:
        mark = _level(threshold, low, high, rows * steps) or 0
        for cell in range(0, cells, 2):
            grid[rows - 1 - mark // steps][cell] = "."
    shown = list(values[-cells:])
    for cell, value in enumerate(shown, cells - len(shown)):
        level = _level(value, low, high, rows * steps)
        if level is not None:
            grid[rows - 1 - level // steps][cell] = _ASCII_LEVELS[level % steps]
    return ["".join(line) for line in grid]
