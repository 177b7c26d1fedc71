import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.engine import metrics
from tests.engine import fixtures

LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.builds(
            'sglang{}{}{{tp_rank="{}",mode="{}",category="{}"}} {}'.format,
            st.sampled_from([":", "_"]),
            st.sampled_from(sorted(metrics.WANTED)),
            st.sampled_from(["0", "1", "x", "", "99999999999"]),
            st.sampled_from(["decode_cuda_graph", "decode_none", "decode", ""]),
            st.sampled_from(["target_verify", "eagle_draft", 'a\\"b']),
            st.sampled_from(["1", "2.5", "NaN", "+Inf", "-Inf", "1e400", "x", "", "-3"]),
        ),
    ),
    max_size=20,
).map("\n".join)  # fmt: skip
MAIN = "h200-0.5.17/main/metrics_load"


def scrape(path, at_s=None):
    return metrics.parse((fixtures.ROOT / path).read_bytes(), at_s)


@pytest.mark.parametrize("path", fixtures.SCRAPES, ids=fixtures.name)
def test_every_captured_scrape_is_read(path):
    body = path.read_bytes()
    found = metrics.parse(body)
    assert not found.why
    assert found.seen == sum(line.startswith(b"sglang:") for line in body.splitlines())
    assert found.gauge("num_running_reqs") is not None
    for name, samples in found.families.items():
        assert name in metrics.WANTED
        assert len(samples) == sum(
            line.startswith((f"sglang:{name}{{".encode(), f"sglang:{name} ".encode())) for line in body.splitlines()
        )
    if "nospec" not in str(path) and found.gauge("spec_accept_length"):
        assert found.gauge("spec_num_draft_tokens") == found.gauge("spec_num_steps") + 1


def test_gauges_counted_by_hand():
    found = scrape(f"{MAIN}/05.prom")
    assert found.gauge("spec_accept_length") == 1.7625
    assert found.gauge("spec_num_steps") == 2
    assert found.gauge("num_running_reqs") == 16
    assert found.gauge("gen_throughput") == pytest.approx(4087.484044139716)
    assert found.counters("cuda_graph_passes_total", "mode")[0, 0, 0, "decode_cuda_graph"] == 776


def test_a_window_of_the_capture():
    window = metrics.window(scrape(f"{MAIN}/00.prom", 100.0), scrape(f"{MAIN}/09.prom", 109.0))
    assert window.rounds == 1286
    assert window.graph_share == 1.0
    assert window.stages.verify_ms == pytest.approx(0.5717, abs=1e-4)
    assert window.stages.draft_ms == pytest.approx(0.1072, abs=1e-4)
    assert window.stages.extend_ms is None  # it ran eagerly in this window: its category stood still
    assert window.accept_len == pytest.approx(1.73, abs=0.01)
    assert window.tok_s == pytest.approx(3945, abs=1)
    assert not window.stale


def test_the_engine_on_the_cpu_has_no_stage_times_and_says_why():
    path = "cpu-0.5.23/main/main/metrics_load"
    window = metrics.window(scrape(f"{path}/00.prom"), scrape(f"{path}/09.prom"))
    assert window.stages == metrics.StageMeans()
    assert "SGLANG_ENABLE_METRICS_DEVICE_TIMER" in window.why
    assert window.graph_share == 0.0


def test_a_gauge_that_nothing_confirms_is_stale():
    same = scrape(f"{MAIN}/05.prom")
    window = metrics.window(same, same)
    assert window.stale
    assert window.why == "nothing was decoded in this window"
    assert window.accept_len is None


def test_counters_that_went_back_are_a_restart():
    window = metrics.window(scrape(f"{MAIN}/09.prom"), scrape(f"{MAIN}/00.prom"))
    assert window.why == "the engine was restarted between the scrapes"
    assert window.graph_share is None


