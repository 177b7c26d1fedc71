"""One drafter in full, scrollable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from console.rig import Snapshot
from console.screens import drafter_rows
from panels.base import Frame
from panels.rows import Row
from panels.scroll import ScrollingPanel


class DrafterDetail(ScrollingPanel):
    """The checks side by side, the files, the comparison."""

    TITLE: ClassVar[str] = "In full"
    FRAME: ClassVar[Frame] = Frame.RULE

    def __init__(self) -> None:
        super().__init__()
        self._snapshot = Snapshot()
        self._answer: Mapping[str, Any] = {}
        self._word = ""

    def say(self, word: str) -> None:
        """Nothing to show, and why."""
        self._answer, self._word, self._offset = {}, word, 0
        self._redraw()

    def tell(self, answer: Mapping[str, Any]) -> None:
        """Show one."""
        if answer is not self._answer:
            self._answer, self._word, self._offset = answer, "", 0
            self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - an answer, not figures
        """The part in sight."""
        if self._word:
            return [((self._word, "dim"),)]
        return self.window(drafter_rows.detail(self._answer, cells), rows)
