"""A curve over an axis of numbers: speed against depth or accuracy, with a threshold and marks below the axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from panels import glyphs, graph
from panels.rows import Row, fit, merged
from panels.text import tok_s

_LABEL = 7
"""Cells of the figures at the left."""
_LEAST_ROWS = 4

Mark = tuple[float, str, str]
"""Place on the axis, one character, role."""


def curve(
    value: Callable[[float], float | None],
    low: float,
    high: float,
    cells: int,
    rows: int,
    *,
    threshold: float | None = None,
    marks: Sequence[Mark] = (),
    ticks: Sequence[tuple[float, str]] = (),
    unit: str = "",
) -> list[Row]:
    """Rows of exactly ``cells``: the curve with its scale, the axis with marks, the ticks' words.

    Args:
        value: the curve; ``None`` where it is not known.
        low: left end of the axis.
        high: right end.
        cells: width.
        rows: height, scale and axis included; with fewer than four there is nothing to see.
        threshold: a value drawn as a dotted line and named at the left.
        marks: single characters on the axis; later ones cover earlier ones.
        ticks: words below the axis, each centred at its place; one that would touch another is left out.
        unit: of the values, beside the highest one.
    """
    room, height = cells - _LABEL - 1, rows - 2
    if rows < _LEAST_ROWS or room < 8 or not low < high < math.inf:
        return []
    count = graph.points(room)
    values = [value(low + (high - low) * index / (count - 1)) for index in range(count)]
    bottom, top = graph.bounds(values, include=(threshold,), least_span=1.0)
    drawn = graph.plot(values, room, height, bottom, top, threshold=threshold)
    names = _names(bottom, top, height, threshold, unit)
    look = glyphs.active()
    out: list[Row] = [
        ((f"{names.get(index, ''):>{_LABEL}}", "label"), (look.vertical, "frame"), (line, "graph"))
        for index, line in enumerate(drawn)
    ]
    out.append(_axis(low, high, room, marks))
    out.append(_ticks(low, high, room, ticks))
    return [fit(row, cells) for row in out]


def _names(bottom: float, top: float, height: int, threshold: float | None, unit: str) -> dict[int, str]:
    """What stands at the left of which row; the ends win over the threshold."""
    found: dict[int, str] = {}
    if threshold is not None and bottom <= threshold <= top and top > bottom:
        found[height - 1 - min(height - 1, int((threshold - bottom) / (top - bottom) * height))] = tok_s(threshold)
    found[height - 1], found[0] = tok_s(bottom), tok_s(top)
    if unit and height > 2:
        found.setdefault(1, unit[:_LABEL])
    return found


def place(value: float, low: float, high: float, room: int) -> int:
    """The cell of a value on the axis; what lies outside stands at the ends."""
    share = (value - low) / (high - low)
    return min(room - 1, max(0, round(share * (room - 1))))


def _axis(low: float, high: float, room: int, marks: Sequence[Mark]) -> Row:
    look = glyphs.active()
    line = [(look.horizontal, "frame")] * room
    for value, char, role in marks:
        line[place(value, low, high, room)] = (char, role)
    return merged([(" " * _LABEL, "text"), (look.bottom_left, "frame"), *line])


def _ticks(low: float, high: float, room: int, ticks: Sequence[tuple[float, str]]) -> Row:
    text = [" "] * room
    for value, word in ticks:
        start = min(room - len(word), max(0, place(value, low, high, room) - len(word) // 2))
        if start >= 0 and all(char == " " for char in text[max(0, start - 1) : start + len(word) + 1]):
            text[start : start + len(word)] = word
    return ((" " * (_LABEL + 1), "text"), ("".join(text), "label"))
