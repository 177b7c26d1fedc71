"""The what-if's widgets: sliders, the curve of speed, and published drafters under the same assumptions."""

from __future__ import annotations

import math

from console import references
from console.rig import Snapshot
from console.whatif import DEEPEST, Slider, WhatIf
from panels import glyphs
from panels.base import Panel
from panels.curve import Mark, curve
from panels.rows import EMPTY, Row, fit, join, wrap
from panels.text import clean, ms, name_of, number, percent, tok_s

LABELS = {
    Slider.VERIFY: ("verify", "ms"),
    Slider.STEP: ("draft step", "ms"),
    Slider.DEPTH: ("depth", ""),
    Slider.ACCURACY: ("accuracy", ""),
    Slider.BASELINE: ("baseline", "tok/s"),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHOWN_DEPTHS = 8
"""Depths on the curve's axis unless a deeper one is asked for."""


def shown(slider: Slider, value: float | None) -> str:
    """A slider's value as it is written."""
    if slider is Slider.DEPTH:
        return number(value)
    if slider is Slider.ACCURACY:
        return percent(value, 1)
    return tok_s(value) if slider is Slider.BASELINE else ms(value)


class WhatIfPanel(Panel):
    """A panel that draws assumptions, not a snapshot."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._snapshot = Snapshot()
        self._what = WhatIf()

    def assume(self, what: WhatIf) -> None:
        """Draw these."""
        self._what = what
        self._redraw()


class SlidersPanel(WhatIfPanel):
    """A row a slider: value, whether it is measured or assumed, and what follows from all of them."""

    TITLE = "What if"

    def __init__(self) -> None:
        super().__init__()
        self.selected = Slider.VERIFY

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - assumptions, not figures
        """Sliders, then cycle, accept_len and speed."""
        what = self._what
        out = [self._slider(slider, cells) for slider in Slider]
        depth = what.depth
        cycle = what.cycle_ms(depth) if depth is not None else None
        won = what.accept_len(depth) if depth is not None else None
        speed = what.speed_tok_s(depth) if depth is not None else None
        facts = [
            (("cycle ", "label"), (ms(cycle), "value"), (" ms", "label")),
            (("accept_len ", "label"), (number(won, 2), "value")),
            ((tok_s(speed), "value"), (" tok/s", "label")),
        ]
        out += [fit(join(facts), cells)]
        if (best := what.best_depth()) is not None:
            role = "good" if best[0] else "bad"
            words = f"best depth {best[0]}, {tok_s(best[1])} tok/s" + ("" if best[0] else ": no speculation")
            out.append(((words, role),))
        notes = (
            []
            if what.live.split or what.live.verify_ms is None
            else ["the whole cycle stands as verify: no stages measured"]
        )
        if what.value(Slider.STEP) is None and cycle is not None:
            notes.append("a draft step has no price yet: no best depth, and the curve flatters deep drafts")
        known = len(what.live.conditionals)
        if known and Slider.ACCURACY not in what.assumed:
            notes.append(f"beyond depth {known} as at depth {known}; verify taken as flat in width")
        for note in notes:
            out += wrap(note, cells, "dim", 2)
        return out[:rows]

    def _slider(self, slider: Slider, cells: int) -> Row:
        what, (label, unit) = self._what, LABELS[slider]
        value, live = what.value(slider), what.live.value(slider)
        mark = "> " if slider is self.selected else "  "
        if slider in what.assumed:
            tail: Row = (("assumed", "warn"), (f", measured {shown(slider, live)}" if live is not None else "", "dim"))
        elif live is None:
            tail = (("not measured", "dim"),)
        elif slider is Slider.ACCURACY and what.live.conditionals:
            tail = (("measured, by position", "good"),)
        elif slider is Slider.BASELINE and what.live.baseline.stale:
            tail = (("measured on another rig", "stale"),)
        else:
            tail = (("measured", "good"),)
        text = f"{shown(slider, value)} {unit if value is not None else ''}".rstrip()
        return fit(((mark, "accent"), (f"{label:<11}", "label"), (f"{text:>11}  ", "value"), *tail), cells)


class CurvePanel(WhatIfPanel):
    """Speed of one stream against depth, or against accuracy, with the baseline as a dotted line."""

    TITLE = "Speed"

    def __init__(self) -> None:
        super().__init__()
        self.by_accuracy = False

    def headline(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - assumptions, not figures
        """Against what."""
        axis = "accuracy a token" if self.by_accuracy else "depth"
        return ((f"tok/s of one stream by {axis}; dotted: no speculation", "dim"),)

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - assumptions, not figures
        """The curve, or why there is none."""
        what, depth = self._what, self._what.depth
        base = what.value(Slider.BASELINE)
        missing = what.value(Slider.VERIFY) is None or (what.value(Slider.ACCURACY) is None and not self.by_accuracy)
        if missing or depth is None:
            return wrap(
                "needs a cycle, a depth and an accuracy: measured, or assumed with the arrow keys", cells, "dim", 3
            )
        if self.by_accuracy:
            return curve(
                lambda accuracy: what.speed_tok_s(depth, accuracy),
                0.0,
                1.0,
                cells,
                rows,
                threshold=base,
                marks=self._accuracy_marks(),
                ticks=[(share / 10, f"{share}0%") for share in range(2, 10, 2)],
                unit="tok/s",
            )
        most = max(SHOWN_DEPTHS, min(DEEPEST, depth + 1))
        best = what.best_depth()
        look = glyphs.active()
        marks: list[Mark] = [(float(depth), look.mark_now, "value")]
        if best is not None and best[0] and best[0] <= most:
            marks.insert(0, (float(best[0]), look.mark_goal, "good"))
        return curve(
            self._between_depths,
            1.0,
            float(most),
            cells,
            rows,
            threshold=base,
            marks=marks,
            ticks=[(float(at), str(at)) for at in range(1, most + 1)],
            unit="tok/s",
        )

    def _between_depths(self, at: float) -> float | None:
        """A straight line between two depths: there is no depth 2.5, and the eye wants to see where it goes."""
        below = math.floor(at)
        one, other = self._what.speed_tok_s(below), self._what.speed_tok_s(min(below + 1, DEEPEST))
        return None if one is None or other is None else one + (other - one) * (at - below)

    def _accuracy_marks(self) -> list[Mark]:
        """Published drafters by letter, then break-even and the accuracy in force."""
        look, what = glyphs.active(), self._what
        marks: list[Mark] = []
        for letter, drafter in zip(LETTERS, references.published(), strict=False):
            accuracy = drafter.accuracy(drafter.span[1])
            if accuracy is not None:
                marks.append((accuracy, letter, "label"))
        targets = what.targets()
        goal = targets.goals[0] if targets.goals else None
        if goal is not None and goal.accuracy_at_depth is not None:
            marks.append((goal.accuracy_at_depth, look.mark_break_even, "warn"))
        if (now := what.value(Slider.ACCURACY)) is not None:
            marks.append((now, look.mark_now, "value"))
        return marks


class ReferencesPanel(WhatIfPanel):
    """Published drafters: what they would do with this rig's cycle, at this depth, if their accuracy held here."""

    TITLE = "Published drafters"

    def headline(self, snapshot: Snapshot) -> Row:  # noqa: ARG002 - assumptions, not figures
        """What the figures are worth."""
        return (("other targets, other prompts: a yardstick, no promise", "dim"),)

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - assumptions, not figures
        """A row a drafter: accept_len with its source, accuracy, and the speed here."""
        what, depth = self._what, self._what.depth
        out: list[Row] = []
        base = what.value(Slider.BASELINE)
        for letter, drafter in zip(LETTERS, references.published(), strict=False):
            low, high = (drafter.accuracy(value) for value in drafter.span)
            speeds = [
                what.speed_tok_s(depth, accuracy) if depth is not None and accuracy is not None else None
                for accuracy in (low, high)
            ]
            lengths = "-".join(dict.fromkeys(number(value, 2) for value in drafter.span))
            shares = "-".join(dict.fromkeys(percent(value) for value in (low, high)))
            here = "-".join(dict.fromkeys(tok_s(value) for value in speeds))
            role = "label" if base is None or speeds[1] is None else "good" if speeds[1] > base else "bad"
            row: Row = (
                (f"{letter} ", "accent"),
                *fit(((name_of(drafter.name), "text"),), max(12, min(30, cells - 58))),
                (f"  L {lengths:>9} at {drafter.depth}", "label"),
                (f"  p {shares:>7}", "label"),
                (f"  {here:>11} tok/s here", role),
                (f"  {clean(drafter.source)}", "dim"),
            )
            out.append(fit(row, cells))
        return out[:rows] or [EMPTY]
