"""SGLang's adaptive depth policy, so that "back to SGLang's policy" means something here as well.

The rule is that of ``speculative/adaptive_spec_params.py``: an exponential mean of accepted drafts moves the depth to a
neighbouring candidate. No time enters it, so it cannot tell whether speculation loses; that is left so on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.simulate.options import Tiers


class Policy:
    """Chooses the depth by batch size and by the mean of accepted drafts."""

    def __init__(self, tiers: Tiers, depth: int) -> None:
        self.tiers = tiers
        self.depth = depth
        self.mean: float | None = None
        self._batches = 0

    def candidates(self, batch: int) -> tuple[int, ...]:
        """Depths of the largest slot that is not above ``batch``."""
        slots = [slot for slot in self.tiers.slots if slot <= batch]
        return tuple(sorted(self.tiers.slots[max(slots) if slots else min(self.tiers.slots)]))

    def depth_for(self, batch: int) -> int:
        """The depth for a batch: today's when its slot has it, else the nearest candidate below, else the lowest."""
        candidates = self.candidates(batch)
        return max((step for step in candidates if step <= self.depth), default=candidates[0])

    def observe(self, accepted: float, batch: int) -> int | None:
        """Take in one batch's mean of accepted drafts; the new depth when the policy changes it."""
        alpha = self.tiers.ema_alpha
        self.mean = accepted if self.mean is None else alpha * accepted + (1 - alpha) * self.mean
        self._batches += 1
        if self._batches < self.tiers.warmup_batches or self._batches % self.tiers.update_interval:
            return None
        new = self._next(self.candidates(batch))
        if new == self.depth:
            return None
        self.depth = new
        return new

    def _next(self, candidates: tuple[int, ...]) -> int:
        index = max((i for i, step in enumerate(candidates) if step <= self.depth), default=0)
        mean = self.mean or 0.0
        while index > 0:
            below = candidates[index - 1]
            if mean > (below - 0.5 if below else 0.5) + self.tiers.down_hysteresis:
                break
            index -= 1
        while index + 1 < len(candidates) and mean > candidates[index] - 0.5 + self.tiers.up_hysteresis:
            index += 1
        return candidates[index]
