"""Auto-depth: the depth that the measured cost table and the live acceptance make fastest, with hysteresis.

SGLang's adaptive policy looks at accepted tokens only; on a rig whose verify is dear it holds a losing depth for ever
(accept_len 2.0 at 3 steps stays, where time would say: switch speculation off). Here time decides: F14 of docs/economics.md
with marginals from live conditionals, per concurrency bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from console.economics import marginals_from_conditionals
from console.rig import Position


class Settings(msgspec.Struct, frozen=True):
    """How willing it is to change."""

    gain: float = 0.03
    """Predicted gain below which the depth stays."""
    hold_s: float = 5.0
    """Time between two changes."""
    min_tries: int = 200
    """Draft tokens seen at a position before its acceptance is believed."""
    memory_tries: int = 2000
    """Older tries fade out over about so many newer ones."""
    look_after_s: float = 60.0
    """While speculation is off nothing is learnt of the drafter: after this time one short look, then ever rarer ones."""
    look_rarest_s: float = 900.0


class Decision(msgspec.Struct, frozen=True):
    """One decision with its reason, for the log."""

    depth: int
    change: bool
    why: str
    predicted_tok_s: float | None = None
    current_tok_s: float | None = None


class AutoDepth:
    """Holds what hysteresis needs: what was seen of each position, when the depth last changed, when to look again.

    Args:
        candidates: depths with prebuilt state.
        costs: cycle in ms by depth, by concurrency bucket, from a calibration.
        settings: how willing it is to change.
    """

    def __init__(
        self, candidates: Sequence[int], costs: Mapping[int, Mapping[int, float]], settings: Settings | None = None
    ) -> None:
        self.candidates = tuple(sorted(set(candidates)))
        self.costs = costs
        self.settings = settings or Settings()
        self.changed_at_s: float | None = None
        self.seen: dict[int, tuple[float, float]] = {}
        """Position -> (hits, tries), faded."""
        self.look_tries: float | None = None
        """Tries seen since a look began; ``None`` outside one."""
        self.look_wait_s = self.settings.look_after_s

    def decide(self, now_s: float, current: int, running: float, positions: Sequence[Position]) -> Decision:
        """The depth for the next seconds.

        Args:
            now_s: monotonic seconds.
            current: depth in force.
            running: requests running now.
            positions: acceptance by position over the last window; empty while speculation is off.
        """
        self._learn(positions)
        if running <= 0:
            return Decision(current, False, "nothing is running")
        if waiting := self._waiting(now_s):
            return Decision(current, False, waiting)
        bucket = min(self.costs, key=lambda size: (abs(size - running), size), default=None)
        if bucket is None:
            return Decision(current, False, "no cost table: calibrate first")
        speeds = self._speeds(self.costs[bucket])
        if current not in speeds:
            return Decision(
                current, False, f"depth {current} was not measured at {bucket} running, or acceptance is not known"
            )
        return self._best(now_s, current, bucket, speeds)

    def _best(self, now_s: float, current: int, bucket: int, speeds: Mapping[int, float]) -> Decision:
        best = max(speeds, key=lambda depth: (speeds[depth], -depth))
        looked = self.look_tries is not None
        self.look_tries = None
        gain = speeds[best] / speeds[current] - 1.0
        if gain >= self.settings.gain:
            self._pace(found_use=best > 0, looked=looked)
            return self._change(now_s, best, speeds, current, f"{gain:+.0%} predicted at {bucket} running")
        if current == 0 and now_s - (self.changed_at_s or 0.0) >= self.look_wait_s:
            deeper = [depth for depth in speeds if depth > 0] or [depth for depth in self.candidates if depth > 0]
            if deeper:
                self.look_tries = 0.0
                depth = max(deeper, key=lambda item: (speeds.get(item, 0.0), -item))
                return self._change(now_s, depth, speeds, current, "a short look at the drafter")
        return Decision(
            current, False, f"depth {current} is best or within {self.settings.gain:.0%}", speeds[best], speeds[current]
        )

    def _pace(self, *, found_use: bool, looked: bool) -> None:
        """Looks that find nothing become rarer; one that finds something starts anew."""
        if found_use:
            self.look_wait_s = self.settings.look_after_s
        elif looked:
            self.look_wait_s = min(2 * self.look_wait_s, self.settings.look_rarest_s)

    def _waiting(self, now_s: float) -> str:
        """Why it is too early to decide."""
        if self.look_tries is not None:
            needed = self.settings.min_tries / 2
            return (
                f"looks at the drafter: {self.look_tries:.0f} of {needed:.0f} tries" if self.look_tries < needed else ""
            )
        if self.changed_at_s is not None and now_s - self.changed_at_s < self.settings.hold_s:
            return f"holds for {self.settings.hold_s:.0f} s after a change"
        return ""

    def _learn(self, positions: Sequence[Position]) -> None:
        """Fade what is old, add what is new; deeper positions are remembered through a stay at a shallow depth."""
        for position in positions:
            share = position.conditional
            if share.value is None or share.tries <= 0:
                continue
            hits, tries = self.seen.get(position.index, (0.0, 0.0))
            keep = max(0.0, 1.0 - share.tries / self.settings.memory_tries)
            self.seen[position.index] = hits * keep + share.value * share.tries, tries * keep + share.tries
            if position.index == 1 and self.look_tries is not None:
                self.look_tries += share.tries

    def _conditional(self, index: int) -> float | None:
        hits, tries = self.seen.get(index, (0.0, 0.0))
        return (
            hits / tries if tries >= (self.settings.min_tries if index == 1 else self.settings.min_tries / 4) else None
        )

    def _speeds(self, cost_ms: Mapping[int, float]) -> dict[int, float]:
        """tok/s of a stream by depth; a position never seen is taken to be as good as the one before it."""
        speeds = {}
        for depth in self.candidates:
            cycle = cost_ms.get(depth)
            if not cycle or (depth > 0 and self._conditional(1) is None):
                continue
            known: list[float | None] = []
            for index in range(1, depth + 1):
                conditional = self._conditional(index)
                known.append(conditional if conditional is not None else known[-1])
            speeds[depth] = 1000.0 * (1.0 + sum(marginals_from_conditionals(known))) / cycle
        return speeds

    def _change(self, now_s: float, depth: int, speeds: Mapping[int, float], current: int, why: str) -> Decision:
        self.changed_at_s = now_s
        return Decision(depth, True, f"depth {current} -> {depth}: {why}", speeds.get(depth), speeds.get(current))
