"""A calibration as rows: best depth by load, where speculation starts to lose, every cell, what the goals would take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from console import economics
from console.calibration import Calibration, Cell, Choice, Speed, choices, loses_from
from console.rig import Snapshot
from panels import glyphs
from panels.base import Frame
from panels.columns import Column, choose, headings, line
from panels.rows import EMPTY, Row, wrap
from panels.scroll import ScrollingPanel
from panels.text import clean, ms, name_of, number, percent, tok_s

COLUMNS = (
    Column("running", "running", 7, right=True),
    Column("depth", "depth", 5, right=True),
    Column("total", "tok/s", 14, right=True, flex=2, most=20),
    Column("stream", "one stream", 13, keep=3, right=True, flex=1, most=18),
    Column("accept", "accept_len", 10, keep=1, right=True),
    Column("cycle", "cycle ms", 8, keep=2, right=True),
    Column("draft", "draft", 6, keep=6, right=True),
    Column("verify", "verify", 6, keep=6, right=True),
    Column("extend", "extend", 6, keep=6, right=True),
    Column("predicted", "predicted", 9, keep=4, right=True),
    Column("unexplained", "unexplained", 11, keep=4, right=True),
    Column("note", "", 10, keep=5, flex=3, most=30),
)


class CalibrationView(ScrollingPanel):
    """One run of the ledger."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._result: Calibration | None = None
        self._head = ""
        self._goals: tuple[float, ...] = ()
        self._why = "reading the ledger"

    def fill(self, result: Calibration | None, head: str = "", goals: Sequence[float] = (), why: str = "") -> None:
        """Show a run, or why there is none."""
        self._result, self._head, self._goals, self._why = result, head, tuple(goals), why
        self._offset = 0
        self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - a kept run, not figures of now
        """The run, or the reason."""
        if self._result is None:
            return wrap(clean(self._why), cells, "dim", rows)
        return self.window(calibration_rows(self._result, cells, head=self._head, goals=self._goals), rows)


def calibration_rows(result: Calibration, cells: int, *, head: str = "", goals: Sequence[float] = ()) -> list[Row]:
    """The whole run as rows of ``cells``.

    Args:
        result: what was measured.
        cells: width.
        head: who measured it, and which it is.
        goals: speeds wanted of one stream, tok/s.
    """
    best = choices(result)
    out: list[Row] = [
        *_about(result, cells, head),
        EMPTY,
        (("Best depth, by measured tok/s of all requests", "title"),),
    ]
    for choice in best:
        out += _choice(choice, cells)
    out += [*_losing(result, best, cells), EMPTY, (("Every cell", "title"),), *_table(result, best, cells)]
    if goals and (rows := _goals(result, goals, cells)):
        out += [EMPTY, *rows]
    return out


def _about(result: Calibration, cells: int, head: str) -> list[Row]:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(result.at_s))
    dot = f" {glyphs.active().separator} "
    parts = [
        head,
        when,
        f"drafter {name_of(result.drafter)}" if result.drafter else "",
        result.prompts,
        result.sampling,
    ]
    out = wrap(dot.join(clean(part) for part in parts if part), cells, "label", 3)
    if result.simulated:
        out.append((("SIMULATED", "badge"),))
    if result.dry:
        out += wrap("DRY: acceptance was forced; times are real, acceptance and texts are not", cells, "warn", 2)
    return out


def _choice(choice: Choice, cells: int) -> list[Row]:
    words = f"{choice.concurrency} running: depth {choice.depth}, {tok_s(choice.tok_s)} tok/s"
    if choice.speedup is not None and choice.depth:
        words += f", {choice.speedup:.2f}{glyphs.active().times} of {tok_s(choice.baseline_tok_s)} without speculation"
    role = {True: "good", False: "bad", None: "warn"}[choice.pays] if choice.baseline_tok_s is not None else "text"
    if choice.baseline_tok_s is not None:
        words += {
            True: "; speculation pays",
            False: "; speculation loses",
            None: "; speculation and none are not distinguishable",
        }[choice.pays]
    if choice.also:
        words += f"; not distinguishable from depth {', '.join(map(str, choice.also))}"
    return wrap(words, cells, role, 3)


