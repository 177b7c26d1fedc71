"""The rig that is hurt: an agent, a simulated engine, and a note of every process, so that none is left."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from console import rig
from console.agent import identity, record, tree
from console.agent.client import AgentClient, AgentGoneError
from console.agent.identity import Identity
from console.errors import ConsoleError
from console.paths import RigPaths
from profiles import store
from profiles.schema import EngineSection, Environment, Profile, Speculation
from tests.agent.fake_engine import free_port

SPEED = "20"
"""Of the simulated engine's start and end: a start takes a good second, most of it Python's own."""
ALIVE = {rig.EngineState.READY, rig.EngineState.BUSY, rig.EngineState.PAUSED, rig.EngineState.STARTING}


class TooLateError(AssertionError):
    """Something that was waited for did not happen."""


def until(condition: Callable[[], object], what: str, timeout_s: float = 15.0, pause_s: float = 0.02) -> float:
    """Seconds until something is so.

    Raises:
        TooLateError: it is not within the time.
    """
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > timeout_s:
            raise TooLateError(f"not within {timeout_s:g} s: {what}")
        time.sleep(pause_s)
    return time.monotonic() - begun


def lives(known: Identity) -> bool:
    """Whether it is still this process."""
    return not identity.why_gone(known)


def known_process(pid: int | None) -> Identity:
    """The identity of a process that must be there."""
    found = identity.identify(pid) if pid else None
    if found is None:
        raise TooLateError(f"no process {pid}")
    return found


class FaultRig:
    """One rig below ``SGLANG_CONSOLE_HOME``, which the caller has set.

    Args:
        name: of the rig.
        folder: for files that are no part of the rig.
        simulated: whether its GPUs and engines are.
        env: more environment of the agent.
        engine_args: of every engine that is launched here.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        simulated: bool = True,
        env: dict[str, str] | None = None,
        engine_args: tuple[str, ...] = (),
    ) -> None:
        self.name, self.folder, self.simulated = name, folder, simulated
        self.env = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        self.paths = RigPaths(name)
        self.client = AgentClient(self.paths)
        self.engine_args = engine_args
        self.port = free_port()
        self.seen: set[Identity] = set()
        """Every process of this rig that was noticed."""

    # ------------------------------------------------------------------------------------------ agent

    def agent_command(self) -> list[str]:
        """What starts an agent of this rig in the foreground."""
        command = [sys.executable, "-m", "console.agent", "--rig", self.name]
        return command + (["--simulated"] if self.simulated else [])

    def start_agent(self, **env: str) -> int:
        """Start an agent and wait until it answers; its pid."""
        self.paths.make()
        started = subprocess.Popen(
            [*self.agent_command(), "--detach"],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.wait(20)
        until(lambda: self.agent_pid is not None, "an agent answers", pause_s=0.01)
        return self.agent.pid

    @property
    def agent_pid(self) -> int | None:
        """Of the agent that answers; ``None``: none does."""
        try:
            pid = int(self.client.ping()["pid"])
        except AgentGoneError:
            return None
        if (found := identity.identify(pid)) is not None:
            self.seen.add(found)
        return pid

    @property
    def agent(self) -> Identity:
        """The agent that answers."""
        return known_process(self.agent_pid)

    def kill_agent(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the agent and wait for its end."""
        agent = self.agent
        identity.send(agent, number)
        until(lambda: not lives(agent), "the agent has ended", pause_s=0.005)

    def snapshot(self) -> rig.Snapshot:
        """The newest one; processes in it are noted for the clean-up."""
        found = self.client.snapshot()
        for pid in (found.engine.pid, *(entry.pid for entry in found.engine.processes)):
            if pid and (known := identity.identify(pid)) is not None:
                self.seen.add(known)
        return found

    # ------------------------------------------------------------------------------------------ engine

    def profile(self, name: str = "", *args: str, tp: int = 2, stop_timeout_s: float = 5.0, env: Any = None) -> str:
        """Save a profile of the simulated engine; its name."""
        made = Profile(
            name=name or f"{self.name}-sim",
            engine=EngineSection(
                module="console.simulate",
                simulated=True,
                model="sim/kimi-k2.5",
                tp=tp,
                port=self.port,
                env=Environment(set={"SGLANG_SIM_SPEED": SPEED, **(env or {})}),
                args=("--sim-clients", "2", "--sim-no-policy", *self.engine_args, *args),
                stop_timeout_s=stop_timeout_s,
            ),
            speculation=Speculation(
                algorithm="EAGLE3", drafter="sim/own-37k", steps=2, topk=1, candidate_steps=(0, 1, 2, 3)
            ),
        )
        store.save(made, overwrite=True)
        return made.name

    def begin(self, kind: str, **args: Any) -> rig.Operation:
        """Begin an operation."""
        return self.client.operate(kind, args, "fault suite")

    def ended(self, operation: rig.Operation, timeout_s: float = 25.0) -> rig.Operation:
        """Wait for the end of an operation."""

        def now() -> rig.Operation | None:
            found = self.snapshot().operation
            return found if found is not None and found.id == operation.id else None

        until(lambda: (o := now()) is not None and o.ended_at_s is not None, f"the end of {operation.kind}", timeout_s)
        found = now()
        assert found is not None
        return found

    def do(self, kind: str, **args: Any) -> rig.Operation:
        """An operation from its beginning to its end."""
        return self.ended(self.begin(kind, **args))

    @property
    def engine(self) -> Identity:
        """The engine's launcher, which must live."""
        return known_process(self.snapshot().engine.pid)

    @property
    def state(self) -> rig.EngineState:
        """Of the engine."""
        return self.snapshot().engine.state

    def is_ready(self) -> bool:
        """Whether an agent answers and says that the engine serves."""
        try:
            return self.state is rig.EngineState.READY
        except AgentGoneError:
            return False

    def up(self, profile: str = "") -> Identity:
        """The engine, launched unless it serves already."""
        if self.agent_pid is None:
            self.start_agent()
        if self.state not in ALIVE:
            done = self.do("launch", profile=profile or self.profile())
            if done.state is not rig.OperationState.DONE:
                raise TooLateError(f"the engine does not start: {done.message}")
        until(self.is_ready, "the engine serves", 20.0)
        return self.engine

    def sim_fault(self, kind: str, argument: float = 0, *, clear: bool = False) -> None:
        """Tell the simulated engine to do something wrong, or to end it."""
        import urllib.request

        import msgspec

        body = msgspec.json.encode({"kind": kind, "argument": argument, "clear": clear})
        request = urllib.request.Request(
            f"{self.snapshot().engine.url}/sim/fault", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()

    # ------------------------------------------------------------------------------------------ record

    def told(self, *words: str, since_s: float = 0.0) -> bool:
        """Whether an event since then holds one of the words."""
        return any(word in event.text for event in self.snapshot().events for word in words if event.at_s >= since_s)

    def recorded(self, operation: rig.Operation) -> dict[str, Any] | None:
        """The journal's row of an operation."""
        rows = record.read_history(self.paths.history, "operations", operation.started_at_s - 1)
        return next((row for row in rows if row["id"] == operation.id), None)

    def newest_sample_s(self, before_s: float) -> float | None:
        """Time of the newest snapshot in the journal before a moment."""
        found = record.read_samples(self.paths.history, before_s - 10, before_s)
        return found[-1].at_s if found else None

    def longest_gap_s(self, since_s: float, until_s: float) -> float:
        """Longest time between two samples in the journal, both ends counted."""
        times = [since_s, *(found.at_s for found in record.read_samples(self.paths.history, since_s, until_s)), until_s]
        return max(after - before for before, after in itertools.pairwise(times))

    # ------------------------------------------------------------------------------------------ end

    def note(self, pid: int) -> Identity:
        """Note a process for the clean-up."""
        found = known_process(pid)
        self.seen.add(found)
        return found

    def repair(self) -> None:
        """After a failed round: everything of it is ended and the rig begins anew, its files kept aside."""
        self.end()
        if self.paths.state.exists():
            self.paths.state.rename(self.paths.state.with_name(f"state.json.failed-{time.monotonic_ns()}"))

    def end(self) -> None:
        """End every process that was ever seen of this rig, and those of their sessions."""
        with contextlib.suppress(ConsoleError, AssertionError, OSError):
            self.snapshot()
            self.note(self.agent.pid)
        for known in list(self.seen):
            members = tree.members(known, frozenset()) if lives(known) else frozenset()
            for one in (known, *members):
                identity.send(one, signal.SIGCONT)
                identity.send(one, signal.SIGKILL)
        until(lambda: not any(lives(known) for known in self.seen), "every process of the rig has ended", 5.0)


@contextlib.contextmanager
def simulated(name: str, folder: Path) -> Iterator[FaultRig]:
    """A simulated rig, ended whatever happens."""
    made = FaultRig(name, folder)
    try:
        yield made
    finally:
        made.end()
