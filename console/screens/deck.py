"""The main screen: the deck, and the keys to everything else."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.rig import Snapshot
from console.screens.base import ConsoleScreen
from console.screens.keybar import KeyBar
from console.screens.notice import Notice
from panels.deck import Deck


class DeckScreen(ConsoleScreen[None]):
    """GPUs, cycle, acceptance, targets, events; or the engine's start and end while it does not serve."""

    HEADING: ClassVar[str] = "Deck"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "a",
            "acknowledge",
            "alarm seen",
            id="acknowledge",
            tooltip="The alarm was seen: your name stands beside it from now on",
        ),
        Binding("p", "profiles", "profiles", id="profiles", tooltip="Profiles: look, launch"),
        Binding("C", "cancel", "cancel", id="cancel", tooltip="Cancel the running operation, while that is possible"),
        Binding(
            "left_square_bracket",
            "depth_down",
            "depth",
            id="depth-down",
            tooltip="One speculation depth down: at once where the engine has it prebuilt, by restart (asked first) elsewhere",
        ),
        Binding(
            "right_square_bracket",
            "depth_up",
            "depth",
            id="depth-up",
            tooltip="One speculation depth up, in the same way",
        ),
        Binding("d", "drafters", "drafters", id="drafters", tooltip="Drafters of this target: swap"),
        Binding(
            "t",
            "targets",
            "targets",
            id="targets",
            tooltip="Targets and what-if: what would have to be true for each goal",
        ),
        Binding(
            "b",
            "baseline",
            "baseline",
            id="baseline",
            tooltip="Measure this rig without speculation (shown and asked first)",
        ),
        Binding(
            "c",
            "calibrate",
            "calibrate",
            id="calibrate",
            tooltip="Measure every depth at several loads (shown and asked first); earlier results",
        ),
        Binding(
            "e",
            "environment",
            "environment",
            id="environment",
            tooltip="Environment: asked for, launcher, each worker, and where they differ",
        ),
        Binding("l", "log", "log", id="log", tooltip="The engine's log: follow, search, filter"),
        Binding(
            "h", "history", "history", id="history", tooltip="Charts over hours and days; what was done and what failed"
        ),
        Binding("x", "stop", "stop", id="stop", tooltip="Stop the engine (asked first)"),
        Binding("r", "restart", "restart", id="restart", tooltip="Stop the engine and launch it again (asked first)"),
        Binding(
            "enter",
            "launch_view",
            "start-up",
            id="launch-view",
            key_display="enter",
            tooltip="The start at full size: phases, times, the log; or why it failed",
        ),
        Binding("s", "save", "save", id="save", tooltip="Save what runs now as a profile"),
        Binding("space", "freeze", "freeze", id="freeze", tooltip="Hold the figures still; measuring goes on"),
        Binding(
            "slash", "filter_log", "filter log", id="filter-log", tooltip="The log with only the lines that hold a text"
        ),
    ]

    def __init__(self) -> None:
        super().__init__(id="deck-screen")
        self.notice = Notice()
        self._deck = Deck()

    def compose(self) -> ComposeResult:
        """Notice, panels, keys."""
        yield self.notice
        yield self._deck
        yield KeyBar()

    def on_mount(self) -> None:
        """Let the app connect."""
        self.console.begin()

    def show(self, snapshot: Snapshot) -> None:
        """Draw on all panels in sight."""
        self._deck.show(snapshot)

    # ------------------------------------------------------------------------------------------ operations

    def action_cancel(self) -> None:
        """Cancel the running operation."""
        self.console.operations.cancel()

    def action_depth_down(self) -> None:
        """One depth down."""
        self.console.operations.depth(-1)

    def action_depth_up(self) -> None:
        """One depth up."""
        self.console.operations.depth(+1)

    def action_stop(self) -> None:
        """Stop the engine."""
        self.console.operations.request("stop", {})

    def action_restart(self) -> None:
        """Restart the engine."""
        self.console.operations.request("restart", {})

    def action_baseline(self) -> None:
        """Measure the baseline."""
        from console.screens.measure import MeasureScreen

        self.console.push_screen(MeasureScreen("baseline"), self.console.operations.agreed)

    def action_calibrate(self) -> None:
        """Measure every depth."""
        from console.screens.measure import MeasureScreen

        self.console.push_screen(MeasureScreen("calibrate"), self.console.operations.agreed)

    def action_detach(self) -> None:
        """Stop watching a server that somebody else started."""
        self.console.operations.request("detach", {})

    def action_acknowledge(self) -> None:
        """The gravest alarm was seen."""
        self.console.operations.acknowledge()

    def action_freeze(self) -> None:
        """Hold the screen still, or let it go on."""
        self.console.freeze()

    # --------------------------------------------------------------------------------------------- screens

    def action_profiles(self) -> None:
        """The profiles."""
        from console.screens.profiles import ProfilesScreen

        self.console.push_screen(ProfilesScreen())

    def action_drafters(self) -> None:
        """The drafters."""
        from console.screens.drafters import DraftersScreen

        self.console.push_screen(DraftersScreen())

    def action_targets(self) -> None:
        """The targets."""
        from console.screens.targets import TargetsScreen

        self.console.push_screen(TargetsScreen())

    def action_environment(self) -> None:
        """The engine's environment."""
        from console.screens.environment import EnvironmentScreen

        self.console.push_screen(EnvironmentScreen())

    def action_log(self) -> None:
        """The log."""
        from console.screens.log import LogScreen

        self.console.push_screen(LogScreen())

    def action_history(self) -> None:
        """The history."""
        from console.screens.history import HistoryScreen

        self.console.push_screen(HistoryScreen())

    def action_filter_log(self) -> None:
        """The log, asking for a text first."""
        from console.screens.log import LogScreen

        self.console.push_screen(LogScreen(ask=True))

    def action_launch_view(self) -> None:
        """The start at full size."""
        from console.screens.launch import LaunchScreen

        self.console.push_screen(LaunchScreen())

    def action_save(self) -> None:
        """Save what runs now as a profile."""
        from console.screens.save import SaveScreen

        self.console.push_screen(SaveScreen())