def _losing(result: Calibration, best: Sequence[Choice], cells: int) -> list[Row]:
    if all(choice.baseline_tok_s is None for choice in best):
        return wrap("Whether speculation pays is not known: depth 0 was not among the depths", cells, "warn", 2)
    start = loses_from(result)
    if start is not None:
        return wrap(f"Speculation loses from {start} running on", cells, "bad", 1)
    if all(choice.pays for choice in best):
        return wrap("Speculation pays at every load that was measured", cells, "good", 1)
    return wrap("No load was found from which speculation loses for certain", cells, "label", 1)


def _table(result: Calibration, best: Sequence[Choice], cells: int) -> list[Row]:
    columns = choose(COLUMNS, cells, gap=1)
    winners = {(choice.concurrency, choice.depth): choice for choice in best}
    near = {(choice.concurrency, depth) for choice in best for depth in choice.also}
    out = [headings(columns)]
    for cell in sorted(result.cells, key=lambda c: (c.concurrency, c.depth)):
        key = (cell.concurrency, cell.depth)
        note = "best" if key in winners else "as good" if key in near else ""
        out.append(line(columns, _cell(cell, note)))
    return out


def _cell(cell: Cell, note: str) -> dict[str, Row]:
    role = {"best": "good", "as good": "text"}.get(note, "label")
    failed = f"{cell.failed} of {cell.requests} failed" if cell.failed else ""
    return {
        "running": ((str(cell.concurrency), role),),
        "depth": ((str(cell.depth), role),),
        "total": ((span(cell.total_tok_s), "value"),),
        "stream": ((span(cell.stream_tok_s), "text"),),
        "accept": ((number(cell.accept_len, 2), "text"),),
        "cycle": ((ms(cell.cycle_ms), "text"),),
        "draft": ((ms(cell.draft_ms), "label"),),
        "verify": ((ms(cell.verify_ms), "label"),),
        "extend": ((ms(cell.extend_ms), "label"),),
        "predicted": ((tok_s(cell.predicted_tok_s), "label"),),
        "unexplained": (
            (_percent(cell.unexplained_share), "warn" if (cell.unexplained_share or 0) > 0.1 else "label"),
        ),
        "note": ((note, role), (f" {failed}" if failed else "", "bad")),
    }


def _percent(share: float | None) -> str:
    """A share that may be a little below zero; what rounds to nothing has no sign."""
    return "0%" if share is not None and abs(share) < 0.005 else percent(share)


def span(speed: Speed) -> str:
    """A median with the larger half of its interval: ``439 ±3``."""
    half = max(speed.high - speed.median, speed.median - speed.low)
    return f"{tok_s(speed.median)} {glyphs.active().plus_minus}{number(half, 1 if half < 9.95 else 0)}"


def _goals(result: Calibration, goals: Sequence[float], cells: int) -> list[Row]:
    """What each goal would take at the best depth of the lowest load; its cycle taken as it was measured."""
    lowest = min(cell.concurrency for cell in result.cells)
    usable = [c for c in result.cells if c.concurrency == lowest and c.depth and c.cycle_ms and c.accept_len]
    if not usable:
        return []
    best = max(usable, key=lambda cell: cell.stream_tok_s.median)
    other = (
        best.cycle_ms - best.verify_ms if best.cycle_ms and best.verify_ms and best.verify_ms <= best.cycle_ms else None
    )
    out: list[Row] = [((f"Goals of one stream, at depth {best.depth} and {lowest} running", "title"),)]
    for wanted in goals:
        goal = economics.goal(wanted, best.cycle_ms or 0.0, best.depth, accept_len=best.accept_len, other_ms=other)
        if best.stream_tok_s.low >= wanted:
            words, role = "reached", "good"
        elif goal.accuracy_at_depth is None:
            words, role = f"unreachable at this depth: it takes depth {goal.min_depth} or more", "bad"
        else:
            words, role = f"an accuracy of {percent(goal.accuracy_at_depth, 1)} a token", "text"
        if role != "good" and goal.verify_ms_needed is not None:
            words += f", or a verify of {ms(goal.verify_ms_needed)} ms instead of {ms(best.verify_ms)}"
        out += wrap(f"{tok_s(wanted)} tok/s: {words}", cells, role, 2)
    return out
