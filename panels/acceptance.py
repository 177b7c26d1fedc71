"""How many tokens one round wins, against what it must win, and where along the draft it loses them."""

from __future__ import annotations

import math
from typing import ClassVar

from console.rig import Position, Share, Snapshot
from panels import glyphs
from panels.bars import meter, scale
from panels.base import Panel
from panels.columns import Column, choose, headings, line
from panels.digits import big
from panels.gpus import wrap_reason
from panels.history import history, span_words
from panels.rows import EMPTY, Row, join_fitting, spread, width
from panels.text import clean, count, figure, nothing, number, origin, percent, share

_COLUMNS = (
    Column("position", "position", 8),
    Column("bar", "", 6, keep=3, flex=1, most=40),
    Column("conditional", "accepted", 9, right=True),
    Column("marginal", "reached", 9, keep=1, right=True),
    Column("tries", "tries", 5, keep=2, right=True),
)


class AcceptancePanel(Panel):
    """accept_len large, a ruler with break-even and goals, acceptance by position with intervals, and the history."""

    TITLE: ClassVar[str] = "Acceptance"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """From accept_len down; the graph takes the rows that are left."""
        acceptance = snapshot.acceptance
        if acceptance.accept_len.value is None:
            return wrap_reason(acceptance.accept_len.why or "no decode yet", cells, rows)
        if rows < 8:
            return _compact(snapshot, cells, rows)
        out = [*_large(snapshot, cells), _ruler(snapshot, cells)]
        spare = rows - len(out)
        positions = _positions(snapshot, cells, spare)
        out += positions
        spare = rows - len(out)
        if spare >= 2:
            values = snapshot.history.accept_len
            threshold = snapshot.targets.break_even_accept_len
            titled = spare >= 5
            graph = history(
                values,
                snapshot,
                cells,
                spare - titled,
                threshold=_near(threshold, values),
                least_span=0.5,
                role="accent",
            )
            if graph and titled:
                words = span_words(values, snapshot, cells)
                out.append(spread((("accept_len", "label"),), ((words, "dim"),), cells))
            out += graph
        return out

    def status(self, snapshot: Snapshot) -> Row:
        """Source and age of accept_len."""
        item = snapshot.acceptance.accept_len
        return origin(item.source, item.at_s, snapshot, stale=item.stale)


def _near(threshold: float | None, values: tuple[float | None, ...]) -> float | None:
    """Break-even, unless it is so far away that the graph would be a flat line."""
    known = [v for v in values if v is not None]
    if threshold is None or not known or abs(threshold - known[-1]) > 3:
        return None
    return threshold


def _facts(snapshot: Snapshot) -> list[Row]:
    """What accept_len stands against."""
    acceptance, targets = snapshot.acceptance, snapshot.targets
    look = glyphs.active()
    facts: list[Row] = []
    if targets.break_even_accept_len is not None:
        facts.append(
            (
                (f"{look.mark_break_even} ", "warn"),
                ("break-even ", "label"),
                (number(targets.break_even_accept_len, 2), "value"),
            )
        )
    if targets.margin is not None:
        role = "good" if targets.margin >= 0 else "bad"
        facts.append(((f"{abs(targets.margin):.2f} {'above' if targets.margin >= 0 else 'short'}", role),))
    if acceptance.rejected_share.value is not None:
        facts.append(
            (
                ("rejected ", "label"),
                *figure(acceptance.rejected_share, percent(acceptance.rejected_share.value), snapshot, "text"),
            )
        )
    return facts


def _depth(snapshot: Snapshot) -> Row:
    acceptance = snapshot.acceptance
    if acceptance.depth.value is None:
        return ((f"depth {glyphs.active().dash} {clean(acceptance.depth.why)}".rstrip(), "dim"),)
    how = {True: "pinned here", False: "set by SGLang", None: "fixed until a restart"}[acceptance.depth_pinned]
    if acceptance.depth_pinned is None and snapshot.engine.candidate_steps:
        how = ""
    return (
        ("depth ", "label"),
        *figure(acceptance.depth, number(acceptance.depth.value), snapshot),
        (f" {how}", "label"),
    )


def _large(snapshot: Snapshot, cells: int) -> list[Row]:
    """Three rows: the figure at the left, what it stands against at the right."""
    item = snapshot.acceptance.accept_len
    targets = snapshot.targets
    role = "stale" if item.stale else "value"
    if not item.stale and targets.margin is not None:
        role = "good" if targets.margin >= 0 else "bad"
    left = big(number(item.value, 2))
    room = cells - len(left[0]) - 3
    facts = _facts(snapshot)
    right = [
        join_fitting([(("accept_len", "label"),), _depth(snapshot)], room),
        join_fitting(facts[:2], room),
        join_fitting([*facts[2:], _goals(snapshot)], room),
    ]
    if item.stale:
        right[2] = ((clean(item.why) or "nothing was decoded since", "stale"),)
    return [((left[y], role), ("   ", "text"), *right[y]) for y in range(3)]


