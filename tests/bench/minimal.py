"""The least a Textual app can be: what the console's start is compared with."""

from textual.app import App, ComposeResult
from textual.widgets import Footer, Static

MARK = "minimal-app-ready"


class Minimal(App[None]):
    """One line of text and a footer."""

    def compose(self) -> ComposeResult:
        yield Static(MARK)
        yield Footer()


if __name__ == "__main__":
    Minimal().run()
