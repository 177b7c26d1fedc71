"""Targets at full size: break-even and goals, with the cycle and the acceptance they rest on."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from panels.acceptance import AcceptancePanel
from panels.cycle import CyclePanel
from panels.header import Header
from panels.targets import TargetsPanel


class TargetsScreen(SubScreen):
    """What speculation wins, what each goal asks, and what both come from."""

    HEADING: ClassVar[str] = "Targets"
    DEFAULT_CSS = """
    TargetsScreen Header { height: 2; }
    TargetsScreen TargetsPanel { height: 3fr; min-height: 9; }
    TargetsScreen Horizontal { height: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left_square_bracket", "depth_down", "depth", id="targets-depth-down", tooltip="One speculation depth down"
        ),
        Binding("right_square_bracket", "depth_up", "depth", id="targets-depth-up", tooltip="One speculation depth up"),
    ]

    def compose(self) -> ComposeResult:
        """Targets above what they rest on."""
        yield Header()
        yield TargetsPanel()
        with Horizontal():
            yield CyclePanel()
            yield AcceptancePanel()
        yield KeyBar()

    def show(self, snapshot: Snapshot) -> None:
        """Draw; the lower half needs room."""
        self.query_one(Horizontal).display = self.size.height >= 22
        for kind in (Header, TargetsPanel, CyclePanel, AcceptancePanel):
            self.query_one(kind).show(snapshot)

    def action_depth_down(self) -> None:
        """One depth down."""
        self.console.operations.depth(-1)

    def action_depth_up(self) -> None:
        """One depth up."""
        self.console.operations.depth(+1)
