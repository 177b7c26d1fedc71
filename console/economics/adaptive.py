"""SGLang's own choice of depth, so that the console can say what the engine will do next.

No time enters the rule: it cannot tell whether speculation loses to no speculation.
"""

from __future__ import annotations

from collections.abc import Sequence

from console.economics import guard


def sglang_adaptive_rule(
    ema_accepted: float,
    current: int,
    candidates: Sequence[int],
    *,
    down_hysteresis: float = -0.25,
    up_hysteresis: float = 0.0,
) -> int:
    """The depth SGLang's adaptive policy goes to (``speculative/adaptive_spec_params.py``, 0.5.23).

    Drops to the candidate q below while ema <= q - 0.5 + down (0.5 + down for q = 0); else rises while
    ema > current - 0.5 + up. From 0 it always probes the next candidate.

    Args:
        ema_accepted: exponential mean of accepted drafts a round, accept_len - 1.
        current: the depth in use, one of ``candidates``.
        candidates: depths with prebuilt state.
        down_hysteresis: constant of the batch slot, added to the drop threshold.
        up_hysteresis: constant of the batch slot, added to the rise threshold.

    Raises:
        NumberError: ``current`` is not a candidate.
    """
    ema = guard.number("ema_accepted", ema_accepted)
    tiers = sorted({guard.depth(tier) for tier in candidates})
    if current not in tiers:
        raise guard.NumberError(f"depth {current} is not one of the candidate steps {tiers}")
    start = index = tiers.index(current)
    if current == 0:
        return tiers[min(index + 1, len(tiers) - 1)]
    while index > 0 and ema <= (tiers[index - 1] - 0.5 if tiers[index - 1] else 0.5) + down_hysteresis:
        index -= 1
    if index < start:
        return tiers[index]
    while index < len(tiers) - 1 and ema > tiers[index] - 0.5 + up_hysteresis:
        index += 1
    return tiers[index]
