"""The engine's life: started or adopted, followed, ended - and why it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from console import rig
from console.agent import death, engine_view, eta, identity, living, ports, prepare, tree
from console.agent.configuration import Configuration
from console.agent.crash_report import LOG_LINES, Death
from console.agent.events import EventLog
from console.agent.handle import Handle, Measured, engine_client
from console.agent.identity import Identity
from console.agent.logtail import LogTail
from console.agent.prepare import Keys, Prepared
from console.agent.process import EngineProcess
from console.agent.record import Start
from console.agent.state import Ending, EngineRecord, Store
from console.agent.stopping import Patience, Report, Silence, Stopper
from console.engine import arguments
from console.engine.log import Kind, LogEvent
from console.errors import ConsoleError
from console.paths import RigPaths
from console.rig import EngineState

log = logging.getLogger(__name__)

LAUNCH_VARIABLE = "SGLANG_CONSOLE_LAUNCH"
FATAL_ALIVE_S = 5.0
"""Deadline for an engine that has failed and does not end by itself."""
LEVELS = {Kind.FAILURE: "error", Kind.WARNING: "warn", Kind.RETRACT: "warn", Kind.DEPTH: "info"}
"""Lines of the log that become events."""


class EngineFailedError(ConsoleError):
    """The engine ended before it was ready."""

    def __init__(self, failure: rig.Failure) -> None:
        self.failure = failure
        ranks = f"{', '.join(failure.ranks)}: " if failure.ranks else ""
        super().__init__("the engine did not come up", why=f"{ranks}{failure.message}", todo=failure.advice)


class Supervisor:
    """Supervises the one engine of a rig.

    Args:
        paths: the rig's files.
        measure: the measuring half.
        events: where what happens is told.
        changed: called when something that is shown has changed.
        patience: how long ending may take.
        clock: Unix seconds.
        client: makes HTTP clients of engines; the engine room's without it.
        on_death: told of each engine that has died by itself.
    """

    def __init__(
        self,
        paths: RigPaths,
        measure: Measured,
        events: EventLog,
        *,
        changed: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
        client: Callable[[Handle], Any] = engine_client,
        on_death: Callable[[Death], None] = lambda _death: None,
    ) -> None:
        self._on_death = on_death
        self._paths = paths
        self._measure = measure
        self._events = events
        self._changed = changed
        self._patience = patience or Patience()
        self._clock = clock
        self._client = client
        self._store = Store(paths.state, self._note_state_file)
        self._living: living.LivingEngine | None = None
        self._keys = Keys()
        self._shown = EngineState.NONE
        self._since_s = clock()
        self._note = ""
        self._paused = False
        self._earlier: list[Start] = []
        self._settled = asyncio.Event()
        """Set when a start has come to its end, good or bad."""
        self._ending = asyncio.Lock()
        self.tail: LogTail | None = None
        """The log of the newest engine."""

    # ------------------------------------------------------------------------------------------ what is known

    @property
    def record(self) -> EngineRecord | None:
        """The newest launched engine, living or ended."""
        return self._store.state.engine

    @property
    def last_good(self) -> Configuration | None:
        """The newest configuration that got ready."""
        return self._store.state.last_good

    @property
    def alive(self) -> bool:
        """Whether an engine that was launched here lives."""
        return self._living is not None

    @property
    def attached_url(self) -> str:
        """The foreign server that is watched; empty without one."""
        return self._store.state.attached_url

    @property
    def ready(self) -> bool:
        """Whether the launched engine lives and has generated its first token."""
        return self._living is not None and self._living.ready

    @property
    def handle(self) -> Handle | None:
        """Where the engine is reached; ``None`` without one."""
        record = self._store.state.engine
        if self.attached_url:
            return Handle(self.attached_url)
        if record is None or self._living is None:
            return None
        pid = self._living.process.identity.pid
        profile = record.configuration.effective()
        return Handle(record.url, self._keys.api_key, self._keys.admin_key, pid, profile, record.started_at_s)

    def client(self) -> Any:
        """An HTTP client of the engine, to be entered.

        Raises:
            ConsoleError: there is no engine.
        """
        if (handle := self.handle) is None:
            raise ConsoleError("no engine runs", todo="console run PROFILE")
        return self._client(handle)

    @property
    def secrets(self) -> frozenset[str]:
        """Values to mask in everything the engine says."""
        return self._keys.values

    def engine(self) -> rig.Engine:
        """The engine as the snapshot shows it, without what only the engine itself can tell."""
        record = self._store.state.engine
        if self.attached_url:
            state, note = self._reached()
            return rig.Engine(state=state, since_s=self._since_s, note=note, attached=True, url=self.attached_url)
        if record is None or self.tail is None:
            return rig.Engine(state=self._shown, since_s=self._since_s, note=self._note)
        state, note = self._shown, self._note
        if state is EngineState.READY:
            state, note = self._reached()
        return engine_view.view(
            record,
            self.tail.state,
            state=state,
            since_s=self._since_s,
            note=note or self.tail.note,
            now_s=self._clock(),
            ended=self._store.state.ended,
            earlier=self._earlier,
        )

    def _reached(self) -> tuple[EngineState, str]:
        """State and note of a living engine by what its HTTP server does."""
        now_s = self._clock()
        heard_at_s = (self._measure.http_answered_at_s or 0.0, self._since_s)
        reach = engine_view.Reach(
            error=self._measure.http_error,
            # A time to come was told by a clock that has been set back since: it says nothing.
            silent_s=now_s - max((at_s for at_s in heard_at_s if at_s <= now_s), default=0.0),
            never_answered=self._measure.http_answered_at_s is None,
            foreign=bool(self.attached_url),
            paused=self._paused,
        )
        return engine_view.reached(reach, self._note)

    @property
    def _stop_under_way(self) -> bool:
        return self._shown is EngineState.STOPPING

    def _show(self, state: EngineState, note: str = "", *, since_s: float | None = None) -> None:
        if state is not self._shown or since_s is not None:
            self._since_s = since_s if since_s is not None else self._clock()
        self._shown, self._note = state, note
        self._changed()

    def _note_state_file(self, note: str) -> None:
        self._events.add("warn", note, "agent")

    # ------------------------------------------------------------------------------------------ beginning

    async def launch(self, prepared: Prepared, *, by: str) -> None:
        """Start an engine; returns when its launcher runs.

        Raises:
            ConsoleError: one lives already, or it could not be started.
        """
        if self.alive or self.attached_url:
            raise ConsoleError("an engine is there already", todo="stop or detach it first")
        self._earlier = await asyncio.to_thread(self._measure.starts, prepared.profile.name)
        launch = prepared.launch
        self._keys = prepared.keys
        log_path = prepare.new_log(self._paths, prepared.profile.name)
        record = prepare.new_record(prepared, log_path, self._clock(), by)
        self.tail = self._tail(record)
        self._store.change(engine=record, ended=None)
        env = {**launch.env, LAUNCH_VARIABLE: record.launch_id}
        try:
            arguments.write_files(launch.files)
            prepare.save_keys(self._paths, prepared.keys)
            process = EngineProcess.start(launch.argv, env, Path(record.log_path))
        except (OSError, ConsoleError) as error:
            why = error.line if isinstance(error, ConsoleError) else f"{launch.argv[0]}: {error.strerror or error}"
            await self._conclude(EngineState.DEAD, failure=rig.Failure("launch", why))
            raise ConsoleError("the engine could not be started", why=why) from error
        self._store.change_engine(identity=process.identity, created_s=self._clock())
        self._events.add("info", f"engine launched from {prepared.configuration.name} by {by or 'somebody'}")
        self._begin(process, self.tail)

    async def adopt(self) -> None:
        """Take over what a former agent left: a living engine, an ended one, an attached server."""
        self._store.load()
        record = self._store.state.engine
        if record is not None:
            self._keys = prepare.load_keys(self._paths)
            self.tail = self._tail(record)
            await self.tail.catch_up()
        if self.attached_url:
            self._measure.engine_changed(self.handle)
        elif self._store.state.ended is not None:
            self._show(
                self._store.state.ended.state, self._store.state.ended.note, since_s=self._store.state.ended.at_s
            )
        elif record is not None and self.tail is not None:
            await self._adopt(record, self.tail)

    async def _adopt(self, record: EngineRecord, tail: LogTail) -> None:
        known = record.identity or await asyncio.to_thread(identity.with_environment, LAUNCH_VARIABLE, record.launch_id)
        why = "its start was interrupted" if known is None else identity.why_gone(known)
        if known is None or why:
            if tail.state.stopping and not tail.state.failures:
                await self._conclude(EngineState.STOPPED, note=f"{why}, after a SIGTERM")
                return
            cause = death.failure(tail.state, None, oom_kills_before=record.oom_kills, why=why)
            await self._conclude(EngineState.DEAD, note=why, failure=cause)
            return
        self._store.change_engine(identity=known)
        self._earlier = await asyncio.to_thread(self._measure.starts, record.configuration.profile.name)
        age = ports.span(self._clock() - record.started_at_s)
        self._events.add("info", f"adopted the engine, pid {known.pid}, started by {record.by or 'somebody'} {age} ago")
        self._begin(EngineProcess.adopt(known), tail)

    def _tail(self, record: EngineRecord) -> LogTail:
        return LogTail(Path(record.log_path), secrets=self.secrets, on_event=self._on_log)

    def _begin(self, process: EngineProcess, tail: LogTail) -> None:
        """Follow a launcher that runs."""
        record = self._store.state.engine
        assert record is not None  # noqa: S101 - both callers have just saved it
        self._paused = False
        self._settled = asyncio.Event()
        self._living = living.LivingEngine(process, tail, self.client, self)
        self._measure.engine_changed(self.handle)
        tail.start()
        if record.ready_at_s is None:
            self._show(EngineState.STARTING, since_s=record.started_at_s)
        else:
            self._show(EngineState.READY, since_s=record.ready_at_s)
            self._settled.set()
        start = living.Start(record.ready_at_s is not None, record.configuration.profile.engine.start_timeout_s)
        self._living.follow(start, frozenset(record.members))

    # ------------------------------------------------------------------------------------------ what is heard of it

    def _on_log(self, event: LogEvent) -> None:
        if event.kind in {Kind.DECODE, Kind.PREFILL}:
            self._measure.log_batch(event)
            return
        if level := LEVELS.get(event.kind):
            rank = f"{event.rank}: " if event.rank else ""
            self._events.add(level, f"{rank}{event.text}", f"log-{event.kind.value}")
        if event.kind is Kind.FAILURE and self.ready and not self._stop_under_way:
            self._note = f"failing: {event.text}"  # SGLang takes seconds to end after it
        self._changed()

    def on_first_token_asked(self) -> None:
        """The server takes requests; one token is asked for."""
        self._store.change_engine(first_token_asked_at_s=self._clock())
        self._changed()

    def on_ready(self, note: str) -> None:
        """The first token is there: the start is over, and its configuration is one to come back to."""
        record = self._store.state.engine
        if record is None:
            return
        now = self._clock()
        ready = msgspec.structs.replace(record, ready_at_s=now)
        self._store.change(engine=ready, last_good=record.configuration)
        took_s = now - record.started_at_s
        self._show(EngineState.READY, note)
        self._events.add("info", f"the engine is ready after {ports.span(took_s)}" + (f" ({note})" if note else ""))
        self._record_start(ready=True, seconds=took_s)
        self._settled.set()

    def on_paused(self, *, paused: bool) -> None:
        """Generation was paused or continued."""
        self._paused = paused
        self._changed()

    def on_members(self, launcher: Identity, members: frozenset[Identity]) -> None:
        """Its processes have changed."""
        if self._store.state.engine is None or self._store.state.engine.identity != launcher:
            return  # another engine has been started since
        self._store.change_engine(members=tuple(sorted(members, key=lambda one: (one.start_ticks, one.pid))))

    async def on_stuck(self, failure: rig.Failure) -> None:
        """It has failed and does not end by itself: it is ended, and its own words stay the cause."""
        self._events.add("error", f"the engine has failed and does not end by itself: {failure.message}")
        try:
            await self._end(Silence(), deadline_s=FATAL_ALIVE_S, state=EngineState.DEAD, failure=failure)
        except ConsoleError as error:
            self._events.add("error", error.line)

    async def on_end(self) -> None:
        """The launcher has ended: nobody asked for it, unless a stop is under way."""
        living_now, tail, record = self._living, self.tail, self._store.state.engine
        if living_now is None or tail is None or record is None or self._stop_under_way:
            return
        await tail.drain()
        if self._living is not living_now or self._stop_under_way:
            return  # meanwhile somebody has asked for it
        exit_code = living_now.process.exit_code
        note = ""
        if tail.state.stopping and not tail.state.failures:
            note = note or "it was ended by a SIGTERM that did not come from this console"
            await self._conclude(EngineState.STOPPED, note=note, exit_code=exit_code)
            return
        cause = death.failure(tail.state, exit_code, oom_kills_before=record.oom_kills)
        await self._conclude(EngineState.DEAD, note=note, failure=cause, exit_code=exit_code)

    def on_leftovers(self, launcher: Identity, members: frozenset[Identity]) -> None:
        """It has ended for some time, and these of its processes have not."""
        self.on_members(launcher, members)
        record, ended = self._store.state.engine, self._store.state.ended
        if not members or ended is None or record is None or record.identity != launcher:
            return
        note = f"{len(members)} of its processes are left and may hold GPU memory: stop ends them"
        self._store.change(ended=msgspec.structs.replace(ended, note=note))
        self._show(ended.state, note)
        self._events.add("warn", f"the engine has ended, but {note}")

    def on_fault(self, where: str, error: BaseException) -> None:
        """The agent's own fault."""
        self._events.add("error", f"the agent's own fault in {where}: {type(error).__name__}: {error}", "agent")

    async def _conclude(
        self, state: EngineState, *, note: str = "", failure: rig.Failure | None = None, exit_code: int | None = None
    ) -> None:
        """An engine has ended: say so, everywhere."""
        record, living_now = self._store.state.engine, self._living
        self._living = None
        self._measure.engine_changed(None)
        self._store.change(
            ended=Ending(state=state, at_s=self._clock(), note=note, failure=failure, exit_code=exit_code)
        )
        self._show(state, note)
        if failure is not None:
            ranks = f" on {', '.join(failure.ranks)}" if failure.ranks else ""
            self._events.add("error", f"the engine is dead: {failure.message}{ranks}")
        else:
            self._events.add("info", "the engine has stopped" + (f": {note}" if note else ""))
        if record is not None and record.ready_at_s is None:
            self._record_start(ready=False, seconds=self._clock() - record.started_at_s)
        self._settled.set()
        if state is EngineState.DEAD and record is not None and record.identity is not None and self._store.state.ended:
            log_lines = self.tail.tail(LOG_LINES) if self.tail is not None else ()
            causes = self.tail.state.failures if self.tail is not None else ()
            watched = living_now is not None
            self._on_death(Death(record, self._store.state.ended, causes, log_lines, watched, self.secrets))
        if living_now is not None:
            await living_now.close()

    def _record_start(self, *, ready: bool, seconds: float) -> None:
        record = self._store.state.engine
        if record is None or self.tail is None:
            return
        phases = eta.seconds_by_phase(engine_view.phases(record, self.tail.state))
        name = record.configuration.profile.name
        self._measure.record_start(Start(record.started_at_s, name, ready, seconds, phases))

    # ------------------------------------------------------------------------------------------ waiting and ending

    async def until_ready(self) -> None:
        """Wait for the end of the start.

        Raises:
            EngineFailedError: it failed.
        """
        await self._settled.wait()
        if not self.ready:
            ended = self._store.state.ended
            stopped = rig.Failure("stopped", "it was stopped while it started")
            raise EngineFailedError((ended.failure if ended is not None else None) or stopped)

    async def stop(self, report: Report) -> str:
        """End the engine, or what a dead one left behind.

        Returns:
            How it went, for the operation's message.

        Raises:
            ConsoleError: it has not let go of everything.
        """
        record = self._store.state.engine
        if record is None:
            raise ConsoleError("there is no engine to stop")
        deadline_s = record.configuration.profile.engine.stop_timeout_s
        return await self._end(report, deadline_s=deadline_s, state=EngineState.STOPPED)

    async def _end(
        self, report: Report, *, deadline_s: float, state: EngineState, failure: rig.Failure | None = None
    ) -> str:
        async with self._ending:
            record = self._store.state.engine
            process = self._living.process if self._living is not None else None
            if record is None or record.identity is None:
                return "nothing was running"
            begun = self._clock()
            if process is not None:
                self._show(EngineState.STOPPING)
            stopper = Stopper(
                process,
                record.identity,
                frozenset(record.members),
                address=prepare.address_of(record),
                gpu_pids=self._measure.gpu_pids,
                log_tail=self.tail.tail if self.tail is not None else tuple,
                patience=self._patience,
            )
            ended = await stopper.stop(deadline_s, report)
            if self.tail is not None:
                await self.tail.drain()
            killed = f"{ended.killed} of its processes had to be killed" if ended.killed else ""
            if process is not None or ended.killed:
                code = process.exit_code if process is not None else None
                await self._conclude(state, note=ended.problem or killed, failure=failure, exit_code=code)
            if ended.problem:
                raise ConsoleError("the engine has ended but not let go of everything", why=ended.problem)
            return f"stopped in {ports.span(self._clock() - begun)}" + (f"; {killed}" if killed else "")

    async def leftovers(self) -> frozenset[Identity]:
        """Processes that an engine that ended has left behind."""
        record = self._store.state.engine
        if self.alive or record is None or record.identity is None:
            return frozenset()
        return await asyncio.to_thread(tree.members, record.identity, record.members, watched=False)

    # ------------------------------------------------------------------------------------------ other changes

    def attach(self, url: str) -> None:
        """Watch a server that somebody else started."""
        self._paused = False
        self._store.change(attached_url=url)
        self._since_s = self._clock()
        self._measure.engine_changed(self.handle)
        self._events.add("info", f"attached to {url}")

    def detach(self) -> None:
        """Watch it no longer; it is not touched."""
        url = self.attached_url
        self._store.change(attached_url="")
        self._measure.engine_changed(None)
        self._show(self._store.state.ended.state if self._store.state.ended else EngineState.NONE)
        self._events.add("info", f"detached from {url}")

    def remember(self, configuration: Configuration) -> None:
        """A live change: the next start is to have it, too."""
        self._store.change_engine(configuration=configuration)
        if self.ready:
            self._store.change(last_good=configuration)

    async def close(self) -> None:
        """The agent ends; the engine lives."""
        if self._living is not None:
            await self._living.close()
        if self.tail is not None:
            await self.tail.stop()
