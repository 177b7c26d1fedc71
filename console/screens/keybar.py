"""The last line of every screen: the keys that do something now."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.screen import Screen

from console.rig import Snapshot
from panels.base import Frame, Panel
from panels.rows import Row, Span, width

_KEPT = ("help", "leave", "back", "yes", "no")
"""Binding ids that are never left out for lack of room: the way to the rest, and the way out."""
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Key:
    """One entry: the keys, what they do, and where they stand in the line."""

    keys: tuple[str, ...]
    shown: str
    label: str
    kept: bool = False

    @property
    def cells(self) -> int:
        """Width of the entry."""
        return width(((self.shown, ""), (f" {self.label}", "")))


def keys_of(screen: Screen[object]) -> list[Key]:
    """The keys of a screen that are shown and possible now; neighbours that do the same thing in two directions become one."""
    found: list[Key] = []
    for key, active in screen.active_bindings.items():
        binding = active.binding
        if not binding.show or not active.enabled or not binding.description:
            continue
        shown = screen.app.get_key_display(binding)
        entry = Key((key,), shown, binding.description, binding.id in _KEPT)
        if any(entry.shown == other.shown and entry.label == other.label for other in found):
            continue
        if found and found[-1].label == entry.label:
            last = found.pop()
            entry = Key((*last.keys, key), f"{last.shown} {shown}", entry.label, last.kept or entry.kept)
        found.append(entry)
    return found


def fitting(keys: list[Key], cells: int) -> list[Key]:
    """As many as fit, in their order; those marked as kept come first when there is too little room."""
    chosen: set[int] = set()
    used = 0
    for index in sorted(range(len(keys)), key=lambda i: (not keys[i].kept, i)):
        need = keys[index].cells + (len(_GAP) if chosen else 0)
        if used + need <= cells:
            used += need
            chosen.add(index)
    return [key for index, key in enumerate(keys) if index in chosen]


class KeyBar(Panel):
    """The footer. A click on an entry is a press of its first key."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._keys: list[Key] = []

    def on_mount(self) -> None:
        """Follow the bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)
        self._follow(self.screen)

    def _follow(self, screen: Screen[object]) -> None:
        if screen is self.screen and self.is_attached:
            keys = keys_of(screen)
            if keys != self._keys or not self._rows:
                self._keys = keys
                self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - keys, not figures
        """One row."""
        spans: list[Span] = [(" ", "text")]
        for index, key in enumerate(fitting(self._keys, cells - 2)):
            if index:
                spans.append((_GAP, "text"))
            spans += [(key.shown, "accent"), (f" {key.label}", "label")]
        return [tuple(spans)]

    def on_click(self, event: events.Click) -> None:
        """Press the key under the mouse."""
        x = 1
        for key in fitting(self._keys, self.size.width - 2):
            if x <= event.x < x + key.cells:
                second = len(key.keys) > 1 and event.x - x > len(key.shown) // 2
                self.app.simulate_key(key.keys[1 if second else 0])
                return
            x += key.cells + len(_GAP)
