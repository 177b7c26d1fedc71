"""Which actions are possible now. The footer, the help, the palette and the keys all ask here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from console.rig import Engine, EngineState, OperationState, Snapshot

SERVING = frozenset({EngineState.READY, EngineState.PAUSED, EngineState.BUSY})
"""States in which the engine answers requests, or would if it were not held."""
ALIVE = SERVING | {EngineState.STARTING, EngineState.STOPPING}
"""States in which there is a process."""


@dataclass(frozen=True, slots=True)
class Now:
    """What decides: the newest snapshot (not a frozen one), the connection, and whether this console may change anything."""

    snapshot: Snapshot | None = None
    connected: bool = False
    read_only: bool = False

    @property
    def engine(self) -> Engine:
        """The engine, or none."""
        return self.snapshot.engine if self.snapshot is not None else Engine()

    @property
    def running(self) -> bool:
        """An operation runs."""
        operation = self.snapshot.operation if self.snapshot is not None else None
        return operation is not None and operation.state is OperationState.RUNNING

    @property
    def cancellable(self) -> bool:
        """An operation runs and has not passed its point of no return."""
        operation = self.snapshot.operation if self.snapshot is not None else None
        return self.running and operation is not None and operation.cancellable

    @property
    def may_write(self) -> bool:
        """The agent answers and this console may change the rig."""
        agent_read_only = self.snapshot is not None and self.snapshot.agent.read_only
        return self.connected and self.snapshot is not None and not self.read_only and not agent_read_only

    @property
    def may_begin(self) -> bool:
        """A new operation would be accepted."""
        return self.may_write and not self.running

    @property
    def ours(self) -> bool:
        """The engine was started from here, so it can be stopped from here."""
        return not self.engine.attached


def depth_now(snapshot: Snapshot) -> int | None:
    """The depth in force; the one it was launched with when no newer one is known."""
    value = snapshot.acceptance.depth.value
    return round(value) if value is not None else snapshot.engine.depth_launch


def next_depth(snapshot: Snapshot, direction: int, start: int | None = None) -> int | None:
    """The neighbouring depth, ``None`` when there is none.

    Among the prebuilt depths where the engine has some; otherwise one more or one less, and not below 1: depth 0 by restart
    is another engine, which the profile decides.

    Args:
        snapshot: the newest one.
        direction: -1 or +1.
        start: count from this depth; default: the one in force.
    """
    depth = depth_now(snapshot) if start is None else start
    engine = snapshot.engine
    if depth is None or not (engine.algorithm or engine.candidate_steps):
        return None
    if engine.candidate_steps:
        steps = sorted(engine.candidate_steps, reverse=direction < 0)
        return next((step for step in steps if (step - depth) * direction > 0), None)
    wanted = depth + direction
    return wanted if wanted >= 1 else None


def _depth(direction: int) -> Callable[[Now], bool]:
    def check(now: Now) -> bool:
        snapshot = now.snapshot
        if snapshot is None or not now.may_begin or now.engine.state not in SERVING:
            return False
        if not (now.ours or snapshot.probe.depth_live):
            return False
        return next_depth(snapshot, direction) is not None

    return check


_CHECKS: dict[str, Callable[[Now], bool]] = {
    "depth_down": _depth(-1),
    "depth_up": _depth(1),
    "log": lambda now: bool(now.engine.log_path) and now.ours,
    "filter_log": lambda now: bool(now.engine.log_path) and now.ours,
    "save": lambda now: bool(now.engine.profile) and now.ours and not now.read_only,
    "restart": lambda now: (
        now.may_begin
        and now.ours
        and bool(now.engine.profile)
        and now.engine.state in SERVING | {EngineState.DEAD, EngineState.STOPPED}
    ),
    "stop": lambda now: now.may_write and now.ours and now.engine.state in ALIVE - {EngineState.STOPPING},
    "detach": lambda now: now.may_begin and not now.ours,
    "cancel": lambda now: now.may_write and now.cancellable,
    "launch_view": lambda now: now.engine.state in {EngineState.STARTING, EngineState.DEAD},
    "freeze": lambda now: now.snapshot is not None,
    "drafters": lambda now: now.engine.state is not EngineState.NONE,
    "targets": lambda now: now.snapshot is not None,
    "acknowledge": lambda now: (
        now.may_write and now.snapshot is not None and any(not alarm.acknowledged_by for alarm in now.snapshot.alarms)
    ),
    "history": lambda now: now.connected and now.snapshot is not None,
    "baseline": lambda now: now.may_begin and now.ours and now.engine.state is EngineState.READY,
    "calibrate": lambda now: (
        now.may_begin
        and now.ours
        and now.engine.state is EngineState.READY
        and now.snapshot is not None
        and now.snapshot.probe.depth_live
        and bool(now.engine.candidate_steps)
    ),
    "environment": lambda now: now.engine.state in ALIVE and now.ours,
    "swap": lambda now: now.may_begin and now.ours and now.engine.state in SERVING,
    "launch": lambda now: now.may_begin,
}

CHECKED = tuple(_CHECKS)
"""Actions that are not always possible."""


def possible(action: str, now: Now) -> bool:
    """Whether the action can be done now; an action without a condition always can."""
    check = _CHECKS.get(action)
    return check is None or check(now)
