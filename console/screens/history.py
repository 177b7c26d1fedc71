"""The history over hours and days: charts from the journal with operations and faults marked, and their list."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from console.errors import ConsoleError
from console.rig import Event, Operation, Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from panels.header import Header
from panels.past import PastPanel
from panels.timeline import Mark, Timeline, TimelinePanel, Track

_Record = TypeVar("_Record", bound=msgspec.Struct)

RANGES_S = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86400.0, "7d": 7 * 86400.0}
REFRESH_S = 5.0
_LEAST_POINTS, _MOST_POINTS = 20, 1000

TRACKS: tuple[tuple[str, str, str, float, int, float], ...] = (
    # column of the journal, label, unit, factor, decimals, least span
    ("accept_len", "accept_len", "", 1.0, 2, 0.2),
    ("cycle_ms", "cycle", "ms", 1.0, 1, 2.0),
    ("tok_s", "tok/s", "all", 1.0, 0, 5.0),
    ("power_w", "GPU power", "kW, all", 1e-3, 2, 0.1),
)


class Fetched(Message):
    """The journal has answered."""

    def __init__(self, timeline: Timeline, entries: tuple[Operation | Event, ...]) -> None:
        self.timeline = timeline
        self.entries = entries
        super().__init__()


class HistoryScreen(SubScreen):
    """Charts of a time to be chosen, and what happened in it."""

    HEADING: ClassVar[str] = "History"
    DEFAULT_CSS = """
    HistoryScreen Header { height: 2; }
    HistoryScreen TimelinePanel { height: 2fr; min-height: 8; }
    HistoryScreen PastPanel { height: 1fr; min-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(key), f"range('{name}')", name, id=f"history-{name}", tooltip=f"The last {name}")
            for key, name in enumerate(RANGES_S, 1)
        ),
        Binding("left", "pan(-1)", "pan", id="history-back", tooltip="Half a range back"),
        Binding("right", "pan(1)", "pan", id="history-on", tooltip="Half a range on"),
        Binding("0", "pan_end", "now", id="history-now", tooltip="Up to now, and follow"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._range = "1h"
        self._back_s = 0.0
        """How far the right end lies before now."""
        self._asked = 0
        """Only the answer to the newest question is shown."""

    def compose(self) -> ComposeResult:
        """Charts above the list."""
        yield Header()
        yield TimelinePanel()
        yield PastPanel()
        yield KeyBar()

    def on_mount(self) -> None:
        """Fetch once it is known how much fits, and again and again."""
        self.query_one(PastPanel).focus()
        self.call_after_refresh(self._fetch)
        self.set_interval(REFRESH_S, self._follow)

    def show(self, snapshot: Snapshot) -> None:
        """Only the header is live; charts are fetched."""
        self.query_one(Header).show(snapshot)

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - asked of the panel after the layout
        """Another width has another number of points."""
        self.call_after_refresh(self._fetch)

    # ---------------------------------------------------------------------------------------------- keys

    def action_range(self, name: str) -> None:
        """Another range, its right end kept."""
        self._range = name
        self._fetch()

    def action_pan(self, direction: int) -> None:
        """Half a range."""
        self._back_s = max(0.0, self._back_s - direction * RANGES_S[self._range] / 2)
        self._fetch()

    def action_pan_end(self) -> None:
        """Up to now."""
        self._back_s = 0.0
        self._fetch()

    # --------------------------------------------------------------------------------------------- fetching

    def _follow(self) -> None:
        if self._back_s == 0.0 and self.is_current:
            self._fetch()

    def _fetch(self) -> None:
        """Ask the agent in a thread."""
        shown = self.console.shown
        if shown is None or not self.is_mounted:
            return
        self._asked += 1
        question = self._asked
        count = min(_MOST_POINTS, max(_LEAST_POINTS, self.query_one(TimelinePanel).chart_points))
        until_s = shown.at_s - self._back_s
        since_s = until_s - RANGES_S[self._range]
        step_s = RANGES_S[self._range] / count

        def work() -> None:
            try:
                message = self._answer(since_s, until_s, step_s)
            except ConsoleError as error:
                message = Fetched(Timeline(note=error.line), ())
            if question == self._asked:
                self.post_message(message)

        self.run_worker(work, thread=True, group="history", exclusive=True, exit_on_error=False, name="history")

    def _answer(self, since_s: float, until_s: float, step_s: float) -> Fetched:
        agent = self.console.agent()
        chart = agent.series(since_s, until_s, step_s)
        operations = tuple(_converted(agent.history("operations", since_s, until_s), Operation))
        faults = tuple(e for e in _converted(agent.history("events", since_s, until_s), Event) if e.level == "error")
        entries: list[Operation | Event] = [*operations, *faults]
        entries.sort(key=_at_s)
        marks = (
            *(Mark(entry.started_at_s) for entry in operations),
            *(Mark(fault.at_s, fault=True) for fault in faults),
        )
        tracks = tuple(
            Track(label, unit, _scaled(chart.columns.get(name, ()), factor), decimals, least)
            for name, label, unit, factor, decimals, least in TRACKS
        )
        return Fetched(Timeline(chart.since_s, chart.step_s, tracks, marks), tuple(entries))

    def on_fetched(self, message: Fetched) -> None:
        """Draw the answer."""
        self.query_one(TimelinePanel).chart(message.timeline)
        self.query_one(PastPanel).fill(message.entries)


def _at_s(entry: Operation | Event) -> float:
    return entry.started_at_s if isinstance(entry, Operation) else entry.at_s


def _scaled(values: tuple[float | None, ...], factor: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else value * factor for value in values)


def _converted(rows: Iterable[Mapping[str, Any]], kind: type[_Record]) -> Iterator[_Record]:
    """Rows of the journal as records; one of another version hides no other."""
    for row in rows:
        with contextlib.suppress(msgspec.ValidationError):
            yield msgspec.convert(row, kind)
