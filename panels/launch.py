"""The engine while it is not serving: coming up, gone down, or not there. What it waits for, how long, or why it ended."""

from __future__ import annotations

from typing import ClassVar

from console.rig import Engine, EngineState, Failure, Phase, Snapshot, age_s
from panels import glyphs
from panels.bars import meter
from panels.base import Panel
from panels.columns import Column, choose, line
from panels.logtail import log_row
from panels.rows import EMPTY, Row, fit, spread, wrap
from panels.states import engine_state, running_phase
from panels.text import clean, duration, percent

_COLUMNS = (
    Column("label", "", 22, flex=2, most=36),
    Column("bar", "", 6, keep=3, flex=2, most=30),
    Column("spent", "", 6, right=True),
    Column("expected", "", 9, keep=2),
    Column("detail", "", 12, keep=1, flex=3, most=70),
)


class LaunchPanel(Panel):
    """Start-up phases with expected times and ETA; a failure with its cause, its ranks and what to do."""

    TITLE: ClassVar[str] = "Engine"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """What there is to say in this state, the log's last lines below it."""
        engine = snapshot.engine
        out = _state(snapshot, cells)
        if engine.failure is not None:
            out += _failure(engine.failure, engine, cells)
        phases = _phases(snapshot, cells)
        log = _log(snapshot, cells)
        room = rows - len(out)
        if engine.failure is not None:
            return [*out, EMPTY, *(log[-(room - 1) :] if room > 1 else [])][:rows]
        spare = room - len(phases)
        if spare < 0 and phases:
            phases = _around_running(phases, engine, room)
        return [*out, *phases, EMPTY, *(log[-(spare - 1) :] if spare > 1 else [])][:rows]

    def headline(self, snapshot: Snapshot) -> Row:
        """The profile."""
        profile = snapshot.engine.profile
        return ((f"profile {clean(profile)}", "label"),) if profile else EMPTY

    def status(self, snapshot: Snapshot) -> Row:
        """What the estimate rests on."""
        engine = snapshot.engine
        if engine.state is EngineState.STARTING:
            return (
                (
                    f"expected times from {clean(engine.eta_from)}" if engine.eta_from else "first start: no times yet",
                    "dim",
                ),
            )
        return EMPTY


def _state(snapshot: Snapshot, cells: int) -> list[Row]:
    engine = snapshot.engine
    state = engine_state(engine)
    spent = age_s(engine.started_at_s if engine.state is EngineState.STARTING else engine.since_s, snapshot)
    row: Row = state
    if spent is not None:
        row = (*row, ("  for ", "label"), (duration(spent), "value"))
    if engine.state is EngineState.STARTING:
        return [_start_progress(engine, row, cells), *(_note(engine, cells) if running_phase(engine) is None else [])]
    if engine.state is EngineState.NONE:
        return [
            *([row] if engine.note else [(*row, ("  nothing was started on this rig yet", "label"))]),
            *_note(engine, cells),
            (("p", "accent"), ("  choose a profile and start it", "text")),
            (("console run PROFILE", "accent"), ("  does the same from a shell", "text")),
            (("console attach URL", "accent"), ("   watches a server that runs already", "text")),
        ]
    if engine.exit_code is not None:
        row = (*row, ("  exit code ", "label"), (str(engine.exit_code), "value"))
    return [row, *_note(engine, cells)]


def _note(engine: Engine, cells: int) -> list[Row]:
    return wrap(clean(engine.note), cells, "label", 2) if engine.note else []


def _start_progress(engine: Engine, row: Row, cells: int) -> Row:
    words: Row = EMPTY
    if engine.eta_s is not None:
        words = (("about ", "label"), (duration(engine.eta_s), "value"), (" to go", "label"))
    if engine.progress is None:
        return spread(row, words, cells)
    room = min(40, cells - 50)
    bar = meter(engine.progress, room) if room >= 8 else EMPTY
    return spread((*row, ("  ", "text"), *bar, (f" {percent(engine.progress)}", "value")), words, cells)


def _phases(snapshot: Snapshot, cells: int) -> list[Row]:
    engine = snapshot.engine
    if engine.state not in (EngineState.STARTING, EngineState.DEAD):
        return []
    columns = choose(_COLUMNS, cells)
    bar_cells = next((c.cells for c in columns if c.key == "bar"), 0)
    return [line(columns, _phase(phase, snapshot, bar_cells)) for phase in engine.phases]


def _phase(phase: Phase, snapshot: Snapshot, bar_cells: int) -> dict[str, Row]:
    look = glyphs.active()
    started, done = phase.started_at_s is not None, phase.seconds is not None
    running = started and not done and snapshot.engine.state is EngineState.STARTING
    symbol, role = (
        (look.done, "good")
        if done
        else (look.busy, "warn")
        if running
        else (look.bad, "bad")
        if started
        else (look.idle, "dim")
    )
    spent = phase.seconds if done else age_s(phase.started_at_s, snapshot) if started else None
    late = running and spent is not None and phase.expected_s is not None and spent > 2 * phase.expected_s + 5
    share = 1.0 if done else phase.progress
    if share is None and running and spent is not None and phase.expected_s:
        share = min(0.99, spent / phase.expected_s)
    expected = f"of {duration(phase.expected_s)}" if phase.expected_s is not None else ""
    detail: Row = (("longer than usual  ", "warn"),) if late else EMPTY
    return {
        "label": ((f"{symbol} ", role), (clean(phase.label or phase.name), "text" if started else "dim")),
        "bar": meter(share or 0.0, bar_cells, "good" if done else "bar"),
        "spent": ((duration(spent) if spent is not None else "", "value" if running else "text"),),
        "expected": ((expected, "dim"),),
        "detail": (*detail, (clean(phase.detail), "dim")),
    }


def _around_running(rows: list[Row], engine: Engine, room: int) -> list[Row]:
    phase = running_phase(engine)
    at = 0 if phase is None else engine.phases.index(phase)
    first = min(max(0, at - room // 2), max(0, len(rows) - room))
    return rows[first : first + max(0, room)]


def _failure(failure: Failure, engine: Engine, cells: int) -> list[Row]:
    """Cause, ranks, advice: in that order, because the cause is what is read first."""
    look = glyphs.active()
    rows = wrap(f"{look.bad} {clean(failure.message)}", cells, "bad", 3)
    if failure.ranks:
        ranks = ", ".join(clean(rank) for rank in failure.ranks)
        total = f" of {engine.tp}" if engine.tp else ""
        rows.append(fit(((f"{len(failure.ranks)}{total} ranks: ", "label"), (ranks, "text")), cells))
    if failure.advice:
        rows += wrap(f"{look.arrow} {clean(failure.advice)}", cells, "accent", 3)
    if engine.log_path:
        rows.append(fit((("log  ", "label"), (clean(engine.log_path), "dim")), cells))
    return rows


def _log(snapshot: Snapshot, cells: int) -> list[Row]:
    tail = [log_row(raw, cells) for raw in snapshot.log_tail[-20:]]
    if not tail:
        return []
    return tail
