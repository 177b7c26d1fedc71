"""What the agent does once an engine has died by itself: it writes down all that was known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from console import rig
from console.agent import crash_report
from console.agent.crash_report import OPERATIONS_S, Death
from console.agent.events import EventLog
from console.errors import ConsoleError
from console.paths import RigPaths
from console.rig import EngineState

log = logging.getLogger(__name__)

ENDING_S = 3.0
"""How long a report may still take when the agent ends."""
GONE = frozenset({EngineState.NONE, EngineState.DEAD, EngineState.STOPPED})


class Aftermath:
    """Writes a crash report for each death, beside the event loop.

    Args:
        paths: the rig's files.
        events: where it is told.
        now: composes a snapshot.
        history: rows of the journal; blocks.
    """

    def __init__(
        self,
        paths: RigPaths,
        events: EventLog,
        *,
        now: Callable[[], rig.Snapshot],
        history: Callable[[str, float, float], list[dict[str, Any]]],
    ) -> None:
        self._paths = paths
        self._events = events
        self._now = now
        self._history = history
        self._before = rig.Snapshot()
        self._tasks: set[asyncio.Task[None]] = set()

    def seen(self, snapshot: rig.Snapshot) -> None:
        """Remember the last snapshot in which an engine lived."""
        if snapshot.engine.state not in GONE:
            self._before = snapshot

    def died(self, death: Death) -> None:
        """An engine has died; returns at once."""
        task = asyncio.create_task(self._report(death, self._before), name="crash report")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, death: Death, before: rig.Snapshot) -> None:
        try:
            at_s = death.ended.at_s
            rows = await self._operations(at_s - 2 * OPERATIONS_S, at_s)
            found = crash_report.compose(self._paths.name, death, before=before, now=self._now(), operations=rows)
            kept = await asyncio.to_thread(crash_report.write, self._paths.crashes, found)
        except OSError as error:
            why = error.strerror or str(error)
            self._events.add("warn", f"no crash report: {self._paths.crashes} cannot be written: {why}", "agent")
        except Exception as error:  # a report that fails must not end the supervision
            log.exception("the crash report failed")
            self._events.add("warn", f"no crash report: {type(error).__name__}: {error}", "agent")
        else:
            self._events.add("info", f"crash report {kept.id}: console history show {kept.id}", "crash")

    async def _operations(self, since_s: float, until_s: float) -> list[dict[str, Any]]:
        """What was changed before; none when the journal cannot be read, which costs the report nothing else."""
        try:
            return await asyncio.to_thread(self._history, "operations", since_s, until_s)
        except ConsoleError as error:
            log.warning("a crash report without the changes before it: %s", error.line)
            return []

    async def close(self) -> None:
        """The agent ends: what is being written is finished."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ENDING_S)
