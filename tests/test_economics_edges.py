"""Traps of real records, numbers that cannot be true, and the ends of every range."""

from __future__ import annotations

import math

import pytest

from console import economics
from console.economics import NumberError

NAN, INF = math.nan, math.inf


def test_llama_row_drafted_fewer_than_its_depth():
    assert economics.accept_len_from_counters(167, 87) == pytest.approx(2.9195, abs=5e-5)
    assert economics.accept_len_from_rate(0.64479, 3) == pytest.approx(2.934, abs=5e-4)
    with pytest.raises(NumberError, match="259 drafted in 87 rounds is not 3 a round"):
        economics.accept_len_from_rate(0.64479, 3, drafted=259, rounds=87)


AIPERF_BAD = (34, 22, 19, 16, 15, 22)


def test_aiperf_example_record_contradicts_itself():
    marginals = economics.marginals_from_histogram(AIPERF_BAD, rounds=128, accepted=278, drafted=640, accept_len=3.1719)
    assert marginals == pytest.approx((0.7344, 0.5625, 0.4141, 0.2891, 0.1719), abs=5e-5)
    with pytest.raises(NumberError, match="accepted 281 contradicts the histogram, which gives 278"):
        economics.marginals_from_histogram(AIPERF_BAD, accepted=281)
    with pytest.raises(NumberError, match=r"accept_len 3.18 contradicts the histogram, which gives 3.1719"):
        economics.marginals_from_histogram(AIPERF_BAD, accept_len=3.18)
    with pytest.raises(NumberError, match="rounds 127"):
        economics.marginals_from_histogram(AIPERF_BAD, rounds=127)


@pytest.mark.parametrize(
    ("histogram", "options", "message"),
    [
        ((1, 2), {"depth": 2}, "depth 2 has 3 entries, this one has 2"),
        ((1, -2), {}, "must not be negative"),
        ((1, 2.5), {}, "whole number"),
        ((True, 2), {}, "whole number"),
        ((0, 0, 0), {}, "holds no round"),
        ((), {}, "holds no round"),
        ({}, {}, "holds no round"),
        ({5: 1}, {"depth": 3}, "counts 5 accepted drafts, depth is 3"),
        ({-1: 1}, {}, "must not be negative"),
        ((1, 1), {"drafted": 0}, "drafted 0 does not fit"),
        ((1, 1), {"drafted": 3}, "drafted 3 does not fit"),
        ((1, 1), {"accept_len": NAN}, "finite"),
    ],
)
def test_histograms_that_are_refused(histogram, options, message):
    with pytest.raises(NumberError, match=message):
        economics.marginals_from_histogram(histogram, **options)


def test_sparse_histogram():
    dense = economics.marginals_from_histogram((2, 0, 1, 1))
    assert economics.marginals_from_histogram({0: 2, 2: 1, 3: 1}) == dense == (0.5, 0.5, 0.25)
    assert economics.marginals_from_histogram({0: 2, 2: 1}, depth=4) == pytest.approx((1 / 3, 1 / 3, 0, 0))


def test_conditional_where_no_round_arrived_is_unknown():
    assert economics.conditionals_from_marginals((0.5, 0.0, 0.0)) == (0.5, 0.0, None)
    assert economics.marginals_from_conditionals((0.5, 0.0, None)) == (0.5, 0.0, 0.0)
    with pytest.raises(NumberError, match="conditional 2 is missing"):
        economics.marginals_from_conditionals((0.5, None))


def test_conditionals_are_not_taken_for_marginals():
    with pytest.raises(NumberError, match=r"marginal 2 .0.638. is above marginal 1 .0.633."):
        economics.accept_len_from_marginals((0.633, 0.638, 0.653))
    with pytest.raises(NumberError, match=r"64\.8 % is 0\.648"):
        economics.accept_len_from_marginals((64.8, 41.9))


