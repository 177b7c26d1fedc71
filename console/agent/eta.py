"""How far a start is, from the phases of this one and of earlier ones with the same profile: pure arithmetic."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from console import rig
from console.agent.record import Start

STARTS_USED = 5
"""The newest ones: a rig changes."""
ALMOST_DONE = 0.99
"""A start that takes longer than ever before is never called done before it is."""
TOTAL_PHASE = "ready"
"""The log reader's name for the whole start."""
FIRST_PHASE = "imports"
LAST_PHASE = "first_token"


class Progress(NamedTuple):
    """Where a start stands."""

    phases: tuple[rig.Phase, ...]
    progress: float | None = None
    eta_s: float | None = None
    eta_from: str = ""


def with_launch(
    phases: Sequence[rig.Phase], launched_at_s: float, *, first_token: rig.Phase | None = None
) -> tuple[rig.Phase, ...]:
    """The log's phases from the launch on: what passes before its first line belongs to the imports; the sum is no phase."""
    found = [phase for phase in phases if phase.name != TOTAL_PHASE]
    if not found or found[0].name != FIRST_PHASE:
        first = found[0].started_at_s if found else None
        seconds = None if first is None else max(0.0, first - launched_at_s)
        found.insert(0, rig.Phase(FIRST_PHASE, "Imports and argument checks", launched_at_s, seconds))
    else:
        imports = found[0]
        begun = imports.started_at_s
        seconds = imports.seconds
        if seconds is not None and begun is not None:
            seconds += max(0.0, begun - launched_at_s)
        found[0] = msgspec.structs.replace(imports, started_at_s=launched_at_s, seconds=seconds)
    return (*found, first_token) if first_token is not None else tuple(found)


def estimate(phases: Sequence[rig.Phase], earlier: Iterable[Start], *, now_s: float, launched_at_s: float) -> Progress:
    """Phases with what they took before, the share done, and the seconds left.

    A phase counts with the median of its earlier times. Time beyond what a running phase took before is not held
    against the phases that follow.
    """
    starts = list(earlier)[:STARTS_USED]
    if not starts:
        return Progress(tuple(phases))
    expected = _medians(starts)
    shown = tuple(msgspec.structs.replace(phase, expected_s=expected.get(phase.name)) for phase in phases)
    total = statistics.median(start.seconds for start in starts)
    seen = {phase.name for phase in phases}
    left = sum(seconds for name, seconds in expected.items() if name not in seen)
    for phase in shown:
        if phase.seconds is None and phase.expected_s is not None:
            left += _left(phase, phase.expected_s, now_s)
    elapsed = max(0.0, now_s - launched_at_s)
    if not expected:
        left = max(0.0, total - elapsed)
    whole = elapsed + left
    share = min(ALMOST_DONE, elapsed / whole) if whole > 0 else None
    count = len(starts)
    return Progress(shown, share, left, f"{count} earlier start{'' if count == 1 else 's'}")


def _left(phase: rig.Phase, expected_s: float, now_s: float) -> float:
    by_clock = expected_s if phase.started_at_s is None else max(0.0, expected_s - (now_s - phase.started_at_s))
    return by_clock if phase.progress is None else min(expected_s, expected_s * (1.0 - phase.progress))


def _medians(starts: Sequence[Start]) -> dict[str, float]:
    names = {name for start in starts for name in start.phases}
    return {
        name: statistics.median(start.phases[name] for start in starts if name in start.phases)
        for name in sorted(names)
    }


def seconds_by_phase(phases: Iterable[rig.Phase]) -> dict[str, float]:
    """What a finished start took, for the estimate of the next."""
    return {phase.name: phase.seconds for phase in phases if phase.seconds is not None}
