"""The constant-accuracy model: every position is right with the same chance p, given that all before it were.

An estimate, not a measurement: acceptance falls with the position and is correlated within a request, so the model
over-predicts accept_len at depths beyond the measured one. Measured marginals are preferred wherever there are any.
"""

from __future__ import annotations

import math

from console.economics import guard

BISECTIONS = 80
"""Enough to halve 0..1 below the spacing of floats."""


def accept_len_constant(p: float, depth: int | None) -> float:
    """accept_len when every position is accepted with chance ``p`` (F7; F8 for unlimited depth).

    L(p, k) = 1 + p + ... + p^k, the sum form, so p = 1 gives k + 1; L(p, unlimited) = 1 / (1 - p).

    Args:
        p: conditional acceptance, a fraction.
        depth: draft depth k; ``None`` for unlimited.

    Raises:
        NumberError: p outside 0..1, or p = 1 at unlimited depth, which has no finite accept_len.
    """
    p = guard.fraction("p", p)
    if depth is not None:
        return _sum(p, guard.depth(depth))
    if p == 1.0:
        raise guard.NumberError("p = 1 at unlimited depth has no finite accept_len")
    return 1.0 / (1.0 - p)


def _sum(p: float, depth: int) -> float:
    total = 1.0
    for _ in range(depth):
        total = 1.0 + p * total
    return total


def accuracy_for(accept_len: float, depth: int | None) -> float | None:
    """The constant accuracy that gives ``accept_len``: the inverse of F7 by bisection, of F8 in closed form.

    Args:
        accept_len: the accept_len asked for. 1 or less asks nothing of the drafter: 0.0.
        depth: draft depth; ``None`` for unlimited.

    Returns:
        A fraction, or ``None`` when accept_len is above depth + 1: no drafter reaches it, however good.
    """
    accept_len = guard.positive("accept_len", accept_len)
    if accept_len <= 1.0:
        return 0.0
    if depth is None:
        return 1.0 - 1.0 / accept_len
    most = guard.depth(depth) + 1
    if guard.exceeds(accept_len, most):
        return None
    if not guard.exceeds(most, accept_len):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if _sum(middle, depth) < accept_len:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def min_depth(accept_len: float) -> int:
    """The least depth at which ``accept_len`` can be reached at all, by a perfect drafter: ceil(L) - 1.

    6.0 needs 5; 6.0 with float dust (200 tok/s times 30 ms) needs 5 too. 1 or less needs none: 0.
    """
    accept_len = guard.positive("accept_len", accept_len)
    nearest = round(accept_len)
    whole = nearest if math.isclose(accept_len, nearest, rel_tol=guard.TOLERANCE) else math.ceil(accept_len)
    return max(0, whole - 1)