def test_perfect_drafter_and_float_dust():
    dust = 200 * 30.000000000000004 / 1000
    assert dust > 6.0
    assert economics.accuracy_for(dust, 5) == 1.0
    assert economics.min_depth(dust) == 5
    assert economics.min_depth(5.999999999999999) == 5
    assert economics.accuracy_for(5.999999999999999, 5) == 1.0
    assert economics.accuracy_for(6.001, 5) is None
    assert economics.min_depth(6.001) == 6
    assert economics.accept_len_constant(1.0, 5) == 6.0
    assert economics.accept_len_constant(0.0, 5) == 1.0
    assert economics.accuracy_for(82 * 30 / 1000, 1) is None


def test_speculation_off_and_goals_below_one():
    assert economics.accept_len_constant(0.9, 0) == 1.0
    assert economics.accuracy_for(1.0, 0) == 0.0
    assert economics.accuracy_for(0.984, 2) == 0.0
    assert economics.accuracy_for(1.5, 0) is None
    assert economics.min_depth(0.984) == economics.min_depth(1.0) == 0
    assert economics.accept_len_from_marginals(()) == 1.0


@pytest.mark.parametrize("bad", [0, -1, NAN, INF, -INF, 10**400, None, "30", True])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: economics.break_even(v, 30),
        lambda v: economics.break_even(82, v),
        lambda v: economics.ceiling_tok_s(2, v),
        lambda v: economics.speed_tok_s(2.0, v),
        lambda v: economics.speed_tok_s(v, 30),
        lambda v: economics.accuracy_for(v, 3),
        lambda v: economics.accuracy_for(v, None),
        lambda v: economics.min_depth(v),
        lambda v: economics.required_verify_ms(v, 2.0, 1.0),
        lambda v: economics.goal(v, 30, 2),
        lambda v: economics.goal(150, v, 2),
        lambda v: economics.stream_efficiency(60, v),
        lambda v: economics.goodput_tok_s(2.0, v, 30),
        lambda v: economics.measured_speedup(2.0, 82, verify_ms=v),
        lambda v: economics.unit_suspicion(82, v),
        lambda v: economics.best_depth((0.5,), {1: v}),
        lambda v: economics.fit_cycle({1: 1.0, 2: v}),
    ],
)
def test_numbers_that_cannot_be_true_are_named_in_one_line(call, bad):
    with pytest.raises(NumberError) as caught:
        call(bad)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 160


@pytest.mark.parametrize("bad", [-0.1, 1.1, NAN, 59])
def test_accuracy_outside_its_range(bad):
    with pytest.raises(NumberError):
        economics.accept_len_constant(bad, 2)
    with pytest.raises(NumberError):
        economics.leviathan_speedup(bad, 2, 0.1)


def test_perfect_at_unlimited_depth_has_no_accept_len():
    with pytest.raises(NumberError, match="no finite accept_len"):
        economics.accept_len_constant(1.0, None)


@pytest.mark.parametrize("bad", [-1, 2.5, NAN, INF, 100_000, "2", True])
def test_depths_that_are_refused(bad):
    with pytest.raises(NumberError, match="depth"):
        economics.ceiling_tok_s(bad, 30)


def test_overflow_is_an_error_not_infinity():
    with pytest.raises(NumberError, match="overflows"):
        economics.speed_tok_s(1e300, 1e-300)
    with pytest.raises(NumberError, match="overflows"):
        economics.break_even(1e300, 1e300)


def test_counters():
    assert economics.accept_len_from_counters(0, 0) is None
    with pytest.raises(NumberError, match="must not be negative"):
        economics.accept_len_from_counters(-5, 10)
    with pytest.raises(NumberError, match="do not belong together"):
        economics.accept_len_from_counters(5, 0)
    assert economics.accept_len_of_request(600, 300) == 2.0
    assert economics.accept_len_of_request(600, 0) is None


def test_required_verify():
    # the story: 26 of 30 ms are verify; at accept_len 2.0 it must fall to 20.4 ms for the baseline's 82 tok/s
    assert economics.required_verify_ms(82, 2.0, 4.0) == pytest.approx(20.39, abs=0.005)
    assert economics.required_verify_ms(200, 2.0, 10.0) is None
    assert economics.required_verify_ms(200, 2.0, 11.0) is None


