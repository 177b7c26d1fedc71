"""The rows of the log screen: a cursor line, matches marked by their own sign, long lines moved sideways."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from console.rig import Snapshot
from panels import glyphs
from panels.base import Frame, Panel
from panels.logtail import log_row
from panels.rows import Row, Span, fit, wrap
from panels.text import clean

_SIDEWAYS = 20


class LogView(Panel, can_focus=True):
    """Shows lines; asks for more by :class:`Wanted` when the cursor comes near an end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("left", "sideways(-1)", "left", show=False),
        Binding("right", "sideways(1)", "right", show=False),
    ]

    class Wanted(Message):
        """Older (-1) or newer (+1) lines are wanted."""

        def __init__(self, direction: int) -> None:
            self.direction = direction
            super().__init__()

    class Moved(Message):
        """The operator has moved the cursor, so nothing is followed any more."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._lines: list[str] = []
        self._needle = ""
        self._why = ""
        self._left = 0
        self.cursor = 0
        self._first = 0
        self.following = True

    # ------------------------------------------------------------------------------------------- for the screen

    def put(self, lines: list[str], *, needle: str = "", moved: int = 0, why: str = "") -> None:
        """Show other lines.

        Args:
            lines: all that are in memory.
            needle: text to mark.
            moved: by how many rows the line under the cursor has moved (new lines in front are positive).
            why: what to say when there are none.
        """
        self._lines, self._needle, self._why = lines, needle, why
        last = max(0, len(lines) - 1)
        if self.following:
            self.cursor = last
            self._first = max(0, len(lines) - self.inner_rows)
        else:
            self.cursor = min(max(0, self.cursor + moved), last)
            self._first = max(0, self._first + moved)
        self._settle()

    @property
    def current(self) -> str | None:
        """The line under the cursor."""
        return self._lines[self.cursor] if self.cursor < len(self._lines) else None

    @property
    def at_end(self) -> bool:
        """The cursor stands on the last line in memory."""
        return self.cursor >= len(self._lines) - 1

    def to(self, index: int) -> None:
        """Put the cursor on a line."""
        self.following = False
        self.cursor = min(max(0, index), max(0, len(self._lines) - 1))
        self._settle()

    def find(self, needle: str, direction: int) -> bool:
        """Put the cursor on the next line that holds the needle; whether there is one in memory."""
        text = needle.casefold()
        order = (
            range(self.cursor + 1, len(self._lines))
            if direction > 0
            else range(min(self.cursor, len(self._lines)) - 1, -1, -1)
        )
        for index in order:
            if text in self._lines[index].casefold():
                self.to(index)
                return True
        return False

    # --------------------------------------------------------------------------------------------------- drawing

    def _settle(self) -> None:
        rows = max(1, self.inner_rows)
        if self.cursor < self._first:
            self._first = self.cursor
        elif self.cursor >= self._first + rows:
            self._first = self.cursor - rows + 1
        self._first = min(self._first, max(0, len(self._lines) - rows))
        self._redraw()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._rows = []
        self._settle()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - lines, not figures
        """The rows in sight."""
        if not self._lines:
            return wrap(f" {clean(self._why)}", cells, "dim", rows)
        shown = self._lines[self._first : self._first + rows]
        return [self._row(line, self._first + i, cells) for i, line in enumerate(shown)]

    def _row(self, line: str, index: int, cells: int) -> Row:
        current = index == self.cursor and not self.following
        row = log_row(line[self._left :] if self._left else line, cells)
        sign = ("> ", "accent") if current else ("  ", "text")
        if self._needle and self._needle.casefold() in line.casefold():
            sign = (">*" if current else " *", "accent")
            row = _marked(row, clean(self._needle))
        if self._left:
            row = ((glyphs.active().ellipsis, "dim"), *row)
        return (sign, *fit(row, max(0, cells - 2)))

    # ----------------------------------------------------------------------------------------------------- keys

    def action_move(self, by: int) -> None:
        """Move the cursor; near an end ask for more."""
        self.following = False
        wanted = self.cursor + by
        self.cursor = min(max(0, wanted), max(0, len(self._lines) - 1))
        self._settle()
        self.post_message(self.Moved())
        if self.cursor <= self.inner_rows and by < 0:
            self.post_message(self.Wanted(-1))
        elif self.cursor >= len(self._lines) - 1 - self.inner_rows and by > 0:
            self.post_message(self.Wanted(+1))

    def action_page(self, by: int) -> None:
        """A page less a row."""
        if self.following:
            self.cursor = self._first if by < 0 else self.cursor
        self.action_move(by * max(1, self.inner_rows - 1))

    def action_sideways(self, by: int) -> None:
        """Move long lines."""
        self._left = max(0, self._left + by * _SIDEWAYS)
        self._redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Three lines a notch."""
        self.action_move(3)
        event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Three lines a notch."""
        self.action_move(-3)
        event.stop()

    def on_click(self, event: events.Click) -> None:
        """The cursor comes to the mouse."""
        self.to(self._first + event.y)
        self.post_message(self.Moved())


def _marked(row: Row, needle: str) -> Row:
    """The row with each place where the needle stands in the marking role."""
    out: list[Span] = []
    length = len(needle)
    for text, role in row:
        folded, at, done = text.lower(), 0, 0
        if len(folded) != len(text):  # a letter whose lower case is longer: no places to trust
            out.append((text, role))
            continue
        while length and (at := folded.find(needle.lower(), done)) >= 0:
            out += [(text[done:at], role), (text[at : at + length], "badge")]
            done = at + length
        out.append((text[done:], role))
    return tuple(span for span in out if span[0])
