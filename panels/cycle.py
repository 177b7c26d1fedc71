"""What one round of speculation costs, and which stage it is spent in."""

from __future__ import annotations

from typing import ClassVar

from console.rig import Cycle, Snapshot, Source, Stage, age_s
from panels import glyphs
from panels.bars import stacked
from panels.base import Panel
from panels.columns import Column, choose, headings, line
from panels.gpus import wrap_reason
from panels.history import history, span_words
from panels.rows import EMPTY, Row, fit, join_fitting, spread, width
from panels.text import age, clean, figure, ms, number, origin, percent

_STAGES = ("draft", "verify", "extend", "gap")
_COLUMNS = (
    Column("stage", "ms a round", 10),
    Column("mean", "mean", 6, right=True),
    Column("p50", "p50", 6, keep=1, right=True),
    Column("p95", "p95", 6, keep=1, right=True),
    Column("share", "share", 6, keep=2, right=True),
    Column("note", "", 6, keep=3, flex=1),
)


class CyclePanel(Panel):
    """Total, a stacked bar of the four stages, their percentiles, the slowest rank, and the history of the total."""

    TITLE: ClassVar[str] = "Cycle"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """From the total down; the graph takes the rows that are left."""
        cycle = snapshot.cycle
        if cycle.total_ms.value is None and all(_stage(cycle, name).mean_ms is None for name in _STAGES):
            return wrap_reason(cycle.total_ms.why or cycle.verify.why or "no decode yet", cells, rows)
        if rows < 8:
            return _compact(snapshot, cells, rows)
        out = [_total(snapshot, cells, named=rows < 12), _bar(cycle, cells), *_table(snapshot, cells)]
        if rows >= 12:
            out += _rank(cycle, cells)
        if rows - len(out) >= 2:
            graph_rows = rows - len(out) - (1 if rows - len(out) >= 5 else 0)
            graph = history(snapshot.history.cycle_ms, snapshot, cells, graph_rows, least_span=1.0)
            if graph and graph_rows < rows - len(out):
                words = span_words(snapshot.history.cycle_ms, snapshot, cells)
                out.append(spread((("cycle ms", "label"),), ((words, "dim"),), cells))
            out += graph
        return out

    def status(self, snapshot: Snapshot) -> Row:
        """Source and age of the stages, or of the total when it is all there is."""
        cycle = snapshot.cycle
        if cycle.verify.source is not None:
            return origin(cycle.verify.source, cycle.verify.at_s, snapshot, stale=cycle.verify.stale)
        total = cycle.total_ms
        return origin(total.source, total.at_s, snapshot, stale=total.stale)


def _stage(cycle: Cycle, name: str) -> Stage:
    stage: Stage = getattr(cycle, name)
    return stage


def _fill(name: str) -> str:
    return glyphs.active().stages[_STAGES.index(name)]


def _total(snapshot: Snapshot, cells: int, *, named: bool = True) -> Row:
    """The cycle time, and what it depends on; the slowest rank too when it is to be ``named``."""
    cycle = snapshot.cycle
    total = figure(cycle.total_ms, f"{ms(cycle.total_ms.value)} ms", snapshot)
    parts: list[Row] = [total]
    if cycle.graph_share.value is not None:
        full = cycle.graph_share.value >= 0.99
        role = "stale" if cycle.graph_share.stale else "text" if full else "warn"
        mark = "" if full else f" {glyphs.active().warn}"
        parts.append((("graphs ", "label"), (f"{percent(cycle.graph_share.value)}{mark}", role)))
    if cycle.batch is not None:
        parts.append(
            (("batch ", "label"), (number(cycle.batch, 0 if cycle.batch == round(cycle.batch) else 1), "text"))
        )
    if named and cycle.slowest_rank is not None:
        parts.append((("slowest rank ", "label"), (str(cycle.slowest_rank), "text")))
    if cycle.graph_share.value is None and cycle.graph_share.why:
        parts.append((("graphs ", "label"), (f"{glyphs.active().dash} {clean(cycle.graph_share.why)}", "dim")))
    return join_fitting(parts, cells)


def _bar(cycle: Cycle, cells: int) -> Row:
    return stacked([(_stage(cycle, name).mean_ms or 0.0, _fill(name), name) for name in _STAGES], cells)


