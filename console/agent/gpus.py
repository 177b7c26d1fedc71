"""GPUs behind one interface: NVML on a real box, the simulated rig's own otherwise.

A source is read in a thread of its own, because a driver call may block for milliseconds or for ever;
:class:`GpuSampler` is that thread. The event loop only ever takes the newest reading.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from console import rig

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.paths import RigPaths

log = logging.getLogger(__name__)

Reading = tuple[tuple[rig.Gpu, ...], str, str]
"""GPUs, a note (why there are none, or what is wrong), the driver's version."""

PERIOD_S = 0.5
"""How often a source is asked; a source keeps slower periods for its expensive queries itself."""
HUNG_S = 3.0
"""A read that takes longer is a hung driver and is said so."""
RETRY_MAX_S = 30.0


class GpuSource(Protocol):
    """Where GPU readings come from. All three methods are called from one thread."""

    def open(self) -> None:
        """Prepare. A source that cannot work says why in the note of each reading; it does not raise."""

    def read(self) -> Reading:
        """The newest reading."""

    def close(self) -> None:
        """Let go of the driver."""


def open_source(*, simulated: bool, rig_paths: RigPaths) -> GpuSource:
    """The source of a rig. Nothing is opened yet.

    The simulated rig is imported by name when it is needed, so that a real box never loads it.
    """
    if simulated:
        module = importlib.import_module("console.simulate.gpus")
        source: GpuSource = module.open_source(rig_paths)
        return source
    from console.agent.nvml import NvmlSource

    return NvmlSource()


class GpuSampler:
    """Reads a source in a daemon thread and keeps the newest reading.

    Args:
        source: what is read.
        period_s: pause between the starts of two reads.
        clock: Unix seconds.
    """

    def __init__(
        self, source: GpuSource, *, period_s: float = PERIOD_S, clock: Callable[[], float] = time.time
    ) -> None:
        self.source = source
        self._period_s = period_s
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._reading: Reading = ((), "GPUs have not been read yet", "")
        self._busy_since_s: float | None = None
        self._failures = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Ask the thread to end; a hung driver is left behind, it dies with the process."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def latest(self) -> Reading:
        """The newest reading; its note says when the driver has stopped answering."""
        gpus, note, driver = self._reading
        busy = self._busy_since_s
        if busy is not None and (waited := self._clock() - busy) > HUNG_S:
            where = getattr(self.source, "in_call", "")
            hung = f"NVML has not answered for {waited:.0f} s" + (f" ({where})" if where else "")
            return gpus, f"{hung}; figures are as old as they say", driver
        return gpus, note, driver

    def _run(self) -> None:
        self._guarded(self.source.open)
        while not self._stopping.is_set():
            started = time.monotonic()
            if self._guarded(self._read_once):
                self._failures = 0
                pause = self._period_s
            else:
                self._failures += 1
                pause = min(RETRY_MAX_S, self._period_s * 2**self._failures)
            self._stopping.wait(max(0.0, started + pause - time.monotonic()))
        self._guarded(self.source.close)

    def _read_once(self) -> None:
        self._reading = self.source.read()

    def _guarded(self, call: Callable[[], None]) -> bool:
        """Run one call of the source; whatever it raises becomes a note, the thread lives on."""
        self._busy_since_s = self._clock()
        try:
            call()
        except Exception as error:  # the thread must outlive any fault of a driver's binding
            if self._failures == 0:
                log.warning("reading GPUs failed", exc_info=True)
            gpus, _, driver = self._reading
            self._reading = (gpus, f"reading GPUs failed: {type(error).__name__}: {error}", driver)
            return False
        finally:
            self._busy_since_s = None
        return True


def read_once(source: GpuSource) -> Reading:
    """Open, read once, close: for commands that look at the GPUs and leave."""
    source.open()
    try:
        return source.read()
    finally:
        with contextlib.suppress(Exception):
            source.close()


def used_bytes_by_pid(gpus: tuple[rig.Gpu, ...]) -> dict[int, int]:
    """GPU memory of each process over all GPUs; a process whose memory the driver hides counts as 0."""
    used: dict[int, int] = {}
    for gpu in gpus:
        for process in gpu.processes:
            used[process.pid] = used.get(process.pid, 0) + (process.used_bytes or 0)
    return used


def with_ranks(
    gpus: tuple[rig.Gpu, ...], ranks: dict[str, int], ours: frozenset[int], names: dict[int, str] | None = None
) -> tuple[rig.Gpu, ...]:
    """GPUs with the engine's rank by UUID, the engine's own processes marked, and all of them named."""
    known = names or {}
    marked = []
    for gpu in gpus:
        processes = tuple(
            msgspec.structs.replace(entry, ours=entry.pid in ours, name=entry.name or known.get(entry.pid, ""))
            for entry in gpu.processes
        )
        marked.append(msgspec.structs.replace(gpu, rank=ranks.get(gpu.uuid, gpu.rank), processes=processes))
    return tuple(marked)
