"""What all screens share: they show snapshots, know what is possible now, and leave by escape."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from console.rig import Snapshot

if TYPE_CHECKING:
    from console.app import ConsoleApp

Result = TypeVar("Result")


class _Shared:
    """Mixed into screens and dialogs."""

    HEADING: ClassVar[str] = ""
    """What the screen is called in the help."""

    @property
    def console(self) -> ConsoleApp:
        """The app, by its own type."""
        return cast("ConsoleApp", self.app)  # type: ignore[attr-defined]

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot; called twice a second while the screen can be seen."""

    def on_screen_resume(self) -> None:
        """Nothing is drawn while nobody can see it, so draw when somebody can."""
        self.console.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        """Keys that cannot do anything now are not there."""
        return self.console.can(action)


class ConsoleScreen(_Shared, Screen[Result], Generic[Result]):
    """A screen that fills the terminal."""


class SubScreen(ConsoleScreen[None]):
    """A screen above the deck; escape peels it off."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back", id="back", key_display="esc", tooltip="Back to the screen before this one")
    ]

    def action_back(self) -> None:
        """To the screen before."""
        self.dismiss()


class Dialog(_Shared, ModalScreen[Result], Generic[Result]):
    """A box in front of the screen."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 70%; }
    Dialog > .box {
        width: 84; max-width: 96%; height: auto; max-height: 90%;
        padding: 1 2; background: $surface; border: round $primary;
    }
    Dialog > .box > KeyBar { dock: none; margin-top: 1; background: $surface; }
    """
