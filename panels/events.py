"""What is wrong now, and what has happened, newest first."""

from __future__ import annotations

from typing import ClassVar

from console.rig import Alarm, Event, Snapshot, age_s
from panels import glyphs
from panels.base import Frame
from panels.header import alarm_in_header
from panels.rows import EMPTY, Row, width, wrap
from panels.scroll import ScrollingPanel
from panels.states import alarm_row, level
from panels.text import age, clean, clock


class EventsPanel(ScrollingPanel):
    """Alarms first, each with its likely causes; then events, the newest at the top."""

    TITLE: ClassVar[str] = "Events"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """Alarms, then events."""
        brief = rows < 5
        out: list[Row] = []
        for alarm in snapshot.alarms[1 if rows == 1 and alarm_in_header(snapshot) else 0 :]:
            if brief:
                out.append(alarm_row(alarm, age(age_s(alarm.since_s, snapshot))))
            else:
                out += _alarm(alarm, snapshot, cells)
        for event in reversed(snapshot.events):
            out += _event(event, cells, 1 if brief else 2)
        if self.frame is Frame.NONE:
            out = [((" ", "text"), *row) for row in out]
        if not out:
            out = [((f"{glyphs.active().dash} nothing has happened yet", "dim"),)]
        return self.window(out, rows)

    def headline(self, snapshot: Snapshot) -> Row:
        """How many alarms hold."""
        count = len(snapshot.alarms)
        if not count:
            return EMPTY
        worst = "error" if any(alarm.level == "error" for alarm in snapshot.alarms) else "warn"
        symbol, role = level(worst)
        return ((f"{symbol} {count} alarm{'s' if count > 1 else ''}", role),)


def _alarm(alarm: Alarm, snapshot: Snapshot, cells: int) -> list[Row]:
    """An alarm over as many rows as it takes, its causes below it."""
    symbol, role = level(alarm.level)
    held = age(age_s(alarm.since_s, snapshot))
    seen = f" (seen by {clean(alarm.acknowledged_by)})" if alarm.acknowledged_by else ""
    rows = _hanging(((f"{symbol} ", role),), f"{clean(alarm.text)}, for {held}{seen}", role, cells, 3)
    for cause in alarm.causes[:3]:
        rows += _hanging(((f"  {glyphs.active().arrow} ", "dim"),), clean(cause), "label", cells, 2)
    return rows


def _event(event: Event, cells: int, most: int) -> list[Row]:
    symbol, role = level(event.level)
    text_role = role if event.level == "error" else "text"
    return _hanging(((f"{clock(event.at_s)} ", "dim"), (f"{symbol} ", role)), clean(event.text), text_role, cells, most)


def _hanging(lead: Row, text: str, role: str, cells: int, most: int) -> list[Row]:
    """Text behind a lead, its further rows indented by the lead's width."""
    indent = width(lead)
    rows = wrap(text, max(1, cells - indent), role, most) or [EMPTY]
    return [(*(lead if y == 0 else ((" " * indent, "text"),)), *row) for y, row in enumerate(rows)]
