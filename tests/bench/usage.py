"""CPU and memory of a process from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds of the process so far, its threads included, its children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_bytes(pid: int) -> int:
    """Proportional set size: shared pages counted by share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass
class Usage:
    """What one process used over a span."""

    cpu_pct: float
    """Of one core."""
    memory_bytes: int
    growth_bytes: int
    """Memory at the end minus memory at the start of the span."""
    bytes_s: float = 0.0
    """To its terminal."""


class Meter:
    """Measures one process from :meth:`start` to :meth:`stop`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._from_s = time.perf_counter()
        self._cpu_s = cpu_s(pid)
        self._memory = memory_bytes(pid)

    def stop(self) -> Usage:
        """The usage since this meter was made."""
        passed = time.perf_counter() - self._from_s
        memory = memory_bytes(self.pid)
        return Usage(100 * (cpu_s(self.pid) - self._cpu_s) / passed, memory, memory - self._memory)
