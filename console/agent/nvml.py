"""GPUs through NVML (nvidia-ml-py): each query at its own rate, each fault kept to the cell it concerns."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from console.agent import nvml_calls as calls
from console.agent.nvml_calls import Fault, Query, classify
from console.agent.nvml_device import PCIE, Device, clock_text
from console.agent.nvml_pcie import PcieRates

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.agent.gpus import Reading

DISCOVER_PERIOD_S = 5.0
"""How often the device list is compared with the driver's."""
REOPEN_PERIOD_S = 30.0
"""How often a driver that could not be opened is tried again."""
FIRST_QUERIES = 4
"""Of a device's queries, those that prove that a GPU which had failed works again."""
XID_PERIOD_S = 1.0
XID_MOST = 16
"""Events taken in one pass."""
XID_LOST = 79
"""GPU has fallen off the bus."""


class CallTime(NamedTuple):
    """What one kind of NVML call has cost so far."""

    calls: int
    mean_ms: float
    max_ms: float


class NvmlSource:
    """A :class:`console.agent.gpus.GpuSource` over NVML.

    Args:
        clock: Unix seconds.
        monotonic: seconds that never go back.
        sleep: waits between the two reads of a PCIe rate.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._nvml: Any = None
        self._is_open = False
        self._note = ""
        self._driver = ""
        self._devices: list[Device] = []
        self._discover_due_s = 0.0
        self._reopen_due_s = 0.0
        self._pcie = PcieRates(ask=self._ask, fault=self._fault, timed=self._timed, sleep=sleep)
        self._events: Any = None
        self._xid_due_s = 0.0
        self._times: dict[str, list[float]] = {}
        self.in_call = ""
        """What is being asked at this moment; read by another thread to name a call that hangs."""

    # ------------------------------------------------------------------------------------ the interface

    def open(self) -> None:
        """Open NVML; a failure becomes the note of each reading and is tried again later."""
        if self._nvml is None:
            import pynvml

            self._nvml = pynvml
        self._reopen_due_s = self._monotonic() + REOPEN_PERIOD_S
        try:
            self._timed("open", self._nvml.nvmlInit)
            self._driver = self._text(self._timed("driver version", self._nvml.nvmlSystemGetDriverVersion))
        except self._nvml.NVMLError as error:
            self._note = calls.open_note(error.value, str(error))
            return
        self._is_open = True
        self._note = ""
        self._discover_due_s = 0.0
        self._open_events()

    def read(self) -> Reading:
        """Ask what is due and return all rows."""
        if not self._is_open and self._monotonic() >= self._reopen_due_s:
            self.open()
        if self._is_open:
            try:
                self._read_devices()
            except self._nvml.NVMLError as error:
                self._drop(error)
        return tuple(device.row() for device in self._devices), self._whole_note(), self._driver

    def close(self) -> None:
        """Let go of NVML."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._events is not None:
                self._nvml.nvmlEventSetFree(self._events)
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass  # nothing is left to let go of

    def call_times(self) -> dict[str, CallTime]:
        """What each kind of call costs on this box, for ``console doctor`` and the benchmarks."""
        return {
            name: CallTime(int(count), 1000 * total / count, 1000 * highest)
            for name, (count, total, highest) in sorted(self._times.items())
        }

    # -------------------------------------------------------------------------------------- one reading

    def _read_devices(self) -> None:
        now = self._monotonic()
        if now >= self._discover_due_s:
            self._discover_due_s = now + DISCOVER_PERIOD_S
            self._discover()
        for device in self._devices:
            for query in device.queries:
                if device.alive and device.is_due(query.name, now):
                    device.due_s[query.name] = now + query.period_s - 0.01
                    self._ask(device, query)
        self._pcie.read(self._nvml, self._devices, self._monotonic)
        if now >= self._xid_due_s:
            self._xid_due_s = now + XID_PERIOD_S
            self._read_xids()

    def _ask(self, device: Device, query: Query) -> None:
        try:
            cells = self._timed(query.name, query.call, self._nvml, device.handle, of=device)
        except self._nvml.NVMLError as error:
            self._fault(device, query.name, query.cells, error)
        else:
            device.store(query.name, cells, self._clock())

    def _fault(self, device: Device, name: str, cells: tuple[str, ...], error: Any) -> None:
        """Keep a failure where it belongs: the cell, the device, or NVML as a whole."""
        match classify(error.value):
            case Fault.NEVER:
                device.refuse(name, cells, error.value)
            case Fault.LOST:
                device.lose(self._clock())
            case Fault.RESET:
                device.error(self._clock(), f"needs a reset since {clock_text(self._clock())}")
            case Fault.REOPEN:
                raise error
            case Fault.RETRY:
                device.fail(name, cells, f"driver error: {error}", self._monotonic())

    def _timed(self, name: str, call: Callable[..., Any], *args: Any, of: Device | None = None) -> Any:
        self.in_call = name if of is None else f"{name} of GPU {of.index}"
        started = time.perf_counter()
        try:
            return call(*args)
        finally:
            seconds = time.perf_counter() - started
            self.in_call = ""
            times = self._times.setdefault(name, [0, 0.0, 0.0])
            times[0] += 1
            times[1] += seconds
            times[2] = max(times[2], seconds)

    # -------------------------------------------------------------------------------------- device list

    def _discover(self) -> None:
        """Compare the driver's list with ours: new GPUs get a row, vanished ones keep theirs as lost."""
        count = int(self._timed("device count", self._nvml.nvmlDeviceGetCount))
        known = {device.uuid: device for device in self._devices if not device.parent_uuid}
        seen: set[str] = set()
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = self._text(self._timed("uuid", self._nvml.nvmlDeviceGetUUID, handle))
            except self._nvml.NVMLError as error:
                seen.add(self._unreachable(index, error).uuid)
                continue
            seen.add(uuid)
            device = known.get(uuid) or self._add(index, handle, uuid)
            if device.alive:
                device.handle = handle
            elif self._answers(device, handle):
                device.revive(handle)
                self._watch_xids(device)
            if device.alive:
                self._look_for_mig(device)
        for uuid, device in known.items():
            if uuid not in seen and uuid:
                device.lose(self._clock(), f"the driver lists {count} GPUs")

    def _add(self, index: int, handle: Any, uuid: str) -> Device:
        """A new row; an index that was unreachable before is taken over."""
        taken = {device.index for device in self._devices if device.uuid and not device.parent_uuid}
        self._devices = [device for device in self._devices if device.uuid or device.index != index]
        while index in taken:
            index += 1
        device = Device(
            index=index,
            handle=handle,
            uuid=uuid,
            name=self._static("name", self._nvml.nvmlDeviceGetName, handle),
            pci=self._static("pci", lambda of: self._nvml.nvmlDeviceGetPciInfo(of).busId, handle),
        )
        self._devices.append(device)
        self._devices.sort(key=lambda entry: (entry.index, bool(entry.parent_uuid)))
        self._watch_xids(device)
        return device

    def _unreachable(self, index: int, error: Any) -> Device:
        """The driver lists a GPU that has no handle or no UUID."""
        device = next((entry for entry in self._devices if entry.index == index and not entry.parent_uuid), None)
        if classify(error.value) is Fault.REOPEN:
            raise error
        if device is None:
            device = Device(index=index, handle=None)
            self._devices.append(device)
            self._devices.sort(key=lambda entry: (entry.index, bool(entry.parent_uuid)))
        if classify(error.value) is Fault.LOST:
            device.lose(self._clock())
        else:
            device.error(self._clock(), f"driver error: {error}")
        return device

    def _answers(self, device: Device, handle: Any) -> bool:
        """Whether a GPU that was lost or needed a reset can be asked again."""
        for query in device.queries[:FIRST_QUERIES]:
            try:
                query.call(self._nvml, handle)
            except self._nvml.NVMLError as error:
                if classify(error.value) in {Fault.LOST, Fault.RESET, Fault.REOPEN}:
                    return False
        return True

    def _static(self, name: str, call: Callable[[Any], Any], handle: Any) -> str:
        try:
            return self._text(self._timed(name, call, handle))
        except self._nvml.NVMLError:
            return ""

    @staticmethod
    def _text(value: Any) -> str:
        """The binding returns bytes in some releases."""
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        return "".join(character for character in text if character.isprintable())

    # ----------------------------------------------------------------------------------------------- MIG

    def _look_for_mig(self, device: Device) -> None:
        """A partitioned card gets rows for its instances; they follow changes at the next look."""
        if "mig mode" in device.never:
            return
        nvml = self._nvml
        try:
            current, _pending = self._timed("mig mode", nvml.nvmlDeviceGetMigMode, device.handle)
        except nvml.NVMLError as error:
            if classify(error.value) is Fault.NEVER:
                device.never.add("mig mode")
            return
        if current and device.state != "mig":
            device.become_mig()
        elif not current and device.state == "mig":
            device.revive(device.handle)
        instances = self._mig_instances(device) if current else []
        others = [entry for entry in self._devices if entry.parent_uuid != device.uuid]
        known = {entry.uuid: entry for entry in self._devices if entry.parent_uuid == device.uuid}
        for instance in instances:
            kept = known.get(instance.uuid, instance)
            kept.handle, kept.note = instance.handle, instance.note
            others.append(kept)
        self._devices = sorted(others, key=lambda entry: (entry.index, bool(entry.parent_uuid)))

    def _mig_instances(self, parent: Device) -> list[Device]:
        nvml, found = self._nvml, []
        try:
            most = int(nvml.nvmlDeviceGetMaxMigDeviceCount(parent.handle))
        except nvml.NVMLError:
            return []
        for slot in range(most):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent.handle, slot)
                uuid = self._text(nvml.nvmlDeviceGetUUID(handle))
            except nvml.NVMLError:
                continue  # an empty slot answers "not found"
            instance = Device(
                index=parent.index,
                handle=handle,
                uuid=uuid,
                name=self._static("name", nvml.nvmlDeviceGetName, handle),
                pci=parent.pci,
                queries=calls.MIG_QUERIES,
                parent_uuid=parent.uuid,
                state="mig",
                note=f"MIG instance {slot} of GPU {parent.index}",
            )
            asked = {cell for query in calls.MIG_QUERIES for cell in query.cells}
            for query in calls.QUERIES:
                instance.missing.update({cell: "n/a (MIG)" for cell in query.cells if cell not in asked})
            instance.missing.update(dict.fromkeys(calls.PCIE_CELLS, "n/a (MIG)"))
            instance.never.add(PCIE)
            found.append(instance)
        return found

    # ----------------------------------------------------------------------------------------------- Xid

    def _open_events(self) -> None:
        """Xid errors come as events from now on; earlier ones are in the kernel log only."""
        try:
            self._events = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            self._events = None

    def _watch_xids(self, device: Device) -> None:
        if self._events is None:
            device.missing["xid"] = "no events in this driver"
            return
        try:
            self._nvml.nvmlDeviceRegisterEvents(device.handle, self._nvml.nvmlEventTypeXidCriticalError, self._events)
        except self._nvml.NVMLError as error:
            device.missing["xid"] = calls.PERMANENT.get(error.value, f"driver error: {error}")

    def _read_xids(self) -> None:
        """Take the events that have come, without waiting for one."""
        if self._events is None:
            return
        for _ in range(XID_MOST):
            try:
                event = self._timed("xid", self._nvml.nvmlEventSetWait, self._events, 0)
            except self._nvml.NVMLError as error:
                if classify(error.value) is Fault.LOST:
                    self._discover_due_s = 0.0
                return
            self._note_xid(event)

    def _note_xid(self, event: Any) -> None:
        key = _handle_key(event.device)
        for device in self._devices:
            if device.handle is not None and _handle_key(device.handle) == key:
                device.xid = int(event.eventData)
                device.xid_at_s = self._clock()
                if device.xid == XID_LOST:
                    device.lose(self._clock(), f"Xid {XID_LOST}")

    # -------------------------------------------------------------------------------------------- notes

    def _drop(self, error: Any) -> None:
        """NVML itself failed: keep the rows, say so, try again soon."""
        self._note = calls.open_note(error.value, str(error))
        for device in self._devices:
            if device.alive:
                device.error(self._clock(), "NVML stopped answering")
        self.close()
        self._events = None
        self._reopen_due_s = self._monotonic() + 1.0

    def _whole_note(self) -> str:
        if self._note:
            return self._note
        cards = [device for device in self._devices if not device.parent_uuid]
        if not cards and self._is_open:
            return "the driver lists no GPU: check that the container was given its GPUs"
        lost = [device for device in cards if device.state == "lost"]
        if lost:
            names = ", ".join(str(device.index) for device in lost)
            answering = len(cards) - len(lost)
            return f"GPU {names} is lost: a server that uses it will fail; {answering} of {len(cards)} GPUs answer"
        return ""


def _handle_key(handle: Any) -> int | None:
    """The address behind a device handle, to compare two of them."""
    return ctypes.cast(handle, ctypes.c_void_p).value
