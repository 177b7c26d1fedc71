"""The NVML source on the fake library: the real binding, faults by the call."""

import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import nvml_calls
from console.agent.gpus import GpuSampler, read_once, used_bytes_by_pid, with_ranks
from console.agent.nvml import NvmlSource
from console.agent.nvml_device import clock_text

pytest_plugins = ("tests.fake_nvml",)

REAL_CARD = Path(__file__).parents[1] / "fixtures/h200-0.5.17/main/nvml-load.json"


class Clock:
    """Time that moves when it is told."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def source(fake_nvml, clock):
    made = NvmlSource(clock=clock, monotonic=clock, sleep=clock.sleep)
    yield made
    made.close()


def poll(source, clock, times, step_s=0.5):
    reading = None
    for _ in range(times):
        reading = source.read()
        clock.now += step_s
    return reading


def test_all_cells_of_a_healthy_card(source, clock):
    source.open()
    gpus, note, driver = poll(source, clock, 3)
    assert (note, driver, len(gpus)) == ("", "580.82.07", 8)
    gpu = gpus[3]
    assert gpu.index == 3
    assert gpu.uuid == "GPU-00000000-0000-0000-0000-000000000003"
    assert gpu.pci == "00000000:04:00.0"
    assert gpu.missing == {}
    assert 80 <= gpu.util_pct <= 100
    assert gpu.mem_total_bytes == 150754820096
    assert 120 << 30 <= gpu.mem_used_bytes <= 140 << 30
    assert 400 <= gpu.power_w <= 700
    assert gpu.power_limit_w == 700
    assert 1500 <= gpu.sm_clock_mhz <= gpu.sm_clock_max_mhz == 1980
    assert gpu.throttle == ()
    assert gpu.ecc_uncorrected == 0
    assert gpu.pcie_tx_bytes_s is not None
    assert [process.used_bytes for process in gpu.processes] == [130 << 30]
    assert gpu.at_s == pytest.approx(clock.now - 0.5, abs=0.1)


def test_every_query_has_its_own_period(source, clock, fake_nvml):
    fake_nvml.set(gpus=1)
    source.open()
    poll(source, clock, 120)  # one minute
    times = {name: entry.calls for name, entry in source.call_times().items()}
    assert times["utilisation"] == times["memory"] == times["power"] == times["temperature"] == 120
    assert times["clock"] == times["throttle"] == times["ecc"] == 60
    assert times["processes"] == 30
    assert times["power limit"] == 6
    assert times["highest clock"] == 2  # the waits inside the readings make it 62 s
    assert times["pcie counters"] == pytest.approx(120, abs=2)  # two reads a second
    assert times["device count"] == 12


def test_one_unsupported_value_is_remembered(source, clock, fake_nvml):
    fake_nvml.set(gpus=2, faults="nvmlDeviceGetPowerUsage:1:3:0")
    source.open()
    gpus, note, _ = poll(source, clock, 10)
    assert note == ""
    assert gpus[0].power_w is not None
    assert gpus[1].power_w is None
    assert gpus[1].missing == {"power_w": "not supported"}
    assert gpus[1].util_pct is not None
    assert source.call_times()["power"].calls == 10 + 1  # ten on GPU 0, one on GPU 1


@pytest.mark.parametrize(("code", "why"), [(3, "not supported"), (4, "no permission"), (13, "not in this driver")])
@pytest.mark.parametrize(
    ("call", "cells"),
    [
        ("nvmlDeviceGetUtilizationRates", {"util_pct", "mem_util_pct"}),
        ("nvmlDeviceGetTemperature", {"temp_c"}),
        ("nvmlDeviceGetClockInfo", {"sm_clock_mhz"}),
        ("nvmlDeviceGetTotalEccErrors", {"ecc_uncorrected"}),
        ("nvmlDeviceGetEnforcedPowerLimit", {"power_limit_w"}),
        ("nvmlDeviceGetComputeRunningProcesses_v3", {"processes"}),
        ("nvmlDeviceRegisterEvents", {"xid"}),
    ],
)
def test_any_call_may_be_unsupported(source, clock, fake_nvml, call, cells, code, why):
    older = f",{call.replace('_v3', '_v2')}:0:{code}:0" if call.endswith("_v3") else ""
    fake_nvml.set(gpus=1, faults=f"{call}:0:{code}:0{older}")
    source.open()
    (gpu,), note, _ = poll(source, clock, 4)
    assert note == ""
    assert gpu.state == "ok"
    assert gpu.missing == dict.fromkeys(cells, why)


def test_memory_falls_back_to_the_first_version(source, clock, fake_nvml):
    fake_nvml.set(gpus=1, faults="nvmlDeviceGetMemoryInfo_v2:0:13:0")
    source.open()
    (gpu,), _, _ = source.read()
    assert gpu.mem_used_bytes > 0


def test_unknown_errors_are_retried_with_back_off(source, clock, fake_nvml):
    fake_nvml.set(gpus=1, faults="nvmlDeviceGetTemperature:0:999:10")
    source.open()
    (gpu,), _, _ = poll(source, clock, 10)
    assert gpu.temp_c is not None
    (gpu,), note, _ = poll(source, clock, 240)  # two minutes of errors
    assert note == ""
    assert gpu.state == "ok"
    assert gpu.temp_c is None
    assert gpu.missing["temp_c"].startswith("driver error")
    assert gpu.util_pct is not None
    tries = source.call_times()["temperature"].calls - 10
    assert 6 <= tries <= 9  # after 1, 2, 4, 8, 16, 32, 60 s
    fake_nvml.unset("faults")
    (gpu,), _, _ = poll(source, clock, 122)
    assert gpu.temp_c is not None
    assert gpu.missing == {}


def test_a_lost_gpu_keeps_its_row_and_the_others_live(source, clock, fake_nvml):
    fake_nvml.set(faults="*:3:15:60")
    source.open()
    gpus, _, _ = source.read()
    assert {gpu.state for gpu in gpus} == {"ok"}
    gpus, note, _ = poll(source, clock, 20)
    lost = gpus[3]
    assert lost.state == "lost"
    assert lost.note in {f"LOST {clock_text(clock.now - ago_s)}" for ago_s in range(11)}
    assert lost.util_pct is None
    assert lost.missing["util_pct"] == "lost"
    assert lost.name == "NVIDIA H200"
    assert all(gpu.state == "ok" and gpu.util_pct is not None for gpu in gpus if gpu.index != 3)
    assert note == "GPU 3 is lost: a server that uses it will fail; 7 of 8 GPUs answer"
    asked = source.call_times()["power"].calls
    poll(source, clock, 10)
    assert source.call_times()["power"].calls == asked + 7 * 10


def test_a_gpu_lost_from_the_start_has_a_row(source, clock, fake_nvml):
    fake_nvml.set(gpus=2, faults="nvmlDeviceGetHandleByIndex_v2:1:15:0")
    source.open()
    gpus, note, _ = poll(source, clock, 2)
    assert [(gpu.index, gpu.state) for gpu in gpus] == [(0, "ok"), (1, "lost")]
    assert "GPU 1 is lost" in note


def test_the_count_drops_and_the_others_move_up(source, clock, fake_nvml):
    source.open()
    source.read()
    fake_nvml.set(gone=3)
    clock.now += 6
    gpus, note, _ = source.read()
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert [gpu.state for gpu in gpus] == ["ok"] * 3 + ["lost"] + ["ok"] * 4
    assert gpus[4].uuid.endswith("4")
    assert gpus[4].util_pct is not None
    assert gpus[3].note.endswith("(the driver lists 7 GPUs)")
    assert "7 of 8 GPUs answer" in note
    fake_nvml.unset("gone")
    clock.now += 6
    gpus, note, _ = source.read()
    assert (gpus[3].state, gpus[3].note, note) == ("ok", "", "")
    assert gpus[3].util_pct is not None


def test_a_gpu_that_needs_a_reset(source, clock, fake_nvml):
    fake_nvml.set(gpus=2, faults="nvmlDeviceGetUtilizationRates:1:16:0")
    source.open()
    gpus, _, _ = source.read()
    assert gpus[1].state == "error"
    assert gpus[1].note.startswith("needs a reset since ")
    assert gpus[1].power_w is None
    assert gpus[0].power_w is not None
    first = gpus[1].note
    gpus, _, _ = poll(source, clock, 300)
    assert gpus[1].note == first  # since then, not since the last look
    fake_nvml.unset("faults")
    gpus, _, _ = poll(source, clock, 12)
    assert (gpus[1].state, gpus[1].note) == ("ok", "")


def test_xids_are_watched_again_after_nvml_was_reopened(source, clock, fake_nvml):
    poll(source, clock, 1)
    source.open()
    poll(source, clock, 1)
    fake_nvml.set(faults="nvmlDeviceGetUtilizationRates:*:1:0")
    poll(source, clock, 1)
    fake_nvml.set(faults="nvmlDeviceRegisterEvents:1:3:0")
    gpus, _, _ = poll(source, clock, 4)
    assert gpus[1].missing == {"xid": "not supported"}
    assert gpus[0].missing == {}


@pytest.mark.parametrize(
    ("code", "todo"),
    [
        (18, "reload the driver or reboot"),
        (9, "modprobe"),
        (4, "/dev/nvidiactl"),
        (999, "everything else works"),
    ],
)
def test_nvml_that_cannot_be_opened(source, clock, fake_nvml, code, todo):
    fake_nvml.set(init=code)
    source.open()
    gpus, note, driver = source.read()
    assert (gpus, driver) == ((), "")
    assert todo in note
    assert "\n" not in note
    fake_nvml.unset("init")
    clock.now += 31
    gpus, note, driver = source.read()
    assert (len(gpus), note, driver) == (8, "", "580.82.07")


def test_no_library(monkeypatch, clock):
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", None)

    def no_library(_name, *_args, **_kwargs):
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(pynvml, "CDLL", no_library)
    gpus, note, driver = read_once(NvmlSource(clock=clock, monotonic=clock, sleep=clock.sleep))
    assert (gpus, driver) == ((), "")
    assert "no libnvidia-ml.so.1 on this box" in note


def test_nvml_that_stops_answering_is_opened_again(source, clock, fake_nvml):
    source.open()
    poll(source, clock, 1)
    fake_nvml.set(faults="nvmlDeviceGetUtilizationRates:*:1:0")  # uninitialised
    gpus, note, _ = poll(source, clock, 1)
    assert len(gpus) == 8
    assert {gpu.state for gpu in gpus} == {"error"}
    assert note.startswith("NVML: ")
    fake_nvml.unset("faults")
    gpus, note, _ = poll(source, clock, 4)
    assert {gpu.state for gpu in gpus} == {"ok"}
    assert note == ""


def test_no_gpu_at_all(source, clock, fake_nvml):
    fake_nvml.set(gpus=0)
    source.open()
    gpus, note, _ = source.read()
    assert gpus == ()
    assert note.startswith("the driver lists no GPU")


def test_mig_instances_get_rows(source, clock, fake_nvml):
    fake_nvml.set(gpus=2, mig="1:2")
    source.open()
    gpus, note, _ = poll(source, clock, 3)
    assert note == ""
    assert [(gpu.index, gpu.state) for gpu in gpus] == [(0, "ok"), (1, "mig"), (1, "mig"), (1, "mig")]
    parent, first, second = gpus[1:]
    assert parent.uuid.startswith("GPU-")
    assert parent.missing["util_pct"] == "n/a (MIG)"
    assert "tensor parallel" in parent.note
    assert parent.power_w is not None
    assert first.uuid != second.uuid
    assert first.uuid.startswith("MIG-")
    assert first.note == "MIG instance 0 of GPU 1"
    assert (first.mem_used_bytes, first.mem_total_bytes) == (10 << 30, 18 << 30)
    assert first.missing["util_pct"] == first.missing["pcie_tx_bytes_s"] == "n/a (MIG)"
    fake_nvml.unset("mig")
    clock.now += 6
    gpus, _, _ = poll(source, clock, 2)
    assert [(gpu.index, gpu.state) for gpu in gpus] == [(0, "ok"), (1, "ok")]
    assert gpus[1].missing == {}


def test_an_xid_stays_with_its_time(source, clock, fake_nvml):
    source.open()
    source.read()
    fake_nvml.set(xid="2:13")
    clock.now += 1
    at_s = clock.now
    gpus, _, _ = source.read()
    assert (gpus[2].xid, gpus[2].state) == (13, "ok")
    assert gpus[2].xid_at_s == pytest.approx(at_s, abs=0.1)
    gpus, _, _ = poll(source, clock, 20)
    assert gpus[2].xid_at_s == pytest.approx(at_s, abs=0.1)


def test_xid_79_is_a_lost_gpu(source, clock, fake_nvml):
    source.open()
    source.read()
    fake_nvml.set(xid="5:79", faults="*:5:15:0")
    gpus, _, _ = poll(source, clock, 4)
    assert gpus[5].state == "lost"
    assert gpus[5].note.startswith("LOST ")


def test_throttle_reasons_have_names(source, clock, fake_nvml):
    fake_nvml.set(gpus=1, throttle=0x1 | 0x4 | 0x40)
    source.open()
    (gpu,), _, _ = source.read()
    assert gpu.throttle == ("power cap", "thermal (hardware)")  # idle is none


def test_pcie_rate_is_right_although_the_counter_wraps(fake_nvml):
    fake_nvml.set(gpus=1, pcie_bytes_s=50e9)  # wraps every 86 ms
    source = NvmlSource()
    source.open()
    rates = []
    for _ in range(6):
        (gpu,), _, _ = source.read()
        rates.append(gpu.pcie_rx_bytes_s)
        source._devices[0].due_s.clear()
    source.close()
    assert sorted(rates)[3] == pytest.approx(50e9, rel=0.1)


def test_pcie_without_counters_blocks_for_one_gpu_a_pass(source, clock, fake_nvml):
    fake_nvml.set(gpus=3, faults="nvmlDeviceGetFieldValues:*:3:0")
    source.open()
    gpus, _, _ = source.read()
    assert sum(gpu.pcie_tx_bytes_s is not None for gpu in gpus) == 1
    gpus, _, _ = poll(source, clock, 12)
    assert all(gpu.pcie_tx_bytes_s is not None for gpu in gpus)
    assert source.call_times()["pcie"].calls <= 5


@given(before=st.integers(0, 2**32 - 1), delta=st.integers(0, 2**32 - 1), seconds=st.floats(0.001, 1))
def test_counter_rate_survives_one_wrap(before, delta, seconds):
    after = (before + delta) % 2**32
    assert nvml_calls.counter_rate(before, after, seconds) == pytest.approx(delta / seconds)


@given(mask=st.integers(0, 2**64 - 1))
def test_any_throttle_mask_is_named(mask):
    assert len(nvml_calls.throttle_names(mask)) == (mask & 0x1FE).bit_count()


@given(code=st.integers(-1, 1100))
def test_any_return_code_is_classified(code):
    fault = nvml_calls.classify(code)
    assert (fault is nvml_calls.Fault.NEVER) == (code in nvml_calls.PERMANENT)


def test_a_real_card_has_all_that_is_asked():
    """The capture of a real H200 answers each query this source makes."""
    card = json.loads(REAL_CARD.read_text())["devices"][0]
    answered = [
        "UtilizationRates",
        "MemoryInfo_v2",
        "PowerUsage",
        "EnforcedPowerLimit",
        "Temperature.GPU",
        "ClockInfo.SM",
        "MaxClockInfo.SM",
        "CurrentClocksEventReasons",
        "TotalEccErrors.UNCORRECTED.VOLATILE",
        "ComputeRunningProcesses_v3",
        "Field.PCIE_COUNT_TX_BYTES",
        "MigMode",
    ]
    assert {name for name in answered if "ok" not in card[name]} == set()
    fast = sum(card[name]["us"] for name in ("Field.PCIE_COUNT_TX_BYTES", "Field.PCIE_COUNT_RX_BYTES"))
    assert fast * 20 < card["PcieThroughput.TX"]["us"] + card["PcieThroughput.RX"]["us"]


# ------------------------------------------------------------------------------------------- the thread


def wait_for(condition, timeout_s=3.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def test_a_hung_driver_delays_nobody_and_is_said(fake_nvml, monkeypatch):
    monkeypatch.setattr("console.agent.gpus.HUNG_S", 0.05)
    fake_nvml.set(gpus=2, faults="nvmlDeviceGetPowerUsage:1:999:1:700")
    sampler = GpuSampler(NvmlSource(), period_s=0.02)
    sampler.start()
    wait_for(lambda: len(sampler.latest()[0]) == 2)
    wait_for(lambda: "has not answered" in sampler.latest()[1])
    started = time.monotonic()
    gpus, note, _ = sampler.latest()
    assert time.monotonic() - started < 0.05
    assert len(gpus) == 2
    assert "power of GPU 1" in note
    fake_nvml.unset("faults")
    wait_for(lambda: sampler.latest()[1] == "")
    sampler.stop()


def test_a_source_that_raises_is_noted_and_tried_again():
    class Broken:
        reads = 0

        def open(self):
            raise RuntimeError("no way in")

        def read(self):
            self.reads += 1
            if self.reads < 3:
                raise RuntimeError("boom")
            return (), "back", "1"

        def close(self):
            raise RuntimeError("no way out")

    sampler = GpuSampler(Broken(), period_s=0.005)
    sampler.start()
    wait_for(lambda: "boom" in sampler.latest()[1])
    wait_for(lambda: sampler.latest()[1] == "back")
    sampler.stop()
    assert not any(thread.name == "gpus" and thread.is_alive() for thread in threading.enumerate())


def test_ranks_and_own_processes_are_marked(source, clock, fake_nvml):
    fake_nvml.set(gpus=2, FAKE_PIDS="100,200")
    source.open()
    gpus, _, _ = source.read()
    first, second = with_ranks(gpus, {gpus[1].uuid: 0}, frozenset({200}))
    assert (first.rank, second.rank) == (None, 0)
    assert [entry.ours for entry in first.processes + second.processes] == [False, True]
    assert used_bytes_by_pid(gpus) == {100: 130 << 30, 200: 130 << 30}
