"""Live changes through the probe of the engine that this agent supervises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from console import rig
from console.drafters import catalogue
from console.engine import live
from console.errors import ConsoleError


class Supervised(Protocol):
    """What is asked of the supervisor."""

    def client(self) -> Any:
        """An HTTP client of the engine, to be entered."""

    def engine(self) -> rig.Engine:
        """The engine as it is shown."""


class ProbeControl:
    """Live depth and live swap on whatever engine runs now; without a probe everything takes a restart.

    Args:
        supervised: the engine.
        probe_dir: the folder shared with its ranks.
        status: what the probe says of itself, all ranks together, with its age seen to.
        newest: depth in use, depth pinned and prebuilt depths, by the newest feed.
    """

    def __init__(
        self,
        supervised: Supervised,
        probe_dir: Path,
        status: Callable[[], rig.ProbeStatus],
        newest: Callable[[], tuple[int | None, int | None, tuple[int, ...]]],
    ) -> None:
        self._supervised = supervised
        self._folder = probe_dir
        self._status = status
        self._newest = newest

    def capabilities(self) -> rig.ProbeStatus:
        """What is possible now, and why not what is not."""
        found = self._status()
        tp = self._supervised.engine().tp or 1
        if found.present and found.ranks != tp:
            why = f"the probe answers on {found.ranks} of {tp} ranks"
            return rig.ProbeStatus(
                present=True,
                why=why,
                ranks=found.ranks,
                version=found.version,
                depth_why=why,
                swap_why=why,
                hooks=found.hooks,
            )
        return found

    @property
    def candidate_steps(self) -> tuple[int, ...]:
        """Depths with prebuilt state."""
        return self._newest()[2]

    def depth(self) -> tuple[int | None, int | None]:
        """Depth in use and depth pinned by the console, by the newest feed."""
        return self._newest()[:2]

    async def set_depth(self, depth: int | None) -> str:
        """Pin a depth on every rank in the same round; ``None`` gives it back to SGLang's own policy."""
        async with self._supervised.client() as client:
            return await self._control(client).set_depth(depth)

    async def swap(self, path: str) -> str:
        """Exchange the drafter's weights on every rank, or on none.

        Raises:
            ConsoleError: it is not on this disk, or a rank refused; the former drafter is in place.
        """
        place = await asyncio.to_thread(catalogue.resolve, path)
        if place is None and not self._supervised.engine().model.startswith("sim/"):
            raise ConsoleError(f"{path} is not on this disk", todo=f"console pull {path}")
        async with self._supervised.client() as client:
            return await self._control(client).swap(str(place) if place is not None else path)

    def _control(self, client: Any) -> live.LiveControl:
        return live.LiveControl(client, self._folder, self._supervised.engine().tp or 1)
