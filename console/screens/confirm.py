"""What an operation would do, and the question whether to do it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll

from console.rig import Preview, Snapshot
from console.screens.base import Dialog
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from panels.preview import PreviewPanel

_INTERRUPTS = frozenset({"stop", "restart", "launch", "swap", "depth"})
"""Operations that end the running engine, unless they are live."""


class ConfirmScreen(Dialog[bool]):
    """Shows a preview and what it means for the requests that run at this moment; ``True`` when the operator agrees."""

    HEADING: ClassVar[str] = "Question before a change"
    DEFAULT_CSS = """
    ConfirmScreen VerticalScroll { height: auto; max-height: 24; background: $surface; }
    ConfirmScreen Sentence { margin-top: 1; background: $surface; }
    ConfirmScreen PreviewPanel { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "agree", "yes, do it", id="yes", key_display="y", tooltip="Do it"),
        Binding("n,escape,q", "refuse", "no", id="no", key_display="n", tooltip="Leave everything as it is"),
    ]

    def __init__(self, preview: Preview) -> None:
        super().__init__()
        self._preview = preview

    def compose(self) -> ComposeResult:
        """The preview, the effect, the keys."""
        with Vertical(classes="box"):
            with VerticalScroll():
                yield PreviewPanel(self._preview)
            yield Sentence(id="effect")
            yield KeyBar()

    def show(self, snapshot: Snapshot) -> None:
        """Keep the effect true while the question stands: requests come and go."""
        text = effect(self._preview, snapshot)
        self.query_one("#effect", Sentence).say(text, "warn")

    def action_agree(self) -> None:
        """Yes."""
        self.dismiss(True)

    def action_refuse(self) -> None:
        """No."""
        self.dismiss(False)


def effect(preview: Preview, snapshot: Snapshot) -> str:
    """What it means for those who use the engine now; empty when nobody notices."""
    if preview.path == "live" or preview.kind not in _INTERRUPTS:
        return ""
    running, queued = snapshot.load.running.value, snapshot.load.queued.value
    if not running and not queued:
        return ""
    words = []
    if running:
        words.append(f"{running:.0f} running request{'s' if round(running) != 1 else ''} will be drained")
    if queued:
        words.append(f"{queued:.0f} waiting one{'s' if round(queued) != 1 else ''} refused")
    return ", ".join(words)
