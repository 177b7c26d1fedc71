"""The last minutes of the main figures at one point a second, for the graphs."""

from __future__ import annotations

from collections import deque

from console import rig

POINTS = 300
STEP_S = 1.0
SET_BACK_STEPS = 2
"""So much earlier than the last one, a figure is of a clock that was set back: the graph goes on."""
NAMES = ("cycle_ms", "draft_ms", "verify_ms", "accept_len", "tok_s")


class Ring:
    """A fixed number of seconds; a second without a measurement is a gap, not a repeated value."""

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        self._columns: dict[str, deque[float | None]] = {name: deque(maxlen=points) for name in NAMES}
        self._last_step: int | None = None
        self._built: rig.History | None = rig.History()

    def add(self, at_s: float, cycle: rig.Cycle, acceptance: rig.Acceptance, load: rig.Load) -> None:
        """Take the figures of this second; a second call within it replaces what is missing only."""
        step = int(at_s // STEP_S)
        values = {
            "cycle_ms": _fresh(cycle.total_ms),
            "draft_ms": None if cycle.draft.stale else cycle.draft.mean_ms,
            "verify_ms": None if cycle.verify.stale else cycle.verify.mean_ms,
            "accept_len": _fresh(acceptance.accept_len),
            "tok_s": _fresh(load.tok_s),
        }
        if self._last_step is not None and self._last_step - SET_BACK_STEPS < step <= self._last_step:
            self._fill(values)
            return
        missed = 0 if self._last_step is None else max(0, min(step - self._last_step - 1, self._points))
        for name, column in self._columns.items():
            column.extend([None] * missed)
            column.append(values[name])
        self._last_step = step
        self._built = None

    def _fill(self, values: dict[str, float | None]) -> None:
        for name, column in self._columns.items():
            if column and column[-1] is None and values[name] is not None:
                column[-1] = values[name]
                self._built = None

    def clear(self) -> None:
        """Forget: another engine has begun."""
        for column in self._columns.values():
            column.clear()
        self._last_step = None
        self._built = rig.History()

    def history(self) -> rig.History:
        """All points, oldest first; the same object until something was added."""
        if self._built is None:
            self._built = rig.History(step_s=STEP_S, **{name: tuple(column) for name, column in self._columns.items()})
        return self._built


def _fresh(figure: rig.Figure) -> float | None:
    return None if figure.stale else figure.value
