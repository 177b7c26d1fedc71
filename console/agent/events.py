"""What has happened: kept for the screen, journalled, and logged."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from console import rig

log = logging.getLogger(__name__)

KEPT = 200
_LEVELS = {"error": logging.ERROR, "warn": logging.WARNING}


class EventLog:
    """The newest events of a rig.

    Args:
        record: keeps an event for good.
        changed: called after each.
        clock: Unix seconds.
    """

    def __init__(
        self,
        record: Callable[[rig.Event], None],
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._record = record
        self._changed = changed
        self._clock = clock
        self._events: deque[rig.Event] = deque(maxlen=KEPT)

    def add(self, level: str, text: str, kind: str = "engine") -> None:
        """Something happened; ``level`` is info, warn or error."""
        found = rig.Event(self._clock(), level, text, kind)
        self._events.append(found)
        self._record(found)
        log.log(_LEVELS.get(level, logging.INFO), "%s", text)
        self._changed()

    def newest(self) -> tuple[rig.Event, ...]:
        """All that are kept, oldest first."""
        return tuple(self._events)
