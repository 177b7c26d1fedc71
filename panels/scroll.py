"""A panel whose rows may be more than fit: keys and wheel move through them, the frame shows where it stands."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from panels import glyphs
from panels.base import Panel
from panels.rows import Row, Span


class ScrollingPanel(Panel, can_focus=True):
    """A panel that keeps an offset into its rows.

    A subclass calls :meth:`window` in its body. ``FROM_END`` says whether the newest rows are at the bottom and stay in sight.
    """

    FROM_END: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "end(-1)", "First", show=False),
        Binding("end,G", "end(1)", "Last", show=False),
    ]

    def __init__(self, **options: Any) -> None:
        """Take the options of every widget: ``id``, ``name``, ``classes``."""
        super().__init__(**options)
        self._offset = 0
        """Rows scrolled away from the end that is normally in sight."""
        self._count = 0
        self._page = 0

    def window(self, rows: list[Row], page: int) -> list[Row]:
        """The part of ``rows`` in sight when ``page`` rows fit."""
        self._count, self._page = len(rows), max(0, page)
        self._offset = min(self._offset, self._most)
        first = self.first
        return rows[first : first + self._page]

    @property
    def first(self) -> int:
        """Index of the first row in sight."""
        return self._most - self._offset if self.FROM_END else self._offset

    @property
    def hidden(self) -> tuple[int, int]:
        """Rows out of sight above and below."""
        return self.first, max(0, self._most - self.first)

    @property
    def _most(self) -> int:
        return max(0, self._count - self._page)

    def edge(self, rows: int) -> list[Span]:
        """The right edge with a thumb in it while there is something out of sight."""
        edge = super().edge(rows)
        if self._most and rows > 1:
            size = max(1, rows * self._page // max(1, self._count))
            start = round((rows - size) * self.first / self._most)
            edge[start : start + size] = [(glyphs.active().thumb, "title")] * size
        return edge

    def scroll_rows(self, by: int) -> bool:
        """Move by rows (down is positive); whether anything moved."""
        before = self._offset
        self._offset = min(self._most, max(0, before + (-by if self.FROM_END else by)))
        if self._offset != before:
            self._redraw()
        return self._offset != before

    def action_move(self, by: int) -> None:
        """One row."""
        self.scroll_rows(by)

    def action_page(self, by: int) -> None:
        """One page less a row, so that the eye keeps its place."""
        self.scroll_rows(by * max(1, self._page - 1))

    def action_end(self, by: int) -> None:
        """To the first or the last row."""
        self.scroll_rows(by * self._count)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three rows a notch, as terminals do."""
        if self.scroll_rows(3):
            event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three rows a notch, as terminals do."""
        if self.scroll_rows(-3):
            event.stop()
