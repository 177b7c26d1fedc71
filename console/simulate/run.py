"""The simulated engine's life: start, serve, drain, end, in the order and with the words of SGLang."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from console.simulate import state_file
from console.simulate.engine import Engine
from console.simulate.faults import FaultError
from console.simulate.log import Log, write
from console.simulate.options import OptionError, Options, parse
from console.simulate.processes import Workers
from console.simulate.startup import NOMINAL_S, StartFailedError, Startup

TICK_S = 0.1
REAL_START_S = 60.0
"""What a real start takes; SGLang's fixed pauses are scaled by the same factor as the start."""
DRAIN_POLL_S = 5.0
DIAGNOSTICS_S = 5.0


def main(argv: list[str]) -> int:
    """Run one engine until it ends; its exit code."""
    try:
        options = parse(argv, dict(os.environ))
    except (OptionError, FaultError) as error:
        write(f"ValueError: {error}\n")
        return 1
    log = Log(ranked=options.tp > 1)
    life = Life(options, log)
    try:
        life.startup.banner()
        workers = Workers(options.tp)  # before any thread and before aiohttp's weight
    except StartFailedError as failed:
        return failed.code
    try:
        code = asyncio.run(life.run(workers))
    finally:
        workers.kill()
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


class Life:
    """One engine from its first line to its last."""

    def __init__(self, options: Options, log: Log) -> None:
        self.options = options
        self.log = log
        self.engine = Engine(options, log.rank)
        self.startup = Startup(options, log, self._progress)
        self._phase = ("init", 0.0, 0.0, 0.0)
        self._workers: Workers | None = None
        self._stop = asyncio.Event()
        self._pace = NOMINAL_S / REAL_START_S / options.speed
        self._busy = 0.0
        self._busy_seen = (time.monotonic(), 0.0)

    def _progress(self, phase: str, loaded: float, kv: float, graphs: float) -> None:
        self._phase = (phase, loaded, kv, graphs)
        self._publish_state()

    def _publish_state(self) -> None:
        path = self.options.state_file
        if path is None or self._workers is None:
            return
        phase, loaded, kv, graphs = self._phase
        state_file.write(
            path,
            state_file.EngineFile(
                pid=os.getpid(),
                at_s=time.time(),
                tp=self.options.tp,
                phase=phase,
                schedulers=tuple(self._workers.schedulers),
                loaded=loaded,
                kv=kv,
                graphs=graphs,
                running=len(self.engine.running),
                max_running=self.options.max_running,
                busy=self._busy,
                faults=dict(self.engine.faults.active),
            ),
        )

    async def run(self, workers: Workers) -> int:
        """Start, serve until SIGTERM or a crash, end; the exit code."""
        self._workers = workers
        guard = asyncio.create_task(self._watch_workers())
        clock = asyncio.create_task(self._tick())
        life = asyncio.create_task(self._live(workers))
        try:
            done, _ = await asyncio.wait({life, guard}, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for task in (life, guard, clock):
                task.cancel()
            if self.options.state_file:
                self.options.state_file.unlink(missing_ok=True)

    async def _live(self, workers: Workers) -> int:
        try:
            await self.startup.run()
        except StartFailedError as failed:
            return failed.code
        return await self._serve(workers)

    async def _serve(self, workers: Workers) -> int:
        from aiohttp import web

        from console.simulate.feed import Feed
        from console.simulate.routes import Routes

        options = self.options
        feed = Feed(self.engine, options.probe_dir, workers.schedulers) if options.probe and options.probe_dir else None
        routes = Routes(self.engine, feed, workers, self.startup.seconds)
        runner = web.AppRunner(routes.app(), access_log=None, shutdown_timeout=0.2, handle_signals=False)
        self.log.main(f"INFO:     Started server process [{os.getpid()}]")
        self.log.main("INFO:     Waiting for application startup.")
        await runner.setup()
        self.log.main("INFO:     Application startup complete.")
        try:
            await web.TCPSite(runner, options.host, options.port).start()
        except OSError as error:
            self.log.main(
                f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
                f"({options.host!r}, {options.port}): address already in use"
            )
            self.log.main("INFO:     Waiting for application shutdown.")
            await asyncio.Event().wait()  # SGLang stays with all its processes and memory
        self.log.main(f"INFO:     Uvicorn running on http://{options.host}:{options.port} (Press CTRL+C to quit)")
        publisher = asyncio.create_task(self._publish(feed)) if feed else None
        self.engine.warm_up()
        await asyncio.sleep(NOMINAL_S / self.options.speed * 0.07)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminate)
        self.log.main("The server is fired up and ready to roll!")
        routes.up = True
        self._phase = ("serving", 1.0, 1.0, 1.0)
        await self._stop.wait()
        routes.draining = True
        code = await self._drain()
        if publisher:
            publisher.cancel()
        if feed:
            feed.close()
        self.log.main("INFO:     Shutting down")
        await runner.cleanup()
        self.log.main(f"INFO:     Finished server process [{os.getpid()}]")
        return code

    def _terminate(self) -> None:
        if "ignore_sigterm" not in self.engine.faults:
            self._stop.set()

    async def _drain(self) -> int:
        """SGLang polls every five seconds until no request is left, then ends its schedulers."""
        self.log.main("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self.engine.draining = True
        while True:
            await asyncio.sleep(DRAIN_POLL_S * self._pace)
            for request in [*self.engine.running, *self.engine.queue]:
                if request.own:  # the simulated clients hang up
                    request.max_tokens = min(request.max_tokens, request.generated + 1)
            left = len(self.engine.running) + len(self.engine.queue)
            rids = [request.rid for request in (*self.engine.running, *self.engine.queue)]
            self.log.main(
                f"Gracefully exiting... Remaining number of requests {left}. Remaining requests remaining_rids={rids}."
            )
            if not left or self.engine.paused:
                break
        self.log.main(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=False, pid={os.getpid()}")
        return self.options.exit_code

    async def _tick(self) -> None:
        """The clock of everything that happens by itself."""
        count = 0
        while True:
            await asyncio.sleep(TICK_S)
            count += 1
            faults = self.engine.faults
            if faults.overdue("crash"):
                os.kill(os.getpid(), signal.SIGKILL)
            if "hang" in faults:
                continue
            if self._phase[0] == "serving":
                self.engine.advance()
            if "log_flood" in faults:
                lines = int((faults.argument("log_flood", 0) or 50_000) * TICK_S)
                write("[2026-01-01 00:00:00] SIMULATED flood of log lines, one of very many\n" * lines)
            if count % 5 == 0:
                self._measure_busy()
                self._publish_state()

    def _measure_busy(self) -> None:
        now, total = time.monotonic(), self.engine.stages["cycle"].sum_ms / 1000
        then, before = self._busy_seen
        self._busy_seen = (now, total)
        self._busy = min(1.0, (total - before) / max(now - then, 1e-3))

    async def _publish(self, feed: object) -> None:
        from console.simulate.feed import RATE_HZ, Feed

        assert isinstance(feed, Feed)  # noqa: S101 - imported late for a light fork
        while True:
            if "hang" not in self.engine.faults:
                self.engine.advance()
                feed.publish()
            await asyncio.sleep(1 / RATE_HZ)

    async def _watch_workers(self) -> int:
        """SGLang's subprocess watchdog: a dead worker ends the whole engine with SIGKILL, five seconds later."""
        assert self._workers is not None  # noqa: S101 - set before this task starts
        while True:
            await asyncio.sleep(0.5)
            if crashed := self._workers.crashed():
                name, pid, code = crashed
                if self._phase[0] not in {"http", "serving"}:
                    rank = name.rpartition("_")[2]
                    self.log.main(f"Rank {rank} scheduler died during initialization (exit code: {code}).")
                    return 1
                self.log.main(
                    f"Subprocess {name} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."
                )
                self.log.main("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
                self.log.main("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
                await asyncio.sleep(DIAGNOSTICS_S * self._pace)
                self.log.main(
                    f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True, pid={os.getpid()}"
                )
                return -signal.SIGKILL
