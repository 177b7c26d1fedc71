"""From tokens and milliseconds to tok/s and back: speed, break-even, ceiling, what a goal asks of the cycle."""

from __future__ import annotations

from console.economics import guard

MS_PER_S = 1000.0


def speed_tok_s(accept_len: float, cycle_ms: float) -> float:
    """Speed of one stream (F9): accept_len / cycle, as SGLang's bench_speculative computes it.

    An upper bound: what a client sees is lower by the overhead between rounds (:func:`stream_efficiency`).
    """
    accept_len = guard.positive("accept_len", accept_len)
    return guard.result("speed", MS_PER_S * accept_len / guard.positive("cycle_ms", cycle_ms))


def break_even(baseline_tok_s: float, cycle_ms: float) -> float:
    """The accept_len at which speculation equals no speculation (F10): baseline * cycle.

    Like with like: same batch, same prompts, same endpoint. Below 1 any drafter wins.
    """
    baseline = guard.positive("baseline_tok_s", baseline_tok_s)
    return guard.result("break-even", baseline * guard.positive("cycle_ms", cycle_ms) / MS_PER_S)


def ceiling_tok_s(depth: int, cycle_ms: float) -> float:
    """What a perfect drafter would reach (F11): (depth + 1) / cycle. Below the baseline no drafter can win at this depth."""
    return guard.result("ceiling", MS_PER_S * (guard.depth(depth) + 1) / guard.positive("cycle_ms", cycle_ms))


def best_speedup(depth: int, baseline_tok_s: float, cycle_ms: float) -> float:
    """The ceiling over the baseline (F11): (depth + 1) * t_base / cycle."""
    return ceiling_tok_s(depth, cycle_ms) / guard.positive("baseline_tok_s", baseline_tok_s)


def measured_speedup(
    accept_len: float,
    baseline_tok_s: float,
    *,
    verify_ms: float,
    draft_ms: float = 0.0,
    extend_ms: float = 0.0,
    gap_ms: float = 0.0,
) -> float:
    """Speedup from measured stages (F13): accept_len * t_base / (verify + draft + draft-extend + gap).

    ``draft_ms`` is the whole draft stage. In SGLang it holds depth - 1 forwards, for the first draft token comes out of the
    draft-extend pass; multiplying a step by the depth counts one too many.
    """
    cycle_ms = (
        guard.positive("verify_ms", verify_ms)
        + guard.not_negative("draft_ms", draft_ms)
        + guard.not_negative("extend_ms", extend_ms)
        + guard.not_negative("gap_ms", gap_ms)
    )
    return guard.result("speedup", speed_tok_s(accept_len, cycle_ms) / guard.positive("baseline_tok_s", baseline_tok_s))


def required_cycle_ms(goal_tok_s: float, accept_len: float) -> float:
    """The cycle at which ``accept_len`` gives ``goal_tok_s``: accept_len / goal, in milliseconds (F9 solved for the cycle)."""
    accept_len = guard.positive("accept_len", accept_len)
    return guard.result("required cycle", MS_PER_S * accept_len / guard.positive("goal_tok_s", goal_tok_s))


def required_verify_ms(goal_tok_s: float, accept_len: float, other_ms: float = 0.0) -> float | None:
    """The verify time at which ``accept_len`` gives ``goal_tok_s``, the other stages unchanged.

    Args:
        goal_tok_s: the speed wanted of one stream.
        accept_len: tokens a round wins today.
        other_ms: the rest of the cycle: draft, draft-extend and gap.

    Returns:
        Milliseconds, or ``None`` when the other stages alone already take longer than the whole cycle may.
    """
    needed_ms = required_cycle_ms(goal_tok_s, accept_len) - guard.not_negative("other_ms", other_ms)
    return needed_ms if needed_ms > 0 else None


def stream_efficiency(observed_tok_s: float, raw_tok_s: float) -> float:
    """What a client sees of the speed the cycle allows (F15): observed / raw. 59 to 61 of 66.67 tok/s is 0.885 to 0.915."""
    observed = guard.not_negative("observed_tok_s", observed_tok_s)
    return guard.result("efficiency", observed / guard.positive("raw_tok_s", raw_tok_s))


def goodput_tok_s(accept_len: float, batch: float, cycle_ms: float) -> float:
    """Tokens won per second over the whole batch (F16, SmartSpec's goodput, arXiv 2406.14066)."""
    return guard.result("goodput", speed_tok_s(accept_len, cycle_ms) * guard.positive("batch", batch))


def cycle_from_log_line(running: float, accept_len: float, tok_s: float) -> float | None:
    """The cycle from one of SGLang's "Decode batch" lines (F19): 1000 * #running-req * accept len / gen throughput.

    Wall clock, gaps included. Needs no flag on the server.

    Returns:
        Milliseconds, or ``None`` for a line in which nothing ran or nothing was generated.
    """
    running = guard.not_negative("running", running)
    accept_len = guard.not_negative("accept_len", accept_len)
    tok_s = guard.not_negative("tok_s", tok_s)
    if not (running and accept_len and tok_s):
        return None
    return guard.result("cycle", MS_PER_S * running * accept_len / tok_s)
