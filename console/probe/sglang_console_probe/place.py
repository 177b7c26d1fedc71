"""Where this scheduler stands among the others.

The place of these facts moved twice between SGLang 0.5.11 and 0.5.23.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """One scheduler process among all that belong to the engine."""

    rank: int
    """Unique over all schedulers: the tensor-parallel rank, then by pipeline stage, then by replica."""
    ranks: int
    tp: int
    pp: int = 1
    replicas: int = 1
    """Data-parallel replicas, each with ranks of its own."""

    @property
    def live_why(self) -> str:
        """Why nothing can be changed live in this layout; empty when it can."""
        if self.pp > 1:
            return "the engine runs pipeline stages; live changes are made on one stage only"
        if self.replicas > 1:
            return "the engine runs data-parallel replicas; live changes are made on one only"
        return ""


def place_of(scheduler: Any) -> Place:
    """Find the scheduler's ranks.

    Raises:
        AttributeError: this SGLang keeps them somewhere else.
    """
    holder = _holder(scheduler)
    tp_rank, tp = int(holder.tp_rank), int(holder.tp_size)
    pp_rank, pp = _number(holder, "pp_rank", 0), _number(holder, "pp_size", 1)
    dp_rank, dp = _number(holder, "dp_rank", 0), _number(holder, "dp_size", 1)
    # Under attention data parallelism the replicas share one set of tensor-parallel ranks.
    attention_dp = _number(holder, "attn_dp_size", 1) > 1 or bool(
        getattr(_args(scheduler), "enable_dp_attention", False)
    )
    replicas = 1 if attention_dp else dp
    within = tp_rank + tp * pp_rank
    return Place(within + tp * pp * (dp_rank if replicas > 1 else 0), tp * pp * replicas, tp, pp, replicas)


def _holder(scheduler: Any) -> Any:
    """``scheduler.ps`` (0.5.13 to 0.5.20), the scheduler itself (before), or the run-time context (since)."""
    for holder in (getattr(scheduler, "ps", None), scheduler):
        if isinstance(getattr(holder, "tp_rank", None), int) and isinstance(getattr(holder, "tp_size", None), int):
            return holder
    try:
        from sglang.srt.runtime_context import get_parallel

        return get_parallel()
    except ImportError as error:
        raise AttributeError("this SGLang keeps its ranks where the probe does not know them") from error


def _args(scheduler: Any) -> Any:
    return getattr(scheduler, "server_args", None)


def _number(holder: Any, name: str, default: int) -> int:
    value = getattr(holder, name, default)
    return value if isinstance(value, int) else default
