"""Everything that is measured, behind one object: the daemon tells it of the engine and asks for snapshots.

All methods are called on the event loop and return at once; what may block (the GPU driver, /proc, the journal)
runs in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from console import __version__, rig
from console.agent import compose, record
from console.agent.adapt import LogFeed
from console.agent.alarm import Alarms
from console.agent.engine_feed import EngineFeed
from console.agent.fingerprint import fingerprint, launcher_environment, parts
from console.agent.gpus import GpuSampler, GpuSource, used_bytes_by_pid, with_ranks
from console.agent.history import Ring
from console.agent.probe_feed import ProbeFeed
from console.agent.procs import ProcessTable, ranks_by_order, ranks_by_pid
from console.agent.readings import Readings
from console.agent.record import Journal
from console.engine.batches import DecodeBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.engine.log import LogEvent
    from console.paths import RigPaths
    from profiles.schema import Profile

log = logging.getLogger(__name__)

PROCESSES_PERIOD_S = 5.0
SAMPLE_PERIOD_S = 1.0
EVENTS_SHOWN = 100
ALARM_EVENTS_KEPT = 50


class EngineHandle(Protocol):
    """What the daemon knows of the engine it started, adopted or attached."""

    @property
    def url(self) -> str:
        """Base URL of its HTTP server."""

    @property
    def api_key(self) -> str:
        """Empty: none."""

    @property
    def admin_key(self) -> str:
        """Empty: none."""

    @property
    def pid(self) -> int | None:
        """Of the launcher; ``None`` for an engine on another box."""

    @property
    def profile(self) -> Profile | None:
        """What it was started from; ``None`` when it was only attached."""

    @property
    def started_at(self) -> float | None:
        """Unix seconds."""


class Measure:
    """Samples, keeps and composes.

    Args:
        rig_paths: the rig's files.
        gpu_source: where GPU readings come from.
        simulated: said in every snapshot.
        clock: Unix seconds.
        engine_feed: makes the feed that asks an engine over HTTP.
        journal: the rig's journal when something else than the default is wanted.
    """

    def __init__(
        self,
        rig_paths: RigPaths,
        gpu_source: GpuSource,
        *,
        simulated: bool = False,
        clock: Callable[[], float] = time.time,
        engine_feed: Callable[[EngineHandle], EngineFeed] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._paths = rig_paths
        self._simulated = simulated
        self._clock = clock
        self._make_feed = engine_feed or (lambda handle: EngineFeed(handle, clock=clock))
        self._sampler = GpuSampler(gpu_source, clock=clock)
        self.journal = journal or Journal(rig_paths.history, clock=clock)
        self._agent = rig.AgentInfo(
            pid=os.getpid(), version=__version__, started_at_s=clock(), host=socket.gethostname()
        )
        self._handle: EngineHandle | None = None
        self._profile: Profile | None = None
        self._feed: EngineFeed | None = None
        self._probe = ProbeFeed(rig_paths.probe)
        self._log = LogFeed()
        self._table = ProcessTable()
        self._processes: tuple[rig.Process, ...] = ()
        self._environment: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._ring = Ring()
        self._alarms = Alarms()
        self._alarm_events: deque[rig.Event] = deque(maxlen=ALARM_EVENTS_KEPT)
        self._seq = 0
        self._sampled_at_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()

    # ---------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Start the GPU thread, the journal and the process task."""
        self._sampler.start()
        self.journal.start()
        self._tasks = [asyncio.create_task(self._follow_processes(), name="processes")]

    async def stop(self) -> None:
        """Stop everything; the journal writes what waits."""
        self.engine_changed(None)
        for task in (*self._tasks, *self._ending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._probe.close()
        await asyncio.to_thread(self._sampler.stop)
        await asyncio.to_thread(self.journal.stop)

    def engine_changed(self, handle: EngineHandle | None) -> None:
        """Another engine, or none: what was known of the former is forgotten."""
        if self._feed is not None:
            task = asyncio.get_running_loop().create_task(self._feed.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._handle = handle
        self._profile = handle.profile if handle is not None else None
        self._feed = None
        self._log = LogFeed()
        self._probe.forget(_since(handle, self._clock()))
        self._processes = ()
        self._environment = {}
        if handle is not None:
            self._feed = self._make_feed(handle)
            self._feed.start()

    def log_batch(self, event: LogEvent | DecodeBatch) -> None:
        """A line of the engine's log; all but decode lines are passed over."""
        batch = event if isinstance(event, DecodeBatch) else event.batch
        if not isinstance(batch, DecodeBatch):
            return
        now = self._clock()
        self._log.take(batch, min(now, batch.at_s) if batch.at_s is not None else now)

    # -------------------------------------------------------------------------------------- answers

    def snapshot(
        self,
        engine: rig.Engine,
        operation: rig.Operation | None,
        events: tuple[rig.Event, ...],
        log_tail: tuple[str, ...],
    ) -> rig.Snapshot:
        """What is known now, composed with what the daemon knows."""
        self._seq += 1
        now = self._clock()
        engine = self._filled(engine)
        gpus, gpu_note, driver = self._gpus(engine)
        profile = self._profile
        composed = compose.compose(
            compose.Inputs(
                now_s=now,
                seq=self._seq,
                rig_name=self._paths.name,
                simulated=self._simulated,
                agent=msgspec.structs.replace(self._agent, journal_note=self.journal.note),
                engine=engine,
                gpus=gpus,
                gpu_note=gpu_note,
                driver=driver,
                readings=self._readings(engine),
                baseline=compose.baseline_of(profile, self.fingerprint),
                goals_tok_s=profile.targets.goals_tok_s if profile is not None else (),
                operation=operation,
                events=events,
                log_tail=log_tail,
            )
        )
        self._ring.add(now, composed.cycle, composed.acceptance, composed.load)
        alarms, changes = self._alarms.update(composed)
        for change in changes:
            self._alarm_events.append(change)
            self.journal.event(change)
        snapshot = msgspec.structs.replace(
            composed, history=self._ring.history(), alarms=alarms, events=self._merged(events)
        )
        if abs(now - self._sampled_at_s) >= SAMPLE_PERIOD_S - 0.05:  # a clock that was set back, too
            self._sampled_at_s = now
            self.journal.sample(snapshot)
        return snapshot

    def gpu_pids(self) -> dict[int, int]:
        """GPU memory by process, over all GPUs: whether an ended engine has let go of it."""
        return used_bytes_by_pid(self._sampler.latest()[0])

    @property
    def fingerprint(self) -> str:
        """Of the rig as it runs now; empty until the engine has told its arguments."""
        return fingerprint(found) if (found := self.fingerprint_parts()) else ""

    def fingerprint_parts(self) -> dict[str, str]:
        """What the fingerprint is made of, by name."""
        if self._feed is None or not self._feed.arguments:
            return {}
        gpus, _, driver = self._sampler.latest()
        return parts(
            driver=driver,
            gpus=gpus,
            sglang=self._feed.facts.version,
            arguments=self._feed.arguments,
            environment=self._environment,
        )

    @property
    def http_answered_at_s(self) -> float | None:
        """When the engine's HTTP server last answered anything; ``None``: never."""
        return self._feed.answered_at_s if self._feed is not None else None

    @property
    def http_error(self) -> str:
        """Why the engine's HTTP server does not answer; empty while it does."""
        return self._feed.error if self._feed is not None else ""

    def environments(self) -> dict[int | None, dict[str, str]]:
        """The speed-relevant environment of the launcher (``None``) and, through the probe, of each rank."""
        return {None: self._environment, **self._probe.environments}

    def stage_totals(self) -> dict[str, tuple[float, int]]:
        """Seconds and rounds of each stage since the first rank's start; empty without a probe."""
        self._probe.poll(self._clock())
        return self._probe.stage_totals()

    def probe_status(self) -> rig.ProbeStatus:
        """What the probe can do now."""
        self._probe.poll(self._clock())
        return self._probe.status

    def probe_depths(self) -> tuple[int | None, int | None, tuple[int, ...]]:
        """Depth in use, depth pinned by the console, and depths with prebuilt state, by the newest feed."""
        self._probe.poll(self._clock())
        return (*self._probe.depths, self._probe.candidate_steps)

    def profile_changed(self, profile: Profile) -> None:
        """The running engine's profile holds other targets from now on."""
        if self._handle is not None:
            self._profile = profile

    def acknowledge(self, alarm_id: str, by: str) -> bool:
        """Note that somebody has seen an alarm; False when it does not hold."""
        return self._alarms.acknowledge(alarm_id, by)

    # -------------------------------------------------------------------------------------- history

    def record_operation(self, operation: rig.Operation) -> None:
        """Keep the newest state of an operation."""
        self.journal.operation(operation)

    def record_event(self, event: rig.Event) -> None:
        """Keep an event."""
        self.journal.event(event)

    def record_start(self, start: record.Start) -> None:
        """Keep how long a start took."""
        self.journal.engine_start(start)

    def history(self, kind: str, since: float, until: float) -> list[dict[str, Any]]:
        """Rows of the journal, oldest first; ``kind`` is one of :data:`console.agent.record.KINDS`."""
        return record.read_history(self.journal.path, kind, since, until)

    def starts(self, profile: str) -> list[record.Start]:
        """Earlier starts of a profile that got ready, newest first."""
        return record.read_starts(self.journal.path, profile)

    # --------------------------------------------------------------------------------------- inside

    def _readings(self, engine: rig.Engine) -> Readings:
        now = self._clock()
        self._probe.poll(now)
        feed = self._feed
        windows = [self._probe.window, *(feed.windows if feed is not None else ()), self._log.window]
        gauges = [self._probe.gauges, *(feed.gauges if feed is not None else ()), self._log.gauges]
        why = feed.why if feed is not None else {"engine": "no engine"}
        return Readings(
            windows=tuple(window for window in windows if window is not None),
            gauges=tuple(entry for entry in gauges if entry is not None),
            depth_launch=engine.depth_launch,
            depth_pinned=self._probe.pinned,
            why=why,
            probe=self._probe.status,
        )

    def _gpus(self, engine: rig.Engine) -> tuple[tuple[rig.Gpu, ...], str, str]:
        gpus, note, driver = self._sampler.latest()
        if self._handle is None or not gpus:
            return gpus, note, driver
        ranks = ranks_by_pid(gpus, engine.processes)
        if not ranks and engine.tp and self._feed is not None and self._feed.arguments and self._handle.pid is not None:
            arguments = self._feed.arguments
            ranks = ranks_by_order(
                gpus,
                tp=engine.tp,
                visible=self._environment.get("CUDA_VISIBLE_DEVICES"),
                first=_whole(arguments.get("base_gpu_id"), 0),
                step=_whole(arguments.get("gpu_id_step"), 1),
            )
        ours = frozenset(entry.pid for entry in engine.processes)
        return with_ranks(gpus, ranks, ours, self._names), note, driver

    def _filled(self, engine: rig.Engine) -> rig.Engine:
        """What the daemon left open, from what the engine says of itself."""
        changes: dict[str, Any] = {}
        if not engine.processes and self._processes:
            changes["processes"] = self._processes
        if self._feed is not None:
            facts = self._feed.facts
            for name in ("version", "model", "drafter", "algorithm", "attention_backend", "attention_mode"):
                if not getattr(engine, name) and getattr(facts, name):
                    changes[name] = getattr(facts, name)
            for name in ("tp", "topk", "depth_launch", "draft_tokens", "max_running"):
                if getattr(engine, name) is None and getattr(facts, name) is not None:
                    changes[name] = getattr(facts, name)
        if not engine.candidate_steps and self._probe.candidate_steps:
            changes["candidate_steps"] = self._probe.candidate_steps
        return msgspec.structs.replace(engine, **changes) if changes else engine

    def _merged(self, events: tuple[rig.Event, ...]) -> tuple[rig.Event, ...]:
        if not self._alarm_events:
            return events
        merged = sorted((*events, *self._alarm_events), key=lambda entry: entry.at_s)
        return tuple(merged[-EVENTS_SHOWN:])

    async def _follow_processes(self) -> None:
        while True:
            pid = self._handle.pid if self._handle is not None else None
            try:
                processes, environment, names = await asyncio.to_thread(self._look_at_processes, pid)
            except Exception:
                log.exception("the process tree could not be read")
            else:
                if self._handle is not None and self._handle.pid == pid:
                    self._processes, self._environment = processes, environment
                self._names = names
            await asyncio.sleep(PROCESSES_PERIOD_S)

    def _look_at_processes(self, pid: int | None) -> tuple[tuple[rig.Process, ...], dict[str, str], dict[int, str]]:
        names = {other: self._table.name(other) for other in used_bytes_by_pid(self._sampler.latest()[0])}
        if pid is None:
            return (), {}, names
        return self._table.tree(pid), launcher_environment(pid), names


def _since(handle: EngineHandle | None, now_s: float) -> float:
    """From when on the probe's messages are of this engine."""
    if handle is None:
        return math.inf
    return handle.started_at if handle.started_at is not None else now_s


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
