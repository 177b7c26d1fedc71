"""One snapshot from all readings: golden values from the story and from real captures."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import compose
from console.agent.adapt import LoadsFeed, LogFeed, MetricsFeed
from console.agent.compose import Inputs
from console.agent.readings import Gauges, RankWindow, Readings, Window
from console.engine import loads, metrics
from console.engine.batches import DecodeBatch
from console.engine.log import LogReader
from profiles.schema import BaselineSection, Profile, TargetsSection

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = 1_800_000_000.0


def stage(mean_ms):
    return rig.Stage(
        mean_ms=mean_ms, p50_ms=mean_ms, p95_ms=mean_ms * 1.05, rounds=100, source=rig.Source.PROBE, at_s=NOW
    )


def story(**changes):
    """30 ms cycle, drafter at 2.0, depth 2, one stream, 82 tok/s without speculation."""
    values = {
        "cycle_ms": 30.0,
        "batch": 1.0,
        "accept_len": 2.0,
        "accept_rate": 0.5,
        "draft": stage(1.5),
        "verify": stage(26.0),
        "extend": stage(1.2),
        "rounds": 10_000,
        "drafted": 20_000,
        "accepted": 10_000,
        "tries": (10_000, 6_200),
        "hits": (6_200, 3_800),
    } | changes
    window = Window(source=rig.Source.PROBE, at_s=NOW, **values)
    gauges = Gauges(source=rig.Source.PROBE, at_s=NOW, depth=2.0)
    running = Gauges(source=rig.Source.LOADS, at_s=NOW, running=1.0, queued=0.0, token_usage=0.1)
    return Readings(windows=(window,), gauges=(gauges, running), probe=rig.ProbeStatus(present=True, why=""))


def composed(readings=None, **changes):
    values = {"now_s": NOW, "baseline": rig.Baseline(82.0), "goals_tok_s": (150.0, 200.0)} | changes
    return compose.compose(Inputs(readings=readings or story(), **values))


# --------------------------------------------------------------------------------------- the story


def test_the_story():
    snapshot = composed()
    targets = snapshot.targets
    assert targets.break_even_accept_len == pytest.approx(2.46)
    assert targets.ceiling_tok_s == pytest.approx(100.0)
    assert targets.speed_tok_s == pytest.approx(66.667, abs=1e-3)
    assert targets.speedup == pytest.approx(0.813, abs=1e-3)
    assert targets.margin == pytest.approx(-0.46)
    assert targets.verdict is rig.Verdict.LOSES
    assert [goal.tok_s for goal in targets.goals] == [82.0, 150.0, 200.0]
    assert [goal.reachable for goal in targets.goals] == [True, False, False]
    assert targets.goals[0].verify_ms_needed == pytest.approx(1000 * 2.0 / 82 - 4.0)
    assert snapshot.load.tok_s_stream.value == pytest.approx(66.667, abs=1e-3)
    assert snapshot.cycle.gap.mean_ms == pytest.approx(1.3)
    assert snapshot.acceptance.rejected_share.value == pytest.approx(0.5)
    first, second = snapshot.acceptance.positions
    assert first.conditional.value == first.marginal.value == pytest.approx(0.62)
    assert second.conditional.value == pytest.approx(3_800 / 6_200)
    assert second.marginal.value == pytest.approx(0.38)
    assert second.conditional.low < second.conditional.value < second.conditional.high


def test_the_sum_of_marginals_is_accept_len():
    snapshot = composed()
    total = 1 + sum(entry.marginal.value for entry in snapshot.acceptance.positions)
    assert total == pytest.approx(snapshot.acceptance.accept_len.value)


def test_a_better_drafter_pays():
    readings = story(accept_len=2.7, hits=(9_000, 8_000), tries=(10_000, 9_000), accepted=17_000)
    assert composed(readings).targets.verdict is rig.Verdict.PAYS


def test_too_few_rounds_cannot_tell():
    readings = story(accept_len=2.4, rounds=20, tries=(20, 16), hits=(16, 12))
    targets = composed(readings).targets
    assert targets.verdict is rig.Verdict.UNCLEAR
    assert "between" in targets.why


def test_without_counts_a_hair_around_break_even_cannot_tell():
    readings = story(accept_len=2.45, tries=(), hits=())
    assert composed(readings).targets.verdict is rig.Verdict.UNCLEAR
    assert composed(story(accept_len=2.3, tries=(), hits=())).targets.verdict is rig.Verdict.LOSES


# ------------------------------------------------------------------------------------ like with like


@pytest.mark.parametrize(
    ("concurrency", "batch", "fair"),
    [
        (1, 1.0, True),
        (1, 1.4, True),
        (1, 2.0, False),
        (1, 16.0, False),
        (16, 14.0, True),
        (16, 1.0, False),
        (16, 30.0, False),
    ],
)
def test_a_baseline_is_compared_at_its_own_concurrency(concurrency, batch, fair):
    targets = composed(story(batch=batch), baseline=rig.Baseline(82.0, concurrency=concurrency)).targets
    assert (targets.verdict is rig.Verdict.LOSES) == fair
    if not fair:
        assert targets.verdict is rig.Verdict.UNCLEAR
        assert f"{batch:.0f} run now" in targets.why
    assert targets.break_even_accept_len == pytest.approx(2.46)


def test_old_figures_give_no_verdict():
    targets = composed(now_s=NOW + 240).targets
    assert (targets.verdict, targets.why) == (rig.Verdict.UNCLEAR, "no decode for 4 min")


def test_no_baseline_says_what_to_do():
    baseline = compose.baseline_of(Profile(name="x"), "")
    targets = composed(baseline=baseline).targets
    assert targets.verdict is rig.Verdict.UNCLEAR
    assert "measure one" in targets.why
    assert targets.speed_tok_s == pytest.approx(66.667, abs=1e-3)
    assert targets.speedup is None


def profile(**section):
    return Profile(name="x", targets=TargetsSection(baseline=BaselineSection(**section)))


def test_a_baseline_with_another_fingerprint_is_stale():
    section = {"tok_s": 82.0, "fingerprint": "abc", "measured": "2026-12-01T10:00:00+00:00", "concurrency": 2}
    fresh = compose.baseline_of(profile(**section), "abc")
    assert (fresh.stale, fresh.at_s, fresh.concurrency) == (False, 1796119200.0, 2)
    stale = compose.baseline_of(profile(**section, note="greedy"), "def")
    assert stale.stale
    assert stale.note.endswith("; greedy")
    assert compose.baseline_of(profile(**section), "").stale is False
    assert "stale" in composed(baseline=msgspec.structs.replace(stale, concurrency=1)).targets.why


@given(st.text(max_size=40))
def test_any_date_is_a_time_or_none(text):
    found = compose.date_s(text)
    assert found is None or isinstance(found, float)


# --------------------------------------------------------------------------------------- slow ranks


def ranks(*verify_ms):
    return tuple(RankWindow(rank, 1.0, value, 1.0) for rank, value in enumerate(verify_ms))


def test_the_slowest_rank_and_what_its_gpu_says():
    gpus = tuple(rig.Gpu(index, rank=7 - index) for index in range(8))
    slow = ranks(*[26.0] * 7, 31.0)
    cycle = composed(story(ranks=slow), gpus=gpus).cycle
    assert (cycle.slowest_rank, cycle.slowest_why) == (7, "verify 31.0 ms, the middle rank 26.0 ms")
    hot = (rig.Gpu(0, rank=7, throttle=("power cap",)), *gpus[1:])
    assert composed(story(ranks=slow), gpus=hot).cycle.slowest_why.endswith("; GPU 0 is limited by power cap")
    low = (rig.Gpu(0, rank=7, sm_clock_mhz=1200.0, sm_clock_max_mhz=1980.0), *gpus[1:])
    assert composed(story(ranks=slow), gpus=low).cycle.slowest_why.endswith("; GPU 0 runs at 1200 of 1980 MHz")


@pytest.mark.parametrize("times", [(), (26.0,), (26.0, 26.5), (26.0,) * 8, (None, None), (0.0, 0.0)])
def test_no_rank_is_called_slow_without_cause(times):
    assert composed(story(ranks=ranks(*times))).cycle.slowest_rank is None


# ------------------------------------------------------------------------------ without speculation


def test_an_engine_without_speculation():
    """/v1/loads says one token a round: true, but no acceptance."""
    window = Window(source=rig.Source.LOADS, at_s=NOW, cycle_ms=12.2, batch=1.0, accept_len=1.0, tok_s=82.0)
    engine = rig.Engine(state=rig.EngineState.READY, version="0.5.23")
    snapshot = composed(Readings(windows=(window,)), engine=engine)
    assert snapshot.acceptance.accept_len == rig.Figure(why="speculation is off")
    assert snapshot.cycle.total_ms.value == 12.2
    assert snapshot.cycle.verify == rig.Stage(why="speculation is off")
    assert snapshot.load.tok_s_stream.value == pytest.approx(81.967, abs=1e-3)
    assert (snapshot.targets.verdict, snapshot.targets.why) == (rig.Verdict.UNCLEAR, "speculation is off")
    assert snapshot.targets.break_even_accept_len == pytest.approx(82 * 0.0122)
    unknown = composed(Readings(windows=(window,)), engine=rig.Engine(state=rig.EngineState.READY))
    assert unknown.acceptance.accept_len.value == 1.0


# ------------------------------------------------------------------------------ nothing, and nonsense


def test_nothing_is_known():
    snapshot = compose.compose(Inputs(now_s=NOW))
    figures = [snapshot.cycle.total_ms, snapshot.acceptance.accept_len, *msgspec.structs.astuple(snapshot.load)]
    assert all(figure.value is None and figure.why for figure in figures)
    assert snapshot.cycle.verify.why
    assert snapshot.targets.verdict is rig.Verdict.UNCLEAR
    assert snapshot.acceptance.positions == ()


def test_counts_that_contradict_one_another_are_said():
    acceptance = composed(story(tries=(10, 9), hits=(5, 9))).acceptance
    assert acceptance.positions == ()
    assert acceptance.positions_why


FLOAT = st.none() | st.floats(allow_nan=True, allow_infinity=True)
WINDOWS = st.builds(
    Window,
    source=st.sampled_from(list(rig.Source)),
    at_s=st.floats(NOW - 1000, NOW + 10),
    cycle_ms=FLOAT,
    batch=st.none() | st.floats(0, 1e6),
    accept_len=FLOAT,
    tok_s=FLOAT,
    depth=FLOAT,
    graph_share=FLOAT,
    draft=st.none() | st.builds(rig.Stage, mean_ms=FLOAT, source=st.sampled_from(list(rig.Source))),
    verify=st.none() | st.builds(rig.Stage, mean_ms=FLOAT, source=st.sampled_from(list(rig.Source))),
    rounds=st.integers(-5, 10**9),
    drafted=st.integers(0, 10**9),
    accepted=st.integers(0, 10**9),
    tries=st.lists(st.integers(-5, 100), max_size=4).map(tuple),
    hits=st.lists(st.integers(-5, 100), max_size=4).map(tuple),
)


@given(st.lists(WINDOWS, max_size=4).map(tuple), FLOAT)
def test_any_readings_compose_and_encode(windows, tok_s):
    snapshot = composed(Readings(windows=windows), baseline=rig.Baseline(tok_s))
    text = msgspec.json.encode(snapshot)
    assert b"NaN" not in text
    assert msgspec.json.decode(text, type=rig.Snapshot).cycle.total_ms == snapshot.cycle.total_ms


# ---------------------------------------------------------------------------------------- real captures


def h200():
    """The H200 under 16 requests: two scrapes, two loads, the log's last lines."""
    folder = FIXTURES / "h200-0.5.17/main"
    scrapes, load, log, reader = MetricsFeed(), LoadsFeed(), LogFeed(), LogReader()
    for number in (4, 5):
        scrapes.take(metrics.parse((folder / f"metrics_load/0{number}.prom").read_text(), NOW + number), NOW + number)
    for number, name in enumerate(("idle", "load")):
        body = json.loads((folder / f"http_{name}/v1_loads.txt").read_text())
        load.take(loads.parse(body), NOW + 4 + number)
    for event in reader.feed((folder / "stderr.log").read_bytes()):
        if isinstance(event.batch, DecodeBatch) and event.batch.running == 16:
            log.take(event.batch, NOW + 5)
    return Readings(windows=(load.window, scrapes.window, log.window), gauges=(load.gauges, scrapes.gauges, log.gauges))


