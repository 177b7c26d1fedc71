"""Targets and what-if: live figures, any of which can be replaced by an assumption, and what would follow."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from console.screens.whatif_view import LABELS, CurvePanel, ReferencesPanel, SlidersPanel, shown
from console.whatif import Slider, WhatIf, measured
from panels.header import Header
from panels.targets import TargetsPanel

COARSE = 10
"""Fine steps in a coarse one."""
_ROOMY_ROWS, _WIDE_CELLS = 40, 90


class TargetsScreen(SubScreen):
    """Sliders, the curve, and each goal: reachable, unreachable, or what would have to be true."""

    HEADING: ClassVar[str] = "Targets"
    DEFAULT_CSS = """
    TargetsScreen Header { height: 2; }
    TargetsScreen Horizontal { height: 11; }
    TargetsScreen SlidersPanel { width: 52; }
    TargetsScreen TargetsPanel { height: 1fr; min-height: 7; }
    TargetsScreen ReferencesPanel { height: 11; }
    TargetsScreen Sentence { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "select_up", "slider", id="whatif-up", tooltip="The slider above"),
        Binding("down", "select_down", "slider", id="whatif-down", tooltip="The slider below"),
        Binding("left", "less", "change", id="whatif-less", tooltip="Assume a little less"),
        Binding("right", "more", "change", id="whatif-more", tooltip="Assume a little more"),
        Binding("shift+left,H", "much_less", "coarse", id="whatif-much-less", show=False, tooltip="Assume much less"),
        Binding("shift+right,L", "much_more", "coarse", id="whatif-much-more", show=False, tooltip="Assume much more"),
        Binding(
            "0", "back_to_measured", "measured", id="whatif-measured", tooltip="This slider back to what is measured"
        ),
        Binding(
            "backspace", "all_measured", "all measured", id="whatif-all", tooltip="All sliders back to what is measured"
        ),
        Binding("a", "axis", "axis", id="whatif-axis", tooltip="The curve by depth, or by accuracy"),
        Binding(
            "left_square_bracket",
            "depth_down",
            "engine's depth",
            id="targets-depth-down",
            tooltip="One speculation depth down",
        ),
        Binding(
            "right_square_bracket",
            "depth_up",
            "engine's depth",
            id="targets-depth-up",
            tooltip="One speculation depth up",
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._what = WhatIf()

    def compose(self) -> ComposeResult:
        """Sliders beside the curve, what is assumed, the goals, published drafters."""
        yield Header()
        with Horizontal():
            yield SlidersPanel()
            yield CurvePanel()
        yield Sentence(id="assumed")
        yield TargetsPanel()
        yield ReferencesPanel()
        yield KeyBar()

    def show(self, snapshot: Snapshot) -> None:
        """Newer figures under the same assumptions; what does not fit goes."""
        self.query_one(Header).show(snapshot)
        self.query_one(CurvePanel).display = self.size.width >= _WIDE_CELLS - 12
        self.query_one(ReferencesPanel).display = self.size.height >= _ROOMY_ROWS and self.size.width >= _WIDE_CELLS
        self.query_one(SlidersPanel).styles.width = "1fr" if self.size.width < _WIDE_CELLS - 12 else 52
        self._draw(self._what.at(measured(snapshot)), snapshot)

    def _draw(self, what: WhatIf, snapshot: Snapshot | None = None) -> None:
        self._what = what
        for kind in (SlidersPanel, CurvePanel, ReferencesPanel):
            self.query_one(kind).assume(what)
        self.query_one("#assumed", Sentence).say(assumptions(what), "warn")
        snapshot = snapshot or self.console.shown
        if snapshot is not None:
            targets = what.targets() if what.assumed else snapshot.targets
            self.query_one(TargetsPanel).show(msgspec.structs.replace(snapshot, targets=targets))

    # ------------------------------------------------------------------------------------------- sliders

    def action_select_up(self) -> None:
        """The slider above."""
        self._select(-1)

    def action_select_down(self) -> None:
        """The slider below."""
        self._select(1)

    def _select(self, by: int) -> None:
        panel, order = self.query_one(SlidersPanel), list(Slider)
        panel.selected = order[min(max(0, order.index(panel.selected) + by), len(order) - 1)]
        panel.assume(self._what)

    def action_less(self) -> None:
        """A fine step down."""
        self._move(-1)

    def action_more(self) -> None:
        """A fine step up."""
        self._move(1)

    def action_much_less(self) -> None:
        """A coarse step down."""
        self._move(-COARSE)

    def action_much_more(self) -> None:
        """A coarse step up."""
        self._move(COARSE)

    def _move(self, steps: int) -> None:
        slider = self.query_one(SlidersPanel).selected
        if slider is Slider.DEPTH and abs(steps) == COARSE:
            steps //= COARSE // 2
        self._draw(self._what.moved(slider, steps))

    def action_back_to_measured(self) -> None:
        """The selected slider as it is measured."""
        self._draw(self._what.back(self.query_one(SlidersPanel).selected))

    def action_all_measured(self) -> None:
        """Nothing assumed."""
        self._draw(self._what.back())

    def action_axis(self) -> None:
        """The other axis."""
        panel = self.query_one(CurvePanel)
        panel.by_accuracy = not panel.by_accuracy
        panel.assume(self._what)

    # -------------------------------------------------------------------------------------------- engine

    def action_depth_down(self) -> None:
        """One depth down."""
        self.console.operations.depth(-1)

    def action_depth_up(self) -> None:
        """One depth up."""
        self.console.operations.depth(+1)


def assumptions(what: WhatIf) -> str:
    """What is not measured, in words; empty when everything is."""
    parts = [
        f"{LABELS[slider][0]} {shown(slider, value)} {LABELS[slider][1]}".rstrip()
        for slider, value in what.assumed.items()
    ]
    return f"ASSUMED: {', '.join(parts)}. The rest is measured; the verdict below is not today's." if parts else ""
