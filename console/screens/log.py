"""The engine's log at full size: follow it, page through it, search, show only lines that hold a text, copy a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input
from textual.worker import Worker, get_current_worker

from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from console.screens.log_view import LogView
from console.screens.logbook import Logbook, LogPage, wanted_lines
from console.screens.sentence import Sentence
from panels.text import name_of

PAGE_LINES = 2000
"""Lines of one request; the agent gives no more."""
TICK_S = 0.5
FAR_BEHIND_BYTES = 512 * 1024
"""Following a log that is further ahead than this jumps to its end: nobody reads 50 000 lines a second."""


class Turned(Message):
    """A page has come.

    ``where`` says what it is for: "tail" (start anew at the end), "next" (follows the last line), "previous" (before the first
    line), "jump" (start anew with a match). ``note`` is for the status line.
    """

    def __init__(self, book: Logbook, where: str, page: LogPage | None, note: str = "") -> None:
        self.book = book
        self.where = where
        self.page = page
        self.note = note
        super().__init__()


class LogScreen(SubScreen):
    """Memory is bounded by :data:`~console.screens.logbook.KEPT_LINES`, work by one request a tick, whatever the file does."""

    HEADING: ClassVar[str] = "Log"
    DEFAULT_CSS = """
    LogScreen Sentence { dock: top; height: 1; padding: 0 1; background: $panel; }
    LogScreen Input { dock: bottom; height: 1; border: none; padding: 0 1; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", id="log-filter", tooltip="Only lines that hold a text; empty: all lines"),
        Binding("f", "follow", "follow", id="log-follow", tooltip="Follow the newest lines, or stay here"),
        Binding("n", "next", "next", id="log-next", tooltip="Next match of the last text, among all lines"),
        Binding(
            "N",
            "previous",
            "previous",
            id="log-previous",
            tooltip="Match before this one; older parts of the file are searched",
        ),
        Binding(
            "m", "all", "all/matches", id="log-all", tooltip="All lines with the matches marked, or the matches only"
        ),
        Binding(
            "y", "copy", "copy line", id="log-copy", tooltip="Copy the line under the cursor to the clipboard (OSC 52)"
        ),
        Binding("home,g", "first", "first", id="log-first", show=False, tooltip="Beginning of the file"),
        Binding("end,G", "last", "last", id="log-last", show=False, tooltip="End of the file"),
    ]

    def __init__(self, *, ask: bool = False) -> None:
        super().__init__()
        self._ask = ask
        self._book = Logbook()
        self._text = ""
        """The last text asked for; the book's needle while only matches are shown."""
        self._note = ""
        self._shown: list[str] = []
        self._worker: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        """Status, lines, the box for a text, keys."""
        yield Sentence("reading the log", id="status")
        yield LogView()
        yield Input(placeholder="only lines that hold this text; enter: look, esc: all lines")
        yield KeyBar()

    @property
    def view(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def on_mount(self) -> None:
        """Begin at the end of the file."""
        self.view.focus()
        self.set_interval(TICK_S, self._tick)
        self._tick()
        if self._ask:
            self.action_filter()

    def show(self, snapshot: Snapshot) -> None:
        """The log has a rhythm of its own."""

    # ------------------------------------------------------------------------------------------------ fetching

    def _busy(self) -> bool:
        return self._worker is not None and not self._worker.is_finished

    def _fetch(self, work: Callable[[], None]) -> None:
        self._worker = self.run_worker(work, thread=True, exit_on_error=False, group="log")

    def _page(self, before: int | None = None, after: int | None = None) -> LogPage:
        """In a thread: one page."""
        return LogPage.of(self.console.agent().log(before, after, PAGE_LINES))

    def _tick(self) -> None:
        """While following: what has been written since. Otherwise nothing is fetched, so nothing moves."""
        if self.view.following and not self._busy():
            self._fetch(self._newer)

    def _newer(self) -> None:
        """In a thread: the lines behind the last one, or the end of the file when it is far ahead."""
        book = self._book
        try:
            if not book.empty:
                page = self._page(after=book.end)
                near = page.size - page.end <= FAR_BEHIND_BYTES
                if page.path == book.path and page.size >= book.end and near:
                    self.post_message(Turned(book, "next", page))
                    return
            self._fill_from_end(book)
        except ConsoleError as error:
            self.post_message(Turned(book, "next", None, error.line))

    def _fill_from_end(self, book: Logbook) -> None:
        """In a thread: the newest lines, and older ones until there is a screenful of matches."""
        page = self._page()
        self.post_message(Turned(book, "next", page))
        if book.needle:
            self._older_matches(book, page, self.size.height - len(wanted_lines(page.lines, book.needle)))

    def _older(self) -> None:
        """In a thread: the lines before the first one."""
        book = self._book
        try:
            if book.needle:
                self._older_matches(book, None, self.size.height)
            elif book.start > 0:
                self.post_message(Turned(book, "previous", self._page(before=book.start)))
        except ConsoleError as error:
            self.post_message(Turned(book, "previous", None, error.line))

    def _older_matches(self, book: Logbook, page: LogPage | None, missing: int) -> None:
        """In a thread: page backwards until enough lines match, the file begins, or the operator goes on."""
        worker = get_current_worker()
        at = page.start if page is not None else book.start
        while missing > 0 and at > 0 and not worker.is_cancelled and book is self._book:
            older = self._page(before=at)
            if older.start >= at:
                return
            missing -= len(wanted_lines(older.lines, book.needle))
            at = older.start
            self.post_message(
                Turned(book, "previous", older, f"searching, {_size(at)} to go" if at and missing > 0 else "")
            )

    def _jump_back(self) -> None:
        """In a thread: the nearest older page with a match."""
        worker, book, text = get_current_worker(), self._book, self._text
        at = book.start
        try:
            while at > 0 and not worker.is_cancelled and book is self._book:
                page = self._page(before=at)
                if page.start >= at:
                    break
                if wanted_lines(page.lines, text):
                    self.post_message(Turned(book, "jump", page))
                    return
                at = page.start
                self.post_message(Turned(book, "previous", None, f"searching, {_size(at)} to go"))
            self.post_message(Turned(book, "previous", None, f"no older line holds {text!r}"))
        except ConsoleError as error:
            self.post_message(Turned(book, "previous", None, error.line))

    # ----------------------------------------------------------------------------------------------- arriving

    def on_turned(self, message: Turned) -> None:
        """Put a page into the book; pages for a book that was closed are dropped."""
        book, page = message.book, message.page
        if book is not self._book:
            return
        self._note = message.note
        moved = 0
        if page is not None:
            if message.where == "next":
                moved = -book.append(page)
            elif message.where == "previous":
                moved = book.prepend(page)
            else:
                book.begin(page)
        self._put(moved)
        if message.where == "jump" and page is not None:
            self.view.to(len(self._shown))
            self.view.find(self._text, -1)

    def _put(self, moved: int = 0) -> None:
        self._shown = self._book.lines()
        why = self._note or (f"no line holds {self._book.needle!r}" if self._book.needle else "the log is empty")
        self.view.put(self._shown, needle=self._text, moved=moved, why=why)
        self._say()

    def _say(self) -> None:
        book = self._book
        parts = ["FOLLOWING" if self.view.following else "HELD"]
        if book.path:
            parts.append(f"{_size(book.end)} of {_size(book.size_bytes)}")
        if book.needle:
            parts.append(f"only lines with {book.needle!r}: {book.count}")
        elif self._text:
            parts.append(f"matches of {self._text!r} are marked *")
        if book.skipped_bytes and self.view.following:
            parts.append(f"written too fast to follow, {_size(book.skipped_bytes)} passed over")
        if self._note:
            parts.append(self._note)
        parts.append(name_of(book.path) if book.path else "no log yet")
        self.query_one("#status", Sentence).say("  ".join(parts), "warn" if self._note else "label")

    # ---------------------------------------------------------------------------------------------------- keys

    def on_log_view_moved(self) -> None:
        """Say that nothing is followed."""
        self._say()

    def on_log_view_wanted(self, message: LogView.Wanted) -> None:
        """The cursor is near an end."""
        if self._busy():
            return
        if message.direction < 0 and self._book.start > 0:
            self._fetch(self._older)
        elif message.direction > 0:
            self._fetch(self._newer)

    def action_follow(self) -> None:
        """Follow, or stay."""
        self.view.following = not self.view.following
        if self.view.following:
            self._put()
            self._tick()
        else:
            self.view.to(self.view.cursor)
            self._say()

    def action_last(self) -> None:
        """The end of the file, and follow."""
        self._open(self._book.needle)

    def action_first(self) -> None:
        """The beginning of the file."""
        book = self._book = Logbook(self._book.needle)
        self.view.following = False

        def fetch() -> None:
            try:
                self.post_message(Turned(book, "tail", self._page(after=0)))
            except ConsoleError as error:
                self.post_message(Turned(book, "tail", None, error.line))

        self._fetch(fetch)
        self.view.cursor = 0

    def _open(self, needle: str) -> None:
        """A new book at the end of the file."""
        if self._worker is not None:
            self._worker.cancel()
        self._book = Logbook(needle)
        self.view.following = True
        self._note = "reading"
        self._put()
        self._fetch(self._newer)

    def action_filter(self) -> None:
        """Ask for a text."""
        box = self.query_one(Input)
        box.display = True
        box.value = self._text
        box.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Only lines with this text."""
        self.query_one(Input).display = False
        self.view.focus()
        self._text = event.value
        self._open(event.value)
        self.refresh_bindings()

    def action_all(self) -> None:
        """All lines with marks, or only those with matches."""
        self._open("" if self._book.needle else self._text)

    def action_next(self) -> None:
        """The next match."""
        if not self.view.find(self._text, +1):
            self._note = f"no newer line in sight holds {self._text!r}"
        self._say()
        self._note = ""

    def action_previous(self) -> None:
        """The match before, wherever it is in the file."""
        if self.view.find(self._text, -1):
            self._say()
        elif self._book.start > 0 and not self._book.needle and not self._busy():
            self._fetch(self._jump_back)

    def action_copy(self) -> None:
        """Copy the line under the cursor."""
        line = self.view.current
        if line is not None:
            self.console.copy_to_clipboard(line)
            self.console.tell("copied")

    def action_back(self) -> None:
        """Escape peels: the box, the text, the screen."""
        box = self.query_one(Input)
        if box.display:
            box.display = False
            self.view.focus()
        elif self._text:
            self._text = ""
            self._open("")
            self.refresh_bindings()
        else:
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys for matches are there while there is a text."""
        if action in ("next", "previous", "all"):
            return bool(self._text)
        return super().check_action(action, parameters)


def _size(size_bytes: int) -> str:
    """Bytes in decimal units, as files are listed."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
