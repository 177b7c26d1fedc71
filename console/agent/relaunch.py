"""Bringing up a configuration, in place of another one or of none, and the way back when it does not come up."""

from __future__ import annotations

import asyncio
import logging
import time

from console.agent import forecast, ports, verify
from console.agent.configuration import Configuration
from console.agent.forecast import Forecast
from console.agent.handle import Measured
from console.agent.live import LiveControl
from console.agent.operate import RolledBackError, Run
from console.agent.prepare import Prepared, Preparer, address_of
from console.agent.stopping import STEPS
from console.agent.supervise import Supervisor
from console.errors import ConsoleError

log = logging.getLogger(__name__)

CHECK = "check the launch"
CLEAN = "end what a dead engine left behind"
START = "launch the engine"
READY = "wait for its first token"
PIN = "set the depth"
BACK = "bring back what ran before"
HISTORY_S = 90 * 86400.0


class Relauncher:
    """Starts engines for operations.

    Args:
        supervisor: the engine's life.
        preparer: checks launches.
        measure: the journal of earlier starts and stops.
        live: changes without a restart.
    """

    def __init__(self, supervisor: Supervisor, preparer: Preparer, measure: Measured, live: LiveControl) -> None:
        self.supervisor = supervisor
        self._preparer = preparer
        self._measure = measure
        self._live = live

    async def prepare(self, configuration: Configuration) -> Prepared:
        """Check a configuration; the port of the engine that runs is free by then.

        Raises:
            ConsoleError: it cannot be launched, and why.
        """
        held = None
        if self.supervisor.alive and (record := self.supervisor.record) is not None:
            held = address_of(record)[1]
        return await asyncio.to_thread(self._preparer.prepare, configuration, replacing_port=held)

    async def forecast(self, configuration: Configuration) -> Forecast:
        """Seconds until a configuration is ready."""
        starts = await asyncio.to_thread(self._measure.starts, configuration.profile.name)
        return forecast.restart(starts, await self.operations(), with_stop=self.supervisor.alive)

    async def forecast_stop(self) -> Forecast:
        """Seconds until the engine has ended."""
        seconds = forecast.stop_s(await self.operations())
        return Forecast(seconds, "earlier stops" if seconds is not None else "")

    async def operations(self) -> list[dict[str, object]]:
        """Earlier operations, oldest first; none when the journal cannot be read: they are for estimates only."""
        now = time.time()
        try:
            return await asyncio.to_thread(self._measure.history, "operations", now - HISTORY_S, now)
        except ConsoleError as error:
            log.warning("no estimate: %s", error.line)
            return []

    async def replace(self, wanted: Configuration, run: Run) -> str:
        """Stop what runs, launch ``wanted``, and go back when it does not come up.

        Returns:
            The outcome in one line.

        Raises:
            RolledBackError: ``wanted`` failed and the former configuration runs again.
            ConsoleError: it could not be launched, or the way back failed, too.
        """
        stops = STEPS if self.supervisor.alive else ()
        run.plan([CHECK, *stops, CLEAN, START, READY, PIN])
        run.step(CHECK)
        prepared = await self.prepare(wanted)
        before = self.supervisor.record.configuration if self.supervisor.alive and self.supervisor.record else None
        if before is not None:
            run.cancellable(possible=False)
            await self.supervisor.stop(run)
        try:
            return await self._bring_up(prepared, run)
        except ConsoleError as error:
            why = error
        except asyncio.CancelledError:
            if not run.cancelled:
                raise
            await self._undo_start(run)
            if before is None:
                raise
            why = ConsoleError("it was cancelled")
        back = self.supervisor.last_good or before
        if before is None or back is None or back == wanted:
            raise why
        return await self.go_back(back, why, run)

    async def _bring_up(self, prepared: Prepared, run: Run) -> str:
        """Launch and wait; verified by the first token and the depth that was asked for."""
        if left := await self.supervisor.leftovers():
            run.cancellable(possible=False)
            run.step(CLEAN, f"{len(left)} processes")
            await self.supervisor.stop(_Detail(run))
        run.step(START)
        await self.supervisor.launch(prepared, by=run.by)
        run.step(READY)
        run.cancellable(possible=True)
        begun = time.monotonic()
        await self.supervisor.until_ready()
        took = ports.span(time.monotonic() - begun)
        note = await self._pin(prepared, run)
        if doubt := await verify.differences(self.supervisor.client(), prepared):
            note = "; ".join(filter(None, (note, doubt)))
        return f"{prepared.configuration.name} is ready after {took}" + (f"; {note}" if note else "")

    async def _pin(self, prepared: Prepared, run: Run) -> str:
        """Set the depth that could not be the one at launch, or that SGLang's own policy would leave.

        Returns:
            What there is to say of it.
        """
        launch = prepared.launch
        asked = prepared.configuration.depth
        wanted = asked if asked is not None else launch.wanted_depth
        if wanted is None or wanted not in launch.candidate_steps or (asked is None and wanted == launch.depth):
            return ""
        run.step(PIN, f"depth {wanted}")
        run.cancellable(possible=False)
        status = self._live.capabilities()
        if not status.depth_live:
            return f"SGLang's own policy decides from here on, depth {wanted} cannot be held: {status.depth_why or status.why}"
        try:
            await self._live.set_depth(wanted)
        except ConsoleError as error:
            return f"depth {wanted} could not be set: {error.line}"
        return f"depth {wanted}"

    async def _undo_start(self, run: Run) -> None:
        """A start that somebody took back: the engine that was starting is ended."""
        run.fail_step("cancelled")
        if self.supervisor.alive:
            await self.supervisor.stop(run)

    async def go_back(self, good: Configuration, why: ConsoleError, run: Run) -> str:
        """Launch ``good``, which ran before, in place of what runs now.

        Raises:
            RolledBackError: it runs again.
            ConsoleError: it does not.
        """
        run.fail_step(why.why or why.what)
        run.plan([BACK, START, READY, PIN])
        run.step(BACK, good.name)
        run.settle()
        try:
            if self.supervisor.alive:
                run.cancellable(possible=False)
                await self.supervisor.stop(_Detail(run))
            message = await self._bring_up(await self.prepare(good), run)
        except ConsoleError as error:
            raise ConsoleError(
                why.line, why=f"and {good.name} could not be brought back: {error.line}", todo=error.todo
            ) from error
        except asyncio.CancelledError:
            if run.cancelled:
                await self._undo_start(run)
            raise
        raise RolledBackError(f"taken back: {message}", why=why.line)


class _Detail:
    """A report within one step of another."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self, name: str, detail: str = "") -> None:
        self._run.detail(f"{name} {detail}".strip())

    def detail(self, text: str) -> None:
        self._run.detail(text)
