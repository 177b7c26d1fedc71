"""The simulated scheduler over minutes of its own clock, in milliseconds of ours."""

from __future__ import annotations

import re

import pytest

from console.simulate.engine import Engine
from console.simulate.metrics_text import exposition
from console.simulate.options import parse
from console.simulate.traffic import Request

# SGLang's own log format (managers/scheduler metrics reporter), as read from its source
DECODE = re.compile(
    r"Decode batch, #running-req: (\d+), #token: \d+, token usage: [\d.]+, "
    r"(?:accept len: ([\d.]+), accept rate: ([\d.]+), )?cuda graph: (True|False), "
    r"gen throughput \(token/s\): ([\d.]+), #queue-req: (\d+)(?:, fwd occupancy: [\d.]+%)?"
)
EAGLE = ["--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "1"]


class Rig:
    def __init__(self, *flags: str, env: dict[str, str] | None = None) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.options = parse(["--tp", "8", *flags], env or {})
        self.engine = Engine(self.options, self.lines.append, clock=lambda: self.now)

    def run(self, seconds: float) -> Engine:
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.engine.advance()
        return self.engine

    def decode_lines(self) -> list[re.Match[str]]:
        return [match for line in self.lines if (match := DECODE.fullmatch(line))]


def own(*more: str, clients: str = "1", **kwargs) -> Rig:
    flags = [*EAGLE, "--speculative-draft-model-path", "sim/own-37k", "--speculative-num-steps", "2"]
    return Rig(*flags, "--sim-clients", clients, *more, **kwargs)


def test_the_case_is_reproduced_by_every_source():
    rig = own("--decode-log-interval", "40")
    engine = rig.run(120)
    last = rig.decode_lines()[5:]
    assert len(last) > 50
    speeds = [float(line[5]) for line in last]
    assert 57 <= sum(speeds) / len(speeds) <= 62
    accept = [float(line[2]) for line in last]
    assert sum(accept) / len(accept) == pytest.approx(2.0, abs=0.06)
    steps, batches, micros, *_, generated = engine.moments
    assert micros / steps / 1000 == pytest.approx(33.3, abs=0.5)
    assert generated / batches == pytest.approx(2.0, abs=0.06)
    counters = engine.acceptance
    assert 1 + counters.accepted / counters.rounds == pytest.approx(2.0, abs=0.06)
    assert counters.hits[0] / counters.tries[0] == pytest.approx(0.64, abs=0.03)
    assert counters.hits[1] / counters.tries[1] == pytest.approx(0.5625, abs=0.03)


def test_counters_agree_with_each_other():
    engine = own(clients="3").run(60)
    counters = engine.acceptance
    assert counters.accepted == sum(counters.hits)
    assert counters.drafted == 2 * counters.rounds
    assert counters.steps == engine.stages["cycle"].count == engine.graph_passes["decode_cuda_graph"]
    assert engine.stages["verify"].sum_ms / 1000 == pytest.approx(engine.forward_s["target_verify"])
    booked = sum(value[1] for value in engine.stages["verify"].by_batch.values())
    assert booked == pytest.approx(engine.stages["verify"].sum_ms)


def test_without_speculation_it_is_the_baseline():
    rig = Rig("--sim-clients", "1")
    rig.run(60)
    lines = rig.decode_lines()[3:]
    assert all(line[2] is None for line in lines)
    speeds = [float(line[5]) for line in lines]
    assert 77 <= sum(speeds) / len(speeds) <= 83


def test_no_clients_no_work():
    rig = own(clients="none")
    engine = rig.run(30)
    assert not rig.lines
    assert engine.idle_s == pytest.approx(30, abs=0.2)
    assert engine.acceptance.rounds == 0


def test_clients_vary_between_one_and_four():
    rig = own(clients="auto")
    seen = set()
    for _ in range(60):
        rig.run(10)
        seen.add(len(rig.engine.running))
    assert {1, 2} <= seen <= {0, 1, 2, 3, 4}


def test_requests_beyond_the_limit_wait():
    rig = own("--max-running-requests", "4", clients="9")
    rig.run(5)
    assert len(rig.engine.running) == 4
    assert len(rig.engine.queue) == 5


def test_a_request_keeps_its_histogram():
    rig = own(clients="none")
    request = Request("r", prompt_tokens=10, max_tokens=200, arrived_s=0.0)
    rig.engine.submit(request)
    rig.run(10)
    assert request.done.is_set()
    assert request.generated == 200
    assert sum(request.histogram) == request.verifies
    assert len(request.histogram) <= 3
    assert rig.engine.verify_calls == request.verifies


def test_pausing_stops_decoding_and_retracting_empties_the_batch():
    rig = own(clients="2")
    rig.run(5)
    rig.engine.retract_all()
    rig.engine.paused = True
    before = rig.engine.acceptance.steps
    rig.run(5)
    assert rig.engine.acceptance.steps == before
    assert not rig.engine.running
    rig.engine.paused = False
    rig.run(1)
    assert len(rig.engine.running) == 2


def test_pinning_the_depth_changes_width_cost_and_acceptance(tmp_path):
    config = tmp_path / "tiers.json"
    config.write_text('{"1": {"candidate_steps": [0, 1, 2, 3, 5], "warmup_batches": 1000000000}}')
    rig = own("--speculative-adaptive", "--speculative-adaptive-config", str(config))
    rig.run(5)
    rig.engine.pin(0)
    before = rig.engine.acceptance.accepted
    rig.run(10)
    assert rig.engine.acceptance.accepted == before
    assert rig.engine.gauges.num_steps == 0
    assert rig.engine.gauges.accept_length == 1.0
    speeds = sorted(float(line[5]) for line in rig.decode_lines() if float(line[2]) == 1.0)
    assert 75 <= speeds[len(speeds) // 2] <= 80
    assert any("Switch adaptive runtime state: steps 2 -> 0" in line for line in rig.lines)
    rig.engine.pin(None)
    rig.run(1)
    assert rig.engine.depth == 2


def test_without_requests_a_pinned_depth_waits_for_the_next_round(tmp_path):
    config = tmp_path / "tiers.json"
    config.write_text('{"1": {"candidate_steps": [1, 2, 3]}}')
    rig = own("--speculative-adaptive", "--speculative-adaptive-config", str(config), clients="none")
    rig.engine.pin(3)
    rig.run(5)
    assert (rig.engine.pinned, rig.engine.depth) == (3, 2)
    rig.engine.submit(Request("r", prompt_tokens=4, max_tokens=8, arrived_s=rig.now))
    rig.run(1)
    assert rig.engine.depth == 3


def test_sglangs_policy_moves_with_acceptance_only(tmp_path):
    config = tmp_path / "tiers.json"
    config.write_text('{"1": {"candidate_steps": [1, 3, 5]}}')
    flags = [
        *EAGLE,
        "--speculative-num-steps",
        "3",
        "--speculative-adaptive",
        "--speculative-adaptive-config",
        str(config),
    ]
    good = Rig(*flags, "--speculative-draft-model-path", "sim/kimi-k2-instruct-eagle3", "--sim-clients", "1")
    good.run(60)
    assert 5 in {new for _, _, new, _ in good.engine.switches}
    silent = Rig(*flags, "--speculative-draft-model-path", "sim/silent", "--sim-clients", "1")
    silent.run(20)
    assert silent.engine.depth == 1


def test_the_policy_can_be_told_to_leave_the_depth_alone(tmp_path):
    config = tmp_path / "tiers.json"
    config.write_text('{"1": {"candidate_steps": [1, 2, 3, 5]}}')
    rig = own("--speculative-adaptive", "--speculative-adaptive-config", str(config), "--sim-no-policy")
    rig.run(60)
    assert rig.engine.depth == 2
    assert not rig.engine.switches


def test_a_swap_shows_in_acceptance_at_once():
    rig = own(clients="1")
    rig.run(20)
    rig.engine.load_drafter("sim/kimi-k2-instruct-eagle3")
    before = (rig.engine.acceptance.rounds, rig.engine.acceptance.accepted)
    rig.run(20)
    rounds = rig.engine.acceptance.rounds - before[0]
    assert 1 + (rig.engine.acceptance.accepted - before[1]) / rounds == pytest.approx(2.71, abs=0.1)


def test_the_slow_rank_holds_everybody_up():
    calm, slow = own(clients="1"), own("--sim-fault", "slow_rank:5", clients="1")
    calm.run(30)
    slow.run(30)
    cycles = [rig.engine.stages["cycle"] for rig in (calm, slow)]
    assert cycles[1].sum_ms / cycles[1].count > 1.25 * cycles[0].sum_ms / cycles[0].count
    factors = [slow.engine.rank_factor(rank) for rank in range(8)]
    assert factors.index(max(factors)) == 5
    assert max(factors) / sorted(factors)[-2] > 1.3


def test_a_stopped_process_does_not_make_up_for_lost_time():
    rig = own(clients="1")
    rig.run(5)
    before = rig.engine.acceptance.steps
    rig.now += 3600
    rig.engine.advance()
    assert rig.engine.acceptance.steps - before < 20


def test_metric_names_and_labels_are_sglangs(fixture_metrics):
    rig = own("--enable-metrics", "--sim-clients", "2", env={"SGLANG_ENABLE_METRICS_DEVICE_TIMER": "1"})
    text = exposition(rig.run(30), {"load_weight": 1.0})
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    real = {name: set(labels) for name, labels in fixture_metrics.items()}
    assert families <= real.keys()
    for name, labels in re.findall(r"^(sglang:\w+)\{(.*)\}", text, re.MULTILINE):
        names = set(re.findall(r'(\w+)="', labels))
        assert names in real[name], name
    passes = re.findall(r'cuda_graph_passes_total\{.*mode="decode_cuda_graph".*tp_rank="(\d)"', text)
    assert sorted(passes) == list("01234567")


def test_metrics_without_device_timer_have_no_stage_seconds():
    text = exposition(own("--enable-metrics").run(10), {})
    assert "forward_execution_seconds_total" not in text
    assert re.search(r"fwd_occupancy\{.*\} NaN", text)
