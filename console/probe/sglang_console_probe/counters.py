"""Counters since the rank's start, and a window of the newest samples. Owned by the publishing thread."""

from __future__ import annotations

from collections import deque
from typing import Any

WINDOW_SAMPLES = 256
POSITIONS_LIMIT = 64


def bucket(batch: int) -> int:
    """The batch size a sample is counted under: exact to 16, then rounded up to a multiple of 8, from 64 on of 32."""
    if batch <= 16:
        return batch
    step = 8 if batch <= 64 else 32
    return -(-batch // step) * step


class StageCounter:
    """Milliseconds of one stage."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self._by_batch: dict[int, list[float]] = {}
        self._window: deque[float] = deque(maxlen=WINDOW_SAMPLES)

    def add(self, batch: int, ms: float) -> None:
        """One round's time."""
        self.count += 1
        self.sum_ms += ms
        self._window.append(ms)
        entry = self._by_batch.setdefault(bucket(batch), [0, 0.0])
        entry[0] += 1
        entry[1] += ms

    def clear_window(self) -> None:
        """What comes now is not to be mixed with what was: another depth or another drafter."""
        self._window.clear()

    def message(self) -> dict[str, Any]:
        """As the feed has it."""
        ordered = sorted(self._window)
        window: dict[str, Any] = {"count": len(ordered)}
        if ordered:
            window["p50_ms"] = round(quantile(ordered, 0.50), 4)
            window["p95_ms"] = round(quantile(ordered, 0.95), 4)
            window["max_ms"] = round(ordered[-1], 4)
        by_batch = {str(size): [int(n), round(ms, 3)] for size, (n, ms) in sorted(self._by_batch.items())}
        return {"count": self.count, "sum_ms": round(self.sum_ms, 3), "window": window, "by_batch": by_batch}


def quantile(ordered: list[float], share: float) -> float:
    """The quantile of sorted values by linear interpolation (NumPy's default, R-7)."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class AcceptanceCounter:
    """Acceptance by draft position.

    A request with ``c`` drafted tokens accepted of ``depth`` was tried at positions 1 to min(c + 1, depth) and hit at
    1 to c. With more than one branch (topk > 1) ``c`` is the length of the accepted path, and a position is a level of
    the tree.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.rounds = 0
        self.drafted = 0
        self._by_depth: dict[int, list[int]] = {}
        """Depth -> request-rounds by number accepted: one addition a request, all else is derived."""

    def add(self, accepted: list[int], skip: list[bool], depth: int, drafted_each: int) -> None:
        """One batch.

        Args:
            accepted: drafted tokens accepted by request, the bonus token not counted.
            skip: requests that had ended or were retracted before this result came; their rows mean nothing.
            depth: steps drafted.
            drafted_each: tokens drafted for each request (more than ``depth`` with branches).
        """
        counted = [count for count, left_out in zip(accepted, skip, strict=False) if not left_out]
        if not counted:
            return
        self.steps += 1
        self.rounds += len(counted)
        self.drafted += drafted_each * len(counted)
        histogram = self._by_depth.setdefault(depth, [0] * (depth + 1))
        for count in counted:
            histogram[min(count, depth)] += 1

    @property
    def accepted(self) -> int:
        """Drafted tokens accepted."""
        return sum(count * times for histogram in self._by_depth.values() for count, times in enumerate(histogram))

    @property
    def hits(self) -> list[int]:
        """By position: accepted there."""
        return [self._reaching(position, position) for position in range(1, self._deepest + 1)]

    @property
    def tries(self) -> list[int]:
        """By position: drafted there, and everything before accepted."""
        return [self._reaching(position, position - 1) for position in range(1, self._deepest + 1)]

    @property
    def _deepest(self) -> int:
        return min(max(self._by_depth, default=0), POSITIONS_LIMIT)

    def _reaching(self, position: int, accepted: int) -> int:
        """Request-rounds of at least that depth with at least so many accepted."""
        return sum(sum(histogram[accepted:]) for depth, histogram in self._by_depth.items() if depth >= position)

    def message(self) -> dict[str, Any]:
        """As the feed has it."""
        return {
            "steps": self.steps,
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "tries": self.tries,
            "hits": self.hits,
        }
