"""Leviathan et al. 2023 (arXiv 2211.17192), for reference.

The formula takes a verify for one step of the target. Where a verify of three tokens costs 2.46 decodes it flatters;
:func:`console.economics.measured_speedup` uses what was measured.
"""

from __future__ import annotations

from console.economics import guard
from console.economics.constant import accept_len_constant

GAMMA_LIMIT = 128
"""With drafts that cost nothing a longer chain is never worse; somewhere the search must end."""


def leviathan_speedup(alpha: float, gamma: int, cost: float) -> float:
    """Expected speedup (F12): (1 - a^(g+1)) / ((1 - a)(g * c + 1)), in the sum form, so a = 1 is allowed.

    Args:
        alpha: acceptance, the same at every position, a fraction.
        gamma: draft depth.
        cost: time of one draft step over time of one target step.
    """
    return accept_len_constant(alpha, gamma) / (gamma * guard.not_negative("cost", cost) + 1.0)


def leviathan_best_gamma(alpha: float, cost: float, limit: int = GAMMA_LIMIT) -> int:
    """The depth of the highest F12 speedup, the least of equals; ``limit`` bounds the search."""
    best, best_speedup = 0, leviathan_speedup(alpha, 0, cost)
    for gamma in range(1, guard.depth(limit) + 1):
        speedup = leviathan_speedup(alpha, gamma, cost)
        if guard.exceeds(speedup, best_speedup):
            best, best_speedup = gamma, speedup
    return best
