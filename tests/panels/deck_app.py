"""The smallest app that shows a deck."""

from __future__ import annotations

from textual.app import App, ComposeResult

from console.rig import Snapshot
from console.themes import DEFAULT, THEMES
from panels.deck import Deck


class DeckApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def __init__(self, snapshot: Snapshot, theme: str = DEFAULT) -> None:
        super().__init__()
        for item in THEMES:
            self.register_theme(item)
        self.theme = theme
        self.snapshot = snapshot

    def compose(self) -> ComposeResult:
        yield Deck()

    def on_mount(self) -> None:
        self.query_one(Deck).show(self.snapshot)


def screen_text(app: App[None]) -> str:
    """What stands on the screen, row by row."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())
