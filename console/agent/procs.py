"""The engine's process tree from /proc, and which tensor-parallel rank sits on which GPU.

/proc is read directly: a general process library looks at every process of the box for each question, which
on a busy host costs more than all other sampling together. Here a process that was seen before and is not
the engine's is not looked at again until the next full look.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from console import rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FULL_LOOK_S = 60.0
"""A pid that was reused by a new child is found by the next full look at the latest."""
TITLE = re.compile(r"^sglang::(?P<role>[a-z_]+?)(?:_(?P<suffix>(?:DP|PP|TP|EP|CP|ATTN)[A-Z0-9_]*))?$")
"""Titles SGLang gives its workers: ``sglang::scheduler_DP0_TP3_EP0``; no suffix with one rank."""
TP_RANK = re.compile(r"(?:^|_)TP(\d+)")
MOST_CMDLINE_BYTES = 4096


class Stat(NamedTuple):
    """What /proc/PID/stat tells of a process."""

    ppid: int
    start_ticks: int
    """Since boot; with the pid it names a process for good."""
    cpu_ticks: int
    rss_bytes: int


class ProcessTable:
    """Remembers what was seen, so that a look costs little.

    Args:
        proc: the root of the process file system.
        monotonic: seconds that never go back.
    """

    def __init__(self, proc: Path = Path("/proc"), monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc = str(proc)
        self._monotonic = monotonic
        self._parents: dict[int, int] = {}
        self._full_look_s = -FULL_LOOK_S
        self._cpu: dict[tuple[int, int], tuple[int, float]] = {}
        self._titles: dict[int, str] = {}
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def tree(self, root: int) -> tuple[rig.Process, ...]:
        """The process ``root`` and all below it, the launcher first; empty when it is gone."""
        now = self._monotonic()
        pids = self._descendants(root, now)
        cpu: dict[tuple[int, int], tuple[int, float]] = {}
        found = []
        for pid in pids:
            stat = self._stat(pid)
            if stat is None:
                continue
            key = (pid, stat.start_ticks)
            cpu[key] = (stat.cpu_ticks, now)
            before = self._cpu.get(key)
            share = None
            if before is not None and now > before[1]:
                share = 100.0 * (stat.cpu_ticks - before[0]) / self._ticks_per_s / (now - before[1])
            title = self._title(pid)
            role, rank = role_of(title, is_root=pid == root)
            found.append(rig.Process(pid, role, title, rank, stat.rss_bytes, share))
        self._cpu = cpu
        order = {"launcher": 0, "scheduler": 1, "detokenizer": 2}
        return tuple(sorted(found, key=lambda entry: (order.get(entry.role, 3), entry.rank or 0, entry.pid)))

    def name(self, pid: int) -> str:
        """A short name of any process, "" when it is gone or of another pid name space."""
        if pid not in self._titles:
            if len(self._titles) > 1000:
                self._titles.clear()
            self._titles[pid] = self._title(pid)
        return self._titles[pid]

    def _descendants(self, root: int, now: float) -> list[int]:
        try:
            pids = {int(name) for name in os.listdir(self._proc) if name.isdecimal()}  # noqa: PTH208 - 10x cheaper
        except OSError:
            return []
        if now - self._full_look_s >= FULL_LOOK_S:
            self._full_look_s = now
            self._parents.clear()
        self._parents = {pid: parent for pid, parent in self._parents.items() if pid in pids}
        for pid in pids - self._parents.keys():
            if (stat := self._stat(pid)) is not None:
                self._parents[pid] = stat.ppid
        children: dict[int, list[int]] = {}
        for pid, parent in self._parents.items():
            children.setdefault(parent, []).append(pid)
        found, waiting = [], [root] if root in pids else []
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting.extend(children.get(pid, ()))
        return found

    def _stat(self, pid: int) -> Stat | None:
        """Fields 4, 14, 15, 22 and 24 of proc_pid_stat(5); the name before them may hold spaces and brackets."""
        try:
            with open(f"{self._proc}/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot
                fields = file.read().rpartition(b")")[2].split()
            return Stat(
                ppid=int(fields[1]),
                start_ticks=int(fields[19]),
                cpu_ticks=int(fields[11]) + int(fields[12]),
                rss_bytes=int(fields[21]) * self._page_bytes,
            )
        except (OSError, ValueError, IndexError):
            return None

    def _title(self, pid: int) -> str:
        """Command line up to its empty tail; workers replace theirs by a title."""
        try:
            with open(f"{self._proc}/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - hot
                raw = file.read(MOST_CMDLINE_BYTES)
        except OSError:
            return ""
        words = raw.decode(errors="replace").split("\0")
        if words[0].startswith("sglang::"):
            return _printable(words[0].strip())
        module = words.index("-m") + 1 if "-m" in words else 0
        if 0 < module < len(words):
            return _printable(f"{Path(words[0]).name} -m {words[module]}")
        return _printable(Path(words[0]).name)


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:120]


def role_of(title: str, *, is_root: bool) -> tuple[str, int | None]:
    """Role and tensor-parallel rank of a process by the title SGLang gave it."""
    match = TITLE.match(title)
    if match is None:
        return ("launcher" if is_root else "helper"), None
    if match["role"] == "scheduler":
        rank = TP_RANK.search(match["suffix"] or "")
        return "scheduler", int(rank[1]) if rank else 0
    if match["role"] == "detokenizer":
        return "detokenizer", None
    return "helper", None


# --------------------------------------------------------------------------------------- ranks on GPUs


def ranks_by_pid(gpus: Iterable[rig.Gpu], processes: Iterable[rig.Process]) -> dict[str, int]:
    """GPU UUID -> rank, from who holds memory where: true whatever CUDA_VISIBLE_DEVICES says.

    On a GPU with several ranks the one that holds most memory counts.
    """
    rank_of_pid = {entry.pid: entry.rank for entry in processes if entry.rank is not None}
    ranks: dict[str, int] = {}
    for gpu in gpus:
        held = [entry for entry in gpu.processes if entry.pid in rank_of_pid]
        if held and gpu.uuid:
            most = max(held, key=lambda entry: entry.used_bytes or 0)
            ranks[gpu.uuid] = rank_of_pid[most.pid]
    return ranks


def ranks_by_order(
    gpus: Iterable[rig.Gpu], *, tp: int, visible: str | None = None, first: int = 0, step: int = 1
) -> dict[str, int]:
    """GPU UUID -> rank as SGLang would place them, for a container that hides pids from NVML.

    Args:
        gpus: all rows.
        tp: tensor-parallel ranks.
        visible: CUDA_VISIBLE_DEVICES of the engine, ``None`` when it is not set.
        first: ``--base-gpu-id``.
        step: ``--gpu-id-step``.

    Returns:
        Rank ``r`` on the ``first + r * step``-th visible device (``engine.py`` of SGLang); empty when the
        variable names something unknown, because a wrong rank is worse than none.
    """
    whole = [gpu for gpu in gpus if not gpu.uuid.startswith("MIG-")]
    order = whole if visible is None else visible_gpus(whole, visible)
    ranks: dict[str, int] = {}
    for rank in range(tp):
        place = first + rank * step
        if not 0 <= place < len(order):
            return {}
        ranks[order[place].uuid] = rank
    return ranks


def visible_gpus(gpus: list[rig.Gpu], visible: str) -> list[rig.Gpu]:
    """The GPUs CUDA_VISIBLE_DEVICES names, in its order; CUDA stops at the first name it does not know."""
    found: list[rig.Gpu] = []
    by_index = {gpu.index: gpu for gpu in gpus}
    for name in (part.strip() for part in visible.split(",")):
        if name.isdecimal():
            gpu = by_index.get(int(name))
        else:
            fits = [entry for entry in gpus if name.startswith("GPU-") and entry.uuid.startswith(name)]
            gpu = fits[0] if len(fits) == 1 else None
        if gpu is None:
            break
        found.append(gpu)
    return found
