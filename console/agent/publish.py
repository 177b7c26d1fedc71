"""Snapshots to whoever listens: twice a second, at once after a change, encoded once for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from console import rig

log = logging.getLogger(__name__)

PERIOD_S = 0.5
SOONEST_S = 0.05
"""Changes closer together than this are told together."""


class Publisher:
    """Composes and publishes.

    Args:
        compose: the snapshot as of now.
        period_s: between two when nothing changes.
    """

    def __init__(self, compose: Callable[[], rig.Snapshot], *, period_s: float = PERIOD_S) -> None:
        self._compose = compose
        self._period_s = period_s
        self._encoder = msgspec.json.Encoder()
        self._newest = rig.Snapshot()
        self._encoded = b""
        self._stale = asyncio.Event()
        self._next = asyncio.Event()
        self._fault = ""
        self._closed = False

    def changed(self) -> None:
        """Something that is shown has changed."""
        self._stale.set()

    def newest(self) -> rig.Snapshot:
        """The newest snapshot; composed now when there was none or something has changed since."""
        if self._stale.is_set() or not self._encoded:
            self._publish()
        return self._newest

    def fresh(self) -> bytes:
        """The newest snapshot as JSON."""
        self.newest()
        return self._encoded

    async def run(self) -> None:
        """Publish until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            self._publish()
            try:
                async with asyncio.timeout(self._period_s):
                    await self._stale.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(max(0.0, begun + SOONEST_S - loop.time()))

    async def lines(self) -> AsyncIterator[bytes]:
        """Snapshots as lines; between two that are asked for, any number may be missed."""
        while not self._closed:
            coming = self._next
            yield self.fresh() + b"\n"
            if not self._closed:
                await coming.wait()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._next.set()

    def _publish(self) -> None:
        self._stale.clear()
        try:
            self._newest = self._compose()
            self._fault = ""
        except Exception as error:  # figures that cannot be composed must not end the supervision
            if str(error) != self._fault:
                self._fault = str(error)
                log.exception("no snapshot could be composed")
        self._encoded = self._encoder.encode(self._newest)
        told, self._next = self._next, asyncio.Event()
        told.set()
