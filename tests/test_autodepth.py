"""Auto-depth against SGLang's own rule and against every fixed depth, on the same traffic."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.autodepth import AutoDepth, Settings
from console.economics import positions, sglang_adaptive_rule

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "golden.json").read_text())

STORY = {1: {0: 12.2, 1: 28.0, 2: 30.0, 3: 31.5, 5: 35.0}}
"""Cycle in ms by depth on the story's rig: a verify costs 2.46 plain steps."""
FAST = {1: {0: 12.2, 1: 13.5, 2: 14.5, 3: 15.5, 5: 17.5}}
TIERS = (0, 1, 2, 3, 5)


class Traffic:
    """One stream with given conditionals by phase; the same random numbers for every policy."""

    def __init__(self, phases: list[tuple[int, list[float]]], costs, seed: int = 1) -> None:
        self.phases, self.costs, self.seed = phases, costs, seed

    def run(self, policy) -> float:
        """tok/s over the whole traffic; ``policy(now_s, depth, window)`` returns the next depth."""
        rng = random.Random(self.seed)
        depth, now_s, tokens = 3, 0.0, 0
        tries, hits, accepted, rounds = [0] * 8, [0] * 8, 0, 0
        for count, conditionals in self.phases:
            until = tokens + count
            while tokens < until:
                draws = [rng.random() for _ in range(8)]
                got = 0
                for index in range(depth):
                    tries[index] += 1
                    if draws[index] >= conditionals[index]:
                        break
                    hits[index] += 1
                    got += 1
                tokens += 1 + got
                accepted += got
                rounds += 1
                now_s += self.costs[1][depth] / 1000.0
                if rounds == 40:
                    depth = policy(now_s, depth, (tries[:depth], hits[:depth], accepted / rounds))
                    tries, hits, accepted, rounds = [0] * 8, [0] * 8, 0, 0
        return tokens / now_s


def fixed(depth):
    return lambda *_: depth


def sglang():
    ema = None

    def policy(_now_s, depth, window):
        nonlocal ema
        ema = window[2] if ema is None else 0.8 * ema + 0.2 * window[2]
        return sglang_adaptive_rule(ema, depth, TIERS)

    return policy


def auto(costs, **settings):
    brain = AutoDepth(TIERS, costs, Settings(min_tries=100, **settings))

    def policy(now_s, depth, window):
        return brain.decide(now_s, depth, 1, positions(window[0], window[1])).depth

    return policy


def test_the_story_switches_speculation_off_where_sglang_does_not():
    traffic = Traffic([(30_000, [0.55, 0.5, 0.45, 0.4, 0.4, 0.4, 0.4, 0.4])], STORY)
    ours, theirs, plain = traffic.run(auto(STORY)), traffic.run(sglang()), traffic.run(fixed(0))
    assert plain == pytest.approx(82, abs=0.5)
    assert theirs < 0.75 * plain
    assert ours > 0.97 * plain
    assert ours > 1.3 * theirs


@pytest.mark.parametrize("costs", [STORY, FAST])
@pytest.mark.parametrize(
    "quality",
    [
        [0.5] * 8,
        [0.62, 0.6, 0.55, 0.5, 0.45, 0.4, 0.4, 0.4],
        [0.85] * 8,
        [0.9, 0.7, 0.4, 0.2, 0.1, 0.1, 0.1, 0.1],
        [0.1] * 8,
    ],
)
def test_never_three_percent_below_the_best_fixed_depth(costs, quality):
    traffic = Traffic([(30_000, quality)], costs)
    best = max(traffic.run(fixed(depth)) for depth in TIERS)
    assert traffic.run(auto(costs)) > 0.97 * best


def test_follows_a_change_of_prompts():
    good, poor = [0.92] * 8, [0.3] * 8
    traffic = Traffic([(60_000, good), (60_000, poor), (60_000, good)], STORY)
    ours = traffic.run(auto(STORY, look_after_s=20.0))
    assert ours > max(traffic.run(fixed(depth)) for depth in TIERS)
    assert ours > traffic.run(sglang())


@pytest.mark.parametrize(("name", "depth"), [("EAGLE1", 3), ("EAGLE3", 4)])
def test_published_depth_tables(name, depth):
    """vllm#20780: accept_len rises to depth 7, speed does not."""
    rows = {int(key): row for key, row in GOLDEN["vllm20780"][name]["rows"].items()}
    costs = {1: {key: row["cycle_ms"] for key, row in rows.items()}}
    marginals = {}
    before = rows[2]["al"]
    for key in range(3, 8):
        marginals[key] = rows[key]["al"] - before
        before = rows[key]["al"]
    first = (rows[2]["al"] - 1) / 2
    flat = [first, first, *(marginals[key] for key in range(3, 8))]
    hits = [round(100_000 * value) for value in flat]
    tries = [100_000, *hits[:-1]]
    decision = AutoDepth(tuple(rows), costs).decide(0.0, 7, 1, positions(tries, hits))
    assert decision.depth == depth
    assert decision.change


def test_says_why_it_does_nothing():
    assert "calibrate" in AutoDepth(TIERS, {}).decide(0, 3, 1, ()).why
    assert "nothing is running" in AutoDepth(TIERS, STORY).decide(0, 3, 0, ()).why
    assert "not known" in AutoDepth(TIERS, STORY).decide(0, 3, 1, ()).why
    brain = AutoDepth(TIERS, STORY)
    assert brain.decide(0, 3, 1, positions([1000, 500], [500, 250])).change
    assert "holds" in brain.decide(1, 0, 1, ()).why


def chained(hits):
    """Tries and hits that can be: a position is tried as often as the one before was hit."""
    found, tries = [], []
    before = 1000
    for value in hits:
        tries.append(before)
        before = min(before, value)
        found.append(before)
    return tries, found


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6),
            st.sampled_from(TIERS),
            st.floats(0, 1e4),
            st.lists(st.integers(0, 1000), min_size=1, max_size=5),
        ),
        max_size=20,
    )
)
def test_any_traffic_gives_a_candidate(steps):
    brain = AutoDepth(TIERS, STORY)
    for now_s, depth, running, hits in steps:
        decision = brain.decide(now_s, depth, running, positions(*chained(hits)))
        assert decision.depth in TIERS
        assert decision.why
