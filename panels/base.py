"""The base of every live panel: rows of text on Textual's line API, and only what changed goes to the terminal."""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from console.rig import Snapshot
from panels import glyphs
from panels.palette import Palette
from panels.rows import EMPTY, Row, Span, crop, differing, fit, merged, width


class Frame(enum.Enum):
    """What surrounds a panel."""

    BOX = "box"
    """A box with the title in its upper edge."""
    RULE = "rule"
    """One line with the title above the rows."""
    NONE = "none"


class Panel(Widget):
    """A panel shows one part of a snapshot.

    A subclass computes its rows in :meth:`body`, a pure function of the snapshot and the size. The base compares them with the
    rows on screen and refreshes the cells that differ.
    """

    TITLE: ClassVar[str] = ""
    FRAME: ClassVar[Frame] = Frame.BOX
    """The frame a panel starts with."""
    DEFAULT_CSS = """
    Panel { height: 1fr; width: 1fr; background: $background; }
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of every widget: ``id``, ``name``, ``classes``."""
        super().__init__(**options)
        self._snapshot: Snapshot | None = None
        self._frame = self.FRAME
        self._rows: list[Row] = []
        self._strips: list[Strip | None] = []
        self._palette: Palette | None = None

    # ---------------------------------------------------------------------------------------- for the owner

    @property
    def frame(self) -> Frame:
        """What surrounds the panel."""
        return self._frame

    @frame.setter
    def frame(self, frame: Frame) -> None:
        if frame is not self._frame:
            self._frame = frame
            self._redraw()

    def show(self, snapshot: Snapshot) -> None:
        """Draw this snapshot; only the cells that differ from the screen are painted."""
        self._snapshot = snapshot
        self._redraw()

    # ------------------------------------------------------------------------------------- for the subclass

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """The rows inside the frame, for a space of ``cells`` by ``rows``."""
        raise NotImplementedError

    def status(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - the default knows none
        """What stands at the right end of the title line: where the figures come from."""
        return EMPTY

    def headline(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - the default is the title alone
        """What follows the title."""
        return EMPTY

    def edge(self, rows: int) -> list[Span]:
        """The right edge of a box, top to bottom; a panel that scrolls shows there where it stands."""
        return [(glyphs.active().vertical, self._frame_role)] * rows

    @property
    def inner_rows(self) -> int:
        """Rows inside the frame."""
        return max(0, self.size.height - {Frame.BOX: 2, Frame.RULE: 1, Frame.NONE: 0}[self._frame])

    # ---------------------------------------------------------------------------------------------- drawing

    @property
    def _frame_role(self) -> str:
        return "focus" if self.has_focus else "frame"

    def _compose_rows(self) -> list[Row]:
        cells, height = self.size
        if self._snapshot is None or cells < 1 or height < 1:
            return []
        if self._frame is Frame.NONE:
            return [fit(row, cells) for row in self.body(self._snapshot, cells, height)[:height]]
        if self._frame is Frame.RULE:
            inner = self.body(self._snapshot, cells, height - 1)[: height - 1]
            return [self._title_row(self._snapshot, cells), *(fit(row, cells) for row in inner)]
        return self._boxed(self._snapshot, cells, height)

    def _boxed(self, snapshot: Snapshot, cells: int, height: int) -> list[Row]:
        look, role = glyphs.active(), self._frame_role
        room, count = max(0, cells - 4), max(0, height - 2)
        inner = self.body(snapshot, room, count)[:count]
        inner += [EMPTY] * (count - len(inner))
        edge = self.edge(count)
        rows = [
            ((look.vertical, role), (" ", "text"), *fit(row, room), (" ", "text"), edge[i])
            for i, row in enumerate(inner)
        ]
        bottom: Row = ((look.bottom_left + look.horizontal * (cells - 2) + look.bottom_right, role),)
        return [self._title_row(snapshot, cells), *rows, bottom][:height]

    def _title_row(self, snapshot: Snapshot, cells: int) -> Row:
        look, role = glyphs.active(), self._frame_role
        box = self._frame is Frame.BOX
        left = look.top_left + look.horizontal if box else look.horizontal
        right = look.horizontal + look.top_right if box else look.horizontal
        room = cells - len(left) - len(right)
        title: list[Span] = [(" " + crop(self.TITLE, max(0, room - 2)) + " ", "title")]
        used = width(tuple(title))
        extra = self.headline(snapshot)
        if extra and used + width(extra) + 1 <= room:
            title += [*extra, (" ", "text")]
            used += width(extra) + 1
        status = self.status(snapshot)
        if status and used + width(status) + 3 > room:
            status = EMPTY
        tail: list[Span] = [(" ", "text"), *status, (" ", "text")] if status else []
        line = (look.horizontal * max(0, room - used - width(tuple(tail))), role)
        return fit(((left, role), *title, line, *tail, (right, role)), cells)

    def _redraw(self) -> None:
        """Compare the new rows with those on screen and refresh what differs."""
        if not self.is_mounted or not self.size:
            return
        old, new = self._rows, [merged(row) for row in self._compose_rows()]
        self._rows = new
        if len(old) != len(new):
            self._strips = [None] * len(new)
            self.refresh()
            return
        changed: list[Region] = []
        for y, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                self._strips[y] = None
                left, right = differing(before, after)
                changed.append(Region(left, y, right - left, 1))
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """The strip of row ``y``; built when the row has changed, otherwise from memory."""
        if y >= len(self._rows):
            return Strip.blank(self.size.width, self._style()["text"])
        strip = self._strips[y]
        if strip is None:
            styles = self._style()
            strip = Strip([Segment(text, styles[role]) for text, role in self._rows[y] if text])
            strip = strip.adjust_cell_length(self.size.width, styles["text"])
            self._strips[y] = strip
        return strip

    def _style(self) -> Palette:
        if self._palette is None:
            self._palette = Palette(self.app.theme_variables, self.background_colors[1])
        return self._palette

    def notify_style_update(self) -> None:
        """Forget colours: the theme may have changed."""
        self._palette = None
        self._strips = [None] * len(self._rows)
        super().notify_style_update()

    def on_resize(self) -> None:
        """Compute the rows anew for the new size."""
        self._rows = []
        self._redraw()

    def on_focus(self) -> None:
        """Show the focus in the frame."""
        self._redraw()

    def on_blur(self) -> None:
        """Take the focus out of the frame."""
        self._redraw()
