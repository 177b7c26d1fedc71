"""The guard: what it takes for a change to be kept, and how soon it is taken back."""

import asyncio
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import guard
from console.agent.guard import Rule, Watch, rule_for
from profiles.schema import Guard

AT_S = 1_790_000_000.0
RULE = Rule(1.6, "80% of 2.00 before", 20.0)


def look(after_s, accept_len=2.0, *, stale=False, running=2.0, source=rig.Source.PROBE, measured_s=None, speed=66.0):
    at_s = AT_S + after_s
    figure = rig.Figure(accept_len, source, at_s if measured_s is None else AT_S + measured_s, stale=stale)
    return rig.Snapshot(
        at_s=at_s,
        acceptance=rig.Acceptance(accept_len=figure),
        load=rig.Load(running=rig.Figure(running, source, at_s), tok_s_stream=rig.Figure(speed, source, at_s)),
    )


def run(watching, looks):
    """Time and outcome of the first look that decides."""
    for one in looks:
        if outcome := watching.take(one):
            return one.at_s - AT_S, outcome
    return None, None


def every(seconds, until_s, value):
    count = int(until_s / seconds)
    return [look(i * seconds, value(i * seconds) if callable(value) else value) for i in range(1, count + 1)]


def test_a_drafter_that_holds_is_kept_when_the_window_is_over():
    after, outcome = run(Watch(RULE, AT_S), every(0.5, 60, 1.9))
    assert (outcome.kept, outcome.proven, after) == (True, True, 20.0)
    assert (outcome.accept_len, outcome.tok_s) == (pytest.approx(1.9), pytest.approx(66.0))
    assert "accept_len 1.90 holds 1.60 (80% of 2.00 before) over 20 s" in outcome.message


def test_one_that_is_silent_from_the_start_is_not_given_the_whole_window():
    after, outcome = run(Watch(RULE, AT_S), every(0.5, 60, 1.0))
    assert (outcome.kept, outcome.proven) == (False, True)
    assert after == 5.0
    assert "accept_len 1.00 is below 1.60" in outcome.message


def test_a_dip_is_forgiven_and_a_slow_fall_is_not():
    _, outcome = run(Watch(RULE, AT_S), every(0.5, 60, lambda s: 1.2 if 4 < s < 7 else 2.0))
    assert outcome.kept
    after, outcome = run(Watch(RULE, AT_S), every(0.5, 60, lambda s: 2.0 if s < 8 else 1.2))
    assert not outcome.kept
    assert after < 15


def test_without_requests_nothing_is_proven():
    after, outcome = run(Watch(RULE, AT_S), [look(i, running=0.0) for i in range(60)])
    assert (outcome.kept, outcome.proven, after) == (True, False, 10.0)
    assert "not proven" in outcome.message
    _, stale = run(Watch(RULE, AT_S), [look(i, stale=True) for i in range(60)])
    assert not stale.proven


def test_a_little_load_that_was_bad_is_enough():
    looks = [look(i, 1.0, running=1.0 if i < 2 else 0.0) for i in range(60)]
    _, outcome = run(Watch(RULE, AT_S), looks)
    assert not outcome.kept


def test_figures_from_before_the_change_do_not_count():
    old = [look(i, 1.0, source=rig.Source.METRICS, measured_s=min(i, 4)) for i in range(6)]
    watching = Watch(RULE, AT_S)
    assert run(watching, old) == (None, None)
    assert watching.accept_len is None
    assert watching.take(look(7, 1.9, source=rig.Source.METRICS)) is None
    assert watching.accept_len == 1.9


@pytest.mark.parametrize(
    ("section", "earlier", "floor", "why"),
    [
        (Guard(), None, guard.NOTHING, "something has to be accepted"),
        (Guard(), 2.0, 1.6, "80% of 2.00 before"),
        (Guard(min_accept_len=1.8), 2.0, 1.8, "guard.min_accept_len"),
        (Guard(min_accept_len=1.2, min_share_of_before=0.5), 3.4, 1.7, "50% of 3.40 before"),
        (Guard(min_share_of_before=0.0), 3.0, guard.NOTHING, "something has to be accepted"),
        (Guard(min_share_of_before=1.0), 1.0, guard.NOTHING, "something has to be accepted"),
    ],
)
def test_floors(section, earlier, floor, why):
    found = rule_for(section, earlier)
    assert found.floor == pytest.approx(floor)
    assert why in found.why


def test_a_change_of_depth_is_held_against_the_same_accuracy():
    # p = 0.5: L(3) = 1.875, L(1) = 1.5
    found = rule_for(Guard(min_share_of_before=1.0), 1.875, depth_before=3, depth_after=1)
    assert found.floor == pytest.approx(1.5)


def test_a_policy_that_moves_the_depth_meanwhile_does_not_look_like_a_worse_drafter():
    rule = rule_for(Guard(window_s=20.0), 1.875, depth_before=3)  # p = 0.5
    assert (rule.depth, rule.floor) == (3, pytest.approx(1.5))

    def at(depth, accept_len):
        return lambda i: msgspec.structs.replace(
            look(i, accept_len),
            acceptance=rig.Acceptance(
                accept_len=rig.Figure(accept_len, rig.Source.PROBE, AT_S + i),
                depth=rig.Figure(depth, rig.Source.PROBE, AT_S + i),
            ),
        )

    _, kept = run(Watch(rule, AT_S), [at(1.0, 1.48)(i) for i in range(1, 60)])
    assert kept.kept
    _, back = run(Watch(rule, AT_S), [at(1.0, 1.2)(i) for i in range(1, 60)])
    assert not back.kept
    _, off = run(Watch(rule, AT_S), [at(0.0, 1.0)(i) for i in range(1, 60)])
    assert (off.kept, off.proven) == (True, False)


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.floats(1, 8), st.booleans(), st.sampled_from([0.0, 1.0, None])), max_size=60
    ),
    st.floats(1.02, 4),
    st.floats(0.1, 60),
)
def test_it_never_raises_and_never_keeps_what_was_always_below(looks, floor, window_s):
    watching, now = Watch(Rule(floor, "", window_s), AT_S), 0.0
    for step, accept_len, stale, running in looks:
        now += step
        outcome = watching.take(look(now, accept_len, stale=stale, running=running))
        if outcome is not None:
            if outcome.proven and all(value < floor for _, value, _, _ in looks):
                assert not outcome.kept
            return


async def test_the_loop_is_quick_in_a_short_window_and_tells_what_it_sees():
    told = []
    begun = time.time()

    def sample():
        return rig.Snapshot(
            at_s=time.time(),
            acceptance=rig.Acceptance(accept_len=rig.Figure(2.0, rig.Source.PROBE, time.time())),
            load=rig.Load(running=rig.Figure(1.0, rig.Source.PROBE, time.time())),
        )

    outcome = await guard.watch(sample, Rule(1.6, "x", 0.2), begun, report=told.append)
    assert outcome.kept
    assert time.time() - begun < 1.0
    assert "accept_len 2.00, has to hold 1.60" in told[-1]


async def test_an_engine_that_dies_is_not_kept_and_cancel_comes_through():
    outcome = await guard.watch(rig.Snapshot, RULE, time.time(), alive=lambda: False)
    assert (outcome.kept, outcome.message) == (False, "the engine ended while it was watched")
    task = asyncio.create_task(guard.watch(lambda: look(0), RULE, time.time()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
