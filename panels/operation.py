"""A change to the rig while it happens: every step with its state, its time and what it said."""

from __future__ import annotations

from typing import ClassVar

from console.rig import Operation, OperationState, Snapshot, Step, StepState, age_s
from panels import glyphs
from panels.bars import meter
from panels.base import Panel
from panels.rows import EMPTY, Row, fit, spread, wrap
from panels.states import operation_state, step_state
from panels.text import age, clean, duration, nothing


class OperationPanel(Panel):
    """The running operation, else the last one."""

    TITLE: ClassVar[str] = "Operation"

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:
        """Title, progress, steps, outcome."""
        operation = snapshot.operation
        if operation is None:
            return [nothing("", "nothing was changed yet")]
        out = [_title(operation, cells), _progress(operation, snapshot, cells)]
        steps = [_step(step) for step in operation.steps]
        tail: list[Row] = []
        if operation.before or operation.after:
            arrow = glyphs.active().arrow
            tail.append(((clean(operation.before), "label"), (f" {arrow} ", "dim"), (clean(operation.after), "value")))
        if operation.message:
            role = operation_state(operation)[1]
            tail += wrap(clean(operation.message), cells, "text" if role == "good" else role, 3)
        return [*out, *_around_running(steps, operation, rows - len(out) - len(tail)), *tail][:rows]

    def status(self, snapshot: Snapshot) -> Row:
        """Who asked, and whether it can still be stopped."""
        operation = snapshot.operation
        if operation is None:
            return EMPTY
        words = [f"by {clean(operation.by)}" if operation.by else "", clean(operation.path)]
        if operation.state is OperationState.RUNNING:
            words.append("can be cancelled" if operation.cancellable else "past the point of no return")
        return ((f" {glyphs.active().separator} ".join(word for word in words if word), "dim"),)


def _title(operation: Operation, cells: int) -> Row:
    symbol, role = operation_state(operation)
    word: Row = ((operation.state.value, role),)
    return spread(((f"{symbol} ", role), (clean(operation.title or operation.kind), "value")), word, cells)


def _progress(operation: Operation, snapshot: Snapshot, cells: int) -> Row:
    """Time spent against time expected; without an expectation, the time alone."""
    if operation.state is not OperationState.RUNNING:
        took = None if operation.ended_at_s is None else max(0.0, operation.ended_at_s - operation.started_at_s)
        words = f"took {duration(took)}, ended {age(age_s(operation.ended_at_s, snapshot)) or glyphs.active().dash} ago"
        return ((words, "label"),)
    spent = age_s(operation.started_at_s, snapshot) or 0.0
    if not operation.expected_s:
        return ((f"{duration(spent)}, no earlier run to tell how long it takes", "label"),)
    late = spent > operation.expected_s
    words = f" {duration(spent)} of about {duration(operation.expected_s)}"
    bar = meter(spent / operation.expected_s, min(40, max(0, cells - len(words) - 22)), "warn" if late else "bar")
    return fit((*bar, (words, "label"), (" longer than usual" if late else "", "warn")), cells)


def _step(step: Step) -> Row:
    symbol, role = step_state(step.state)
    row: Row = ((f"{symbol} ", role), (clean(step.name), "dim" if step.state is StepState.WAITING else "text"))
    if step.seconds is not None:
        row += ((f"  {duration(step.seconds) if step.seconds >= 10 else f'{step.seconds:.1f}s'}", "label"),)
    if step.detail:
        row += ((f"  {clean(step.detail)}", "bad" if step.state is StepState.FAILED else "dim"),)
    return row


def _around_running(steps: list[Row], operation: Operation, room: int) -> list[Row]:
    """The steps that fit, with the running or failed one among them."""
    if len(steps) <= room or room <= 0:
        return steps[: max(0, room)]
    at = next((i for i, s in enumerate(operation.steps) if s.state in (StepState.RUNNING, StepState.FAILED)), 0)
    first = min(max(0, at - room // 2), len(steps) - room)
    return steps[first : first + room]
