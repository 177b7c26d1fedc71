"""Launching an engine that died again: the restart policy as an operation that everybody sees and may cancel."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from console import rig
from console.agent import restarts
from console.agent.crash_report import Death
from console.agent.events import EventLog
from console.agent.operate import BusyError, Operator, Run
from console.agent.ports import span
from console.agent.relaunch import Relauncher
from console.agent.restarts import BY
from console.agent.supervise import Supervisor
from console.errors import ConsoleError, ExitCode
from console.rig import OperationState

log = logging.getLogger(__name__)

KIND = "recover"
WAIT = "wait before the launch"


class Recover:
    """The operation: wait, then launch the engine that died once more.

    Args:
        relauncher: starts engines.
    """

    def __init__(self, relauncher: Relauncher) -> None:
        self._relauncher = relauncher

    async def preview(self, args: Mapping[str, Any]) -> rig.Preview:
        """What would be launched; whether it can be is checked after the wait."""
        wait_s = _wait_s(args)
        supervisor = self._relauncher.supervisor
        record = supervisor.record
        refused = ""
        if supervisor.alive:
            refused = "an engine runs"
        elif supervisor.attached_url:
            refused = f"attached to {supervisor.attached_url}: detach first"
        elif record is None:
            refused = "nothing was launched on this rig yet: console run PROFILE"
        if record is None or refused:
            return rig.Preview(KIND, "launch it again", "restart", refused=refused)
        which = args.get("attempt")
        attempt = f" (attempt {which})" if isinstance(which, str) and which else ""
        expected = await self._relauncher.forecast(record.configuration)
        return rig.Preview(
            KIND,
            f"launch {record.configuration.name} again after its end{attempt}",
            "restart",
            changes=(rig.Change("engine", "dead", "started anew"),),
            expected_s=None if expected.seconds is None else wait_s + expected.seconds,
            expected_from=expected.rests_on,
        )

    async def run(self, args: Mapping[str, Any], run: Run) -> str:
        """Wait and launch; may be cancelled like any launch."""
        wait_s = _wait_s(args)
        if wait_s:
            run.step(WAIT, span(wait_s))
            await asyncio.sleep(wait_s)
        record = self._relauncher.supervisor.record
        if record is None:
            raise ConsoleError("nothing was launched on this rig yet")
        return await self._relauncher.replace(record.configuration, run)


def _wait_s(args: Mapping[str, Any]) -> float:
    value = args.get("wait_s", 0.0)
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or not 0 <= value <= restarts.LONGEST_WAIT_S:
        raise ConsoleError(
            "wait_s is no time to wait", todo=f"give 0 to {restarts.LONGEST_WAIT_S:g} seconds", code=ExitCode.USAGE
        )
    return float(value)


class Recovery:
    """Applies the restart policy of the profile of whatever engine died.

    Args:
        supervisor: the engine's life.
        operator: runs the launch.
        events: where each decision is told.
        history: rows of the journal; blocks.
        clock: Unix seconds.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        operator: Operator,
        events: EventLog,
        *,
        history: Callable[[str, float, float], list[dict[str, Any]]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._supervisor = supervisor
        self._operator = operator
        self._events = events
        self._history = history
        self._clock = clock
        self._launches_at_s: set[float] = set()
        self._death: Death | None = None
        self._task: asyncio.Task[None] | None = None

    def died(self, death: Death) -> None:
        """An engine has died; returns at once."""
        self._death = death
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._recover(), name="restart policy")
            self._task.add_done_callback(_tell_fault)

    async def _recover(self) -> None:
        """Launch until it runs, somebody else acts, or the policy says no."""
        while True:
            await self._operator.wait()
            death = self._death
            if death is None or self._supervisor.alive or self._supervisor.record is None:
                return
            if self._supervisor.record.launch_id != death.record.launch_id:
                return  # another engine has been launched since
            decision = await self._decide(death)
            if decision.wait_s is None:
                if decision.why:
                    self._events.add("error", f"restart policy: not launched again: {decision.why}", "restart")
                return
            try:
                done = await self._launch(death, decision)
            except BusyError:
                continue  # somebody was quicker; seen what became of it, it is decided anew
            except ConsoleError as error:
                self._events.add("error", f"restart policy: {error.line}", "restart")
                return
            if done is not None and done.state is not OperationState.FAILED and self._death is death:
                return  # it runs, or somebody has cancelled it

    async def _decide(self, death: Death) -> restarts.Decision:
        policy = death.record.configuration.profile.engine
        now_s = self._clock()
        rows: list[dict[str, Any]] = []
        try:
            rows = await asyncio.to_thread(self._history, "operations", now_s - policy.restart_window_s, now_s)
        except ConsoleError as error:
            log.warning("%s", error.line)  # its own launches are known all the same
        told = {float(row["started_at_s"]) for row in rows if row.get("by") == BY and "started_at_s" in row}
        ended = death.ended
        return restarts.decide(
            policy,
            ended.failure or rig.Failure("ended", "it ended without a word"),
            launches_at_s=sorted(self._launches_at_s | told),
            now_s=now_s,
            was_ready=death.record.ready_at_s is not None,
            by_policy=death.record.by == BY,
            watched=death.watched,
        )

    async def _launch(self, death: Death, decision: restarts.Decision) -> rig.Operation | None:
        limit = death.record.configuration.profile.engine.restart_limit
        attempt = f"{decision.attempt} of {limit}"
        args = {"wait_s": decision.wait_s, "attempt": attempt}
        operation = await self._operator.start(KIND, args, BY)
        self._launches_at_s.add(operation.started_at_s)
        wait = span(decision.wait_s or 0.0)
        self._events.add("warn", f"restart policy: launching it again in {wait} (attempt {attempt})", "restart")
        done = await self._operator.wait()
        if done is not None and done.id == operation.id:
            return done
        return None

    async def close(self) -> None:
        """The agent ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _tell_fault(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the restart policy failed", exc_info=error)
