"""What is left of a start, and how long an operation will take: arithmetic on what was before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import eta, forecast
from console.agent.ports import span
from console.agent.record import Start
from console.agent.stopping import DRAIN, RELEASE

NOW = 1_800_000_000.0


def start(seconds, **phases):
    return Start(NOW, "p", ready=True, seconds=seconds, phases=phases)


EARLIER = [
    start(60, imports=20, weights_target=30, first_token=10),
    start(70, imports=20, weights_target=40, first_token=10),
]


def test_without_an_earlier_start_nothing_is_claimed():
    phases = (rig.Phase("imports", "Imports", NOW),)
    assert eta.estimate(phases, [], now_s=NOW + 5, launched_at_s=NOW) == eta.Progress(phases)


def test_what_is_left_is_the_rest_of_this_phase_and_all_that_follow():
    phases = (rig.Phase("imports", "", NOW, 18.0), rig.Phase("weights_target", "", NOW + 18))
    told = eta.estimate(phases, EARLIER, now_s=NOW + 25, launched_at_s=NOW)
    assert [phase.expected_s for phase in told.phases] == [20, 35]
    assert told.eta_s == pytest.approx((35 - 7) + 10)
    assert told.progress == pytest.approx(25 / (25 + 38))
    assert told.eta_from == "2 earlier starts"


def test_the_logs_own_progress_beats_the_clock():
    phases = (rig.Phase("weights_target", "", NOW, progress=0.9),)
    told = eta.estimate(phases, EARLIER, now_s=NOW + 300, launched_at_s=NOW)
    assert told.eta_s == pytest.approx(3.5 + 20 + 10)


def test_a_start_slower_than_ever_is_never_called_done():
    phases = (
        rig.Phase("imports", "", NOW, 20.0),
        rig.Phase("weights_target", "", NOW + 20, 35.0),
        rig.Phase("first_token", "", NOW + 55),
    )
    told = eta.estimate(phases, EARLIER, now_s=NOW + 500, launched_at_s=NOW)
    assert told.eta_s == 0.0
    assert told.progress == eta.ALMOST_DONE


def test_what_passes_before_the_first_line_belongs_to_the_imports():
    phases = eta.with_launch((rig.Phase("imports", "I", NOW + 9, 4.0), rig.Phase("ready", "", NOW, 50.0)), NOW)
    assert [(phase.name, phase.started_at_s, phase.seconds) for phase in phases] == [("imports", NOW, 13.0)]
    assert eta.with_launch((), NOW)[0].seconds is None
    assert eta.with_launch((rig.Phase("kv_pool", "", NOW + 3),), NOW)[0].seconds == 3.0


seconds = st.none() | st.floats(0, 1e6)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), seconds, st.none() | st.floats(0, 1)), max_size=4),
    st.lists(st.tuples(st.floats(0, 1e6), st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1e6))), max_size=7),
    st.floats(-10, 1e6),
)
def test_every_estimate_is_within_bounds(phases, earlier, elapsed):
    told = eta.estimate(
        [rig.Phase(name, "", NOW, taken, progress=progress) for name, taken, progress in phases],
        [start(total, **by_phase) for total, by_phase in earlier],
        now_s=NOW + elapsed,
        launched_at_s=NOW,
    )
    assert told.progress is None or 0 <= told.progress <= eta.ALMOST_DONE
    assert told.eta_s is None or told.eta_s >= 0
    assert (told.eta_s is None) == (not earlier)


def operation(kind="stop", state="done", path="", taken=5.0, steps=()):
    return {
        "kind": kind,
        "state": state,
        "path": path,
        "started_at_s": NOW,
        "ended_at_s": NOW + taken,
        "steps": [{"name": name, "seconds": seconds} for name, seconds in steps],
    }


def test_a_restart_takes_a_stop_and_a_start():
    operations = [operation(steps=[(DRAIN, 4.0), (RELEASE, 2.0), ("launch the engine", 99.0)])]
    assert forecast.restart(EARLIER, operations, with_stop=True) == (71.0, "2 earlier starts of this profile")
    assert forecast.restart(EARLIER, operations, with_stop=False).seconds == 65.0
    assert forecast.restart([], operations, with_stop=True) == (None, "")


def test_live_changes_are_told_from_live_changes_of_the_same_kind():
    operations = [
        operation("depth", path="live", taken=0.2),
        operation("depth", path="restart", taken=60.0),
        operation("swap", path="live", taken=9.0),
        operation("depth", path="live", state="failed", taken=9.0),
        operation("depth", path="live", taken=0.4),
    ]
    told = forecast.live_s(operations, "depth")
    assert told.seconds == pytest.approx(0.3)
    assert told.rests_on == "2 earlier live changes"
    assert forecast.live_s([], "depth") == (None, "")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (-3, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (61, "1 min 1 s"),
        (3 * 3600 + 5, "3 h 0 min"),
        (9e4, "1 d 1 h"),
    ],
)
def test_spans(seconds, said):
    assert span(seconds) == said
