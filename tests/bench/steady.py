"""A minute of looking on: CPU, memory and bytes to the terminal, console, agent and nvitop in the same minute."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from tests.bench import nvitop
from tests.bench.table import mib, ratio, show
from tests.bench.terminal import Terminal
from tests.bench.usage import Meter, Usage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.rig import Rig

WARM_UP_S = 10
SPAN_S = 60


def run(rig: Rig, library: Path | None) -> bytes:
    """Print usage over a minute; the last snapshot's JSON comes back for the codec benchmark."""
    monitor = nvitop.command() if library else None
    with contextlib.ExitStack() as stack:
        terminals = {"console": stack.enter_context(Terminal(rig.deck, rig.env))}
        if monitor and library:
            terminals["nvitop"] = stack.enter_context(Terminal(monitor, nvitop.environment(library, rig.gpus)))
        time.sleep(WARM_UP_S)
        snapshot = rig.client.snapshot()
        pids = {name: terminal.pid for name, terminal in terminals.items()}
        pids["agent"] = snapshot.agent.pid
        if snapshot.engine.pid:
            pids["simulated engine"] = snapshot.engine.pid
        meters = {name: Meter(pid) for name, pid in pids.items()}
        written = {name: terminal.bytes for name, terminal in terminals.items()}
        time.sleep(SPAN_S)
        usages = {name: meter.stop() for name, meter in meters.items()}
        for name, terminal in terminals.items():
            usages[name].bytes_s = (terminal.bytes - written[name]) / SPAN_S
    _show(rig.gpus, usages)
    return rig.client.snapshot_json()


def _show(gpus: int, usages: dict[str, Usage]) -> None:
    other = usages.get("nvitop")
    rows = [
        [
            name,
            f"{usage.cpu_pct:.2f} %",
            ratio(usage.cpu_pct, other.cpu_pct if other else None),
            mib(usage.memory_bytes),
            f"{usage.growth_bytes / 1024:+.0f} KiB",
            f"{usage.bytes_s / 1024:.1f} KiB/s" if usage.bytes_s else "",
        ]
        for name, usage in usages.items()
    ]
    head = ["process", "CPU of a core", "CPU / nvitop", "memory", "growth", "to terminal"]
    show(f"{SPAN_S} s with {gpus} GPUs, deck open (budget: console 1.5 %, agent 2 %, 10 KiB/s)", head, rows)
