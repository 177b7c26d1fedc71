"""One life of the real engine, in the order an operator lives it: start, look, swap, change depth, stop."""

from __future__ import annotations

import os
import signal
import statistics
import time

import pytest

from console.rig import EngineState, OperationState
from tests.real import facts
from tests.real.load import Load

pytestmark = pytest.mark.real

LOOK_S = 12
"""Seconds under load before a figure is read: several decode windows of ten batches."""


def under_load(rig, clients: int = 2):
    """A snapshot taken under load, with the load's own count and what the engine itself said meanwhile."""
    seen = len(facts.decode_accept_lens(rig.log()))
    with Load(rig.url, rig.places.checkpoints, clients=clients, tokens=160) as load:
        time.sleep(LOOK_S)
        snapshot, loads = rig.status(), facts.get(f"{rig.url}/v1/loads")["loads"][0]
        gauge = facts.metric(rig.url, "spec_accept_length")
    assert not load.result.failed
    assert load.result.wrong == 0
    assert load.result.requests > 0
    return snapshot, loads, gauge, facts.decode_accept_lens(rig.log())[seen:], load.result


def test_the_start_was_told_phase_by_phase(serving):
    engine = serving.status().engine
    assert engine.state is EngineState.READY
    names = [phase.name for phase in engine.phases]
    wanted = ["imports", "distributed", "weights_target", "weights_draft", "kv_pool", "tiers", "warmup"]
    assert [name for name in names if name in wanted] == wanted
    assert all(phase.seconds is not None for phase in engine.phases)
    assert engine.started_at_s is not None
    assert engine.ready_at_s is not None
    took_s = engine.ready_at_s - engine.started_at_s
    assert 5 < took_s < 240
    assert sum(phase.seconds for phase in engine.phases if phase.name in wanted) == pytest.approx(took_s, rel=0.4)


def test_the_engine_is_described_as_it_is(serving):
    snapshot = serving.status()
    engine = snapshot.engine
    assert not snapshot.simulated
    assert engine.version == facts.get(f"{serving.url}/server_info")["version"] == "0.5.23"
    assert (engine.algorithm, engine.tp, engine.depth_launch, engine.topk) == ("EAGLE3", 1, 3, 1)
    assert engine.candidate_steps == (0, 1, 2, 3, 5)
    assert engine.model.endswith("target")
    assert engine.drafter.endswith("drafter-a")
    roles = {process.role for process in engine.processes}
    assert {"launcher", "scheduler", "detokenizer"} <= roles
    assert len(facts.alive([process.pid for process in engine.processes])) == len(engine.processes)


def test_without_a_gpu_it_says_why(serving):
    snapshot = serving.status()
    if not snapshot.gpus:
        assert snapshot.gpu_note


def test_figures_are_the_engines_own(serving):
    snapshot, loads, gauge, lines, result = under_load(serving)
    said = statistics.mean(lines)
    shown = snapshot.acceptance.accept_len
    assert shown.value is not None, shown.why
    assert shown.value == pytest.approx(said, abs=0.35)
    assert shown.value == pytest.approx(gauge, abs=0.6)
    assert shown.value == pytest.approx(result.accept_len, abs=0.35)
    assert snapshot.load.running.value in {1, 2}
    assert loads["num_running_reqs"] in {0, 1, 2}
    assert snapshot.load.tok_s.value > 1
    assert snapshot.acceptance.depth.value in {1, 2, 3, 5}
    assert snapshot.cycle.total_ms.value > 1
    assert snapshot.at_s - shown.at_s < 10


def test_stage_times_the_cpu_cannot_give_have_a_reason(serving):
    cycle = serving.status().cycle
    for stage in (cycle.draft, cycle.verify, cycle.extend):
        assert stage.mean_ms is not None or stage.p50_ms is not None or stage.why


def test_a_swap_to_the_better_drafter_shows_in_accept_len(serving):
    before = under_load(serving)[-1].accept_len
    serving.must("swap", str(serving.places.checkpoints / "drafter-b"), "--yes")
    snapshot = serving.wait(lambda s: s.engine.state is EngineState.READY, 240, "ready after the swap")
    assert snapshot.operation is not None
    assert snapshot.operation.state is OperationState.DONE, snapshot.operation
    assert snapshot.engine.drafter.endswith("drafter-b")
    snapshot, *_, lines, result = under_load(serving)
    assert result.accept_len > before + 0.5
    # SGLang's policy moves the depth meanwhile, and accept_len with it: the window shown is one of those in the log
    assert min(lines) - 0.3 <= snapshot.acceptance.accept_len.value <= max(lines) + 0.3


def test_a_drafter_of_another_shape_is_refused_or_taken_back(serving):
    done = serving.console("swap", str(serving.places.checkpoints / "drafter-bad"), "--yes", timeout_s=400)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    snapshot = serving.wait(lambda s: s.engine.state is EngineState.READY, 240, "ready after the refusal")
    assert snapshot.engine.drafter.endswith("drafter-b")


@pytest.mark.parametrize("depth", [1])
def test_depth_changes_width_and_acceptance(serving, depth):
    with Load(serving.url, serving.places.checkpoints, clients=1):
        serving.must("depth", str(depth), "--yes")
    snapshot = serving.wait(lambda s: s.engine.state is EngineState.READY, 240, "ready after the depth change")
    assert snapshot.operation is not None
    assert snapshot.operation.state is OperationState.DONE, snapshot.operation
    snapshot, *_, lines, result = under_load(serving)
    assert snapshot.acceptance.depth.value == depth
    assert max(lines[1:]) <= depth + 1.05
    expected = serving.places.accept_len("drafter-b", depth)
    assert result.accept_len == pytest.approx(expected, abs=0.3)


def test_the_agent_can_be_killed_and_the_engine_is_found_again(serving):
    before = serving.status()
    os.kill(before.agent.pid, signal.SIGKILL)
    assert not facts.gone([before.agent.pid])
    assert facts.alive([before.engine.pid])
    snapshot = serving.wait(lambda s: s.engine.state is EngineState.READY, 30, "the engine adopted")
    assert snapshot.agent.pid != before.agent.pid
    assert (snapshot.engine.pid, snapshot.engine.started_at_s) == (before.engine.pid, before.engine.started_at_s)


def test_stop_of_an_adopted_engine_leaves_nothing(serving):
    engine = serving.status().engine
    pids = [process.pid for process in engine.processes]
    serving.must("stop")
    snapshot = serving.wait(lambda s: s.engine.state is EngineState.STOPPED, 60, "stopped")
    assert snapshot.engine.exit_code is None  # the agent that started it is dead: nobody can know
    assert not facts.gone(pids)
    assert facts.port_is_free(serving.port)