def _goals(snapshot: Snapshot) -> Row:
    goals = [goal for goal in snapshot.targets.goals[1:] if goal.accept_len is not None]
    if not goals:
        return EMPTY
    look = glyphs.active()
    words = ", ".join(f"{number(goal.accept_len, 2)}" for goal in goals)
    return ((f"{look.mark_goal} ", "goal"), ("goals ", "label"), (words, "text"))


def _ruler(snapshot: Snapshot, cells: int) -> Row:
    """From 1 (nothing accepted) to the farthest goal; broken where the present depth ends."""
    look, targets, item = glyphs.active(), snapshot.targets, snapshot.acceptance.accept_len
    now = item.value if item.value is not None else 1.0
    depth = snapshot.acceptance.depth.value if targets.depth is None else targets.depth
    limit = depth + 1 if depth is not None else None
    goals = [goal.accept_len for goal in targets.goals[1:] if goal.accept_len is not None]
    known = [now, limit or 2.0, targets.break_even_accept_len or 1.0, *goals]
    high = float(max(2, math.ceil(max(known))))
    marks = [(goal, look.mark_goal, "goal") for goal in goals]
    if targets.break_even_accept_len is not None:
        marks.append((targets.break_even_accept_len, look.mark_break_even, "warn"))
    marks.append((now, look.mark_now, "stale" if item.stale else "value"))
    ends = len(f"1{high:.0f}") + 2
    return (("1 ", "dim"), *scale(1.0, high, cells - ends, limit=limit, marks=marks), (f" {high:.0f}", "dim"))


def _positions(snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
    acceptance = snapshot.acceptance
    if not acceptance.positions:
        return [nothing(acceptance.positions_why, "acceptance by position is not known")] if rows else []
    columns = choose(_COLUMNS, cells)
    room = next((c.cells for c in columns if c.key == "bar"), 0)
    table = [
        line(columns, _position(position, room, stale=acceptance.accept_len.stale)) for position in acceptance.positions
    ]
    if len(table) + 1 > rows:
        table = table[: max(0, rows - 2)]
        table.append(((f"{glyphs.active().ellipsis} {len(acceptance.positions) - len(table)} more", "dim"),))
    return [headings(columns), *table]


def _position(position: Position, bar_cells: int, *, stale: bool) -> dict[str, Row]:
    return {
        "position": ((f"{position.index:>2}", "value"),),
        "bar": meter(position.conditional.value, bar_cells, "accent"),
        "conditional": _share(position.conditional, "stale" if stale else "value"),
        "marginal": _share(position.marginal, "stale" if stale else "text"),
        "tries": ((count(position.conditional.tries), "dim"),),
    }


def _share(item: Share, role: str) -> Row:
    return ((share(item), role if item.value is not None else "dim"),)


def _compact(snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
    """Four to seven rows: accept_len and rejects, ruler, break-even, positions, then a graph."""
    item, targets = snapshot.acceptance.accept_len, snapshot.targets
    role = "value" if targets.margin is None else "good" if targets.margin >= 0 else "bad"
    first: Row = (("accept_len ", "label"), *figure(item, number(item.value, 2), snapshot, role))
    facts = _facts(snapshot)
    out = [
        join_fitting([first, *facts[2:], _depth(snapshot)], cells),
        _ruler(snapshot, cells),
        join_fitting([*facts[:2], _goals(snapshot)], cells),
        _positions_in_a_row(snapshot, cells),
    ]
    out = [row for row in out if row]
    if rows > len(out):
        out += history(snapshot.history.accept_len, snapshot, cells, rows - len(out), least_span=0.5, role="accent")
    return out[:rows]


def _positions_in_a_row(snapshot: Snapshot, cells: int) -> Row:
    acceptance = snapshot.acceptance
    if not acceptance.positions:
        return nothing(acceptance.positions_why, "acceptance by position is not known")
    parts: list[Row] = [(("by position", "label"),)]
    role = "stale" if acceptance.accept_len.stale else "text"
    parts += [((f"{p.index}:", "dim"), *_share(p.conditional, role)) for p in acceptance.positions]
    row = join_fitting(parts, cells, (" ", "text"))
    if width(row) < sum(width(part) + 1 for part in parts) - 1:
        row = join_fitting(
            [((f"{p.index}:", "dim"), (percent(p.conditional.value), role)) for p in acceptance.positions],
            cells,
            (" ", "text"),
        )
    return row
