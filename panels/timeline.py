"""Charts over hours and days from the journal, one below the other over one time axis, with what was done and what failed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from console.rig import Snapshot
from panels import glyphs
from panels.base import Panel
from panels.graph import bounds, plot, points
from panels.rows import EMPTY, Row, fit
from panels.text import clean, clock, date, duration, number

LABEL_CELLS = 11
SCALE_CELLS = 6
LEAST_ROWS = 2
"""A chart of fewer rows says nothing."""
_TICK_CELLS = 18


class Track(NamedTuple):
    """One chart."""

    label: str
    unit: str
    values: Sequence[float | None]
    """A value a step, oldest first; ``None`` where nothing was recorded."""
    decimals: int = 0
    least_span: float = 0.0
    """Smallest distance between the ends of the scale, so that noise does not look like a mountain."""


class Mark(NamedTuple):
    """A moment to be seen on the axis."""

    at_s: float
    fault: bool = False
    """An error; otherwise an operation."""


class Timeline(NamedTuple):
    """What is drawn. Times are Unix seconds."""

    since_s: float = 0.0
    step_s: float = 1.0
    tracks: tuple[Track, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """Why there is nothing, or that it is being fetched."""

    @property
    def steps(self) -> int:
        """Steps on the axis."""
        return max((len(track.values) for track in self.tracks), default=0)


def chart_cells(cells: int) -> int:
    """Cells left for the charts of a panel whose inside is ``cells`` wide."""
    return max(0, cells - LABEL_CELLS - SCALE_CELLS - 1)


class TimelinePanel(Panel):
    """The charts. Draws what :meth:`chart` was given last; the snapshot plays no part."""

    TITLE: ClassVar[str] = "History"

    def __init__(self, **options: Any) -> None:
        """Take the options of every widget: ``id``, ``name``, ``classes``."""
        super().__init__(**options)
        self._snapshot = Snapshot()
        self._timeline = Timeline(note="reading the journal")

    def chart(self, timeline: Timeline) -> None:
        """Draw this from now on."""
        self._timeline = timeline
        self._redraw()

    @property
    def chart_points(self) -> int:
        """Points that fit side by side now."""
        return points(chart_cells(self.size.width - 4))

    def headline(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - drawn from the timeline
        """From when to when."""
        timeline = self._timeline
        if not timeline.steps:
            return EMPTY
        end_s = timeline.since_s + timeline.steps * timeline.step_s
        words = f"{date(timeline.since_s)} {clock(timeline.since_s)} to {date(end_s)} {clock(end_s)}"
        return ((words, "label"), (f"  {duration(timeline.step_s)} a point", "dim"))

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - drawn from the timeline
        """The charts, then marks and times."""
        timeline = self._timeline
        room = chart_cells(cells)
        if timeline.note and not timeline.tracks:
            return [((f"{glyphs.active().dash} {clean(timeline.note)}", "dim"),)]
        if room < 10 or rows < LEAST_ROWS + 2 or not timeline.steps:
            return [((f"{glyphs.active().dash} no room for a chart", "dim"),)]
        shown = timeline.tracks[: max(1, (rows - 2) // LEAST_ROWS)]
        out: list[Row] = []
        for index, track in enumerate(shown):
            height = (rows - 2) // len(shown) + (index < (rows - 2) % len(shown))
            out += _track(track, room, height)
        return [*out, _marks(timeline, room), _axis(timeline, room)]


def _track(track: Track, room: int, height: int) -> list[Row]:
    """Name, scale, chart."""
    shown = list(track.values)[-points(room) :]
    known = [value for value in shown if value is not None and math.isfinite(value)]
    label = f"{track.label:<{LABEL_CELLS}}"
    if not known:
        why = f"{glyphs.active().dash} nothing was recorded"
        row = ((label, "label"), (" " * (SCALE_CELLS + 1), "dim"), (why, "dim"))
        return [fit(row, LABEL_CELLS + SCALE_CELLS + 1 + room), *[EMPTY] * (height - 1)]
    low, high = bounds(shown, least_span=track.least_span)
    lines = plot(shown, room, height, low, high)
    scale = {0: _scale(high, track.decimals), height - 1: _scale(low, track.decimals)}
    words = {0: track.label, 1: track.unit if height > 2 else ""}
    return [
        (
            (f"{words.get(y, ''):<{LABEL_CELLS}}", "label"),
            (f"{scale.get(y, ''):>{SCALE_CELLS}} ", "dim"),
            (line, "graph"),
        )
        for y, line in enumerate(lines)
    ]


def _scale(value: float, decimals: int) -> str:
    """A number that fits before its chart."""
    text = number(value, decimals)
    return text if len(text) <= SCALE_CELLS else f"{value:.0e}"[:SCALE_CELLS]


def _cell(at_s: float, timeline: Timeline, room: int) -> int | None:
    """The cell of a moment; the newest point stands at the right."""
    if not math.isfinite(at_s):
        return None
    shown = min(timeline.steps, points(room))
    first_s = timeline.since_s + (timeline.steps - shown) * timeline.step_s
    per_cell = points(room) / room
    step = math.floor((at_s - first_s) / timeline.step_s) + points(room) - shown
    cell = int(step / per_cell)
    return cell if step >= 0 and 0 <= cell < room else None


def _marks(timeline: Timeline, room: int) -> Row:
    """A symbol below the moment of each operation and fault; a fault hides an operation in the same cell."""
    look = glyphs.active()
    found: dict[int, bool] = {}
    for mark in timeline.marks:
        cell = _cell(mark.at_s, timeline, room)
        if cell is not None:
            found[cell] = found.get(cell, False) or mark.fault
    spans = [
        (
            f"{look.mark_break_even} done {look.bad} fault".ljust(LABEL_CELLS + SCALE_CELLS)[
                : LABEL_CELLS + SCALE_CELLS
            ]
            + " ",
            "dim",
        )
    ]
    for cell in range(room):
        fault = found.get(cell)
        spans.append(
            (" ", "text") if fault is None else (look.bad, "bad") if fault else (look.mark_break_even, "accent")
        )
    return tuple(spans)


def _axis(timeline: Timeline, room: int) -> Row:
    """Times below the charts; with the day where the whole is longer than one."""
    shown = min(timeline.steps, points(room))
    seconds_per_cell = timeline.step_s * points(room) / room
    end_s = timeline.since_s + timeline.steps * timeline.step_s
    begin_s = end_s - room * seconds_per_cell
    form = "%m-%d %H:%M" if shown * timeline.step_s > 86400 else "%H:%M"
    text = ""
    for cell in range(0, max(1, room - len("00-00 00:00")), _TICK_CELLS):
        at_s = begin_s + cell * seconds_per_cell
        text = text.ljust(cell) + glyphs.active().up + _time(form, at_s)
    return fit(
        ((" " * (LABEL_CELLS + SCALE_CELLS + 1), "text"), (text[:room], "dim")), LABEL_CELLS + SCALE_CELLS + 1 + room
    )


def _time(form: str, at_s: float) -> str:
    try:
        return time.strftime(form, time.localtime(at_s))
    except (OverflowError, ValueError, OSError):
        return glyphs.active().dash
