"""The drafters: on disk, in the hub cache and in the profile, judged against what runs; swap, check again, download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from console.errors import ConsoleError
from console.rig import Change, OperationState, Preview, Snapshot, StepState
from console.screens import drafter_rows
from console.screens.base import SubScreen
from console.screens.choices import Choices
from console.screens.drafter_detail import DrafterDetail
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from panels.header import Header

if TYPE_CHECKING:
    from console.agent.pulls import Pull
    from console.agent.shelf import Item

_DETAIL_S = 0.15
"""A drafter is asked about when the cursor has stood on it for this long."""
_PULLS_S = 0.5
_SHOWN_PULLS = 3


class Shelved(Message):
    """The agent has told the drafters."""

    def __init__(self, items: Sequence[Item], note: str = "") -> None:
        self.items = items
        self.note = note
        super().__init__()


class Judged(Message):
    """The agent has told one in full, or why it cannot."""

    def __init__(self, name: str, answer: Mapping[str, Any], problem: str = "") -> None:
        self.name = name
        self.answer = answer
        self.problem = problem
        super().__init__()


class Pulling(Message):
    """The agent has told the downloads."""

    def __init__(self, pulls: Sequence[Pull]) -> None:
        self.pulls = pulls
        super().__init__()


class DraftersScreen(SubScreen):
    """Enter on a drafter shows what swapping to it would do."""

    HEADING: ClassVar[str] = "Drafters"
    DEFAULT_CSS = """
    DraftersScreen Header { height: 2; }
    DraftersScreen Choices { height: 1fr; min-height: 5; }
    DraftersScreen Sentence { padding: 0 1; }
    DraftersScreen DrafterDetail { height: 2fr; }
    DraftersScreen Input { dock: bottom; height: 1; border: none; padding: 0 1; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "swap", "swap", id="drafter-swap", key_display="enter", tooltip="Swap to it (shown and asked first)"),
        Binding("v", "verify", "verify", id="drafter-verify", tooltip="Read and judge them again, now"),
        Binding("D", "download", "download", id="drafter-download", tooltip="Download a repository; needs no open console"),
        Binding("X", "stop_download", "stop download", id="drafter-stop", tooltip="Stop the newest download"),
        Binding("slash", "filter", "filter", id="drafter-filter", tooltip="Only the drafters that hold a text"),
        Binding("C", "cancel", "cancel", id="drafter-cancel", tooltip="Take the running operation back, a watched swap too"),
        Binding("tab", "other", "detail", id="drafter-other", show=False, tooltip="To the detail and back"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._items: tuple[Item, ...] = ()
        self._known: dict[str, Mapping[str, Any]] = {}
        self._pulls: tuple[Pull, ...] = ()
        self._seen_running: set[str] = set()
        self._engine_seen = ""
        self._wait: Timer | None = None

    def compose(self) -> ComposeResult:
        """Header, list, why, detail, downloads."""
        yield Header()
        yield Choices(drafter_rows.COLUMNS, empty="asking the agent")
        yield Sentence(id="about")
        yield DrafterDetail()
        yield Sentence(id="watch")
        yield Sentence(id="pulls")
        yield Input(placeholder="only drafters that hold this text", id="filter")
        yield Input(placeholder="org/name or org/name@revision", id="repository")
        yield KeyBar()

    def on_mount(self) -> None:
        """Ask for everything in workers."""
        self.query_one(Choices).focus()
        self._fetch()
        self._ask_pulls()
        self.set_interval(_PULLS_S, self._follow_pulls)

    def show(self, snapshot: Snapshot) -> None:
        """The header lives on; another drafter that runs means other verdicts."""
        self.query_one(Header).show(snapshot)
        self.query_one("#watch", Sentence).say(_watched(snapshot), "accent")
        operation = snapshot.operation
        ended = operation.id if operation is not None and operation.ended_at_s is not None else ""
        running = f"{snapshot.engine.drafter} {snapshot.engine.state} {snapshot.engine.pid} {ended}"
        if self._engine_seen and running != self._engine_seen:
            self._known.clear()
            self._fetch()
        self._engine_seen = running

    def on_resize(self, event: events.Resize) -> None:
        """Other columns fit."""
        self.query_one(DrafterDetail).display = event.size.height >= 16
        self._fill()

    # ----------------------------------------------------------------------------------------- asking

    def _fetch(self) -> None:
        """The list."""

        def work() -> None:
            try:
                found = self.console.agent().drafters()
            except ConsoleError as error:
                self.post_message(Shelved((), error.line))
            else:
                self.post_message(Shelved(found.items, found.note))

        self.run_worker(work, thread=True, group="drafters", exclusive=True, exit_on_error=False)

    def _ask(self, name: str) -> None:
        """One in full."""

        def work() -> None:
            try:
                self.post_message(Judged(name, self.console.agent().check_drafter(name)))
            except ConsoleError as error:
                self.post_message(Judged(name, {}, error.line))

        self.run_worker(work, thread=True, group="drafter", exclusive=True, exit_on_error=False)

    def _ask_pulls(self) -> None:
        def work() -> None:
            try:
                self.post_message(Pulling(self.console.agent().pulls()))
            except ConsoleError:
                self.post_message(Pulling(()))

        self.run_worker(work, thread=True, group="pulls", exclusive=True, exit_on_error=False)

    def _follow_pulls(self) -> None:
        if self.is_current and any(pull.state == "running" for pull in self._pulls):
            self._ask_pulls()

    # --------------------------------------------------------------------------------------- answering

    def on_shelved(self, message: Shelved) -> None:
        """Fill the list."""
        self._items = tuple(message.items)
        if not self._items:
            words = message.note or "no drafter here, and the profile names none: D downloads one"
            self.query_one(Choices).fill([], words)
        self._fill()
        if message.note and self._items:
            self.query_one("#about", Sentence).say(message.note, "warn")

    def _fill(self) -> None:
        listing = self.query_one(Choices)
        width = self.size.width
        listing.columns(drafter_rows.columns(width))
        if self._items:
            listing.fill([drafter_rows.choice(item, width) for item in self._items])
            # As high as it is long: what is left belongs to the detail.
            listing.styles.height = min(len(self._items) + 1, max(5, self.size.height * 2 // 5))

    def on_judged(self, message: Judged) -> None:
        """Show it when the cursor still stands there."""
        if not message.problem:
            self._known[message.name] = message.answer
        if (item := self._current) is not None and item.name == message.name:
            detail = self.query_one(DrafterDetail)
            detail.say(message.problem) if message.problem else detail.tell(message.answer)

    def on_pulling(self, message: Pulling) -> None:
        """Progress, and what a download that has ended means."""
        self._pulls = tuple(message.pulls)
        lines = [drafter_rows.pull_line(pull) for pull in self._pulls[-_SHOWN_PULLS:]]
        roles = {role for _, role in lines}
        role = "bad" if "bad" in roles else "accent" if "accent" in roles else "text"
        self.query_one("#pulls", Sentence).say("\n".join(text for text, _ in lines), role)
        for pull in self._pulls:
            if pull.state == "running":
                self._seen_running.add(pull.id)
            elif pull.id in self._seen_running:
                self._seen_running.discard(pull.id)
                self._fetch()
                if pull.state == "done":
                    self._offer_pin(pull)
        self.refresh_bindings()

    def on_choices_moved(self, message: Choices.Moved) -> None:
        """Say why, and ask for the rest when the cursor rests."""
        del message
        item = self._current
        self.query_one("#about", Sentence).say(*(drafter_rows.about(item) if item is not None else ("",)))
        detail = self.query_one(DrafterDetail)
        if self._wait is not None:
            self._wait.stop()
        if item is None:
            detail.say("")
        elif item.name in self._known:
            detail.tell(self._known[item.name])
        else:
            detail.say("reading")
            self._wait = self.set_timer(_DETAIL_S, lambda name=item.name: self._ask(name))

    @property
    def _current(self) -> Item | None:
        choice = self.query_one(Choices).current
        return next((item for item in self._items if choice is not None and item.name == choice.key), None)

    # -------------------------------------------------------------------------------------------- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stopping a download takes one that runs."""
        if action == "stop_download":
            return self._newest_running is not None and not self.console.read_only
        if action == "download":
            return not self.console.read_only
        return super().check_action(action, parameters)

    def action_swap(self) -> None:
        """Enter outside the list."""
        self.query_one(Choices).action_choose()

    def on_choices_chosen(self, message: Choices.Chosen) -> None:
        """Ask what the swap would do."""
        item = self._current
        if item is not None and item.running:
            self.console.tell(f"{message.choice.key} is the drafter that runs", "warning")
        elif item is not None and not item.verdict:
            self._ask_repository(item.name)
        elif not self.console.can("swap"):
            self.console.tell(self.console.why_not(), "warning")
        else:
            self.console.operations.request("swap", {"drafter": message.choice.key})

    def action_verify(self) -> None:
        """Judge again."""
        self._known.clear()
        self.query_one(DrafterDetail).say("reading")
        self._fetch()

    def action_other(self) -> None:
        """Between list and detail."""
        listing, detail = self.query_one(Choices), self.query_one(DrafterDetail)
        (listing if detail.has_focus or not detail.display else detail).focus()

    def action_cancel(self) -> None:
        """Take the running operation back."""
        self.console.operations.cancel()

    def action_filter(self) -> None:
        """Ask for a text."""
        self._open("#filter")

    def action_download(self) -> None:
        """Ask for a repository; the one under the cursor when it is not here."""
        item = self._current
        self._ask_repository(item.name if item is not None and item.name.count("/") == 1 and not item.path else "")

    def _ask_repository(self, name: str) -> None:
        if name.startswith(("/", "sim/")):
            name = ""
        box = self.query_one("#repository", Input)
        box.value = name
        self._open("#repository")

    def _open(self, which: str) -> None:
        for box in self.query(Input):
            box.display = f"#{box.id}" == which
        self.query_one(which, Input).focus()

    def action_stop_download(self) -> None:
        """Stop the newest that runs."""
        if (pull := self._newest_running) is not None:
            self._order(lambda: self.console.agent().cancel_pull(pull.id))

    @property
    def _newest_running(self) -> Pull | None:
        return next((pull for pull in reversed(self._pulls) if pull.state == "running"), None)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        if event.input.id == "filter":
            self.query_one(Choices).only(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Back to the list; a repository is pulled."""
        repository = event.value.strip()
        if event.input.id == "repository":
            event.input.display = False
            if repository:
                self._order(lambda: self.console.agent().pull(repository))
        self.query_one(Choices).focus()

    def action_back(self) -> None:
        """Escape peels one layer: an open line first, then the screen."""
        opened = [box for box in self.query(Input) if box.display]
        for box in opened:
            box.value = ""
            box.display = False
        if opened:
            self.query_one(Choices).focus()
        else:
            self.dismiss()

    def _order(self, call: Any) -> None:
        """Tell the agent in a thread, then look at the downloads."""

        def work() -> None:
            try:
                call()
                self.post_message(Pulling(self.console.agent().pulls()))
            except ConsoleError as error:
                self.app.call_from_thread(self.console.tell, error.line, "error")

        self.run_worker(work, thread=True, group="order", exit_on_error=False)

    # -------------------------------------------------------------------------------------------- pinning

    def _offer_pin(self, pull: Pull) -> None:
        """Ask whether the profile is to name this revision, when it names the repository."""
        profile = self.console.latest.engine.profile if self.console.latest is not None else ""
        repository = pull.repository.partition("@")[0]
        if not profile or self.console.read_only:
            return
        from console.screens.confirm import ConfirmScreen

        try:
            changes = self.console.shelf.pin(profile, repository, pull.revision, write=False)
        except ConsoleError:
            return  # it does not name it, or cannot be read: nothing to ask
        if not changes:
            return
        preview = Preview(
            "pin",
            f"pin {repository} at {pull.revision[:12]} in profile {profile}",
            changes=tuple(Change(what, before, after) for what, before, after in changes),
        )

        def answered(agreed: bool | None) -> None:
            if agreed:
                self._pin(profile, repository, pull.revision)

        self.console.push_screen(ConfirmScreen(preview), answered)

    def _pin(self, profile: str, repository: str, revision: str) -> None:
        def work() -> None:
            try:
                self.console.shelf.pin(profile, repository, revision, write=True)
                line, how = f"{repository} is pinned to {revision[:12]} in {profile}", "information"
            except ConsoleError as error:
                line, how = error.line, "error"
            self.app.call_from_thread(self.console.tell, line, how)

        self.run_worker(work, thread=True, group="pin", exit_on_error=False)


def _watched(snapshot: Snapshot) -> str:
    """What the running step of a swap says."""
    operation = snapshot.operation
    if operation is None or operation.kind != "swap" or operation.state is not OperationState.RUNNING:
        return ""
    step = next((step for step in operation.steps if step.state is StepState.RUNNING), None)
    if step is None:
        return ""
    back = "; C takes it back" if operation.cancellable else ""
    return f"{step.name}: {step.detail}{back}" if step.detail else ""
