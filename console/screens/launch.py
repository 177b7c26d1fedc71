"""A start at full size: phases with their times, the operation's steps, the log; or why it failed and what to do."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.rig import EngineState, Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from panels.header import Header
from panels.launch import LaunchPanel
from panels.operation import OperationPanel


class LaunchScreen(SubScreen):
    """Follows a start to its end; when the engine serves, the deck comes back by itself."""

    HEADING: ClassVar[str] = "Start of the engine"
    DEFAULT_CSS = """
    LaunchScreen Header { height: 2; }
    LaunchScreen LaunchPanel { height: 2fr; }
    LaunchScreen OperationPanel { height: 1fr; max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("C", "cancel", "cancel", id="launch-cancel", tooltip="Cancel the start, while that is possible"),
        Binding("x", "stop", "stop", id="launch-stop", tooltip="Stop the engine (asked first)"),
        Binding("r", "restart", "try again", id="launch-again", tooltip="Launch the same profile again (asked first)"),
        Binding("l", "log", "log", id="launch-log", tooltip="The engine's log: follow, search, filter"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._seen_starting = False

    def compose(self) -> ComposeResult:
        """Header; phases and the log's last lines; the operation's steps."""
        yield Header()
        yield LaunchPanel()
        yield OperationPanel()
        yield KeyBar()

    def show(self, snapshot: Snapshot) -> None:
        """Draw; and go when the engine has come up."""
        state = snapshot.engine.state
        self._seen_starting = self._seen_starting or state is EngineState.STARTING
        if self._seen_starting and state is EngineState.READY and self.is_current:
            self.dismiss()
            return
        roomy = self.size.height >= 28
        self.query_one(OperationPanel).display = roomy and snapshot.operation is not None
        for kind in (Header, LaunchPanel, OperationPanel):
            panel = self.query_one(kind)
            if panel.display:
                panel.show(snapshot)

    def action_cancel(self) -> None:
        """Cancel the start."""
        self.console.operations.cancel()

    def action_stop(self) -> None:
        """Stop what is there."""
        self.console.operations.request("stop", {})

    def action_restart(self) -> None:
        """The same once more."""
        self.console.operations.request("restart", {})

    def action_log(self) -> None:
        """The whole log."""
        from console.screens.log import LogScreen

        self.console.push_screen(LogScreen())
