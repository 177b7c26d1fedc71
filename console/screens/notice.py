"""One row above the panels while something is not as usual: no agent, old figures, a frozen screen."""

from __future__ import annotations

from console.rig import Snapshot
from panels import glyphs
from panels.base import Frame, Panel
from panels.rows import Row
from panels.text import clean


class Notice(Panel):
    """Shown while it has something to say."""

    DEFAULT_CSS = """
    Notice { dock: top; height: 1; display: none; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__(id="notice")
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._row: Row = ()
        self._said: tuple[str, str] | None = None

    def say(self, word: str = "", text: str = "", role: str = "warn") -> None:
        """Show a word that is seen at once and a text beside it; nothing without a word."""
        if (word, text) == self._said:
            return
        self._said = (word, text)
        mark = glyphs.active().warn if role != "accent" else glyphs.active().busy
        self._row = ((f" {mark} {word}", role), (f"  {clean(text)}", "text")) if word else ()
        self.display = bool(word)
        self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - a sentence, not figures
        """The row."""
        return [self._row] if self._row else []
