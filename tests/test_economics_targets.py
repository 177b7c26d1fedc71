"""Verdict and goals: what an operator reads first, from whatever is known."""

from __future__ import annotations

import math

import pytest

from console import rig
from console.economics import goal, targets

STORY = rig.Baseline(tok_s=82.0)


def test_the_story_loses_and_says_what_would_have_to_be_true():
    found = targets(STORY, 30.0, 2, 2.0, (150.0, 200.0), verify_ms=26.0)
    assert found.verdict is rig.Verdict.LOSES
    assert found.why == "accept_len 2.00 is 0.46 below break-even 2.46"
    assert (found.break_even_accept_len, found.ceiling_tok_s) == (pytest.approx(2.46), pytest.approx(100))
    assert (found.speed_tok_s, found.speedup, found.margin) == pytest.approx((66.667, 0.8130, -0.46), abs=5e-4)
    assert [(g.tok_s, g.reachable, g.min_depth, g.label) for g in found.goals] == [
        (82.0, True, 2, "break-even"),
        (150.0, False, 4, ""),
        (200.0, False, 5, ""),
    ]
    assert [g.verify_ms_needed for g in found.goals] == pytest.approx([20.39, 9.333, 6.0], abs=5e-3)


def test_the_published_drafter_pays():
    found = targets(STORY, 30.0, 3, 3.165)
    assert found.verdict is rig.Verdict.PAYS
    assert found.speed_tok_s == pytest.approx(105.5)
    assert found.speedup - 1 == pytest.approx(0.29, abs=0.005)


def test_no_drafter_can_win_below_the_baseline():
    found = targets(STORY, 30.0, 1, None)
    assert found.verdict is rig.Verdict.LOSES
    assert found.why == "the ceiling at depth 1 is 66.7 tok/s, below the baseline 82: no drafter can win here"
    assert found.goals[0].reachable is False


def test_an_interval_around_break_even_is_no_verdict():
    found = targets(STORY, 30.0, 2, 2.5, accept_len_bounds=(2.3, 2.7))
    assert found.verdict is rig.Verdict.UNCLEAR
    assert "between 2.30 and 2.70" in found.why
    assert targets(STORY, 30.0, 2, 2.5, accept_len_bounds=(2.47, 2.53)).verdict is rig.Verdict.PAYS


def test_break_even_itself_is_no_verdict():
    assert targets(STORY, 30.0, 2, 2.46).verdict is rig.Verdict.UNCLEAR


def test_a_stale_baseline_is_said():
    found = targets(rig.Baseline(tok_s=82.0, stale=True, note="driver changed"), 30.0, 2, 2.0)
    assert found.why.endswith("the baseline is stale: driver changed")
    assert found.baseline.stale


def test_speculation_off():
    found = targets(STORY, 12.2, 0, 1.0, (150.0,))
    assert (found.verdict, found.why) == (rig.Verdict.UNCLEAR, "speculation is off (depth 0)")
    assert found.speed_tok_s == pytest.approx(81.97, abs=0.01)
    assert found.goals[1].reachable is False


@pytest.mark.parametrize(
    ("baseline", "cycle_ms", "depth", "accept_len", "why"),
    [
        (None, 30.0, 2, 2.0, "no baseline measured"),
        (82.0, None, 2, 2.0, "no cycle measured"),
        (82.0, 30.0, 2, None, "no accept_len measured"),
        (0.0, 30.0, 2, 2.0, "baseline must be above 0, not 0"),
        (math.nan, 30.0, 2, 2.0, "baseline must be a finite number"),
        (82.0, 0.0, 2, 2.0, "cycle_ms must be above 0"),
        (82.0, -30.0, 2, 2.0, "cycle_ms must be above 0"),
        (82.0, 30.0, 2, 0.5, "accept_len 0.5 is impossible"),
        (82.0, 30.0, 2, 3.2, "accept_len 3.2 is impossible at depth 2"),
        (82.0, 30.0, 2, math.nan, "accept_len must be a finite number"),
        (82.0, 0.03, 2, 2.0, "if it is in seconds, say 30"),
        (82.0, 1e-320, 2, 2.0, "not credible"),
        (1e-320, 30.0, 2, 2.0, "not credible"),
    ],
)
def test_what_is_missing_or_impossible_is_said_and_never_raised(baseline, cycle_ms, depth, accept_len, why):
    found = targets(rig.Baseline(tok_s=baseline), cycle_ms, depth, accept_len, (150.0,))
    assert found.verdict is rig.Verdict.UNCLEAR
    assert why in found.why
    assert found.margin is None


def test_without_depth_the_goals_stand_for_unlimited_depth():
    found = targets(STORY, 30.0, None, 2.0, (150.0,))
    assert found.ceiling_tok_s is None
    assert found.verdict is rig.Verdict.LOSES
    assert [(g.accuracy_at_depth, g.reachable, g.min_depth) for g in found.goals] == [(None, True, 2), (None, True, 4)]


def test_without_baseline_the_goals_still_stand():
    found = targets(rig.Baseline(), 30.0, 5, 2.0, (150.0,))
    assert [g.tok_s for g in found.goals] == [150.0]
    assert found.goals[0].accuracy_at_depth == pytest.approx(0.8834, abs=5e-5)


def test_goals_once_each_and_bad_ones_named():
    found = targets(STORY, 30.0, 2, None, (82.0, 150.0, 150.0, -1.0, math.nan))
    assert [g.tok_s for g in found.goals] == [82.0, 150.0]
    assert "goal must be above 0, not -1" in found.why


def test_accept_len_at_full_depth_with_float_dust():
    found = targets(STORY, 30.0, 2, 3.0000000000000004)
    assert found.accept_len == 3.0
    assert found.verdict is rig.Verdict.PAYS


def test_goal_alone():
    found = goal(200.0, 30.0, 5, accept_len=2.0, other_ms=12.0, label="twice")
    assert (found.accuracy_at_depth, found.min_depth, found.verify_ms_needed, found.label) == (1.0, 5, None, "twice")
