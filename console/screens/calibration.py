"""The calibrations of this rig, newest first to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.calibration_view import CalibrationView
from console.screens.keybar import KeyBar
from panels.header import Header

if TYPE_CHECKING:
    from console.agent.ledger import Entry


class Read(Message):
    """The ledger has been read."""

    def __init__(self, entries: Sequence[Entry], problem: str = "") -> None:
        self.entries = entries
        self.problem = problem
        super().__init__()


class CalibrationScreen(SubScreen):
    """One run at a time: cost table, best depth for each load, predicted against measured."""

    HEADING: ClassVar[str] = "Calibrations"
    DEFAULT_CSS = """
    CalibrationScreen Header { height: 2; }
    CalibrationScreen CalibrationView { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "older", "run", id="calibration-older", tooltip="The run before this one"),
        Binding("right", "newer", "run", id="calibration-newer", tooltip="The run after this one"),
        Binding("c", "calibrate", "calibrate", id="calibration-again", tooltip="Calibrate now (shown and asked first)"),
        Binding("f5", "reload", "reload", id="calibration-reload", show=False, tooltip="Read the ledger again"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[Entry, ...] = ()
        self._at = -1

    def compose(self) -> ComposeResult:
        """Header and the run."""
        yield Header()
        yield CalibrationView()
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the ledger in a worker."""
        self.query_one(CalibrationView).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Read the ledger again."""

        def read() -> None:
            try:
                self.post_message(Read(self.console.agent().runs("calibrate")))
            except ConsoleError as error:
                self.post_message(Read((), error.line))

        self.run_worker(read, thread=True, exclusive=True, exit_on_error=False)

    def on_read(self, message: Read) -> None:
        """The newest run first."""
        self._entries = tuple(message.entries)
        self._at = len(self._entries) - 1
        self._fill(message.problem)

    def _fill(self, problem: str = "") -> None:
        view = self.query_one(CalibrationView)
        if not self._entries:
            view.fill(None, why=problem or "no calibration of this rig yet: c measures one")
            return
        entry = self._entries[self._at]
        snapshot = self.console.latest
        goals = [goal.tok_s for goal in snapshot.targets.goals] if snapshot is not None else []
        head = f"run {self._at + 1} of {len(self._entries)}, profile {entry.profile}, by {entry.by}"
        view.fill(entry.result, head, goals)

    def show(self, snapshot: Snapshot) -> None:
        """The header lives on."""
        self.query_one(Header).show(snapshot)

    def action_older(self) -> None:
        """The run before."""
        self._go(-1)

    def action_newer(self) -> None:
        """The run after."""
        self._go(1)

    def _go(self, by: int) -> None:
        wanted = min(max(0, self._at + by), len(self._entries) - 1)
        if self._entries and wanted != self._at:
            self._at = wanted
            self._fill()

    def action_calibrate(self) -> None:
        """Another one now."""
        from console.screens.measure import MeasureScreen

        self.console.push_screen(MeasureScreen("calibrate"), self.console.operations.agreed)
