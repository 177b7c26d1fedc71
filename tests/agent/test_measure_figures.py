"""Which source a figure comes from; when it is old; why it is missing."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import rig
from console.agent import figures
from console.agent.adapt import LoadsFeed, LogFeed, MetricsFeed, facts_gauges
from console.agent.readings import Gauges, Readings, Window, finite
from console.engine import loads, metrics, server_info
from console.engine.batches import DecodeBatch
from console.engine.log import LogReader

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOW = 1_800_000_000.0


def window(source, age_s=0.0, **values):
    return Window(source=source, at_s=NOW - age_s, **values)


def readings(*windows, **rest):
    return Readings(windows=windows, **rest)


# ----------------------------------------------------------------------------------------- the rule


def test_the_best_source_that_is_still_true():
    probe, loads_, log = rig.Source.PROBE, rig.Source.LOADS, rig.Source.LOG
    all_three = [window(probe, cycle_ms=30.0), window(loads_, cycle_ms=31.0), window(log, cycle_ms=33.0)]
    figure = figures.of_windows(readings(*all_three), "cycle_ms", NOW)
    assert figure == rig.Figure(30.0, probe, NOW)
    silent = [window(probe, 60.0, cycle_ms=30.0), *all_three[1:]]
    assert figures.of_windows(readings(*silent), "cycle_ms", NOW).source is loads_
    blind = [window(probe), window(loads_), all_three[2]]
    assert figures.of_windows(readings(*blind), "cycle_ms", NOW) == rig.Figure(33.0, log, NOW)


def test_a_sticky_value_is_stale_and_says_since_when():
    old = [window(rig.Source.LOADS, 240.0, accept_len=2.87), window(rig.Source.LOG, 300.0, accept_len=2.9)]
    figure = figures.of_windows(readings(*old), "accept_len", NOW)
    assert figure == rig.Figure(2.87, rig.Source.LOADS, NOW - 240, stale=True, why="no decode for 4 min")


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({}, "no decode seen yet"),
        ({"engine": "no engine"}, "no engine"),
        ({"metrics": "m"}, "m"),
        ({"metrics": "m", "loads": "/v1/loads did not answer within 5 s"}, "/v1/loads did not answer within 5 s"),
    ],
)
def test_a_missing_value_has_a_reason_and_is_never_zero(why, said):
    figure = figures.of_windows(readings(why=why), "cycle_ms", NOW)
    assert figure == rig.Figure(why=said)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(rig.Source)),
            st.floats(allow_nan=True, allow_infinity=True),
            st.one_of(st.none(), st.floats(allow_nan=True), st.booleans()),
        )
    )
)
def test_any_candidates_give_a_finite_figure_or_a_reason(candidates):
    found = figures.pick([figures.Candidate(*entry) for entry in candidates], NOW, why="nothing", old="no decode")
    assert (found.value is None) == (found.why == "nothing")
    assert found.value is None or finite(found.value) is not None
    assert not found.stale or found.why


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (240, "4 min"), (7200, "2 h"), (86400 * 3, "3 d")]
)
def test_ages(seconds, text):
    assert figures.ago(seconds) == text


def test_when_nothing_runs_no_slow_source_is_believed_for_long():
    """The last scrape saw decodes; ten seconds later the server says that nothing runs."""
    scrape = window(rig.Source.METRICS, 8.0, accept_len=1.6, tok_s=0.4, verify=stage(26.0, rig.Source.METRICS))
    busy = readings(scrape, gauges=(Gauges(source=rig.Source.LOADS, at_s=NOW, running=1.0),))
    idle = readings(scrape, gauges=(Gauges(source=rig.Source.LOADS, at_s=NOW, running=0.0),))
    assert not figures.of_windows(busy, "accept_len", NOW).stale
    assert figures.of_windows(idle, "accept_len", NOW).why == "no decode for 8 s"
    assert (figures.stage(busy, "verify", NOW).stale, figures.stage(idle, "verify", NOW).stale) == (False, True)
    assert figures.throughput(idle, figures.of_gauges(idle, "running", NOW), NOW).value == 0.0


@pytest.mark.parametrize(("cycle_ms", "stale"), [(30.0, True), (400.0, False)])
def test_slow_cycles_are_reported_rarely(cycle_ms, stale):
    """Fifteen rounds of 400 ms take 6 s: a window 8 s old is still the newest there can be."""
    known = readings(
        window(rig.Source.LOADS, 8.0, cycle_ms=cycle_ms),
        gauges=(Gauges(source=rig.Source.LOADS, at_s=NOW, running=1.0),),
    )
    assert figures.of_windows(known, "cycle_ms", NOW).stale is stale


def test_the_depth_gauge_is_no_depth_before_the_first_decode():
    text = (FIXTURES / "h200-0.5.17/main/metrics_load/05.prom").read_text().replace("\r", "")
    fresh = re.sub(r"(sglang:spec_num_(?:steps|draft_tokens)\{.*\}) .*", r"\1 0.0", text)
    assert fresh != text
    feed = MetricsFeed()
    feed.take(metrics.parse(fresh, NOW), NOW)
    assert feed.gauges.depth is None
    off = re.sub(r"(sglang:spec_num_draft_tokens\{.*\}) .*", r"\1 1.0", fresh)
    feed.take(metrics.parse(off, NOW), NOW)
    assert feed.gauges.depth == 0.0


# --------------------------------------------------------------------------------------- throughput


def test_idle_is_a_measured_zero_only_when_the_server_says_so():
    sticky = Gauges(source=rig.Source.METRICS, at_s=NOW, running=0.0, tok_s=66.2)
    old = window(rig.Source.LOADS, 120.0, tok_s=66.0)
    idle = readings(old, gauges=(sticky,))
    running = figures.of_gauges(idle, "running", NOW)
    assert figures.throughput(idle, running, NOW).value == 0.0
    busy = readings(gauges=(Gauges(source=rig.Source.METRICS, at_s=NOW, running=2.0, tok_s=66.2),))
    assert figures.throughput(busy, figures.of_gauges(busy, "running", NOW), NOW).value == 66.2
    unknown = readings(old)
    assert figures.throughput(unknown, rig.Figure(), NOW).stale
    late = readings(old, gauges=(Gauges(source=rig.Source.LOADS, at_s=NOW - 60, running=0.0),))
    assert figures.throughput(late, figures.of_gauges(late, "running", NOW), NOW).stale


def test_per_stream_is_derived_and_inherits_doubt():
    found = figures.per_stream(rig.Figure(2.0, at_s=NOW - 1), rig.Figure(30.0, at_s=NOW))
    assert found.value == pytest.approx(66.667, abs=1e-3)
    assert (found.source, found.at_s, found.stale) == (rig.Source.DERIVED, NOW - 1, False)
    assert figures.per_stream(rig.Figure(2.0, stale=True, why="no decode for 4 min"), rig.Figure(30.0)).stale
    assert figures.per_stream(rig.Figure(2.0), rig.Figure(0.0)).value is None
    assert figures.per_stream(rig.Figure(why="no engine"), rig.Figure(30.0)).why == "no engine"


# -------------------------------------------------------------------------------------------- stages


def stage(mean_ms, source=rig.Source.PROBE, **rest):
    return rig.Stage(mean_ms=mean_ms, source=source, at_s=NOW, **rest)


def test_percentiles_of_the_probe_before_the_mean_of_the_metrics():
    both = readings(
        window(rig.Source.PROBE, verify=stage(26.0, p50_ms=25.9, p95_ms=27.0)),
        window(rig.Source.METRICS, verify=stage(26.4, rig.Source.METRICS)),
    )
    assert figures.stage(both, "verify", NOW).p95_ms == 27.0
    silent = msgspec.structs.replace(
        both, windows=(window(rig.Source.PROBE, 99.0, verify=stage(26.0)), both.windows[1])
    )
    found = figures.stage(silent, "verify", NOW)
    assert (found.mean_ms, found.source, found.p95_ms) == (26.4, rig.Source.METRICS, None)


def test_an_old_stage_is_stale():
    found = figures.stage(readings(window(rig.Source.METRICS, 300.0, draft=stage(1.0))), "draft", NOW)
    assert (found.mean_ms, found.stale, found.why) == (1.0, True, "no decode for 5 min")
    garbage = readings(window(rig.Source.METRICS, 300.0, draft=stage(1.0)), why={"metrics": "no metrics text"})
    assert figures.stage(garbage, "draft", NOW).why == "no metrics text"


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (readings(why={"metrics": "metrics are off: x"}), "metrics are off: x"),
        (readings(window(rig.Source.METRICS, tok_s=1.0)), "device timer is off"),
        (readings(window(rig.Source.LOADS, tok_s=1.0)), "no decode seen yet"),
        (
            readings(probe=rig.ProbeStatus(present=True, hooks={"stages": "off: no CUDA"})),
            "off: no CUDA",
        ),
        (readings(probe=rig.ProbeStatus(present=True, hooks={"stages": "on"})), "no draft round seen yet"),
    ],
)
def test_a_missing_stage_says_what_would_have_to_be_on(known, why):
    found = figures.stage(known, "draft", NOW)
    assert found.mean_ms is None
    assert why in found.why


def test_the_gap_is_what_is_left():
    total = rig.Figure(30.0, rig.Source.PROBE, NOW)
    found = figures.gap(total, (stage(1.0), stage(26.0), stage(2.0)))
    assert (found.mean_ms, found.source) == (pytest.approx(1.0), rig.Source.DERIVED)
    assert figures.gap(total, (stage(1.0), rig.Stage(), stage(2.0))).mean_ms is None
    assert (
        figures.gap(rig.Figure(), (stage(1.0), stage(26.0), stage(2.0))).why == "needs the cycle and all three stages"
    )
    assert figures.gap(total, (stage(1.0), stage(28.5), stage(1.0))).mean_ms == 0.0  # within the noise
    assert "different rounds" in figures.gap(total, (stage(1.0), stage(60.0), stage(1.0))).why


# ------------------------------------------------------------------------------------------- depth


def test_depth_is_the_live_one():
    info = Gauges(source=rig.Source.SERVER_INFO, at_s=NOW - 20, depth=5.0)
    gauge = Gauges(source=rig.Source.METRICS, at_s=NOW - 4, depth=2.0)
    probe = Gauges(source=rig.Source.PROBE, at_s=NOW, depth=3.0)
    assert figures.depth(readings(gauges=(info,)), NOW).value == 5.0
    assert figures.depth(readings(gauges=(info, gauge)), NOW).value == 2.0
    assert figures.depth(readings(gauges=(info, gauge, probe)), NOW).value == 3.0
    launched = figures.depth(readings(depth_launch=4), NOW)
    assert (launched.value, launched.why) == (4.0, "as launched; live depth is not known")
    assert figures.depth(readings(), NOW).value is None


# --------------------------------------------------------------------------------- real captures


def test_real_scrapes_give_stages_graph_share_and_depth():
    """H200, SGLang 0.5.17, 16 requests: values summed by hand from the counters of 04.prom and 05.prom."""
    feed = MetricsFeed()
    folder = FIXTURES / "h200-0.5.17/main/metrics_load"
    for number in (4, 5):
        text = (folder / f"{number:02}.prom").read_text()
        feed.take(metrics.parse(text, NOW + number), NOW + number)
    counters = [
        {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in (folder / f"{number:02}.prom").read_text().splitlines()
            if line.startswith(("sglang:forward_execution", "sglang:cuda_graph_passes"))
        }
        for number in (4, 5)
    ]
    moved = {name: value - counters[0].get(name, 0.0) for name, value in counters[1].items()}
    passes = sum(value for name, value in moved.items() if 'mode="decode' in name)
    verify = sum(value for name, value in moved.items() if "target_verify" in name)
    assert passes > 50
    assert feed.window.verify.mean_ms == pytest.approx(1000 * verify / passes)
    assert feed.window.graph_share == 1.0
    assert feed.gauges.depth == 2.0
    assert feed.gauges.running == 16.0
    assert feed.window.accept_len == 1.7625
    found = figures.stage(readings(feed.window), "verify", NOW + 5)
    assert found.source is rig.Source.METRICS
    assert not found.stale


def test_a_scrape_that_does_not_move_lets_the_window_grow_old():
    feed = MetricsFeed()
    text = (FIXTURES / "h200-0.5.17/main/metrics_load/05.prom").read_text()
    before = (FIXTURES / "h200-0.5.17/main/metrics_load/04.prom").read_text()
    feed.take(metrics.parse(before, NOW), NOW)
    for number in range(1, 50):
        feed.take(metrics.parse(text, NOW + 5 * number), NOW + 5 * number)
    known = readings(feed.window)
    figure = figures.of_windows(known, "accept_len", NOW + 245)
    assert (figure.value, figure.stale, figure.why) == (1.7625, True, "no decode for 4 min")


def test_real_loads():
    idle = loads.parse(json.loads((FIXTURES / "h200-0.5.17/main/http_idle/v1_loads.txt").read_text()))
    busy = loads.parse(json.loads((FIXTURES / "h200-0.5.17/main/http_load/v1_loads.txt").read_text()))
    feed = LoadsFeed()
    feed.take(idle, NOW)
    assert feed.window is None
    feed.take(busy, NOW + 1)
    assert (feed.gauges.running, feed.gauges.queued) == (16, 0)
    assert feed.window.batch == pytest.approx(14.9, abs=0.2)
    assert feed.window.accept_len == pytest.approx(1.74, abs=0.01)
    assert feed.window.cycle_ms == pytest.approx((8003658 - 1714588) / (618 - 3) / 1000)
    feed.take(busy, NOW + 5)
    assert feed.window.at_s == NOW + 1
    assert feed.gauges.at_s == NOW + 5


def test_an_answer_without_loads_says_so():
    feed = LoadsFeed()
    feed.take(loads.parse({"detail": "nope"}), NOW)
    assert (feed.window, feed.gauges) == (None, None)
    assert "no loads" in feed.why


def test_a_scheduler_that_hangs_is_not_taken_for_running():
    """The HTTP process goes on answering from shared memory."""
    feed = LoadsFeed()
    reading = loads.LoadsReading(at_s=123.0, ranks=1, running=16, queued=3)
    for second in range(30):
        feed.take(reading, NOW + second)
    figure = figures.of_gauges(readings(gauges=(feed.gauges,)), "running", NOW + 29)
    assert (figure.value, figure.stale, figure.why) == (16.0, True, "not confirmed by the server for 29 s")
    idle = loads.LoadsReading(at_s=123.0, ranks=1, running=0, queued=0)
    for second in range(30, 60):
        feed.take(idle, NOW + second)
    figure = figures.of_gauges(readings(gauges=(feed.gauges,)), "running", NOW + 59)
    assert (figure.value, figure.stale) == (0.0, False)


def test_loads_windows_span_a_few_seconds():
    """The engine publishes every 15 rounds; a window of half a second would hold one publication or none."""
    feed = LoadsFeed()
    for number in range(20):
        rounds = 15.0 * number
        moments = ((0, loads.Moments(rounds, 2 * rounds, 30_000.0 * rounds, 4 * rounds)),)
        feed.take(loads.LoadsReading(ranks=1, moments=moments), NOW + 0.5 * number)
    assert feed.window.rounds == 15 * 6
    assert feed.window.cycle_ms == pytest.approx(30.0)
    assert feed.window.accept_len == pytest.approx(2.0)
    assert feed.window.tok_s == pytest.approx(133.33, abs=0.01)


def test_the_last_lines_of_a_real_log():
    feed, reader = LogFeed(), LogReader()
    lines = (FIXTURES / "h200-0.5.17/main/stderr.log").read_bytes()
    for event in reader.feed(lines) + reader.close():
        if isinstance(event.batch, DecodeBatch):
            feed.take(event.batch, event.batch.at_s)
    last = feed.window
    assert (last.accept_len, last.accept_rate, last.tok_s, last.graph_share) == (1.30, 0.30, 191.82, 1.0)
    assert last.cycle_ms == pytest.approx(1000 * 1.30 / 191.82)
    assert feed.gauges.running == 1


def batch(rank, running, accept_len, tok_s):
    return DecodeBatch(None, rank, running, 1, tok_s, accept_len, None, True, 0.5)


def test_data_parallel_ranks_add_up():
    feed = LogFeed()
    feed.take(batch("DP0 TP0", 3, 2.0, 200.0), NOW)
    feed.take(batch("DP1 TP0", 1, 4.0, 100.0), NOW + 1)
    assert (feed.window.tok_s, feed.window.accept_len, feed.gauges.running, feed.gauges.queued) == (300.0, 2.5, 4, 2)
    feed.take(batch("DP0 TP0", 3, 2.0, 200.0), NOW + 60)
    assert (feed.window.tok_s, feed.gauges.running) == (200.0, 3)
    assert LogFeed().window is None


def test_live_depth_of_a_real_server_info():
    body = json.loads((FIXTURES / "h200-0.5.17/main/http_load/server_info.txt").read_text())
    facts = server_info.parse(body)
    assert facts.depth_launch == 5
    assert facts_gauges(facts, NOW).depth == float(facts.depth)
