"""A recorded journal in the place of an agent: the same calls, snapshots as they were, nothing can be changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from console.agent import record, series
from console.agent.chart import Chart
from console.agent.recording import Recording
from console.errors import ConsoleError
from console.rig import Snapshot

PERIOD_S = 0.5
GAP_S = 5.0
"""A longer time without a snapshot is passed over: nobody wants to wait through a night."""
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 60.0, 300.0)


class ReplayError(ConsoleError):
    """Something was asked for that only a running rig can do."""

    def __init__(self, what: str) -> None:
        super().__init__(what, why="this is a replay", todo="open the rig itself: console --rig NAME")


class Where(NamedTuple):
    """Where a replay stands."""

    at_s: float
    first_s: float
    last_s: float
    speed: float
    paused: bool
    note: str = ""
    """What was passed over, or why it does not go on."""


class Player:
    """The position in a recording: moves with the clock, obeys keys. Any thread may call it.

    Args:
        speed: recorded seconds a second.
        clock: monotonic seconds.
    """

    def __init__(self, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._moved = threading.Event()
        self._where = Where(0.0, 0.0, 0.0, speed, paused=False)
        self._steps = 0
        self._before_s = clock()

    @property
    def where(self) -> Where:
        """Where it stands now."""
        return self._where

    # ------------------------------------------------------------------------------------------ keys

    def seek(self, by_s: float) -> None:
        """Go back or forth."""
        with self._lock:
            where = self._where
            self._where = where._replace(at_s=min(where.last_s, max(where.first_s, where.at_s + by_s)), note="")
        self._moved.set()

    def pause(self) -> None:
        """Hold still, or go on."""
        with self._lock:
            self._where = self._where._replace(paused=not self._where.paused, note="")
        self._moved.set()

    def step(self, direction: int) -> None:
        """To the next snapshot or the one before, and stay there."""
        with self._lock:
            self._steps += direction
            self._where = self._where._replace(paused=True, note="")
        self._moved.set()

    def faster(self, direction: int) -> None:
        """The next speed up or down."""
        with self._lock:
            speed = self._where.speed
            others = [s for s in SPEEDS if (s > speed if direction > 0 else s < speed)]
            if others:
                self._where = self._where._replace(speed=min(others) if direction > 0 else max(others))
        self._moved.set()

    # ------------------------------------------------------------------------------------------ the stream's side

    def begin(self, first_s: float, last_s: float) -> None:
        """The recording reaches from one time to another; a position in it is kept."""
        with self._lock:
            where = self._where
            at_s = where.at_s if first_s <= where.at_s <= last_s else first_s
            self._where = where._replace(at_s=at_s, first_s=first_s, last_s=last_s)
            self._before_s = self._clock()

    def advance(self, after: Callable[[float], float | None], before: Callable[[float], float | None]) -> Where:
        """Move by the time that has passed, and by the steps that were asked for.

        Args:
            after: time of the first snapshot after a time; ``None`` at the end.
            before: of the last one before a time.
        """
        with self._lock:
            now, where = self._clock(), self._where
            passed_s, self._before_s = max(0.0, now - self._before_s), now
            steps, self._steps = self._steps, 0
            for _ in range(abs(steps)):
                found = (after if steps > 0 else before)(where.at_s)
                where = where._replace(at_s=where.at_s if found is None else found)
            if not where.paused:
                where = self._onward(where, where.at_s + passed_s * where.speed, after)
            self._where = where
            return where

    @staticmethod
    def _onward(where: Where, wanted_s: float, after: Callable[[float], float | None]) -> Where:
        if wanted_s >= where.last_s:
            return where._replace(at_s=where.last_s, paused=True, note="the end of the recording")
        following = after(where.at_s)
        if following is not None and following > wanted_s and following - where.at_s > GAP_S:
            return where._replace(
                at_s=following, note=f"nothing was recorded for {following - where.at_s:.0f} s before"
            )
        return where._replace(at_s=wanted_s, note="")

    def reach(self, last_s: float) -> None:
        """A journal that is being written has grown."""
        with self._lock:
            self._where = self._where._replace(last_s=max(self._where.last_s, last_s))

    def wait(self, seconds: float) -> None:
        """Until the time has passed or a key was pressed."""
        self._moved.wait(seconds)
        self._moved.clear()

    def wake(self) -> None:
        """End :meth:`wait`."""
        self._moved.set()


class Stream:
    """Snapshots at the player's position. Iterate in one thread; :meth:`close` from any."""

    def __init__(self, path: Path, player: Player) -> None:
        self._path = path
        self._player = player
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Snapshot]:
        """Yield snapshots until :meth:`close`; the same one again and again while it is paused."""
        with Recording(self._path) as recording:
            self._player.begin(recording.first_s, recording.last_s)
            while not self._closed.is_set():
                where = self._player.advance(recording.after, recording.before)
                snapshot = recording.at(where.at_s)
                if snapshot is not None:
                    yield snapshot
                self._player.wait(PERIOD_S)
                recording.refresh()
                self._player.reach(recording.last_s)

    def close(self) -> None:
        """End the iteration, wherever it waits."""
        self._closed.set()
        self._player.wake()


class ReplayClient:
    """What :class:`console.agent.client.AgentClient` is for a running rig.

    Args:
        path: ``history.sqlite`` of a rig, or a copy.
        player: the position; shared with whoever has the keys.
    """

    def __init__(self, path: Path, player: Player) -> None:
        self.path = path
        self.player = player

    def stream(self) -> Stream:
        """Snapshots at the player's position."""
        return Stream(self.path, self.player)

    def history(self, kind: str, since: float | None = None, until: float | None = None) -> list[dict[str, Any]]:
        """Rows of the journal up to the position, oldest first."""
        last_s = min(self.player.where.at_s, until if until is not None else self.player.where.at_s)
        return record.read_history(self.path, kind, since or 0.0, last_s)

    def series(self, since: float, until: float, step: float) -> Chart:
        """Figures over time."""
        return series.chart(self.path, since, until, step)

    def preview(self, kind: str, args: Mapping[str, object]) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("nothing can be changed")

    def operate(self, kind: str, args: Mapping[str, object]) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("nothing can be changed")

    def cancel(self) -> NoReturn:
        """Refused."""
        raise ReplayError("nothing can be cancelled")

    def runs(self, kind: str = "", limit: int = 50) -> list[Any]:  # noqa: ARG002 - the agent's signature
        """None: the ledger is beside a rig, not in its journal."""
        return []

    def environment(self) -> NoReturn:
        """Refused."""
        raise ReplayError("the engine's environment is not recorded")

    def acknowledge(self, alarm_id: str) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("no alarm can be acknowledged")

    def drafters(self) -> NoReturn:
        """Refused."""
        raise ReplayError("drafters are on the rig's disk")

    def check_drafter(self, name: str) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("drafters are on the rig's disk")

    def pulls(self) -> list[Any]:
        """None: nothing is downloaded in the past."""
        return []

    def pull(self, repository: str) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("nothing can be downloaded")

    def cancel_pull(self, pull_id: str) -> NoReturn:  # noqa: ARG002 - the agent's signature
        """Refused."""
        raise ReplayError("nothing can be cancelled")

    def log(self, before: int | None = None, after: int | None = None, limit: int = 200) -> NoReturn:  # noqa: ARG002
        """Refused: the log is a file of its own."""
        raise ReplayError("the engine's log is not recorded")
