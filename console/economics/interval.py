"""How sure a measured acceptance is: Wilson intervals, and acceptance by position with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from console import rig
from console.economics import guard

Z_95 = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


def wilson(hits: int, tries: int, z: float = Z_95) -> rig.Share:
    """A share with its Wilson score interval (Wilson 1927), which stays inside 0..1 and is honest for few tries.

    Args:
        hits: successes.
        tries: attempts; 0 gives a share without value.
        z: normal quantile of the interval.

    Raises:
        NumberError: more hits than tries, or a negative count.
    """
    if guard.count("hits", hits) > guard.count("tries", tries):
        raise guard.NumberError(f"{hits} hits in {tries} tries: the counters do not belong together")
    z = guard.positive("z", z)
    if tries == 0:
        return rig.Share()
    share = hits / tries
    square = z * z / tries
    centre = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / tries + square / (4 * tries))
    return rig.Share(
        value=share, low=min(share, max(0.0, centre - half)), high=max(share, min(1.0, centre + half)), tries=tries
    )


def positions(tries: Sequence[int], hits: Sequence[int], rounds: int | None = None) -> tuple[rig.Position, ...]:
    """Acceptance by draft position from counts (F5, F6).

    Args:
        tries: by position, rounds that drafted it and accepted everything before it.
        hits: by position, how many of those accepted it too.
        rounds: all request-rounds of the window, also those that drafted nothing; ``tries[0]`` when not given.

    Returns:
        A position each, 1-based; 1 + the sum of marginals is the window's accept_len.

    Raises:
        NumberError: counts that contradict one another.
    """
    if len(tries) != len(hits):
        raise guard.NumberError(f"tries by position has {len(tries)} entries, hits has {len(hits)}")
    if not tries:
        return ()
    total = guard.count("tries 1", tries[0]) if rounds is None else guard.count("rounds", rounds)
    before, found = total, []
    for index, (tried, hit) in enumerate(zip(tries, hits, strict=True), 1):
        if guard.count(f"tries {index}", tried) > before:
            raise guard.NumberError(f"position {index} was tried {tried} times, but only {before} rounds got there")
        found.append(rig.Position(index=index, conditional=wilson(hit, tried), marginal=wilson(hit, total)))
        before = hit
    return tuple(found)


def accept_len_bounds(found: Sequence[rig.Position]) -> tuple[float, float] | None:
    """Bounds of accept_len from the intervals of the marginals: 1 + their sums.

    Wider than 95 %, because the marginals of one window move together; good for "cannot tell yet".

    Returns:
        (low, high), or ``None`` when a position has no tries.
    """
    lows = [position.marginal.low for position in found if position.marginal.low is not None]
    highs = [position.marginal.high for position in found if position.marginal.high is not None]
    if not found or len(lows) != len(found) or len(highs) != len(found):
        return None
    return 1.0 + math.fsum(lows), 1.0 + math.fsum(highs)
