"""NVML's queries: which cells each fills, how often it is asked, and what its errors mean.

Periods follow what a call costs on a real card (H200, driver 580): utilisation 2.1 ms, power 1.2 ms, ECC
60 us, PCIe byte counters 0.3 ms each, ``nvmlDeviceGetPcieThroughput`` 21 ms per direction because it
samples inside the call.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from console import rig

if TYPE_CHECKING:
    from collections.abc import Callable

Cells = dict[str, Any]
"""Values by field name of :class:`console.rig.Gpu`."""


class Query(NamedTuple):
    """One NVML query of a device."""

    name: str
    cells: tuple[str, ...]
    period_s: float
    call: Callable[[Any, Any], Cells]
    """Takes the binding and a device handle."""
    on_mig: bool = True
    """False: NVML has no such figure while the card is partitioned."""


# ------------------------------------------------------------------------------------------------- errors


class Fault(enum.Enum):
    """What an NVML error asks for."""

    NEVER = "the device will not answer this: remember it, do not ask again"
    RETRY = "ask again, less and less often"
    LOST = "the GPU is gone"
    RESET = "the GPU needs a reset"
    REOPEN = "NVML itself must be opened again"


PERMANENT = {
    2: "not supported",  # invalid argument: an older driver that does not know the field
    3: "not supported",
    4: "no permission",
    13: "not in this driver",
    22: "not supported on a vGPU",
    25: "not in this driver",
    26: "not in this driver",
}
"""NVML return codes that never change while the driver is loaded, and what the cell says."""
LOST_CODES = {15, 28}
RESET_CODES = {16}
REOPEN_CODES = {1, 9, 12, 18}


def classify(code: int) -> Fault:
    """What an NVML return code asks for."""
    if code in PERMANENT:
        return Fault.NEVER
    if code in LOST_CODES:
        return Fault.LOST
    if code in RESET_CODES:
        return Fault.RESET
    if code in REOPEN_CODES:
        return Fault.REOPEN
    return Fault.RETRY


OPEN_ADVICE = {
    4: "no permission to talk to the driver: run as a user that may open /dev/nvidiactl",
    9: "the NVIDIA driver is not loaded: load it (modprobe nvidia), or start the container with its GPUs",
    12: "no libnvidia-ml.so.1 on this box: install the NVIDIA driver, or start the container with its GPUs",
    18: "driver and library differ in version: reload the driver or reboot",
}


def open_note(code: int, text: str) -> str:
    """One line for an NVML that cannot be opened: its own words and what to do."""
    advice = OPEN_ADVICE.get(code, "GPU figures are off; everything else works")
    return f"NVML: {text} - {advice}"


# ------------------------------------------------------------------------------------------------ queries

THROTTLE_REASONS = (
    # nvmlClocksEventReasons bits; idle (0x1) is not a reason to worry and is left out.
    (0x002, "application clocks"),
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal (software)"),
    (0x040, "thermal (hardware)"),
    (0x080, "power brake"),
    (0x100, "display clocks"),
)


def throttle_names(mask: int) -> tuple[str, ...]:
    """Names of the clock-limiting reasons in an NVML bit mask."""
    return tuple(name for bit, name in THROTTLE_REASONS if mask & bit)


def _util(nvml: Any, handle: Any) -> Cells:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return {"util_pct": float(rates.gpu), "mem_util_pct": float(rates.memory)}


def _memory(nvml: Any, handle: Any) -> Cells:
    """Version 2 leaves the driver's reserve out of ``used``; older drivers have version 1 only."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if classify(error.value) is not Fault.NEVER:
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"mem_used_bytes": int(memory.used), "mem_total_bytes": int(memory.total)}


def _power(nvml: Any, handle: Any) -> Cells:
    return {"power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0}


def _power_limit(nvml: Any, handle: Any) -> Cells:
    return {"power_limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0}


def _temperature(nvml: Any, handle: Any) -> Cells:
    return {"temp_c": float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))}


def _clock(nvml: Any, handle: Any) -> Cells:
    return {"sm_clock_mhz": float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))}


def _clock_max(nvml: Any, handle: Any) -> Cells:
    return {"sm_clock_max_mhz": float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))}


def _throttle(nvml: Any, handle: Any) -> Cells:
    """Driver 535 renamed the function; both return the same mask."""
    try:
        mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {"throttle": throttle_names(int(mask))}


def _ecc(nvml: Any, handle: Any) -> Cells:
    """Uncorrected errors since the driver was loaded."""
    count = nvml.nvmlDeviceGetTotalEccErrors(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return {"ecc_uncorrected": int(count)}


def _processes(nvml: Any, handle: Any) -> Cells:
    """By version and not by the binding's general name, which hides a missing function in an error of its own."""
    try:
        found = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        found = nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    return {"processes": tuple(rig.GpuProcess(pid=int(entry.pid), used_bytes=entry.usedGpuMemory) for entry in found)}


QUERIES = (
    Query("utilisation", ("util_pct", "mem_util_pct"), 0.5, _util, on_mig=False),
    Query("memory", ("mem_used_bytes", "mem_total_bytes"), 0.5, _memory),
    Query("power", ("power_w",), 0.5, _power),
    Query("temperature", ("temp_c",), 0.5, _temperature),
    Query("clock", ("sm_clock_mhz",), 1.0, _clock),
    Query("throttle", ("throttle",), 1.0, _throttle),
    Query("ecc", ("ecc_uncorrected",), 1.0, _ecc),
    Query("processes", ("processes",), 2.0, _processes),
    Query("power limit", ("power_limit_w",), 10.0, _power_limit),
    Query("highest clock", ("sm_clock_max_mhz",), 60.0, _clock_max),
)
MIG_QUERIES = tuple(query for query in QUERIES if query.name in {"memory", "processes"})
"""What NVML answers for a MIG instance."""

PCIE_CELLS = ("pcie_tx_bytes_s", "pcie_rx_bytes_s")
PCIE_PERIOD_S = 1.0
PCIE_WINDOW_S = 0.02
"""Between the two reads of a rate. The counters wrap at 2^32: a longer window would be ambiguous (4.3 GB in
20 ms is 215 GB/s, more than PCIe 6 carries; over half a second it is 8.6 GB/s, less than PCIe 4 does)."""
PCIE_SLOW_PERIOD_S = 5.0
"""For drivers without the counters: the blocking call, one GPU a pass."""
WRAP = 2**32


def pcie_counters(nvml: Any, handle: Any) -> tuple[int, int] | int:
    """Transmitted and received bytes as wrapping counters, or the NVML code why there are none."""
    fields = nvml.nvmlDeviceGetFieldValues(
        handle, [nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
    )
    for field in fields:
        if field.nvmlReturn != nvml.NVML_SUCCESS:
            return int(field.nvmlReturn)
    sent, received = (_whole(nvml, field) for field in fields)
    return sent, received


def _whole(nvml: Any, field: Any) -> int:
    """A field's value as the driver typed it; the union's other members may hold rubbish above it."""
    if field.valueType == nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return int(field.value.uiVal)
    return int(field.value.ullVal)


def counter_rate(before: int, after: int, seconds: float) -> float:
    """Bytes a second between two readings of a counter that may have wrapped once."""
    delta = after - before
    if delta < 0:
        delta %= WRAP
    return delta / seconds


def pcie_slow(nvml: Any, handle: Any) -> Cells:
    """The driver's own 20 ms sample per direction, KB/s in its terms; blocks for both."""
    return {
        "pcie_tx_bytes_s": nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES) * 1000.0,
        "pcie_rx_bytes_s": nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES) * 1000.0,
    }
