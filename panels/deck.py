"""The deck: all live panels on one screen, arranged for the size of the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Region, Size
from textual.layout import Layout, WidgetPlacement
from textual.widget import Widget

from console.rig import EngineState, OperationState, Snapshot, age_s
from panels.acceptance import AcceptancePanel
from panels.base import Frame, Panel
from panels.cycle import CyclePanel
from panels.events import EventsPanel
from panels.gpus import Gpus
from panels.header import Header
from panels.launch import LaunchPanel
from panels.logtail import LogTail
from panels.operation import OperationPanel
from panels.targets import TargetsPanel

BOX_ROWS = 33
"""From this height on panels have boxes around them."""
TWO_COLUMNS = 100
THREE_COLUMNS = 160
_SERVING = (EngineState.READY, EngineState.PAUSED, EngineState.BUSY)
_TARGETS_CELLS = 76
"""Width at which the table of goals has all its columns."""
_OUTCOME_S = 30.0
"""How long the outcome of an operation keeps its panel on the deck."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides the arrangement, besides the size."""

    gpus: int = 0
    serving: bool = True
    operation: bool = False
    goals: int = 3

    @classmethod
    def of(cls, snapshot: Snapshot) -> Situation:
        """The situation a snapshot is in."""
        operation = snapshot.operation
        shown = False
        if operation is not None:
            ended = age_s(operation.ended_at_s, snapshot)
            shown = operation.state is OperationState.RUNNING or (ended is not None and ended < _OUTCOME_S)
        serving = snapshot.engine.state in _SERVING
        return cls(
            gpus=len(snapshot.gpus),
            serving=serving,
            operation=shown and (serving or snapshot.engine.state is EngineState.STOPPING),
            goals=max(1, len(snapshot.targets.goals)),
        )


