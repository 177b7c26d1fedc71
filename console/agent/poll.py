"""Asking the engine: one task an endpoint, each at its own rate, none delayed by another.

``/v1/loads`` reads shared memory and is cheap (2 to 22 ms): twice a second. ``/metrics`` blocks the server's
event loop while it is rendered: every 5 s at most. ``/ping`` tells whether the HTTP server lives; ``/health`` is
never asked, it generates a token and takes a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

LOADS_PERIOD_S = 0.5
METRICS_PERIOD_S = 5.0
SERVER_INFO_PERIOD_S = 30.0
PING_PERIOD_S = 1.0
BACKOFF_MAX_S = 30.0
MOST_DOUBLINGS = 5


class Endpoint:
    """Asks one endpoint again and again.

    Args:
        name: as the operator knows it, "/v1/loads".
        period_s: between the starts of two requests while it answers.
        timeout_s: after which a request is given up.
        fetch: makes the request.
        apply: takes the answer and the Unix time at which it came; what it raises counts as a bad answer.
        clock: Unix seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        period_s: float,
        timeout_s: float,
        fetch: Callable[[], Awaitable[Any]],
        apply: Callable[[Any, float], Awaitable[None] | None],
        backoff_max_s: float = BACKOFF_MAX_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.period_s = period_s
        self.timeout_s = timeout_s
        self.answered_at_s: float | None = None
        self.error = ""
        """Why the last request failed, empty after a good one."""
        self.failures = 0
        """In a row."""
        self._fetch = fetch
        self._apply = apply
        self._backoff_max_s = backoff_max_s
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Ask at once if the last request failed: what kept it from answering is over."""
        if self.failures:
            self._woken.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            started = time.monotonic()
            await self.ask()
            doublings = min(self.failures, MOST_DOUBLINGS)
            pause = max(self.period_s, min(self._backoff_max_s, self.period_s * 2**doublings))
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, started + pause - time.monotonic())):
                    await self._woken.wait()

    async def ask(self) -> None:
        """One request; its outcome is in the attributes, nothing is raised."""
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self._fetch()
            taken = self._apply(answer, self._clock())
            if taken is not None:
                await taken
        except TimeoutError:
            self._failed(f"{self.name} did not answer within {self.timeout_s:g} s")
        except Exception as error:
            log.debug("%s failed", self.name, exc_info=True)
            self._failed(f"{self.name}: {' '.join(str(error).split()) or type(error).__name__}")
        else:
            self.failures = 0
            self.error = ""
            self.answered_at_s = self._clock()

    def _failed(self, why: str) -> None:
        self.failures += 1
        self.error = why[:300]


class Poller:
    """The tasks of one engine; started when it appears, stopped when it goes."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start a task an endpoint."""
        self._tasks = [
            asyncio.create_task(endpoint.run(), name=f"poll {endpoint.name}") for endpoint in self.endpoints.values()
        ]

    async def stop(self) -> None:
        """Cancel the tasks and wait until they are gone."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
