"""What was done and what failed, newest first, as the journal has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from console.rig import Event, Operation, OperationState, Snapshot
from panels import glyphs
from panels.rows import EMPTY, Row, width, wrap
from panels.scroll import ScrollingPanel
from panels.text import clean, clock, date, duration

_ROLES = {
    OperationState.DONE: "good",
    OperationState.RUNNING: "accent",
    OperationState.FAILED: "bad",
    OperationState.ROLLED_BACK: "warn",
    OperationState.CANCELLED: "warn",
}


class PastPanel(ScrollingPanel):
    """Operations and faults. Draws what :meth:`fill` was given last; the snapshot plays no part."""

    TITLE: ClassVar[str] = "Operations and faults"

    def __init__(self, **options: Any) -> None:
        """Take the options of every widget: ``id``, ``name``, ``classes``."""
        super().__init__(**options)
        self._snapshot = Snapshot()
        self._entries: Sequence[Operation | Event] = ()

    def fill(self, entries: Sequence[Operation | Event]) -> None:
        """Draw these from now on, oldest first as given."""
        self._entries = entries
        self._redraw()

    def headline(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - drawn from the entries
        """How many."""
        return ((str(len(self._entries)), "label"),) if self._entries else EMPTY

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - drawn from the entries
        """Newest first."""
        out: list[Row] = []
        for entry in reversed(self._entries):
            out += _operation(entry, cells) if isinstance(entry, Operation) else _event(entry, cells)
        if not out:
            out = [((f"{glyphs.active().dash} nothing was done and nothing failed in this time", "dim"),)]
        return self.window(out, rows)


def _operation(entry: Operation, cells: int) -> list[Row]:
    role = _ROLES.get(entry.state, "text")
    took = "" if entry.ended_at_s is None else f" in {duration(entry.ended_at_s - entry.started_at_s)}"
    who = f" by {clean(entry.by)}" if entry.by else ""
    lead: Row = (
        (f"{date(entry.started_at_s)} {clock(entry.started_at_s)} ", "dim"),
        (f"{glyphs.active().mark_break_even} ", "accent"),
        (f"{entry.state.value} ", role),
    )
    words = clean(entry.title or entry.kind) + took + who
    if entry.before or entry.after:
        words += f": {clean(entry.before) or '-'} {glyphs.active().arrow} {clean(entry.after) or '-'}"
    rows = _hanging(lead, words, "text", cells)
    if entry.message and entry.state is not OperationState.DONE:
        rows += _hanging((("    ", "text"),), clean(entry.message), "label", cells)
    return rows


def _event(entry: Event, cells: int) -> list[Row]:
    lead: Row = ((f"{date(entry.at_s)} {clock(entry.at_s)} ", "dim"), (f"{glyphs.active().bad} ", "bad"))
    return _hanging(lead, clean(entry.text), "bad" if entry.level == "error" else "text", cells)


def _hanging(lead: Row, text: str, role: str, cells: int) -> list[Row]:
    indent = width(lead)
    if indent > cells // 2:
        return [lead, *(((" ", "text"), *row) for row in wrap(text, max(1, cells - 1), role, 2))]
    rows = wrap(text, max(1, cells - indent), role, 2) or [EMPTY]
    return [(*(lead if y == 0 else ((" " * indent, "text"),)), *row) for y, row in enumerate(rows)]
