"""The arithmetic against published figures: every table of golden.json, and the tables it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console import economics

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "golden.json").read_text())
STORY_CYCLE_MS = 30.0
STORY_BASELINE_TOK_S = 82.0


@pytest.mark.parametrize("row", GOLDEN["seed"].values(), ids=GOLDEN["seed"].keys())
def test_story_table(row):
    wanted = row["accept_len"]
    assert economics.speed_tok_s(wanted, STORY_CYCLE_MS) == pytest.approx(row["raw_tok_s"], abs=0.005)
    assert economics.accuracy_for(wanted, None) == pytest.approx(row["p_unbounded"], abs=6e-5)
    assert economics.min_depth(wanted) == row["min_depth"]
    for depth, accuracy in row["p_at_depth"].items():
        found = economics.accuracy_for(wanted, int(depth))
        assert found == (None if accuracy is None else pytest.approx(accuracy, abs=6e-5)), depth


def test_ceilings():
    for depth, tok_s in GOLDEN["ceiling_tok_s_at_30ms"].items():
        assert economics.ceiling_tok_s(int(depth), 30) == pytest.approx(tok_s, abs=0.005)
    assert economics.best_speedup(1, 82, 30) == pytest.approx(66.667 / 82, abs=1e-4)


def test_break_even_by_cycle():
    for cycle_ms, accept_len in GOLDEN["break_even_accept_len_by_cycle_ms"].items():
        assert economics.break_even(82, float(cycle_ms)) == pytest.approx(accept_len)


def test_accept_len_from_constant_accuracy():
    for p, row in GOLDEN["accept_len_from_p"].items():
        for depth, accept_len in row.items():
            found = economics.accept_len_constant(float(p), None if depth == "inf" else int(depth))
            assert found == pytest.approx(accept_len, abs=6e-5), (p, depth)


def test_stream_overhead():
    raw = economics.speed_tok_s(2.0, 30)
    for observed, losses in zip((59, 60, 61), GOLDEN["stream_overhead"]["loss_vs_82"], strict=True):
        assert 1 - observed / STORY_BASELINE_TOK_S == pytest.approx(losses, abs=6e-5)
    assert economics.stream_efficiency(59, raw) == pytest.approx(GOLDEN["stream_overhead"]["59"])
    assert economics.stream_efficiency(61, raw) == pytest.approx(GOLDEN["stream_overhead"]["61"])


def _alpha_cost(key: str) -> tuple[float, float]:
    alpha, cost = (float(part.split("=")[1]) for part in key.split(","))
    return alpha, cost


def test_leviathan():
    for key, row in GOLDEN["leviathan"].items():
        for gamma, speedup in row.items():
            assert economics.leviathan_speedup(_alpha_cost(key)[0], int(gamma), _alpha_cost(key)[1]) == pytest.approx(
                speedup, abs=6e-5
            )


def test_leviathan_best_depth_takes_the_least_of_equals():
    for key, gamma in GOLDEN["leviathan_best_gamma"].items():
        assert economics.leviathan_best_gamma(*_alpha_cost(key)) == gamma, key
    assert economics.leviathan_speedup(0.5, 1, 0.2) == pytest.approx(economics.leviathan_speedup(0.5, 2, 0.2))


@pytest.mark.parametrize("drafter", ["EAGLE1", "EAGLE3"])
def test_vllm_20780_rows(drafter):
    baseline_tok_s = 1000 / 7.07
    for depth, row in GOLDEN["vllm20780"][drafter]["rows"].items():
        cycle_ms = row["al"] * row["tpot"]
        assert cycle_ms == pytest.approx(row["cycle_ms"], abs=6e-4)
        assert economics.break_even(baseline_tok_s, cycle_ms) == pytest.approx(row["break_even_al"], abs=6e-4)
        assert economics.measured_speedup(row["al"], baseline_tok_s, verify_ms=cycle_ms) == pytest.approx(
            row["speedup"], abs=6e-4
        )
        assert economics.accuracy_for(row["al"], int(depth)) == pytest.approx(row["p"], abs=6e-5)


@pytest.mark.parametrize(
    ("drafter", "best", "fixed_ms", "per_depth_ms"), [("EAGLE1", 3, 7.686, 0.740), ("EAGLE3", 4, 8.347, 1.016)]
)
def test_vllm_20780_best_depth_is_not_the_deepest(drafter, best, fixed_ms, per_depth_ms):
    rows = {int(depth): row for depth, row in GOLDEN["vllm20780"][drafter]["rows"].items()}
    first = economics.accuracy_for(rows[2]["al"], 2)
    marginals = [first, first * first] + [rows[k]["al"] - rows[k - 1]["al"] for k in range(3, 8)]
    cost = {depth: row["cycle_ms"] for depth, row in rows.items()}
    ranked = economics.best_depth(marginals, cost)
    assert ranked[0].depth == best == GOLDEN["vllm20780"][drafter]["best_k"]
    assert [item.tok_s for item in ranked] == sorted((item.tok_s for item in ranked), reverse=True)
    assert max(ranked, key=lambda item: item.accept_len).depth == 7
    fit = economics.fit_cycle(cost)
    assert (fit.fixed_ms, fit.per_depth_ms) == (
        pytest.approx(fixed_ms, abs=1e-3),
        pytest.approx(per_depth_ms, abs=1e-3),
    )
    assert fit.at(10) == pytest.approx(fixed_ms + 10 * per_depth_ms, abs=0.01)


def test_specforge_339_is_ranked_by_speed_not_by_accept_len():
    rows = GOLDEN["specforge339"]
    cycles = {name: economics.required_cycle_ms(row["tok_s"], row["al"]) for name, row in rows.items()}
    ranked = economics.rank(economics.Candidate(name, row["al"], cycles[name]) for name, row in rows.items())
    assert [item.label for item in ranked] == ["3,3,4", "7,4,16", "8,8,60", "3,3,8", "6,4,12", "3,1,4"]
    assert ranked[0].tok_s == pytest.approx(207.62, rel=1e-3)
    assert max(ranked, key=lambda item: item.accept_len).label == "8,8,60"
    for item in ranked:
        row = rows[item.label]
        assert item.cycle_ms == pytest.approx(row["cycle_ms"], abs=0.006)
        assert economics.break_even(222.47, item.cycle_ms) == pytest.approx(row["break_even_al"], abs=6e-4)
        assert item.tok_s / 222.47 == pytest.approx(row["speedup"], abs=1e-3)


PUBLISHED_MARGINALS = {
    "llama.cpp#24536": (0.805, 0.632, 0.483),
    "kimi-k2.6-mla init": (0.633, 0.404, 0.264),
    "kimi-k2.6-mla tuned": (0.648, 0.419, 0.278),
    "EXD vllm bench": (0.6484, 0.4788),
}


@pytest.mark.parametrize("name", PUBLISHED_MARGINALS)
def test_published_positions(name):
    marginals = PUBLISHED_MARGINALS[name]
    row = GOLDEN["per_position"][name]
    assert economics.accept_len_from_marginals(marginals) == pytest.approx(row["al"], abs=5e-4)
    conditionals = economics.conditionals_from_marginals(marginals)
    assert conditionals == pytest.approx(row["cond"], abs=6e-5)
    assert economics.marginals_from_conditionals(conditionals) == pytest.approx(marginals)


def test_vllm_counters_rate_and_positions_agree():
    assert economics.accept_len_from_counters(1356, 1203) == pytest.approx(2.1272, abs=6e-5)
    assert economics.accept_len_from_rate(0.5636, 2, drafted=2406, rounds=1203) == pytest.approx(2.1272, abs=5e-4)
    assert economics.accept_len_from_rate(0.5178, 4) == pytest.approx(3.0712)


def test_card_identity_holds_within_the_mean_of_ratios():
    rates = {"MTBench": 44.838445, "GSM8K": 65.499844, "HumanEval": 51.495064, "MATH500": 55.479869, "CEval": 35.075910}
    for name, rate in rates.items():
        stated, computed, _ = GOLDEN["card_identity"][name]
        assert economics.accept_len_from_rate(rate / 100, 3) == pytest.approx(computed, abs=6e-5)
        assert stated == pytest.approx(computed, abs=0.02)


@pytest.mark.parametrize(
    ("accept_len", "accuracy"), [(3.372, 0.887), (3.165, 0.846), (3.490, 0.910), (3.217, 0.856), (2.553, 0.705)]
)
def test_published_drafters_at_depth_3(accept_len, accuracy):
    assert economics.accuracy_for(accept_len, 3) == pytest.approx(accuracy, abs=6e-4)


def test_pooled_histogram():
    row = GOLDEN["histogram"]["aiperf pooled (consistent)"]
    histogram = (6400, 4608, 3840, 3328, 3072, 4352)
    marginals = economics.marginals_from_histogram(
        histogram,
        depth=5,
        rounds=row["steps"],
        accepted=row["accepted"],
        drafted=5 * row["steps"],
        accept_len=row["al"],
    )
    assert marginals == pytest.approx(row["marginal"])
    assert economics.accept_len_from_marginals(marginals) == pytest.approx(row["al"])
    assert economics.accept_len_from_rate(row["rate"], 5) == pytest.approx(row["al"])


def test_sglang_pr_4716_break_even_is_stable_over_prompts():
    for tok_s, accept_len, needed in ((234.54, 5.88, 2.2215), (100.43, 2.42, 2.1352)):
        cycle_ms = economics.required_cycle_ms(tok_s, accept_len)
        assert economics.break_even(88.61, cycle_ms) == pytest.approx(needed, abs=6e-5)


def test_sglang_pr_4247_cycles():
    for tok_s, accept_len, cycle_ms in ((378.57, 5.39, 14.24), (361.70, 4.68, 12.94), (230.08, 3.76, 16.34)):
        assert economics.cycle_from_log_line(1, accept_len, tok_s) == pytest.approx(cycle_ms, abs=0.005)


@pytest.mark.parametrize(("observed", "cycle_ms"), [(60, 33.3), (61, 32.8), (59, 33.9)])
def test_cycle_from_the_story_log_line(observed, cycle_ms):
    assert economics.cycle_from_log_line(1, 2.0, observed) == pytest.approx(cycle_ms, abs=0.05)


@pytest.mark.parametrize(
    ("ema", "current", "chosen"), [(1.0, 3, 3), (2.6, 3, 5), (0.25, 3, 1), (0.26, 3, 3), (2.5, 3, 3)]
)
def test_sglang_adaptive_rule(ema, current, chosen):
    assert economics.sglang_adaptive_rule(ema, current, (1, 3, 5)) == chosen


def test_sglang_adaptive_rule_around_zero():
    assert economics.sglang_adaptive_rule(0.25, 1, (0, 1, 3)) == 0
    assert economics.sglang_adaptive_rule(0.5, 1, (0, 1, 3), down_hysteresis=0.0) == 0
    assert economics.sglang_adaptive_rule(0.0, 0, (0, 1, 3)) == 1
    assert economics.sglang_adaptive_rule(5.0, 0, (0,)) == 0
    with pytest.raises(ValueError, match=r"depth 2 is not one of the candidate steps \[1, 3\]"):
        economics.sglang_adaptive_rule(1.0, 2, (1, 3))


def test_sglang_adaptive_rule_crosses_several_tiers_but_never_turns():
    assert economics.sglang_adaptive_rule(9.0, 1, (1, 3, 5, 7)) == 7
    assert economics.sglang_adaptive_rule(-1.0, 7, (0, 1, 3, 5, 7)) == 0
