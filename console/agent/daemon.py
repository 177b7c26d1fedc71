"""The rig's daemon: one a rig, everything put together here."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from console import rig
from console.agent import actions, agentlog, changes, environments, ledger, measurements, running, series
from console.agent.aftermath import Aftermath
from console.agent.alarm_hook import AlarmHook
from console.agent.applying import Apply
from console.agent.chart import Chart
from console.agent.configuration import Configuration
from console.agent.crash_report import Death
from console.agent.events import EventLog
from console.agent.gpus import open_source
from console.agent.guarded import Guarded
from console.agent.handle import Handle, Measured, engine_client
from console.agent.live import LiveControl
from console.agent.measure import Measure
from console.agent.operate import Operator
from console.agent.prepare import Preparer
from console.agent.probe_control import ProbeControl
from console.agent.publish import Publisher
from console.agent.pulls import Pulls
from console.agent.records import Records
from console.agent.recovery import Recover, Recovery
from console.agent.relaunch import Relauncher
from console.agent.shelf import Shelf
from console.agent.stopping import Patience
from console.agent.supervise import Supervisor
from console.environment import Matrix
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths
from profiles.schema import Profile

log = logging.getLogger(__name__)

LOG_TAIL_LINES = 50


class AlreadyRunningError(ConsoleError):
    """Another agent of this rig holds the lock."""


class Daemon:
    """One rig's agent. Make it on the event loop.

    Args:
        paths: the rig's files; the folders exist.
        measure: the measuring half.
        simulated: whether the rig is a simulated one.
        load: a profile by name or path.
        live: changes without a restart.
        preparer: checks launches.
        patience: how long ending an engine may take.
        client: makes HTTP clients of engines.
        period_s: between two snapshots.
    """

    def __init__(
        self,
        paths: RigPaths,
        measure: Measured,
        *,
        simulated: bool = False,
        load: Callable[[str], Profile] | None = None,
        live: LiveControl | None = None,
        preparer: Preparer | None = None,
        patience: Patience | None = None,
        client: Callable[[Handle], Any] = engine_client,
        period_s: float = 0.5,
    ) -> None:
        self.name = paths.name
        self._paths = paths
        self.simulated = simulated
        self._measure = measure
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.publisher = Publisher(self._snapshot, period_s=period_s)
        self.events = EventLog(measure.record_event, self.publisher.changed)
        loop = asyncio.get_running_loop()
        self._alarm_hook = AlarmHook(
            paths.name,
            paths.agent_log,
            lambda line: tell_in(loop, lambda: self.events.add("warn", line, "alarm")),
        )
        self._aftermath = Aftermath(paths, self.events, now=self._snapshot, history=measure.history)
        self.supervisor = Supervisor(
            paths,
            measure,
            self.events,
            changed=self.publisher.changed,
            patience=patience,
            client=client,
            on_death=self._died,
        )
        live = live or ProbeControl(self.supervisor, paths.probe, measure.probe_status, measure.probe_depths)
        self.records = Records(paths.dir)
        self.guarded = Guarded(self.publisher.newest, self.records, lambda: measure.fingerprint)
        self.shelf = Shelf(self.publisher.newest, lambda: self.supervisor.handle, self._profile, self.records)
        self.pulls = Pulls(self._pulled)
        relauncher = Relauncher(self.supervisor, preparer or Preparer(paths, simulated=simulated), measure, live)
        depth, swap = changes.Depth(relauncher, live, self.guarded), changes.Swap(relauncher, live, self.guarded)
        self.operator = Operator(
            {
                "launch": actions.Launch(relauncher, load or _load_profile),
                "stop": actions.Stop(relauncher),
                "restart": actions.Restart(relauncher),
                "recover": Recover(relauncher),
                "depth": depth,
                "swap": swap,
                "apply": Apply(relauncher, live, load or _load_profile, depth, swap, measure),
                "baseline": measurements.Baseline(relauncher, live, measure, paths),
                "calibrate": measurements.Calibrate(relauncher, live, measure, paths),
                "attach": actions.Attach(self.supervisor, client),
                "detach": actions.Detach(self.supervisor),
            },
            record=measure.record_operation,
            changed=self.publisher.changed,
        )
        self._recovery = Recovery(self.supervisor, self.operator, self.events, history=measure.history)

    def _died(self, death: Death) -> None:
        self._aftermath.died(death)
        self._recovery.died(death)

    def _snapshot(self) -> rig.Snapshot:
        tail = self.supervisor.tail
        lines = tail.tail(LOG_TAIL_LINES) if tail is not None else ()
        found = self._measure.snapshot(self.supervisor.engine(), self.operator.operation, self.events.newest(), lines)
        self._aftermath.seen(found)
        record = self.supervisor.record
        self._alarm_hook.seen(found, record.configuration.profile.alarm if record is not None else None)
        return found

    def _profile(self) -> Profile | None:
        """Of the engine that was started here."""
        record = self.supervisor.record
        return record.configuration.profile if record is not None and not self.supervisor.attached_url else None

    def _pulled(self, level: str, text: str) -> None:
        """A download has ended; told from its thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.events.add, level, text, "pull")

    # ------------------------------------------------------------------------------------------ for the routes

    def log_path(self) -> str:
        """Path of the engine's log; empty without one."""
        record = self.supervisor.record
        return record.log_path if record is not None and not self.supervisor.attached_url else ""

    def secrets(self) -> frozenset[str]:
        """Values to mask."""
        return self.supervisor.secrets

    def history(self, kind: str, since: float, until: float) -> list[dict[str, Any]]:
        """Rows of the journal. Blocks."""
        return self._measure.history(kind, since, until)

    def series(self, since: float, until: float, step: float) -> Chart:
        """Figures over time. Blocks."""
        return series.chart(self._paths.history, since, until, step)

    def acknowledge(self, alarm_id: str, by: str) -> bool:
        """Note who has seen an alarm; False when it does not hold."""
        known = self._measure.acknowledge(alarm_id, by)
        if known:
            self.events.add("info", f"alarm {alarm_id} seen by {by}", "alarm")
        return known

    async def environment(self) -> Matrix:
        """The engine's environment, process by process."""
        record = self.supervisor.record
        ours = record is not None and not self.supervisor.attached_url
        profile = record.configuration.profile if record is not None and ours else None
        identity = record.identity if record is not None and ours else None
        pid = identity.pid if identity is not None else None
        why = self._measure.probe_status().why
        reported = self._measure.environments()
        return await asyncio.to_thread(environments.matrix, profile, pid, reported, probe_why=why)

    def running(self) -> Configuration:
        """What was launched, with what was changed since.

        Raises:
            ConsoleError: no engine of this rig runs.
        """
        record = self.supervisor.record
        if record is None or not self.supervisor.alive or self.supervisor.attached_url:
            raise running.nothing_runs()
        return record.configuration

    def runs(self, kind: str, limit: int) -> list[ledger.Entry]:
        """The newest baselines and calibrations, oldest of them first. Blocks."""
        return [entry for entry in ledger.read(self._paths) if kind in ("", entry.kind)][-limit:]

    def stop(self) -> None:
        """End the agent soon; the engine lives."""
        self._ended.set()

    # ------------------------------------------------------------------------------------------ life

    async def serve(self, socket_path: Path, *, listening: Callable[[], None] = lambda: None) -> None:
        """Take over what is there, listen, and serve until :meth:`stop`."""
        from aiohttp import web

        from console.agent.listening import Listening
        from console.agent.service import application

        await self.supervisor.adopt()
        self._loop = asyncio.get_running_loop()
        publishing = asyncio.create_task(self.publisher.run(), name="publish")
        observing = asyncio.create_task(self.guarded.observe(), name="observe drafters")
        runner = web.AppRunner(application(self), access_log=None, shutdown_timeout=1.0, handle_signals=False)
        await runner.setup()
        door = Listening(runner, socket_path, self._paths.make)
        await door.begin()
        keeping = asyncio.create_task(door.keep(), name="keep the socket")
        listening()
        try:
            await self._ended.wait()
        finally:
            keeping.cancel()
            door.end()
            self.publisher.close()
            await self._recovery.close()
            await self._aftermath.close()
            await self.operator.close()
            for task in (keeping, publishing, observing):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(self.pulls.close)
            await runner.cleanup()
            await self.supervisor.close()


