"""What the probe inside the engine says, as readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import rig

if TYPE_CHECKING:
    from pathlib import Path

    from console.agent.readings import Gauges, Window


class ProbeFeed:
    """Follows the probe's feed of all ranks.

    Args:
        folder: shared with the ranks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.forget()

    def forget(self) -> None:
        """Another engine, or none."""
        self.window: Window | None = None
        self.gauges: Gauges | None = None
        self.pinned: bool | None = None
        self.candidate_steps: tuple[int, ...] = ()
        self.status = rig.ProbeStatus()

    def poll(self, now_s: float) -> None:
        """Take what has come since the last call."""

    def close(self) -> None:
        """Let go of the sockets."""
