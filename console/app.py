"""The console: a Textual app that shows what the agent says and asks it for changes.

The first frame is painted before anything is connected or imported that the frame does not need.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from console import themes
from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.ageing import aged
from console.screens.agent import Agent, CannotBeginError, Connect
from console.screens.base import ConsoleScreen, Dialog
from console.screens.bell import Bell
from console.screens.deck import DeckScreen
from console.screens.feed import Feed, Fresh, Lost
from console.screens.operator import Accepted, Operator, Previewed, Refused
from console.screens.plain import AsciiOnly
from console.screens.possible import CHECKED, Now, possible
from console.screens.shelf import Shelf
from panels import glyphs

if TYPE_CHECKING:
    from textual.command import Provider

_SILENT_S = 3.0
"""Without a snapshot for this long the figures are old: six are missing."""
_GIVEN_UP_S = 10.0
"""Without a snapshot for this long the connection is given up and made anew."""


def _launches() -> type[Provider]:
    """The palette's launches, imported when it opens."""
    from console.screens.palette import Launches

    return Launches


class ConsoleApp(App[None]):
    """Screens, keys and the way of a snapshot to them.

    Args:
        connect: connects to the agent, starting it when none runs; called in a thread, again after each loss.
        rig: the rig's name; ``None``: not known before the agent answers.
        read_only: show everything, change nothing.
        ascii_only: draw with ASCII characters only.
        bell: ring the terminal's bell for a new error alarm.
        shelf: where profiles come from; default: the operator's own and the built-in ones.
    """

    TITLE = "console"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = App.COMMANDS | {_launches}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", id="help", tooltip="All keys of this screen"),
        Binding(
            "q", "leave", "leave (engine stays up)", id="leave", tooltip="Leave the console; agent and engine live on"
        ),
    ]

    def __init__(
        self,
        connect: Connect,
        *,
        rig: str | None,
        read_only: bool = False,
        ascii_only: bool = False,
        bell: bool = True,
        shelf: Shelf | None = None,
    ) -> None:
        colourless = "NO_COLOR" in os.environ
        super().__init__(ansi_color=True if colourless else None)
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = themes.PLAIN if colourless else themes.DEFAULT
        self.animation_level = "none"
        self.rig = rig
        self.read_only = read_only
        self.latest: Snapshot | None = None
        """The newest snapshot, whether or not it is on screen."""
        self.failure: ConsoleError | None = None
        """Why the app ended by itself."""
        self.operations = Operator(self)
        self._feed = Feed(connect, self.post_message)
        self._deck = DeckScreen()
        self._ascii = AsciiOnly(enabled=ascii_only)
        self._connected = False
        self._lost_why = ""
        self._frozen: Snapshot | None = None
        self._possible: dict[str, bool] = {}
        self._shelf = shelf
        self._bell = Bell(enabled=bell)
        glyphs.use(ascii=ascii_only)

    # ---------------------------------------------------------------------------------------- start and end

    def get_default_screen(self) -> Screen[None]:
        """The deck."""
        return self._deck

    def begin(self) -> None:
        """The deck is there: connect when the first frame is on the terminal."""
        self._announce()
        self.set_interval(1.0, self._watch)
        self.screen.call_after_refresh(self._feed.start)

    def on_unmount(self) -> None:
        """Let the agent go."""
        self._feed.stop()

    def action_leave(self) -> None:
        """Leave; agent and engine live on."""
        self.exit()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, and ASCII as the last."""
        filters = super().get_line_filters()
        return [*filters, self._ascii] if self._ascii.enabled else filters

    @property
    def shelf(self) -> Shelf:
        """The profiles; their store is imported when a screen asks for it."""
        if self._shelf is None:
            from console.screens.shelf import StoreShelf

            self._shelf = StoreShelf()
        return self._shelf

    # ------------------------------------------------------------------------------------------ the feed

    def on_fresh(self, message: Fresh) -> None:
        """Show a snapshot where it can be seen."""
        self.latest = message.snapshot
        self._connected, self._lost_why = True, ""
        self.operations.follow(message.snapshot)
        if self._bell.rings(message.snapshot):
            self.bell()
        self._announce()
        if self._frozen is None:
            self._draw(message.snapshot)
        self._refresh_keys()

    def on_lost(self, message: Lost) -> None:
        """Figures that are on screen grow old from now on."""
        self._connected, self._lost_why = False, message.why
        if isinstance(message.error, CannotBeginError):
            self.failure = message.error
            self.exit(return_code=message.error.code)
            return
        self._watch()
        self._refresh_keys()

    def _watch(self) -> None:
        """Once a second: let old figures look their age."""
        silent_s = time.monotonic() - self._feed.received_s
        if self._connected and silent_s < _SILENT_S:
            return
        if self._connected and silent_s > _GIVEN_UP_S:
            self._feed.interrupt()
        self._announce()
        if self.latest is not None and self._frozen is None:
            self._draw(aged(self.latest, silent_s, "the agent is silent"))

    def _draw(self, snapshot: Snapshot) -> None:
        """Draw on the screen on top, and on those that can be seen behind dialogs."""
        with self.batch_update():
            for screen in reversed(self.screen_stack):
                if isinstance(screen, ConsoleScreen | Dialog) and screen.is_mounted:
                    screen.show(snapshot)
                if not screen.is_modal:
                    break

    def redraw(self) -> None:
        """Draw what is to be on screen now once more."""
        if self.shown is not None:
            self._draw(self.shown)

    @property
    def on_deck(self) -> bool:
        """The deck is in front."""
        return self.screen is self._deck

    @property
    def shown(self) -> Snapshot | None:
        """What is to be on screen: the frozen snapshot or the newest."""
        return self._frozen or self.latest

    def agent(self) -> Agent:
        """The connection.

        Raises:
            ConsoleError: there is none.
        """
        if self._feed.agent is None:
            raise ConsoleError("no agent yet", why=self._lost_why or "still connecting", todo="try again in a moment")
        return self._feed.agent

    # ------------------------------------------------------------------------------------ what is possible

    @property
    def now(self) -> Now:
        """What decides which keys do something."""
        return Now(self.latest, self._connected, self.read_only)

    def can(self, action: str) -> bool:
        """Whether an action can be done now."""
        return possible(action, self.now)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """The app's own actions always can."""
        return self.can(action)

    def why_not(self) -> str:
        """Why nothing can be changed now."""
        now = self.now
        if not now.connected or now.snapshot is None:
            return f"no agent: {self._lost_why or 'still connecting'}"
        if not now.may_write:
            return "this console is read only"
        if now.running and now.snapshot.operation is not None:
            return f"{now.snapshot.operation.title or now.snapshot.operation.kind} is running; one at a time"
        if not now.ours:
            return "the engine was started elsewhere; it is only watched from here"
        return f"not while the engine is {now.engine.state.value}"

    def _refresh_keys(self) -> None:
        """Tell the footer when something has become possible or impossible."""
        now = self.now
        found = {action: possible(action, now) for action in CHECKED}
        if found != self._possible:
            self._possible = found
            self.screen.refresh_bindings()

    # ---------------------------------------------------------------------------------------------- words

    def tell(self, text: str, severity: SeverityLevel = "information") -> None:
        """One line to the operator; foreign text in it is shown as it is."""
        from panels.text import clean

        self.notify(clean(text), severity=severity, markup=False, timeout=8 if severity == "error" else 4)

    def freeze(self) -> None:
        """Hold the figures still, or let them go on."""
        self._frozen = None if self._frozen is not None else self.latest
        self._announce()
        self.redraw()

    def _announce(self) -> None:
        """The row above the deck."""
        from panels.text import age, clock

        notice = self._deck.notice
        silent_s = time.monotonic() - self._feed.received_s
        if self.latest is None:
            if self._lost_why:
                notice.say("NO AGENT", f"{self._lost_why}; trying again")
            else:
                notice.say("CONNECTING", f"to the agent of rig {self.rig}" if self.rig else "to the agent", "accent")
        elif not self._connected:
            old = f"figures are {age(silent_s)} old"
            notice.say("AGENT LOST", f"{old}: {self._lost_why}; connecting again, the engine lives on")
        elif silent_s >= _SILENT_S:
            notice.say(
                "AGENT SILENT", f"figures are {age(silent_s)} old: the agent does not answer; the engine lives on"
            )
        elif self._frozen is not None:
            notice.say("FROZEN", f"at {clock(self._frozen.at_s)}; measuring goes on, space shows it again")
        else:
            notice.say()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A worker that fails says so; the app goes on."""
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            error = event.worker.error
            self.tell(error.line if isinstance(error, ConsoleError) else f"{type(error).__name__}: {error}", "error")

    # ------------------------------------------------------------------------------------ keys of the app

    def action_help(self) -> None:
        """All keys."""
        from console.screens.help import HelpScreen, groups

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(groups(self, self.screen)))

    def action_toggle_ascii(self) -> None:
        """ASCII only, or all characters."""
        self._ascii.enabled = not self._ascii.enabled
        glyphs.use(ascii=self._ascii.enabled)
        self.redraw()
        self.refresh_css(animate=False)

    def action_toggle_bell(self) -> None:
        """Ring for new error alarms, or do not."""
        self._bell.enabled = not self._bell.enabled
        self.tell(f"the bell is {'on' if self._bell.enabled else 'off'}")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action that is possible now, then those of Textual's that say something new."""
        from console.screens.palette import commands

        yield from commands(self)
        for command in super().get_system_commands(screen):
            if command.title not in ("Quit", "Keys"):
                yield command

    def on_resize(self, event: events.Resize) -> None:
        """Cover a terminal that is too small, and uncover it when it has grown."""
        from console.screens.small import SmallScreen, too_small

        small = too_small(*event.size)
        covered = isinstance(self.screen, SmallScreen)
        if small and not covered:
            self.push_screen(SmallScreen())
        elif covered and not small:
            self.pop_screen()

    # ----------------------------------------------------------------------------------------- operations

    def on_previewed(self, message: Previewed) -> None:
        """Ask, or do."""
        self.operations.previewed(message.preview, message.args)

    def on_accepted(self, message: Accepted) -> None:
        """Follow it; a launch has a screen of its own."""
        self.operations.watch(message.operation)
        if message.operation.kind == "launch":
            from console.screens.launch import LaunchScreen

            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.push_screen(LaunchScreen())

    def on_refused(self, message: Refused) -> None:
        """Say why."""
        self.tell(message.line, "error")