def test_stage_times_from_counter_deltas():
    assert economics.rounds_from_passes(90, 10) == 100
    assert economics.stage_ms(2.6, 100) == pytest.approx(26.0)
    assert economics.stage_ms(0.0, 0) is None
    assert economics.graph_share(90, 10) == 0.9
    assert economics.graph_share(0, 0) is None
    with pytest.raises(NumberError, match="decode_none passes must not be negative"):
        economics.graph_share(5, -1)
    with pytest.raises(NumberError):
        economics.stage_ms(-1, 5)


@pytest.mark.parametrize(("running", "accept_len", "tok_s"), [(0, 2.0, 60), (1, 0, 60), (1, 2.0, 0)])
def test_a_log_line_without_decoding_gives_no_cycle(running, accept_len, tok_s):
    assert economics.cycle_from_log_line(running, accept_len, tok_s) is None


def test_units_mixed_up():
    assert economics.unit_suspicion(82, 30) == ""
    assert economics.unit_suspicion(82, 10) == ""
    assert "in seconds, say 30" in economics.unit_suspicion(82, 0.03)
    assert "in microseconds, say 30" in economics.unit_suspicion(82, 30_000)
    assert economics.unit_suspicion(171, 4.2) == ""


def test_best_depth_leaves_out_what_was_not_measured():
    ranked = economics.best_depth((0.6, 0.4), {0: 12.2, 1: 28, 2: 30, 3: 31})
    assert [item.depth for item in ranked] == [0, 2, 1]
    assert economics.best_depth((), {}) == ()
    tie = economics.best_depth((1.0,), {1: 20.0, 0: 10.0})
    assert [item.depth for item in tie] == [0, 1]


def test_fit_needs_two_depths():
    assert economics.fit_cycle({0: 12, 3: 30}) is None
    assert economics.fit_cycle({2: 30, 4: 34}).at(3) == pytest.approx(32)


def test_leviathan_limit():
    assert economics.leviathan_best_gamma(1.0, 0.0, limit=7) == 7
    assert economics.leviathan_best_gamma(0.1, 5.0) == 0


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilson(hits, tries, low, high):
    share = economics.wilson(hits, tries)
    assert (share.value, share.tries) == (hits / tries, tries)
    assert share.low == pytest.approx(low, abs=5e-5)
    assert share.high == pytest.approx(high, abs=5e-5)


def test_wilson_without_tries_and_with_too_many_hits():
    empty = economics.wilson(0, 0)
    assert (empty.value, empty.low, empty.high) == (None, None, None)
    with pytest.raises(NumberError, match="3 hits in 2 tries"):
        economics.wilson(3, 2)
    with pytest.raises(NumberError):
        economics.wilson(-1, 2)


def test_positions_of_the_probe_feed():
    found = economics.positions([400, 300, 200], [300, 200, 100])
    assert [p.index for p in found] == [1, 2, 3]
    assert [p.conditional.value for p in found] == pytest.approx([0.75, 2 / 3, 0.5])
    assert [p.marginal.value for p in found] == pytest.approx([0.75, 0.5, 0.25])
    assert economics.accept_len_from_marginals([p.marginal.value for p in found]) == pytest.approx(1 + 600 / 400)
    low, high = economics.accept_len_bounds(found)
    assert low < 2.5 < high
    assert economics.positions([], []) == ()
    assert economics.accept_len_bounds(()) is None
    assert economics.accept_len_bounds(economics.positions([0], [0])) is None


def test_positions_when_depth_changed_within_the_window():
    found = economics.positions([100, 40], [60, 30], rounds=120)
    assert [p.marginal.value for p in found] == pytest.approx([0.5, 0.25])
    assert [p.conditional.value for p in found] == pytest.approx([0.6, 0.75])


@pytest.mark.parametrize(
    ("tries", "hits"), [([10], [11]), ([10, 9], [8, 1]), ([10], []), ([-1], [0]), ([10, 5], [5, 6])]
)
def test_positions_that_contradict_themselves(tries, hits):
    with pytest.raises(NumberError):
        economics.positions(tries, hits)
