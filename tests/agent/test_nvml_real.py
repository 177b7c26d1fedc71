"""The NVML source on a real GPU; skips itself where there is none."""

import time

import pytest

from console.agent.nvml import NvmlSource

pytestmark = pytest.mark.gpu


@pytest.fixture
def source():
    made = NvmlSource()
    made.open()
    gpus, note, _ = made.read()
    if not gpus:
        pytest.skip(note)
    yield made
    made.close()


def test_every_cell_of_a_real_card(source):
    time.sleep(1.1)
    gpus, _, driver = source.read()
    assert driver
    for gpu in gpus:
        assert gpu.uuid.startswith(("GPU-", "MIG-"))
        assert 0 < gpu.mem_used_bytes < gpu.mem_total_bytes
        for cell in ("util_pct", "power_w", "temp_c", "sm_clock_mhz", "pcie_rx_bytes_s"):
            assert (getattr(gpu, cell) is None) == (cell in gpu.missing), cell


def test_a_pass_costs_little(source):
    """Half a second's work for eight cards must fit well into half a second."""
    for _ in range(10):
        source.read()
        time.sleep(0.1)
    times = source.call_times()
    fast = sum(times[name].mean_ms for name in ("utilisation", "memory", "power", "temperature"))
    print({name: (entry.calls, round(entry.mean_ms, 3), round(entry.max_ms, 3)) for name, entry in times.items()})
    assert fast < 25.0
