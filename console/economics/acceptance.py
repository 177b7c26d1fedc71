"""Acceptance as it was measured: from counters, rates, marginals and histograms.

Every reader is strict: counts that contradict one another are refused, for an average of them would look right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from console.economics import guard

ROUNDED = 0.006
"""Half a unit of the second decimal, at which accept_len is printed everywhere, and a little."""


def accept_len_from_counters(accepted: float, verify_calls: float) -> float | None:
    """accept_len from counters or their deltas (F1): 1 + accepted drafts / verify calls.

    SGLang counts request-rounds: a batch of four is four calls. The definition of vLLM's ``SpecDecoding metrics`` line
    and of llama.cpp's "mean acceptance length".

    Returns:
        Tokens per round, bonus token included, or ``None`` without a round.

    Raises:
        NumberError: a negative delta (the counter was reset in between), or drafts accepted without a round.
    """
    accepted = guard.not_negative("accepted drafts", accepted)
    rounds = guard.not_negative("verify calls", verify_calls)
    if rounds == 0:
        if accepted:
            raise guard.NumberError(f"{accepted:g} drafts accepted in no round: the counters do not belong together")
        return None
    return guard.result("accept_len", 1.0 + accepted / rounds)


def accept_len_of_request(completion_tokens: int, verify_calls: int) -> float | None:
    """accept_len as SGLang's reply gives it (F2): completion_tokens / spec_verify_ct.

    Counts the prefill's token and the final cut, so a short answer is biased and one of a single round may exceed
    depth + 1: not to be compared with a windowed figure. ``None`` without a verify call.
    """
    tokens = guard.count("completion_tokens", completion_tokens)
    rounds = guard.count("verify calls", verify_calls)
    return guard.result("accept_len", tokens / rounds) if rounds else None


def accept_len_from_rate(rate: float, depth: int, *, drafted: int | None = None, rounds: int | None = None) -> float:
    """accept_len from a draft acceptance rate (F4): 1 + depth * rate.

    Holds for topk 1 in one window in which every round drafted ``depth`` tokens. Pass ``drafted`` and ``rounds`` where they are
    known: rounds that drafted fewer (llama.cpp's do near the end of an answer) make the formula wrong.

    Raises:
        NumberError: a rate outside 0..1, or counts that show shorter rounds.
    """
    depth = guard.depth(depth)
    if drafted is not None and rounds is not None:
        guard.count("drafted", drafted)
        guard.count("rounds", rounds)
        if drafted != rounds * depth:
            raise guard.NumberError(
                f"{drafted} drafted in {rounds} rounds is not {depth} a round, so a rate does not give accept_len; "
                "count accepted drafts per round instead"
            )
    return 1.0 + depth * guard.fraction("rate", rate)


def _marginals(marginals: Sequence[float]) -> list[float]:
    values = [guard.fraction(f"marginal {i}", value) for i, value in enumerate(marginals, 1)]
    for i, (before, here) in enumerate(itertools.pairwise(values), 2):
        if here > before + guard.TOLERANCE:
            raise guard.NumberError(
                f"marginal {i} ({here:g}) is above marginal {i - 1} ({before:g}): these are conditionals, or not one drafter's"
            )
    return values


def accept_len_from_marginals(marginals: Sequence[float]) -> float:
    """accept_len of a chain: 1 + the sum of marginals (F5).

    Raises:
        NumberError: a marginal outside 0..1, or one above its predecessor.
    """
    return 1.0 + math.fsum(_marginals(marginals))


def conditionals_from_marginals(marginals: Sequence[float]) -> tuple[float | None, ...]:
    """Conditional acceptance by position (F6): a_i / a_(i-1), a_0 = 1.

    Returns:
        A fraction a position; ``None`` where no round got that far.
    """
    values = _marginals(marginals)
    pairs = itertools.pairwise([1.0, *values])
    return tuple(min(1.0, here / before) if before > 0 else None for before, here in pairs)


def marginals_from_conditionals(conditionals: Sequence[float | None]) -> tuple[float, ...]:
    """Marginals by position: the running product of conditionals, the inverse of F6.

    Raises:
        NumberError: ``None`` at a position that some rounds reached; the product is then not known.
    """
    reached, marginals = 1.0, []
    for i, conditional in enumerate(conditionals, 1):
        if conditional is None:
            if reached > 0:
                raise guard.NumberError(f"conditional {i} is missing, but {reached:g} of the rounds got there")
        else:
            reached *= guard.fraction(f"conditional {i}", conditional)
        marginals.append(reached)
    return tuple(marginals)


def marginals_from_histogram(
    histogram: Sequence[int] | Mapping[int, int],
    *,
    depth: int | None = None,
    rounds: int | None = None,
    accepted: int | None = None,
    drafted: int | None = None,
    accept_len: float | None = None,
) -> tuple[float, ...]:
    """Marginals from a histogram of accepted drafts per round (F5), read with AIPerf's integer invariants.

    Args:
        histogram: rounds with 0, 1, ... depth drafts accepted, or a sparse mapping of the same. SGLang's
            ``spec_correct_drafts_histogram`` and vLLM's ``acceptance_histogram`` are of this kind.
        depth: draft depth; the histogram then has depth + 1 entries.
        rounds: what the record says of rounds; this and the next three must agree with the histogram.
        accepted: drafts accepted in all rounds.
        drafted: drafts proposed in all rounds.
        accept_len: the record's mean accept_len, as printed with two decimals or more.

    Returns:
        depth marginals, position 1 first.

    Raises:
        NumberError: the record contradicts itself, or holds no round.
    """
    counts = _histogram(histogram, depth)
    total = sum(counts)
    won = sum(j * n for j, n in enumerate(counts))
    if total == 0:
        raise guard.NumberError("the histogram holds no round")
    _agree("rounds", rounds, total)
    _agree("accepted", accepted, won)
    if drafted is not None and not won <= guard.count("drafted", drafted) <= total * (len(counts) - 1):
        most = total * (len(counts) - 1)
        raise guard.NumberError(
            f"drafted {drafted} does not fit the histogram: between {won} accepted and {most} at full depth"
        )
    if accept_len is not None and abs(guard.number("accept_len", accept_len) - (1 + won / total)) > ROUNDED:
        raise guard.NumberError(
            f"accept_len {accept_len:g} contradicts the histogram, which gives {1 + won / total:.4f}"
        )
    above = total
    marginals = []
    for n in counts[:-1]:
        above -= n
        marginals.append(above / total)
    return tuple(marginals)


def _histogram(histogram: Sequence[int] | Mapping[int, int], depth: int | None) -> list[int]:
    """The dense form, every count checked."""
    if isinstance(histogram, Mapping):
        keys = [guard.depth(key) for key in histogram]
        size = max(keys, default=0) + 1 if depth is None else guard.depth(depth) + 1
        if keys and max(keys) >= size:
            raise guard.NumberError(f"the histogram counts {max(keys)} accepted drafts, depth is {depth}")
        dense = [0] * size
        for key, value in histogram.items():
            dense[key] = value
    else:
        dense = list(histogram)
        if depth is not None and len(dense) != guard.depth(depth) + 1:
            raise guard.NumberError(f"a histogram of depth {depth} has {depth + 1} entries, this one has {len(dense)}")
    return [guard.count(f"histogram entry {j}", value) for j, value in enumerate(dense)]


def _agree(name: str, said: int | None, counted: int) -> None:
    if said is not None and guard.count(name, said) != counted:
        raise guard.NumberError(f"{name} {said} contradicts the histogram, which gives {counted}")
