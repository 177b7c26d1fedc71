"""Stage times as the probe keeps them: totals since the start, and percentiles of the last rounds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW_ROUNDS = 120
"""Rounds a percentile is taken over: about four seconds of decoding."""


@dataclass
class StageTimes:
    """Milliseconds of one stage."""

    count: int = 0
    sum_ms: float = 0.0
    by_batch: dict[int, list[float]] = field(default_factory=dict)
    window: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW_ROUNDS))

    def add(self, ms: float, batch: int) -> None:
        """One round of a batch of ``batch`` requests."""
        self.count += 1
        self.sum_ms += ms
        bucket = self.by_batch.setdefault(batch, [0, 0.0])
        bucket[0] += 1
        bucket[1] += ms
        self.window.append(ms)

    def percentiles(self) -> tuple[int, float, float, float] | None:
        """Rounds, median, 95th percentile and maximum of the window; ``None`` before the first round."""
        if not self.window:
            return None
        ordered = sorted(self.window)
        last = len(ordered) - 1
        return len(ordered), ordered[last // 2], ordered[round(last * 0.95)], ordered[-1]

    def message(self, factor: float) -> dict[str, object]:
        """The stage as the probe's feed has it, for a rank that takes ``factor`` times as long."""
        body: dict[str, object] = {"count": self.count, "sum_ms": round(self.sum_ms * factor, 3)}
        if shape := self.percentiles():
            count, p50, p95, top = shape
            body["window"] = {
                "count": count,
                "p50_ms": round(p50 * factor, 3),
                "p95_ms": round(p95 * factor, 3),
                "max_ms": round(top * factor, 3),
            }
        body["by_batch"] = {str(batch): [int(n), round(ms * factor, 3)] for batch, (n, ms) in self.by_batch.items()}
        return body