@pytest.mark.parametrize("prefix", ["sglang:", "sglang_"])
def test_both_prefixes(prefix):
    assert metrics.parse(f'{prefix}spec_accept_length{{tp_rank="0"}} 2.5\n').gauge("spec_accept_length") == 2.5


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_no_number_is_not_known(value):
    found = metrics.parse(f'sglang:fwd_occupancy{{tp_rank="0"}} {value}\nsglang:num_running_reqs 1\n')
    assert found.gauge("fwd_occupancy") is None
    assert "NaN" in found.missing("fwd_occupancy")


def test_data_parallel_ranks_are_summed_tensor_parallel_ranks_are_not():
    lines = [
        f'sglang:{name}{{dp_rank="{dp}",tp_rank="{tp}",pp_rank="0"}} {value[dp]}'
        for name, value in {
            "gen_throughput": (100, 300),
            "spec_accept_length": (2.0, 3.0),
            "num_running_reqs": (1, 3),
        }.items()
        for dp in (0, 1)
        for tp in range(8)
    ]
    found = metrics.parse("\n".join(lines))
    assert found.gauge("gen_throughput") == 400
    assert found.gauge("num_running_reqs") == 4
    assert found.gauge("spec_accept_length") == pytest.approx((2.0 * 1 + 3.0 * 3) / 4)


def test_several_processes_of_one_rank_are_not_added():
    found = metrics.parse(
        'sglang:num_running_reqs{tp_rank="0",pid="1"} 5\nsglang:num_running_reqs{tp_rank="0",pid="2"} 7\n'
    )
    assert found.gauge("num_running_reqs") == 7


def test_each_rank_has_its_own_stage_means():
    def at(rounds, ms):
        lines = []
        for rank in range(8):
            label = f'tp_rank="{rank}"'
            lines.append(f'sglang:cuda_graph_passes_total{{{label},mode="decode_cuda_graph"}} {rounds}')
            lines.append(
                f'sglang:forward_execution_seconds_total{{{label},category="target_verify"}} {rounds * ms[rank] / 1000}'
            )
        return metrics.parse("\n".join(lines))

    ms = [10.0 + rank for rank in range(8)]
    window = metrics.window(at(100, ms), at(300, ms))
    assert window.rounds == 200
    assert [round(window.ranks[rank].verify_ms, 6) for rank in range(8)] == ms
    assert window.stages.verify_ms == pytest.approx(13.5)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"detail":"Not Found"}', "without --enable-metrics"),
        ("<html><body>hello", "no metrics text"),
        ("", "nothing of SGLang's"),
        ("python_gc_objects_collected_total 1\n", "nothing of SGLang's"),
        (b"\xff\xfe\x00", "nothing of SGLang's"),
    ],
)
def test_no_metrics_says_why(body, why):
    found = metrics.parse(body)
    assert why in found.why
    assert why in found.missing("spec_accept_length")
    assert metrics.window(found, found).why == found.why


def test_missing_families_say_why():
    found = metrics.parse("sglang:num_running_reqs 1\n")
    assert found.gauge("spec_accept_length") is None
    assert "speculation is off" in found.missing("spec_accept_length")
    assert found.missing("num_running_reqs") == ""


def test_a_broken_line_does_not_cost_the_others():
    found = metrics.parse(
        'sglang:num_running_reqs{tp_rank="0" 5\nsglang:gen_throughput{tp_rank="0"} x\nsglang:token_usage{tp_rank="0"} 0.5\n'
    )
    assert found.gauge("token_usage") == 0.5


@given(LINES, LINES)
def test_no_text_raises(old, new):
    first, second = metrics.parse(old, 0.0), metrics.parse(new, 1.0)
    window = metrics.window(first, second)
    for name in metrics.GAUGES:
        value = second.gauge(name)
        assert value is None or math.isfinite(value)
        second.missing(name)
    assert window.graph_share is None or 0 <= window.graph_share <= 1


@given(st.binary(max_size=300))
def test_no_bytes_raise(body):
    metrics.parse(body)
