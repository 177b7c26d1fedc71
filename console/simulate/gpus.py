"""Eight simulated GPUs behind the sampler's interface: ``open()``, ``read()``, ``close()``.

Their values follow the file the simulated engine writes: memory fills while it starts, utilization and power follow
the load. Without an engine they idle.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING

from console.rig import Gpu, GpuProcess
from console.simulate.startup import DRAFTER_GB, GPU_GB, GRAPH_GB, KV_GB, WEIGHT_GB
from console.simulate.state_file import EngineFile, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from console.paths import RigPaths

COUNT = 8
COUNT_VARIABLE = "SGLANG_SIM_GPUS"
"""Environment of the agent: how many cards the simulated box has, for boxes larger than the usual one."""
GIB = 1024**3
NAME = "SIMULATED H200"
DRIVER = "SIMULATED 580.159"
NOTE = "SIMULATED GPUs"
IDLE_W, BUSY_W, LIMIT_W = 76.0, 392.0, 700.0
IDLE_C, BUSY_C = 31.0, 62.0
CLOCK_MHZ, THROTTLED_MHZ = 1980.0, 1215.0
IDLE_BYTES = int(0.51 * GIB)
LOST = "lost: Unable to determine the device handle: GPU is lost (simulated)"
THERMAL_S = 12.0
"""Time constant with which a card's temperature follows its power."""


class SimulatedGpus:
    """The simulated cards of one rig.

    Args:
        state_file: what the simulated engine writes.
        count: how many cards the box has.
        clock: Unix seconds; tests inject one.
    """

    def __init__(self, state_file: Path, count: int = COUNT, clock: Callable[[], float] = time.time) -> None:
        self._state_file = state_file
        self._count = count
        self._clock = clock
        self._temp_c = [IDLE_C + (index % 3) for index in range(count)]
        self._read_s: float | None = None

    def open(self) -> None:
        """Nothing to open; here because the sampler's interface has it."""

    def close(self) -> None:
        """Nothing to close."""

    def read(self) -> tuple[tuple[Gpu, ...], str, str]:
        """All cards now, a note for the operator, and the driver's version."""
        now = self._clock()
        state = _alive(read(self._state_file))
        passed = 0.0 if self._read_s is None else max(0.0, now - self._read_s)
        self._read_s = now
        return tuple(self._gpu(index, state, now, passed) for index in range(self._count)), NOTE, DRIVER

    def _gpu(self, index: int, state: EngineFile | None, now: float, passed_s: float) -> Gpu:
        faults = state.faults if state else {}
        uuid = f"GPU-51000000-0000-0000-0000-{index:012d}"
        pci = f"{index // 8:08X}:{0x18 + 0x11 * (index % 8):02X}:00.0"
        if "lost_gpu" in faults and int(faults["lost_gpu"]) == index:
            return Gpu(
                index=index, name=NAME, uuid=uuid, pci=pci, state="lost", note=LOST, xid=79, xid_at_s=now, at_s=now
            )
        rank = index if state and index < state.tp else None
        load = _load(state, index, now) if state and rank is not None else 0.0
        power = IDLE_W + (BUSY_W - IDLE_W) * load
        throttled = "throttle" in faults and int(faults["throttle"]) == index
        temp = self._temperature(index, power + (180.0 if throttled else 0.0), passed_s)
        used = _memory_bytes(state) if state and rank is not None else IDLE_BYTES
        pid = state.schedulers[rank] if state and rank is not None and rank < len(state.schedulers) else None
        return Gpu(
            index=index,
            name=NAME,
            uuid=uuid,
            pci=pci,
            rank=rank,
            util_pct=round(100 * min(1.0, load * 1.04)),
            mem_util_pct=round(62 * load),
            mem_used_bytes=used,
            mem_total_bytes=int(GPU_GB * GIB),
            power_w=LIMIT_W if throttled else round(power, 1),
            power_limit_w=LIMIT_W,
            temp_c=round(temp),
            sm_clock_mhz=THROTTLED_MHZ if throttled else CLOCK_MHZ if load > 0.02 else 345.0,
            sm_clock_max_mhz=CLOCK_MHZ,
            pcie_tx_bytes_s=round(2.1e9 * load),
            pcie_rx_bytes_s=round(2.3e9 * load),
            throttle=("power cap",) if throttled else (),
            ecc_uncorrected=0,
            processes=(GpuProcess(pid, used - IDLE_BYTES, f"sglang::scheduler_TP{rank}"),) if pid else (),
            at_s=now,
        )

    def _temperature(self, index: int, power_w: float, passed_s: float) -> float:
        target = IDLE_C + index % 3 + (BUSY_C - IDLE_C) * (power_w - IDLE_W) / (BUSY_W - IDLE_W)
        share = 1.0 - math.exp(-passed_s / THERMAL_S)
        self._temp_c[index] += (target - self._temp_c[index]) * share
        return self._temp_c[index]


def _alive(state: EngineFile | None) -> EngineFile | None:
    """The state when its engine lives; a file left by a killed one says nothing."""
    if state is None:
        return None
    try:
        os.kill(state.pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return state
    return state


def _load(state: EngineFile, index: int, now: float) -> float:
    """Share of a card's time that computes: cards differ by a little and breathe."""
    if state.phase != "serving":
        return 0.25 if state.phase == "graphs" else 0.05 if state.loaded else 0.0
    crowd = min(1.0, 0.84 + 0.03 * state.running)
    return max(0.0, state.busy * crowd * (1.0 + 0.025 * math.sin(now / 7 + index * 1.7)))


def _memory_bytes(state: EngineFile) -> int:
    """Memory in use: weights while they load, then the KV pool, then the graphs."""
    held_gb = state.loaded * (WEIGHT_GB + DRAFTER_GB) + state.kv * KV_GB + state.graphs * GRAPH_GB
    return IDLE_BYTES + int((1.2 + held_gb) * GIB)


def open_source(paths: RigPaths) -> SimulatedGpus:
    """The simulated GPUs of a rig."""
    count = os.environ.get(COUNT_VARIABLE, "")
    return SimulatedGpus(paths.probe / "simulated-engine.json", int(count) if count.isdigit() else COUNT)
