"""The drafters of the target that runs: which one drafts now, and which others the profile offers."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.choices import Choice, Choices
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from panels.acceptance import AcceptancePanel
from panels.header import Header
from profiles.schema import Profile


class Offered(Message):
    """The profile has been read."""

    def __init__(self, drafters: tuple[str, ...], problem: str = "") -> None:
        self.drafters = drafters
        self.problem = problem
        super().__init__()


class DraftersScreen(SubScreen):
    """Enter on a drafter shows what swapping to it would do."""

    HEADING: ClassVar[str] = "Drafters"
    DEFAULT_CSS = """
    DraftersScreen Header { height: 2; }
    DraftersScreen Choices { height: 1fr; }
    DraftersScreen Sentence { padding: 0 1; }
    DraftersScreen AcceptancePanel { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "swap",
            "swap",
            id="drafter-swap",
            key_display="enter",
            tooltip="Swap to this drafter (shown and asked first)",
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._offered: tuple[str, ...] = ()
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Header, list, acceptance of the one that drafts."""
        yield Header()
        yield Choices(("drafter", "now", "where"), empty="reading the profile")
        yield Sentence(id="about")
        yield AcceptancePanel()
        yield KeyBar()

    def on_mount(self) -> None:
        """Read the profile in a worker."""
        self.query_one(Choices).focus()
        snapshot = self.console.latest
        profile = snapshot.engine.profile if snapshot is not None else ""
        if not profile:
            self.post_message(Offered((), "no profile: the engine was started elsewhere"))
            return

        def read() -> None:
            try:
                self.post_message(Offered(offered(self.console.shelf.load(profile))))
            except ConsoleError as error:
                self.post_message(Offered((), error.line))

        self.run_worker(read, thread=True, exclusive=True, exit_on_error=False)

    def on_offered(self, message: Offered) -> None:
        """Fill the list."""
        self._offered = message.drafters
        self.query_one("#about", Sentence).say(message.problem, "warn")
        if self.console.latest is not None:
            self._fill(self.console.latest)

    def show(self, snapshot: Snapshot) -> None:
        """Header and acceptance live on; the list changes with the drafter that runs."""
        self.query_one(Header).show(snapshot)
        panel = self.query_one(AcceptancePanel)
        panel.display = self.size.height >= 22
        if panel.display:
            panel.show(snapshot)
        self._fill(snapshot)

    def _fill(self, snapshot: Snapshot) -> None:
        running = snapshot.engine.drafter
        drafters = self._offered if running in self._offered or not running else (running, *self._offered)
        if (drafters, running) == self._drawn:
            return
        self._drawn = (drafters, running)
        rows = [
            Choice(path, (path.rstrip("/").rpartition("/")[2] or path, "drafts" if path == running else "", path))
            for path in drafters
        ]
        self.query_one(Choices).fill(rows, "the profile names no drafter")

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        """Ask what the swap would do."""
        snapshot = self.console.latest
        if snapshot is not None and message.choice.key == snapshot.engine.drafter:
            self.console.tell(f"{message.choice.key} is the drafter that runs", "warning")
        elif not self.console.can("swap"):
            self.console.tell(self.console.why_not(), "warning")
        else:
            self.console.operations.request("swap", {"drafter": message.choice.key})

    def action_swap(self) -> None:
        """Enter outside the list."""
        self.query_one(Choices).action_choose()


def offered(profile: Profile) -> tuple[str, ...]:
    """The drafters a profile names, its own first, each once."""
    own = (profile.speculation.drafter,) if profile.speculation.drafter else ()
    return tuple(dict.fromkeys((*own, *profile.speculation.drafters)))