def tell_in(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call something on the event loop from a thread; nothing when the loop has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _load_profile(name: str) -> Profile:
    from profiles import store

    return store.load(name)


@contextlib.contextmanager
def single_instance(path: Path) -> Any:
    """Hold the rig's lock; the kernel lets go of it whatever happens to this process.

    Raises:
        AlreadyRunningError: another agent holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise AlreadyRunningError(
                "an agent of this rig runs already", why=f"pid {holder}" if holder else "", code=ExitCode.FAILED
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def run(name: str, *, simulated: bool = False, detached: bool = False, ready_fd: int = -1) -> int:
    """Run the agent of a rig until a signal or a request ends it; its exit code."""
    try:
        paths = RigPaths(name)
        paths.make()
        agentlog.set_up(paths.agent_log, detached=detached)
        with single_instance(paths.lock):
            os.chdir("/")
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            asyncio.run(_serve(paths, simulated=simulated, ready_fd=ready_fd))
    except AlreadyRunningError as error:
        _tell(ready_fd, b"ready" if detached else error.line.encode())  # whoever asked for an agent has one
        log.info("%s", error.line)
        return int(ExitCode.OK if detached else error.code)
    except ConsoleError as error:
        _tell(ready_fd, error.line.encode())
        log.error("%s", error.line)  # noqa: TRY400 - one line is all there is to say
        return int(error.code)
    except Exception as error:
        _tell(ready_fd, f"{type(error).__name__}: {error}".encode())
        log.exception("the agent failed")
        return int(ExitCode.FAILED)
    return int(ExitCode.OK)


async def _serve(paths: RigPaths, *, simulated: bool, ready_fd: int) -> None:
    measure = Measure(paths, open_source(simulated=simulated, rig_paths=paths), simulated=simulated)
    await measure.start()
    daemon = Daemon(paths, measure, simulated=simulated)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    log.info("agent of rig %s, pid %d", paths.name, os.getpid())
    try:
        await daemon.serve(paths.socket, listening=lambda: _tell(ready_fd, b"ready"))
    finally:
        await measure.stop()
        log.info("agent of rig %s ended", paths.name)


def _tell(ready_fd: int, text: bytes) -> None:
    """Answer whoever started this agent, once."""
    if ready_fd >= 0:
        with contextlib.suppress(OSError):
            os.write(ready_fd, text)
            os.close(ready_fd)
