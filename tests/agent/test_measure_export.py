"""The console's own figures as Prometheus text, read back by Prometheus' own parser."""

import math

from prometheus_client.parser import text_string_to_metric_families

from console import rig
from console.agent.export import render

NOW = 1_800_000_000.0


def families(snapshot):
    found = {}
    for family in text_string_to_metric_families(render(snapshot)):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_everything_known_is_exported_in_base_units():
    snapshot = rig.Snapshot(
        rig="default",
        engine=rig.Engine(state=rig.EngineState.READY, model='/models/odd "name"\\x\ny', version="0.5.23"),
        gpus=(
            rig.Gpu(0, uuid="GPU-0", rank=3, util_pct=90.0, power_w=500.0, sm_clock_mhz=1980.0),
            rig.Gpu(1, uuid="GPU-1", state="lost"),
        ),
        cycle=rig.Cycle(
            total_ms=rig.Figure(30.0), verify=rig.Stage(mean_ms=26.0), draft=rig.Stage(mean_ms=1.0, stale=True)
        ),
        acceptance=rig.Acceptance(
            accept_len=rig.Figure(2.0), positions=(rig.Position(1, conditional=rig.Share(0.7, 0.6, 0.8, 100)),)
        ),
        alarms=(rig.Alarm("loses", "warn", NOW, "x"),),
    )
    found = families(snapshot)
    assert found["sglang_console_cycle_seconds"] == [({}, 0.03)]
    assert found["sglang_console_stage_seconds"] == [({"stage": "verify"}, 0.026)]
    assert found["sglang_console_gpu_utilization_ratio"] == [({"gpu": "0", "uuid": "GPU-0", "rank": "3"}, 0.9)]
    assert found["sglang_console_gpu_sm_clock_hertz"][0][1] == 1.98e9
    assert [value for _, value in found["sglang_console_gpu_up"]] == [1.0, 0.0]
    assert found["sglang_console_conditional_acceptance_ratio"] == [({"position": "1"}, 0.7)]
    assert found["sglang_console_alarm"] == [({"id": "loses", "level": "warn"}, 1.0)]
    states = {labels["state"]: value for labels, value in found["sglang_console_engine_state"]}
    assert states["ready"] == 1.0
    assert sum(states.values()) == 1.0
    assert found["sglang_console_info"][0][0]["model"] == '/models/odd "name"\\x\ny'


def test_what_is_not_known_or_not_true_any_more_is_left_out():
    snapshot = rig.Snapshot(
        cycle=rig.Cycle(total_ms=rig.Figure(30.0, stale=True)),
        acceptance=rig.Acceptance(accept_len=rig.Figure(math.nan)),
    )
    found = families(snapshot)
    assert set(found) == {"sglang_console_info", "sglang_console_engine_state", "sglang_console_journal_up"}


def test_a_journal_that_does_not_work():
    snapshot = rig.Snapshot(agent=rig.AgentInfo(journal_note="full"))
    assert families(snapshot)["sglang_console_journal_up"] == [({}, 0.0)]
