"""What an engine says over HTTP, followed endpoint by endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from console.agent import poll
from console.agent.adapt import LoadsFeed, MetricsFeed, facts_gauges
from console.agent.figures import METRICS_OFF
from console.agent.poll import Endpoint, Poller
from console.engine import loads, metrics, server_info
from console.engine.server_info import EngineFacts
from console.rig import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.agent.measure import EngineHandle
    from console.agent.readings import Gauges, Window

PING, LOADS, METRICS, SERVER_INFO = "/ping", "/v1/loads", "/metrics", "/server_info"
QUICK_BACKOFF_S = 2.0
"""For what must be there soon after the engine is."""
THREAD_CHARS = 200_000
"""A longer scrape is parsed in a thread."""


class EngineFeed:
    """One engine's HTTP server, from the moment it is expected until it is gone.

    Args:
        handle: where it is.
        clock: Unix seconds.
        client: the HTTP client; the engine room's without it.
    """

    def __init__(self, handle: EngineHandle, *, clock: Callable[[], float] = time.time, client: Any = None) -> None:
        if client is None:
            from console.engine.http import EngineClient

            client = EngineClient(handle.url, api_key=handle.api_key, admin_key=handle.admin_key)
        self._client = client
        self._clock = clock
        self._loads = LoadsFeed()
        self._metrics = MetricsFeed()
        self._model_info: Any = None
        self._info_at_s: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.facts = EngineFacts()
        """What the engine says it is; empty until it has."""
        self.arguments: Mapping[str, Any] = {}
        """Its launch arguments as /server_info names them."""
        self.poller = Poller(
            [
                self._endpoint(PING, poll.PING_PERIOD_S, 5.0, client.ping, self._take_ping, QUICK_BACKOFF_S),
                self._endpoint(LOADS, poll.LOADS_PERIOD_S, 5.0, client.loads, self._take_loads, QUICK_BACKOFF_S),
                self._endpoint(METRICS, poll.METRICS_PERIOD_S, 20.0, client.metrics_text, self._take_metrics),
                self._endpoint(SERVER_INFO, poll.SERVER_INFO_PERIOD_S, 20.0, self._ask_info, self._take_info),
            ]
        )

    def _endpoint(
        self, name: str, period_s: float, timeout_s: float, fetch: Any, apply: Any, backoff_s: float = 30.0
    ) -> Endpoint:
        return Endpoint(
            name,
            period_s=period_s,
            timeout_s=timeout_s,
            fetch=fetch,
            apply=apply,
            backoff_max_s=backoff_s,
            clock=self._clock,
        )

    def start(self) -> None:
        """Start asking."""
        self._task = asyncio.create_task(self._run(), name="engine feed")

    async def stop(self) -> None:
        """Stop asking and close the client."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        async with self._client:
            self.poller.start()
            try:
                await asyncio.Event().wait()
            finally:
                await self.poller.stop()

    # -------------------------------------------------------------------------------------- answers

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """Loads before metrics: the same sums, ten times as often."""
        return self._loads.window, self._metrics.window

    @property
    def gauges(self) -> tuple[Gauges | None, ...]:
        """Loads, metrics, and the live depth of /server_info."""
        info = None if self._info_at_s is None else facts_gauges(self.facts, self._info_at_s)
        return self._loads.gauges, self._metrics.gauges, info

    @property
    def why(self) -> dict[str, str]:
        """Why a source is silent, by its name; only those that are."""
        found = {
            Source.LOADS: self.poller.endpoints[LOADS].error or self._loads.why,
            Source.METRICS: self._metrics_why(),
            "stages": self._metrics.stage_why,
        }
        return {str(name): reason for name, reason in found.items() if reason}

    @property
    def answered_at_s(self) -> float | None:
        """When any endpoint last answered."""
        times = [entry.answered_at_s for entry in self.poller.endpoints.values() if entry.answered_at_s is not None]
        return max(times) if times else None

    @property
    def error(self) -> str:
        """Why /ping fails; empty while it does not."""
        return self.poller.endpoints[PING].error

    def _metrics_why(self) -> str:
        if self.facts.metrics is False:
            return f"{METRICS_OFF}: the server was started without --enable-metrics"
        why = self.poller.endpoints[METRICS].error or self._metrics.why
        return f"{METRICS_OFF}: {why}" if "without --enable-metrics" in why or "404" in why else why

    # --------------------------------------------------------------------------------------- inside

    def _take_ping(self, _answer: Any, _at_s: float) -> None:
        """That it answers is all; when it answers again, nobody waits out a back-off of its silence."""
        if self.poller.endpoints[PING].failures:
            for endpoint in self.poller.endpoints.values():
                endpoint.wake()

    def _take_loads(self, body: Any, at_s: float) -> None:
        self._loads.take(body if isinstance(body, loads.LoadsReading) else loads.parse(body), at_s)

    async def _take_metrics(self, text: str, at_s: float) -> None:
        if len(text) > THREAD_CHARS:
            scrape = await asyncio.to_thread(metrics.parse, text, at_s)
        else:
            scrape = metrics.parse(text, at_s)
        self._metrics.take(scrape, at_s)

    async def _ask_info(self) -> Any:
        if self._model_info is None:
            self._model_info = await self._client.model_info()
        return await self._client.server_info()

    def _take_info(self, body: Any, at_s: float) -> None:
        if isinstance(body, dict):
            self.arguments = body
            self.facts = server_info.parse(body, self._model_info)
            self._info_at_s = at_s
