"""Save what runs now as a profile: the running profile with the drafter and the depth of this moment."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from console.errors import ConsoleError
from console.rig import Engine, Snapshot
from console.screens.base import Dialog
from console.screens.keybar import KeyBar
from console.screens.possible import depth_now
from console.screens.sentence import Sentence
from profiles.schema import Profile


class Saved(Message):
    """It was written, or not."""

    def __init__(self, name: str, path: str = "", problem: str = "") -> None:
        self.name = name
        self.path = path
        self.problem = problem
        super().__init__()


class SaveScreen(Dialog[str]):
    """Asks for a name; answers with it when the profile is written."""

    HEADING: ClassVar[str] = "Save a profile"
    BINDINGS: ClassVar[list[BindingType]] = [
        # The box takes enter for itself and says so by an event; ctrl+s is what keeps the key in the last line.
        Binding("ctrl+s,enter", "save", "save", id="yes", key_display="enter", tooltip="Write it"),
        Binding("escape", "leave", "no", id="no", tooltip="Write nothing"),
    ]
    DEFAULT_CSS = """
    SaveScreen Sentence { background: $surface; }
    SaveScreen Input { margin: 1 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked = ""
        """Name for which the question was put whether to replace it."""

    def compose(self) -> ComposeResult:
        """What is saved, the name, what is wrong with it."""
        snapshot = self.console.latest or Snapshot()
        with Vertical(classes="box"):
            yield Sentence(summary(snapshot))
            yield Input(value=snapshot.engine.profile, placeholder="name", select_on_focus=True)
            yield Sentence(id="problem")
            yield KeyBar()

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the box."""
        event.stop()
        self.action_save()

    def on_input_changed(self) -> None:
        """Another name: the old problem is none of its."""
        self.query_one("#problem", Sentence).say("")

    def action_save(self) -> None:
        """Write it in a worker; an existing name is replaced at the second enter."""
        name = self.query_one(Input).value.strip()
        snapshot = self.console.latest or Snapshot()
        shelf = self.console.shelf
        sure = self._asked == name
        self._asked = name

        def write() -> None:
            try:
                if not sure and any(entry.name == name for entry in shelf.entries()):
                    self.post_message(Saved(name, problem=f"there is a profile {name} - enter again replaces it"))
                    return
                running = shelf.load(snapshot.engine.profile)
                path = shelf.save(as_running(running, snapshot, name), running, replace=sure)
                self.post_message(Saved(name, path))
            except ConsoleError as error:
                self.post_message(Saved(name, problem=error.line))

        self.run_worker(write, thread=True, exclusive=True, exit_on_error=False)

    def on_saved(self, message: Saved) -> None:
        """Go, or say why not."""
        if message.problem:
            self.query_one("#problem", Sentence).say(message.problem, "warn")
            return
        self.console.tell(f"saved as {message.name}: {message.path}")
        self.dismiss(message.name)

    def action_leave(self) -> None:
        """Write nothing."""
        self.dismiss(None)


def as_running(profile: Profile, snapshot: Snapshot, name: str) -> Profile:
    """The profile with the drafter and the depth of this moment, under a new name.

    Raises:
        ConsoleError: the name is none.
    """
    engine: Engine = snapshot.engine
    speculation = profile.speculation
    changes: dict[str, object] = {}
    if engine.drafter and engine.drafter != speculation.drafter:
        changes["drafter"] = engine.drafter
        changes["revision"] = ""
    depth = depth_now(snapshot)
    if depth and speculation.steps is not None and depth != speculation.steps:
        changes["steps"] = depth
        if speculation.draft_tokens is not None and (speculation.topk or 1) == 1:
            changes["draft_tokens"] = depth + 1
    renamed = msgspec.structs.replace(
        profile, name=name, speculation=msgspec.structs.replace(speculation, **changes) if changes else speculation
    )
    try:
        return msgspec.convert(msgspec.to_builtins(renamed), Profile)
    except msgspec.ValidationError as error:
        raise ConsoleError(f"{name!r} cannot be saved", why=str(error)) from error


def summary(snapshot: Snapshot) -> str:
    """What would be saved, in words."""
    engine = snapshot.engine
    depth = depth_now(snapshot)
    parts = [f"Profile {engine.profile} as it runs now"]
    if engine.drafter:
        parts.append(f"drafter {engine.drafter.rstrip('/').rpartition('/')[2]}")
    if depth is not None:
        parts.append(f"depth {depth}")
    return ", ".join(parts)
