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
_GOALS_FIRST = 7
"""Rows of targets that go before the last GPUs on a small screen: four goals."""
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
    top = min(2, height)
    rest = height - top
    box = height >= BOX_ROWS
    wide = width >= THREE_COLUMNS and now.serving
    wanted = (now.gpus + 1 if now.gpus else 2) + (2 if box else 0)
    gpus = max(min(wanted, rest - _least_below(now, box=box, wide=wide)), min(3, rest))
    places = {"header": Region(0, 0, width, top), "gpus": Region(0, top, width, gpus)}
    area = Region(0, top + gpus, width, rest - gpus)
    if wide:
        return places | _wide(area, now, box=box)
    return places | (_boxed(area, now) if box else _narrow(area, now))


def _least_below(now: Situation, *, box: bool, wide: bool) -> int:
    """Rows that the panels under the GPUs need before the GPUs get more."""
    if wide:
        return 18 if box else now.goals + 5
    targets = _targets_rows(now, box=box)
    return 10 + targets if box else 5 + min(targets, _GOALS_FIRST)


def _targets_rows(now: Situation, *, box: bool) -> int:
    """Rows of the targets panel: verdict, heading and goals in their frame."""
    if not now.serving:
        return 6 if box else 3
    return 9 if box else now.goals + 3


def _wide(area: Region, now: Situation, *, box: bool) -> dict[str, Region]:
    """Cycle, acceptance and targets side by side; events and log under them."""
    x, y, width, rest = area
    lower = max(8, min(rest // 3, 14)) if box else max(1, rest - max(5, now.goals + 4))
    height = max(0, rest - lower)
    right = max(_TARGETS_CELLS, width // 3)
    places = {"targets": Region(x + width - right, y, right, height)}
    places |= _middle(Region(x, y, width - right, height), now)
    return places | _lower(Region(x, y + height, width, rest - height), now, log=True)


def _boxed(area: Region, now: Situation) -> dict[str, Region]:
    """Cycle beside acceptance, targets beside events."""
    x, y, width, rest = area
    lower = max(_targets_rows(now, box=True), rest // 2 if now.serving else rest // 3)
    if width < TWO_COLUMNS:
        targets = min(now.goals + 6, max(0, lower - 3)) if now.serving else 4
        places = _middle(Region(x, y, width, rest - lower), now)
        places["targets"] = Region(x, y + rest - lower, width, targets)
        return places | _lower(Region(x, y + rest - lower + targets, width, lower - targets), now, log=False)
    places = _middle(Region(x, y, width, rest - lower), now)
    left = width * 5 // 8
    places["targets"] = Region(x, y + rest - lower, left, lower)
    return places | _lower(Region(x + left, y + rest - lower, width - left, lower), now, log=False)


def _narrow(area: Region, now: Situation) -> dict[str, Region]:
    """Without boxes: middle, targets and events below each other; spare rows go to the middle first, then to events."""
    x, y, width, rest = area
    targets = max(0, min(_targets_rows(now, box=False), rest - 5))
    middle = max(0, min(9 if now.serving else rest - 1, rest - targets))
    if rest - targets - middle < 1 and middle > 5:
        middle -= 1
    events = rest - targets - middle
    places = _middle(Region(x, y, width, middle), now, gap=1)
    places["targets"] = Region(x, y + middle, width, targets)
    return places | _lower(Region(x, y + middle + targets, width, events), now, log=False)


def _middle(area: Region, now: Situation, gap: int = 0) -> dict[str, Region]:
    if not now.serving:
        return {"launch": area}
    x, y, width, height = area
    half = width // 2
    return {"cycle": Region(x, y, half - gap, height), "acceptance": Region(x + half, y, width - half, height)}


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
