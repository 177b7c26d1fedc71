"""PCIe rates: by byte counters where the driver has them, else by its slow sampling call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.agent import nvml_calls as calls
from console.agent.nvml_calls import Fault, Query, classify
from console.agent.nvml_device import PCIE, Device

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_QUERY = Query(PCIE, calls.PCIE_CELLS, calls.PCIE_SLOW_PERIOD_S, calls.pcie_slow)


class PcieRates:
    """Reads all due GPUs around one short wait.

    Args:
        ask: asks a device one query and stores the answer.
        fault: keeps a failure where it belongs.
        timed: calls and takes the time.
        sleep: waits between the two reads.
    """

    def __init__(
        self,
        *,
        ask: Callable[[Device, Query], None],
        fault: Callable[[Device, str, tuple[str, ...], Any], None],
        timed: Callable[..., Any],
        sleep: Callable[[float], None],
    ) -> None:
        self._ask = ask
        self._fault = fault
        self._timed = timed
        self._sleep = sleep
        self._slow_due_s = 0.0
        self._slow_turn = 0

    def read(self, nvml: Any, devices: list[Device], monotonic: Callable[[], float]) -> None:
        """Rates of the devices that are due."""
        now = monotonic()
        due = [device for device in devices if device.alive and device.is_due(PCIE, now)]
        fast = [device for device in due if not device.pcie_slow]
        before = [(device, counters) for device in fast if (counters := self._counters(nvml, device, monotonic))]
        if before:
            self._sleep(calls.PCIE_WINDOW_S)
        for device, (sent, received, read_s) in before:
            device.due_s[PCIE] = now + calls.PCIE_PERIOD_S - 0.01
            after = self._counters(nvml, device, monotonic)
            if after is None:
                continue
            seconds = max(1e-6, after[2] - read_s)
            rates = (calls.counter_rate(sent, after[0], seconds), calls.counter_rate(received, after[1], seconds))
            device.store(PCIE, dict(zip(calls.PCIE_CELLS, rates, strict=True)), device.at_s)
        self._read_slowly([device for device in due if device.pcie_slow], now)

    def _counters(self, nvml: Any, device: Device, monotonic: Callable[[], float]) -> tuple[int, int, float] | None:
        """The byte counters and when they were read; ``None`` when this device has none at present."""
        try:
            found = self._timed("pcie counters", calls.pcie_counters, nvml, device.handle, of=device)
        except nvml.NVMLError as error:
            found = int(error.value)
        if not isinstance(found, int):
            return found[0], found[1], monotonic()
        if classify(found) is Fault.NEVER:
            device.pcie_slow = True
        else:
            self._fault(device, PCIE, calls.PCIE_CELLS, nvml.NVMLError(found))
        return None

    def _read_slowly(self, devices: list[Device], now: float) -> None:
        """One GPU a pass, because the call blocks for 42 ms."""
        if not devices or now < self._slow_due_s:
            return
        self._slow_turn += 1
        self._slow_due_s = now + calls.PCIE_SLOW_PERIOD_S / len(devices)
        self._ask(devices[self._slow_turn % len(devices)], SLOW_QUERY)
