"""Words, symbols and roles of states, shared by every panel that names one."""

from __future__ import annotations

from console.rig import Alarm, Engine, EngineState, Operation, OperationState, Phase, StepState, Verdict
from panels import glyphs
from panels.rows import Row
from panels.text import clean


def engine_state(engine: Engine) -> Row:
    """The engine's state as a symbol and a word."""
    look = glyphs.active()
    symbol, role = {
        EngineState.NONE: (look.idle, "dim"),
        EngineState.STARTING: (look.busy, "warn"),
        EngineState.READY: (look.ok, "good"),
        EngineState.PAUSED: (look.paused, "warn"),
        EngineState.BUSY: (look.warn, "warn"),
        EngineState.STOPPING: (look.busy, "warn"),
        EngineState.STOPPED: (look.idle, "dim"),
        EngineState.DEAD: (look.bad, "bad"),
        EngineState.UNREACHABLE: (look.bad, "bad"),
    }[engine.state]
    word = "NO ENGINE" if engine.state is EngineState.NONE else engine.state.value.upper()
    return ((f"{symbol} {word}", role),)


def running_phase(engine: Engine) -> Phase | None:
    """The phase a start-up is in."""
    if engine.state is not EngineState.STARTING:
        return None
    return next((phase for phase in engine.phases if phase.started_at_s is not None and phase.seconds is None), None)


def verdict(verdict_: Verdict) -> tuple[str, str, str]:
    """Symbol, word and role of a verdict."""
    look = glyphs.active()
    return {
        Verdict.PAYS: (look.ok, "SPECULATION PAYS", "good"),
        Verdict.LOSES: (look.bad, "SPECULATION LOSES", "bad"),
        Verdict.UNCLEAR: (look.idle, "CANNOT TELL YET", "warn"),
    }[verdict_]


def step_state(state: StepState) -> tuple[str, str]:
    """Symbol and role of a step."""
    look = glyphs.active()
    return {
        StepState.WAITING: (look.idle, "dim"),
        StepState.RUNNING: (look.busy, "warn"),
        StepState.DONE: (look.done, "good"),
        StepState.FAILED: (look.bad, "bad"),
        StepState.SKIPPED: (look.dash, "dim"),
    }[state]


def operation_state(operation: Operation) -> tuple[str, str]:
    """Symbol and role of an operation."""
    look = glyphs.active()
    return {
        OperationState.RUNNING: (look.busy, "warn"),
        OperationState.DONE: (look.done, "good"),
        OperationState.FAILED: (look.bad, "bad"),
        OperationState.ROLLED_BACK: (look.warn, "warn"),
        OperationState.CANCELLED: (look.idle, "dim"),
    }[operation.state]


def level(name: str) -> tuple[str, str]:
    """Symbol and role of an event's or an alarm's level."""
    look = glyphs.active()
    return {"error": (look.bad, "bad"), "warn": (look.warn, "warn")}.get(name, (look.separator, "dim"))


def alarm_row(alarm: Alarm, seconds: str) -> Row:
    """One alarm: symbol, text, how long, likeliest cause."""
    symbol, role = level(alarm.level)
    row: Row = ((f"{symbol} {clean(alarm.text)}", role),)
    if seconds:
        row += ((f" for {seconds}", "text"),)
    if alarm.causes:
        row += ((f" {glyphs.active().arrow} {clean(alarm.causes[0])}", "label"),)
    if alarm.acknowledged_by:
        row += ((f" (seen by {clean(alarm.acknowledged_by)})", "dim"),)
    return row
