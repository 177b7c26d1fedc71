"""What the probe inside a living engine lets the console change, as the operations see it."""

from __future__ import annotations

from typing import Protocol

from console import rig


class LiveControl(Protocol):
    """Changes without a restart."""

    def capabilities(self) -> rig.ProbeStatus:
        """What is possible now, and why not what is not."""

    @property
    def candidate_steps(self) -> tuple[int, ...]:
        """Depths with prebuilt state."""

    def depth(self) -> tuple[int | None, int | None]:
        """Depth in use and depth pinned by the console, by the newest feed; ``None``: not known, not pinned."""

    async def set_depth(self, depth: int | None) -> str:
        """Pin a depth; ``None`` gives it back to SGLang's own policy.

        Returns:
            What the engine answered.

        Raises:
            ConsoleError: it refused, or did not answer.
        """

    async def swap(self, path: str) -> str:
        """Exchange the drafter's weights on every rank, proven by checksum.

        Returns:
            What the engine answered.

        Raises:
            ConsoleError: it refused, or the checksums differ; the former drafter is in place.
        """


class NoLiveControl:
    """An engine without a probe: everything takes a restart."""

    candidate_steps: tuple[int, ...] = ()

    def capabilities(self) -> rig.ProbeStatus:
        """Nothing."""
        return rig.ProbeStatus(depth_why="no probe in this engine", swap_why="no probe in this engine")

    def depth(self) -> tuple[int | None, int | None]:
        """Unknown."""
        return None, None

    async def set_depth(self, depth: int | None) -> str:
        """Never asked, because :meth:`capabilities` says no."""
        raise NotImplementedError

    async def swap(self, path: str) -> str:
        """Never asked, because :meth:`capabilities` says no."""
        raise NotImplementedError
