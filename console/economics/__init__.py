"""The arithmetic of speculation: pure functions of numbers, no I/O, no clock.

A number that cannot be true (NaN, a negative time, an accept_len below 1) raises :class:`NumberError` with one clear line.
No function returns NaN or infinity; ``None`` means "no answer" and its docstring says why. Formulas carry the numbers
F1 to F19 of ``docs/economics.md``.

Words: a *round* (or cycle) drafts ``depth`` tokens, verifies them in one pass of width depth + 1, and wins ``accept_len``
tokens, the bonus token included. A *marginal* is the share of rounds whose first i drafts were all accepted; a
*conditional* is the share accepted at i of those that were accepted up to i - 1 ("per-step accuracy").
"""

from console.economics.acceptance import (
    accept_len_from_counters,
    accept_len_from_marginals,
    accept_len_from_rate,
    accept_len_of_request,
    conditionals_from_marginals,
    marginals_from_conditionals,
    marginals_from_histogram,
)
from console.economics.adaptive import sglang_adaptive_rule
from console.economics.constant import accept_len_constant, accuracy_for, min_depth
from console.economics.guard import NumberError, unit_suspicion
from console.economics.interval import accept_len_bounds, positions, wilson
from console.economics.rank import Candidate, CycleCost, best_depth, fit_cycle, rank
from console.economics.reference import leviathan_best_gamma, leviathan_speedup
from console.economics.speed import (
    best_speedup,
    break_even,
    ceiling_tok_s,
    cycle_from_log_line,
    goodput_tok_s,
    measured_speedup,
    required_cycle_ms,
    required_verify_ms,
    speed_tok_s,
    stream_efficiency,
)
from console.economics.stages import graph_share, rounds_from_passes, stage_ms
from console.economics.targets import goal, targets

__all__ = [
    "Candidate",
    "CycleCost",
    "NumberError",
    "accept_len_bounds",
    "accept_len_constant",
    "accept_len_from_counters",
    "accept_len_from_marginals",
    "accept_len_from_rate",
    "accept_len_of_request",
    "accuracy_for",
    "best_depth",
    "best_speedup",
    "break_even",
    "ceiling_tok_s",
    "conditionals_from_marginals",
    "cycle_from_log_line",
    "fit_cycle",
    "goal",
    "goodput_tok_s",
    "graph_share",
    "leviathan_best_gamma",
    "leviathan_speedup",
    "marginals_from_conditionals",
    "marginals_from_histogram",
    "measured_speedup",
    "min_depth",
    "positions",
    "rank",
    "required_cycle_ms",
    "required_verify_ms",
    "rounds_from_passes",
    "sglang_adaptive_rule",
    "speed_tok_s",
    "stage_ms",
    "stream_efficiency",
    "targets",
    "unit_suspicion",
    "wilson",
]
