"""A start goes wrong: its cause is told in the log's own words, and the next start works."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import time
from collections.abc import Iterator

from console import rig
from console.agent import identity
from profiles import store
from tests.agent.fake_engine import free_port
from tests.faults.kinds import Family, Kind, Outcome, check
from tests.faults.rig import ALIVE, FaultRig, simulated, until


def _down(on: FaultRig) -> None:
    if on.agent_pid is None:
        on.start_agent()
    if on.state in ALIVE:
        on.do("stop")


def _fails(on: FaultRig, operation: rig.Operation, *words: str) -> None:
    """The launch fails, says why, and is recorded so."""
    done = on.ended(operation)
    check(done.state is rig.OperationState.FAILED, f"the launch fails, it is {done.state}")
    check(any(word in done.message for word in words), f"the cause is told: {done.message!r}")
    until(lambda: (on.recorded(operation) or {}).get("state") == "failed", "the failure is recorded", 5.0)


def faulty(fault: str, *words: str):
    """A round of a start that dies of a fault of the simulated engine."""

    def round_(on: FaultRig, _chance: random.Random) -> Outcome:
        _down(on)
        begun = time.monotonic()
        _fails(on, on.begin("launch", profile=on.profile("faulty", "--sim-fault", fault)), *words)
        noticed_s = time.monotonic() - begun
        check(on.state is rig.EngineState.DEAD, "the engine is shown as dead")
        return Outcome(noticed_s)

    return round_


def killed(on: FaultRig, chance: random.Random) -> Outcome:
    """SIGKILL to the launcher at a random moment of its start."""
    _down(on)
    operation = on.begin("launch", profile=on.profile("slow", "--sim-fault", "slow_start:8"))
    until(lambda: on.snapshot().engine.pid, "its launcher runs", 5.0)
    time.sleep(1.5 * chance.random())
    if not on.snapshot().engine.pid or on.state is rig.EngineState.READY:
        on.ended(operation)
    begun = time.monotonic()
    identity.send(on.engine, signal.SIGKILL)
    noticed_s = until(lambda: on.state is rig.EngineState.DEAD, "the engine is shown as dead", 8.0)
    check(time.monotonic() - begun < 8.0, "it is noticed soon")
    done = on.ended(operation)
    check(done.message, "the operation says how it ended")
    return Outcome(noticed_s)


@contextlib.contextmanager
def _held(port: int) -> Iterator[socket.socket]:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", port))
        holder.listen()
        yield holder


def port_taken(on: FaultRig, _chance: random.Random) -> Outcome:
    """The port is taken before the launch: a simulated engine is given another one, whoever holds it is left alone."""
    _down(on)
    on.port = free_port()
    with _held(on.port) as holder:
        begun = time.monotonic()
        done = on.do("launch", profile=on.profile("taken"))
        noticed_s = time.monotonic() - begun
        check(done.state is rig.OperationState.DONE, f"it is launched beside it: {done.message}")
        check(f":{on.port}" not in on.snapshot().engine.url, "on another port")
        check(holder.fileno() >= 0 and holder.getsockname()[1] == on.port, "the holder keeps its port")
    return Outcome(noticed_s)


def port_lost(on: FaultRig, _chance: random.Random) -> Outcome:
    """Somebody takes the port while the engine starts: SGLang never ends of it, the agent ends it and says why."""
    _down(on)
    on.port = free_port()
    name = on.profile("late", "--sim-fault", "slow_start:4")
    operation = on.begin("launch", profile=name)
    until(lambda: on.snapshot().engine.pid, "its launcher runs", 5.0)
    with _held(on.port):
        begun = time.monotonic()
        _fails(on, operation, "address already in use", "port")
        noticed_s = time.monotonic() - begun
    return Outcome(noticed_s)


def half_profile(on: FaultRig, chance: random.Random) -> Outcome:
    """A profile that was cut while it was written: one line, the engine that runs and the other profiles untouched."""
    on.up()
    name = on.profile("half")
    path = store.path(name)
    raw = path.read_bytes()
    path.write_bytes(raw[: chance.randrange(1, len(raw) - 1)])
    begun = time.monotonic()
    try:
        preview = on.client.preview("restart", {})
        check(not preview.refused, f"the running engine can be restarted: {preview.refused}")
        refused = on.client.preview("apply", {"profile": name})
        check("\n" not in refused.refused, "one line")
        listing = store.listing()
        names = [entry.name for entry in listing.entries]
        check(f"{on.name}-sim" in names, "the other profiles are listed")
        check(name in names or listing.problems, "a profile that cannot be read is a problem that is told")
    finally:
        path.unlink()
    return Outcome(time.monotonic() - begun)


FAILED = "from the launch to its failure"
FAMILY = Family(
    "start",
    simulated,
    (
        Kind("GPU memory at graph capture", 8, FAILED, faulty("oom_at_graph_capture", "memory"), harms=True),
        Kind("drafter of a wrong shape", 6, FAILED, faulty("drafter_wrong_shape", "size", "shape"), harms=True),
        Kind("engine -9 during its start", 10, "until the engine is shown as dead", killed, harms=True),
        Kind("port taken", 6, "from the launch to ready on another", port_taken, harms=True),
        Kind("port taken during the start", 4, "from the taking to the failure", port_lost, harms=True),
        Kind("half-written profile", 12, "until it is refused", half_profile),
    ),
)
