"""From a key to the agent: preview, agreement, execution. Nothing else in the app changes the rig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.message import Message

from console.errors import ConsoleError
from console.rig import Operation, OperationState, Preview, Snapshot
from console.screens.possible import next_depth

if TYPE_CHECKING:
    from console.app import ConsoleApp

_SETTLE_S = 0.15
"""Presses of the depth keys within this time become one operation."""

Args = Mapping[str, object]


class Previewed(Message):
    """The agent has said what an operation would do."""

    def __init__(self, preview: Preview, args: Args) -> None:
        self.preview = preview
        self.args = args
        super().__init__()


class Accepted(Message):
    """The agent has begun an operation."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        super().__init__()


class Refused(Message):
    """The agent has said no, or nothing; one line."""

    def __init__(self, line: str) -> None:
        self.line = line
        super().__init__()


class Operator:
    """Asks the agent in worker threads, so that a slow one never holds the screen."""

    def __init__(self, app: ConsoleApp) -> None:
        self._app = app
        self._wanted_depth: int | None = None
        self._announced = ""
        """Id of the operation whose end was reported."""
        self._followed = ""
        """Id of the operation that was seen running."""
        self._begun = ""
        """Id of the operation that this console asked for last."""

    # ------------------------------------------------------------------------------------------- asking

    def request(self, kind: str, args: Args) -> None:
        """Ask for a preview; what happens then is decided in :meth:`previewed`."""
        self._ask(lambda: Previewed(self._app.agent().preview(kind, args), args))

    def agree(self, preview: Preview, args: Args) -> None:
        """Begin the operation that was previewed."""
        self._ask(lambda: Accepted(self._app.agent().operate(preview.kind, args)))

    def agreed(self, answer: tuple[Preview, Args] | None) -> None:
        """Begin what a dialog has previewed and the operator agreed to."""
        if answer is not None:
            self.agree(*answer)

    def cancel(self) -> None:
        """Cancel the running operation."""

        def call() -> None:
            self._app.agent().cancel()

        self._ask(call)

    def acknowledge(self) -> None:
        """Say that the gravest alarm nobody has answered for was seen."""
        snapshot = self._app.latest
        waiting = [alarm for alarm in snapshot.alarms if not alarm.acknowledged_by] if snapshot is not None else []

        def call() -> None:
            self._app.agent().acknowledge(waiting[0].id)

        if waiting:
            self._ask(call)

    def depth(self, direction: int) -> None:
        """One depth down or up; several presses in a row add up."""
        snapshot = self._app.latest
        if snapshot is None:
            return
        wanted = next_depth(snapshot, direction, self._wanted_depth)
        if wanted is None:
            return
        first = self._wanted_depth is None
        self._wanted_depth = wanted
        if first:
            self._app.set_timer(_SETTLE_S, self._ask_depth)

    def _ask_depth(self) -> None:
        wanted, self._wanted_depth = self._wanted_depth, None
        if wanted is not None:
            self.request("depth", {"depth": wanted})

    # ----------------------------------------------------------------------------------------- answering

    def previewed(self, preview: Preview, args: Args) -> None:
        """Refused: say why. Cheap and live: do it. Everything else: ask first."""
        if preview.refused:
            self._app.tell(f"{preview.title or preview.kind}: {preview.refused}", "error")
            return
        if preview.kind == "depth" and preview.path == "live":
            self.agree(preview, args)
            return
        from console.screens.confirm import ConfirmScreen

        def answered(agreed: bool | None) -> None:
            if agreed:
                self.agree(preview, args)

        self._app.push_screen(ConfirmScreen(preview), answered)

    def follow(self, snapshot: Snapshot) -> None:
        """Say once how an operation ended that was seen running."""
        operation = snapshot.operation
        if operation is None:
            return
        if operation.state is OperationState.RUNNING:
            self._followed = operation.id
            return
        if operation.id != self._followed or operation.id == self._announced:
            return
        self._announced = operation.id
        if operation.kind == "calibrate" and operation.id == self._begun and operation.state is OperationState.DONE:
            from console.screens.calibration import CalibrationScreen

            self._app.push_screen(CalibrationScreen())
            return
        if self._app.on_deck:
            return  # it stands in the header there
        good = operation.state is OperationState.DONE
        words = f"{operation.title or operation.kind}: {operation.state.value}"
        self._app.tell(
            f"{words} - {operation.message}" if operation.message else words, "information" if good else "error"
        )

    def watch(self, operation: Operation) -> None:
        """Follow an operation from its beginning, even when it ends before the next snapshot."""
        self._followed = self._begun = operation.id

    # -------------------------------------------------------------------------------------------- threads

    def _ask(self, call: Callable[[], Message | None]) -> None:
        """Call the agent in a thread and post what it answers."""

        def work() -> None:
            try:
                message = call()
            except ConsoleError as error:
                message = Refused(error.line)
            if message is not None:
                self._app.post_message(message)

        self._app.run_worker(work, thread=True, group="operator", exit_on_error=False, name="operator")
