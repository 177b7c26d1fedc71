"""The profiles: choose one, see what launching it would do, launch it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.choices import Choice, Choices
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from console.screens.shelf import Entry
from panels.header import Header


class Listed(Message):
    """The profiles have been read."""

    def __init__(self, entries: Sequence[Entry], problem: str = "") -> None:
        self.entries = entries
        self.problem = problem
        super().__init__()


class ProfilesScreen(SubScreen):
    """All profiles; a broken one stands there with its problem and harms nobody."""

    HEADING: ClassVar[str] = "Profiles"
    DEFAULT_CSS = """
    ProfilesScreen Header { height: 2; }
    ProfilesScreen Sentence { padding: 0 1; margin-top: 1; }
    ProfilesScreen Input { dock: bottom; height: 1; border: none; padding: 0 1; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "launch",
            "launch",
            id="profile-launch",
            key_display="enter",
            tooltip="Launch it (shown and asked first)",
        ),
        Binding("slash", "filter", "filter", id="profiles-filter", tooltip="Only the profiles that hold a text"),
        Binding("s", "save", "save", id="profiles-save", tooltip="Save what runs now as a profile"),
        Binding("f5", "reload", "reload", id="profiles-reload", show=False, tooltip="Read the profiles again"),
    ]

    def compose(self) -> ComposeResult:
        """Header, list, what there is to say of the chosen one."""
        yield Header()
        yield Choices(("profile", "from", "description"), empty="reading the profiles")
        yield Sentence(id="about")
        yield Input(placeholder="only profiles that hold this text")
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the profiles in a worker: a home folder may be slow."""
        self.query_one(Choices).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Read the profiles again."""

        def read() -> None:
            try:
                self.post_message(Listed(self.console.shelf.entries()))
            except ConsoleError as error:
                self.post_message(Listed((), error.line))

        self.run_worker(read, thread=True, exclusive=True, exit_on_error=False)

    def on_listed(self, message: Listed) -> None:
        """Fill the list; the running profile gets the cursor."""
        choices = [
            Choice(entry.name, (entry.name, entry.origin, entry.problem or entry.description), *_looks(entry))
            for entry in message.entries
        ]
        listing = self.query_one(Choices)
        listing.fill(choices, message.problem or "no profiles")
        if self.console.latest is not None:
            listing.select(self.console.latest.engine.profile)

    def on_choices_moved(self, message: Choices.Moved) -> None:
        """Say what is wrong with the profile under the cursor, in full."""
        choice = message.choice
        self.query_one("#about", Sentence).say(choice.note if choice else "", "bad")

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        """Ask what launching it would do."""
        if message.choice.note:
            self.console.tell(message.choice.note, "error")
        elif not self.console.can("launch"):
            self.console.tell(self.console.why_not(), "warning")
        else:
            self.console.operations.request("launch", {"profile": message.choice.key})

    def show(self, snapshot: Snapshot) -> None:
        """The header lives on."""
        self.query_one(Header).show(snapshot)

    def action_launch(self) -> None:
        """Enter outside the list."""
        self.query_one(Choices).action_choose()

    def action_filter(self) -> None:
        """Ask for a text."""
        box = self.query_one(Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one(Choices).only(event.value)

    def on_input_submitted(self) -> None:
        """Back to the list."""
        self.query_one(Choices).focus()

    def action_back(self) -> None:
        """Escape peels one layer: the filter first, then the screen."""
        box = self.query_one(Input)
        if box.display:
            box.value = ""
            box.display = False
            self.query_one(Choices).focus()
        else:
            self.dismiss()

    def action_save(self) -> None:
        """Save what runs now."""
        from console.screens.save import SaveScreen

        def saved(name: str | None) -> None:
            if name:
                self.action_reload()

        self.console.push_screen(SaveScreen(), saved)


def _looks(entry: Entry) -> tuple[str, str]:
    return ("bad", f"{entry.name}: {entry.problem}") if entry.problem else ("text", "")
