"""Ending an engine: ask, wait, kill what is its own, and see that it has let go of ports and GPU memory."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from console.agent import ports, tree
from console.agent.identity import Identity
from console.agent.process import EngineProcess

ASK = "ask the engine to end"
DRAIN = "wait until its requests are done"
KILL = "kill what is left of it"
RELEASE = "wait for its port and GPU memory"
STEPS = (ASK, DRAIN, KILL, RELEASE)
_REMAINING = re.compile(r"Remaining number of requests (\d{1,9})")


class Report(Protocol):
    """Where progress is told."""

    def step(self, name: str, detail: str = "") -> None:
        """The step before is done, this one runs."""

    def detail(self, text: str) -> None:
        """More about the step that runs."""


class Silence:
    """Nobody watches."""

    def step(self, name: str, detail: str = "") -> None:
        """Nothing."""

    def detail(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may take; shorter in tests."""

    poll_s: float = 0.25
    leftovers_s: float = 5.0
    """Between the launcher's end and the kill of what it left behind: workers end by themselves in a moment."""
    kill_s: float = 20.0
    """A process that does not end so long after SIGKILL hangs in the kernel (a driver)."""
    gpu_s: float = 90.0
    """GPU memory is freed asynchronously; more than 30 s have been seen."""
    port_s: float = 20.0
    settle_s: float = 1.0
    """Age of a GPU reading that was begun after the end."""


@dataclass(slots=True)
class Ended:
    """How it went."""

    killed: int = 0
    """Processes that had to be killed."""
    problem: str = ""
    """What it has not let go of; empty when all is free."""


class Stopper:
    """Ends one engine.

    Args:
        process: the launcher; ``None`` when only leftovers are to be ended.
        root: the launcher's identity.
        known: processes seen to be the engine's.
        address: host and port of its HTTP server.
        gpu_pids: GPU memory by process.
        log_tail: the newest lines of its log.
        patience: how long what may take.
    """

    def __init__(
        self,
        process: EngineProcess | None,
        root: Identity,
        known: frozenset[Identity],
        *,
        address: tuple[str, int],
        gpu_pids: Callable[[], dict[int, int]],
        log_tail: Callable[[], tuple[str, ...]] = tuple,
        patience: Patience | None = None,
    ) -> None:
        self._process = process
        self._root = root
        self._members = known
        self._address = address
        self._gpu_pids = gpu_pids
        self._log_tail = log_tail
        self._patience = patience or Patience()

    async def stop(self, deadline_s: float, report: Report) -> Ended:
        """SIGTERM, a deadline, SIGKILL of exactly these processes, and the wait for what they held."""
        await self._look()
        if self._process is not None:
            report.step(ASK)
            self._process.signal(signal.SIGTERM)
            report.step(DRAIN)
            await self._drain(deadline_s, report)
        ended = Ended()
        living = await self._wait_for_leftovers()
        if living:
            report.step(KILL, _named(len(living)))
            ended.killed = len(living)
            living = await self._kill(living)
        if living:
            ended.problem = f"{_named(len(living))} do not end even by SIGKILL: pids {_pids(living)}"
        report.step(RELEASE)
        ended.problem = ended.problem or await self._wait_for_release(report)
        return ended

    async def _look(self) -> frozenset[Identity]:
        """The living members; everything ever seen is remembered for the wait for GPU memory."""
        watched = self._process is not None
        living = await asyncio.to_thread(tree.members, self._root, self._members, watched=watched)
        self._members |= living
        return living

    async def _drain(self, deadline_s: float, report: Report) -> None:
        process = self._process
        begun = time.monotonic()
        while process is not None and not process.ended.is_set():
            left = deadline_s - (time.monotonic() - begun)
            if left <= 0:
                report.detail(f"not ended after {deadline_s:g} s")
                return
            report.detail(f"{self._remaining()}killed after {left:.0f} s more")
            if not await process.wait(min(left, 1.0)):
                await self._look()
        report.detail("")

    def _remaining(self) -> str:
        for line in reversed(self._log_tail()):
            if found := _REMAINING.search(line):
                return f"{found[1]} request{'' if found[1] == '1' else 's'} left, "
        return ""

    async def _wait_for_leftovers(self) -> frozenset[Identity]:
        """What still lives; after a launcher that ended by itself its workers get a moment."""
        living = await self._look()
        if self._process is not None and not self._process.ended.is_set():
            return living
        deadline = time.monotonic() + self._patience.leftovers_s
        while living and time.monotonic() < deadline:
            await asyncio.sleep(self._patience.poll_s)
            living = await self._look()
        return living

    async def _kill(self, living: frozenset[Identity]) -> frozenset[Identity]:
        deadline = time.monotonic() + self._patience.kill_s
        while living and time.monotonic() < deadline:
            tree.kill(living)
            await asyncio.sleep(self._patience.poll_s)
            living = await self._look()
        return living

    async def _wait_for_release(self, report: Report) -> str:
        """Wait for port and memory.

        Returns:
            What is still held, empty when nothing is.
        """
        host, port = self._address
        deadline = time.monotonic() + self._patience.port_s
        while not _free(host, port):
            if time.monotonic() > deadline:
                return f"port {port} is still held by {ports.holder(port).line}"
            report.detail(f"port {port} is still held")
            await asyncio.sleep(self._patience.poll_s)
        report.detail("")
        pids = {one.pid for one in self._members}
        await asyncio.sleep(self._patience.settle_s if self._gpu_pids() else 0.0)
        deadline = time.monotonic() + self._patience.gpu_s
        while held := {pid: size for pid, size in self._gpu_pids().items() if pid in pids}:
            gib = sum(held.values()) / 2**30
            if time.monotonic() > deadline:
                return f"{gib:.1f} GiB of GPU memory are still held by ended processes ({_pids(held)}): see nvidia-smi"
            report.detail(f"{gib:.1f} GiB of GPU memory are still held")
            await asyncio.sleep(self._patience.poll_s)
        return ""


def _free(host: str, port: int) -> bool:
    try:
        return ports.is_free(host, port)
    except OSError:
        return True  # no address of this machine: nothing here can hold it


def _named(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _pids(processes: object) -> str:
    pids = sorted(one.pid if isinstance(one, Identity) else int(one) for one in processes)  # type: ignore[attr-defined]
    return ", ".join(map(str, pids[:10]))
