"""What stands on a terminal that is too small for the screens."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.screens.base import Dialog
from console.screens.sentence import Sentence

LEAST_COLUMNS, LEAST_ROWS = 60, 20
"""The smallest terminal the screens are made for."""


class SmallScreen(Dialog[None]):
    """Covers everything; the app takes it away when the terminal is large enough."""

    HEADING: ClassVar[str] = "Small terminal"
    DEFAULT_CSS = """
    SmallScreen { background: $background; align: center middle; }
    SmallScreen Sentence { width: 100%; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.leave", "leave", id="small-leave", tooltip="Leave the console")
    ]

    def compose(self) -> ComposeResult:
        """One line."""
        yield Sentence(self._words(), "warn")

    def on_resize(self) -> None:
        """Say the new size."""
        self.query_one(Sentence).say(self._words(), "warn")

    def _words(self) -> str:
        width, height = self.app.size
        return f"console needs {LEAST_COLUMNS}x{LEAST_ROWS}, this is {width}x{height}"


def too_small(columns: int, rows: int) -> bool:
    """Whether the screens have no room."""
    return columns < LEAST_COLUMNS or rows < LEAST_ROWS
