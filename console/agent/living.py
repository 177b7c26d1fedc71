"""One living engine, followed: its log, its start, its pauses, its processes, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from console import rig
from console.agent import tree
from console.agent.identity import Identity
from console.agent.logtail import LogTail
from console.agent.process import EngineProcess
from console.agent.watch import StartWatch
from console.errors import ConsoleError

log = logging.getLogger(__name__)

PAUSES_PERIOD_S = 2.0
MEMBERS_PERIOD_S = 15.0
MEMBERS_STARTING_S = 2.0
LEFTOVERS_S = 3.0
"""Workers of a launcher that was killed end with it, in a moment."""


class Owner(Protocol):
    """Who is told of what happens to it."""

    def on_first_token_asked(self) -> None:
        """The server takes requests; one token is asked for."""

    def on_ready(self, note: str) -> None:
        """The first token is there."""

    def on_paused(self, *, paused: bool) -> None:
        """Generation was paused or continued."""

    def on_members(self, launcher: Identity, members: frozenset[Identity]) -> None:
        """Its processes have changed."""

    def on_leftovers(self, launcher: Identity, members: frozenset[Identity]) -> None:
        """It has ended for some time, and these of its processes, if any, have not."""

    async def on_stuck(self, failure: rig.Failure) -> None:
        """It has failed and does not end by itself."""

    async def on_end(self) -> None:
        """The launcher has ended."""

    def on_fault(self, where: str, error: BaseException) -> None:
        """The agent's own fault."""


@dataclass(frozen=True, slots=True)
class Start:
    """What following a start needs."""

    ready: bool
    """It was ready before: nothing is waited for."""
    give_up_s: float = 0.0


class LivingEngine:
    """Follows one launcher until it ends or the agent does.

    Args:
        process: the launcher.
        tail: its log, followed already.
        client: makes HTTP clients of it.
        owner: told of everything.
    """

    def __init__(self, process: EngineProcess, tail: LogTail, client: Any, owner: Owner) -> None:
        self.process = process
        self.tail = tail
        self.ready = False
        self.members: frozenset[Identity] = frozenset()
        self._client = client
        self._owner = owner
        self._paused = False
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, start: Start, known: frozenset[Identity]) -> None:
        """Begin.

        Args:
            start: whether and how to wait for its first token.
            known: processes seen to be its own earlier.
        """
        self.ready = start.ready
        self.members = known
        self._spawn(self._follow_end(), "end")
        self._spawn(self._follow_members(), "members")
        self._spawn(self._follow_pauses() if start.ready else self._follow_start(start.give_up_s), "start")

    async def close(self) -> None:
        """Follow no longer; the engine is not touched. May be called by one of the owner's answers."""
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.process.release()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"engine {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("following the engine failed", exc_info=error)
            self._owner.on_fault(task.get_name(), error)

    async def _follow_start(self, give_up_s: float) -> None:
        watch = StartWatch(self._client(), self.tail, give_up_s)
        async with watch:
            failure = await watch.until_listening()
            if failure is None:
                self._owner.on_first_token_asked()
                note = await watch.first_token()
        if failure is not None:
            await self._owner.on_stuck(failure)
            return
        self.ready = True
        self._owner.on_ready(note)
        await self._follow_pauses()

    async def _follow_pauses(self) -> None:
        """Ask whether the server takes requests: cheap, and it alone tells a paused engine from an idle one."""
        async with self._client() as client:
            while True:
                with contextlib.suppress(ConsoleError):
                    paused = not await client.ready()
                    if paused is not self._paused:
                        self._paused = paused
                        self._owner.on_paused(paused=paused)
                await asyncio.sleep(PAUSES_PERIOD_S)

    async def _follow_members(self) -> None:
        """Write down which processes are the engine's, so that they are known when their parents are gone."""
        while not self.process.ended.is_set():
            found = await asyncio.to_thread(tree.members, self.process.identity, self.members)
            if found and found != self.members:
                self.members = found
                self._owner.on_members(self.process.identity, found)
            await asyncio.sleep(MEMBERS_PERIOD_S if self.ready else MEMBERS_STARTING_S)

    async def _follow_end(self) -> None:
        await self.process.ended.wait()
        # The pid was watched until now: its session cannot be anybody else's yet.
        found = await asyncio.to_thread(tree.members, self.process.identity, self.members)
        self.members = found
        self._owner.on_members(self.process.identity, found)
        await self._owner.on_end()
        await asyncio.sleep(LEFTOVERS_S)
        left = await asyncio.to_thread(tree.members, self.process.identity, found, watched=False)
        self._owner.on_leftovers(self.process.identity, left)
