"""The simulated GPUs follow the engine's file, and only while its engine lives."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from console.agent.gpus import open_source as open_by_agent
from console.paths import RigPaths
from console.simulate.gpus import IDLE_BYTES, NAME, SimulatedGpus
from console.simulate.state_file import EngineFile, write

GIB = 1024**3


@pytest.fixture
def box(tmp_path):
    clock = [1000.0]
    gpus = SimulatedGpus(tmp_path / "engine.json", clock=lambda: clock[0])

    def at(seconds: float = 0.0, **state):
        clock[0] += seconds
        if state:
            defaults = {
                "pid": os.getpid(),
                "at_s": clock[0],
                "tp": 8,
                "phase": "serving",
                "schedulers": tuple(range(71, 79)),
            }
            write(tmp_path / "engine.json", EngineFile(**{**defaults, **state}))
        return gpus.read()[0]

    return at


def test_without_an_engine_eight_cards_idle(box):
    gpus = box()
    assert len(gpus) == 8
    assert {gpu.name for gpu in gpus} == {NAME}
    assert all("SIMULATED" in gpu.name for gpu in gpus)
    assert all(gpu.util_pct == 0 and gpu.mem_used_bytes == IDLE_BYTES and gpu.rank is None for gpu in gpus)


def test_memory_fills_in_the_order_of_the_start(box):
    loading = box(phase="weights", loaded=0.5)[0].mem_used_bytes
    loaded = box(phase="kv_cache", loaded=1.0, kv=1.0)[0].mem_used_bytes
    captured = box(phase="graphs", loaded=1.0, kv=1.0, graphs=1.0)[0].mem_used_bytes
    assert IDLE_BYTES < loading < loaded < captured < box()[0].mem_total_bytes
    assert captured / GIB == pytest.approx(117.5, abs=2)


def test_load_shows_in_utilization_power_and_slowly_in_temperature(box):
    full = {"loaded": 1.0, "kv": 1.0, "graphs": 1.0, "busy": 0.97, "running": 3}
    cold = box(**full)
    assert all(gpu.util_pct > 75 and gpu.power_w > 300 for gpu in cold)
    hot = box(30, **full)
    assert hot[0].temp_c - cold[0].temp_c > 10
    assert len({gpu.power_w for gpu in hot}) > 4


def test_ranks_and_processes(box):
    gpus = box(tp=4, schedulers=(71, 72, 73, 74))
    assert [gpu.rank for gpu in gpus] == [0, 1, 2, 3, None, None, None, None]
    assert gpus[2].processes[0].pid == 73
    assert gpus[5].processes == ()


def test_a_lost_card_keeps_its_place_and_says_so(box):
    gpus = box(faults={"lost_gpu": 3.0})
    assert [gpu.state for gpu in gpus].count("lost") == 1
    assert gpus[3].state == "lost"
    assert gpus[3].xid == 79
    assert gpus[3].util_pct is None
    assert gpus[4].util_pct is not None


def test_throttling(box):
    gpus = box(busy=0.9, faults={"throttle": 1.0})
    assert gpus[1].throttle == ("power cap",)
    assert gpus[1].sm_clock_mhz < gpus[0].sm_clock_mhz
    assert gpus[0].throttle == ()


def test_the_file_of_a_dead_engine_says_nothing(box):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert all(gpu.util_pct == 0 for gpu in box(pid=child.pid, busy=1.0, loaded=1.0))


def test_a_torn_file_is_no_engine(tmp_path):
    (tmp_path / "engine.json").write_text('{"pid": ')
    assert SimulatedGpus(tmp_path / "engine.json").read()[0][0].rank is None


def test_the_agent_opens_them_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path))
    source = open_by_agent(simulated=True, rig_paths=RigPaths("demo"))
    source.open()
    gpus, note, driver = source.read()
    source.close()
    assert len(gpus) == 8
    assert "SIMULATED" in note
    assert "SIMULATED" in driver
