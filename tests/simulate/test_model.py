"""The cost model says what the case it comes from says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.simulate.model import CATALOGUE, MAX_DEPTH, Costs, Drafter, drafter, fits

COSTS = Costs()
OWN, KIMI, SILENT = CATALOGUE


def speed_tok_s(model: Drafter, depth: int, batch: int = 1) -> float:
    return 1000 * batch * model.accept_len(depth) / COSTS.round(batch, depth).cycle


def plain_tok_s(batch: int = 1) -> float:
    return 1000 * batch / COSTS.round(batch, 0, speculative=False).cycle


def test_plain_decode_is_the_baseline_of_the_case():
    assert COSTS.round(1, 0, speculative=False).cycle == pytest.approx(12.2)
    assert plain_tok_s() == pytest.approx(82, abs=1)


def test_three_token_verify_costs_what_was_measured():
    assert 29.0 <= COSTS.round(1, 2).verify <= 30.0


def test_the_operators_drafter_reproduces_the_loss():
    assert OWN.accept_len(2) == pytest.approx(2.0)
    assert 59 <= speed_tok_s(OWN, 2) <= 61
    assert speed_tok_s(OWN, 2) < plain_tok_s()


def test_the_published_drafter_wins():
    assert KIMI.accept_len(3) == pytest.approx(3.4, abs=0.01)
    assert speed_tok_s(KIMI, 3) > plain_tok_s()


def test_conditional_acceptance_falls_with_position():
    for model in (OWN, KIMI):
        chances = [model.at(position) for position in range(1, 13)]
        assert chances == sorted(chances, reverse=True)


@pytest.mark.parametrize("depth", range(8))
def test_a_silent_drafter_wins_the_bonus_token_only(depth: int):
    assert SILENT.accept_len(depth) == 1.0


def test_speculation_pays_alone_and_loses_in_a_crowd():
    assert speed_tok_s(KIMI, 3, batch=1) > plain_tok_s(1)
    assert speed_tok_s(KIMI, 3, batch=16) < plain_tok_s(16)


def test_depth_zero_still_runs_the_extend_and_no_draft():
    stages = COSTS.round(1, 0)
    assert stages.draft == 0
    assert stages.extend > 0
    assert stages.verify == COSTS.decode_ms


def test_depth_one_needs_no_draft_forward():
    assert COSTS.round(1, 1).draft == 0
    assert COSTS.round(1, 2).draft == pytest.approx(COSTS.draft_step_ms)


@given(st.integers(1, 200), st.integers(0, MAX_DEPTH))
def test_more_work_never_takes_less_time(batch: int, depth: int):
    here = COSTS.round(batch, depth)
    assert COSTS.round(batch + 1, depth).cycle > here.cycle
    assert COSTS.round(batch, depth + 1).verify > here.verify


@pytest.mark.parametrize("model", [OWN, KIMI])
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_drawn_acceptance_has_the_mean_it_promises(model: Drafter, depth: int):
    rng = random.Random(4)
    drawn = [model.accepted(depth, rng) for _ in range(20_000)]
    assert 1 + sum(drawn) / len(drawn) == pytest.approx(model.accept_len(depth), abs=0.04)
    assert max(drawn) <= depth


def test_known_drafters_are_found_by_folder_name_too():
    assert drafter("/models/own-37k/").conditional == OWN.conditional
    assert drafter("AQ/kimi-k2-instruct-eagle3").conditional == KIMI.conditional


def test_an_unknown_drafter_is_the_same_at_each_start():
    assert drafter("/models/x") == drafter("/models/x")
    assert drafter("/models/x") != drafter("/models/y")


def test_wrong_shapes_are_told_by_name():
    assert fits("sim/own-37k")
    assert not fits("/models/drafter-bad")