def arrange(width: int, height: int, now: Situation) -> dict[str, Region]:
    """Where each panel stands. Panels that are not named are not shown.

    The middle row holds cycle and acceptance while the engine serves, else the launch panel. Below :data:`BOX_ROWS` rows there
    are no boxes, and everything essential is in sight at 80x24.
    """
    box = height >= BOX_ROWS
    edge = 2 if box else 0
    top = min(2, height)
    places = {"header": Region(0, 0, width, top)}
    rest = height - top
    wide = width >= THREE_COLUMNS
    middle_least, targets_rows = (10, 9) if box else (5, now.goals + 3)
    if not now.serving:
        targets_rows = 6 if box else 3
    below = targets_rows if box or not wide else 0
    events_least = 0 if box and not wide else 1 if not box else 8
    gpu_rows = (now.gpus + 1 if now.gpus else 2) + edge
    if wide and box:
        below = 0
    gpu_rows = max(min(gpu_rows, rest - middle_least - below - events_least), min(3, rest))
    places["gpus"] = Region(0, top, width, gpu_rows)
    y, rest = top + gpu_rows, rest - gpu_rows
    if wide:
        lower = max(events_least, min(rest // 3, 14) if box else rest - max(middle_least, now.goals + 4))
        places |= _three(Region(0, y, width, rest - lower), now)
        places |= _lower(Region(0, y + rest - lower, width, lower), now, log=True)
        return places
    if box:
        lower = max(targets_rows, rest // 2 if now.serving else rest // 3)
        places |= _middle(Region(0, y, width, rest - lower), now)
        left = width * 5 // 8
        places["targets"] = Region(0, y + rest - lower, left, lower)
        places |= _lower(Region(left, y + rest - lower, width - left, lower), now, log=False)
        return places
    return places | _narrow(Region(0, y, width, rest), now, targets_rows)


def _narrow(area: Region, now: Situation, targets_rows: int) -> dict[str, Region]:
    """Without boxes: middle, targets and events below each other; spare rows go to the middle first, then to events."""
    x, y, width, rest = area
    events = 1
    targets = max(0, min(targets_rows, rest - 5 - events))
    middle = max(0, min(9 if now.serving else rest, rest - targets - events))
    events = max(0, rest - targets - middle)
    places = _middle(Region(x, y, width, middle), now, gap=1)
    places["targets"] = Region(x, y + middle, width, targets)
    return places | _lower(Region(x, y + middle + targets, width, events), now, log=False)


def _middle(area: Region, now: Situation, gap: int = 0) -> dict[str, Region]:
    if not now.serving:
        return {"launch": area}
    x, y, width, height = area
    half = width // 2
    return {"cycle": Region(x, y, half - gap, height), "acceptance": Region(x + half, y, width - half, height)}


def _three(area: Region, now: Situation) -> dict[str, Region]:
    x, y, width, height = area
    right = max(_TARGETS_CELLS, width // 3)
    targets = Region(x + width - right, y, right, height)
    return {"targets": targets} | _middle(Region(x, y, width - right, height), now)


def _lower(area: Region, now: Situation, *, log: bool) -> dict[str, Region]:
    """Events, beside them the running operation, or the log where there is room for it."""
    x, y, width, height = area
    if now.operation and height >= 5:
        if width >= TWO_COLUMNS:
            half = width // 2
            return {"operation": Region(x, y, half, height), "events": Region(x + half, y, width - half, height)}
        return {"operation": area}
    if log and height >= 4:
        half = width // 2
        return {"events": Region(x, y, half, height), "log": Region(x + half, y, width - half, height)}
    return {"events": area}


class _DeckLayout(Layout):
    """Puts the deck's panels where :func:`arrange` says."""

    name = "deck"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:  # noqa: ARG002 - Textual's signature
        """Place the panels that have a place."""
        if not isinstance(parent, Deck):
            return []
        places = parent.places(size)
        return [
            WidgetPlacement(places[child.id], (0, 0), (0, 0, 0, 0), child)  # type: ignore[arg-type]
            for child in children
            if child.id in places
        ]


class Deck(Container):
    """All live panels. One call to :meth:`show` draws a snapshot on those in sight, in one paint."""

    TITLE: ClassVar[str] = "Deck"
    DEFAULT_CSS = """
    Deck { width: 1fr; height: 1fr; overflow: hidden; background: $background; }
    """

    def __init__(self, *, id: str | None = "deck") -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._situation = Situation()
        self._arrangement = _DeckLayout()
        self._panels: dict[str, Panel] = {
            "header": Header(id="header"),
            "gpus": Gpus(id="gpus"),
            "cycle": CyclePanel(id="cycle"),
            "acceptance": AcceptancePanel(id="acceptance"),
            "launch": LaunchPanel(id="launch"),
            "targets": TargetsPanel(id="targets"),
            "operation": OperationPanel(id="operation"),
            "events": EventsPanel(id="events"),
            "log": LogTail(id="log"),
        }
        self._snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        """The panels, in the order the focus goes through them."""
        yield from self._panels.values()

    @property
    def layout(self) -> Layout:
        """The deck's own layout: styles know only those that Textual registers by name."""
        return self._arrangement

    def on_resize(self) -> None:
        """Frames and panels in sight depend on the size."""
        self._settle()

    def places(self, size: Size) -> dict[str, Region]:
        """Where each panel stands at this size, in the present situation."""
        return arrange(size.width, size.height, self._situation)

    def show(self, snapshot: Snapshot) -> None:
        """Draw this snapshot on the panels in sight."""
        self._snapshot = snapshot
        situation = Situation.of(snapshot)
        with self.app.batch_update():
            if situation != self._situation:
                self._situation = situation
                self._settle()
                self.refresh(layout=True)
            for panel in self._panels.values():
                if panel.display:
                    panel.show(snapshot)

    def _settle(self) -> None:
        """Show the panels that have a place, with the frames this size allows."""
        size = self.size
        if not size:
            return
        places = self.places(size)
        box = Frame.BOX if size.height >= BOX_ROWS else Frame.RULE
        for name, panel in self._panels.items():
            place = places.get(name)
            seen = place is not None and place.area > 0
            if panel.display != seen:
                panel.display = seen
                if seen and self._snapshot is not None:
                    panel.show(self._snapshot)
            if name != "header" and place is not None:
                bare = box is Frame.RULE and (name == "gpus" or place.height < 3)
                panel.frame = Frame.NONE if bare else box
