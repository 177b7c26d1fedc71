"""Stage times and CUDA-graph share from deltas of SGLang's counters between two scrapes."""

from __future__ import annotations

from console.economics import guard


def rounds_from_passes(decode_cuda_graph: float, decode_none: float) -> float:
    """Rounds between two scrapes (F17): delta of ``cuda_graph_passes_total`` over both decode modes.

    Batches, not request-rounds: ``spec_verify_calls_total`` counts requests and moves only
    when one ends, so it cannot stand in.

    Raises:
        NumberError: a negative delta; the counter was reset in between.
    """
    return guard.not_negative("decode_cuda_graph passes", decode_cuda_graph) + guard.not_negative(
        "decode_none passes", decode_none
    )


def stage_ms(seconds: float, rounds: float) -> float | None:
    """Milliseconds a round of one stage (F17): 1000 * delta ``forward_execution_seconds_total`` / delta rounds.

    Stages are the categories ``target_verify``, ``eagle_draft`` and ``eagle_draft_extend``. Needs --enable-metrics and
    SGLANG_ENABLE_METRICS_DEVICE_TIMER=1.

    Returns:
        ``None`` without a round in the window.
    """
    seconds = guard.not_negative("seconds", seconds)
    rounds = guard.not_negative("rounds", rounds)
    return guard.result("stage time", 1000.0 * seconds / rounds) if rounds else None


def graph_share(decode_cuda_graph: float, decode_none: float) -> float | None:
    """Fraction of verify passes that replayed a CUDA graph (F18). ``None`` without a pass in the window."""
    rounds = rounds_from_passes(decode_cuda_graph, decode_none)
    return decode_cuda_graph / rounds if rounds else None
