"""What the probe inside the engine says, as readings.

A message holds counters since the rank's start, so one that was missed loses nothing: the newest of each rank is enough.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from console import rig
from console.agent.probe_message import rounds_done, setting, window_between
from console.agent.readings import Gauges, Window
from console.engine.feed import FeedReader, Message, status

if TYPE_CHECKING:
    from pathlib import Path

TIMES_WINDOW_S = 3.0
ACCEPTANCE_WINDOW_S = 15.0
KEPT = 96
"""Messages a rank: more than the longer window holds when the feed is asked six times a second."""
SILENT_S = 5.0


class ProbeFeed:
    """Follows the feed of all ranks.

    Args:
        folder: shared with the ranks.
    """

    def __init__(self, folder: Path) -> None:
        self._reader = FeedReader(folder)
        self.forget()

    def close(self) -> None:
        """Let go of the feed's sockets."""
        self._reader.close()

    def forget(self, since_s: float = 0.0) -> None:
        """Another engine, or none: messages before ``since_s`` are of the former one."""
        self._since_s = since_s
        self._ranks: dict[int, deque[Message]] = {}
        self._moved: tuple[int, float] | None = None
        self.window: Window | None = None
        self.gauges: Gauges | None = None
        self.pinned: bool | None = None
        self.depths: tuple[int | None, int | None] = (None, None)
        """Depth in use and depth pinned by the console."""
        self.candidate_steps: tuple[int, ...] = ()
        self.status = rig.ProbeStatus()

    @property
    def environments(self) -> dict[int | None, dict[str, str]]:
        """By rank, the speed-relevant environment its process really has."""
        return {rank: kept[-1].environment for rank, kept in sorted(self._ranks.items())}

    def stage_totals(self) -> dict[str, tuple[float, int]]:
        """Seconds and rounds of each stage since the leading rank's start; empty without a message."""
        if not self._ranks:
            return {}
        newest = self._ranks[min(self._ranks)][-1]
        return {name: (counter.sum_ms / 1000.0, counter.count) for name, counter in newest.stages.items()}

    def poll(self, now_s: float) -> None:
        """Take what has come since the last call. Never raises: a broken file is no message."""
        if math.isfinite(self._since_s):
            self._since_s = min(self._since_s, now_s)  # a clock that was set back must not silence the engine
        for message in self._new_messages():
            self._take(message)
        if not self._ranks:
            return
        leader = self._ranks[min(self._ranks)]
        newest = leader[-1]
        if (silent := now_s - newest.at_s) > SILENT_S:
            self.status = rig.ProbeStatus(why=f"the probe has been silent for {silent:.0f} s")
            return
        self.status = status([kept[-1] for _, kept in sorted(self._ranks.items())])
        self.gauges = Gauges(
            source=rig.Source.PROBE,
            at_s=newest.at_s,
            depth=None if newest.depth is None else float(newest.depth),
        )
        self.pinned = True if newest.pinned is not None else False if newest.adaptive else None
        self.depths = (newest.depth, newest.pinned)
        self.candidate_steps = newest.capabilities.candidate_steps
        self._follow(leader)

    def _follow(self, leader: deque[Message]) -> None:
        """Renew the window when a round has been done since the last look."""
        newest = leader[-1]
        if self._moved is not None and self._moved[0] == rounds_done(newest):
            return
        first = self._moved is None
        self._moved = (rounds_done(newest), newest.at_s)
        if first or len(leader) < 2:
            return
        ranks = [(_back(kept, TIMES_WINDOW_S), kept[-1]) for _, kept in sorted(self._ranks.items()) if len(kept) > 1]
        self.window = window_between(
            _back(leader, TIMES_WINDOW_S), _back(leader, ACCEPTANCE_WINDOW_S), newest, ranks, newest.at_s
        )

    def _take(self, message: Message) -> None:
        kept = self._ranks.setdefault(message.rank, deque(maxlen=KEPT))
        if kept and (setting(kept[-1]) != setting(message) or rounds_done(message) < rounds_done(kept[-1])):
            # Another depth, drafter or process: figures before and after must not be mixed.
            kept.clear()
            self.window = None
        kept.append(message)

    def _new_messages(self) -> list[Message]:
        """The newest of each rank that has not been seen."""
        found = []
        for message in self._reader.poll():
            kept = self._ranks.get(message.rank)
            known = kept is not None and (kept[-1].pid, kept[-1].seq, kept[-1].at_s) == (
                message.pid,
                message.seq,
                message.at_s,
            )
            if not known and message.at_s >= self._since_s:
                found.append(message)
        return found


def _back(kept: deque[Message], seconds: float) -> Message:
    """The oldest message within ``seconds`` of the newest, never the newest itself."""
    newest = kept[-1]
    within = [message for message in kept if newest.at_s - message.at_s <= seconds]
    return within[0] if len(within) > 1 else kept[-2]
