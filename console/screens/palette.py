"""What the command palette offers: every key of the deck by name, every profile, ASCII."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.app import SystemCommand
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from console.errors import ConsoleError
from console.screens.deck import DeckScreen
from console.screens.possible import possible
from console.screens.shelf import Entry
from panels.text import clean

if TYPE_CHECKING:
    from console.app import ConsoleApp

TITLES = {
    "profiles": "Profiles",
    "cancel": "Cancel the running operation",
    "depth_down": "Depth down",
    "depth_up": "Depth up",
    "drafters": "Drafters",
    "targets": "Targets",
    "baseline": "Measure the baseline",
    "calibrate": "Calibrate",
    "environment": "Environment",
    "log": "Log",
    "history": "History",
    "acknowledge": "Alarm seen",
    "stop": "Stop the engine",
    "restart": "Restart the engine",
    "launch_view": "Start-up at full size",
    "save": "Save what runs now as a profile",
    "freeze": "Freeze the figures, or let them go on",
    "filter_log": "Filter the log",
}
"""The deck's actions in words; a test holds it to the bindings."""


def commands(app: ConsoleApp) -> Iterable[SystemCommand]:
    """The commands that are possible now."""
    deck = app.screen_stack[0]
    if isinstance(deck, DeckScreen):
        for binding in DeckScreen.BINDINGS:
            if isinstance(binding, Binding) and binding.action in TITLES and possible(binding.action, app.now):
                run = partial(app.run_action, binding.action, deck)
                yield SystemCommand(TITLES[binding.action], binding.tooltip, run)
        if possible("detach", app.now):
            yield SystemCommand("Detach", "Stop watching this server", partial(app.run_action, "detach", deck))
    yield SystemCommand("ASCII only", "Draw with ASCII characters only, or with all", app.action_toggle_ascii)
    yield SystemCommand("Bell", "Ring for new error alarms, or do not", app.action_toggle_bell)
    yield SystemCommand("Help", "All keys of this screen", app.action_help)
    yield SystemCommand("Leave", "Leave the console; agent and engine live on", app.action_leave)


class Launches(Provider):
    """A command for each profile that can be launched."""

    _entries: Sequence[Entry] = ()

    async def startup(self) -> None:
        """Read the profiles in a thread."""
        with contextlib.suppress(ConsoleError):
            self._entries = await asyncio.to_thread(self._console.shelf.entries)

    @property
    def _console(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def _offers(self) -> Iterable[tuple[str, str, Callable[[], None]]]:
        if possible("launch", self._console.now):
            for entry in self._entries:
                if not entry.problem:
                    request = partial(self._console.operations.request, "launch", {"profile": entry.name})
                    yield f"Launch {entry.name}", escape(clean(entry.description)), request

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for name, about, request in self._offers():
            yield DiscoveryHit(name, request, help=about)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, about, request in self._offers():
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), request, help=about)
