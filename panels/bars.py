"""Bars and scales of one row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from panels import glyphs
from panels.rows import Row, Span, merged


def meter(share: float | None, cells: int, role: str = "bar") -> Row:
    """A thin bar filled to ``share`` (0..1, clamped); a bare track when there is no value."""
    if cells <= 0:
        return ()
    look = glyphs.active()
    if share is None or not math.isfinite(share):
        return ((" " * cells, "track"),)
    halves = round(min(max(share, 0.0), 1.0) * cells * 2)
    filled = look.bar_full * (halves // 2) + look.bar_half * (halves % 2)
    return tuple(span for span in ((filled, role), (look.bar_track * (cells - len(filled)), "track")) if span[0])


def stacked(parts: Sequence[tuple[float, str, str]], cells: int) -> Row:
    """A bar of ``cells`` split in proportion to the parts ``(size, fill, role)``; a part above zero keeps at least one cell."""
    parts = [(size if math.isfinite(size) else 0.0, fill, role) for size, fill, role in parts]
    total = sum(size for size, _, _ in parts if size > 0)
    if cells <= 0:
        return ()
    if total <= 0:
        return ((glyphs.active().bar_track * cells, "track"),)
    sizes = [max(1, round(size / total * cells)) if size > 0 else 0 for size, _, _ in parts]
    while (extra := sum(sizes) - cells) > 0 and max(sizes) > 0:
        sizes[sizes.index(max(sizes))] -= min(extra, max(1, max(sizes) - 1))
    if sum(sizes) < cells:
        sizes[sizes.index(max(sizes))] += cells - sum(sizes)
    return tuple((fill * size, role) for size, (_, fill, role) in zip(sizes, parts, strict=True) if size)


def scale(
    low: float,
    high: float,
    cells: int,
    *,
    limit: float | None = None,
    interval: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str, str]] = (),
) -> Row:
    """A ruler from ``low`` to ``high`` with marks ``(value, glyph, role)``; later marks cover earlier ones.

    Args:
        low: value at the left end.
        high: value at the right end.
        cells: width.
        limit: what cannot be exceeded today; the ruler is broken beyond it.
        interval: a range to draw on the ruler.
        marks: what stands on it; values outside are drawn at the ends.
    """
    if cells < 2 or not low < high < math.inf:
        return ()
    look = glyphs.active()

    def place(value: float) -> int:
        share = (value - low) / (high - low) if math.isfinite(value) else 0.0
        return min(cells - 1, max(0, round(share * (cells - 1))))

    row: list[Span] = [(look.scale, "frame")] * cells
    if limit is not None and limit < high:
        edge = place(limit)
        row[edge:] = [(look.scale_beyond, "track")] * (cells - edge)
        row[edge] = (look.scale_limit, "label")
    row[0] = (look.scale_low, "frame")
    if limit is None or limit >= high:
        row[-1] = (look.scale_high, "frame")
    if interval is not None:
        for at in range(place(interval[0]), place(interval[1]) + 1):
            row[at] = (look.interval, "accent")
    for value, glyph, role in marks:
        row[place(value)] = (glyph, role)
    return merged(row)
