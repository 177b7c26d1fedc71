"""What an operation would do, before anybody agrees to it."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.cells import cell_len
from textual.geometry import Size

from console.rig import Preview, Snapshot
from panels import glyphs
from panels.base import Frame, Panel
from panels.rows import EMPTY, Row, crop_middle, fit, wrap
from panels.text import clean, duration

HOW = {
    "live": "live: the engine keeps serving",
    "restart": "restart: running requests are drained, then the engine starts anew",
    "stop": "stop: running requests are drained, then the engine ends",
}
"""What a path means for those who are served."""


class PreviewPanel(Panel):
    """The changes, the path, the time it takes and the warnings; or why it is refused. As high as it needs to be."""

    FRAME: ClassVar[Frame] = Frame.NONE
    DEFAULT_CSS = """
    PreviewPanel { height: auto; }
    """

    def __init__(self, preview: Preview, **options: Any) -> None:
        """Take the preview and the options of every widget."""
        super().__init__(**options)
        self._preview = preview
        self._snapshot = Snapshot()

    def propose(self, preview: Preview) -> None:
        """Show another preview."""
        self._preview = preview
        self.refresh(layout=True)
        self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - a preview is shown whole
        """All of the preview; the dialog scrolls when it is higher than the screen."""
        return preview_rows(self._preview, cells)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's signature
        """Rows it takes at this width."""
        return max(1, len(preview_rows(self._preview, width)))


def preview_rows(preview: Preview, cells: int) -> list[Row]:
    """The preview as rows of ``cells``."""
    look = glyphs.active()
    rows: list[Row] = wrap(clean(preview.title or preview.kind), cells, "title", 2)
    if preview.refused:
        return [*rows, EMPTY, *wrap(f"{look.bad} not possible: {clean(preview.refused)}", cells, "bad", 6)]
    rows += _path(preview, cells)
    rows += [EMPTY, *_changes(preview, cells)] if preview.changes else []
    if preview.warnings:
        rows.append(EMPTY)
        for warning in preview.warnings:
            rows += wrap(f"{look.warn} {clean(warning)}", cells, "warn", 3)
    return rows


def _path(preview: Preview, cells: int) -> list[Row]:
    rows: list[Row] = []
    if preview.path:
        how = HOW.get("stop" if preview.kind == "stop" else preview.path) or clean(preview.path)
        rows += wrap(how, cells, "good" if preview.path == "live" else "warn", 2)
        if preview.path_why:
            rows += wrap(clean(preview.path_why), cells, "label", 3)
    if preview.expected_s is not None:
        origin = f", from {clean(preview.expected_from)}" if preview.expected_from else ""
        rows.append(fit((("takes about ", "label"), (duration(preview.expected_s), "value"), (origin, "label")), cells))
    elif preview.expected_from:
        rows += wrap(f"time unknown: {clean(preview.expected_from)}", cells, "label", 2)
    return rows


def _changes(preview: Preview, cells: int) -> list[Row]:
    """One row a change: what, before, after; over two rows where one is too narrow."""
    arrow = f" {glyphs.active().arrow} "
    name = max(3, min(24, cells // 3, max(cell_len(clean(change.what)) for change in preview.changes)))
    room = cells - name - 2
    rows: list[Row] = []
    for change in preview.changes:
        label = (*fit(((crop_middle(clean(change.what), name), "label"),), name, "label"), ("  ", "label"))
        before, after = (clean(text) or "not set" for text in (change.before, change.after))
        if cell_len(before) + len(arrow) + cell_len(after) <= room:
            rows.append((*label, (before, "dim"), (arrow, "dim"), (after, "value")))
            continue
        rows.append((*label, (crop_middle(before, room), "dim")))
        rows.append(((" " * (name + 2 - len(arrow)), "dim"), (arrow, "dim"), (crop_middle(after, room), "value")))
    return rows
