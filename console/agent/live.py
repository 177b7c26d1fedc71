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
