"""Does speculation pay, and what would have to be true for each goal."""

from __future__ import annotations

from typing import ClassVar

from console.rig import Baseline, Goal, Snapshot, Targets, age_s
from panels import glyphs
from panels.base import Frame, Panel
from panels.columns import Column, choose, headings, line
from panels.history import history, span_words
from panels.rows import EMPTY, Row, fit, join, join_fitting, spread, width, wrap
from panels.states import verdict
from panels.text import age, clean, date, ms, nothing, number, percent, tok_s


class TargetsPanel(Panel):
    """The verdict in words, the baseline it rests on, and one row a goal."""

    TITLE: ClassVar[str] = "Targets"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """Verdict, reason, goals; then what stands behind them as far as there is room."""
        targets = snapshot.targets
        goals = _goals(targets, cells)
        spare = max(1, rows - len(goals))
        out = _verdict(targets, cells, min(spare, 3))
        if spare - len(out) >= 3:
            facts = _facts(targets, cells)
            out = [*out, *facts, EMPTY] if facts else out
        out += goals
        if rows > len(out) and targets.baseline.note:
            out += wrap(f"baseline: {clean(targets.baseline.note)}", cells, "dim", min(2, rows - len(out)))
        spare = rows - len(out)
        if spare >= 4:
            values = snapshot.history.tok_s
            graph = history(
                values, snapshot, cells, spare - 2, threshold=targets.baseline.tok_s, least_span=5.0, role="good"
            )
            if graph:
                words = span_words(values, snapshot, cells)
                out += [EMPTY, spread((("tok/s", "label"),), ((words, "dim"),), cells), *graph]
        return out[:rows]

    def headline(self, snapshot: Snapshot) -> Row:
        """The ceiling, where there is no row for it."""
        targets = snapshot.targets
        if self.frame is Frame.BOX or targets.ceiling_tok_s is None:
            return EMPTY
        return (("ceiling ", "label"), (tok_s(targets.ceiling_tok_s), "value"), (" tok/s", "label"))

    def status(self, snapshot: Snapshot) -> Row:
        """The baseline with its age."""
        return _baseline(snapshot.targets.baseline, snapshot, brief=self.size.width < 100 and self.frame is Frame.RULE)


def _baseline(baseline: Baseline, snapshot: Snapshot, *, brief: bool) -> Row:
    if baseline.tok_s is None:
        return (("no baseline yet", "warn"),)
    old = age(age_s(baseline.at_s, snapshot))
    when = (
        f" {glyphs.active().separator} {date(baseline.at_s)}, {old} old" if baseline.at_s is not None else ", no date"
    )
    if brief and baseline.stale:
        when = f", {old} old" if old else ""
    role = "stale" if baseline.stale else "label"
    row: Row = ((f"baseline {tok_s(baseline.tok_s)} tok/s{when}", role),)
    return (*row, (f" {glyphs.active().warn} other rig", "warn")) if baseline.stale else row


def _verdict(targets: Targets, cells: int, rows: int) -> list[Row]:
    """The word, the two speeds, and the reason; on one row where it fits."""
    symbol, word, role = verdict(targets.verdict)
    if rows < 2:
        word = word.removeprefix("SPECULATION ")
    first: Row = ((f"{symbol} {word}", role),)
    if targets.speedup is not None and targets.speed_tok_s is not None and targets.baseline.tok_s is not None:
        first = (
            *first,
            (f"  {targets.speedup:.2f}{glyphs.active().times}", role),
            (f"  {tok_s(targets.speed_tok_s)}", "value"),
            (f" of {tok_s(targets.baseline.tok_s)} tok/s", "label"),
        )
    why = clean(targets.why)
    if not why:
        return [first]
    if width(first) + 2 + len(why) <= cells or rows < 2:
        return [fit((*first, ("  ", "text"), (why, "label")), cells)]
    return [first, *wrap(why, cells, "label", rows - 1)]


def _facts(targets: Targets, cells: int) -> list[Row]:
    """Cycle, depth, break-even, ceiling."""
    pairs = [
        ("break-even", number(targets.break_even_accept_len, 2), "accept_len"),
        ("ceiling", tok_s(targets.ceiling_tok_s), "tok/s"),
        ("cycle", ms(targets.cycle_ms), "ms"),
        ("depth", number(targets.depth), ""),
    ]
    if all(shown == glyphs.active().dash for _, shown, _ in pairs):
        return []
    parts: list[Row] = [
        (
            (f"{name} ", "label"),
            (shown, "value"),
            (f" {unit}" if unit and shown != glyphs.active().dash else "", "label"),
        )
        for name, shown, unit in pairs
    ]
    return [join_fitting(parts, cells)]


def _columns(depth: int | None) -> tuple[Column, ...]:
    at = str(depth) if depth is not None else glyphs.active().dash
    return (
        Column("label", "goal", 12, flex=1, most=18),
        Column("tok_s", "tok/s", 5, right=True),
        Column("accept_len", "accept_len", 10, keep=1, right=True),
        Column("unlimited", "accuracy", 8, keep=3, right=True, flex=3, most=18, long="accuracy any depth"),
        Column("at_depth", f"at depth {at}", 11, keep=2, right=True, flex=2, most=17, long=f"accuracy depth {at}"),
        Column("depth", "min depth", 9, keep=4, right=True),
        Column("verify", "verify ms", 9, keep=5, right=True, flex=1, most=12, long="or verify ms"),
    )


def _goals(targets: Targets, cells: int) -> list[Row]:
    if not targets.goals:
        why = "needs a baseline: press b" if targets.baseline.tok_s is None else "needs a measured cycle"
        return [join([(("goals", "label"),), nothing("" if targets.why else why, why)])]
    columns = choose(_columns(targets.depth), cells, gap=1)
    rows = [line(columns, _goal(goal, targets, index == 0)) for index, goal in enumerate(targets.goals)]
    return [headings(columns), *rows]


def _goal(goal: Goal, targets: Targets, first: bool) -> dict[str, Row]:
    look = glyphs.active()
    met = targets.speed_tok_s is not None and targets.speed_tok_s >= goal.tok_s
    symbol, role = (look.done, "good") if met else (look.bad, "bad") if not goal.reachable else (look.idle, "label")
    label = clean(goal.label) or ("break-even" if first else "goal")
    unreachable = ("unreachable", "bad")
    dash = (look.dash, "dim")
    at_depth = (percent(goal.accuracy_at_depth, 1), "text") if goal.accuracy_at_depth is not None else unreachable
    return {
        "label": ((f"{symbol} ", role), (label, "text")),
        "tok_s": ((tok_s(goal.tok_s), "value"),),
        "accept_len": ((number(goal.accept_len, 2), "text"),),
        "unlimited": ((percent(goal.accuracy_unlimited, 1), "text") if goal.accuracy_unlimited is not None else dash,),
        "at_depth": (at_depth,),
        "depth": ((number(goal.min_depth), "text") if goal.min_depth is not None else dash,),
        "verify": ((ms(goal.verify_ms_needed), "text") if goal.verify_ms_needed is not None else dash,),
    }
