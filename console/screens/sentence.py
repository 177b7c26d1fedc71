"""Plain words in a role's colour, as high as they need to be; never interpreted as markup."""

from __future__ import annotations

from textual.geometry import Size

from console.rig import Snapshot
from panels.base import Frame, Panel
from panels.rows import Row, wrap
from panels.text import clean

_MOST_ROWS = 12


class Sentence(Panel):
    """Gone while it has nothing to say."""

    DEFAULT_CSS = """
    Sentence { height: auto; }
    """

    def __init__(self, text: str = "", role: str = "text", *, id: str | None = None) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._text, self._role = text, role
        self.display = bool(text)

    def say(self, text: str, role: str = "text") -> None:
        """Say something else."""
        if (text, role) != (self._text, self._role):
            self._text, self._role = text, role
            self.display = bool(text)
            self.refresh(layout=True)
            self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - words, not figures
        """The words, broken at spaces."""
        return [row for line in self._text.splitlines() for row in wrap(clean(line), cells, self._role, rows) or [()]]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's signature
        """Rows it takes at this width."""
        return len(self.body(Snapshot(), width, _MOST_ROWS))
