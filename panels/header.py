"""The header: in which state is the engine, what does it run, since when, and what is being done to it."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len

from console.rig import Engine, EngineState, Operation, OperationState, Phase, Snapshot, StepState, age_s
from panels import glyphs
from panels.base import Frame, Panel
from panels.rows import EMPTY, Row, crop_middle, fit, join, join_fitting, spread, width
from panels.states import alarm_row, engine_state, operation_state, running_phase
from panels.text import age, clean, duration, figure, name_of, number, percent, tok_s

_GAP = ("  ", "text")
_SHOWN_AFTER_S = 15.0
"""How long the outcome of an operation stays in the header."""


class Header(Panel):
    """Two rows: state, model, drafter, depth, load and uptime; then the operation, the alarm or the surroundings."""

    TITLE: ClassVar[str] = "Engine"
    FRAME: ClassVar[Frame] = Frame.NONE

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """The two rows, with one cell of air at each side."""
        room = cells - 2
        lines = [_identity(snapshot, room), _second(snapshot, room)]
        return [((" ", "text"), *fit(line, room), (" ", "text")) for line in lines[:rows]]


def _identity(snapshot: Snapshot, cells: int) -> Row:
    """Row one: state, model + drafter, then as much of depth, load, uptime and rig as fits; SIMULATED at the right."""
    engine = snapshot.engine
    right: Row = ((" SIMULATED ", "badge"),) if snapshot.simulated else EMPTY
    state = engine_state(engine)
    room = cells - width(state) - (width(right) + 1 if right else 0) - 2
    names_whole = width(_names(engine, 200))
    fixed = join(_facts(snapshot, "running"), _GAP)
    if names_whole + 2 + width(fixed) > room:
        least = min(room, names_whole, 20)
        fixed = join_fitting(_facts(snapshot, "run"), max(0, room - least - 2), _GAP)
    names = _names(engine, room - width(fixed) - (2 if fixed else 0))
    left = state
    for part in (names, fixed):
        if part:
            left = (*left, _GAP, *part)
    used = width(left)
    if snapshot.rig and used + len(snapshot.rig) + 6 + width(right) < cells:
        left = (*left, _GAP, ("rig ", "dim"), (clean(snapshot.rig), "label"))
    return spread(left, right, cells)


def _facts(snapshot: Snapshot, word: str) -> list[Row]:
    """Depth, load and uptime, the most important first."""
    return [part for part in (_depth(snapshot), *_load(snapshot, word), _uptime(snapshot)) if part]


def _names(engine: Engine, cells: int) -> Row:
    if not engine.model or cells < 4:
        return EMPTY
    model = name_of(engine.model)
    if not engine.drafter:
        word = "no speculation" if not engine.algorithm else engine.algorithm.lower()
        tail: Row = ((f"  {clean(word)}", "dim"),)
        return ((crop_middle(model, cells), "value"),) + (tail if cell_len(model) + width(tail) <= cells else EMPTY)
    drafter = name_of(engine.drafter)
    if cell_len(model) + 3 + cell_len(drafter) > cells:
        model = crop_middle(model, max((cells - 3) // 2, cells - 3 - cell_len(drafter)))
        drafter = crop_middle(drafter, cells - 3 - cell_len(model))
    return ((model, "value"), (" + ", "dim"), (drafter, "accent"))


def _depth(snapshot: Snapshot) -> Row:
    acceptance, engine = snapshot.acceptance, snapshot.engine
    if not engine.algorithm and acceptance.depth.value is None:
        return EMPTY
    now = acceptance.depth.value if acceptance.depth.value is not None else engine.depth_launch
    how = {True: " pinned", False: " adaptive", None: ""}[acceptance.depth_pinned]
    return (("depth ", "label"), (number(now), "value"), (how, "label"))


def _load(snapshot: Snapshot, word: str) -> list[Row]:
    if snapshot.engine.state not in (EngineState.READY, EngineState.BUSY, EngineState.PAUSED):
        return []
    load = snapshot.load
    running = (*figure(load.running, number(load.running.value), snapshot), (f" {word}", "label"))
    parts: list[Row] = [running]
    if load.queued.value:
        parts.append(((number(load.queued.value), "warn"), (" queued", "label")))
    return parts


def _uptime(snapshot: Snapshot) -> Row:
    engine = snapshot.engine
    if engine.state in (EngineState.READY, EngineState.BUSY, EngineState.PAUSED):
        start = engine.ready_at_s if engine.ready_at_s is not None else engine.started_at_s
        return (("up ", "label"), (duration(age_s(start, snapshot)), "value")) if start is not None else EMPTY
    since = age_s(engine.since_s, snapshot)
    return (("for ", "label"), (duration(since), "value")) if since is not None else EMPTY


# ------------------------------------------------------------------------------------------------- row two


def _second(snapshot: Snapshot, cells: int) -> Row:
    operation = snapshot.operation
    if operation is not None and _worth_showing(operation, snapshot):
        return _operation(operation, snapshot, cells)
    if alarm_in_header(snapshot):
        alarm = snapshot.alarms[0]
        more = f"+{len(snapshot.alarms) - 1} more" if len(snapshot.alarms) > 1 else ""
        room = cells - (len(more) + 2 if more else 0)
        row = alarm_row(alarm, age(age_s(alarm.since_s, snapshot)))
        return spread(row if width(row) <= room else fit(row, room), ((more, "warn"),) if more else EMPTY, cells)
    engine = snapshot.engine
    if engine.failure is not None and engine.state is EngineState.DEAD:
        return fit(((clean(engine.failure.message), "bad"),), cells)
    phase = running_phase(engine)
    if phase is not None:
        return _start(engine, phase, cells)
    if engine.note:
        return fit(((clean(engine.note), "label"),), cells)
    return _surroundings(snapshot, cells)


def alarm_in_header(snapshot: Snapshot) -> bool:
    """Whether the header shows the first alarm; otherwise another panel has to."""
    if snapshot.operation is not None and _worth_showing(snapshot.operation, snapshot):
        return False
    return bool(snapshot.alarms) and not snapshot.alarms[0].acknowledged_by


def _worth_showing(operation: Operation, snapshot: Snapshot) -> bool:
    if operation.state is OperationState.RUNNING:
        return True
    ended = age_s(operation.ended_at_s, snapshot)
    return ended is not None and ended < _SHOWN_AFTER_S


def _operation(operation: Operation, snapshot: Snapshot, cells: int) -> Row:
    symbol, role = operation_state(operation)
    title = crop_middle(clean(operation.title or operation.kind), max(20, cells // 2 - 4))
    row: Row = ((f"{symbol} {title}", role),)
    if operation.state is not OperationState.RUNNING:
        words = f": {operation.state.value}"
        return fit((*row, (words, role), (f"  {clean(operation.message)}", "label")), cells)
    index = next((i for i, step in enumerate(operation.steps) if step.state is StepState.RUNNING), None)
    if index is not None:
        row += ((f"  step {index + 1}/{len(operation.steps)} ", "label"), (clean(operation.steps[index].name), "text"))
    spent = duration(age_s(operation.started_at_s, snapshot))
    row += ((f"  {spent}", "value"),)
    if operation.expected_s is not None:
        row += ((f" of about {duration(operation.expected_s)}", "label"),)
    tail: Row = ((f"by {clean(operation.by)}", "dim"),) if operation.by else EMPTY
    if not operation.cancellable:
        tail = (("past the point of no return  ", "dim"), *tail)
    return spread(row, tail, cells)


def _start(engine: Engine, phase: Phase, cells: int) -> Row:
    row: Row = ((clean(phase.label or phase.name), "text"),)
    if phase.progress is not None:
        row += ((f" {percent(phase.progress)}", "value"),)
    if phase.detail:
        row += ((f"  {clean(phase.detail)}", "dim"),)
    if engine.eta_s is None:
        return fit(row, cells)
    return spread(row, (("about ", "label"), (duration(engine.eta_s), "value"), (" to go", "label")), cells)


def _surroundings(snapshot: Snapshot, cells: int) -> Row:
    engine, load = snapshot.engine, snapshot.load
    parts: list[Row] = []
    if load.tok_s.value is not None:
        parts.append((*figure(load.tok_s, tok_s(load.tok_s.value), snapshot), (" tok/s", "label")))
    if load.token_usage.value is not None:
        parts.append((("KV ", "label"), *figure(load.token_usage, percent(load.token_usage.value), snapshot, "text")))
    words = [
        f"SGLang {clean(engine.version)}" if engine.version else "",
        f"tp {engine.tp}" if engine.tp else "",
        clean(engine.attention_backend),
        clean(engine.url),
        "attached, cannot be stopped from here" if engine.attached else "",
        f"profile {clean(engine.profile)}" if engine.profile else "",
        f"driver {clean(snapshot.driver)}" if snapshot.driver else "",
        "read only" if snapshot.agent.read_only else "",
        f"pid {engine.pid}" if engine.pid else "",
    ]
    if snapshot.agent.journal_note:
        parts.append(((f"not recording: {clean(snapshot.agent.journal_note)}", "warn"),))
    parts += [((word, "dim"),) for word in words if word]
    return join_fitting(parts, cells, (f" {glyphs.active().separator} ", "frame"))
