"""All keys of the screen it was called from, made from the bindings themselves, so that it cannot be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from panels import glyphs
from panels.base import Frame
from panels.rows import Row, wrap
from panels.scroll import ScrollingPanel
from panels.text import clean

NAMES = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "slash": "/",
    "question_mark": "?",
    "comma": ",",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One key in the help."""

    keys: str
    text: str
    now: bool = True


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that belong together."""

    heading: str
    lines: tuple[Line, ...]


def key_name(keys: str) -> str:
    """A binding's keys as they stand on the keyboard."""
    return ", ".join(NAMES.get(key, key) for key in keys.split(","))


def groups(app: App[None], screen: Screen[object]) -> list[Group]:
    """The keys of a screen, of the lists on it, and of the app; ``now`` says whether they do something at this moment."""

    def works(binding: Binding, node: object) -> bool:
        check = getattr(node, "check_action", None)
        return check is None or check(binding.action.rpartition(".")[2], ()) is not False

    def lines(bindings: list[BindingType], node: object) -> tuple[Line, ...]:
        return tuple(
            Line(key_name(binding.key), binding.tooltip or binding.description, works(binding, node))
            for binding in bindings
            if isinstance(binding, Binding) and (binding.tooltip or binding.description)
        )

    found = []
    own = _own(type(screen))
    taken = {
        key
        for binding in own
        if isinstance(binding, Binding) and works(binding, screen)
        for key in binding.key.split(",")
    }
    found.append(Group(getattr(screen, "HEADING", "") or "This screen", lines(own, screen)))
    listing = next((w for w in screen.walk_children(Widget) if w.can_focus and _own(type(w))), None)
    if listing is not None:
        found.append(Group("In a list", lines(_own(type(listing)), listing)))
    everywhere = [
        *(binding for binding in _own(type(app)) if not (isinstance(binding, Binding) and binding.key in taken)),
        Binding("tab", "focus_next", "", tooltip="Next panel; shift+tab: the one before"),
        Binding("ctrl+p", "command_palette", "", tooltip="Palette: every action by name, profiles, themes, ASCII"),
        Binding("ctrl+c", "copy_text", "", tooltip="Copy what the mouse has selected; it never ends anything"),
        Binding("ctrl+q", "quit", "", tooltip="Leave from any screen"),
    ]
    found.append(Group("Everywhere", lines(everywhere, app)))
    return found


def _own(kind: type) -> list[BindingType]:
    """Bindings of a class and of its bases in this project, each action once."""
    out: list[BindingType] = []
    for base in kind.__mro__:
        if base.__module__.startswith(("console.", "panels.")):
            out += [b for b in base.__dict__.get("BINDINGS", ()) if b not in out]
    return out


class _Text(ScrollingPanel):
    """The help's rows."""

    def __init__(self, parts: list[Group]) -> None:
        super().__init__()
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._parts = parts

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - keys, not figures
        """Headings and keys."""
        out: list[Row] = []
        for part in self._parts:
            out += [((f" {part.heading}", "title"),)]
            for line in part.lines:
                role = "text" if line.now else "dim"
                words = line.text if line.now else f"{line.text} {glyphs.active().separator} not now"
                folded = wrap(clean(words), max(10, cells - 20), role, 3)
                for index, row in enumerate(folded):
                    name = f"   {line.keys:<14} " if index == 0 else " " * 18
                    out.append(((name, "accent" if line.now else "dim"), *row))
            out.append(())
        words = "Figures have a source and an age; a dash has its reason beside it. Leaving never stops the engine."
        out += [((" ", "text"), *row) for row in wrap(words, max(10, cells - 2), "dim", 3)]
        return self.window(out, rows)


class HelpScreen(SubScreen):
    """What each key does, and whether it does it now."""

    HEADING: ClassVar[str] = "Help"

    def __init__(self, parts: list[Group]) -> None:
        super().__init__()
        self._parts = parts

    def compose(self) -> ComposeResult:
        """The keys."""
        yield _Text(self._parts)
        yield KeyBar()

    def on_mount(self) -> None:
        """Arrows scroll."""
        self.query_one(_Text).focus()
