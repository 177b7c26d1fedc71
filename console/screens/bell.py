"""When the terminal's bell rings: for an error alarm that is new while somebody looks on."""

from __future__ import annotations

from console.rig import Snapshot


class Bell:
    """Remembers which alarms were there.

    Args:
        enabled: ring at all.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._known: frozenset[tuple[str, float]] | None = None
        """``None`` before the first snapshot: what stands then is on the screen already."""

    def rings(self, snapshot: Snapshot) -> bool:
        """Whether it rings for this snapshot; to be asked once for each."""
        standing = frozenset((alarm.id, alarm.since_s) for alarm in snapshot.alarms if alarm.level == "error")
        known, self._known = self._known, standing
        fresh = known is not None and any(
            (alarm.id, alarm.since_s) not in known and not alarm.acknowledged_by
            for alarm in snapshot.alarms
            if alarm.level == "error"
        )
        return fresh and self.enabled
