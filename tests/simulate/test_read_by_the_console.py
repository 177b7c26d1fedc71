"""The console's own readers understand the simulated engine as they understand SGLang."""

from __future__ import annotations

import time

import pytest

from console.agent.procs import ProcessTable
from console.engine import loads, metrics, server_info
from console.engine.log import LogReader

TIMER = {"SGLANG_ENABLE_METRICS_DEVICE_TIMER": "1"}


def test_log_loads_metrics_and_arguments_agree(start, eagle):
    engine = start(*eagle, "--sim-clients", "1", "--decode-log-interval", "20", env=TIMER).ready()
    engine.wait_for("Decode batch")
    old = loads.parse(engine.get("/v1/loads")[1]), metrics.parse(engine.get("/metrics")[1], at_s=time.time())
    time.sleep(2.5)
    new = loads.parse(engine.get("/v1/loads")[1]), metrics.parse(engine.get("/metrics")[1], at_s=time.time())

    by_loads = loads.window(old[0], new[0])
    assert by_loads.cycle_ms == pytest.approx(33.3, abs=1.5)
    assert 1.5 < by_loads.accept_len < 2.5
    by_metrics = metrics.window(old[1], new[1])
    assert by_metrics.stages.draft_ms == pytest.approx(0.6, abs=0.1)
    assert by_metrics.stages.verify_ms == pytest.approx(29.4, abs=1.5)
    assert by_metrics.stages.extend_ms == pytest.approx(0.6, abs=0.1)
    assert by_metrics.graph_share == 1.0
    assert sorted(by_metrics.ranks) == list(range(8))

    facts = server_info.parse(engine.get("/server_info")[1], engine.get("/model_info")[1])
    assert (facts.algorithm, facts.drafter, facts.depth, facts.depth_launch, facts.tp) == (
        "EAGLE3",
        "sim/own-37k",
        2,
        2,
        8,
    )

    reader = LogReader()
    reader.feed(engine.log)
    assert reader.state.ready
    assert not reader.state.failures
    assert reader.state.last_decode is not None
    phases = [phase.name for phase in reader.state.phases]
    wanted = ["distributed", "weights_target", "weights_draft", "kv_pool", "graphs_target_verify", "tiers", "warmup"]
    assert [name for name in phases if name in wanted] == wanted
    assert all(phase.seconds is not None for phase in reader.state.phases)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (["--sim-fault", "oom_at_graph_capture"], "oom"),
        (["--sim-fault", "drafter_wrong_shape"], "draft-shape"),
        (["--speculative-draft-model-path", "/no/such/drafter"], "draft-missing"),
    ],
)
def test_failed_starts_are_one_failure_each(start, eagle, flags, kind):
    engine = start(*eagle, *flags)
    engine.process.wait(15)
    reader = LogReader()
    reader.feed(engine.log)
    reader.close()
    assert not reader.state.ready
    (failure,) = reader.state.failures
    assert kind in failure.kind
    assert failure.advice
    if kind != "draft-missing":
        assert len(failure.ranks) == 8


def test_the_process_tree_is_read_as_sglangs(start):
    engine = start().ready()
    processes = ProcessTable().tree(engine.process.pid)
    roles = sorted(process.role for process in processes)
    assert roles == ["detokenizer", "launcher", *["scheduler"] * 8]
    assert sorted(process.rank for process in processes if process.rank is not None) == list(range(8))
