"""Changes to the rig: one at a time, shown before, told step by step, taken back or recorded."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from console import rig
from console.engine.logtext import sanitize
from console.errors import ConsoleError, ExitCode
from console.rig import OperationState, StepState

log = logging.getLogger(__name__)

BY_CHARS = 80


class BusyError(ConsoleError):
    """Another operation runs."""

    def __init__(self, running: str, by: str = "") -> None:
        asked = f", asked for by {by}" if by else ""
        super().__init__(f"busy: {running}{asked}", why="one operation at a time", todo="wait for it, or cancel it")


class RefusedError(ConsoleError):
    """It cannot be done; nothing was touched."""


class RolledBackError(ConsoleError):
    """It did not work out, and what was before is in force again."""


class NoReturnError(ConsoleError):
    """Cancel came too late, or there is nothing to cancel."""


class Run:
    """One running operation: the report of its steps, and the right to cancel it.

    Args:
        operation: as it begins.
        changed: called with each new state of it.
        clock: Unix seconds.
    """

    def __init__(
        self,
        operation: rig.Operation,
        changed: Callable[[rig.Operation], None] = lambda _operation: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.operation = operation
        self.cancelled = False
        """Somebody has asked for it to be taken back: told apart from the end of the agent."""
        self._changed = changed
        self._clock = clock
        self._step_begun_s = 0.0

    @property
    def by(self) -> str:
        """Who asked."""
        return self.operation.by

    def set(self, **changes: Any) -> None:
        """Change what is shown of it."""
        self.operation = msgspec.structs.replace(self.operation, **changes)
        self._changed(self.operation)

    def plan(self, names: Sequence[str]) -> None:
        """The steps to come; those that are done or run stay."""
        kept = [step for step in self.operation.steps if step.state is not StepState.WAITING]
        self.set(steps=(*kept, *(rig.Step(name) for name in names)))

    def step(self, name: str, detail: str = "") -> None:
        """The step before is done, this one runs; planned ones between them were not needed."""
        self._finish(StepState.DONE)
        steps = list(self.operation.steps)
        place = next(
            (at for at, step in enumerate(steps) if step.name == name and step.state is StepState.WAITING), None
        )
        running = rig.Step(name, StepState.RUNNING, detail)
        if place is None:
            waiting = next((at for at, step in enumerate(steps) if step.state is StepState.WAITING), len(steps))
            steps.insert(waiting, running)
        else:
            steps[:place] = [_skipped(step) for step in steps[:place]]
            steps[place] = running
        self._step_begun_s = self._clock()
        self.set(steps=tuple(steps))

    def detail(self, text: str) -> None:
        """More about the step that runs."""
        steps = tuple(
            msgspec.structs.replace(step, detail=text) if step.state is StepState.RUNNING else step
            for step in self.operation.steps
        )
        if steps != self.operation.steps:
            self.set(steps=steps)

    def cancellable(self, *, possible: bool) -> None:
        """Whether it can still be taken back."""
        if possible is not self.operation.cancellable:
            self.set(cancellable=possible)

    def settle(self) -> None:
        """Who asked has cancelled it and it is being taken back: that is work, not the end of the task."""
        if self.cancelled and (task := asyncio.current_task()) is not None:
            self.cancelled = False
            task.uncancel()

    def end(self, state: OperationState, message: str) -> None:
        """The end: the running step is done or failed (the way back ended well, too), what waits was not needed."""
        good = state in {OperationState.DONE, OperationState.ROLLED_BACK}
        self._finish(StepState.DONE if good else StepState.FAILED)
        steps = tuple(_skipped(step) for step in self.operation.steps)
        self.set(state=state, message=message, ended_at_s=self._clock(), steps=steps, cancellable=False)

    def fail_step(self, detail: str) -> None:
        """The step that runs has failed; the operation goes on (back)."""
        self.detail(detail)
        self._finish(StepState.FAILED)

    def _finish(self, state: StepState) -> None:
        seconds = self._clock() - self._step_begun_s
        steps = tuple(
            msgspec.structs.replace(step, state=state, seconds=seconds) if step.state is StepState.RUNNING else step
            for step in self.operation.steps
        )
        if steps != self.operation.steps:
            self.set(steps=steps)


def _skipped(step: rig.Step) -> rig.Step:
    return msgspec.structs.replace(step, state=StepState.SKIPPED) if step.state is StepState.WAITING else step


class Action(Protocol):
    """One kind of operation."""

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """What it would do.

        Raises:
            ConsoleError: the arguments are none for it.
        """

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Do it.

        Returns:
            The outcome, verified, in one line.

        Raises:
            RolledBackError: it was taken back.
            ConsoleError: it failed.
            asyncio.CancelledError: it was cancelled, after taking back what it had done if ``run.cancelled``.
        """


