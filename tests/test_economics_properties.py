"""What holds for every number: monotone, inverse of the inverse, no NaN, no crash but the one kind."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import economics, rig

FRACTION = st.floats(0, 1)
DEPTH = st.integers(0, 32)
ANY = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-(10**400), 10**400))
TOK_S = st.floats(0.5, 5000)
CYCLE_MS = st.floats(0.5, 5000)


@given(FRACTION, FRACTION, st.integers(1, 32))
def test_better_accuracy_wins_more(a, b, depth):
    low, high = sorted((a, b))
    assert economics.accept_len_constant(low, depth) <= economics.accept_len_constant(high, depth)


@given(FRACTION, DEPTH)
def test_deeper_wins_more_and_stays_in_bounds(p, depth):
    here = economics.accept_len_constant(p, depth)
    assert 1 <= here <= depth + 1
    assert here <= economics.accept_len_constant(p, depth + 1)
    if p < 1:
        assert here <= economics.accept_len_constant(p, None) * (1 + 1e-12)


@given(st.floats(1, 33), st.integers(1, 32))
def test_accuracy_is_the_inverse(accept_len, depth):
    p = economics.accuracy_for(accept_len, depth)
    if p is None:
        assert accept_len > depth + 1
        assert economics.min_depth(accept_len) > depth
    else:
        assert economics.accept_len_constant(p, depth) == pytest.approx(accept_len, rel=1e-8)
        assert economics.min_depth(accept_len) <= depth


@given(st.floats(0, 0.999))
def test_unlimited_accuracy_is_the_inverse(p):
    assert economics.accuracy_for(economics.accept_len_constant(p, None), None) == pytest.approx(p, abs=1e-9)


@given(st.floats(1, 33), st.integers(1, 31))
def test_less_depth_asks_more_accuracy(accept_len, depth):
    here, deeper = economics.accuracy_for(accept_len, depth), economics.accuracy_for(accept_len, depth + 1)
    if here is not None:
        assert deeper is not None
        assert deeper <= here + 1e-12
        assert economics.accuracy_for(accept_len, None) <= deeper + 1e-12


@given(st.lists(st.floats(0.001, 1), max_size=12))
def test_conditionals_and_marginals_are_inverses(conditionals):
    marginals = economics.marginals_from_conditionals(conditionals)
    assert economics.conditionals_from_marginals(marginals) == pytest.approx(tuple(conditionals), rel=1e-9)
    assert 1 <= economics.accept_len_from_marginals(marginals) <= len(conditionals) + 1


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any))
def test_histogram_counters_and_marginals_agree(histogram):
    rounds, accepted = sum(histogram), sum(j * n for j, n in enumerate(histogram))
    marginals = economics.marginals_from_histogram(histogram, rounds=rounds, accepted=accepted)
    assert economics.accept_len_from_marginals(marginals) == pytest.approx(
        economics.accept_len_from_counters(accepted, rounds)
    )


@given(TOK_S, CYCLE_MS)
def test_at_break_even_the_speed_is_the_baseline(tok_s, cycle_ms):
    needed = economics.break_even(tok_s, cycle_ms)
    assert economics.speed_tok_s(needed, cycle_ms) == pytest.approx(tok_s)
    assert economics.required_cycle_ms(tok_s, needed) == pytest.approx(cycle_ms)


@given(st.integers(0, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_its_share(counts):
    share = economics.wilson(*counts)
    if share.value is not None:
        assert 0 <= share.low <= share.value <= share.high <= 1


@given(st.integers(1, 10**4).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_more_of_the_same_narrows_the_interval(counts):
    hits, tries = counts
    few, many = economics.wilson(hits, tries), economics.wilson(10 * hits, 10 * tries)
    assert many.high - many.low <= few.high - few.low


@given(st.lists(FRACTION, max_size=8), st.dictionaries(st.integers(0, 10), CYCLE_MS, max_size=8))
def test_best_depth_is_sorted_by_speed(conditionals, cost):
    marginals = economics.marginals_from_conditionals(conditionals)
    ranked = economics.best_depth(marginals, cost)
    assert {item.depth for item in ranked} == {k for k in cost if k <= len(marginals)}
    assert all(a.tok_s >= b.tok_s for a, b in itertools.pairwise(ranked))


def _floats(value: Any) -> list[float]:
    if isinstance(value, float):
        return [value]
    if isinstance(value, dict):
        return [f for item in value.values() for f in _floats(item)]
    return [f for item in value for f in _floats(item)] if isinstance(value, list) else []


@given(ANY, ANY, ANY, ANY, st.lists(st.one_of(st.floats(), TOK_S), max_size=4), ANY)
def test_targets_never_raises_and_holds_no_nan(baseline, cycle_ms, depth, accept_len, goals, verify_ms):
    found = economics.targets(rig.Baseline(tok_s=baseline), cycle_ms, depth, accept_len, goals, verify_ms=verify_ms)
    assert all(math.isfinite(number) for number in _floats(msgspec.to_builtins(found)))
    assert found.verdict is not rig.Verdict.PAYS or found.margin > 0
    assert found.why
    assert "\n" not in found.why


@given(TOK_S, st.floats(0.11, 90), st.integers(0, 16), st.lists(TOK_S, max_size=4))
def test_a_credible_question_has_every_figure(baseline, decodes, depth, goals):
    found = economics.targets(rig.Baseline(tok_s=baseline), decodes * 1000 / baseline, depth, None, goals)
    assert found.break_even_accept_len == pytest.approx(decodes)
    for item in found.goals:
        assert item.reachable == (item.accuracy_at_depth is not None)
        assert item.min_depth > depth or item.reachable


PURE = [
    economics.accept_len_constant, economics.accuracy_for, economics.break_even, economics.ceiling_tok_s, economics.speed_tok_s,
    economics.accept_len_from_counters, economics.accept_len_of_request, economics.accept_len_from_rate, economics.stage_ms,
    economics.graph_share, economics.stream_efficiency, economics.wilson, economics.required_verify_ms, economics.unit_suspicion,
]  # fmt: skip


@given(st.sampled_from(PURE), ANY, ANY)
def test_whatever_it_is_given_a_function_answers_or_refuses(function, a, b):
    try:
        found = function(a, b)
    except economics.NumberError as error:
        assert "\n" not in str(error)
    else:
        numbers = [found] if isinstance(found, float) else _floats(msgspec.to_builtins(found))
        assert all(math.isfinite(number) for number in numbers)


@given(st.floats(-1, 40), st.sets(st.integers(0, 12), min_size=1), st.data())
def test_adaptive_rule_stays_among_its_candidates(ema, tiers, data):
    current = data.draw(st.sampled_from(sorted(tiers)))
    assert economics.sglang_adaptive_rule(ema, current, sorted(tiers)) in tiers