def _table(snapshot: Snapshot, cells: int) -> list[Row]:
    cycle = snapshot.cycle
    columns = choose(_COLUMNS, cells)
    total = cycle.total_ms.value or sum(_stage(cycle, name).mean_ms or 0.0 for name in _STAGES)
    room = next((c.cells for c in columns if c.key == "note"), 0)
    rows = [headings(columns)]
    for name in _STAGES:
        stage = _stage(cycle, name)
        role, plain = ("stale", "stale") if stage.stale else ("value", "text")
        rows.append(
            line(
                columns,
                {
                    "stage": ((_fill(name) * 2, name), (f" {name}", "text")),
                    "mean": ((ms(stage.mean_ms), role if stage.mean_ms is not None else "dim"),),
                    "p50": ((ms(stage.p50_ms), plain if stage.p50_ms is not None else "dim"),),
                    "p95": ((ms(stage.p95_ms), plain if stage.p95_ms is not None else "dim"),),
                    "share": _part(stage.mean_ms, total),
                    "note": _note(stage, cycle.verify, snapshot) if room else EMPTY,
                },
            )
        )
    return rows


def _part(mean_ms: float | None, total: float) -> Row:
    if mean_ms is None or total <= 0:
        return EMPTY
    return ((percent(mean_ms / total), "text"),)


def _note(stage: Stage, leader: Stage, snapshot: Snapshot) -> Row:
    """Why a stage is missing or old; its source where it is not the panel's."""
    if stage.mean_ms is None:
        return ((f" {clean(stage.why) or 'not measured'}", "dim"),)
    if stage.stale:
        return ((f" {age(age_s(stage.at_s, snapshot))} old {clean(stage.why)}".rstrip(), "stale"),)
    if stage.source not in (None, leader.source):
        return ((f" {(stage.source or Source.DERIVED).value}", "dim"),)
    return ((" ", "text"), *(((f"max {ms(stage.max_ms)}", "dim"),) if stage.max_ms is not None else EMPTY))


def _rank(cycle: Cycle, cells: int) -> list[Row]:
    """The slowest rank against the fastest."""
    if cycle.slowest_rank is None:
        return []
    times = [rank.verify_ms for rank in cycle.ranks if rank.verify_ms is not None]
    row: Row = (("ranks     ", "label"), (f"slowest {cycle.slowest_rank}", "text"))
    if len(times) > 1:
        row += ((f", verify {ms(min(times))} to {ms(max(times))}", "text"),)
    if cycle.slowest_why:
        row += ((f": {clean(cycle.slowest_why)}", "label"),)
    return [fit(row, cells)]


def _compact(snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
    """Four to seven rows: total with a small graph, bar, two stages a row."""
    cycle = snapshot.cycle
    if all(_stage(cycle, name).mean_ms is None for name in _STAGES):
        why = wrap_reason(f"stages: {cycle.verify.why or 'not measured'}", cells, 2)
        graph = history(snapshot.history.cycle_ms, snapshot, cells, rows - 1 - len(why), least_span=1.0)
        return [_total(snapshot, cells), *why, *graph][:rows]
    half = (cells - 1) // 2
    pairs = [_short(cycle, name, half) for name in _STAGES]
    total = _total(snapshot, cells)
    key: Row = (("p50/p95", "dim"),) if any(_stage(cycle, name).p50_ms is not None for name in _STAGES) else EMPTY
    total = spread(total, key, cells) if width(total) + width(key) < cells else total
    out = [total, _bar(cycle, cells)]
    out += [(*fit(pairs[i], half), (" ", "text"), *pairs[i + 1]) for i in (0, 2)]
    spare = rows - len(out)
    if spare > 0:
        out += history(snapshot.history.cycle_ms, snapshot, cells, spare, least_span=1.0)
    return out[:rows]


def _short(cycle: Cycle, name: str, cells: int) -> Row:
    stage = _stage(cycle, name)
    role = "stale" if stage.stale else "value"
    label: Row = ((_fill(name), name), (f" {name:<6} ", "label"))
    if stage.mean_ms is None:
        return (*label, (f"{glyphs.active().dash} {clean(stage.why)}", "dim"))
    if stage.p50_ms is None:
        return (*label, (f"{ms(stage.mean_ms):>5}", role))
    tail = f"/{ms(stage.p95_ms)}" if cells - width(label) >= 10 else ""
    return (*label, (f"{ms(stage.p50_ms):>4}", role), (tail, "dim"))
