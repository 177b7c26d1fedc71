"""A list to choose from: columns of plain text, a cursor that is seen without colour, a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from textual import events
from textual.message import Message

from console.rig import Snapshot
from panels.base import Frame
from panels.rows import EMPTY, Row, fit
from panels.scroll import ScrollingPanel
from panels.text import clean


@dataclass(frozen=True, slots=True)
class Choice:
    """One row.

    Args:
        key: what it stands for.
        cells: texts by column.
        role: role of its text; "bad" for one that cannot be chosen.
        note: a line below it, such as why it cannot be chosen.
    """

    key: str
    cells: tuple[str, ...] = field(default=())
    role: str = "text"
    note: str = ""


class Choices(ScrollingPanel):
    """Rows with a cursor. A second click, or the screen's enter by :meth:`action_choose`, posts :class:`Chosen`."""

    class Chosen(Message):
        """A row was chosen."""

        def __init__(self, choice: Choice) -> None:
            self.choice = choice
            super().__init__()

    class Moved(Message):
        """The cursor stands on another row, or on none."""

        def __init__(self, choice: Choice | None) -> None:
            self.choice = choice
            super().__init__()

    def __init__(self, headings: Sequence[str], *, empty: str = "nothing here", id: str | None = None) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._headings = tuple(headings)
        self._empty = empty
        self._all: list[Choice] = []
        self._filter = ""
        self._cursor = 0

    def fill(self, choices: Sequence[Choice], empty: str = "") -> None:
        """Replace the rows; the cursor stays on the same key where that is still there."""
        current = self.current
        self._all = list(choices)
        self._empty = empty or self._empty
        keys = [choice.key for choice in self.rows]
        self._cursor = keys.index(current.key) if current is not None and current.key in keys else 0
        self._moved()

    def columns(self, headings: Sequence[str]) -> None:
        """Other columns: a narrower terminal shows fewer."""
        self._headings = tuple(headings)
        self._redraw()

    def only(self, text: str) -> None:
        """Show the rows that hold a text."""
        self._filter = text.casefold()
        self._cursor = 0
        self._moved()

    def select(self, key: str) -> None:
        """Put the cursor on a key."""
        keys = [choice.key for choice in self.rows]
        if key in keys:
            self._cursor = keys.index(key)
            self._moved()

    @property
    def rows(self) -> list[Choice]:
        """The rows that pass the filter."""
        if not self._filter:
            return self._all
        return [choice for choice in self._all if self._filter in " ".join((*choice.cells, choice.note)).casefold()]

    @property
    def current(self) -> Choice | None:
        """The row under the cursor."""
        rows = self.rows
        return rows[self._cursor] if self._cursor < len(rows) else None

    def _moved(self) -> None:
        page = max(1, self.inner_rows - 1)
        if self._cursor < self._offset:
            self._offset = self._cursor
        elif self._cursor >= self._offset + page:
            self._offset = self._cursor - page + 1
        self._redraw()
        self.post_message(self.Moved(self.current))

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - choices, not figures
        """Headings and the rows in sight."""
        choices = self.rows
        if not choices:
            self.window([], 0)
            words = f"nothing holds {self._filter!r}" if self._filter and self._all else self._empty
            return [EMPTY, ((f"  {clean(words)}", "dim"),)]
        widths = self._widths(choices, cells - 2)
        heading = self._line(self._headings, widths, "label", marked=False)
        lines = [self._line(c.cells, widths, c.role, marked=i == self._cursor) for i, c in enumerate(choices)]
        return [heading, *self.window(lines, rows - 1)]

    def _widths(self, choices: Sequence[Choice], cells: int) -> list[int]:
        """Each column as wide as its longest text, the last one with what is left."""
        columns = len(self._headings)
        wanted = [
            max(len(clean(row[i])) if i < len(row) else 0 for row in (self._headings, *(c.cells for c in choices)))
            for i in range(columns)
        ]
        widths = []
        left = cells
        for index, size in enumerate(wanted):
            last = index == columns - 1
            width = left if last else min(size, max(6, left - 10 * (columns - index - 1)))
            widths.append(max(0, width))
            left -= width + 2
        return widths

    @staticmethod
    def _line(texts: Sequence[str], widths: Sequence[int], role: str, *, marked: bool) -> Row:
        spans = [("> " if marked else "  ", "accent")]
        look = "value" if marked and role == "text" else role
        for index, width in enumerate(widths):
            text = clean(texts[index]) if index < len(texts) else ""
            spans += [*((("  ", "text"),) if index else ()), *fit(((text, look),), width)]
        return tuple(spans)

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._cursor = min(max(0, self._cursor + by), max(0, len(self.rows) - 1))
        self._moved()

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self.action_move(by * max(1, self.inner_rows - 2))

    def action_end(self, by: int) -> None:
        """To the first or the last row."""
        self.action_move(by * len(self.rows))

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self.current is not None:
            self.post_message(self.Chosen(self.current))

    def on_click(self, event: events.Click) -> None:
        """First click: the cursor comes; second click: chosen."""
        row = event.y - 1 + self.first
        if not 0 <= row < len(self.rows):
            return
        if row == self._cursor:
            self.action_choose()
        else:
            self.action_move(row - self._cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        self.action_move(1)
        event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        self.action_move(-1)
        event.stop()
