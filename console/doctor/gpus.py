"""NVML: driver, GPUs, what each call costs here, what the cards will not tell."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from console.agent.nvml import CallTime, NvmlSource
from console.doctor.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.agent.gpus import Reading

TIMEOUT_S = 10.0
READS = 3
SLOW_MS = 100.0


class _Look:
    """A few readings in a thread, so that a driver that hangs does not hang the doctor."""

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.times: dict[str, CallTime] = {}
        self.source = NvmlSource()
        self.error = ""

    def run(self) -> None:
        try:
            self.source.open()
            for _ in range(READS):
                self.reading = self.source.read()
                time.sleep(0.1 if self.reading[0] else 0.0)
            self.times = self.source.call_times()
            self.source.close()
        except Exception as error:  # noqa: BLE001 - whatever a driver's binding raises is a finding
            self.error = f"{type(error).__name__}: {error}"


def check(*, needed: bool = True, timeout_s: float = TIMEOUT_S) -> Iterator[Finding]:
    """What NVML says.

    Args:
        needed: a launch needs a GPU; False for an engine on the CPU.
        timeout_s: after which the driver counts as hung.
    """
    look = _Look()
    thread = threading.Thread(target=look.run, name="doctor-nvml", daemon=True)
    thread.start()
    thread.join(timeout_s)
    bad = fail if needed else warn
    if thread.is_alive():
        where = f" in {look.source.in_call}" if look.source.in_call else ""
        todo = "look at dmesg for Xid lines; a reset or reboot may be needed"
        yield bad("gpu", f"the NVIDIA driver has not answered for {timeout_s:.0f} s{where}", todo)
        return
    if look.reading is None:
        yield bad("gpu", f"NVML cannot be read: {look.error}", "install nvidia-ml-py again")
        return
    gpus, note, driver = look.reading
    if not gpus:
        what, _, todo = note.partition(" - ")
        yield bad("gpu", what, todo or "check the driver with nvidia-smi")
        return
    yield _cards(look.reading, needed=needed)
    yield _call_times(look.times)
    missing = sorted({f"{cell}: {why}" for gpu in gpus for cell, why in gpu.missing.items() if gpu.state == "ok"})
    if missing:
        yield ok("gpu-cells", f"shown as a dash: {', '.join(missing)}", missing=missing, driver=driver)


def _cards(reading: Reading, *, needed: bool) -> Finding:
    gpus, note, driver = reading
    cards = [gpu for gpu in gpus if not gpu.uuid.startswith("MIG-")]
    names: dict[str, int] = {}
    for gpu in cards:
        names[gpu.name or "unknown"] = names.get(gpu.name or "unknown", 0) + 1
    message = f"driver {driver}: " + ", ".join(f"{count} x {name}" for name, count in names.items())
    data = {"driver": driver, "gpus": [{"index": gpu.index, "name": gpu.name, "state": gpu.state} for gpu in cards]}
    if note:
        answering = any(gpu.state == "ok" for gpu in cards)
        bad = warn if answering or not needed else fail
        return bad("gpu", f"{message}; {note}", "look at dmesg for Xid lines", **data)
    if len(names) > 1:
        todo = "tensor parallelism runs at the speed of the slowest: choose like cards with CUDA_VISIBLE_DEVICES"
        return warn("gpu", message, todo, **data)
    return ok("gpu", message, **data)


def _call_times(times: dict[str, CallTime]) -> Finding:
    slowest = sorted(times.items(), key=lambda entry: -entry[1].max_ms)[:3]
    shown = ", ".join(f"{name} {entry.max_ms:.1f} ms" for name, entry in slowest)
    data = {
        name: {"calls": entry.calls, "mean_ms": entry.mean_ms, "max_ms": entry.max_ms} for name, entry in times.items()
    }
    if slowest and slowest[0][1].max_ms > SLOW_MS and slowest[0][0] != "open":
        todo = "persistence mode keeps the driver awake: nvidia-smi -pm 1"
        return warn("gpu-calls", f"NVML is slow: {shown}", todo, **data)
    return ok("gpu-calls", f"slowest NVML calls: {shown}", **data)