def test_a_real_engine_without_the_probe():
    snapshot = composed(h200(), now_s=NOW + 5, baseline=rig.Baseline())
    cycle, acceptance, load = snapshot.cycle, snapshot.acceptance, snapshot.load
    assert (cycle.total_ms.source, acceptance.accept_len.source) == (rig.Source.LOADS, rig.Source.LOADS)
    assert cycle.total_ms.value == pytest.approx(10.226, abs=1e-3)
    assert acceptance.accept_len.value == pytest.approx((16025 - 9) / (9208 - 3))
    assert (cycle.verify.source, cycle.verify.p95_ms) == (rig.Source.METRICS, None)
    assert 0.3 < cycle.verify.mean_ms < 1.0
    assert (cycle.graph_share.value, cycle.graph_share.source) == (1.0, rig.Source.METRICS)
    assert (acceptance.depth.value, acceptance.depth.source) == (2.0, rig.Source.METRICS)
    assert (load.running.value, load.queued.value) == (16.0, 0.0)
    assert acceptance.positions_why.startswith("needs the probe")
    assert snapshot.targets.verdict is rig.Verdict.UNCLEAR


def test_a_real_engine_of_which_only_the_log_is_known():
    readings = msgspec.structs.replace(h200(), windows=h200().windows[2:], gauges=h200().gauges[2:])
    snapshot = composed(readings, now_s=NOW + 5)
    assert snapshot.cycle.total_ms.source is rig.Source.LOG
    assert snapshot.load.running.source is rig.Source.LOG
    assert snapshot.load.tok_s.value > 1000
    assert snapshot.cycle.verify.mean_ms is None


def test_positions_of_a_deeper_depth_before_are_not_shown_as_rejected():
    """Seen on an H200: after depth 5 the feed still counts five positions, at depth 2 three of them without a try."""
    readings = story(tries=(10_000, 6_200, 0, 0, 0), hits=(6_200, 3_800, 0, 0, 0))
    assert [position.index for position in composed(readings).acceptance.positions] == [1, 2]
