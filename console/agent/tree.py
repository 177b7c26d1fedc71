"""The engine's own processes, found by descent, session and memory of earlier looks - never by name."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from console.agent import identity
from console.agent.identity import Entry, Identity


def members(root: Identity, known: Iterable[Identity] = (), *, watched: bool = True) -> frozenset[Identity]:
    """Every living process of the engine.

    Args:
        root: the launcher, leader of the session that the engine was started in.
        known: processes seen to be the engine's earlier; those that still live belong to it, whoever their parent is now.
        watched: whether the launcher was watched until now. If it was not, a session of its number may be
            somebody else's, and only descent and ``known`` count.
    """
    here = identity.boot_id()
    if root.boot_id and root.boot_id != here:
        return frozenset()
    by_pid = {found.pid: found for found in identity.table() if not found.ended}
    launcher = by_pid.get(root.pid)
    reused = launcher is not None and launcher.start_ticks != root.start_ticks
    mine = {one.pid for one in known if (found := by_pid.get(one.pid)) and found.start_ticks == one.start_ticks}
    if launcher is not None and not reused:
        mine.add(root.pid)
    if not reused and (watched or launcher is not None):
        mine |= {
            found.pid
            for found in by_pid.values()
            if found.session == root.pid and found.start_ticks >= root.start_ticks
        }
    _add_descendants(mine, by_pid)
    return frozenset(Identity(pid, by_pid[pid].start_ticks, here) for pid in mine)


def _add_descendants(mine: set[int], by_pid: dict[int, Entry]) -> None:
    children: dict[int, list[int]] = {}
    for found in by_pid.values():
        children.setdefault(found.ppid, []).append(found.pid)
    waiting = list(mine)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in mine:
                mine.add(child)
                waiting.append(child)


def kill(processes: Iterable[Identity]) -> int:
    """SIGKILL to each that still is who it was.

    Returns:
        How many were signalled.
    """
    return sum(identity.send(one, signal.SIGKILL) for one in processes)
