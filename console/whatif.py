"""What would have to be true: the live figures with some of them replaced by assumptions. Pure.

The cycle at depth k is verify + (k - 1) draft steps + draft-extend + gap: in SGLang the first draft token comes out of the
draft-extend pass. Verify is taken as it is at every width, which a wide verify may belie: a calibration measures it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from console import economics
from console.rig import Baseline, Snapshot, Targets

DEEPEST = 16


class Slider(StrEnum):
    """What can be assumed."""

    VERIFY = "verify"
    STEP = "draft step"
    DEPTH = "depth"
    ACCURACY = "accuracy"
    BASELINE = "baseline"


STARTS = {Slider.VERIFY: 20.0, Slider.STEP: 1.0, Slider.DEPTH: 3.0, Slider.ACCURACY: 0.6, Slider.BASELINE: 50.0}
"""Where a slider begins that nothing was measured for; it is marked as assumed."""
LIMITS = {
    Slider.VERIFY: (0.1, 1000.0),
    Slider.STEP: (0.0, 100.0),
    Slider.DEPTH: (1.0, float(DEEPEST)),
    Slider.ACCURACY: (0.0, 1.0),
    Slider.BASELINE: (0.5, 10000.0),
}


class Measured(msgspec.Struct, frozen=True):
    """What the rig says at this moment; ``None``: it does not."""

    verify_ms: float | None = None
    step_ms: float | None = None
    """Of one draft forward."""
    rest_ms: float = 0.0
    """Draft-extend and gap."""
    depth: int | None = None
    conditionals: tuple[float, ...] = ()
    """Acceptance by position; empty: only accept_len is known."""
    accuracy: float | None = None
    """The constant accuracy that gives today's accept_len at today's depth."""
    accept_len: float | None = None
    baseline: Baseline = Baseline()
    goals_tok_s: tuple[float, ...] = ()
    split: bool = False
    """The cycle is known by stages; otherwise all of it stands as verify."""

    def value(self, slider: Slider) -> float | None:
        """What was measured for a slider."""
        return {
            Slider.VERIFY: self.verify_ms,
            Slider.STEP: self.step_ms,
            Slider.DEPTH: None if self.depth is None else float(self.depth),
            Slider.ACCURACY: self.accuracy,
            Slider.BASELINE: self.baseline.tok_s,
        }[slider]


def measured(snapshot: Snapshot) -> Measured:
    """What a snapshot says, as the sliders need it."""
    targets, cycle = snapshot.targets, snapshot.cycle
    depth = targets.depth
    total, verify = _positive(targets.cycle_ms), _positive(cycle.verify.mean_ms)
    draft = cycle.draft.mean_ms
    steps = max((depth or 1) - 1, 0)
    split = total is not None and verify is not None and verify <= total
    step = None
    if draft is not None and math.isfinite(draft) and draft >= 0 and steps:
        step = draft / steps
    rest = max(0.0, (total or 0.0) - (verify or 0.0) - (step or 0.0) * steps) if split else 0.0
    won = targets.accept_len
    accuracy = None
    if won is not None and won >= 1 and depth:
        accuracy = economics.accuracy_for(won, depth)
    return Measured(
        verify_ms=verify if split else total,
        step_ms=step if split else None,
        rest_ms=rest,
        depth=depth or None,
        conditionals=_conditionals(snapshot),
        accuracy=accuracy,
        accept_len=won,
        baseline=targets.baseline,
        goals_tok_s=tuple(goal.tok_s for goal in targets.goals),
        split=split,
    )


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _conditionals(snapshot: Snapshot) -> tuple[float, ...]:
    found = []
    for position in snapshot.acceptance.positions:
        value = position.conditional.value
        if value is None or not 0 <= value <= 1:
            break
        found.append(value)
    return tuple(found)


class WhatIf(msgspec.Struct, frozen=True):
    """Live figures and what is assumed instead of some of them."""

    live: Measured = Measured()
    assumed: dict[Slider, float] = {}

    def value(self, slider: Slider) -> float | None:
        """The figure in force: assumed, else measured."""
        return self.assumed.get(slider, self.live.value(slider))

    def moved(self, slider: Slider, steps: float) -> WhatIf:
        """One slider by so many fine steps, within its limits."""
        value = self.value(slider)
        begin = STARTS[slider] if value is None else value
        low, high = LIMITS[slider]
        size = _step(slider, begin)
        wanted = begin if value is None else (round(begin / size) + steps) * size
        return msgspec.structs.replace(self, assumed={**self.assumed, slider: min(max(low, round(wanted, 6)), high)})

    def back(self, *sliders: Slider) -> WhatIf:
        """Some sliders, or all, back to what is measured."""
        kept = {key: value for key, value in self.assumed.items() if sliders and key not in sliders}
        return msgspec.structs.replace(self, assumed=kept)

    def at(self, live: Measured) -> WhatIf:
        """The same assumptions on newer figures."""
        return msgspec.structs.replace(self, live=live)

    # ---------------------------------------------------------------------------------------- what follows

    def cycle_ms(self, depth: int) -> float | None:
        """The cycle at a depth; ``None`` without a verify time."""
        verify = self.value(Slider.VERIFY)
        if verify is None:
            return None
        return verify + (self.value(Slider.STEP) or 0.0) * max(depth - 1, 0) + self.live.rest_ms

    def accept_len(self, depth: int, accuracy: float | None = None) -> float | None:
        """Tokens a round at a depth, by measured positions while accuracy is not assumed; beyond them as the last one.

        Args:
            depth: draft depth.
            accuracy: a constant accuracy instead.
        """
        assumed = accuracy if accuracy is not None else self.assumed.get(Slider.ACCURACY)
        if assumed is None and self.live.conditionals:
            known = self.live.conditionals
            wanted: Sequence[float] = [known[min(index, len(known) - 1)] for index in range(depth)]
            return economics.accept_len_from_marginals(economics.marginals_from_conditionals(wanted))
        constant = assumed if assumed is not None else self.live.accuracy
        return None if constant is None else economics.accept_len_constant(constant, depth)

    def speed_tok_s(self, depth: int, accuracy: float | None = None) -> float | None:
        """Speed of one stream at a depth; at depth 0 the baseline."""
        if depth == 0:
            return self.value(Slider.BASELINE)
        cycle, won = self.cycle_ms(depth), self.accept_len(depth, accuracy)
        return None if cycle is None or won is None else economics.speed_tok_s(won, cycle)

    @property
    def depth(self) -> int | None:
        """The depth in force."""
        value = self.value(Slider.DEPTH)
        return None if value is None else round(value)

    def targets(self) -> Targets:
        """Verdict and goals under the assumptions."""
        depth, base = self.depth, self.value(Slider.BASELINE)
        cycle = None if depth is None else self.cycle_ms(depth)
        baseline = self.live.baseline
        if base != baseline.tok_s:
            baseline = Baseline(tok_s=base, note="assumed")
        goals = [goal for goal in self.live.goals_tok_s if goal != self.live.baseline.tok_s]
        won = None if depth is None else self.accept_len(depth)
        return economics.targets(baseline, cycle, depth, won, goals, verify_ms=self.value(Slider.VERIFY))

    def best_depth(self) -> tuple[int, float] | None:
        """The fastest depth and its speed, 0 among them; the shallower of equals. ``None`` while a draft step has no price."""
        if self.value(Slider.STEP) is None:
            return None
        speeds = {depth: speed for depth in range(DEEPEST + 1) if (speed := self.speed_tok_s(depth)) is not None}
        if not any(speeds):
            return None
        best = max(speeds, key=lambda depth: (speeds[depth], -depth))
        return best, speeds[best]


def _step(slider: Slider, value: float) -> float:
    """One fine step: about a hundredth of the value, and a round number."""
    fixed: Mapping[Slider, float] = {Slider.DEPTH: 1.0, Slider.ACCURACY: 0.005}
    if slider in fixed:
        return fixed[slider]
    return next(
        (size for limit, size in ((1.0, 0.01), (10.0, 0.1), (100.0, 0.5), (1000.0, 5.0)) if value < limit), 50.0
    )
