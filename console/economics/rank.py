"""Which depth or configuration is fastest: ranked by tok/s, never by accept_len.

The highest accept_len is often not the fastest: deeper drafting also costs more (SpecForge issue 339, vLLM issue 20780).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from console.economics import guard
from console.economics.acceptance import accept_len_from_marginals
from console.economics.speed import speed_tok_s


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration with what it costs and what it wins."""

    label: str
    accept_len: float
    cycle_ms: float
    depth: int | None = None

    @property
    def tok_s(self) -> float:
        """Speed of one stream (F9)."""
        return speed_tok_s(self.accept_len, self.cycle_ms)


@dataclass(frozen=True, slots=True)
class CycleCost:
    """A straight line through measured cycles: ``fixed_ms + per_depth_ms * depth``."""

    fixed_ms: float
    per_depth_ms: float

    def at(self, depth: int) -> float:
        """Estimated cycle at ``depth``, milliseconds."""
        return self.fixed_ms + self.per_depth_ms * guard.depth(depth)


def rank(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Fastest first; of equals the shallower, then in the order given."""
    return tuple(sorted(candidates, key=lambda item: (-item.tok_s, item.depth if item.depth is not None else 0)))


def best_depth(marginals: Sequence[float], cost_ms_by_depth: Mapping[int, float]) -> tuple[Candidate, ...]:
    """Depths ranked by tok/s (F14): (1 + sum of the first k marginals) / cycle(k).

    Args:
        marginals: measured acceptance by position; not the constant-accuracy model, which over-predicts depth.
        cost_ms_by_depth: measured cycle by depth. Depth 0 (speculation off) may be among them.

    Returns:
        Fastest first. A depth beyond the measured marginals is left out: nothing is known of it.
    """
    known = len(marginals)
    return rank(
        Candidate(
            label=f"depth {k}",
            accept_len=accept_len_from_marginals(marginals[:k]),
            cycle_ms=cycle_ms,
            depth=guard.depth(k),
        )
        for k, cycle_ms in cost_ms_by_depth.items()
        if guard.depth(k) <= known
    )


def fit_cycle(cost_ms_by_depth: Mapping[int, float]) -> CycleCost | None:
    """Least squares of cycle against depth: verify's fixed cost, and what one more draft token costs.

    Depth 0 is left out: a plain decode runs another path than a verify. ``None`` with fewer than two depths.
    """
    points = [(guard.depth(k), guard.positive("cycle_ms", ms)) for k, ms in cost_ms_by_depth.items() if k]
    if len(points) < 2:
        return None
    mean_k = sum(k for k, _ in points) / len(points)
    mean_ms = sum(ms for _, ms in points) / len(points)
    spread = sum((k - mean_k) ** 2 for k, _ in points)
    slope = sum((k - mean_k) * (ms - mean_ms) for k, ms in points) / spread
    return CycleCost(fixed_ms=mean_ms - slope * mean_k, per_depth_ms=slope)