class Operator:
    """Runs operations, one at a time.

    Args:
        actions: by kind.
        record: keeps each state of an operation for good.
        changed: called when something that is shown has changed.
        clock: Unix seconds.
    """

    def __init__(
        self,
        actions: Mapping[str, Action],
        *,
        record: Callable[[rig.Operation], None],
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._actions = actions
        self._record = record
        self._changed = changed
        self._clock = clock
        self._run: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._reserved = ""

    @property
    def operation(self) -> rig.Operation | None:
        """The running one, else the last one."""
        return self._run.operation if self._run is not None else None

    @property
    def running(self) -> bool:
        """Whether one runs."""
        return self._task is not None and not self._task.done()

    async def preview(self, kind: str, args: Mapping[str, Any]) -> rig.Preview:
        """What an operation would do; one that cannot be done at all says so in ``refused``.

        Raises:
            ConsoleError: unknown kind, or arguments that are none for it.
        """
        action = self._actions.get(kind)
        if action is None:
            kinds = ", ".join(self._actions)
            raise ConsoleError(f"no operation {sanitize(kind)!r}", todo=f"one of {kinds}", code=ExitCode.USAGE)
        return await action.preview(args)

    async def start(self, kind: str, args: Mapping[str, Any], by: str) -> rig.Operation:
        """Begin an operation.

        Raises:
            BusyError: another one runs.
            RefusedError: it cannot be done.
            ConsoleError: unknown kind, or arguments that are none for it.
        """
        self._refuse_if_busy()
        self._reserved = kind
        try:
            preview = await self.preview(kind, args)
        finally:
            self._reserved = ""
        if preview.refused:
            raise RefusedError(f"{preview.title or kind} is refused", why=preview.refused)
        operation = rig.Operation(
            id=uuid.uuid4().hex[:12],
            kind=kind,
            title=preview.title,
            by=sanitize(by, limit_chars=BY_CHARS),
            path=preview.path,
            started_at_s=self._clock(),
            expected_s=preview.expected_s,
            before="; ".join(f"{change.what} {change.before}" for change in preview.changes if change.before),
            after="; ".join(f"{change.what} {change.after}" for change in preview.changes if change.after),
            cancellable=True,
        )
        self._run = Run(operation, lambda _operation: self._changed(), self._clock)
        self._record(operation)
        self._task = asyncio.create_task(self._do(self._actions[kind], args, self._run), name=f"operation {kind}")
        self._task.add_done_callback(functools.partial(self._close_unbegun, self._run))
        self._changed()
        return operation

    def _close_unbegun(self, run: Run, _task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never runs: its operation ends here."""
        if run.operation.state is OperationState.RUNNING:
            run.end(OperationState.CANCELLED if run.cancelled else OperationState.FAILED, "ended before it began")
            self._record(run.operation)

    def _refuse_if_busy(self) -> None:
        if self.running and self.operation is not None:
            raise BusyError(self.operation.title, self.operation.by)
        if self._reserved:
            raise BusyError(self._reserved)

    async def _do(self, action: Action, args: Mapping[str, Any], run: Run) -> None:
        try:
            message = await action.run(args, run)
        except RolledBackError as error:
            run.end(OperationState.ROLLED_BACK, error.line)
        except ConsoleError as error:
            run.end(OperationState.FAILED, error.line)
        except asyncio.CancelledError:
            if not run.cancelled:
                run.end(OperationState.FAILED, "the agent ended while this ran; the engine was left as it was")
                self._record(run.operation)
                raise
            run.end(OperationState.CANCELLED, "cancelled")
        except Exception as error:  # whatever it is, the slot must become free and the operator must know
            log.exception("operation %s failed", run.operation.kind)
            run.end(OperationState.FAILED, f"the agent's own fault: {type(error).__name__}: {error}")
        else:
            run.end(OperationState.DONE, message)
        self._record(run.operation)

    def cancel(self, by: str) -> rig.Operation:
        """Take the running operation back.

        Raises:
            NoReturnError: nothing runs, or it is past the point of no return.
        """
        run, task = self._run, self._task
        if run is None or task is None or task.done():
            raise NoReturnError("nothing to cancel", why="no operation runs")
        if not run.operation.cancellable:
            step = next((step.name for step in run.operation.steps if step.state is StepState.RUNNING), "")
            raise NoReturnError(
                f"{run.operation.title} cannot be cancelled now",
                why=f"it is past the point of no return ({step})" if step else "it is past the point of no return",
                todo="wait for its end",
            )
        log.info("%s cancelled by %s", run.operation.title, by)
        run.cancelled = True
        run.set(cancellable=False, message=f"being cancelled by {sanitize(by, limit_chars=BY_CHARS)}")
        task.cancel()
        return run.operation

    async def wait(self) -> rig.Operation | None:
        """Wait until nothing runs; the last operation."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        return self.operation

    async def close(self) -> None:
        """The agent ends."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
